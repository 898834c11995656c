"""Nodes of a plan as keys of tables."""

from __future__ import annotations

from typing import TypeVar

_Kind = TypeVar("_Kind")


def remembered(kind: type[_Kind]) -> type[_Kind]:
    """Plans share parts, and are keys of many tables: a node computes its hash once, looks at its
    parts only when another node might be equal, and remembers a node that was."""
    compute, compare = kind.__hash__, kind.__eq__

    def known(self: _Kind) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = compute(self)
        return found

    def same(self: _Kind, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        one, two = _first(self), _first(other)
        if one is two:
            return True
        if not compare(self, other):
            return False
        first, later = sorted((one, two), key=id)  # two threads must not point at each other's node
        later.__dict__["_equal"] = first
        return True

    kind.__hash__ = known  # type: ignore[assignment, method-assign]
    kind.__eq__ = same  # type: ignore[assignment, method-assign]
    return kind


def _first(node: object) -> object:
    """The node that stands for all that were found equal to it."""
    while (equal := node.__dict__.get("_equal")) is not None:
        node = equal
    return node

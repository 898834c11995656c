"""Nodes as dictionary keys: hashes are computed once, equal nodes are recognized quickly."""

from __future__ import annotations

from typing import TypeVar

_Kind = TypeVar("_Kind")


def cached_hash(kind: type[_Kind]) -> type[_Kind]:
    """Plans share subplans, and subplans are keys of dictionaries: a node computes its hash once,
    compares its fields only if the hashes are equal, and links to a node that it was equal to."""
    compute, compare = kind.__hash__, kind.__eq__

    def cached(self: _Kind) -> int:
        value: int | None = self.__dict__.get("_hash")
        if value is None:
            value = self.__dict__["_hash"] = compute(self)
        return value

    def equal(self: _Kind, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        mine, theirs = _representative(self), _representative(other)
        if mine is theirs:
            return True
        if not compare(self, other):
            return False
        first, second = sorted((mine, theirs), key=id)  # two threads must not link in a cycle
        second.__dict__["_equal"] = first
        return True

    kind.__hash__ = cached  # type: ignore[assignment, method-assign]
    kind.__eq__ = equal  # type: ignore[assignment, method-assign]
    return kind


def _representative(node: object) -> object:
    """The node that represents all those found equal to it."""
    while (linked := node.__dict__.get("_equal")) is not None:
        node = linked
    return node

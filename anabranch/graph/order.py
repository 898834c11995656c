"""Order in a dependency graph: plain functions over `table -> tables it reads`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T", bound=Hashable)


class Part(Hashable, Protocol):
    """Some tables that are taken as one node."""

    @property
    def members(self) -> tuple[Any, ...]: ...


P = TypeVar("P", bound=Part)


class Cycle(ValueError):
    """Tables that read each other; `path` starts and ends with the same table."""

    def __init__(self, path: list[object]) -> None:
        super().__init__(" -> ".join(str(step) for step in path))
        self.path = path


def topological(reads: Mapping[T, Iterable[T]]) -> list[T]:
    """Every key after all keys it reads; ties keep the mapping's order. Raises Cycle."""
    done: dict[T, None] = {}
    for start in reads:
        # An explicit stack: a chain of thousands of tables must not end in a RecursionError.
        path: dict[T, None] = {}
        stack: list[tuple[T, bool]] = [(start, False)]
        while stack:
            node, left = stack.pop()
            if left:
                path.pop(node, None)
                done[node] = None
                continue
            if node in done or node not in reads:
                continue
            if node in path:
                steps = list(path)
                raise Cycle([*steps[steps.index(node) :], node])
            path[node] = None
            stack.append((node, True))
            stack.extend((upstream, False) for upstream in sorted(reads[node], key=str))
    return list(done)


def closure(starts: Iterable[T], reads: Mapping[T, Iterable[T]]) -> set[T]:
    """The starts and everything they read, directly or through others."""
    seen: set[T] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(reads.get(node, ()))
    return seen


def dependants(reads: Mapping[T, Iterable[T]]) -> dict[T, set[T]]:
    """The graph turned round: who reads a table directly."""
    back: dict[T, set[T]] = {}
    for node, upstreams in reads.items():
        for upstream in upstreams:
            back.setdefault(upstream, set()).add(node)
    return back


def reads_among(parts: Sequence[P], reads: Mapping[T, Iterable[T]]) -> dict[P, set[P]]:
    """Which of the parts of a graph, such as groups or components, each one reads."""
    home = {name: part for part in parts for name in part.members}
    return {
        part: {
            home[up]
            for name in part.members
            for up in reads.get(name, ())
            if up in home and home[up] is not part
        }
        for part in parts
    }


def connected(nodes: Iterable[T], reads: Mapping[T, Iterable[T]]) -> list[list[T]]:
    """Split nodes into sets that are joined by an edge among themselves, in the nodes' order."""
    inside = list(nodes)
    members = set(inside)
    both: dict[T, set[T]] = {node: set() for node in inside}
    for node in inside:
        for upstream in reads.get(node, ()):
            if upstream in members:
                both[node].add(upstream)
                both[upstream].add(node)
    place = {node: at for at, node in enumerate(inside)}
    parts: list[list[T]] = []
    seen: set[T] = set()
    for node in inside:
        if node not in seen:
            part = closure([node], both)
            seen |= part
            parts.append(sorted(part, key=place.__getitem__))
    return parts

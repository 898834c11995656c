"""Components of a dependency graph: stream tables that reach each other, and the order among them.

Two stream tables are in one component when each reaches the other.  Taking every component as one node
(the condensation) leaves no cycle, so components always have an order, upstreams first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from anabranch.graph.order import T


@dataclass(frozen=True)
class Component(Generic[T]):
    """Members by name; `cyclic` when they read each other, or the only one reads itself."""

    members: tuple[T, ...]
    cyclic: bool

    @property
    def id(self) -> T:
        """The smallest member: stays the same as long as that member does."""
        return self.members[0]


def components(reads: Mapping[T, Iterable[T]]) -> list[Component[T]]:
    """The components of the stream tables (keys), each after those it reads; see `ranked`.

    Depends on names alone, not on the order of the mapping.  Base sources are left out.
    """
    names = sorted(reads, key=str)
    place = {name: at for at, name in enumerate(names)}
    edges = [sorted({place[up] for up in reads[name] if up in place}) for name in names]
    return [
        Component(
            tuple(names[at] for at in found), cyclic=len(found) > 1 or found[0] in edges[found[0]]
        )
        for found in ranked(edges)
    ]


def condensation(reads: Mapping[T, Iterable[T]]) -> dict[Component[T], tuple[Component[T], ...]]:
    """Which other components a component reads; keys in order, upstreams first."""
    order = components(reads)
    home = {name: part for part in order for name in part.members}
    place = {part: at for at, part in enumerate(order)}
    return {
        part: tuple(
            sorted(
                {home[up] for name in part.members for up in reads[name] if up in home} - {part},
                key=place.__getitem__,
            )
        )
        for part in order
    }


def component_ids(reads: Mapping[T, Iterable[T]]) -> dict[T, T]:
    """Members of cyclic components, each with the id of its component; others are not in it."""
    return {name: part.id for part in components(reads) if part.cyclic for name in part.members}


def ranked(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected sets by depth, then by smallest node: upstreams first, siblings together.

    depth(set) = 1 + the greatest depth of the sets its edges lead to.  Nothing beside or below a set
    has a say in its depth, so that new tables do not shuffle the order of the old ones.
    """
    found = strong(edges)
    depth = [0] * len(edges)
    for nodes in found:
        # The set itself has depth 0 yet, and so adds nothing.
        deepest = 1 + max((depth[up] for node in nodes for up in edges[node]), default=0)
        for node in nodes:
            depth[node] = deepest
    return sorted(map(sorted, found), key=lambda nodes: (depth[nodes[0]], nodes[0]))


def strong(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected sets of the nodes 0, 1, ..., each after the sets its edges lead to.

    Tarjan: low(v) is the smallest visit number that v reaches among open nodes; v closes a set when
    low(v) is its own number.
    """
    number = [0] * len(edges)  # of the visit, from 1
    low = [0] * len(edges)
    is_open = [False] * len(edges)
    opened: list[int] = []
    found: list[list[int]] = []
    visits = 0
    for start in range(len(edges)):
        # An explicit stack: a chain of thousands of tables must not end in a RecursionError.
        stack = [] if number[start] else [(start, iter(edges[start]))]
        while stack:
            node, rest = stack[-1]
            if not number[node]:
                visits += 1
                number[node] = low[node] = visits
                is_open[node] = True
                opened.append(node)
            for target in rest:
                if not number[target]:
                    stack.append((target, iter(edges[target])))
                    break
                if is_open[target]:
                    low[node] = min(low[node], number[target])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    found.append([])
                    while is_open[node]:
                        member = opened.pop()
                        is_open[member] = False
                        found[-1].append(member)
    return found

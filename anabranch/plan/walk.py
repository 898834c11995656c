"""Going through a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.cache import cached
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Recursive, RecursiveRef, Scan, TopK, Version, Window


def walk(node: Node, until: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """The node and everything below it, inputs after their operator; a shared part comes once.

    What lies below a node that `until` holds for is left out.
    """
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            if until is None or not until(found):
                waiting += reversed(found.inputs)


def transform(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied everywhere, from the leaves upwards, to a shared part once."""
    done: dict[Node, Node] = {}

    def visit(part: Node) -> Node:
        if part not in done:
            inputs = tuple(visit(child) for child in part.inputs)
            unchanged = all(a is b for a, b in zip(inputs, part.inputs, strict=True))
            done[part] = rule(part if unchanged else part.with_inputs(inputs))
        return done[part]

    return visit(node)


def reads_now(node: Node) -> frozenset[TableName]:
    """The tables that a plan reads as they are; those at a fixed version do not change."""
    scans = (part for part in walk(node) if isinstance(part, Scan))
    return frozenset(part.table for part in scans if part.version is Version.NOW)


def settles_ties(node: Node) -> bool:
    """Whether the plan chooses among rows that tie, where the query leaves it open."""
    return any(isinstance(part, (TopK, Window)) for part in walk(node))


def tables(node: Node) -> frozenset[TableName]:
    """The tables that a plan reads."""
    return frozenset(part.table for part in walk(node) if isinstance(part, Scan))


@cached(5_000)
def open_recursions(node: Node) -> frozenset[str]:
    """The recursions that a part names and does not hold: it means something only inside their step."""
    if isinstance(node, RecursiveRef):
        return frozenset([node.name])
    if isinstance(node, Recursive):
        return open_recursions(node.seed) | (open_recursions(node.step) - {node.name})
    return frozenset[str]().union(*map(open_recursions, node.inputs))

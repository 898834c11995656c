"""Traversals of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.cache import cached
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Recursive, RecursiveRef, Scan, TopK, Version, Window


def walk(node: Node, until: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """The node and everything below it, inputs after their operator, a shared subplan once.

    Inputs of a node that `until` holds for are not visited.
    """
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            if until is None or not until(current):
                stack += reversed(current.inputs)


def transform(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied bottom-up to every node, to a shared subplan once."""
    results: dict[Node, Node] = {}

    def visit(current: Node) -> Node:
        if current not in results:
            inputs = tuple(visit(child) for child in current.inputs)
            unchanged = all(a is b for a, b in zip(inputs, current.inputs, strict=True))
            results[current] = rule(current if unchanged else current.with_inputs(inputs))
        return results[current]

    return visit(node)


def scans_of(node: Node) -> list[Scan]:
    return [part for part in walk(node) if isinstance(part, Scan)]


def reads_now(node: Node) -> frozenset[TableName]:
    """The tables that a plan reads at their current version; a fixed version does not change."""
    return frozenset(scan.table for scan in scans_of(node) if scan.version is Version.NOW)


def settles_ties(node: Node) -> bool:
    """Whether the plan breaks ties that the query leaves open."""
    return any(isinstance(part, (TopK, Window)) for part in walk(node))


def tables(node: Node) -> frozenset[TableName]:
    """The tables that a plan reads."""
    return frozenset(scan.table for scan in scans_of(node))


@cached(5_000)
def open_recursions(node: Node) -> frozenset[str]:
    """The recursions that a subplan refers to but does not contain: it is valid only in their step."""
    if isinstance(node, RecursiveRef):
        return frozenset([node.name])
    if isinstance(node, Recursive):
        return open_recursions(node.seed) | (open_recursions(node.step) - {node.name})
    return frozenset[str]().union(*map(open_recursions, node.inputs))

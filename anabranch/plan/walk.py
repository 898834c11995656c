"""Going through a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.names import TableName
from anabranch.plan.nodes import Node, Scan


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, inputs after their operator."""
    yield node
    for child in node.inputs:
        yield from walk(child)


def transform(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied everywhere, from the leaves upwards."""
    inputs = tuple(transform(child, rule) for child in node.inputs)
    return rule(node if inputs == node.inputs else node.with_inputs(inputs))


def tables(node: Node) -> frozenset[TableName]:
    """The tables that a plan reads."""
    return frozenset(part.table for part in walk(node) if isinstance(part, Scan))

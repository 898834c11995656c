"""A plan as an indented tree, for `explain`."""

from __future__ import annotations

from anabranch.plan.nodes import Node


def show(node: Node, depth: int = 0) -> str:
    lines = ["  " * depth + node.head]
    lines += [show(child, depth + 1) for child in node.inputs]
    return "\n".join(lines)

"""A plan as an indented tree, for `explain`."""

from __future__ import annotations

from anabranch.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Given,
    Item,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    Semi,
    UnionAll,
    Version,
)


def show(node: Node, depth: int = 0) -> str:
    lines = ["  " * depth + line_of(node)]
    lines += [show(child, depth + 1) for child in node.inputs]
    return "\n".join(lines)


def line_of(node: Node) -> str:
    """One node, without what is below it."""
    match node:
        case Scan():
            version = "" if node.version is Version.NOW else f" [{node.version.value}]"
            return f"Scan {node.table}{version} ({', '.join(node.columns)})"
        case OneRow():
            return "OneRow"
        case Given():
            return f"Given {node.name} ({', '.join(node.names)})"
        case Filter():
            return f"Filter {node.condition}"
        case Project():
            return f"Project {', '.join(map(_item, node.items))}"
        case Join():
            small = " [first input small]" if node.broadcast else ""
            return (f"Join on {node.condition}" if node.condition else "Join (all pairs)") + small
        case Aggregate() if not node.calls:
            return f"Distinct {', '.join(map(_item, node.keys))}"
        case Aggregate():
            by = f" by {', '.join(map(_item, node.keys))}" if node.keys else ""
            return f"Aggregate {', '.join(map(_item, node.calls))}{by}"
        case UnionAll():
            return "UnionAll"
        case Semi():
            pairs = " and ".join(f"{expr} is {key}" for expr, key in node.on)
            return f"Semi where {pairs}"
    return type(node).__name__


def _item(item: Item | Call) -> str:
    text = str(item.expr)
    return text if text == item.name else f"{text} as {item.name}"

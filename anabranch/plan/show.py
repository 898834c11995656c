"""A plan as an indented tree, for `explain`."""

from __future__ import annotations

from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import (
    Again,
    Aggregate,
    Call,
    Difference,
    Filter,
    Generate,
    Given,
    Item,
    Join,
    Look,
    Match,
    Node,
    On,
    OneRow,
    Order,
    Outer,
    Partner,
    Project,
    Recursive,
    Scan,
    Semi,
    Top,
    UnionAll,
    Version,
    Windows,
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
            return f"Filter {node.condition.readable}"
        case Project():
            return f"Project {', '.join(map(_item, node.items))}"
        case Join():
            small = " [first input small]" if node.broadcast else ""
            return (
                f"Join on {node.condition.readable}" if node.condition else "Join (all pairs)"
            ) + small
        case Aggregate() if not node.calls:
            return f"Distinct {', '.join(map(_item, node.keys))}"
        case Aggregate():
            by = f" by {', '.join(map(_item, node.keys))}" if node.keys else ""
            return f"Aggregate {', '.join(map(_item, node.calls))}{by}"
        case UnionAll():
            return "UnionAll"
        case Semi():
            return f"Semi where {_among(node.on)}"
        case Look():
            return f"Look where {' or '.join(_among(on) for _, on in node.by)}"
        case Outer():
            return f"{'Full' if node.full else 'Left'} join{_on(node.condition)}"
        case Match():
            name = {Partner.WANTED: "Semi join", Partner.UNWANTED: "Anti join"}
            return f"{name.get(node.partner, f'Mark {node.mark}')}{_on(node.condition)}"
        case Windows():
            return f"Windows {', '.join(map(_item, node.calls))}"
        case Top():
            return _top(node)
        case Recursive():
            once = " [each row once]" if node.distinct else ""
            return f"Recursive {node.name}{once} ({', '.join(node.columns)})"
        case Difference():
            return "Difference of before and after, by rounds"
        case Again():
            return f"Again {node.name} ({', '.join(node.columns)})"
        case Generate():
            outer = "outer " if node.outer else ""
            return f"Generate {outer}{node.generator.readable} as {', '.join(node.names)}"
    return type(node).__name__


def _among(on: On) -> str:
    return " and ".join(f"{expr.readable} is {key}" for expr, key in on)


def _on(condition: Expr | None) -> str:
    return f" on {condition.readable}" if condition is not None else " (all pairs)"


def _top(node: Top) -> str:
    parts = ["Top"]
    parts += [] if node.limit is None else [str(node.limit)]
    parts += [f"after {node.offset}"] if node.offset else []
    parts += [f"by {', '.join(map(_order, node.order))}"] if node.order else []
    parts += (
        [f"per {', '.join(each.readable for each in node.partition)}"] if node.partition else []
    )
    return " ".join(parts)


def _order(order: Order) -> str:
    return f"{order.expr.readable} desc" if order.descending else order.expr.readable


def _item(item: Item | Call) -> str:
    text = item.expr.readable
    return text if text == item.name else f"{text} as {item.name}"

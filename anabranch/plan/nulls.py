"""Which columns are never NULL, as far as a plan says so itself."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from anabranch.plan.exprs import binary, column, conjunction, conjuncts, is_not_null
from anabranch.plan.nodes import Aggregate, Filter, Node, Project, UnionAll, same_columns


def without_nulls(node: Node, names: Iterable[str]) -> Node:
    """The rows in which none of the columns is NULL, as a relation of its own: it may be shared."""
    condition = conjunction(is_not_null(column(name)) for name in names)
    return node if condition is None else Project(Filter(node, condition), same_columns(node))


def never_null(node: Node, name: str) -> bool:
    match node:
        case Filter():
            known = {is_not_null(column(name)), binary(exp.EQ, column(name), column(name))}
            return bool(known & {*conjuncts(node.condition)}) or never_null(node.input, name)
        case Project():
            return _passed(node, name, {item.name: item.expr.column for item in node.items})
        case Aggregate():
            return _passed(node, name, {key.name: key.expr.column for key in node.keys})
        case UnionAll():
            return all(never_null(part, name) for part in node.parts)
    return False


def _passed(node: Project | Aggregate, name: str, names: dict[str, str | None]) -> bool:
    below = names.get(name)
    return below is not None and never_null(node.input, below)

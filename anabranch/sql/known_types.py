"""Types of expressions that follow from the plan; for others Spark has to analyse a query.

Only types with one way to write them are told, and only what has the same type in every setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, Tree
from anabranch.plan.nodes import Aggregate, Call, Item, Node, Project, Scan
from anabranch.types import INTEGERS

_SIMPLE = {*INTEGERS, "boolean", "date", "double", "float", "string"}
_LARGEST_INT = 2**31 - 1
_PREDICATES = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.NullSafeEQ,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Boolean,
)

Tables = Mapping[TableName, Columns]


def known_type(node: Node, expr: Expr, tables: Tables) -> str | None:
    """The type of an expression over the columns of a node, if it can be told."""
    found = _of_tree(node, expr.tree, tables)
    return found if found in _SIMPLE else None


def _of_tree(node: Node, tree: Tree, tables: Tables) -> str | None:
    match tree:
        case exp.Paren():
            return _of_tree(node, tree.this, tables)
        case exp.Column():
            return _of_column(node, tree.name, tables)
        case exp.Cast() if not tree.args.get("format"):
            return str(tree.to.sql("spark")).lower()
        case exp.Literal() if tree.is_string:
            return "string"
        case exp.Literal() if tree.this.isdigit():
            return "int" if int(tree.this) <= _LARGEST_INT else None
    return "boolean" if isinstance(tree, _PREDICATES) else None


def _of_column(node: Node, name: str, tables: Tables) -> str | None:
    match node:
        case Scan():
            return next((each.type for each in tables[node.table] if each.name == name), None)
        case Project():
            return _of_item(node.items, name, node.input, tables)
        case Aggregate():
            calls = (_of_call(call) for call in node.calls if call.name == name)
            return next(calls, None) or _of_item(node.keys, name, node.input, tables)
    found = {_of_column(node.inputs[o.input], o.name, tables) for o in node.typed_like(name)}
    return found.pop() if len(found) == 1 else None


def _of_item(items: Sequence[Item], name: str, below: Node, tables: Tables) -> str | None:
    found = (each for each in items if each.name == name)
    types = (each.type or _of_tree(below, each.expr.tree, tables) for each in found)
    return next(types, None)


def _of_call(call: Call) -> str | None:
    match call.function:
        case "count":
            return "bigint"
        case "min" | "max":
            return call.arg_type
        case "sum" if call.arg_type in INTEGERS:
            return "bigint"
        case "sum" | "avg" if call.arg_type in ("float", "double"):
            return "double"
    return None

"""Types of expressions over a plan, derived from the types of its tables.

Where Spark can be asked, only types that are the same in every setting are derived here.  Offline,
everything is that the analysis of a query can derive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, Tree, unwrapped
from anabranch.plan.nodes import Call, Item, Node, Scan
from anabranch.sql.analyze.types import DOUBLE, type_of
from anabranch.types import INTEGERS, Type

_SIMPLE = {*INTEGERS, "boolean", "date", "double", "float", "string"}
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
_PLAIN = (exp.Column, exp.Cast, exp.Literal, *_PREDICATES)
_LARGEST_INT = 2**31 - 1

Tables = Mapping[TableName, Columns]


def known_type(node: Node, expr: Expr, tables: Tables) -> str | None:
    """The type of an expression over the columns of a node, if it is evident."""
    type_ = _Types(tables, _PLAIN).of(node, expr.tree)
    return type_.name if type_ is not None and str(type_) in _SIMPLE else None


def offline_type(node: Node, expr: Expr, tables: Tables) -> str | None:
    """The same, as far as possible.  Tables may have columns of unknown type: `""`."""
    type_ = _Types(tables, (exp.Expr,)).of(node, expr.tree)
    return str(type_) if type_ is not None else None


@dataclass(frozen=True)
class _Types:
    tables: Tables
    supported: tuple[type[Tree], ...]  # other expressions have no known type

    def of(self, node: Node, tree: Tree) -> Type | None:
        tree = unwrapped(tree)
        if not isinstance(tree, self.supported):
            return None
        if (isinstance(tree, exp.Cast) and tree.args.get("format")) or self.is_long(tree):
            return None
        return type_of(tree, lambda column: self.column(node, column.name))

    def is_long(self, tree: Tree) -> bool:
        """A number whose type is not evident."""
        if self.supported is not _PLAIN or not isinstance(tree, exp.Literal) or tree.is_string:
            return False
        return not (tree.name.isdigit() and int(tree.name) <= _LARGEST_INT)

    def column(self, node: Node, name: str) -> Type | None:
        match node.defined(name):
            case Item() as item:
                return (
                    Type.parse(item.type) if item.type else self.of(node.inputs[0], item.expr.tree)
                )
            case Call() as call:
                return self.call(call, node.inputs[0])
        if isinstance(node, Scan):
            columns = self.tables[node.table]
            type_ = next((column.type for column in columns if column.name == name), None)
            return Type.parse(type_) if type_ else None
        types = {
            self.column(node.inputs[origin.input], origin.name) for origin in node.typed_like(name)
        }
        return types.pop() if len(types) == 1 else None

    def call(self, call: Call, input_: Node) -> Type | None:
        argument = Type.parse(call.arg_type) if call.arg_type else None
        match call.function:
            case "count":
                return Type("bigint")
            case "min" | "max":
                return argument
            case "sum" if argument is not None and argument.is_integer:
                return Type("bigint")
            case "sum" | "avg" if argument is not None and argument.is_float:
                return DOUBLE
        return self.of(input_, call.expr.tree)

"""Expressions: which source columns a value comes from, and what is wrong with names and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.aggregates import calls_in_calls, misplaced
from anabranch.sql.analyze.checks import TypeOf, apart, mismatches, not_a_condition
from anabranch.sql.analyze.columns import NOTHING, Flow, Relation
from anabranch.sql.analyze.obstacles import is_aggregate
from anabranch.sql.analyze.sight import WITHOUT_PARENTHESES, Sight, like_function
from anabranch.sql.analyze.types import type_of
from anabranch.types import Type

_DECIDING: dict[type[Tree], tuple[str, ...]] = {  # parts that only say which rows a call sees
    exp.Filter: ("expression",),
    exp.Window: ("partition_by", "order", "spec", "alias"),
}


class Queries(Protocol):
    """What expressions ask of the walk."""

    def say(
        self, node: Tree, message: str, hint: str | None = None, *, unknown: bool = False
    ) -> None: ...
    def query(self, node: Tree, outer: Sight | None) -> Relation: ...
    def column(self, node: exp.Column, sight: Sight) -> Flow: ...
    def star(self, node: Tree, sight: Sight) -> None: ...


def flow(walk: Queries, root: Tree, sight: Sight) -> Flow:
    """Look at every column and call; a query inside sees this one from within."""
    flow = NOTHING
    types = types_in(sight)
    todo: list[tuple[Tree, bool, Sight]] = [(root, False, sight)]
    while todo:
        node, decides, sight = todo.pop()
        if isinstance(node, (exp.Hint, exp.Table)):
            continue
        if isinstance(node, exp.Query):
            own = _of_query(walk, node, walk.query(node, sight), types)
        elif isinstance(node, exp.Column):
            own = walk.column(node, sight)
        else:
            own = NOTHING
            if isinstance(node, exp.Star):
                walk.star(node, sight)
            _judge(walk, node, types)
            seen = sight.of_rows if is_aggregate(node) else sight
            todo += ((part, part_decides, seen) for part, part_decides in _parts(node, decides))
        flow |= own.deciding if decides else own
    return flow


def _judge(walk: Queries, node: Tree, types: TypeOf) -> None:
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        if hint := like_function(name):
            walk.say(node, f"there is no function {name}", hint, unknown=True)
        for tree, message in calls_in_calls(node):
            walk.say(tree, message)
    if isinstance(node, exp.Filter):
        for wrong in not_a_condition("FILTER", node.expression.this, types):
            walk.say(*wrong)
        for wrong in misplaced("FILTER", node.expression.this, None):
            walk.say(*wrong)
    for wrong in mismatches(node, types):
        walk.say(*wrong)


def _parts(node: Tree, decides: bool) -> list[tuple[Tree, bool]]:
    """What is in it, and whether that only decides about rows."""
    if isinstance(node, exp.Anonymous):
        arguments = list(node.expressions)
        if node.name.lower() in functions.WITH_UNIT and len(arguments) == 3:
            arguments = arguments[1:]
        return [(each, decides) for each in arguments]
    names = _DECIDING.get(type(node), ())
    return [
        (each, decides or key in names)
        for key, value in node.args.items()
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, exp.Expr)
    ]


def _of_query(walk: Queries, node: Tree, relation: Relation, types: TypeOf) -> Flow:
    """A query inside an expression: EXISTS only asks whether there are rows."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if isinstance(around, exp.Exists):
        return relation.flow.deciding
    if isinstance(around, exp.In):
        _compare_rows(walk, around, relation, types)
    elif not isinstance(around, (exp.Subquery, exp.Any, exp.All)):
        width = len(relation.columns) if relation.columns is not None else 1
        if width > 1:
            message = f"a subquery that is used as a value gives {width} columns"
            walk.say(node, message, "select one column")
    return relation.whole if relation.columns is None else _values(relation)


def _values(relation: Relation) -> Flow:
    computed = NOTHING
    for each in relation.columns or ():
        computed |= each.flow
    return computed | relation.flow.deciding


def _compare_rows(walk: Queries, node: exp.In, relation: Relation, types: TypeOf) -> None:
    """x IN (SELECT …), (x, y) IN (SELECT …)"""
    left = unwrapped(node.this)
    values = left.expressions if isinstance(left, exp.Tuple) else [left]
    if relation.columns is None or any(star_of(each) is not None for each in values):
        return
    if len(values) != len(relation.columns):
        message = f"IN compares {len(values)} with {len(relation.columns)} columns"
        walk.say(node, message, "both sides need the same number")
        return
    for value, column in zip(values, relation.columns, strict=True):
        if apart(one := types(value), column.type):
            walk.say(value, f"{one} cannot be compared with {column.type}", "CAST one of them")


def types_in(sight: Sight) -> TypeOf:
    def column(node: exp.Column) -> Type | None:
        known = sight.find([part.name for part in node.parts])
        return known.type if known is not None and not known.broken else None

    return lambda tree: type_of(tree, column)


def star_of(node: Tree) -> list[str] | None:
    """The qualifier of `*` or `t.*`; None when the node is no star."""
    if isinstance(node, exp.Star):
        return []
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return [part.name for part in node.parts[:-1]]
    return None


def is_bare_call(parts: Sequence[str]) -> bool:
    """CURRENT_DATE is no column."""
    return len(parts) == 1 and parts[0].lower() in WITHOUT_PARENTHESES

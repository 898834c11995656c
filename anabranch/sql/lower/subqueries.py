"""Subqueries as joins with the outer rows.

EXISTS, IN      → a semi join, an anti join, or a mark join
> ANY, > ALL    → mark joins with the rows that prove or disprove it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.equalities import equalities
from anabranch.plan.exprs import (
    Expr,
    Tree,
    binary,
    call,
    cast,
    column,
    conjunction,
    is_null,
    literal,
    operand,
    unwrapped,
    when,
)
from anabranch.plan.nodes import (
    Aggregate,
    AntiJoin,
    Call,
    Filter,
    Item,
    Join,
    MarkJoin,
    Node,
    Outer,
    Project,
    SemiJoin,
    same_columns,
)
from anabranch.sql.lower.correlation import (
    LoweredSubquery,
    Lowering,
    OuterRows,
    compare_one_to_one,
    lower_subquery,
    marked_present,
)
from anabranch.sql.lower.predicates import Pending, is_quantified
from anabranch.sql.lower.relation import Relation
from anabranch.sql.obstacles import Stop


def apply_subquery(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    """The outer rows with the value of the subquery as an additional column."""
    match subquery.tree:
        case exp.Exists():
            return _marked_exists(lowering, subquery, outer)
        case exp.In():
            return _marked_in(lowering, subquery, outer)
        case exp.Binary():
            return _quantified(lowering, subquery, outer)
    return _scalar(lowering, subquery, outer)


def filter_by_subquery(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    """The outer rows for which EXISTS, IN or ANY, or NOT EXISTS or NOT IN, is true."""
    if is_quantified(subquery.tree):
        inner = _without_default(subquery, lower_subquery(lowering, subquery.query, outer), outer)
        compared = conjunction((_compared(subquery, inner), *inner.belongs))
        return SemiJoin(outer.node, inner.node, compared)
    if isinstance(subquery.tree, exp.Exists):
        inner = lower_subquery(lowering, _bare(subquery.tree.this), outer)
        if inner.relation.absent is not None:
            return Filter(outer.node, Expr("FALSE" if subquery.negated else "TRUE"))
        existence_join = AntiJoin if subquery.negated else SemiJoin
        return existence_join(outer.node, inner.node, inner.condition)
    if not subquery.negated:
        inner = lower_subquery(lowering, subquery.query, outer)
        condition = conjunction((*_equal(subquery, inner), *inner.belongs))
        inner = _without_default(subquery, inner, outer)
        return SemiJoin(outer.node, inner.node, condition)
    marked = _marked_in(lowering, subquery, outer)
    return Project(Filter(marked, column(subquery.name)), same_columns(outer.node))


def _mark_join(
    lowering: Lowering, left: Node, right: Node, condition: Expr | None, mark: str
) -> Node:
    pairs = equalities(condition, left.columns, right.columns)
    left_types = lowering.types(left, [pair.left for pair in pairs]) if pairs else ()
    right_types = lowering.types(right, [pair.right for pair in pairs]) if pairs else ()
    exact = all(map(compare_one_to_one, left_types, right_types))
    return MarkJoin(left, right, condition, mark, one_to_one=exact)


def _marked_exists(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    inner = lower_subquery(lowering, _bare(subquery.tree.this), outer)
    if inner.relation.absent is not None:
        return Project(outer.node, (*same_columns(outer.node), Item(subquery.name, Expr("TRUE"))))
    return _mark_join(lowering, outer.node, inner.node, inner.condition, subquery.name)


def _marked_in(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    """x IN R      = some y equals x
    x NOT IN R  = no y equals x, no y is NULL, and x is not NULL unless R is empty

    There is no third truth value here, as in Spark: unknown is false.
    """
    inner = _without_default(subquery, lower_subquery(lowering, subquery.query, outer), outer)
    equal = conjunction((*_equal(subquery, inner), *inner.belongs))
    if not subquery.negated:
        return _mark_join(lowering, outer.node, inner.node, equal, subquery.name)
    if len(subquery.operands) > 1:
        possible = conjunction((*map(_possibly, _equal(subquery, inner)), *inner.belongs))
        mark = lowering.fresh("_ab_m")
        node: Node = _mark_join(lowering, outer.node, inner.node, possible, mark)
        return _with(outer.node, node, subquery.name, _not(column(mark)))
    equals, unknown, not_empty = (lowering.fresh("_ab_m") for _ in range(3))
    value = column(inner.values[0])
    node = _mark_join(lowering, outer.node, inner.node, equal, equals)
    nulls = _renamed(lowering, replace(inner, relation=_only(inner.relation, is_null(value))))
    node = _mark_join(lowering, node, nulls.node, nulls.condition, unknown)
    all_rows = _renamed(lowering, inner)
    node = _mark_join(lowering, node, all_rows.node, all_rows.condition, not_empty)
    left = Expr.of(subquery.operands[0])
    not_in = conjunction(
        (
            _not(column(equals)),
            _not(column(unknown)),
            binary(exp.Or, _not(is_null(left)), _not(column(not_empty))),
        )
    )
    assert not_in is not None
    return _with(outer.node, node, subquery.name, not_in)


def _quantified(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    """x > ANY R  = true if true for some y, else unknown if unknown for some y, else false
    x > ALL R  = false if false for some y, else unknown if unknown for some y, else true
    """
    inner = _without_default(subquery, lower_subquery(lowering, subquery.query, outer), outer)
    copy = _renamed(lowering, inner)
    is_decided, is_unknown = lowering.fresh("_ab_m"), lowering.fresh("_ab_m")
    is_all = isinstance(subquery.tree.expression, exp.All)
    compared, unknown = (_compared(subquery, rows) for rows in (inner, copy))
    decided = _not(compared) if is_all else compared
    decided_by = conjunction((decided, *inner.belongs))
    node = _mark_join(lowering, outer.node, inner.node, decided_by, is_decided)
    unknown_for = conjunction((is_null(unknown), *copy.belongs))
    node = _mark_join(lowering, node, copy.node, unknown_for, is_unknown)
    otherwise = when(
        column(is_unknown), cast(Expr("NULL"), "boolean"), Expr("TRUE" if is_all else "FALSE")
    )
    value = when(column(is_decided), Expr("FALSE" if is_all else "TRUE"), otherwise)
    return _with(outer.node, node, subquery.name, value)


def _compared(subquery: Pending, inner: LoweredSubquery) -> Expr:
    """x > y, for the rows of the subquery of ANY or ALL"""
    assert isinstance(subquery.tree, exp.Binary)
    return binary(type(subquery.tree), Expr.of(subquery.operands[0]), column(inner.values[0]))


def _scalar(lowering: Lowering, subquery: Pending, outer: OuterRows) -> Node:
    inner = lower_subquery(lowering, subquery.query, outer)
    if len(inner.values) != 1:
        raise Stop(outer.place.source.obstacle("SCALAR_SUBQUERY", subquery.tree, "("))
    value = inner.values[0]
    single = inner.relation.absent is not None
    single_row = inner.node if single else at_most_one(inner, lowering.fresh)
    if inner.condition is None:
        return _with(outer.node, Join((outer.node, single_row)), subquery.name, column(value))
    node, result = outer.node, column(value)
    if inner.relation.absent is not None:
        single_row, present = marked_present(single_row, lowering.fresh)
        result = when(is_null(column(present)), inner.relation.absent[0], result)
    node = Outer(node, single_row, inner.condition)
    return _with(outer.node, node, subquery.name, result)


def at_most_one(subquery: LoweredSubquery, fresh: Callable[[str], str]) -> Node:
    """One row per value of the domain; a second row is an error, as in Spark."""
    count = fresh("_ab_n")
    (value,) = subquery.values
    keys = tuple(Item(name, column(name)) for name in subquery.relation.domain)
    calls = (
        Call(count, Expr("COUNT(*)"), "count"),
        Call(value, call("ANY_VALUE", column(value))),
    )
    message = Expr.of(exp.Literal.string("a subquery used as a value has more than one row"))
    checked = when(
        binary(exp.GT, column(count), literal(1)), call("RAISE_ERROR", message), column(value)
    )
    return Project(Aggregate(subquery.node, keys, calls), (Item(value, checked), *keys))


def _bare(tree: Tree) -> Tree:
    """A query that is only tested for rows, without a LIMIT that does not matter."""
    tree = unwrapped(tree)
    tree = tree.this if isinstance(tree, exp.Subquery) else tree
    limit = tree.args.get("limit")
    keeps_a_row = (
        limit is not None and limit.expression.name.isdigit() and int(limit.expression.name) > 0
    )
    if keeps_a_row and not tree.args.get("offset"):
        tree = tree.copy()
        tree.set("limit", None)
    return tree


def _equal(subquery: Pending, inner: LoweredSubquery) -> list[Expr]:
    if len(subquery.operands) != len(inner.values):
        raise UserError("IN compares as many values as the query has columns")
    return [
        Expr.of(exp.EQ(this=operand(left.copy()), expression=column(value).tree.copy()))
        for left, value in zip(subquery.operands, inner.values, strict=True)
    ]


def _without_default(
    subquery: Pending, inner: LoweredSubquery, outer: OuterRows
) -> LoweredSubquery:
    """Refuses IN over an aggregate without GROUP BY: outer rows without any rows have a row as well."""
    if inner.relation.absent is not None and inner.condition is not None:
        raise Stop(outer.place.source.obstacle("CORRELATION", subquery.query))
    return inner


def _possibly(expr: Expr) -> Expr:
    return binary(exp.Or, expr, is_null(expr))


def _renamed(lowering: Lowering, subquery: LoweredSubquery) -> LoweredSubquery:
    """The same rows under other column names: the inputs of a join have different ones."""
    names = {name: lowering.fresh("_ab_v") for name in subquery.node.columns}
    items = tuple(Item(new, column(old)) for old, new in names.items())
    relation = replace(subquery.relation, node=Project(subquery.node, items))
    condition = subquery.condition.rename(names) if subquery.condition else None
    return LoweredSubquery(relation, condition, tuple(names[name] for name in subquery.values))


def _only(relation: Relation, condition: Expr) -> Relation:
    return replace(relation, node=Filter(relation.node, condition))


def _not(expr: Expr) -> Expr:
    return Expr.of(exp.Not(this=operand(expr.tree.copy())))


def _with(outer: Node, node: Node, name: str, value: Expr) -> Node:
    return Project(node, (*same_columns(outer), Item(name, value)))

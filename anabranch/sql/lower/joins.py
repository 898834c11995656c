"""Joins of two FROM items: the rows, and the names of the result."""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.equalities import equalities
from anabranch.plan.exprs import Expr, Tree, call, cast, column, column_tree, conjunction
from anabranch.plan.nodes import (
    AntiJoin,
    Item,
    Join,
    Node,
    Outer,
    Project,
    SemiJoin,
    UnionAll,
    same_columns,
)
from anabranch.sql.analyze.bindings import using_of
from anabranch.sql.analyze.resolve import FromColumns, Resolver
from anabranch.sql.lower.correlation import Lowering, OuterRows, correlated_columns
from anabranch.sql.lower.predicates import extract_subqueries, is_subquery, push_down_not
from anabranch.sql.lower.relation import FromItem, Names, Place
from anabranch.sql.lower.subqueries import apply_subquery
from anabranch.sql.obstacles import Stop


def joined(
    lowering: Lowering,
    left: FromItem,
    right: FromItem,
    join: exp.Join,
    place: Place,
    names: Names,
) -> FromItem:
    side, kind = join.side.upper(), join.kind.upper()
    using, both = using_of(join), left[1] + right[1]
    pairs = using.pairs if using is not None else ()
    conditions = [
        Expr.of(
            exp.EQ(
                this=column_tree(both.names[left_column]),
                expression=column_tree(both.names[right_column]),
            )
        )
        for left_column, right_column in pairs
    ]
    merged = {}
    if using is not None:
        merged = {name: names.fresh(made) for name, made, _, _ in using.merged}
        all_names = {**both.names, **merged}
        visible = using.scope.fields
        scope = FromColumns.of(visible, [all_names[field.column] for field in visible])
    else:
        scope = both
    if on := join.args.get("on"):
        on, sides = _without_subqueries(lowering, on, (left[0], right[0]), scope, place)
        left, right = (sides[0], left[1]), (sides[1], right[1])
        conditions.append(Expr.of(Resolver(place.source, scope).resolve(on)))
    condition = conjunction(conditions)
    if kind in ("SEMI", "ANTI"):
        existence_join = SemiJoin if kind == "SEMI" else AntiJoin
        return existence_join(left[0], right[0], condition), left[1]
    node = _node(lowering, left[0], right[0], condition, side)
    if using is not None and using.merged:
        items = tuple(
            Item(merged[name], call("COALESCE", *(column(both.names[key]) for key in keys)))
            for name, _, *keys in using.merged
        )
        node = Project(node, (*same_columns(node), *items))
    return node, scope


Sides = tuple[Node, Node]


def _without_subqueries(
    lowering: Lowering, on: Tree, sides: Sides, scope: FromColumns, place: Place
) -> tuple[Tree, Sides]:
    """The condition with its subqueries replaced by columns, each added to the side that the subquery
    uses.

    Whether Spark respects NULLs in a NOT IN depends on how it optimizes the join.
    """
    if not any(map(is_subquery, on.walk())):
        return on, sides
    resolver = Resolver(place.source, scope)
    replaced, subqueries = extract_subqueries(push_down_not(on.copy()), lowering.fresh)
    for subquery in subqueries:
        if subquery.negated:
            raise Stop(place.source.obstacle("SUBQUERY_IN_JOIN", subquery.tree, what="NOT IN"))
        subquery.operands = [resolver.resolve(operand) for operand in subquery.operands]
        used = {name for operand in subquery.operands for name in Expr.of(operand).columns}
        rows = OuterRows(Join(sides), (scope,), place)
        used |= set(correlated_columns(subquery.query, rows))
        index = next((index for index in (0, 1) if used <= set(sides[index].columns)), None)
        if index is None:
            raise Stop(place.source.obstacle("SUBQUERY_IN_JOIN", on, "ON"))
        with_column = apply_subquery(lowering, subquery, OuterRows(sides[index], (scope,), place))
        sides = (with_column, sides[1]) if index == 0 else (sides[0], with_column)
    return replaced, sides


def _node(lowering: Lowering, left: Node, right: Node, on: Expr | None, side: str) -> Node:
    match side:
        case "LEFT":
            return Outer(left, right, on)
        case "RIGHT":
            return Outer(right, left, on)
        case "FULL":
            return _full(lowering, left, right, on)
    return Join((left, right), on)


def _full(lowering: Lowering, left: Node, right: Node, on: Expr | None) -> Node:
    """Without equalities: a left join, and the right rows without a match."""
    if equalities(on, left.columns, right.columns):
        return Outer(left, right, on, full=True)
    types = lowering.types(left, [column(name) for name in left.columns])
    nulls = (
        Item(name, cast(Expr("NULL"), type_))
        for name, type_ in zip(left.columns, types, strict=True)
    )
    unmatched = AntiJoin(right, left, on)
    return UnionAll((Outer(left, right, on), Project(unmatched, (*nulls, *same_columns(right)))))

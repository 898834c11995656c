"""JOIN of two FROM items: which rows, and which names the result has."""

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
from anabranch.sql.analyze.scope import Scope, Side, common_names, using
from anabranch.sql.lower.correlation import Around, Lowering, captured
from anabranch.sql.lower.predicates import is_subquery, positive, taken_out
from anabranch.sql.lower.relation import Names, Place, Stop
from anabranch.sql.lower.resolve import Resolver
from anabranch.sql.lower.subqueries import applied

FromItem = tuple[Node, Scope]


def joined(
    lowering: Lowering,
    left: FromItem,
    right: FromItem,
    join: exp.Join,
    place: Place,
    names: Names,
) -> FromItem:
    side, kind = join.side.upper(), join.kind.upper()
    keys = [each.name for each in join.args.get("using") or ()]
    if join.method.upper() == "NATURAL":
        keys = common_names(left[1], right[1])
    found = using(left[1], right[1], keys, Side(side), names.fresh)
    conditions = [
        Expr.of(exp.EQ(this=column_tree(mine), expression=column_tree(theirs)))
        for mine, theirs in found.pairs
    ]
    if on := join.args.get("on"):
        both = found.scope if keys else left[1] + right[1]
        on, sides = _without_subqueries(lowering, on, (left[0], right[0]), both, place)
        left, right = (sides[0], left[1]), (sides[1], right[1])
        conditions.append(Expr.of(Resolver(place.source, both).resolve(on)))
    condition = conjunction(conditions)
    if kind in ("SEMI", "ANTI"):
        judged = SemiJoin if kind == "SEMI" else AntiJoin
        return judged(left[0], right[0], condition), left[1]
    node = _node(lowering, left[0], right[0], condition, side)
    if found.merged:
        merged = tuple(
            Item(name, call("COALESCE", column(mine), column(theirs)))
            for name, mine, theirs in found.merged
        )
        node = Project(node, (*same_columns(node), *merged))
    return node, found.scope


Sides = tuple[Node, Node]


def _without_subqueries(
    lowering: Lowering, on: Tree, sides: Sides, both: Scope, place: Place
) -> tuple[Tree, Sides]:
    """The condition with columns in place of its subqueries, each of which is a column of the side
    that it looks at.

    Whether Spark looks at NULLs in a NOT IN depends on how it optimises the join.
    """
    if not any(map(is_subquery, on.walk())):
        return on, sides
    resolver = Resolver(place.source, both)
    taken, waiting = taken_out(positive(on.copy()), lowering.fresh)
    for each in waiting:
        if each.negated:
            raise Stop(place.source.obstacle("SUBQUERY_IN_JOIN", each.tree, what="NOT IN"))
        each.operands = [resolver.resolve(operand) for operand in each.operands]
        seen = {name for operand in each.operands for name in Expr.of(operand).columns}
        seen |= set(captured(lowering, each.query, Around(Join(sides), (both,), place)))
        at = next((at for at in (0, 1) if seen <= set(sides[at].columns)), None)
        if at is None:
            raise Stop(place.source.obstacle("SUBQUERY_IN_JOIN", on, "ON"))
        made = applied(lowering, each, Around(sides[at], (both,), place))
        sides = (made, sides[1]) if at == 0 else (sides[0], made)
    return taken, sides


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
    """Without equalities: a left join, and the right rows without a partner."""
    if equalities(on, left.columns, right.columns):
        return Outer(left, right, on, full=True)
    types = lowering.types(left, [column(name) for name in left.columns])
    nulls = (
        Item(name, cast(Expr("NULL"), type_))
        for name, type_ in zip(left.columns, types, strict=True)
    )
    alone = AntiJoin(right, left, on)
    return UnionAll((Outer(left, right, on), Project(alone, (*nulls, *same_columns(right)))))

"""Subqueries as joins of the rows around them.

EXISTS, IN      → a match: semi join, anti join, or a mark
> ANY, > ALL    → a match with the rows that prove it, or disprove it
(SELECT …)      → a left join with at most one row per value of the domain
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
    Around,
    Lowered,
    Lowering,
    compare_one_to_one,
    lowered,
    marked_present,
)
from anabranch.sql.lower.predicates import Pending, is_quantified
from anabranch.sql.lower.relation import Relation, Stop


def applied(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """The rows around with the subquery's value as one more column."""
    match wanted.tree:
        case exp.Exists():
            return _marked_exists(lowering, wanted, around)
        case exp.In():
            return _marked_in(lowering, wanted, around)
        case exp.Binary():
            return _quantified(lowering, wanted, around)
    return _scalar(lowering, wanted, around)


def kept(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """The rows around for which an EXISTS, IN or ANY, or the negation of the first two, is true."""
    if is_quantified(wanted.tree):
        found = _present(wanted, lowered(lowering, wanted.query, around), around)
        compared = conjunction((_compared(wanted, found), *found.belongs))
        return SemiJoin(around.node, found.node, compared)
    if isinstance(wanted.tree, exp.Exists):
        found = lowered(lowering, _bare(wanted.tree.this), around)
        if found.relation.absent is not None:
            return Filter(around.node, Expr("FALSE" if wanted.negated else "TRUE"))
        judged = AntiJoin if wanted.negated else SemiJoin
        return judged(around.node, found.node, found.condition)
    if not wanted.negated:
        found = lowered(lowering, wanted.query, around)
        condition = conjunction((*_equal(wanted, found), *found.belongs))
        found = _present(wanted, found, around)
        return SemiJoin(around.node, found.node, condition)
    marked = _marked_in(lowering, wanted, around)
    return Project(Filter(marked, column(wanted.name)), same_columns(around.node))


def _marked(lowering: Lowering, left: Node, right: Node, condition: Expr | None, mark: str) -> Node:
    pairs = equalities(condition, left.columns, right.columns)
    mine = lowering.types(left, [pair.left for pair in pairs]) if pairs else ()
    theirs = lowering.types(right, [pair.right for pair in pairs]) if pairs else ()
    exact = all(map(compare_one_to_one, mine, theirs))
    return MarkJoin(left, right, condition, mark, one_to_one=exact)


def _marked_exists(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    found = lowered(lowering, _bare(wanted.tree.this), around)
    if found.relation.absent is not None:
        return Project(around.node, (*same_columns(around.node), Item(wanted.name, Expr("TRUE"))))
    return _marked(lowering, around.node, found.node, found.condition, wanted.name)


def _marked_in(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """x IN R      = some y equals x
    x NOT IN R  = no y equals x, no y is NULL, and x is not NULL unless R is empty

    Spark knows no third answer here: what is not known to be so is false.
    """
    found = _present(wanted, lowered(lowering, wanted.query, around), around)
    equal = conjunction((*_equal(wanted, found), *found.belongs))
    if not wanted.negated:
        return _marked(lowering, around.node, found.node, equal, wanted.name)
    if len(wanted.operands) > 1:
        unsure = conjunction((*map(_possible, _equal(wanted, found)), *found.belongs))
        mark = lowering.fresh("_ab_m")
        node: Node = _marked(lowering, around.node, found.node, unsure, mark)
        return _with(around.node, node, wanted.name, _not(column(mark)))
    equals, unknown, some = (lowering.fresh("_ab_m") for _ in range(3))
    value = column(found.values[0])
    node = _marked(lowering, around.node, found.node, equal, equals)
    nulls = _renamed(lowering, replace(found, relation=_only(found.relation, is_null(value))))
    node = _marked(lowering, node, nulls.node, nulls.condition, unknown)
    every = _renamed(lowering, found)
    node = _marked(lowering, node, every.node, every.condition, some)
    left = Expr.of(wanted.operands[0])
    without = conjunction(
        (
            _not(column(equals)),
            _not(column(unknown)),
            binary(exp.Or, _not(is_null(left)), _not(column(some))),
        )
    )
    assert without is not None
    return _with(around.node, node, wanted.name, without)


def _quantified(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """x > ANY R  = true if it is for some y, else unknown if it is for some y, else false
    x > ALL R  = false if it is for some y, else unknown if it is for some y, else true
    """
    found = _present(wanted, lowered(lowering, wanted.query, around), around)
    again = _renamed(lowering, found)
    decides, unsure = lowering.fresh("_ab_m"), lowering.fresh("_ab_m")
    every = isinstance(wanted.tree.expression, exp.All)
    compared, unknown = (_compared(wanted, each) for each in (found, again))
    decided = _not(compared) if every else compared
    known = conjunction((decided, *found.belongs))
    node = _marked(lowering, around.node, found.node, known, decides)
    unclear = conjunction((is_null(unknown), *again.belongs))
    node = _marked(lowering, node, again.node, unclear, unsure)
    otherwise = when(
        column(unsure), cast(Expr("NULL"), "boolean"), Expr("TRUE" if every else "FALSE")
    )
    value = when(column(decides), Expr("FALSE" if every else "TRUE"), otherwise)
    return _with(around.node, node, wanted.name, value)


def _compared(wanted: Pending, found: Lowered) -> Expr:
    """x > y, for the rows that ANY or ALL asks"""
    assert isinstance(wanted.tree, exp.Binary)
    return binary(type(wanted.tree), Expr.of(wanted.operands[0]), column(found.values[0]))


def _scalar(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    found = lowered(lowering, wanted.query, around)
    if len(found.values) != 1:
        raise Stop(around.place.source.obstacle("SCALAR_SUBQUERY", wanted.tree, "("))
    value = found.values[0]
    single = found.relation.absent is not None
    one = found.node if single else at_most_one(found, lowering.fresh)
    if found.condition is None:
        return _with(around.node, Join((around.node, one)), wanted.name, column(value))
    node, result = around.node, column(value)
    if found.relation.absent is not None:
        one, present = marked_present(one, lowering.fresh)
        result = when(is_null(column(present)), found.relation.absent[0], result)
    node = Outer(node, one, found.condition)
    return _with(around.node, node, wanted.name, result)


def at_most_one(found: Lowered, fresh: Callable[[str], str]) -> Node:
    """Each value of the domain once; a second row is an error, as in Spark."""
    count = fresh("_ab_n")
    (value,) = found.values
    keys = tuple(Item(name, column(name)) for name in found.relation.domain)
    calls = (
        Call(count, Expr("COUNT(*)"), "count"),
        Call(value, call("ANY_VALUE", column(value))),
    )
    message = Expr.of(exp.Literal.string("a subquery used as a value has more than one row"))
    checked = when(
        binary(exp.GT, column(count), literal(1)), call("RAISE_ERROR", message), column(value)
    )
    return Project(Aggregate(found.node, keys, calls), (Item(value, checked), *keys))


def _bare(tree: Tree) -> Tree:
    """A query of which only matters whether it has rows."""
    tree = unwrapped(tree)
    tree = tree.this if isinstance(tree, exp.Subquery) else tree
    limit = tree.args.get("limit")
    some = limit is not None and limit.expression.name.isdigit() and int(limit.expression.name) > 0
    if some and not tree.args.get("offset"):
        tree = tree.copy()
        tree.set("limit", None)
    return tree


def _equal(wanted: Pending, found: Lowered) -> list[Expr]:
    if len(wanted.operands) != len(found.values):
        raise UserError("IN compares as many values as the query has columns")
    return [
        Expr.of(exp.EQ(this=operand(left.copy()), expression=column(value).tree.copy()))
        for left, value in zip(wanted.operands, found.values, strict=True)
    ]


def _present(wanted: Pending, found: Lowered, around: Around) -> Lowered:
    """IN over an aggregate without GROUP BY: rows around without any row have one, too."""
    if found.relation.absent is not None and found.condition is not None:
        raise Stop(around.place.source.obstacle("CORRELATION", wanted.query))
    return found


def _possible(expr: Expr) -> Expr:
    return binary(exp.Or, expr, is_null(expr))


def _renamed(lowering: Lowering, found: Lowered) -> Lowered:
    """The same rows once more under other names: a node's columns differ from its partner's."""
    names = {name: lowering.fresh("_ab_v") for name in found.node.columns}
    items = tuple(Item(new, column(old)) for old, new in names.items())
    relation = replace(found.relation, node=Project(found.node, items))
    condition = found.condition.rename(names) if found.condition else None
    return Lowered(relation, condition, tuple(names[name] for name in found.values))


def _only(relation: Relation, condition: Expr) -> Relation:
    return replace(relation, node=Filter(relation.node, condition))


def _not(expr: Expr) -> Expr:
    return Expr.of(exp.Not(this=operand(expr.tree.copy())))


def _with(around: Node, node: Node, name: str, value: Expr) -> Node:
    return Project(node, (*same_columns(around), Item(name, value)))

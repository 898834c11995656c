"""The first k rows, T, of a relation R, from those stored and the change.

    R₁ up to the last row of T₀  =  T₀ + ΔR up to there

If that is k rows or more, the first k of them are T₁; if it is fewer, rows are wanted that nobody has
kept, and R₁ must be read.  A T₀ of fewer than k rows is all of R₀, and T₀ + ΔR all of R₁.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from anabranch.plan.exprs import Expr, binary, call, cast, column, conjunction, literal, weight
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    Filter,
    Generate,
    Item,
    Node,
    Parameter,
    Project,
    TopK,
    UnionAll,
    Window,
)

STORED = "stored"  # the name of the relation that whoever runs the plan binds
_OLD, _LEFT, _COPY = "_ab_stored", "_ab_left", "_ab_copy"


def shown(top: TopK, items: tuple[Item, ...]) -> TopK | None:
    """The same order over the visible columns, if they are all that it looks at."""
    if top.partition or top.offset or not top.limit:
        return None
    below = {i.name: i.expr for i in top.input.items} if isinstance(top.input, Project) else {}
    names = {
        below.get(item.expr.column, item.expr): item.name
        for item in reversed(items)
        if item.expr.column
    }
    order = []
    for each in top.order:
        name = names.get(below.get(each.expr.column or "", each.expr))
        if name is None:
            return None
        order.append(replace(each, expr=column(name)))
    return TopK(Parameter(STORED, tuple(item.name for item in items)), tuple(order), top.limit)


def first_rows(top: TopK, change: Node, *, whole: bool) -> Node:
    """The first rows after a change of the relation; `whole`: all of it was stored.

    Fewer than the limit mean, unless it was, that the relation must be asked.
    """
    names = top.columns
    rows = tuple(Item(name, column(name)) for name in names)
    kept = Project(top.input, (*rows, Item(_OLD, weight(1)), Item(WEIGHT, weight(1))))
    moved = Project(change, (*rows, Item(_OLD, weight(0)), Item(WEIGHT, column(WEIGHT))))
    totals = tuple(Call(name, call("SUM", column(name))) for name in (_OLD, WEIGHT))
    found: Node = Aggregate(UnionAll((kept, moved)), rows, totals)
    present = _positive(WEIGHT)
    if not whole:
        found = Window(found, (), (Item(_LEFT, _from_here(top)),))
        present = conjunction([present, _positive(_LEFT)]) or present
    copies = call("LEAST", column(WEIGHT), literal(top.limit or 0))
    each = call("EXPLODE", call("SEQUENCE", weight(1), cast(copies, "bigint")))
    repeated = Generate(Filter(found, present), each, (_COPY,))
    return replace(top, input=Project(repeated, rows))


def _positive(name: str) -> Expr:
    return binary(exp.GT, column(name), literal(0))


def _from_here(top: TopK) -> Expr:
    """How many stored rows come at or after a row."""
    order = ", ".join(
        f"{each.expr.text} {'DESC' if each.descending else 'ASC'} "
        f"NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in top.order
    )
    frame = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
    return Expr(f"SUM({column(_OLD).text}) OVER (ORDER BY {order} {frame})")

"""Incremental TopK: the first k rows, T, of a relation R, from the stored ones and the delta.

    R₁ up to the last row of T₀  =  T₀ + ΔR up to there

If that is k rows or more, the first k of them are T₁; if it is fewer, rows are missing that are not
stored, and R₁ must be read.  A T₀ of fewer than k rows is all of R₀, and T₀ + ΔR all of R₁.
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
    items_of,
)

STORED = "stored"  # the parameter that is bound to the stored rows
_OLD, _LEFT, _COPY = "_ab_stored", "_ab_left", "_ab_copy"


def visible_order(top: TopK, items: tuple[Item, ...]) -> TopK | None:
    """The same order over the visible columns, if it depends on nothing else."""
    if top.partition or top.offset or not top.limit:
        return None
    exprs = {i.name: i.expr for i in top.input.items} if isinstance(top.input, Project) else {}
    names = {
        exprs.get(item.expr.column, item.expr): item.name
        for item in reversed(items)
        if item.expr.column
    }
    order = []
    for sort_key in top.order:
        name = names.get(exprs.get(sort_key.expr.column or "", sort_key.expr))
        if name is None:
            return None
        order.append(replace(sort_key, expr=column(name)))
    return TopK(Parameter(STORED, tuple(item.name for item in items)), tuple(order), top.limit)


def first_rows(top: TopK, delta: Node, *, complete: bool) -> Node:
    """The first rows after a change of the relation; `complete`: all of its rows were stored.

    If there are fewer than the limit, and it was not complete, the relation must be read.
    """
    names = top.columns
    rows = items_of(names)
    stored = Project(top.input, (*rows, Item(_OLD, weight(1)), Item(WEIGHT, weight(1))))
    changed = Project(delta, (*rows, Item(_OLD, weight(0)), Item(WEIGHT, column(WEIGHT))))
    totals = tuple(Call(name, call("SUM", column(name))) for name in (_OLD, WEIGHT))
    consolidated: Node = Aggregate(UnionAll((stored, changed)), rows, totals)
    present = _positive(WEIGHT)
    if not complete:
        consolidated = Window(consolidated, (), (Item(_LEFT, _stored_from_here(top)),))
        present = conjunction([present, _positive(_LEFT)]) or present
    copies = call("LEAST", column(WEIGHT), literal(top.limit or 0))
    generator = call("EXPLODE", call("SEQUENCE", weight(1), cast(copies, "bigint")))
    copied = Generate(Filter(consolidated, present), generator, (_COPY,))
    return replace(top, input=Project(copied, rows))


def _positive(name: str) -> Expr:
    return binary(exp.GT, column(name), literal(0))


def _stored_from_here(top: TopK) -> Expr:
    """How many stored rows sort at or after a row."""
    order = ", ".join(
        f"{sort_key.expr.text} {'DESC' if sort_key.descending else 'ASC'} "
        f"NULLS {'FIRST' if sort_key.nulls_first else 'LAST'}"
        for sort_key in top.order
    )
    frame = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
    return Expr(f"SUM({column(_OLD).text}) OVER (ORDER BY {order} {frame})")

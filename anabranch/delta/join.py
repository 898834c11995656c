"""Δ(R ⋈ S ⋈ T) = ΔR ⋈ S₁ ⋈ T₁  +  R₀ ⋈ ΔS ⋈ T₁  +  R₀ ⋈ S₀ ⋈ ΔT

Each term starts from its delta and goes on to inputs that a condition connects with what it has,
equalities first, so that no step is larger than it must be.  What few inputs have in common tells more
than what many share: an order's key more than a nation's, which customers and suppliers have too.  Of
an input that is an aggregate only the groups that the delta meets are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.delta.rule import Changed, Rule, at, differentiates
from anabranch.plan.exprs import Expr, column, conjunction, conjuncts
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Filter,
    Item,
    Join,
    KeyFilter,
    Node,
    Project,
    UnionAll,
    Version,
)
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.rules.push_keys import filter_keys

Sharing = dict[Expr, int]


@differentiates(Join)
def join(node: Join, changed: Changed, delta: Rule) -> Node | None:
    node, terms = filter_below_join(node), list[Node]()
    for position, part in enumerate(node.parts):
        change = delta(part, changed)
        if change is None:
            continue
        before = [at(other, Version.BEFORE, changed) for other in node.parts[:position]]
        after = [at(other, Version.AFTER, changed) for other in node.parts[position + 1 :]]
        terms.append(joined(node, change, [*before, *after]))
    return UnionAll(tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


def joined(node: Join, change: Node, others: Sequence[Node]) -> Node:
    """One term, left-deep: what has been joined so far is the small side of the next join.  The
    weight of a change goes along."""
    waiting = list(conjuncts(node.condition))
    sharing = _sharing(waiting)
    left, rest = change, list(others)
    while rest:
        following = _next(left, rest, waiting, sharing)
        rest.remove(following)
        have = {*left.columns, *following.columns}
        ready = [expr for expr in waiting if expr.columns <= have]
        waiting = [expr for expr in waiting if expr not in ready]
        if left is change:
            following = _groups_met(left, following, ready)
        left = Join((left, following), conjunction(ready), broadcast=True)
    names = (*node.columns, WEIGHT) if WEIGHT in change.columns else node.columns
    return Project(left, tuple(Item(name, column(name)) for name in names))


def _next(left: Node, rest: Sequence[Node], waiting: Sequence[Expr], sharing: Sharing) -> Node:
    def connection(part: Node) -> tuple[int, int]:
        return _connection(left, part, waiting, sharing)

    return max(rest, key=connection)  # the first of the best


def _connection(
    left: Node, right: Node, waiting: Sequence[Expr], sharing: Sharing
) -> tuple[int, int]:
    """2: an equality joins the two, and how few share it; 1: some condition does; 0: only all
    combinations would."""
    best = (0, 0)
    for expr in waiting:
        mine, theirs = expr.columns & {*left.columns}, expr.columns & {*right.columns}
        if mine and theirs and mine | theirs == expr.columns:
            equal = _is_equality(expr, left, right)
            best = max(best, (2, -sharing.get(expr, 0)) if equal else (1, 0))
    return best


def _sharing(conditions: Sequence[Expr]) -> Sharing:
    """For each equality of columns, how many columns must be equal then."""
    equal: dict[str, set[str]] = {}
    for expr in conditions:
        if isinstance(expr.tree, (exp.EQ, exp.NullSafeEQ)) and len(expr.columns) == 2:
            one: set[str] = set().union(*(equal.get(name, {name}) for name in expr.columns))
            equal |= dict.fromkeys(one, one)
    return {
        expr: max(len(equal.get(name, ())) for name in expr.columns)
        for expr in conditions
        if expr.columns
    }


def _groups_met(left: Node, right: Node, conditions: Sequence[Expr]) -> Node:
    """γ(R) ⋈ ΔS needs only γ(R ⋉ ΔS), where the join compares keys of the groups."""
    top = right
    while isinstance(top, (Project, Filter)):
        top = top.input
    if not isinstance(top, Aggregate):
        return right
    pairs = [pair for expr in conditions if (pair := _equal_columns(expr, left, right))]
    keys = [pair for pair in pairs if not isinstance(_only(left, right, [pair]), KeyFilter)]
    return _only(left, right, keys) if keys else right


def _only(left: Node, right: Node, pairs: Sequence[tuple[str, str]]) -> Node:
    names = dict.fromkeys(mine for mine, _ in pairs)
    keys = Aggregate(left, tuple(Item(name, column(name)) for name in names))
    return filter_keys(right, keys, tuple((column(theirs), mine) for mine, theirs in pairs))


def _equal_columns(expr: Expr, left: Node, right: Node) -> tuple[str, str] | None:
    """The columns of `left = right`, in that order."""
    if not isinstance(expr.tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    a, b = Expr.of(expr.tree.this).column, Expr.of(expr.tree.expression).column
    if a in left.columns and b in right.columns:
        return (a, b) if a and b else None
    return (b, a) if a in right.columns and b in left.columns and a and b else None


def _is_equality(expr: Expr, left: Node, right: Node) -> bool:
    tree = expr.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return False
    sides = Expr.of(tree.this).columns, Expr.of(tree.expression).columns
    a, b = {*left.columns}, {*right.columns}
    return (sides[0] <= a and sides[1] <= b) or (sides[0] <= b and sides[1] <= a)

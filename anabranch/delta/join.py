"""Δ(R ⋈ S ⋈ T) = ΔR ⋈ S₁ ⋈ T₁  +  R₀ ⋈ ΔS ⋈ T₁  +  R₀ ⋈ S₀ ⋈ ΔT

Each term starts from its delta and continues with inputs that a condition connects to it, equalities
first, so that intermediate results stay small.  A key shared by few inputs is more selective than one
shared by many: an order key more than a nation key, which customers and suppliers have too.  If an
input is an aggregate, only the groups with keys in the delta are computed.
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
    Join,
    KeyFilter,
    Node,
    Project,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.rules.push_keys import filter_keys

SharedBy = dict[Expr, int]


@differentiates(Join)
def join(node: Join, changed: Changed, delta: Rule) -> Node | None:
    terms: list[Node] = []
    for position, child in enumerate(node.parts):
        change = delta(child, changed)
        if change is None:
            continue
        before = [at(other, Version.BEFORE, changed) for other in node.parts[:position]]
        after = [at(other, Version.AFTER, changed) for other in node.parts[position + 1 :]]
        terms.append(joined(node, change, [*before, *after]))
    return UnionAll(tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


def joined(node: Join, delta: Node, others: Sequence[Node]) -> Node:
    """One term, left-deep: the result so far is the small side of the next join.  The weight of the
    delta is passed on."""
    pending = list(conjuncts(node.condition))
    shared_by = _shared_by(pending)
    left, remaining = delta, list(others)
    while remaining:
        next_input = _next(left, remaining, pending, shared_by)
        remaining.remove(next_input)
        available = {*left.columns, *next_input.columns}
        ready = [predicate for predicate in pending if predicate.columns <= available]
        pending = [predicate for predicate in pending if predicate not in ready]
        if left is delta:
            next_input = _affected_groups(left, next_input, ready)
        left = Join((left, next_input), conjunction(ready), broadcast=True)
    names = (*node.columns, WEIGHT) if WEIGHT in delta.columns else node.columns
    return Project(left, items_of(names))


def _next(
    left: Node, remaining: Sequence[Node], pending: Sequence[Expr], shared_by: SharedBy
) -> Node:
    def connection(candidate: Node) -> tuple[int, int]:
        return _connection(left, candidate, pending, shared_by)

    return max(remaining, key=connection)  # ties: in the order written


def _connection(
    left: Node, right: Node, pending: Sequence[Expr], shared_by: SharedBy
) -> tuple[int, int]:
    """2: an equality connects the two, ranked by how few columns share it; 1: another condition does;
    0: a cross join."""
    best = (0, 0)
    for predicate in pending:
        left_columns, right_columns = (
            predicate.columns & {*left.columns},
            predicate.columns & {*right.columns},
        )
        if left_columns and right_columns and left_columns | right_columns == predicate.columns:
            equal = _is_equality(predicate, left, right)
            best = max(best, (2, -shared_by.get(predicate, 0)) if equal else (1, 0))
    return best


def _shared_by(conditions: Sequence[Expr]) -> SharedBy:
    """For each equality of columns, the size of its equivalence class of columns."""
    classes: dict[str, set[str]] = {}
    for predicate in conditions:
        if isinstance(predicate.tree, (exp.EQ, exp.NullSafeEQ)) and len(predicate.columns) == 2:
            merged: set[str] = set().union(
                *(classes.get(name, {name}) for name in predicate.columns)
            )
            classes |= dict.fromkeys(merged, merged)
    return {
        predicate: max(len(classes.get(name, ())) for name in predicate.columns)
        for predicate in conditions
        if predicate.columns
    }


def _affected_groups(left: Node, right: Node, conditions: Sequence[Expr]) -> Node:
    """γ(R) ⋈ ΔS needs only γ(R ⋉ ΔS), if the join compares keys of the groups."""
    operator = right
    while isinstance(operator, (Project, Filter)):
        operator = operator.input
    if not isinstance(operator, Aggregate):
        return right
    pairs = [pair for predicate in conditions if (pair := _equal_columns(predicate, left, right))]
    keys = [
        pair for pair in pairs if not isinstance(_filtered_by_keys(left, right, [pair]), KeyFilter)
    ]
    return _filtered_by_keys(left, right, keys) if keys else right


def _filtered_by_keys(left: Node, right: Node, pairs: Sequence[tuple[str, str]]) -> Node:
    names = dict.fromkeys(left_column for left_column, _ in pairs)
    keys = Aggregate(left, items_of(names))
    return filter_keys(
        right,
        keys,
        tuple((column(right_column), left_column) for left_column, right_column in pairs),
    )


def _equal_columns(predicate: Expr, left: Node, right: Node) -> tuple[str, str] | None:
    """The columns of `left = right`, in that order."""
    if not isinstance(predicate.tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    one, other = Expr.of(predicate.tree.this).column, Expr.of(predicate.tree.expression).column
    if one in left.columns and other in right.columns:
        return (one, other) if one and other else None
    return (
        (other, one) if one in right.columns and other in left.columns and one and other else None
    )


def _is_equality(predicate: Expr, left: Node, right: Node) -> bool:
    tree = predicate.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return False
    sides = Expr.of(tree.this).columns, Expr.of(tree.expression).columns
    left_columns, right_columns = {*left.columns}, {*right.columns}
    return (sides[0] <= left_columns and sides[1] <= right_columns) or (
        sides[0] <= right_columns and sides[1] <= left_columns
    )

"""Left, semi, anti and mark joins: Q(L, R) judges each left row by its matches in R.

ΔQ = Q(ΔL, R₁) + Q(L₀ ⋉ ΔR, R₁) − Q(L₀ ⋉ ΔR, R₀)

Q is linear in L; a change of R affects the left rows that it matches, or matched.  If the condition has
equalities, R is read only for the keys of the affected left rows.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from anabranch.delta.key_superset import key_superset
from anabranch.delta.rule import Changed, Rule, at, differentiates, weighted
from anabranch.delta.touched import among, keys_of, matchable, touched
from anabranch.plan.equalities import Equality, equalities
from anabranch.plan.exprs import Expr, binary, column, literal
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    ExistenceJoin,
    Filter,
    Item,
    Join,
    Node,
    Outer,
    Project,
    SemiJoin,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.optimize import TOP_KEY_RULES, optimize
from anabranch.plan.walk import walk


@differentiates(Outer)
def outer(node: Outer, changed: Changed, delta: Rule) -> Node | None:
    return _full(node, changed, delta) if node.full else existence(node, changed, delta)


@differentiates(ExistenceJoin)
def existence(node: Outer | ExistenceJoin, changed: Changed, delta: Rule) -> Node | None:
    pairs = equalities(node.condition, node.left.columns, node.right.columns)
    terms: list[Node] = []
    left, right = delta(node.left, changed), delta(node.right, changed)
    if left is not None:
        terms.append(_left_delta(node, left, pairs, changed))
    if right is not None:
        keys = (
            touched(node.right, [pair.right for pair in pairs], changed, delta) if pairs else None
        )
        terms += _right_delta(node, right, keys, pairs, changed)
    return UnionAll(tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


def _left_delta(
    node: Outer | ExistenceJoin, delta: Node, pairs: tuple[Equality, ...], changed: Changed
) -> Node:
    """Q(ΔL, R₁)"""
    after = at(node.right, Version.AFTER, changed)
    if pairs:
        keys = matchable(keys_of(delta, [pair.left for pair in pairs]), pairs)
        after = among(after, [pair.right for pair in pairs], keys)
    result = replace(node, left=delta, right=after)
    return Project(result, items_of((*node.columns, WEIGHT)))


def _right_delta(
    node: Outer | ExistenceJoin,
    delta: Node,
    keys: Node | None,
    pairs: tuple[Equality, ...],
    changed: Changed,
) -> list[Node]:
    """Q(L₀ ⋉ ΔR, R₁) − Q(L₀ ⋉ ΔR, R₀)"""
    left = at(node.left, Version.BEFORE, changed)
    after = at(node.right, Version.AFTER, changed)
    before = at(node.right, Version.BEFORE, changed)
    if keys is not None:
        left_keys, right_keys = [pair.left for pair in pairs], [pair.right for pair in pairs]
        left = among(left, left_keys, keys)
        if not _has_existence(node.right):
            keys = matchable(key_superset(optimize(left, TOP_KEY_RULES), left_keys), pairs)
        after, before = (among(state, right_keys, keys) for state in (after, before))
    elif node.condition is not None:
        left = SemiJoin(left, _without_weight(delta), node.condition)
    elif isinstance(node, ExistenceJoin):
        left = SemiJoin(left, _emptiness_changed(after, before), None)
    return [
        weighted(replace(node, left=left, right=after), 1),
        weighted(replace(node, left=left, right=before), -1),
    ]


def _has_existence(node: Node) -> bool:
    """Whether it contains such joins itself: their left rows would be computed for each of them."""
    return any(isinstance(inner, (Outer, ExistenceJoin)) for inner in walk(node))


def _without_weight(delta: Node) -> Node:
    names = [name for name in delta.columns if name != WEIGHT]
    return Project(delta, items_of(names))


def _emptiness_changed(after: Node, before: Node) -> Node:
    """One row if R became empty or non-empty, else none: all left rows see the same R."""
    counts = tuple(
        Project(
            Aggregate(state, (), (Call("n", Expr("COUNT(*)"), "count"),)),
            (Item(name, binary(exp.GT, column("n"), literal(0))),),
        )
        for state, name in ((after, "_ab_after"), (before, "_ab_before"))
    )
    return Filter(Join(counts), binary(exp.NEQ, column("_ab_after"), column("_ab_before")))


def _full(node: Outer, changed: Changed, delta: Rule) -> Node | None:
    """ΔQ = Q(L₁ ⋉ K, R₁ ⋉ K) − Q(L₀ ⋉ K, R₀ ⋉ K)      K: the keys in ΔL and in ΔR"""
    pairs = equalities(node.condition, node.left.columns, node.right.columns)
    sides = (node.left, [pair.left for pair in pairs]), (node.right, [pair.right for pair in pairs])
    deltas = [(delta(side, changed), exprs) for side, exprs in sides]
    touched_keys = [
        keys_of(side_delta, exprs)
        for side_delta, exprs in deltas
        if side_delta is not None and exprs
    ]
    states = []
    for version in (Version.AFTER, Version.BEFORE):
        inputs = [at(side, version, changed) for side, _ in sides]
        if pairs:
            keys = touched_keys[0] if len(touched_keys) == 1 else _all_keys(touched_keys)
            inputs = [
                among(state, exprs, keys) for state, (_, exprs) in zip(inputs, sides, strict=True)
            ]
        states.append(node.with_inputs(inputs))
    return UnionAll((weighted(states[0], 1), weighted(states[1], -1)))


def _all_keys(relations: list[Aggregate]) -> Aggregate:
    union = UnionAll(tuple(relations))
    return Aggregate(union, items_of(union.columns))

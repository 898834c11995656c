"""Left joins, semi joins, anti joins and marks: Q(L, R) gives each left row what its partners in R say.

ΔQ = Q(ΔL, R₁) + Q(L₀ ⋉ ΔR, R₁) − Q(L₀ ⋉ ΔR, R₀)

Q is linear in L; a change of R touches the left rows that it is, or was, a partner of.  Where the
condition has equalities, R is read for the keys of the left rows in question only.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from anabranch.delta.key_superset import key_superset
from anabranch.delta.rule import Changed, Rule, at, differentiates, weighted
from anabranch.delta.touched import among, keys_of, touched
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
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.rules.push_keys import push_keys
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
        terms.append(_of_left(node, left, pairs, changed))
    if right is not None:
        keys = (
            touched(node.right, [pair.right for pair in pairs], changed, delta) if pairs else None
        )
        terms += _of_right(node, right, keys, pairs, changed)
    return UnionAll(tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


def _of_left(
    node: Outer | ExistenceJoin, change: Node, pairs: tuple[Equality, ...], changed: Changed
) -> Node:
    """Q(ΔL, R₁)"""
    after = at(node.right, Version.AFTER, changed)
    if pairs:
        keys = _met(keys_of(change, [pair.left for pair in pairs]), pairs)
        after = among(after, [pair.right for pair in pairs], keys)
    judged = replace(node, left=change, right=after)
    return Project(judged, tuple(Item(name, column(name)) for name in (*node.columns, WEIGHT)))


def _of_right(
    node: Outer | ExistenceJoin,
    change: Node,
    keys: Node | None,
    pairs: tuple[Equality, ...],
    changed: Changed,
) -> list[Node]:
    """Q(L₀ ⋉ ΔR, R₁) − Q(L₀ ⋉ ΔR, R₀)"""
    left = at(node.left, Version.BEFORE, changed)
    after = at(node.right, Version.AFTER, changed)
    before = at(node.right, Version.BEFORE, changed)
    if keys is not None:
        lefts, rights = [pair.left for pair in pairs], [pair.right for pair in pairs]
        left = among(left, lefts, keys)
        if not _is_nested(node.right):
            keys = _met(key_superset(push_keys(left), lefts), pairs)
        after, before = (among(state, rights, keys) for state in (after, before))
    elif node.condition is not None:
        left = SemiJoin(left, _without_weight(change), node.condition)
    elif isinstance(node, ExistenceJoin):
        left = SemiJoin(left, _turned(after, before), None)
    return [
        weighted(replace(node, left=left, right=after), 1),
        weighted(replace(node, left=left, right=before), -1),
    ]


def _is_nested(node: Node) -> bool:
    """Whether it asks again for partners: the left rows would be computed for each of them."""
    return any(isinstance(part, (Outer, ExistenceJoin)) for part in walk(node))


def _met(keys: Node, pairs: tuple[Equality, ...]) -> Node:
    """The keys that can have a partner."""
    named = zip(keys.columns, pairs, strict=True)
    return without_nulls(keys, [name for name, pair in named if not pair.null_safe])


def _without_weight(change: Node) -> Node:
    names = [name for name in change.columns if name != WEIGHT]
    return Project(change, tuple(Item(name, column(name)) for name in names))


def _turned(after: Node, before: Node) -> Node:
    """One row if R has become empty or is no longer, else none: all left rows see the same R."""
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
    changes = [(delta(side, changed), exprs) for side, exprs in sides]
    touched = [keys_of(change, exprs) for change, exprs in changes if change is not None and exprs]
    states = []
    for version in (Version.AFTER, Version.BEFORE):
        inputs = [at(side, version, changed) for side, _ in sides]
        if pairs:
            keys = touched[0] if len(touched) == 1 else _all_keys(touched)
            inputs = [
                among(state, exprs, keys) for state, (_, exprs) in zip(inputs, sides, strict=True)
            ]
        states.append(node.with_inputs(inputs))
    return UnionAll((weighted(states[0], 1), weighted(states[1], -1)))


def _all_keys(parts: list[Aggregate]) -> Aggregate:
    union = UnionAll(tuple(parts))
    return Aggregate(union, tuple(Item(name, column(name)) for name in union.columns))

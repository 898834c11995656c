"""ΔQ(R) = Q(R₁ ⋉ K) − Q(R₀ ⋉ K)      K: the keys in ΔR

The rule for operators that look at one key at a time: a group, a partition, the partners of a row.
Without keys everything is computed before and after.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.delta.rule import Changed, Rule, at, weighted
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Aggregate, Item, Node, UnionAll, Version
from anabranch.plan.push_keys import semi


def keys_of(change: Node, exprs: Sequence[Expr]) -> Aggregate:
    """The keys that a change touches, each once."""
    return Aggregate(change, tuple(Item(f"_ab_k{i}", expr) for i, expr in enumerate(exprs)))


def among(node: Node, exprs: Sequence[Expr], keys: Node) -> Node:
    """The rows of the node whose values are among the keys, by position."""
    return semi(node, keys, tuple(zip(exprs, keys.columns, strict=True)))


def by_keys(node: Node, exprs: Sequence[Expr], changed: Changed, delta: Rule) -> Node | None:
    """The delta of an operator with one input that looks at the values of `exprs` one by one."""
    (below,) = node.inputs
    change = delta(below, changed)
    if change is None:
        return None
    states = [at(below, version, changed) for version in (Version.AFTER, Version.BEFORE)]
    if exprs:
        keys = keys_of(change, exprs)
        states = [among(state, exprs, keys) for state in states]
    after, before = states
    return UnionAll(
        (weighted(node.with_inputs([after]), 1), weighted(node.with_inputs([before]), -1))
    )

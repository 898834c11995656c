"""ΔQ(R) = Q(R₁ ⋉ K) − Q(R₀ ⋉ K)      K: at least the keys in ΔR

The rule for operators that look at one key at a time: a group, a partition, the partners of a row.
Without keys everything is computed before and after.

The key of a group is touched when a row of it is, that of a left row also when a partner of it is: to
find them neither has to be computed, though some may turn out to be as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.delta.rule import Changed, Rule, at, weighted
from anabranch.plan.equalities import equalities
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import (
    Aggregate,
    ExistenceJoin,
    Filter,
    Item,
    KeyFilter,
    Node,
    Outer,
    Project,
    Scan,
    TopK,
    UnionAll,
    Version,
    Window,
)
from anabranch.plan.walk import walk

Exprs = Sequence[Expr]


def keys_of(change: Node, exprs: Sequence[Expr]) -> Aggregate:
    """The keys that a change touches, each once."""
    return Aggregate(change, tuple(Item(f"_ab_k{i}", expr) for i, expr in enumerate(exprs)))


def touched(node: Node, exprs: Exprs, changed: Changed, delta: Rule) -> Aggregate | None:
    """At least the keys of the rows of a node that change."""
    found = list(_touched(node, exprs, changed, delta))
    if len(found) < 2:
        return next(iter(found), None)
    union = UnionAll(tuple(found))
    return Aggregate(union, tuple(Item(name, column(name)) for name in union.columns))


def _touched(node: Node, exprs: Exprs, changed: Changed, delta: Rule) -> Iterator[Aggregate]:
    change = delta(node, changed)
    if change is None:
        return
    if not _reads_again(change):
        yield keys_of(change, exprs)
        return
    names = frozenset[str]().union(*(expr.columns for expr in exprs))
    match node:
        case Project():
            yield from _touched(node.input, through(node.items, exprs), changed, delta)
        case Aggregate() if node.keys and names <= {key.name for key in node.keys}:
            yield from _touched(node.input, through(node.keys, exprs), changed, delta)
        case Window() | TopK() if {*exprs} <= {*node.partition}:
            yield from _touched(node.input, exprs, changed, delta)
        case Filter() if _has_groups(node):
            yield from _touched(node.input, exprs, changed, delta)
        case ExistenceJoin() if delta(node.right, changed) is None:
            yield keys_of(change, exprs)  # the right side may say which few rows are meant
        case Outer(full=False) | ExistenceJoin() if names <= {*node.left.columns}:
            yield from _of_partners(node, exprs, changed, delta) or [keys_of(change, exprs)]
        case _:
            yield keys_of(change, exprs)


def _has_groups(node: Node) -> bool:
    """Whether it judges groups, which would have to be computed for it."""
    while isinstance(node, (Filter, Project)):
        node = node.input
    return isinstance(node, Aggregate)


def _of_partners(
    node: Outer | ExistenceJoin, exprs: Exprs, changed: Changed, delta: Rule
) -> list[Aggregate]:
    """The keys in ΔL and in L₀ ⋉ ΔR, if equalities say who are partners."""
    pairs = equalities(node.condition, node.left.columns, node.right.columns)
    if not pairs:
        return []
    found = list(_touched(node.left, exprs, changed, delta))
    partners = touched(node.right, [pair.right for pair in pairs], changed, delta)
    if partners is not None:
        before = at(node.left, Version.BEFORE, changed)
        found.append(keys_of(among(before, [pair.left for pair in pairs], partners), exprs))
    return found


def _reads_again(change: Node) -> bool:
    scans = (part for part in walk(change) if isinstance(part, Scan))
    return any(scan.version is not Version.DELTA for scan in scans)


def through(items: Sequence[Item], exprs: Exprs) -> list[Expr]:
    """The expressions in the words of the items' input."""
    below = {item.name: item.expr for item in items}
    return [expr.substitute(below) for expr in exprs]


def among(node: Node, exprs: Sequence[Expr], keys: Node) -> Node:
    """The rows of the node whose values are among the keys, by position; the optimizer moves the keys
    to where they save reading."""
    return KeyFilter(node, keys, tuple(zip(exprs, keys.columns, strict=True)))


def by_keys(node: Node, exprs: Sequence[Expr], changed: Changed, delta: Rule) -> Node | None:
    """The delta of an operator with one input that looks at the values of `exprs` one by one."""
    (below,) = node.inputs
    if delta(below, changed) is None:
        return None
    states = [at(below, version, changed) for version in (Version.AFTER, Version.BEFORE)]
    keys = touched(below, exprs, changed, delta) if exprs else None
    if keys is not None:
        states = [among(state, exprs, keys) for state in states]
    after, before = states
    return UnionAll(
        (weighted(node.with_inputs([after]), 1), weighted(node.with_inputs([before]), -1))
    )

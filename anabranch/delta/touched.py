"""ΔQ(R) = Q(R₁ ⋉ K) − Q(R₀ ⋉ K)      K: a superset of the keys in ΔR

The rule for operators that work per key: a group, a partition, the matches of a row.  Without keys
everything is computed before and after.

The key of a group is touched when a row of it changes, that of a left row also when a match changes:
finding the keys needs neither result, though some of them may turn out to be unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.delta.rule import Changed, Rule, at, weighted
from anabranch.plan.equalities import Equality, equalities
from anabranch.plan.exprs import Expr
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
    items_of,
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.walk import walk

Exprs = Sequence[Expr]


def keys_of(delta: Node, exprs: Sequence[Expr]) -> Aggregate:
    """The distinct keys that a delta touches."""
    return Aggregate(delta, tuple(Item(f"_ab_k{i}", expr) for i, expr in enumerate(exprs)))


def touched(node: Node, exprs: Exprs, changed: Changed, delta: Rule) -> Aggregate | None:
    """A superset of the keys of the rows of a node that change."""
    relations = list(_touched(node, exprs, changed, delta))
    if len(relations) < 2:
        return next(iter(relations), None)
    union = UnionAll(tuple(relations))
    return Aggregate(union, items_of(union.columns))


def _touched(node: Node, exprs: Exprs, changed: Changed, delta: Rule) -> Iterator[Aggregate]:
    node_delta = delta(node, changed)
    if node_delta is None:
        return
    if not _reads_more_than_deltas(node_delta):
        yield keys_of(node_delta, exprs)
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
            yield keys_of(node_delta, exprs)  # the right side may be selective
        case Outer(full=False) | ExistenceJoin() if names <= {*node.left.columns}:
            yield from _touched_by_matches(node, exprs, changed, delta) or [
                keys_of(node_delta, exprs)
            ]
        case _:
            yield keys_of(node_delta, exprs)


def _has_groups(node: Node) -> bool:
    """Whether it filters groups, which would have to be computed for it."""
    while isinstance(node, (Filter, Project)):
        node = node.input
    return isinstance(node, Aggregate)


def _touched_by_matches(
    node: Outer | ExistenceJoin, exprs: Exprs, changed: Changed, delta: Rule
) -> list[Aggregate]:
    """The keys in ΔL and in L₀ ⋉ ΔR, if the condition has equalities."""
    pairs = equalities(node.condition, node.left.columns, node.right.columns)
    if not pairs:
        return []
    relations = list(_touched(node.left, exprs, changed, delta))
    match_keys = touched(node.right, [pair.right for pair in pairs], changed, delta)
    if match_keys is not None:
        before = at(node.left, Version.BEFORE, changed)
        relations.append(keys_of(among(before, [pair.left for pair in pairs], match_keys), exprs))
    return relations


def _reads_more_than_deltas(delta: Node) -> bool:
    scans = (scan for scan in walk(delta) if isinstance(scan, Scan))
    return any(scan.version is not Version.DELTA for scan in scans)


def through(items: Sequence[Item], exprs: Exprs) -> list[Expr]:
    """The expressions over the input of the items."""
    item_exprs = {item.name: item.expr for item in items}
    return [expr.substitute(item_exprs) for expr in exprs]


def among(node: Node, exprs: Sequence[Expr], keys: Node) -> Node:
    """The rows of the node whose values are among the keys, by position; the optimizer pushes the keys
    down."""
    return KeyFilter(node, keys, tuple(zip(exprs, keys.columns, strict=True)))


def matchable(keys: Node, pairs: tuple[Equality, ...]) -> Node:
    """The keys that can have a match."""
    named_pairs = zip(keys.columns, pairs, strict=True)
    return without_nulls(keys, [name for name, pair in named_pairs if not pair.null_safe])


def by_keys(node: Node, exprs: Sequence[Expr], changed: Changed, delta: Rule) -> Node | None:
    """The delta of an operator with one input that works per value of `exprs`."""
    (child,) = node.inputs
    if delta(child, changed) is None:
        return None
    states = [at(child, version, changed) for version in (Version.AFTER, Version.BEFORE)]
    keys = touched(child, exprs, changed, delta) if exprs else None
    if keys is not None:
        states = [among(state, exprs, keys) for state in states]
    after, before = states
    return UnionAll(
        (weighted(node.with_inputs([after]), 1), weighted(node.with_inputs([before]), -1))
    )

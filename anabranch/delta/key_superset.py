"""A superset of the keys of some rows, without computing everything the rows are joined with.

keys(R ⋈ S ⋈ T) ⊆ keys(R ⋈ T)      R has the columns of the keys, and S changed

A filter on keys is correct for more keys as well.  Tables that change are large, as a rule, and would
have to be read before the keys are known.  Tables that do not change are often selective, and stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.delta.touched import keys_of, through
from anabranch.plan.exprs import Expr, conjunction, conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Join, Node, Project, Scan, Version
from anabranch.plan.walk import walk


def key_superset(node: Node, exprs: Sequence[Expr]) -> Aggregate:
    """A superset of the values of `exprs` in the rows of a node before the change."""
    core, keys, conditions = _below_filters(node, exprs)
    if not isinstance(core, Join) or any(expr.column is None for expr in keys):
        return keys_of(node, exprs)
    names = {key.column for key in keys}
    owner = next((child for child in core.parts if names <= {*child.columns}), None)
    if owner is None:
        return keys_of(node, exprs)
    conditions = [*conjuncts(core.condition), *conditions]
    retained = _connected(
        owner, [child for child in core.parts if not _reads_changed(child)], conditions
    )
    if not any(_reads_changed(child) for child in core.parts if child not in retained):
        return keys_of(node, exprs)
    available = {name for child in retained for name in child.columns}
    condition = conjunction(predicate for predicate in conditions if predicate.columns <= available)
    if len(retained) > 1:
        return keys_of(Join(tuple(retained), condition), keys)
    return keys_of(owner if condition is None else Filter(owner, condition), keys)


def _below_filters(node: Node, exprs: Sequence[Expr]) -> tuple[Node, list[Expr], list[Expr]]:
    """The node below filters and projections; the expressions and the filter conditions over its
    columns, lower filters first, since those above may depend on them."""
    keys, conditions = list(exprs), list[Expr]()
    while isinstance(node, (Filter, Project)):
        if isinstance(node, Filter):
            conditions = [*conjuncts(node.condition), *conditions]
        else:
            keys, conditions = (through(node.items, exprs_) for exprs_ in (keys, conditions))
        node = node.input
    return node, keys, conditions


def _connected(owner: Node, others: Sequence[Node], conditions: Sequence[Expr]) -> list[Node]:
    """The owner and the inputs that predicates connect to it, directly or transitively."""
    retained, remaining = [owner], [node for node in others if node is not owner]
    while True:
        available = {name for node in retained for name in node.columns}
        next_node = next(
            (node for node in remaining if _is_connected(node, available, conditions)), None
        )
        if next_node is None:
            return retained
        retained.append(next_node)
        remaining.remove(next_node)


def _is_connected(node: Node, available: set[str], conditions: Sequence[Expr]) -> bool:
    own = {*node.columns}
    return any(
        predicate.columns <= available | own
        and predicate.columns & available
        and predicate.columns & own
        for predicate in conditions
    )


def _reads_changed(node: Node) -> bool:
    scans = (scan for scan in walk(node) if isinstance(scan, Scan))
    return any(scan.version is Version.BEFORE for scan in scans)

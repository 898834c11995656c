"""Keys of rows, found without all that the rows are joined with.

keys(R ⋈ S ⋈ T) ⊆ keys(R ⋈ T)      R has the columns of the keys, and S changed

Whoever asks for the rows of some keys may ask for more of them.  What changes is large, as a rule, and
would have to be read before the keys are known.  What does not change often says which few rows are
meant, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.delta.touched import keys_of, through
from anabranch.plan.exprs import Expr, conjunction, conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Join, Node, Project, Scan, Version
from anabranch.plan.walk import walk


def key_superset(node: Node, exprs: Sequence[Expr]) -> Aggregate:
    """At least the values of `exprs` in the rows of a node as it was."""
    inner, asked, conditions = _below(node, exprs)
    if not isinstance(inner, Join) or any(expr.column is None for expr in asked):
        return keys_of(node, exprs)
    names = {expr.column for expr in asked}
    owner = next((part for part in inner.parts if names <= {*part.columns}), None)
    if owner is None:
        return keys_of(node, exprs)
    conditions = [*conjuncts(inner.condition), *conditions]
    kept = _linked(owner, [part for part in inner.parts if not _moves(part)], conditions)
    if not any(_moves(part) for part in inner.parts if part not in kept):
        return keys_of(node, exprs)
    seen = {name for part in kept for name in part.columns}
    condition = conjunction(each for each in conditions if each.columns <= seen)
    if len(kept) > 1:
        return keys_of(Join(tuple(kept), condition), asked)
    return keys_of(owner if condition is None else Filter(owner, condition), asked)


def _below(node: Node, exprs: Sequence[Expr]) -> tuple[Node, list[Expr], list[Expr]]:
    """The first node that is more than a filter or a list of columns; the expressions and the filters'
    conditions in its words, the lower ones first: those above may count on them."""
    asked, conditions = list(exprs), list[Expr]()
    while isinstance(node, (Filter, Project)):
        if isinstance(node, Filter):
            conditions = [*conjuncts(node.condition), *conditions]
        else:
            asked, conditions = (through(node.items, each) for each in (asked, conditions))
        node = node.input
    return node, asked, conditions


def _linked(owner: Node, others: Sequence[Node], conditions: Sequence[Expr]) -> list[Node]:
    """The owner and the inputs that conditions tie to it, one after the other."""
    kept, waiting = [owner], [part for part in others if part is not owner]
    while True:
        seen = {name for part in kept for name in part.columns}
        found = next((part for part in waiting if _tied(part, seen, conditions)), None)
        if found is None:
            return kept
        kept.append(found)
        waiting.remove(found)


def _tied(part: Node, seen: set[str], conditions: Sequence[Expr]) -> bool:
    own = {*part.columns}
    return any(
        each.columns <= seen | own and each.columns & seen and each.columns & own
        for each in conditions
    )


def _moves(node: Node) -> bool:
    scans = (part for part in walk(node) if isinstance(part, Scan))
    return any(scan.version is Version.BEFORE for scan in scans)

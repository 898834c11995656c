"""Δ: the delta plan of every operator.

    after = before + Δ        as Z-sets: the weights of equal rows add up; weight zero is no row

Weights are exactly +1 or -1; only deltas of a single row are consolidated inside a delta plan.
"""

from __future__ import annotations

from anabranch.cache import cached
from anabranch.delta import (  # noqa: F401 - each registers the rules of its operators
    aggregate,
    existence,
    filter,
    generate,
    join,
    project,
    recursive,
    scan,
    union_all,
    window,
)
from anabranch.delta.rule import RULES, Changed
from anabranch.plan.nodes import Node
from anabranch.plan.optimize import OPERATOR_RULES, optimize
from anabranch.plan.walk import reads_now


@cached(5_000)
def delta(node: Node, changed: Changed) -> Node | None:
    """The node's columns and `_ab_w`; None if nothing below it has changed."""
    if not reads_now(node) & changed:
        return None
    return RULES.of(node)(optimize(node, OPERATOR_RULES), changed, delta)

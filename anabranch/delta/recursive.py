"""R = S + F(R), and F is linear in R:

ΔR = ΔS + ΔF(R₀) + F₁(ΔR)      ΔF: F before and after the change of what else it reads

a recursion of its own, over signed rows.  As counts of derivations add up, rows that lose one of
several derivations stay, and rows that only supported each other go: nothing is left to rederive.

R = S ∪ F(R) keeps every row once, so that derivations are not counted (round a circle there is no end
of them): its change is the difference of the two sets, which rounds find out (delta/closure.py).
"""

from __future__ import annotations

from anabranch.delta.rule import RULES, Changed, Rule, at, differentiates
from anabranch.errors import InternalError
from anabranch.plan.nodes import (
    WEIGHT,
    Difference,
    Join,
    Node,
    Project,
    Recursive,
    RecursiveRef,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.walk import open_recursions, transform


@differentiates(Recursive)
def recursive(node: Recursive, changed: Changed, delta: Rule) -> Node | None:
    before = at(node, Version.BEFORE, changed)
    if node.distinct:
        return Difference(before, at(node, Version.AFTER))
    starts = [delta(node.seed, changed), delta(_from(before, node), changed)]
    known = tuple(start for start in starts if start is not None)
    if not known:
        return None
    signed = RecursiveRef(f"{node.name}_delta", (*node.columns, WEIGHT))
    step = lifted(at(node.step, Version.AFTER, changed), signed)
    return Recursive(signed.name, UnionAll(known), step)


def _from(before: Node, node: Recursive) -> Node:
    """F(R₀): the step taken from all rows of before the change."""
    return transform(
        node.step,
        lambda part: before if isinstance(part, RecursiveRef) and part.name == node.name else part,
    )


def lifted(node: Node, signed: RecursiveRef) -> Node:
    """F over signed rows: each keeps the sign of the row that it comes from.

    Of a linear operator with one input, and of UNION ALL, that is its own rule of Δ.
    """
    if isinstance(node, RecursiveRef):
        return signed
    if isinstance(node, Join):
        parts = [lifted(part, signed) if open_recursions(part) else part for part in node.parts]
        return Project(node.with_inputs(parts), items_of((*node.columns, WEIGHT)))
    if node.linear and node.inputs:
        found = RULES.of(node)(node, frozenset(), lambda part, _: lifted(part, signed))
        if found is not None:
            return found
    raise InternalError(f"a recursion through {type(node).__name__}")


def not_linear(node: Node) -> Node | None:
    """The operator that a recursion may not go through; every branch names it exactly once."""
    if isinstance(node, RecursiveRef):
        return None
    if not node.linear:
        return node
    inside = [part for part in node.inputs if open_recursions(part)]
    wanted = len(node.inputs) if isinstance(node, UnionAll) else 1
    if len(inside) != wanted:
        return node
    return next((found for part in inside if (found := not_linear(part)) is not None), None)

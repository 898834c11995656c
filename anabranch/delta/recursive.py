"""R = S + F(R), and F is linear in R.  While F stays as it was, a change of the seeds is followed by

ΔR = ΔS + F(ΔR)

a recursion of its own over signed rows: derivations are counted, so rows that lose one of several stay.
It ends because both of its sides do: the rows that are gone are among those of F(F(… S₀)), and the new
ones among those of F(F(… S₁)).

When F changes, ΔR = ΔS + ΔF(R₀) + F₁(ΔR) holds as well, but has no end where the change leaves a cycle
that nothing reaches any more: rows of R₀ go round it with both signs for ever, though R₀ and R₁ are
finite.  R₀ has to be computed for ΔF(R₀) in any case, so it is taken from R₁:

ΔR = R₁ − R₀

which ends when both do, as a recomputation does.

R = S ∪ F(R) keeps every row once, so derivations are not counted (a cycle in the data has infinitely
many): its delta is the difference of the two sets, computed by iteration (delta/closure.py).
"""

from __future__ import annotations

from anabranch.delta.rule import (
    RULES,
    Changed,
    Rule,
    at,
    differentiates,
    net,
    unit_weights,
    weighted,
)
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
from anabranch.plan.walk import open_recursions, reads_now


@differentiates(Recursive)
def recursive(node: Recursive, changed: Changed, delta: Rule) -> Node | None:
    before = at(node, Version.BEFORE, changed)
    if node.distinct:
        return Difference(before, at(node, Version.AFTER))
    if reads_now(node.step) & changed:
        change = UnionAll((weighted(at(node, Version.AFTER), 1), weighted(before, -1)))
        return change if node.loose else unit_weights(net(change))
    seeds = delta(node.seed, changed)
    if seeds is None:
        return None
    signed = RecursiveRef(f"{node.name}_delta", (*node.columns, WEIGHT))
    step = over_signed_rows(at(node.step, Version.AFTER, changed), signed)
    return Recursive(signed.name, seeds, step)


def over_signed_rows(node: Node, signed: RecursiveRef) -> Node:
    """F over signed rows: each result has the sign of the row it comes from.

    For linear operators with one input, and for UNION ALL, that is their delta rule.
    """
    if isinstance(node, RecursiveRef):
        return signed
    if isinstance(node, Join):
        children = [
            over_signed_rows(child, signed) if open_recursions(child) else child
            for child in node.parts
        ]
        return Project(node.with_inputs(children), items_of((*node.columns, WEIGHT)))
    if node.linear and node.inputs:
        signed_node = RULES.of(node)(
            node, frozenset(), lambda child, _: over_signed_rows(child, signed)
        )
        if signed_node is not None:
            return signed_node
    raise InternalError(f"a recursion through {type(node).__name__}")


def not_linear(node: Node) -> Node | None:
    """The operator that is not linear in the recursion; each branch must refer to it exactly once."""
    if isinstance(node, RecursiveRef):
        return None
    if not node.linear:
        return node
    recursive_inputs = [child for child in node.inputs if open_recursions(child)]
    expected = len(node.inputs) if isinstance(node, UnionAll) else 1
    if len(recursive_inputs) != expected:
        return node
    return next(
        (nonlinear for child in recursive_inputs if (nonlinear := not_linear(child)) is not None),
        None,
    )

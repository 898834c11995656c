"""R = S + F(R), and F is linear in R:

ΔR = ΔS + ΔF(R₀) + F₁(ΔR)      ΔF: F before and after the change of what else it reads

a recursion of its own, over signed rows.  As counts of derivations add up, rows that lose one of
several derivations stay, and rows that only supported each other go: nothing is left to rederive.

R = S ∪ F(R) keeps every row once, so that derivations are not counted (round a circle there is no end
of them): its change is the difference of the two sets, which rounds find out (delta/closure.py).
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.rule import Changed, Rule, at
from anabranch.errors import InternalError
from anabranch.plan.exprs import column
from anabranch.plan.nodes import (
    WEIGHT,
    Again,
    Difference,
    Filter,
    Generate,
    Item,
    Join,
    Node,
    Project,
    Recursive,
    UnionAll,
    Version,
)
from anabranch.plan.walk import open_recursions, transform


def recursive(node: Recursive, changed: Changed, delta: Rule) -> Node | None:
    before = at(node, Version.BEFORE, changed)
    if node.distinct:
        return Difference(before, at(node, Version.AFTER))
    starts = [delta(node.seed, changed), delta(_from(before, node), changed)]
    known = tuple(start for start in starts if start is not None)
    if not known:
        return None
    signed = Again(f"{node.name}_delta", (*node.columns, WEIGHT))
    step = lifted(at(node.step, Version.AFTER, changed), signed)
    return Recursive(signed.name, UnionAll(known), step)


def _from(before: Node, node: Recursive) -> Node:
    """F(R₀): the step taken from all rows of before the change."""
    return transform(
        node.step,
        lambda part: before if isinstance(part, Again) and part.name == node.name else part,
    )


def lifted(node: Node, signed: Again) -> Node:
    """F over signed rows: each keeps the sign of the row that it comes from."""
    passed = tuple(Item(name, column(name)) for name in (*node.columns, WEIGHT))
    match node:
        case Again():
            return signed
        case Filter():
            return replace(node, input=lifted(node.input, signed))
        case Project():
            sign = Item(WEIGHT, column(WEIGHT))
            return Project(lifted(node.input, signed), (*node.items, sign))
        case Generate():
            return Project(replace(node, input=lifted(node.input, signed)), passed)
        case Join():
            parts = [lifted(part, signed) if open_recursions(part) else part for part in node.parts]
            return Project(node.with_inputs(parts), passed)
        case UnionAll():
            return UnionAll(tuple(lifted(part, signed) for part in node.parts))
    raise InternalError(f"a recursion through {type(node).__name__}")


LINEAR = (Again, Filter, Project, Generate, Join, UnionAll)


def not_linear(node: Node) -> Node | None:
    """The operator that a recursion may not go through; every branch names it exactly once."""
    if isinstance(node, Again):
        return None
    if not isinstance(node, LINEAR):
        return node
    inside = [part for part in node.inputs if open_recursions(part)]
    wanted = len(node.inputs) if isinstance(node, UnionAll) else 1
    if len(inside) != wanted:
        return node
    return next((found for part in inside if (found := not_linear(part)) is not None), None)

"""R = S ∪ F(R), the recursion that keeps each row once, as a component of a single member.

The member is the recursion itself: F reads it where it named itself, and the rounds of
delta/fixpoint.py find its least fixed point and carry it over a change, deletes included.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.maintenance import ByRows, Maintenance
from anabranch.delta.member import Member
from anabranch.names import TableName
from anabranch.plan.exprs import column
from anabranch.plan.monotone import Broken, not_monotone
from anabranch.plan.nodes import (
    Aggregate,
    Item,
    Node,
    Project,
    Recursive,
    RecursiveRef,
    Scan,
    UnionAll,
    Version,
)
from anabranch.plan.walk import open_recursions, transform, walk

_SCHEMA = "_ab_recursions"  # no table of a user is in it


def by_seeds(plan: Node) -> Node:
    """A plan of the same types that Spark takes: a recursion has those of its seed."""

    def seed(part: Node) -> Node:
        return part.seed if isinstance(part, Recursive) and part.distinct else part

    return transform(plan, seed)


def table_of(node: Recursive) -> TableName:
    """The name under which the rounds know the recursion."""
    return TableName.of(_SCHEMA, node.name)


def as_member(node: Recursive) -> Member:
    """The recursion over its sources as they are now."""
    table = table_of(node)

    def itself(part: Node) -> Node:
        if isinstance(part, RecursiveRef) and part.name == node.name:
            return Scan(table, part.names)
        return part

    lines = UnionAll((node.seed, transform(node.step, itself)))
    keys = tuple(Item(name, column(name)) for name in node.columns)
    return Member(table, Aggregate(lines, keys), frozenset([table]))


def not_kept(node: Recursive) -> str | None:
    """What keeps a recursion from having a least fixed point, in words."""
    for part in walk(node.step):
        if isinstance(part, Recursive) and node.name in open_recursions(part):
            return "it names itself inside another recursion"
    member = as_member(node)
    broken: Broken | None = next(iter(not_monotone(member.plan, member.circle)), None)
    return None if broken is None else f"it names itself {broken.operator.value}"


def as_now(node: Recursive) -> Recursive:
    """The recursion as it was written, whichever state of its sources a plan asks for."""

    def move(part: Node) -> Node:
        return replace(part, version=Version.NOW, ranges=()) if isinstance(part, Scan) else part

    found = transform(node, move)
    assert isinstance(found, Recursive)
    return found


def is_before(node: Recursive) -> bool:
    """Whether a plan asks for the recursion as it was before a change."""
    scans = (part for part in walk(node) if isinstance(part, Scan))
    return any(scan.version is Version.BEFORE for scan in scans)


def root_recursion(plan: Node) -> tuple[Recursive, dict[str, str]] | None:
    """The recursion that a plan is, but for the names of its columns (those of the plan to those of
    the recursion): whoever stores the plan's rows has stored the recursion."""
    names = {name: name for name in plan.columns}
    while isinstance(plan, Project):
        exprs = {item.name: item.expr.column for item in plan.items}
        if any(exprs[name] is None for name in names.values()):
            return None
        names = {shown: exprs[name] or "" for shown, name in names.items()}
        plan = plan.input
    if not isinstance(plan, Recursive) or not plan.distinct:
        return None
    return (plan, names) if sorted(names.values()) == sorted(plan.columns) else None


def starts_afresh(kept: Maintenance) -> bool:
    """Whether the plan has a recursion whose rows are not the stored ones: before a change can be
    followed, they have to be computed."""
    found = any(isinstance(part, Recursive) and part.distinct for part in walk(kept.full))
    return found and not (isinstance(kept, ByRows) and root_recursion(kept.full))

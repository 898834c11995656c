"""R = S ∪ F(R), the recursion without duplicates, as a component with a single member.

The member is the recursion itself: F reads it where it referred to itself, and delta/fixpoint.py
computes its least fixed point and maintains it over changes, deletes included.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.delta.maintenance import ByRows, Maintenance
from anabranch.delta.member import Member
from anabranch.names import TableName
from anabranch.plan.monotone import Broken, not_monotone
from anabranch.plan.nodes import (
    Aggregate,
    Node,
    Project,
    Recursive,
    RecursiveRef,
    Scan,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.walk import open_recursions, tables, transform, walk

_SCHEMA = "_ab_recursions"  # users have no tables in it


def with_seeds(plan: Node) -> Node:
    """Recursions replaced by their seeds: the types are the same, and Spark can run the plan."""

    def replace_recursion(node: Node) -> Node:
        return node.seed if isinstance(node, Recursive) and node.distinct else node

    return transform(plan, replace_recursion)


def table_of(node: Recursive) -> TableName:
    """The name of the recursion as a member of its component."""
    return TableName.of(_SCHEMA, node.name)


def as_member(node: Recursive) -> Member:
    """The recursion over the current state of its sources."""
    table = table_of(node)

    def scan_member(reference: Node) -> Node:
        if isinstance(reference, RecursiveRef) and reference.name == node.name:
            return Scan(table, reference.names)
        return reference

    branches = UnionAll((node.seed, transform(node.step, scan_member)))
    keys = items_of(node.columns)
    return Member(table, Aggregate(branches, keys), frozenset([table]))


def not_maintainable(node: Recursive) -> str | None:
    """Why a recursion has no least fixed point, in words; None if it has one."""
    for inner in walk(node.step):
        if isinstance(inner, Recursive) and node.name in open_recursions(inner):
            return "it names itself inside another recursion"
    member = as_member(node)
    violation: Broken | None = next(iter(not_monotone(member.plan, member.component)), None)
    return None if violation is None else f"it names itself {violation.operator.value}"


def as_written(node: Recursive) -> Recursive:
    """The recursion as it was written, whatever state of its sources a plan refers to."""

    def read_now(scan: Node) -> Node:
        return replace(scan, version=Version.NOW, ranges=()) if isinstance(scan, Scan) else scan

    written = transform(node, read_now)
    assert isinstance(written, Recursive)
    return written


def is_before(node: Recursive) -> bool:
    """Whether a plan refers to the state of the recursion before a change."""
    scans = (scan for scan in walk(node) if isinstance(scan, Scan))
    return any(scan.version is Version.BEFORE for scan in scans)


def root_recursion(plan: Node) -> tuple[Recursive, dict[str, str]] | None:
    """The recursion that a plan consists of, up to column names (those of the plan to those of the
    recursion): if the rows of the plan are stored, so are those of the recursion."""
    names = {name: name for name in plan.columns}
    while isinstance(plan, Project):
        exprs = {item.name: item.expr.column for item in plan.items}
        if any(exprs[name] is None for name in names.values()):
            return None
        names = {visible: exprs[name] or "" for visible, name in names.items()}
        plan = plan.input
    if not isinstance(plan, Recursive) or not plan.distinct:
        return None
    return (plan, names) if sorted(names.values()) == sorted(plan.columns) else None


def recomputes_recursion(maintenance: Maintenance) -> bool:
    """Whether the plan has a recursion whose rows are not stored: they are recomputed before a change
    can be applied to them."""
    has_recursion = any(
        isinstance(node, Recursive) and node.distinct for node in walk(maintenance.full)
    )
    return has_recursion and not (
        isinstance(maintenance, ByRows) and root_recursion(maintenance.full)
    )


def compares_recursion(maintenance: Maintenance) -> bool:
    """Whether the plan has a recursion with UNION ALL that is computed before and after a change of
    the tables that it goes through."""
    return any(
        isinstance(node, Recursive) and not node.distinct and bool(tables(node.step))
        for node in walk(maintenance.full)
    )

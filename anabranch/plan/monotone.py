"""Whether a query only gains rows when some of the tables it reads, the members of its component, do.

monotone in M:    M ≤ M'  implies  Q(M) ≤ Q(M'), as bags

Subplans that read no member are unrestricted.  A member may be read below filters, projections, joins,
generators, UNION, INTERSECT, DISTINCT, EXISTS and IN, and on the left side of LEFT JOIN, EXCEPT and NOT
EXISTS: there, more rows never remove any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.demand import Demand, Operator
from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Generate, Node, Project, Scan, UnionAll
from anabranch.plan.walk import walk

Members = Collection[TableName]


@dataclass(frozen=True)
class Broken:
    """A member that is read below an operator that may lose rows when its input gains some."""

    table: TableName
    operator: Operator


def reads(node: Node, members: Members) -> list[TableName]:
    """The members that are read below a node."""
    scanned = (scan.table for scan in walk(node) if isinstance(scan, Scan))
    return list(dict.fromkeys(table for table in scanned if table in members))


def not_monotone(node: Node, members: Members, demand: Demand | None = None) -> Iterator[Broken]:
    """Every member read where it must not be; `demand` is what the operators above need."""
    if not reads(node, members):
        return
    demand = Demand(values=frozenset(node.columns)) if demand is None else demand
    for operator, subplan in nonmonotone_inputs(node, demand):
        for table in reads(subplan, members):
            yield Broken(table, operator)
    for subplan in monotone_inputs(node, demand):
        yield from not_monotone(subplan, members, node.demand_of(demand))


def nonmonotone_inputs(node: Node, demand: Demand) -> list[tuple[Operator, Node]]:
    """The inputs whose additional rows may remove rows from the node."""
    if isinstance(node, Filter) and (sides := counted_sides(node)) is not None:
        return [(Operator.EXCEPT, sides.right)] if sides.negative else []
    return node.nonmonotone_inputs(demand)


def monotone_inputs(node: Node, demand: Demand) -> tuple[Node, ...]:
    """The inputs whose additional rows can only add rows to the node."""
    if isinstance(node, Filter) and (sides := counted_sides(node)) is not None:
        return (sides.left,) if sides.negative else (sides.left, sides.right)
    nonmonotone = [subplan for _, subplan in nonmonotone_inputs(node, demand)]
    return tuple(subplan for subplan in node.inputs if subplan not in nonmonotone)


@dataclass(frozen=True)
class CountedSides:
    """INTERSECT and EXCEPT count how often either side has a row (see sql/lower/set_operations)."""

    keys: tuple[str, ...]
    left: Node
    right: Node
    negative: bool  # EXCEPT


LEFT, RIGHT = "_ab_l", "_ab_r"


def counted_sides(node: Filter) -> CountedSides | None:
    counts = node.input
    if not isinstance(counts, Aggregate) or [call.name for call in counts.calls] != [LEFT, RIGHT]:
        return None
    sides, filters = counts.input, list[Filter]()
    while isinstance(sides, Filter):  # a condition on the result holds for each side as well
        filters.append(sides)
        sides = sides.input
    if not isinstance(sides, UnionAll) or len(sides.parts) != 2:
        return None
    left, right = sides.parts
    for filter_ in reversed(filters):
        left, right = (replace(filter_, input=side) for side in (left, right))
    positive = {
        conjunct.text for conjunct in conjuncts(node.condition) if isinstance(conjunct.tree, exp.GT)
    }
    is_intersection = {f"`{LEFT}` > 0", f"`{RIGHT}` > 0"} <= positive
    return CountedSides(tuple(key.name for key in counts.keys), left, right, not is_intersection)


def unbounded(node: Node, members: Members) -> set[TableName]:
    """Members whose duplicates become duplicates of the result: no operator above them removes
    duplicates."""
    if isinstance(node, Scan):
        return {node.table} & set(members)
    if isinstance(node, Filter) and counted_sides(node) is not None:
        return set()
    return {table for child in node.duplicating for table in unbounded(child, members)}


def counts_copies(node: Node) -> bool:
    """INTERSECT ALL and EXCEPT ALL: how often a row comes out depends on how often it came in."""
    return (
        isinstance(node, Generate)
        and isinstance(node.input, Filter)
        and counted_sides(node.input) is not None
    )


def distinct_root(plan: Node) -> Project | None:
    """The query without its DISTINCT, if it is DISTINCT that makes its rows unique."""
    project = plan if isinstance(plan, Project) else None
    distinct = project.input if project is not None else plan
    if not isinstance(distinct, Aggregate) or distinct.calls:
        return None
    if project is None:
        return Project(distinct.input, distinct.keys)
    keys = {key.name: key.expr for key in distinct.keys}
    if {item.expr.column for item in project.items} != keys.keys():
        return None
    items = tuple(type(item)(item.name, keys[item.expr.column or ""]) for item in project.items)
    return Project(distinct.input, items)

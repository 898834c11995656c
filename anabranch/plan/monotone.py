"""Whether a query only gains rows when some of the tables it reads, the members of its component, do.

monotone in M:    M ≤ M'  implies  Q(M) ≤ Q(M'), as bags

Parts that read no member may do anything.  A reference to a member may stand below filters,
projections, joins, generators, UNION, INTERSECT, DISTINCT, EXISTS and IN, and on the left of LEFT JOIN,
EXCEPT and NOT EXISTS: more rows there never take a row away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Match,
    Node,
    Outer,
    Partner,
    Project,
    Scan,
    Top,
    UnionAll,
    Windows,
)
from anabranch.plan.walk import walk

Members = Collection[TableName]


class Operator(Enum):
    """Where a member may not be read; the value is how people call it."""

    AGGREGATE = "below an aggregate"
    WINDOW = "below a window function"
    LIMIT = "below LIMIT"
    EXCEPT = "on the right side of EXCEPT"
    OUTER = "on the nullable side of an outer join"
    ABSENT = "inside NOT EXISTS or NOT IN"
    VALUE = "in EXISTS or IN inside of an expression"


@dataclass(frozen=True)
class Broken:
    """A member that is read below an operator that more rows may take rows from."""

    table: TableName
    operator: Operator


def reads(node: Node, members: Members) -> list[TableName]:
    """The members that are read below a node."""
    found = (part.table for part in walk(node) if isinstance(part, Scan))
    return list(dict.fromkeys(table for table in found if table in members))


def not_monotone(node: Node, members: Members) -> Iterator[Broken]:
    """Every member that is read where it must not be."""
    if not reads(node, members):
        return
    for operator, below in forbidden(node):
        for table in reads(below, members):
            yield Broken(table, operator)
    for below in allowed(node):
        yield from not_monotone(below, members)


def forbidden(node: Node) -> list[tuple[Operator, Node]]:
    """The inputs that a node may lose rows by when they gain some."""
    match node:
        case Filter() if (sides := counted_sides(node)) is not None:
            return [(Operator.EXCEPT, sides.right)] if sides.negative else []
        case Aggregate() if node.calls:
            return [(Operator.AGGREGATE, node.input)]
        case Windows():
            return [(Operator.WINDOW, node.input)]
        case Top():
            return [(Operator.LIMIT, node.input)]
        case Outer():
            return [(Operator.OUTER, part) for part in node.inputs[0 if node.full else 1 :]]
        case Match() if node.partner is Partner.UNWANTED:
            return [(Operator.ABSENT, node.right)]
        case Match() if node.partner is Partner.MARKED:
            return [(Operator.VALUE, node.right)]
    return []


def allowed(node: Node) -> tuple[Node, ...]:
    """The inputs that a node can only gain rows by."""
    if isinstance(node, Filter) and (sides := counted_sides(node)) is not None:
        return (sides.left,) if sides.negative else (sides.left, sides.right)
    banned = [below for _, below in forbidden(node)]
    return tuple(below for below in node.inputs if below not in banned)


@dataclass(frozen=True)
class CountedSides:
    """INTERSECT and EXCEPT count how often either side has a row (see sql/set_operations)."""

    keys: tuple[str, ...]
    left: Node
    right: Node
    negative: bool  # EXCEPT


LEFT, RIGHT = "_ab_l", "_ab_r"


def counted_sides(node: Filter) -> CountedSides | None:
    counts = node.input
    if not isinstance(counts, Aggregate) or not isinstance(counts.input, UnionAll):
        return None
    if [call.name for call in counts.calls] != [LEFT, RIGHT] or len(counts.input.parts) != 2:
        return None
    left, right = counts.input.parts
    wanted = {part.text for part in conjuncts(node.condition) if isinstance(part.tree, exp.GT)}
    both = {f"`{LEFT}` > 0", f"`{RIGHT}` > 0"} <= wanted
    return CountedSides(tuple(key.name for key in counts.keys), left, right, not both)


def unbounded(node: Node, members: Members) -> set[TableName]:
    """Members of which a row that comes twice makes rows that come twice: nothing that keeps a row
    only once lies above them."""
    if isinstance(node, Scan):
        return {node.table} & set(members)
    if isinstance(node, Aggregate) or (
        isinstance(node, Filter) and counted_sides(node) is not None
    ):
        return set()
    below = node.inputs[:1] if isinstance(node, Match) else node.inputs
    return {table for part in below for table in unbounded(part, members)}


def counts_copies(node: Node) -> bool:
    """INTERSECT ALL and EXCEPT ALL: how often a row comes out depends on how often it came in."""
    return (
        isinstance(node, Generate)
        and isinstance(node.input, Filter)
        and counted_sides(node.input) is not None
    )


def distinct_root(plan: Node) -> Project | None:
    """The query without its DISTINCT, if every row of its result comes once because of it."""
    above = plan if isinstance(plan, Project) else None
    below = above.input if above is not None else plan
    if not isinstance(below, Aggregate) or below.calls:
        return None
    if above is None:
        return Project(below.input, below.keys)
    keys = {key.name: key.expr for key in below.keys}
    if {item.expr.column for item in above.items} != keys.keys():
        return None
    items = tuple(type(item)(item.name, keys[item.expr.column or ""]) for item in above.items)
    return Project(below.input, items)

"""Whether a query only gains rows when some of the tables it reads, the members of its component, do.

monotone in M:    M ≤ M'  implies  Q(M) ≤ Q(M'), as bags

Parts that read no member may do anything.  A reference to a member may stand below filters,
projections, joins, generators, UNION, INTERSECT, DISTINCT, EXISTS and IN, and on the left of LEFT JOIN,
EXCEPT and NOT EXISTS: more rows there never take a row away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.asked import Asked, Operator
from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Generate, Node, Project, Scan, UnionAll
from anabranch.plan.walk import walk

Members = Collection[TableName]


@dataclass(frozen=True)
class Broken:
    """A member that is read below an operator that more rows may take rows from."""

    table: TableName
    operator: Operator


def reads(node: Node, members: Members) -> list[TableName]:
    """The members that are read below a node."""
    found = (part.table for part in walk(node) if isinstance(part, Scan))
    return list(dict.fromkeys(table for table in found if table in members))


def not_monotone(node: Node, members: Members, asked: Asked | None = None) -> Iterator[Broken]:
    """Every member that is read where it must not be; `asked` is what those above look at."""
    if not reads(node, members):
        return
    asked = Asked(shown=frozenset(node.columns)) if asked is None else asked
    for operator, below in forbidden(node, asked):
        for table in reads(below, members):
            yield Broken(table, operator)
    for below in allowed(node, asked):
        yield from not_monotone(below, members, node.asks_of(asked))


def forbidden(node: Node, asked: Asked) -> list[tuple[Operator, Node]]:
    """The inputs that a node may lose rows by when they gain some."""
    if isinstance(node, Filter) and (sides := counted_sides(node)) is not None:
        return [(Operator.EXCEPT, sides.right)] if sides.negative else []
    return node.loses_by(asked)


def allowed(node: Node, asked: Asked) -> tuple[Node, ...]:
    """The inputs that a node can only gain rows by."""
    if isinstance(node, Filter) and (sides := counted_sides(node)) is not None:
        return (sides.left,) if sides.negative else (sides.left, sides.right)
    banned = [below for _, below in forbidden(node, asked)]
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
    if not isinstance(counts, Aggregate) or [call.name for call in counts.calls] != [LEFT, RIGHT]:
        return None
    sides, filters = counts.input, list[Filter]()
    while isinstance(sides, Filter):  # a condition on the result holds for each side as well
        filters.append(sides)
        sides = sides.input
    if not isinstance(sides, UnionAll) or len(sides.parts) != 2:
        return None
    left, right = sides.parts
    for each in reversed(filters):
        left, right = (replace(each, input=side) for side in (left, right))
    wanted = {part.text for part in conjuncts(node.condition) if isinstance(part.tree, exp.GT)}
    both = {f"`{LEFT}` > 0", f"`{RIGHT}` > 0"} <= wanted
    return CountedSides(tuple(key.name for key in counts.keys), left, right, not both)


def unbounded(node: Node, members: Members) -> set[TableName]:
    """Members of which a row that comes twice makes rows that come twice: nothing that keeps a row
    only once lies above them."""
    if isinstance(node, Scan):
        return {node.table} & set(members)
    if isinstance(node, Filter) and counted_sides(node) is not None:
        return set()
    return {table for part in node.repeats for table in unbounded(part, members)}


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

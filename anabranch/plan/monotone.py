"""Whether a query only gains rows when some of the tables it reads, the members of its component, do.

monotone in M:    M ≤ M'  implies  Q(M) ≤ Q(M'), as bags

Parts that read no member may do anything.  A reference to a member may stand below filters,
projections, joins, generators, UNION, INTERSECT, DISTINCT, EXISTS and IN, and on the left of LEFT JOIN,
EXCEPT and NOT EXISTS: more rows there never take a row away.

A mark, the answer of an EXISTS or IN, only ever turns true when the rows it asks for grow.  It may be
asked for where nothing else about it shows than that: as a condition, below AND and OR.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import conjuncts
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
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


@dataclass(frozen=True)
class Asked:
    """Columns by what is asked of them: `shown` their values, the others at most if they are true."""

    shown: frozenset[str] = frozenset()
    true: frozenset[str] = frozenset()

    def __or__(self, other: Asked) -> Asked:
        return Asked(self.shown | other.shown, self.true | other.true)


def if_true(tree: exp.Expr) -> Asked:
    """What an expression asks of its columns when all that matters is whether it is true.

    true(a AND b) = true(a) ∧ true(b)        true(CASE WHEN a THEN TRUE ELSE b END) = true(a) ∨ true(b)
    """
    match tree:
        case exp.Paren():
            return if_true(tree.this)
        case exp.And() | exp.Or():
            return if_true(tree.this) | if_true(tree.expression)
        case exp.Column():
            return Asked(true=frozenset({tree.name}))
        case exp.Case(this=None) if (found := _case_if_true(tree)) is not None:
            return found
    return Asked(shown=frozenset(part.name for part in tree.find_all(exp.Column)))


def _case_if_true(case: exp.Case) -> Asked | None:
    """CASE WHEN a THEN TRUE ELSE b END; a CASE that is never true asks for nothing."""
    otherwise = case.args.get("default") or exp.null()
    values = [each.args["true"] for each in case.args["ifs"]]
    if all(map(_never_true, (*values, otherwise))):
        return Asked()
    if not all(isinstance(value, exp.Boolean) and value.this for value in values):
        return None
    found = Asked() if _never_true(otherwise) else if_true(otherwise)
    for each in case.args["ifs"]:
        found |= if_true(each.this)
    return found


def _never_true(tree: exp.Expr) -> bool:
    tree = tree.this if isinstance(tree, (exp.Paren, exp.Cast)) else tree
    if isinstance(tree, exp.Case):
        found = _case_if_true(tree)
        return found is not None and found == Asked()
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Boolean) and not tree.this)


def asked_below(node: Node, asked: Asked) -> Asked:
    """What a node asks of the columns of its inputs, for those above and for itself."""
    match node:
        case Filter():
            return asked | if_true(node.condition.tree)
        case Join():
            return asked | (if_true(node.condition.tree) if node.condition else Asked())
        case Project():
            shown = [item.expr.columns for item in node.items if item.name in asked.shown]
            found = Asked(shown=frozenset().union(*shown))
            for item in node.items:
                found |= if_true(item.expr.tree) if item.name in asked.true else Asked()
            return found
        case Match():
            mine = node.condition.columns if node.condition else frozenset[str]()
            return asked | Asked(shown=mine)
        case Aggregate():
            exprs = (*(key.expr for key in node.keys), *(call.expr for call in node.calls))
            return Asked(shown=frozenset().union(*(expr.columns for expr in exprs)))
        case UnionAll():
            return asked
    return Asked(shown=frozenset(name for below in node.inputs for name in below.columns))


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
        yield from not_monotone(below, members, asked_below(node, asked))


def forbidden(node: Node, asked: Asked) -> list[tuple[Operator, Node]]:
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
        case Match() if node.mark in asked.shown:
            return [(Operator.VALUE, node.right)]
    return []


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

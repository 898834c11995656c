"""Subqueries inside expressions, as joins.

A correlated query is lowered once for all rows around it: it carries the values it sees of them, its
domain, through every operator (into the keys of its groups, the partitions of its windows), and is
joined with the rows around it on these values.

EXISTS, IN      → a match: semi join, anti join, or a mark
> ANY, > ALL    → a match with the rows that prove it, or disprove it
(SELECT …)      → a left join with at most one row per value of the domain
LATERAL (…)     → a join
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import (
    Expr,
    Tree,
    binary,
    call,
    cast,
    column,
    conjunction,
    is_null,
    literal,
    operand,
    unwrapped,
    when,
)
from anabranch.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Item,
    Join,
    Match,
    Node,
    Outer,
    Partner,
    Project,
    same_columns,
)
from anabranch.sql.relation import Domain, Names, Place, Relation, Stop
from anabranch.sql.resolve import resolved
from anabranch.sql.scope import Scope
from anabranch.sql.source_text import SourceText
from anabranch.sql.support import Obstacle


class Lowering(Protocol):
    """What the parts of lowering ask of the whole."""

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]: ...
    def stand_in(self, name: str, seed: Node) -> None: ...
    def query(self, tree: Tree, place: Place) -> Relation: ...
    def rehearse(self, tree: Tree, place: Place) -> None: ...
    def fresh(self, name: str) -> str: ...
    def note_inexact(self, found: Mapping[Expr, Obstacle]) -> None: ...
    def from_clause(self, tree: exp.Select, place: Place, names: Names) -> tuple[Node, Scope]: ...


@dataclass
class Pending:
    """A subquery taken out of an expression, where the column `name` stands for its value.

    `operands` are the left sides of IN; they become columns of the plan before it is applied.
    """

    name: str
    tree: Tree
    negated: bool = False
    operands: list[Tree] = field(default_factory=list)


def is_subquery(node: Tree) -> bool:
    return (
        (isinstance(node, exp.Exists) and isinstance(unwrapped(node.this), exp.Query))
        or (isinstance(node, exp.In) and bool(node.args.get("query")))
        or isinstance(node, exp.Subquery)
        or is_quantified(node)
    )


def is_quantified(node: Tree) -> bool:
    """x > ALL (SELECT …)"""
    return (
        isinstance(node, exp.Predicate)
        and isinstance(node, exp.Binary)
        and isinstance(node.expression, (exp.Any, exp.All))
        and isinstance(unwrapped(node.expression.this), exp.Query)
    )


def is_beyond_spark(query: str) -> bool:
    """Spark compares with ANY or ALL of a pattern's alternatives, but not of a query's rows."""
    return any(is_quantified(node) for node in SourceText(query).tree.walk())


def taken_out(tree: Tree, fresh: Callable[[str], str]) -> tuple[Tree, list[Pending]]:
    """The expression with a column for every subquery, and the subqueries."""
    found: list[Pending] = []

    def replace_(node: Tree) -> Tree:
        inner = unwrapped(node.this) if isinstance(node, exp.Not) else node
        negated = inner is not node
        if not is_subquery(inner) or (negated and not isinstance(inner, exp.In)):
            return node
        found.append(pending(inner, fresh("_ab_q"), negated=negated))
        return resolved(found[-1].name)

    return tree.transform(replace_), found


def pending(node: Tree, name: str, *, negated: bool = False) -> Pending:
    operands: list[Tree] = []
    if isinstance(node, exp.In) or is_quantified(node):
        left = unwrapped(node.this)
        operands = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    return Pending(name, node, negated, operands)


def positive(tree: Tree) -> Tree:
    """NOT moved down to the subqueries: as Spark does, so that it reads NOT IN as one thing."""
    tree = unwrapped(tree)
    if isinstance(tree, (exp.And, exp.Or)):
        return type(tree)(
            this=_grouped(positive(tree.this)), expression=_grouped(positive(tree.expression))
        )
    if not isinstance(tree, exp.Not) or not any(map(is_subquery, tree.walk())):
        return tree
    inner = unwrapped(tree.this)
    if isinstance(inner, exp.Not):
        return positive(inner.this)
    if isinstance(inner, (exp.And, exp.Or)):
        other = exp.Or if isinstance(inner, exp.And) else exp.And
        sides = (positive(exp.Not(this=side)) for side in (inner.this, inner.expression))
        left, right = (_grouped(side) for side in sides)
        return other(this=left, expression=right)
    return tree


def _grouped(tree: Tree) -> Tree:
    return exp.Paren(this=tree) if isinstance(tree, exp.Connector) else tree


def conditions(tree: Tree) -> Iterator[Tree]:
    """The parts of an AND, NOT moved down."""
    tree = positive(tree)
    if isinstance(tree, exp.And):
        yield from conditions(tree.this)
        yield from conditions(tree.expression)
    else:
        yield tree


@dataclass(frozen=True)
class Around:
    """The rows that subqueries are applied to, and what their columns are called."""

    node: Node
    scopes: tuple[Scope, ...]
    place: Place


@dataclass(frozen=True)
class Lowered:
    """A subquery's rows under names of their own, and which of them belong to which row around."""

    relation: Relation
    condition: Expr | None
    values: tuple[str, ...]

    @property
    def node(self) -> Node:
        return self.relation.node

    @property
    def belongs(self) -> tuple[Expr, ...]:
        return (self.condition,) if self.condition else ()


def lowered(lowering: Lowering, tree: Tree, around: Around) -> Lowered:
    """Find out what the query sees of the rows around it, then lower it for just that."""
    captured = _captured(lowering, tree, around)
    domain = None
    if captured:
        names = {name: lowering.fresh("_ab_o") for name in captured}
        domain = Domain(around.node, around.scopes, names)
    relation = lowering.query(tree, replace(around.place, domain=domain))
    values = tuple(lowering.fresh("_ab_v") for _ in relation.outputs)
    items = [Item(new, column(old)) for new, old in zip(values, relation.columns, strict=True)]
    items += [Item(name, column(name)) for name in relation.domain]
    named = replace(relation, node=Project(relation.node, tuple(items)))
    return Lowered(named, _correlation(domain), values)


def _captured(lowering: Lowering, tree: Tree, around: Around) -> list[str]:
    said = {part.name.lower() for node in tree.find_all(exp.Column) for part in node.parts}
    offered = dict.fromkeys(
        each.column
        for scope in around.scopes
        for each in scope.fields
        if each.name.lower() in said and each.column in around.node.columns
    )
    if not offered:
        return []
    names = {name: lowering.fresh("_ab_o") for name in offered}
    trial = Domain(around.node, around.scopes, names)
    lowering.rehearse(tree, replace(around.place, domain=trial))
    if around.place.domain is not None:
        around.place.domain.capture(trial.captured)
    return [name for name in offered if name in trial.captured]


def _correlation(domain: Domain | None) -> Expr | None:
    if domain is None:
        return None
    kind = exp.NullSafeEQ if domain.joined else exp.EQ
    return conjunction(
        binary(kind, column(outer), column(inner)) for outer, inner in domain.names.items()
    )


def applied(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """The rows around with the subquery's value as one more column."""
    match wanted.tree:
        case exp.Exists():
            return _marked_exists(lowering, wanted, around)
        case exp.In():
            return _marked_in(lowering, wanted, around)
        case exp.Binary():
            return _quantified(lowering, wanted, around)
    return _scalar(lowering, wanted, around)


def kept(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """The rows around for which an EXISTS or IN, or its negation, is true."""
    if isinstance(wanted.tree, exp.Exists):
        found = lowered(lowering, _bare(wanted.tree.this), around)
        if found.relation.absent is not None:
            return Filter(around.node, Expr("FALSE" if wanted.negated else "TRUE"))
        partner = Partner.UNWANTED if wanted.negated else Partner.WANTED
        return Match(around.node, found.node, found.condition, partner)
    if not wanted.negated:
        found = lowered(lowering, wanted.tree.args["query"], around)
        condition = conjunction((*_equal(wanted, found), *found.belongs))
        found = _present(found, around)
        return Match(around.node, found.node, condition, Partner.WANTED)
    marked = _marked_in(lowering, wanted, around)
    return Project(Filter(marked, column(wanted.name)), same_columns(around.node))


def _marked_exists(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    found = lowered(lowering, _bare(wanted.tree.this), around)
    if found.relation.absent is not None:
        return Project(around.node, (*same_columns(around.node), Item(wanted.name, Expr("TRUE"))))
    return Match(around.node, found.node, found.condition, Partner.MARKED, wanted.name)


def _marked_in(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """x IN R      = some y equals x
    x NOT IN R  = no y equals x, no y is NULL, and x is not NULL unless R is empty

    Spark knows no third answer here: what is not known to be so is false.
    """
    found = _present(lowered(lowering, wanted.tree.args["query"], around), around)
    equal = conjunction((*_equal(wanted, found), *found.belongs))
    if not wanted.negated:
        return Match(around.node, found.node, equal, Partner.MARKED, wanted.name)
    if len(wanted.operands) > 1:
        unsure = conjunction((*map(_possible, _equal(wanted, found)), *found.belongs))
        mark = lowering.fresh("_ab_m")
        node: Node = Match(around.node, found.node, unsure, Partner.MARKED, mark)
        return _with(around.node, node, wanted.name, _not(column(mark)))
    equals, unknown, some = (lowering.fresh("_ab_m") for _ in range(3))
    value = column(found.values[0])
    node = Match(around.node, found.node, equal, Partner.MARKED, equals)
    nulls = _renamed(lowering, replace(found, relation=_only(found.relation, is_null(value))))
    node = Match(node, nulls.node, nulls.condition, Partner.MARKED, unknown)
    every = _renamed(lowering, found)
    node = Match(node, every.node, every.condition, Partner.MARKED, some)
    left = Expr.of(wanted.operands[0])
    without = conjunction(
        (
            _not(column(equals)),
            _not(column(unknown)),
            binary(exp.Or, _not(is_null(left)), _not(column(some))),
        )
    )
    assert without is not None
    return _with(around.node, node, wanted.name, without)


def _quantified(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    """x > ANY R  = true if it is for some y, else unknown if it is for some y, else false
    x > ALL R  = false if it is for some y, else unknown if it is for some y, else true
    """
    tree = wanted.tree
    assert isinstance(tree, exp.Binary)
    found = _present(lowered(lowering, unwrapped(tree.expression.this), around), around)
    again = _renamed(lowering, found)
    decides, unsure = lowering.fresh("_ab_m"), lowering.fresh("_ab_m")
    every = isinstance(tree.expression, exp.All)
    compared, unknown = (
        binary(type(tree), Expr.of(wanted.operands[0]), column(each.values[0]))
        for each in (found, again)
    )
    decided = _not(compared) if every else compared
    node: Node = Match(
        around.node,
        found.node,
        conjunction((decided, *found.belongs)),
        Partner.MARKED,
        decides,
    )
    node = Match(
        node,
        again.node,
        conjunction((is_null(unknown), *again.belongs)),
        Partner.MARKED,
        unsure,
    )
    otherwise = when(
        column(unsure), cast(Expr("NULL"), "boolean"), Expr("TRUE" if every else "FALSE")
    )
    value = when(column(decides), Expr("FALSE" if every else "TRUE"), otherwise)
    return _with(around.node, node, wanted.name, value)


def _scalar(lowering: Lowering, wanted: Pending, around: Around) -> Node:
    found = lowered(lowering, _query_of(wanted.tree), around)
    if len(found.values) != 1:
        raise Stop(around.place.source.obstacle("SCALAR_SUBQUERY", wanted.tree, "("))
    value = found.values[0]
    single = found.relation.absent is not None
    one = found.node if single else at_most_one(found, lowering.fresh)
    if found.condition is None:
        return _with(around.node, Join((around.node, one)), wanted.name, column(value))
    node, result = around.node, column(value)
    if found.relation.absent is not None:
        one, present = marked_present(one, lowering.fresh)
        result = when(is_null(column(present)), found.relation.absent[0], result)
    node = Outer(node, one, found.condition)
    return _with(around.node, node, wanted.name, result)


def at_most_one(found: Lowered, fresh: Callable[[str], str]) -> Node:
    """Each value of the domain once; a second row is an error, as in Spark."""
    count = fresh("_ab_n")
    (value,) = found.values
    keys = tuple(Item(name, column(name)) for name in found.relation.domain)
    calls = (
        Call(count, Expr("COUNT(*)"), "count"),
        Call(value, call("ANY_VALUE", column(value))),
    )
    message = Expr.of(exp.Literal.string("a subquery used as a value has more than one row"))
    checked = when(
        binary(exp.GT, column(count), literal(1)), call("RAISE_ERROR", message), column(value)
    )
    return Project(Aggregate(found.node, keys, calls), (Item(value, checked), *keys))


def marked_present(node: Node, fresh: Callable[[str], str]) -> tuple[Node, str]:
    """The rows with a column that is never NULL."""
    present = fresh("_ab_p")
    return Project(node, (*same_columns(node), Item(present, Expr("TRUE")))), present


def with_lateral(
    lowering: Lowering, found: Lowered, around: Around, on: Expr | None, *, left: bool
) -> Node:
    """Rows around joined with their rows of a LATERAL query."""
    absent = found.relation.absent
    condition = conjunction((*found.belongs, *((on,) if on else ())))
    if absent is None or found.condition is None:
        if left:
            return Outer(around.node, found.node, condition)
        return Join((around.node, found.node), condition)
    if on is not None and str(on).upper() != "TRUE":
        raise Stop(around.place.source.obstacle("CORRELATION", exp.Select()))
    one, present = marked_present(found.node, lowering.fresh)
    joined = Outer(around.node, one, found.condition)
    filled = [
        Item(name, when(is_null(column(present)), value, column(name)))
        for name, value in zip(found.values, absent, strict=True)
    ]
    return Project(joined, (*same_columns(around.node), *filled))


def _bare(tree: Tree) -> Tree:
    """A query of which only matters whether it has rows."""
    tree = unwrapped(tree)
    tree = tree.this if isinstance(tree, exp.Subquery) else tree
    limit = tree.args.get("limit")
    some = limit is not None and limit.expression.name.isdigit() and int(limit.expression.name) > 0
    if some and not tree.args.get("offset"):
        tree = tree.copy()
        tree.set("limit", None)
    return tree


def _query_of(tree: Tree) -> Tree:
    while isinstance(tree, exp.Subquery) and not tree.args.get("with_"):
        tree = unwrapped(tree.this)
    return tree


def _equal(wanted: Pending, found: Lowered) -> list[Expr]:
    if len(wanted.operands) != len(found.values):
        raise UserError("IN compares as many values as the query has columns")
    return [
        Expr.of(exp.EQ(this=operand(left.copy()), expression=column(value).tree.copy()))
        for left, value in zip(wanted.operands, found.values, strict=True)
    ]


def _present(found: Lowered, around: Around) -> Lowered:
    """IN over an aggregate without GROUP BY: rows around without any row have one, too."""
    if found.relation.absent is not None and found.condition is not None:
        raise Stop(around.place.source.obstacle("CORRELATION", exp.Select()))
    return found


def _possible(expr: Expr) -> Expr:
    return binary(exp.Or, expr, is_null(expr))


def _renamed(lowering: Lowering, found: Lowered) -> Lowered:
    """The same rows once more under other names: a node's columns differ from its partner's."""
    names = {name: lowering.fresh("_ab_v") for name in found.node.columns}
    items = tuple(Item(new, column(old)) for old, new in names.items())
    relation = replace(found.relation, node=Project(found.node, items))
    condition = found.condition.rename(names) if found.condition else None
    return Lowered(relation, condition, tuple(names[name] for name in found.values))


def _only(relation: Relation, condition: Expr) -> Relation:
    return replace(relation, node=Filter(relation.node, condition))


def _not(expr: Expr) -> Expr:
    return Expr.of(exp.Not(this=operand(expr.tree.copy())))


def _with(around: Node, node: Node, name: str, value: Expr) -> Node:
    return Project(node, (*same_columns(around), Item(name, value)))

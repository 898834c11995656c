"""Decorrelation of subqueries.

A correlated query is lowered once for all outer rows: it carries the outer values that it uses, its
domain, through every operator (into the keys of its groups, the partitions of its windows), and is
joined with the outer rows on these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from anabranch.plan.exprs import (
    Expr,
    Tree,
    binary,
    column,
    conjunction,
    is_null,
    when,
)
from anabranch.plan.nodes import (
    Item,
    Join,
    Node,
    Outer,
    Project,
    same_columns,
)
from anabranch.sql.analyze.bindings import answering_fields
from anabranch.sql.analyze.resolve import FromColumns
from anabranch.sql.lower.predicates import conditions
from anabranch.sql.lower.relation import Domain, FromItem, Names, Place, Relation
from anabranch.sql.obstacles import Obstacle, Stop


class Lowering(Protocol):
    """What the parts of lowering need of the whole."""

    recursions: dict[int, Relation]  # by their CTE: two references share one recursion

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]: ...
    def stand_in(self, name: str, seed: Node) -> None: ...
    def query(self, tree: Tree, place: Place) -> Relation: ...
    def unified(self, parts: Sequence[Node]) -> list[Node]: ...
    def fresh(self, name: str) -> str: ...
    def note_inexact(self, calls: Mapping[Expr, Obstacle]) -> None: ...
    def from_clause(self, tree: exp.Select, place: Place, names: Names) -> FromItem: ...


@dataclass(frozen=True)
class OuterRows:
    """The rows that a subquery is evaluated for, and the scopes of their columns."""

    node: Node
    scopes: tuple[FromColumns, ...]
    place: Place


@dataclass(frozen=True)
class LoweredSubquery:
    """The rows of a subquery under new column names, and the join condition with the outer rows."""

    relation: Relation
    condition: Expr | None
    values: tuple[str, ...]

    @property
    def node(self) -> Node:
        return self.relation.node

    @property
    def belongs(self) -> tuple[Expr, ...]:
        return (self.condition,) if self.condition else ()


def lower_subquery(lowering: Lowering, tree: Tree, outer: OuterRows) -> LoweredSubquery:
    """Find the outer columns that the query uses, then lower it with just these as its domain."""
    used = correlated_columns(tree, outer)
    domain = None
    if used:
        names = {name: lowering.fresh("_ab_o") for name in used}
        domain = Domain(outer.node, outer.scopes, names)
    relation = lowering.query(tree, replace(outer.place, domain=domain))
    values = tuple(lowering.fresh("_ab_v") for _ in relation.outputs)
    items = [Item(new, column(old)) for new, old in zip(values, relation.columns, strict=True)]
    items += [Item(name, column(name)) for name in relation.domain]
    renamed = replace(relation, node=Project(relation.node, tuple(items)))
    return LoweredSubquery(renamed, _correlation(domain), values)


def correlated_columns(tree: Tree, outer: OuterRows) -> list[str]:
    """The outer columns that a query uses."""
    used = set(answering_fields(tree))
    columns = dict.fromkeys(
        scope.names[field.column]
        for scope in outer.scopes
        for field in scope.fields
        if field.column in used
    )
    captured = [name for name in columns if name in outer.node.columns]
    if outer.place.domain is not None:
        outer.place.domain.capture(captured)
    return captured


def _correlation(domain: Domain | None) -> Expr | None:
    if domain is None:
        return None
    kind = exp.NullSafeEQ if domain.joined else exp.EQ
    return conjunction(
        binary(kind, column(outer), column(inner)) for outer, inner in domain.names.items()
    )


def is_correlated(tree: Tree, place: Place) -> bool:
    """Whether a part of a query uses columns of the query around it."""
    return place.domain is not None and place.domain.answers(answering_fields(tree))


def for_each_value(lowering: Lowering, relation: Relation, domain: Domain) -> Relation:
    """A query that always has a row, with one for every value of its domain."""
    if relation.absent is None:
        return relation
    names = {name: lowering.fresh("_ab_v") for name in relation.node.columns}
    renamed = tuple(Item(new, column(old)) for old, new in names.items())
    marked, present = marked_present(Project(relation.node, renamed), lowering.fresh)
    condition = conjunction(
        binary(exp.NullSafeEQ, column(name), column(names[name])) for name in domain.columns
    )
    items = [
        Item(name, when(is_null(column(present)), value, column(names[name])))
        for name, value in zip(relation.columns, relation.absent, strict=True)
    ]
    items += [Item(name, column(name)) for name in domain.columns]
    node = Project(Outer(domain.values(), marked, condition), tuple(items))
    return Relation(node, relation.outputs, domain.columns)


def with_correlation_in_where(tree: exp.Select, place: Place) -> exp.Select:
    """Join conditions that use outer columns become conditions of WHERE."""
    joins = tree.args.get("joins") or ()
    if place.domain is None or not any(join.args.get("on") for join in joins):
        return tree
    tree = tree.copy()
    for join in tree.args["joins"]:
        on = join.args.get("on")
        predicates = list(conditions(on.copy())) if on is not None else []
        outer = [predicate for predicate in predicates if is_correlated(predicate, place)]
        if not outer:
            continue
        if join.side or join.kind.upper() in ("SEMI", "ANTI"):
            raise Stop(place.source.obstacle("CORRELATION", outer[0]))
        inner = [predicate for predicate in predicates if predicate not in outer]
        join.set("on", exp.and_(*inner) if inner else None)
        tree.where(*outer, copy=False)
    return tree


def marked_present(node: Node, fresh: Callable[[str], str]) -> tuple[Node, str]:
    """The rows with a column that is never NULL: NULL after an outer join means no match."""
    present = fresh("_ab_p")
    return Project(node, (*same_columns(node), Item(present, Expr("TRUE")))), present


def join_lateral(
    lowering: Lowering,
    tree: Tree,
    subquery: LoweredSubquery,
    outer: OuterRows,
    on: Expr | None,
    *,
    left: bool,
) -> Node:
    """Outer rows joined with their rows of a LATERAL query."""
    absent = subquery.relation.absent
    condition = conjunction((*subquery.belongs, *((on,) if on else ())))
    if absent is None or subquery.condition is None:
        if left:
            return Outer(outer.node, subquery.node, condition)
        return Join((outer.node, subquery.node), condition)
    if on is not None and str(on).upper() != "TRUE":
        raise Stop(outer.place.source.obstacle("CORRELATION", tree))
    marked, present = marked_present(subquery.node, lowering.fresh)
    joined = Outer(outer.node, marked, subquery.condition)
    items = [
        Item(name, when(is_null(column(present)), value, column(name)))
        for name, value in zip(subquery.values, absent, strict=True)
    ]
    return Project(joined, (*same_columns(outer.node), *items))


_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def compare_one_to_one(one: str, other: str) -> bool:
    """Whether `=` between the types never equates two different values with the same third one."""
    return one == other or (one in _WHOLE_NUMBERS and other in _WHOLE_NUMBERS)

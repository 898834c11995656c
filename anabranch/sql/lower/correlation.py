"""Queries that see the rows around them.

A correlated query is lowered once for all rows around it: it carries the values it sees of them, its
domain, through every operator (into the keys of its groups, the partitions of its windows), and is
joined with the rows around it on these values.
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
from anabranch.sql.analyze.scope import Scope
from anabranch.sql.lower.predicates import conditions
from anabranch.sql.lower.relation import Domain, Names, Place, Relation, Stop
from anabranch.sql.lower.support import Obstacle


class Lowering(Protocol):
    """What the parts of lowering ask of the whole."""

    recursions: dict[int, Relation]  # by their CTE: one that is read twice is one

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]: ...
    def stand_in(self, name: str, seed: Node) -> None: ...
    def query(self, tree: Tree, place: Place) -> Relation: ...
    def alike(self, parts: Sequence[Node]) -> list[Node]: ...
    def rehearse(self, tree: Tree, place: Place) -> None: ...
    def fresh(self, name: str) -> str: ...
    def note_inexact(self, found: Mapping[Expr, Obstacle]) -> None: ...
    def from_clause(self, tree: exp.Select, place: Place, names: Names) -> tuple[Node, Scope]: ...


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
    seen = captured(lowering, tree, around)
    domain = None
    if seen:
        names = {name: lowering.fresh("_ab_o") for name in seen}
        domain = Domain(around.node, around.scopes, names)
    relation = lowering.query(tree, replace(around.place, domain=domain))
    values = tuple(lowering.fresh("_ab_v") for _ in relation.outputs)
    items = [Item(new, column(old)) for new, old in zip(values, relation.columns, strict=True)]
    items += [Item(name, column(name)) for name in relation.domain]
    named = replace(relation, node=Project(relation.node, tuple(items)))
    return Lowered(named, _correlation(domain), values)


def captured(lowering: Lowering, tree: Tree, around: Around) -> list[str]:
    """The columns around it that a query looks at."""
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


def sees_around(lowering: Lowering, tree: Tree, place: Place) -> bool:
    """Whether a query in FROM looks at the rows around the query that it is in."""
    if place.domain is None:
        return False
    trial = replace(place.domain, captured=set())
    lowering.rehearse(tree, replace(place, domain=trial))
    return bool(trial.captured)


def for_each(lowering: Lowering, relation: Relation, domain: Domain) -> Relation:
    """A query that always has a row, with one for every value of its domain."""
    if relation.absent is None:
        return relation
    names = {name: lowering.fresh("_ab_v") for name in relation.node.columns}
    renamed = tuple(Item(new, column(old)) for old, new in names.items())
    one, present = marked_present(Project(relation.node, renamed), lowering.fresh)
    same = conjunction(
        binary(exp.NullSafeEQ, column(name), column(names[name])) for name in domain.columns
    )
    filled = [
        Item(name, when(is_null(column(present)), value, column(names[name])))
        for name, value in zip(relation.columns, relation.absent, strict=True)
    ]
    filled += [Item(name, column(name)) for name in domain.columns]
    node = Project(Outer(domain.values(), one, same), tuple(filled))
    return Relation(node, relation.outputs, domain.columns)


def with_outer_conditions_last(tree: exp.Select, place: Place) -> exp.Select:
    """Conditions of inner joins that look at the rows around the query, as conditions of WHERE."""
    joins = tree.args.get("joins") or ()
    if place.domain is None or not any(join.args.get("on") for join in joins):
        return tree
    own = _names_of(tree)
    tree = tree.copy()
    for join in tree.args["joins"]:
        on = join.args.get("on")
        parts = list(conditions(on.copy())) if on is not None else []
        outer = [part for part in parts if _looks_beyond(part, own)]
        if not outer:
            continue
        if join.side or join.kind.upper() in ("SEMI", "ANTI"):
            raise Stop(place.source.obstacle("CORRELATION", outer[0]))
        inner = [part for part in parts if part not in outer]
        join.set("on", exp.and_(*inner) if inner else None)
        tree.where(*outer, copy=False)
    return tree


def _names_of(tree: exp.Select) -> set[str]:
    """What the FROM items are called."""
    items = [tree.args.get("from_"), *(tree.args.get("joins") or ())]
    found = (each for item in items if item is not None for each in item.walk())
    kinds = (exp.Table, exp.Subquery, exp.Lateral)
    return {each.alias_or_name.lower() for each in found if isinstance(each, kinds)}


def _looks_beyond(part: Tree, own: set[str]) -> bool:
    columns = part.find_all(exp.Column)
    return any(len(each.parts) > 1 and each.parts[0].name.lower() not in own for each in columns)


def marked_present(node: Node, fresh: Callable[[str], str]) -> tuple[Node, str]:
    """The rows with a column that is never NULL."""
    present = fresh("_ab_p")
    return Project(node, (*same_columns(node), Item(present, Expr("TRUE")))), present


def with_lateral(
    lowering: Lowering, tree: Tree, found: Lowered, around: Around, on: Expr | None, *, left: bool
) -> Node:
    """Rows around joined with their rows of a LATERAL query."""
    absent = found.relation.absent
    condition = conjunction((*found.belongs, *((on,) if on else ())))
    if absent is None or found.condition is None:
        if left:
            return Outer(around.node, found.node, condition)
        return Join((around.node, found.node), condition)
    if on is not None and str(on).upper() != "TRUE":
        raise Stop(around.place.source.obstacle("CORRELATION", tree))
    one, present = marked_present(found.node, lowering.fresh)
    joined = Outer(around.node, one, found.condition)
    filled = [
        Item(name, when(is_null(column(present)), value, column(name)))
        for name, value in zip(found.values, absent, strict=True)
    ]
    return Project(joined, (*same_columns(around.node), *filled))


_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def compare_one_to_one(one: str, other: str) -> bool:
    """Whether `=` between the types never finds two different values equal to a third."""
    return one == other or (one in _WHOLE_NUMBERS and other in _WHOLE_NUMBERS)

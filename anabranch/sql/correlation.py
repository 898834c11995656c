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
from anabranch.sql.relation import Domain, Names, Place, Relation, Stop
from anabranch.sql.scope import Scope
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

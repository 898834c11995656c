"""Generators: explode, posexplode, inline, stack, json_tuple, in the SELECT list, in LATERAL VIEW and
after LATERAL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree
from anabranch.plan.nodes import Generate, Node
from anabranch.sql.analyze.bindings import fields_of, generated_names, generator_number
from anabranch.sql.analyze.generators import columns_of, is_generator
from anabranch.sql.analyze.obstacles import is_aggregate
from anabranch.sql.analyze.resolve import FromColumns, Resolver, resolved
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.relation import FromItem, Names, Place
from anabranch.sql.obstacles import Stop
from anabranch.types import Type


class UnknownNames(Exception):
    """The names of a generator's columns, which the analysis could not tell without Spark."""

    def __init__(self, place: Place, number: int, names: Sequence[str]) -> None:
        super().__init__(names)
        self.view, self.number, self.names = place.source.view, number, tuple(names)


def generated(
    left: FromItem,
    lateral: exp.Lateral,
    lowering: Lowering,
    names: Names,
    place: Place,
    *,
    outer: bool = False,
) -> FromItem:
    """FROM … LATERAL VIEW explode(a) t AS x, and CROSS JOIN LATERAL explode(a) AS t(x)."""
    (node, scope), call = left, lateral.this
    if not is_generator(call):
        raise Stop(place.source.obstacle("TABLE_FUNCTION", lateral, "LATERAL"))
    call = Resolver(place.source, scope).resolve(call)
    fields = fields_of(lateral)
    if fields is None:
        raise unknown_names(call, node, lowering, place)
    columns = [names.fresh(".".join((*field.qualifier, field.name)).lower()) for field in fields]
    outer = outer or bool(lateral.args.get("outer"))
    generate = Generate(node, Expr.of(call), tuple(columns), outer)
    return generate, scope + FromColumns.of(fields, columns)


def unknown_names(call: Tree, node: Node, lowering: Lowering, place: Place) -> UnknownNames:
    number = generator_number(call)
    return UnknownNames(place, number, column_names(call, node, lowering, place))


def without_generators(
    node: Node, tree: exp.Select, resolver: Resolver, lowering: Lowering, place: Place
) -> tuple[Node, list[Tree]]:
    """The rows with those of the generators in the SELECT list, and the list with their columns."""
    items: list[Tree] = []
    for item in tree.expressions:
        call = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
        if not is_generator(call):
            items.append(item)
            continue
        if tree.args.get("group") or any(map(_has_aggregate, tree.expressions)):
            raise Stop(place.source.obstacle("GENERATOR", call, what=call.name))
        call = resolver.resolve(call)
        names = _aliases(item) or generated_names(call)
        if names is None:
            raise unknown_names(call, node, lowering, place)
        columns = tuple(lowering.fresh("_ab_x") for _ in names)
        node = Generate(node, Expr.of(call), columns)
        items += [
            exp.alias_(resolved(column), name, quoted=True)
            for column, name in zip(columns, names, strict=True)
        ]
    return node, items


def _has_aggregate(item: Tree) -> bool:
    """Whether an item has an aggregate of its own, not counting those in its subqueries."""
    nodes = item.walk(prune=lambda node: isinstance(node, exp.Query))
    return any(is_aggregate(node) for node in nodes)


def _aliases(item: Tree) -> list[str]:
    if isinstance(item, exp.Aliases):
        return [identifier.name for identifier in item.expressions]
    return [item.alias] if isinstance(item, exp.Alias) else []


def column_names(call: Tree, node: Node, lowering: Lowering, place: Place) -> tuple[str, ...]:
    """The column names that Spark gives the result."""
    first = [Expr.of(argument) for argument in call.expressions[:1]]
    types = [Type.parse(type_) for type_ in lowering.types(node, first)]
    names = columns_of(call, types[0] if types else None)
    if names is None:
        raise Stop(place.source.obstacle("GENERATOR", call, what=call.name))
    return names

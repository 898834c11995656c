"""Generators: explode, posexplode, inline, stack, json_tuple, in the SELECT list, in LATERAL VIEW and
after LATERAL."""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.exprs import VERBATIM, Expr, Tree
from anabranch.plan.nodes import Generate, Node
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.scope import Field, Scope
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.obstacles import is_aggregate
from anabranch.sql.lower.relation import Names, Place, Stop
from anabranch.sql.lower.resolve import Resolver, resolved


def is_generator(tree: Tree) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name.lower() in functions.GENERATORS


def generated(
    node: Node,
    scope: Scope,
    lateral: exp.Lateral,
    resolver: Resolver,
    lowering: Lowering,
    names: Names,
    place: Place,
    *,
    outer: bool = False,
) -> tuple[Node, Scope]:
    """FROM … LATERAL VIEW explode(a) t AS x, and CROSS JOIN LATERAL explode(a) AS t(x)."""
    call = lateral.this
    if not is_generator(call):
        raise Stop(place.source.obstacle("TABLE_FUNCTION", lateral, "LATERAL"))
    call = resolver.resolve(call)
    alias = lateral.args.get("alias")
    aliases = [identifier.name for identifier in alias.columns] if alias is not None else []
    column_aliases = aliases or column_names(call, node, lowering, place)
    qualifier = (alias.name.lower(),) if alias is not None and alias.name else ()
    columns = [names.fresh(".".join((*qualifier, name)).lower()) for name in column_aliases]
    fields = tuple(
        Field(qualifier, name, column) for name, column in zip(column_aliases, columns, strict=True)
    )
    outer = outer or bool(lateral.args.get("outer"))
    return Generate(node, Expr.of(call), tuple(columns), outer), scope + Scope(fields)


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
        names = _aliases(item) or column_names(call, node, lowering, place)
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


def column_names(call: Tree, node: Node, lowering: Lowering, place: Place) -> list[str]:
    """The column names that Spark gives the result."""
    name, args = call.name.lower().removesuffix("_outer"), call.expressions
    if name in ("explode", "posexplode"):
        (type_,) = lowering.types(node, [Expr.of(args[0])])
        columns = ["key", "value"] if type_.lower().startswith("map") else ["col"]
        return ["pos", *columns] if name == "posexplode" else columns
    if name == "inline":
        (type_,) = lowering.types(node, [Expr.of(args[0])])
        return _field_names(type_)
    if name == "stack":
        rows = int(args[0].name)
        return [f"col{i}" for i in range(-(-(len(args) - 1) // rows))]
    if name == "json_tuple":
        return [f"c{i}" for i in range(len(args) - 1)]
    raise Stop(place.source.obstacle("GENERATOR", call, what=call.name))


def _field_names(type_: str) -> list[str]:
    """The names of the fields of array<struct<a:int,`b c`:array<int>>>"""
    array = exp.DataType.build(type_, dialect=VERBATIM)
    return [field.name for field in array.expressions[0].expressions]

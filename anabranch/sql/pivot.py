"""PIVOT as an aggregate per value, UNPIVOT as a union of its columns."""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, call, cast, column, is_not_null
from anabranch.plan.nodes import Filter, Item, Node, Project, UnionAll
from anabranch.sql.correlation import Lowering
from anabranch.sql.grouping import Groups, grouped
from anabranch.sql.relation import Names, Output, Place, Relation, Stop
from anabranch.sql.resolve import Resolver, resolved
from anabranch.sql.scope import Scope


def pivoted(
    node: Node, scope: Scope, pivot: exp.Pivot, lowering: Lowering, place: Place
) -> Relation:
    (listed,) = pivot.args.get("fields") or (None,)
    if not isinstance(listed, exp.In) or isinstance(listed.this, exp.Tuple):
        raise Stop(place.source.obstacle("PIVOT", pivot, "PIVOT", "UNPIVOT"))
    if pivot.args.get("unpivot"):
        return _unpivot(node, scope, pivot, listed, lowering, place)
    return _pivot(node, scope, pivot, listed, lowering, place)


def _pivot(
    node: Node, scope: Scope, pivot: exp.Pivot, listed: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """agg(x) FILTER (WHERE c IS v) for every value v, by all columns that are not named.

    Where no row has the value the result is NULL, also of a count.
    """
    resolver = Resolver(place.source, scope)
    chosen = resolver.resolve(listed.this)
    calls = [
        resolver.resolve(each.this if isinstance(each, exp.Alias) else each)
        for each in pivot.expressions
    ]
    used = {part.name for tree in (chosen, *calls) for part in tree.find_all(exp.Column)}
    keys = [each for each in scope.star() if each.column not in used]
    names = Names()
    trees: list[Tree] = [resolved(each.column) for each in keys]
    outputs = [Output(each.name, each.named) for each in keys]
    for value in listed.expressions:
        label, literal = _labelled(value)
        met = exp.NullSafeEQ(this=chosen.copy(), expression=resolver.resolve(literal))
        some = _filtered(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), met)
        for each, found in zip(pivot.expressions, calls, strict=True):
            only = _filtered(found, met)
            none = exp.GT(this=some.copy(), expression=exp.Literal.number(0))
            trees.append(exp.Case(ifs=[exp.If(this=none, true=only)]))
            name = (
                label if len(calls) == 1 else f"{label}_{each.alias or each.sql('spark').lower()}"
            )
            outputs.append(Output(name))
    by = [resolved(each.column) for each in keys]
    made = grouped(
        exp.Select(), resolver, Groups(list(by), [list(by)]), trees, node, lowering.types
    )
    lowering.note_inexact(made.inexact)
    items = [
        Item(names.fresh(output.name.lower()), Expr.of(tree))
        for output, tree in zip(outputs, made.trees, strict=True)
    ]
    return Relation(Project(made.aggregate, tuple(items)), tuple(outputs))


def _labelled(value: Tree) -> tuple[str, Tree]:
    if isinstance(value, exp.PivotAlias):
        return value.args["alias"].name, value.this
    return (value.name if isinstance(value, exp.Literal) else value.sql("spark")), value


def _filtered(found: Tree, condition: Tree) -> Tree:
    return exp.Filter(this=found.copy(), expression=exp.Where(this=condition.copy()))


def _unpivot(
    node: Node, scope: Scope, pivot: exp.Pivot, listed: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """Per row and listed column a row with the column's name and value; NULLs only if asked for."""
    if len(pivot.expressions) != 1 or not isinstance(pivot.expressions[0], exp.Identifier):
        raise Stop(place.source.obstacle("PIVOT", pivot, "UNPIVOT"))
    resolver = Resolver(place.source, scope)
    value_name, label_name = pivot.expressions[0].name, listed.this.name
    labels, columns = [], []
    for each in listed.expressions:
        aliased = isinstance(each, exp.PivotAlias)
        inner = each.this if aliased else each
        labels.append(each.args["alias"].name if aliased else inner.name)
        columns.append(Expr.of(resolver.resolve(inner)))
    used = {name for each in columns for name in each.columns}
    rest = [each for each in scope.star() if each.column not in used]
    names = Names()
    kept = [(names.fresh(each.name.lower()), each) for each in rest]
    label, value = names.fresh(label_name.lower()), names.fresh(value_name.lower())
    whole = lowering.types(node, [call("COALESCE", *columns)])[0]
    branches: list[Node] = []
    for text, each in zip(labels, columns, strict=True):
        items = [Item(name, column(field.column)) for name, field in kept]
        items.append(Item(label, Expr.of(exp.Literal.string(text))))
        items.append(Item(value, cast(each, whole)))
        branches.append(Project(node, tuple(items)))
    result: Node = UnionAll(tuple(branches))
    if not pivot.args.get("include_nulls"):
        result = Filter(result, is_not_null(column(value)))
    outputs = (*(Output(f.name, f.named) for f in rest), Output(label_name), Output(value_name))
    return Relation(result, outputs)

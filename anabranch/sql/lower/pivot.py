"""PIVOT as an aggregate per value, UNPIVOT as a union of its columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import (
    Expr,
    Tree,
    call,
    cast,
    column,
    is_not_null,
    operand,
    unwrapped,
)
from anabranch.plan.nodes import Filter, Item, Node, Project, UnionAll
from anabranch.sql.analyze.scope import Scope
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.grouping import Groups, grouped
from anabranch.sql.lower.relation import Names, Output, Place, Relation, Stop
from anabranch.sql.lower.resolve import Resolver, resolved


def pivoted(
    node: Node, scope: Scope, pivot: exp.Pivot, lowering: Lowering, place: Place
) -> Relation:
    (listed,) = pivot.args.get("fields") or (None,)
    if not isinstance(listed, exp.In):
        raise Stop(place.source.obstacle("PIVOT", pivot, "PIVOT", "UNPIVOT"))
    if pivot.args.get("unpivot"):
        return _unpivot(node, scope, pivot, listed, lowering, place)
    return _pivot(node, scope, pivot, listed, lowering, place)


def _pivot(
    node: Node, scope: Scope, pivot: exp.Pivot, listed: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """agg(x) FILTER (WHERE c IS v) for every value v, by all columns that are not named.

    Several columns are compared with as many values.  Where no row has the value the result is
    NULL, also of a count.
    """
    resolver = Resolver(place.source, scope)
    chosen = [resolver.resolve(each) for each in _parts(listed.this)]
    calls = [
        resolver.resolve(each.this if isinstance(each, exp.Alias) else each)
        for each in pivot.expressions
    ]
    used = {part.name for tree in (*chosen, *calls) for part in tree.find_all(exp.Column)}
    keys = [each for each in scope.star() if each.column not in used]
    names = Names()
    trees: list[Tree] = [resolved(each.column) for each in keys]
    outputs = [Output(each.name, each.named) for each in keys]
    for value in listed.expressions:
        label, literal = _labelled(value)
        met = _equal(chosen, [resolver.resolve(each) for each in _parts(literal)])
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


def _parts(tree: Tree) -> list[Tree]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [unwrapped(tree)]


def _equal(chosen: Sequence[Tree], values: Sequence[Tree]) -> Tree:
    """Every column is its value; NULL is NULL."""
    if len(chosen) != len(values):
        raise UserError("PIVOT compares as many values as it names columns")
    pairs = zip(chosen, values, strict=True)
    return exp.and_(
        *(exp.NullSafeEQ(this=operand(mine.copy()), expression=operand(v)) for mine, v in pairs)
    )


def _labelled(value: Tree) -> tuple[str, Tree]:
    """The name that a value's columns begin with, and the value."""
    if isinstance(value, exp.PivotAlias):
        return value.args["alias"].name, value.this
    if isinstance(value, exp.Tuple):
        return f"{{{', '.join(_text(each) for each in value.expressions)}}}", value
    return _text(value), value


def _text(value: Tree) -> str:
    """A literal as Spark writes it in a name: DATE '2024-01-31' without the quotes."""
    inner = value.this if isinstance(value, exp.Cast) else value
    return inner.name if isinstance(inner, exp.Literal) else value.sql("spark").lower()


def _filtered(found: Tree, condition: Tree) -> Tree:
    return exp.Filter(this=found.copy(), expression=exp.Where(this=condition.copy()))


def _unpivot(
    node: Node, scope: Scope, pivot: exp.Pivot, listed: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """Per row and listed column a row with the column's name and value; NULLs only if asked for.

    Columns may be listed in tuples, which are values of several columns.
    """
    resolver = Resolver(place.source, scope)
    label_name = listed.this.name
    value_names = [each.name for each in _parts(pivot.expressions[0])]
    labels, tuples = [], []
    for each in listed.expressions:
        inner = _parts(each.this if isinstance(each, exp.PivotAlias) else each)
        if len(inner) != len(value_names):
            raise UserError("UNPIVOT lists as many columns as it makes")
        alias = each.args["alias"].name if isinstance(each, exp.PivotAlias) else None
        labels.append(alias or "_".join(part.name for part in inner))
        tuples.append([Expr.of(resolver.resolve(part)) for part in inner])
    used = {name for columns in tuples for each in columns for name in each.columns}
    rest = [each for each in scope.star() if each.column not in used]
    names = Names()
    kept = [(names.fresh(each.name.lower()), each) for each in rest]
    label = names.fresh(label_name.lower())
    values = [names.fresh(name.lower()) for name in value_names]
    types = lowering.types(node, [call("COALESCE", *each) for each in zip(*tuples, strict=True)])
    branches: list[Node] = []
    for text, columns in zip(labels, tuples, strict=True):
        items = [Item(name, column(field.column)) for name, field in kept]
        items.append(Item(label, Expr.of(exp.Literal.string(text))))
        made = zip(values, columns, types, strict=True)
        items += [Item(name, cast(each, type_)) for name, each, type_ in made]
        branches.append(Project(node, tuple(items)))
    result: Node = UnionAll(tuple(branches))
    if not pivot.args.get("include_nulls"):
        some = [is_not_null(column(name)).tree.copy() for name in values]
        result = Filter(result, Expr.of(exp.or_(*some)))
    outputs = [Output(each.name, each.named) for each in rest]
    outputs += [Output(name) for name in (label_name, *value_names)]
    return Relation(result, tuple(outputs))

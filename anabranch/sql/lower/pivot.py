"""PIVOT as one aggregate per value, UNPIVOT as a union of one projection per column."""

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
    (in_list,) = pivot.args.get("fields") or (None,)
    if not isinstance(in_list, exp.In):
        raise Stop(place.source.obstacle("PIVOT", pivot, "PIVOT", "UNPIVOT"))
    if pivot.args.get("unpivot"):
        return _unpivot(node, scope, pivot, in_list, lowering, place)
    return _pivot(node, scope, pivot, in_list, lowering, place)


def _pivot(
    node: Node, scope: Scope, pivot: exp.Pivot, in_list: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """agg(x) FILTER (WHERE c IS v) for every value v, grouped by all columns that are not mentioned.

    Several columns are compared with as many values.  If no row has the value the result is NULL, even
    of a count.
    """
    resolver = Resolver(place.source, scope)
    pivot_columns = [resolver.resolve(tree) for tree in _parts(in_list.this)]
    calls = [
        resolver.resolve(expression.this if isinstance(expression, exp.Alias) else expression)
        for expression in pivot.expressions
    ]
    used = {
        column_.name for tree in (*pivot_columns, *calls) for column_ in tree.find_all(exp.Column)
    }
    keys = [field for field in scope.star() if field.column not in used]
    names = Names()
    trees: list[Tree] = [resolved(field.column) for field in keys]
    outputs = [Output(field.name, field.named) for field in keys]
    for value in in_list.expressions:
        label, literal = _labelled(value)
        condition = _equal(pivot_columns, [resolver.resolve(tree) for tree in _parts(literal)])
        count = _filtered(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), condition)
        for expression, aggregate_call in zip(pivot.expressions, calls, strict=True):
            filtered_call = _filtered(aggregate_call, condition)
            has_rows = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
            trees.append(exp.Case(ifs=[exp.If(this=has_rows, true=filtered_call)]))
            name = (
                label
                if len(calls) == 1
                else f"{label}_{expression.alias or expression.sql('spark').lower()}"
            )
            outputs.append(Output(name))
    group_keys = [resolved(field.column) for field in keys]
    groups_ = grouped(
        exp.Select(),
        resolver,
        Groups(list(group_keys), [list(group_keys)]),
        trees,
        node,
        lowering.types,
    )
    lowering.note_inexact(groups_.inexact)
    items = [
        Item(names.fresh(output.name.lower()), Expr.of(tree))
        for output, tree in zip(outputs, groups_.trees, strict=True)
    ]
    return Relation(Project(groups_.aggregate, tuple(items)), tuple(outputs))


def _parts(tree: Tree) -> list[Tree]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [unwrapped(tree)]


def _equal(columns: Sequence[Tree], values: Sequence[Tree]) -> Tree:
    """Every column equals its value; NULL equals NULL."""
    if len(columns) != len(values):
        raise UserError("PIVOT compares as many values as it names columns")
    pairs = zip(columns, values, strict=True)
    return exp.and_(
        *(
            exp.NullSafeEQ(this=operand(left.copy()), expression=operand(value))
            for left, value in pairs
        )
    )


def _labelled(value: Tree) -> tuple[str, Tree]:
    """The prefix of a value's output columns, and the value."""
    if isinstance(value, exp.PivotAlias):
        return value.args["alias"].name, value.this
    if isinstance(value, exp.Tuple):
        return f"{{{', '.join(_text(part) for part in value.expressions)}}}", value
    return _text(value), value


def _text(value: Tree) -> str:
    """A literal as Spark writes it in a column name: DATE '2024-01-31' without the quotes."""
    inner = value.this if isinstance(value, exp.Cast) else value
    return inner.name if isinstance(inner, exp.Literal) else value.sql("spark").lower()


def _filtered(aggregate_call: Tree, condition: Tree) -> Tree:
    return exp.Filter(this=aggregate_call.copy(), expression=exp.Where(this=condition.copy()))


def _unpivot(
    node: Node, scope: Scope, pivot: exp.Pivot, in_list: exp.In, lowering: Lowering, place: Place
) -> Relation:
    """One row per row and listed column, with the column's name and value; NULLs only if included.

    A tuple of columns gives values of several columns.
    """
    resolver = Resolver(place.source, scope)
    label_name = in_list.this.name
    value_names = [tree.name for tree in _parts(pivot.expressions[0])]
    labels, tuples = [], []
    for entry in in_list.expressions:
        columns_of_entry = _parts(entry.this if isinstance(entry, exp.PivotAlias) else entry)
        if len(columns_of_entry) != len(value_names):
            raise UserError("UNPIVOT lists as many columns as it makes")
        alias = entry.args["alias"].name if isinstance(entry, exp.PivotAlias) else None
        labels.append(alias or "_".join(identifier.name for identifier in columns_of_entry))
        tuples.append([Expr.of(resolver.resolve(tree)) for tree in columns_of_entry])
    used = {name for columns in tuples for expr in columns for name in expr.columns}
    passed = [field for field in scope.star() if field.column not in used]
    names = Names()
    passed_names = [(names.fresh(field.name.lower()), field) for field in passed]
    label = names.fresh(label_name.lower())
    values = [names.fresh(name.lower()) for name in value_names]
    types = lowering.types(node, [call("COALESCE", *exprs) for exprs in zip(*tuples, strict=True)])
    branches: list[Node] = []
    for text, columns in zip(labels, tuples, strict=True):
        items = [Item(name, column(field.column)) for name, field in passed_names]
        items.append(Item(label, Expr.of(exp.Literal.string(text))))
        typed_values = zip(values, columns, types, strict=True)
        items += [Item(name, cast(expr, type_)) for name, expr, type_ in typed_values]
        branches.append(Project(node, tuple(items)))
    result: Node = UnionAll(tuple(branches))
    if not pivot.args.get("include_nulls"):
        present = [is_not_null(column(name)).tree.copy() for name in values]
        result = Filter(result, Expr.of(exp.or_(*present)))
    outputs = [Output(field.name, field.named) for field in passed]
    outputs += [Output(name) for name in (label_name, *value_names)]
    return Relation(result, tuple(outputs))

"""PIVOT as one aggregate per value, UNPIVOT as a union of one projection per column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
)
from anabranch.plan.nodes import Filter, Item, Node, Project, UnionAll
from anabranch.sql.analyze.bindings import Outputs, outputs_of
from anabranch.sql.analyze.groups import Groups
from anabranch.sql.analyze.pivots import labelled, parts
from anabranch.sql.analyze.resolve import FromColumns, Output, Resolver, resolved
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.grouping import grouped
from anabranch.sql.lower.relation import Names, Place, Relation, exposed
from anabranch.sql.obstacles import Stop


def pivoted(relation: Relation, pivot: exp.Pivot, lowering: Lowering, place: Place) -> Relation:
    outputs = outputs_of(pivot)
    if outputs is None:
        raise Stop(place.source.obstacle("PIVOT", pivot, "PIVOT", "UNPIVOT"))
    (in_list,) = pivot.args["fields"]
    node, scope = exposed(relation, outputs.before, Names())
    pivoting = _Pivoting(node, scope, pivot, in_list, outputs)
    if pivot.args.get("unpivot"):
        return _unpivot(pivoting, lowering, place)
    return _pivot(pivoting, lowering, place)


@dataclass(frozen=True)
class _Pivoting:
    """The rows that are turned, and how."""

    node: Node
    scope: FromColumns
    pivot: exp.Pivot
    in_list: exp.In
    outputs: Outputs

    @property
    def passed(self) -> list[str]:
        """The columns of the plan that stay as they are."""
        return [self.scope.names[field.column] for field in self.outputs.passed]

    @property
    def names(self) -> tuple[Output, ...]:
        passed = tuple(Output(field.name, field.named) for field in self.outputs.passed)
        return passed + tuple(map(Output, self.outputs.made))


def _pivot(pivoting: _Pivoting, lowering: Lowering, place: Place) -> Relation:
    """agg(x) FILTER (WHERE c IS v) for every value v, grouped by all columns that are not mentioned.

    Several columns are compared with as many values.  If no row has the value the result is NULL, even
    of a count.
    """
    resolver = Resolver(place.source, pivoting.scope)
    pivot, in_list = pivoting.pivot, pivoting.in_list
    pivot_columns = [resolver.resolve(tree) for tree in parts(in_list.this)]
    calls = [
        resolver.resolve(expression.this if isinstance(expression, exp.Alias) else expression)
        for expression in pivot.expressions
    ]
    names = Names()
    trees: list[Tree] = [resolved(name) for name in pivoting.passed]
    for value in in_list.expressions:
        _, literal = labelled(value)
        condition = _equal(pivot_columns, [resolver.resolve(tree) for tree in parts(literal)])
        count = _filtered(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), condition)
        for aggregate_call in calls:
            filtered_call = _filtered(aggregate_call, condition)
            has_rows = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
            trees.append(exp.Case(ifs=[exp.If(this=has_rows, true=filtered_call)]))
    group_keys: list[Tree] = [resolved(name) for name in pivoting.passed]
    groups_ = grouped(
        exp.Select(),
        resolver,
        Groups(list(group_keys), [list(group_keys)]),
        trees,
        pivoting.node,
        lowering.types,
    )
    lowering.note_inexact(groups_.inexact)
    items = [
        Item(names.fresh(output.name.lower()), Expr.of(tree))
        for output, tree in zip(pivoting.names, groups_.trees, strict=True)
    ]
    return Relation(Project(groups_.aggregate, tuple(items)), pivoting.names)


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


def _filtered(aggregate_call: Tree, condition: Tree) -> Tree:
    return exp.Filter(this=aggregate_call.copy(), expression=exp.Where(this=condition.copy()))


def _unpivot(pivoting: _Pivoting, lowering: Lowering, place: Place) -> Relation:
    """One row per row and listed column, with the column's name and value; NULLs only if included.

    A tuple of columns gives values of several columns.
    """
    resolver = Resolver(place.source, pivoting.scope)
    label_name, *value_names = pivoting.outputs.made
    labels, tuples = [], []
    for entry in pivoting.in_list.expressions:
        columns_of_entry = parts(entry.this if isinstance(entry, exp.PivotAlias) else entry)
        if len(columns_of_entry) != len(value_names):
            raise UserError("UNPIVOT lists as many columns as it makes")
        alias = entry.args["alias"].name if isinstance(entry, exp.PivotAlias) else None
        labels.append(alias or "_".join(identifier.name for identifier in columns_of_entry))
        tuples.append([Expr.of(resolver.resolve(tree)) for tree in columns_of_entry])
    names = Names()
    passed = [
        Item(names.fresh(field.name.lower()), column(name))
        for field, name in zip(pivoting.outputs.passed, pivoting.passed, strict=True)
    ]
    label = names.fresh(label_name.lower())
    values = [names.fresh(name.lower()) for name in value_names]
    node = pivoting.node
    types = lowering.types(node, [call("COALESCE", *exprs) for exprs in zip(*tuples, strict=True)])
    branches: list[Node] = []
    for text, columns in zip(labels, tuples, strict=True):
        items = [*passed, Item(label, Expr.of(exp.Literal.string(text)))]
        typed_values = zip(values, columns, types, strict=True)
        items += [Item(name, cast(expr, type_)) for name, expr, type_ in typed_values]
        branches.append(Project(node, tuple(items)))
    result: Node = UnionAll(tuple(branches))
    if not pivoting.pivot.args.get("include_nulls"):
        present = [is_not_null(column(name)).tree.copy() for name in values]
        result = Filter(result, Expr.of(exp.or_(*present)))
    return Relation(result, pivoting.names)

"""The maintenance strategy of a stream table, chosen by the root of its plan.

ByRows     the row delta is applied to the stored rows
Combine    one stored row per group, with partial aggregates that a delta is merged into
Replace    the stored rows of a touched key (a group, a partition of a window) are recomputed
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from anabranch.delta.differentiate import delta
from anabranch.delta.first import first_rows, visible_order
from anabranch.delta.rule import Changed, at
from anabranch.delta.state import StateColumn, States
from anabranch.model import Column, Columns
from anabranch.plan.exprs import Expr, column, conjunction, conjuncts
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    Call,
    Filter,
    Item,
    KeyFilter,
    Node,
    OneRow,
    Parameter,
    Project,
    SemiJoin,
    TopK,
    Version,
    Window,
    same_columns,
)
from anabranch.plan.walk import walk


@dataclass(frozen=True)
class Key:
    """A key of the groups: the stored column `name` holds the aggregate's column `column`."""

    name: str
    column: str
    expr: Expr  # over the aggregate's input
    type: str
    visible: bool


@dataclass(frozen=True)
class ByRows:
    full: Node
    why: str = "the root is not an aggregate"
    hidden: Columns = ()

    def delta(self, changed: Changed) -> Node | None:
        """Visible columns and `_ab_w`, +1 or -1."""
        return delta(self.full, changed)

    @property
    def monotone(self) -> bool:
        """Whether inserts alone lead to inserts alone."""
        return all(node.linear for node in walk(self.full))


@dataclass(frozen=True)
class ByGroups:
    """`keys` is empty for an aggregate without GROUP BY, a window without PARTITION BY, and LIMIT."""

    full: Node  # visible and hidden columns
    keys: tuple[Key, ...]
    hidden: Columns
    why: str
    input: Node  # of the operator at the root

    def groups(self, node: Node, calls: tuple[Call, ...] = ()) -> Aggregate:
        """The aggregate over some rows of its input, keys under their stored names."""
        return Aggregate(
            node, tuple(Item(key.name, key.expr, key.type) for key in self.keys), calls
        )

    def only(self, keys: Parameter | Node) -> Node:
        """The input after the change, filtered by keys (stored names); without keys all of it, if
        the relation is not empty."""
        after = at(self.input, Version.AFTER)
        if not self.keys:
            return SemiJoin(after, keys, None)
        return KeyFilter(after, keys, tuple((key.expr, key.name) for key in self.keys))


@dataclass(frozen=True)
class Combine(ByGroups):
    state: tuple[StateColumn, ...]
    outputs: tuple[Item, ...]  # visible columns over stored key and state columns

    def change(self, changed: Changed) -> Node | None:
        """Per touched key: stored key columns, changes of the state, and `_ab_d…` of extrema."""
        rows = delta(self.input, changed)
        if rows is None:
            return None
        calls = [Call(state.name, state.change) for state in self.state]
        calls += [
            Call(state.deleted, state.deleted_extremum)
            for state in self.state
            if state.deleted and state.deleted_extremum
        ]
        return self.groups(rows, tuple(calls))

    def rescan(self, keys: Parameter) -> Node:
        """Key and state columns after the change, for groups whose extremum was deleted."""
        return self.groups(self.only(keys), _initial(self.state))


@dataclass(frozen=True)
class Replace(ByGroups):
    operator: Node
    items: tuple[Item, ...]  # visible and hidden columns over the operator
    condition: Expr | None  # HAVING, QUALIFY

    def touched(self, changed: Changed) -> Node | None:
        """The distinct stored key columns of touched groups; without keys: one empty row."""
        rows = delta(self.input, changed)
        if rows is None:
            return None
        return self.groups(rows) if self.keys else OneRow()

    @cached_property
    def first(self) -> TopK | None:
        """The order of the stored rows, if they are just the result of ORDER BY … LIMIT."""
        if not isinstance(self.operator, TopK) or self.condition is not None:
            return None
        return visible_order(self.operator, self.items)

    def from_stored(self, changed: Changed, *, complete: bool) -> Node | None:
        """The first rows, from the stored ones and the delta; see `first_rows`."""
        rows = delta(self.input, changed)
        if rows is None or self.first is None:
            return None
        row_delta = Project(rows, (*self.items, Item(WEIGHT, column(WEIGHT))))
        return first_rows(self.first, row_delta, complete=complete)

    def recompute(self, keys: Parameter | None) -> Node:
        """Visible and hidden columns after the change, for the given keys; without keys for all."""
        rows = at(self.input, Version.AFTER) if keys is None else self.only(keys)
        return self.result(rows)

    def result(self, rows: Node) -> Node:
        node = self.operator.with_inputs([rows])
        return Project(Filter(node, self.condition) if self.condition else node, self.items)


Maintenance: TypeAlias = ByRows | Combine | Replace


def maintenance(plan: Node) -> Maintenance:
    root = _peel(plan)
    if root is None:
        return ByRows(plan)
    items, condition, operator = root
    if not isinstance(operator, Aggregate):
        return _by_partition(operator, items, condition)
    aggregate, keys = operator, _keys(items, operator)
    states = States()
    results = {call.name: states.output(call) for call in aggregate.calls}
    recomputed = [call for call in aggregate.calls if results[call.name] is None]
    if condition is not None:
        return _replace(aggregate, keys, items, condition, "HAVING may hide and show groups")
    if recomputed:
        why = f"{recomputed[0].expr.readable} cannot be maintained from changes alone"
        return _replace(aggregate, keys, items, None, why)
    stored = {key.column: column(key.name) for key in keys}
    items = tuple(Item(item.name, item.expr.substitute(stored), item.type) for item in items)
    maintained = {name: result for name, result in results.items() if result is not None}
    outputs = tuple(Item(item.name, item.expr.substitute(maintained), item.type) for item in items)
    return _combine(aggregate, keys, outputs, tuple(states.columns.values()))


Root: TypeAlias = Aggregate | Window | TopK


def _peel(plan: Node) -> tuple[tuple[Item, ...], Expr | None, Root] | None:
    """The root as a projection and a condition over one operator that works per key, if it has that
    shape."""
    items, conditions, node = same_columns(plan), list[Expr](), plan
    while not isinstance(node, (Aggregate, Window, TopK)):
        if isinstance(node, Project):
            exprs = {item.name: item.expr for item in node.items}
            items = tuple(Item(item.name, item.expr.substitute(exprs), item.type) for item in items)
            conditions = [condition.substitute(exprs) for condition in conditions]
        elif isinstance(node, Filter):
            conditions = [*conjuncts(node.condition), *conditions]
        else:
            return None
        node = node.input
    return items, conjunction(conditions), node


def _keys(items: tuple[Item, ...], aggregate: Aggregate) -> tuple[Key, ...]:
    """A key that is an output column needs no hidden column."""
    visible = {item.expr.column: item.name for item in reversed(items)}
    return tuple(
        Key(visible.get(key.name, f"_ab_k{i}"), key.name, key.expr, key.type, key.name in visible)
        for i, key in enumerate(aggregate.keys)
    )


def _by_partition(
    operator: Window | TopK, items: tuple[Item, ...], condition: Expr | None
) -> Replace:
    visible = {item.expr: item.name for item in reversed(items)}
    types = operator.types if isinstance(operator, Window) else ()
    keys = tuple(
        Key(visible.get(expr, f"_ab_k{i}"), "", expr, type_, expr in visible)
        for i, (expr, type_) in enumerate(zip(operator.partition, types, strict=True))
    )
    why = "a change may touch every row of its partition"
    if not keys:
        why = "without partitions a change may touch every row"
    return _replace(operator, keys, items, condition, why)


def _hidden_keys(keys: tuple[Key, ...]) -> tuple[Column, ...]:
    return tuple(Column(key.name, key.type) for key in keys if not key.visible)


def _passed(columns: Columns) -> tuple[Item, ...]:
    return tuple(
        Item(stored_column.name, column(stored_column.name), stored_column.type)
        for stored_column in columns
    )


def _initial(state: tuple[StateColumn, ...]) -> tuple[Call, ...]:
    return tuple(Call(stored_column.name, stored_column.initial) for stored_column in state)


def _combine(
    aggregate: Aggregate,
    keys: tuple[Key, ...],
    outputs: tuple[Item, ...],
    state: tuple[StateColumn, ...],
) -> Combine:
    hidden = (
        *_hidden_keys(keys),
        *(Column(stored_column.name, stored_column.type) for stored_column in state),
    )
    items = tuple(Item(key.name, key.expr, key.type) for key in keys)
    groups = Aggregate(aggregate.input, items, _initial(state))
    return Combine(
        full=Project(groups, (*outputs, *_passed(hidden))),
        keys=keys,
        hidden=hidden,
        why="every result follows from partial results and the change",
        input=aggregate.input,
        state=state,
        outputs=outputs,
    )


def _replace(
    operator: Root,
    keys: tuple[Key, ...],
    items: tuple[Item, ...],
    condition: Expr | None,
    why: str,
) -> Replace:
    """Keys are stored unchanged: a group's from the aggregate, a partition's from the row."""
    hidden_keys = (
        Item(key.name, column(key.column) if key.column else key.expr, key.type)
        for key in keys
        if not key.visible
    )
    strategy = Replace(
        full=operator.input,
        keys=keys,
        hidden=_hidden_keys(keys),
        why=why,
        input=operator.input,
        operator=operator,
        items=(*items, *hidden_keys),
        condition=condition,
    )
    return dataclasses.replace(strategy, full=strategy.result(operator.input))

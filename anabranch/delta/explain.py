"""Explains how a stream table is maintained: plan, delta plans, hidden columns, and why in this way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from anabranch.delta.maintenance import ByRows, Combine, Maintenance, Replace
from anabranch.delta.rule import Changed
from anabranch.model import Columns
from anabranch.plan.nodes import Node, Parameter
from anabranch.plan.optimize import (
    DELTA_RULES,
    KEY_RULES,
    OPERATOR_RULES,
    QUERY_RULES,
    Applied,
    Rules,
    changes,
    optimize,
)
from anabranch.plan.show import show
from anabranch.plan.statistics import NOTHING, Statistics
from anabranch.plan.walk import tables

_NAMES = {ByRows: "by rows", Combine: "by groups, combined", Replace: "by groups, recomputed"}


def explain(maintenance: Maintenance, changed: Changed | None = None) -> str:
    """`changed`: the sources assumed to change; by default all of them."""
    sources = tables(maintenance.full) if changed is None else changed
    sections = [
        ("plan", show(maintenance.full)),
        ("kept", f"{_NAMES[type(maintenance)]}: {maintenance.why}"),
    ]
    if maintenance.hidden:
        sections.append(("hidden columns", _columns(maintenance.hidden)))
    sections += [
        (title, show(optimize(node, KEY_RULES)))
        for title, node in _delta_plans(maintenance, sources)
        if node is not None
    ]
    return "\n".join(f"{title}:\n{_indented(text)}" for title, text in sections)


def explain_rules(
    written: Node, maintenance: Maintenance | None, statistics_of: Callable[[Node], Statistics]
) -> str:
    """The effect of the optimizer on the query, on operators whose delta is taken, and on each delta
    plan, rule by rule; `statistics_of` returns the statistics that a plan is optimized with."""
    sections = [("rules of the query", _rules(written, QUERY_RULES, NOTHING))]
    if maintenance is not None and (steps := _shown(_of_operators(_differentiated(maintenance)))):
        sections.append(("rules of operators, before their deltas", "\n".join(steps)))
    plans = [] if maintenance is None else _delta_plans(maintenance, tables(maintenance.full))
    sections += [
        (f"rules of the {title}", _rules(node, DELTA_RULES, statistics_of(node)))
        for title, node in plans
        if node is not None
    ]
    return "\n".join(f"{title}:\n{_indented(text)}" for title, text in sections)


def _rules(plan: Node, rules: Rules, statistics: Statistics) -> str:
    applied = _shown(changes(plan, rules, statistics))
    return "\n".join([f"before:\n{_indented(show(plan))}", *(applied or ["no rule changes it"])])


def _shown(steps: Iterable[Applied]) -> list[str]:
    return [f"{step.rule}:\n{_indented(show(step.plan))}" for step in steps]


def _differentiated(maintenance: Maintenance) -> Node:
    """The plan whose delta is taken."""
    return maintenance.full if isinstance(maintenance, ByRows) else maintenance.input


def _of_operators(plan: Node) -> Iterator[Applied]:
    """The rules that change an operator before its delta is taken, from the top down, as it is."""
    pending, seen = [plan], set[Node]()
    while pending:
        if (node := pending.pop()) not in seen:
            seen.add(node)
            yield from changes(node, OPERATOR_RULES)
            pending += reversed(optimize(node, OPERATOR_RULES).inputs)


def _delta_plans(maintenance: Maintenance, sources: Changed) -> list[tuple[str, Node | None]]:
    match maintenance:
        case ByRows():
            return [("delta", maintenance.delta(sources))]
        case Combine():
            plans = [("change of the groups", maintenance.change(sources))]
            if any(state.deleted for state in maintenance.state):
                plans.append(
                    ("groups that lost an extremum", maintenance.rescan(_keys(maintenance)))
                )
            return plans
        case Replace():
            keys = _keys(maintenance) if maintenance.keys else None
            if maintenance.first is not None:
                return [
                    ("first rows", maintenance.from_stored(sources, complete=False)),
                    ("first rows, where too few are left", maintenance.recompute(None)),
                ]
            return [
                ("touched groups", maintenance.touched(sources)),
                ("recomputed groups", maintenance.recompute(keys)),
            ]


def _keys(maintenance: Combine | Replace) -> Parameter:
    return Parameter("touched keys", tuple(key.name for key in maintenance.keys))


def _columns(columns: Columns) -> str:
    return "\n".join(f"{column.name} {column.type}".rstrip() for column in columns)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

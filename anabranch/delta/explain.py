"""A maintenance in words: plan, delta plan, hidden columns, and why it is kept in this way."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.delta.maintenance import ByRows, Combine, Maintenance, Replace
from anabranch.delta.rule import Changed
from anabranch.model import Columns
from anabranch.plan.nodes import Node, Parameter
from anabranch.plan.optimize import DELTA_RULES, KEY_RULES, QUERY_RULES, Rules, changes, optimize
from anabranch.plan.show import show
from anabranch.plan.statistics import NOTHING, Statistics
from anabranch.plan.walk import tables

_NAMES = {ByRows: "by rows", Combine: "by groups, combined", Replace: "by groups, recomputed"}


def explain(kept: Maintenance, changed: Changed | None = None) -> str:
    """`changed`: the sources assumed to change; all of them when not given."""
    sources = tables(kept.full) if changed is None else changed
    sections = [("plan", show(kept.full)), ("kept", f"{_NAMES[type(kept)]}: {kept.why}")]
    if kept.hidden:
        sections.append(("hidden columns", _columns(kept.hidden)))
    sections += [
        (title, show(optimize(node, KEY_RULES)))
        for title, node in _delta_plans(kept, sources)
        if node is not None
    ]
    return "\n".join(f"{title}:\n{_indented(text)}" for title, text in sections)


def explain_rules(
    written: Node, kept: Maintenance | None, told: Callable[[Node], Statistics]
) -> str:
    """What the optimizer makes of the query and of each plan of a change, rule by rule; `told` gives
    the statistics that a plan is optimized with."""
    parts = [("rules of the query", _rules(written, QUERY_RULES, NOTHING))]
    plans = [] if kept is None else _delta_plans(kept, tables(kept.full))
    parts += [
        (f"rules of the {title}", _rules(node, DELTA_RULES, told(node)))
        for title, node in plans
        if node is not None
    ]
    return "\n".join(f"{title}:\n{_indented(text)}" for title, text in parts)


def _rules(plan: Node, rules: Rules, statistics: Statistics) -> str:
    found = [
        f"{step.rule}:\n{_indented(show(step.plan))}" for step in changes(plan, rules, statistics)
    ]
    return "\n".join([f"before:\n{_indented(show(plan))}", *(found or ["no rule changes it"])])


def _delta_plans(kept: Maintenance, sources: Changed) -> list[tuple[str, Node | None]]:
    match kept:
        case ByRows():
            return [("delta", kept.delta(sources))]
        case Combine():
            plans = [("change of the groups", kept.change(sources))]
            if any(state.deleted for state in kept.state):
                plans.append(("groups that lost an extremum", kept.rescan(_keys(kept))))
            return plans
        case Replace():
            keys = _keys(kept) if kept.keys else None
            if kept.first is not None:
                return [
                    ("first rows", kept.from_stored(sources, whole=False)),
                    ("first rows, where too few are left", kept.recompute(None)),
                ]
            return [
                ("touched groups", kept.touched(sources)),
                ("recomputed groups", kept.recompute(keys)),
            ]


def _keys(kept: Combine | Replace) -> Parameter:
    return Parameter("touched keys", tuple(key.name for key in kept.keys))


def _columns(columns: Columns) -> str:
    return "\n".join(f"{each.name} {each.type}".rstrip() for each in columns)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

"""The optimizer: ordered rules over the plan of a query, and over the plan of a change.

A rule is a pure function in plan/rules, of the plan and of statistics that the caller has gathered.
Nothing else rewrites plans, and rules are applied by `optimize` alone, as lists that have a name here:
`sql/lower` translates a query into its plan, the rules of `delta` differentiate it, and how an operator
is written as SQL stands beside the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anabranch.plan.nodes import Node
from anabranch.plan.reducing import large_tables, repeated
from anabranch.plan.rules.filter_below_aggregate import filter_below_aggregate
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.rules.filter_below_project import filter_below_project
from anabranch.plan.rules.filter_into_join import filter_into_join
from anabranch.plan.rules.flatten_joins import flatten_joins
from anabranch.plan.rules.merge_filters import merge_filters
from anabranch.plan.rules.merge_projects import merge_projects
from anabranch.plan.rules.prune_columns import prune_columns
from anabranch.plan.rules.push_keys import push_keys
from anabranch.plan.rules.push_ranges import push_ranges
from anabranch.plan.rules.reduce_by_small_inputs import reduce_by_small_inputs
from anabranch.plan.rules.reduce_scans import reduce_scans
from anabranch.plan.rules.share_scans import share_scans
from anabranch.plan.statistics import NOTHING, Statistics
from anabranch.plan.walk import transform


@dataclass(frozen=True)
class Everywhere:
    """A rule about one operator, applied bottom-up to every node."""

    rule: Callable[[Node], Node]

    def apply(self, plan: Node, statistics: Statistics) -> Node:
        return transform(plan, self.rule)


@dataclass(frozen=True)
class OfPlan:
    """A rule about the whole plan, or about the operator at its top."""

    rule: Callable[[Node], Node]

    def apply(self, plan: Node, statistics: Statistics) -> Node:
        return self.rule(plan)


@dataclass(frozen=True)
class Measured:
    """A rule about the whole plan that uses statistics."""

    rule: Callable[[Node, Statistics], Node]

    def apply(self, plan: Node, statistics: Statistics) -> Node:
        return self.rule(plan, statistics)


Rule = Everywhere | OfPlan | Measured


@dataclass(frozen=True)
class UntilStable:
    """Rules in order, repeated until none of them changes the plan."""

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class ForRepeated:
    """Rules for the large tables of which some of them, `reducing`, leave several reduced scans: one
    scan that only a single reader needs part of is better left as it is."""

    reducing: tuple[Rule, ...]
    rules: tuple[Rule, ...]


Rules = tuple[Rule | UntilStable | ForRepeated, ...]

QUERY_RULES: Rules = (
    UntilStable(
        (
            Everywhere(merge_projects),
            Everywhere(merge_filters),
            Everywhere(filter_below_project),
            Everywhere(filter_below_aggregate),
            Everywhere(filter_into_join),
            Everywhere(flatten_joins),
        )
    ),
    OfPlan(prune_columns),
    Everywhere(merge_projects),
)

# An operator whose delta is about to be taken, at its top: its inputs have their turn when theirs is.
OPERATOR_RULES: Rules = (OfPlan(filter_below_join),)

TOP_KEY_RULES: Rules = (OfPlan(push_keys),)  # the filter on keys at the top, and no other

KEY_RULES: Rules = (Everywhere(push_keys),)  # a delta without statistics

RANGE_RULES: Rules = (*KEY_RULES, Measured(push_ranges))  # a delta, to see what it would read

_REDUCING = (
    Measured(reduce_scans),
    Everywhere(filter_below_join),
    Measured(reduce_by_small_inputs),
)

SHARE_RULES: Rules = (ForRepeated(_REDUCING, (*_REDUCING, Measured(share_scans))),)

DELTA_RULES: Rules = (
    *KEY_RULES,
    *SHARE_RULES,
    Measured(push_ranges),
)


@dataclass(frozen=True)
class Applied:
    """A rule that was applied, and the plan after it."""

    rule: str
    plan: Node


def optimize(plan: Node, rules: Rules, statistics: Statistics = NOTHING) -> Node:
    """The plan after all rules."""
    for applied in _apply_all(plan, rules, statistics):
        plan = applied.plan
    return plan


def changes(plan: Node, rules: Rules, statistics: Statistics = NOTHING) -> Iterator[Applied]:
    """The rules that change the plan, each with the plan after it."""
    for applied in _apply_all(plan, rules, statistics):
        if applied.plan != plan:
            yield applied
        plan = applied.plan


def _apply_all(plan: Node, rules: Rules, statistics: Statistics) -> Iterator[Applied]:
    for rule in rules:
        match rule:
            case UntilStable():
                applications = _until_stable(plan, rule.rules, statistics)
            case ForRepeated():
                applications = _for_repeated(plan, rule, statistics)
            case _:
                applications = iter([Applied(rule.rule.__name__, rule.apply(plan, statistics))])
        for applied in applications:
            yield applied
            plan = applied.plan


def _until_stable(plan: Node, rules: tuple[Rule, ...], statistics: Statistics) -> Iterator[Applied]:
    while True:
        before = plan
        for rule in rules:
            plan = rule.apply(plan, statistics)
            yield Applied(rule.rule.__name__, plan)
        if plan == before:
            return


def _for_repeated(plan: Node, rule: ForRepeated, statistics: Statistics) -> Iterator[Applied]:
    large = large_tables(plan, statistics)
    if not large:
        return
    tables = repeated(optimize(plan, rule.reducing, statistics.of(large)))
    if tables:
        yield from _apply_all(plan, rule.rules, statistics.of(tables))

"""Every rule of the optimizer: the examples in its file, and those of tests/fixtures/rules.

A fixture is a plan, `=>`, and the plan after the rule; both are run on DuckDB over random rows.  What
rules are told of tables stands above the plan, and so does the list of rules, if not the rule alone is
applied.  Rows of a delta may come and go in other numbers, if they are `signed`.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

import pytest

import anabranch
from anabranch.model import RangeSet
from anabranch.names import TableName
from anabranch.plan import rules
from anabranch.plan.nodes import WEIGHT, Node, Parameter
from anabranch.plan.optimize import (
    DELTA_RULES,
    KEY_RULES,
    OPERATOR_RULES,
    QUERY_RULES,
    RANGE_RULES,
    SHARE_RULES,
    TOP_KEY_RULES,
    ForRepeated,
    Measured,
    Rule,
    Rules,
    UntilStable,
    optimize,
)
from anabranch.plan.read import read
from anabranch.plan.show import show
from anabranch.plan.statistics import Statistics, TableStatistics
from anabranch.plan.walk import walk
from tests.oracle.kept import World, _sql, fetched

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
FILES = sorted(path.stem for path in Path(rules.__file__).parent.glob("*.py"))
NAMES = ("k", "v", "w")
Ranges = dict[tuple[str, str], tuple[int, int]]


LISTS: dict[str, Rules] = {
    "OPERATOR_RULES": OPERATOR_RULES,
    "TOP_KEY_RULES": TOP_KEY_RULES,
    "KEY_RULES": KEY_RULES,
    "RANGE_RULES": RANGE_RULES,
    "SHARE_RULES": SHARE_RULES,
    "QUERY_RULES": QUERY_RULES,
    "DELTA_RULES": DELTA_RULES,
}


def flat() -> list[Rule]:
    found: list[Rule] = []
    for rule in chain.from_iterable(LISTS.values()):
        found += rule.rules if isinstance(rule, (UntilStable, ForRepeated)) else (rule,)
    return found


RULES = {rule.rule.__name__: rule for rule in flat()}


@dataclass(frozen=True)
class Case:
    title: str
    before: str
    after: str
    large: frozenset[str]
    changed: Ranges
    rules: str | None  # the list that is applied in place of the one rule
    signed: bool  # rows are compared by the sum of their weights

    def applied(self, name: str, plan: Node) -> Node:
        if self.rules is None:
            return RULES[name].apply(plan, self.statistics)
        return optimize(plan, LISTS[self.rules], self.statistics)

    @property
    def statistics(self) -> Statistics:
        kinds = dict.fromkeys(NAMES, "integer")
        return Statistics(
            {
                TableName.of(table): TableStatistics(
                    10 if table in self.large else 0,
                    kinds,
                    frozenset(NAMES),
                    {
                        n: RangeSet("integer", (ends,))
                        for (t, n), ends in self.changed.items()
                        if t == table
                    },
                )
                for table in "abc"
            },
            large=10,
        )


def load(path: Path) -> list[Case]:
    cases = []
    for block in re.split(r"(?m)^--- ", path.read_text())[1:]:
        title, text = block.split("\n", 1)
        large = re.findall(r"(?m)^-- large: (\w+)$", text)
        told = re.findall(r"(?m)^-- changed: (\w+)\.(\w+) (\d+)\.\.(\d+)$", text)
        changed = {(table, name): (int(low), int(high)) for table, name, low, high in told}
        (rules,) = re.findall(r"(?m)^-- rules: (\w+)$", text) or [None]
        signed = re.search(r"(?m)^-- signed$", text) is not None
        plans = re.sub(r"(?m)^-- .*\n", "", text)
        before, after = (part.strip() for part in plans.split("=>"))
        cases.append(Case(title, before, after, frozenset(large), changed, rules, signed))
    return cases


CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case.title}")
    for path in sorted(FIXTURES.glob("*.txt"))
    for case in load(path)
]


@pytest.fixture(scope="module")
def world() -> World:
    return World({table: ", ".join(f"{name} INT" for name in NAMES) for table in "abc"})


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_rule_makes_the_plan_that_is_expected(name: str, case: Case) -> None:
    plan = read(case.before)
    assert show(plan) == case.before
    assert show(case.applied(name, plan)) == case.after


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_rule_changes_no_row(world: World, name: str, case: Case) -> None:
    plan = read(case.before)
    after = case.applied(name, plan)
    random = Random(case.title)
    for _ in range(5):
        fill(world, random, case.changed)
        bind(world, random, plan)
        assert rows(world, after, case.signed) == rows(world, plan, case.signed)


def rows(world: World, plan: Node, signed: bool) -> dict[tuple[object, ...], int]:
    found = Counter(fetched(world.db.execute(_sql(plan))))
    if not signed:
        return found
    at, totals = plan.columns.index(WEIGHT), Counter[tuple[object, ...]]()
    for row, count in found.items():
        totals[row[:at] + row[at + 1 :]] += int(row[at]) * count
    return {row: total for row, total in totals.items() if total}


def fill(world: World, random: Random, changed: Ranges) -> None:
    """Rows before and after a window, of which some columns only change within ranges."""
    world.reset()
    insert(world, random, {})
    world.begin()
    for table in "abc":
        told = {name: ends for (of, name), ends in changed.items() if of == table}
        where = " AND ".join(f"{n} BETWEEN {low} AND {high}" for n, (low, high) in told.items())
        world.db.execute(f"DELETE FROM now.{table} WHERE {where or 'TRUE'} AND random() < 0.5")
    insert(world, random, changed)
    world.end()


def insert(world: World, random: Random, changed: Ranges) -> None:
    for table in "abc":
        rows = [
            tuple(value(random, changed.get((table, name))) for name in NAMES)
            for _ in range(random.randint(1, 5))
        ]
        world._insert(f"now.{table}", rows)


def value(random: Random, ends: tuple[int, int] | None) -> int | None:
    return random.randint(*ends) if ends else random.choice([None, 0, 1, 2, 3, 4])


def bind(world: World, random: Random, plan: Node) -> None:
    for leaf in walk(plan):
        if isinstance(leaf, Parameter):
            columns = ", ".join(f'{random.randint(0, 4)} AS "{name}"' for name in leaf.names)
            nulls = ", ".join(f'NULL AS "{name}"' for name in leaf.names)
            world.db.execute(
                f"CREATE OR REPLACE TABLE main.{leaf.name} AS SELECT {columns} UNION SELECT {nulls}"
            )


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("__init__", "filtered")])
def test_the_examples_of_a_rule(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"anabranch.plan.rules.{name}"))
    assert found.attempted and not found.failed


def test_every_rule_has_fixtures() -> None:
    assert {path.stem for path in FIXTURES.glob("*.txt")} == RULES.keys()
    assert RULES.keys() == {name for name in FILES if name not in ("__init__", "filtered")}


def test_rules_are_applied_as_lists_only() -> None:
    """Outside of the optimizer nobody takes a rule; rules may build on each other."""
    package = Path(anabranch.__file__).parent
    taken = {
        (path.relative_to(package).as_posix(), alias.name)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        if (node.module or "").startswith("anabranch.plan.rules.")
        for alias in node.names
        if alias.name in RULES
    }
    outside = {(path, rule) for path, rule in taken if not path.startswith("plan/rules/")}
    assert outside == {("plan/optimize.py", rule) for rule in RULES}


def test_rules_that_go_by_statistics_say_so() -> None:
    told = {name for name, rule in RULES.items() if isinstance(rule, Measured)}
    assert told == {"push_ranges", "reduce_by_small_inputs", "reduce_scans", "share_scans"}

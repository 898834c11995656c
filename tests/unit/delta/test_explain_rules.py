"""`explain` with rules: the plans of a query and of its change, after each rule that changed them."""

from __future__ import annotations

from anabranch.delta.explain import explain_rules
from anabranch.delta.maintenance import maintenance
from anabranch.names import TableName
from anabranch.plan.nodes import Node
from anabranch.plan.statistics import NOTHING, Statistics, TableStatistics
from tests.oracle.kept import World

WORLD = World({"a": "id INT, k INT, v INT", "b": "id INT, k INT, w INT"})
QUERY = (
    "SELECT x.id, b.w FROM (SELECT id, k FROM a WHERE v > 1) x, b "
    "WHERE x.k = b.k AND x.id < 9 AND EXISTS (SELECT 1 FROM b y WHERE y.id = x.id)"
)
LARGE = Statistics({TableName.of(name): TableStatistics(1_000_000) for name in "ab"})


def told(statistics: Statistics = NOTHING) -> list[str]:
    lowered = WORLD.lower(QUERY, {})
    assert lowered.plan is not None and lowered.written is not None

    def given(plan: Node) -> Statistics:
        return statistics

    return explain_rules(lowered.written, maintenance(lowered.plan), given).splitlines()


def test_the_rules_of_the_query_stand_in_the_order_in_which_they_changed_it() -> None:
    lines = told()
    assert lines[:2] == ["rules of the query:", "  before:"]
    rules = [line.strip(" :") for line in lines[: lines.index("rules of the delta:")]]
    assert rules.index("filter_into_join") < rules.index("prune_columns")
    assert "flatten_joins" not in rules  # it changed nothing


def test_a_change_whose_tables_are_small_is_only_asked_for_its_keys() -> None:
    lines = told()
    delta = lines[lines.index("rules of the delta:") :]
    assert delta[1] == "  before:"
    rules = {line.strip(" :") for line in delta if line.startswith("  ") and line[2] != " "}
    assert rules == {"before", "push_keys"}


def test_operators_are_shown_as_they_are_when_their_change_is_derived() -> None:
    lines = told()
    start = lines.index("rules of operators, before their deltas:")
    shown = lines[start : lines.index("rules of the delta:")]
    assert shown[1] == "  filter_below_join:"
    assert any(line.strip() == "Filter v > 1 AND id < 9" for line in shown), shown


def test_the_rules_that_share_scans_are_shown_one_by_one() -> None:
    lines = told(LARGE)
    delta = lines[lines.index("rules of the delta:") :]
    rules = [line.strip(" :") for line in delta if line.startswith("  ") and line[2] != " "]
    assert rules == ["before", "push_keys", "reduce_scans", "filter_below_join", "share_scans"]


def test_a_change_is_shown_with_what_is_known_of_its_tables() -> None:
    lines = told(LARGE)
    assert "  share_scans:" in lines

"""Effective schedules of calculated tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.graph.effective import effective_schedules, least
from anabranch.graph.groups import consistency_groups
from anabranch.schedules import Schedule, ScheduleKind
from tests.unit.graph.random_graphs import Reads, drawn, graph, many

FALLBACK = Schedule.parse("1s")


def effective(text: str, pair: str = "", **said: str) -> dict[str, str]:
    """`A="2s"`; tables that say nothing are calculated."""
    reads = graph(text)
    schedules = {name: Schedule.parse(said.get(name, "calculated")) for name in reads}
    groups = consistency_groups(reads, {"pair": pair.split()})
    found = effective_schedules(reads, schedules, groups, FALLBACK)
    return {name: ", ".join(map(str, each)) for name, each in sorted(found.items())}


@pytest.mark.parametrize(
    ("text", "said", "found"),
    [
        pytest.param("s>A", {"A": "5s"}, {"A": "5s"}, id="its own"),
        pytest.param("s>A", {"A": "none"}, {"A": ""}, id="by hand"),
        pytest.param("s>A", {}, {"A": "1s"}, id="nobody asks: the fallback"),
        pytest.param(
            "s>A>B A>C", {"B": "10s", "C": "4s"}, {"A": "4s", "B": "10s", "C": "4s"}, id="smallest"
        ),
        pytest.param(
            "s>A>B>C", {"C": "9s"}, {"A": "9s", "B": "9s", "C": "9s"}, id="through others"
        ),
        pytest.param(
            "s>A>B>C",
            {"B": "1m", "C": "2s"},
            {"A": "1m", "B": "1m", "C": "2s"},
            id="a table with its own schedule asks for that",
        ),
        pytest.param(
            "s>A>B A>C",
            {"B": "10s"},
            {"A": "1s", "B": "10s", "C": "1s"},
            id="the fallback is asked",
        ),
        pytest.param(
            "s>A>B A>C",
            {"B": "none", "C": "8s"},
            {"A": "8s", "B": "", "C": "8s"},
            id="by hand asks nothing",
        ),
        pytest.param(
            "s>A>B", {"B": "none"}, {"A": "1s", "B": ""}, id="only readers by hand: the fallback"
        ),
        pytest.param(
            "s>A>B A>C A>D",
            {"B": "@hourly", "C": "5m", "D": "7m"},
            {"A": "5m, @hourly", "B": "@hourly", "C": "5m", "D": "7m"},
            id="every cron and the shortest interval",
        ),
        pytest.param(
            "a>B>D a>C>D", {"D": "3s"}, {"B": "3s", "C": "3s", "D": "3s"}, id="diamond by its tip"
        ),
        pytest.param(
            "a>B>D a>C>D",
            {"B": "5s", "C": "2s"},
            {"B": "5s", "C": "2s", "D": "2s"},
            id="a tip that nobody asks follows its group",
        ),
        pytest.param(
            "a>B>D a>C>D z>Z>D",
            {"B": "5s", "C": "2s"},
            {"B": "5s", "C": "2s", "D": "2s", "Z": "2s"},
            id="and its upstreams follow it",
        ),
        pytest.param(
            "s>A>B>C>A",
            {"A": "5s", "B": "3s"},
            {"A": "5s", "B": "3s", "C": "3s"},
            id="cycle: the smallest of its members",
        ),
        pytest.param(
            "s>A>B>A B>C",
            {"C": "6s"},
            {"A": "6s", "B": "6s", "C": "6s"},
            id="cycle: asked from below",
        ),
        pytest.param(
            "s>A>B>A B>C",
            {"A": "3s", "C": "9s"},
            {"A": "3s", "B": "3s", "C": "9s"},
            id="cycle: a member asks for more than its readers",
        ),
        pytest.param(
            "a>B>D a>C>D",
            {"C": "2s", "D": "9s"},
            {"B": "9s", "C": "2s", "D": "9s"},
            id="who reads it comes before its group",
        ),
    ],
)
def test_effective(text: str, said: dict[str, str], found: dict[str, str]) -> None:
    assert effective(text, **said) == found


def test_members_of_a_declared_group_follow_each_other() -> None:
    assert effective("s>A t>B", pair="A B", A="7s") == {"A": "7s", "B": "7s"}


def test_least() -> None:
    given = [Schedule.parse(text) for text in ("2s", "@daily", "1s", "0 * * * *", "1s", "@daily")]
    assert [str(each) for each in least(given)] == ["1s", "0 * * * *", "@daily"]
    assert least([]) == ()


@many
@given(drawn(cyclic=True), st.data())
def test_a_calculated_table_is_never_slower_than_who_reads_it(
    reads: Reads, data: st.DataObject
) -> None:
    texts = st.sampled_from(["calculated", "none", "2s", "5s", "9s"])
    schedules = {name: Schedule.parse(data.draw(texts)) for name in sorted(reads)}
    groups = consistency_groups(reads)
    found = effective_schedules(reads, schedules, groups, Schedule.parse("1m"))
    shortest = {
        name: min((each.seconds for each in said), default=99) for name, said in found.items()
    }
    together = {name: group.members for group in groups for name in group.members}
    for name, schedule in schedules.items():
        if schedule.kind is not ScheduleKind.CALCULATED:
            assert found[name] == (() if schedule.kind is ScheduleKind.BY_HAND else (schedule,))
            continue
        assert len(found[name]) == 1
        readers = [reader for reader in reads if name in reads[reader]]
        outside = [shortest[reader] for reader in readers if reader not in together[name]]
        assert shortest[name] <= min(outside, default=99)
        assert shortest[name] in {2, 5, 9, 60}

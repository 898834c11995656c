"""Who decides when a consistency group is due, and how it reads."""

from __future__ import annotations

import pytest

from anabranch.graph.groups import ConsistencyGroup, consistency_groups
from anabranch.graph.policies import (
    DiamondConsistency,
    Isolation,
    SchedulePolicy,
    group_isolation,
    group_policy,
    is_group_due,
)
from anabranch.settings import Settings
from tests.unit.graph.random_graphs import graph

FASTEST, SLOWEST = SchedulePolicy.FASTEST, SchedulePolicy.SLOWEST


def one(text: str, **declared: list[str]) -> ConsistencyGroup[str]:
    (group,) = consistency_groups(graph(text), declared)
    return group


DIAMOND = one("a>B>D a>C>D")
NESTED = one("a>B>D a>C>D D>E>G D>F>G")


def test_diamond_consistency_as_str() -> None:
    assert [each.value for each in DiamondConsistency] == ["none", "atomic"]


def test_diamond_consistency_from_sql_str() -> None:
    assert DiamondConsistency("atomic") is DiamondConsistency.ATOMIC
    assert DiamondConsistency("none") is DiamondConsistency.NONE
    with pytest.raises(ValueError):
        DiamondConsistency("sometimes")


def test_diamond_consistency_display() -> None:
    assert f"{DiamondConsistency.ATOMIC} {DiamondConsistency.NONE}" == "atomic none"


@pytest.mark.parametrize("each", [*DiamondConsistency, *SchedulePolicy, *Isolation], ids=str)
def test_diamond_consistency_roundtrip(
    each: DiamondConsistency | SchedulePolicy | Isolation,
) -> None:
    assert type(each)(str(each)) is each


def test_diamond_schedule_policy_from_str() -> None:
    assert SchedulePolicy("fastest") is FASTEST
    assert SchedulePolicy("slowest") is SLOWEST
    with pytest.raises(ValueError):
        SchedulePolicy("soon")


def test_diamond_schedule_policy_default() -> None:
    settings = Settings()
    assert SchedulePolicy(settings.diamond_schedule_policy) is FASTEST
    assert DiamondConsistency(settings.diamond_consistency) is DiamondConsistency.ATOMIC
    assert group_policy(DIAMOND, {}) is FASTEST


def test_diamond_schedule_policy_stricter() -> None:
    assert SLOWEST.stricter(FASTEST) is SLOWEST
    assert FASTEST.stricter(SLOWEST) is SLOWEST
    assert FASTEST.stricter(FASTEST) is FASTEST


def test_is_group_due_fastest_any_triggers() -> None:
    assert is_group_due(DIAMOND, FASTEST, {"B": False, "C": True, "D": False})
    assert not is_group_due(DIAMOND, FASTEST, dict.fromkeys("BCD", False))


def test_is_group_due_slowest_all_required() -> None:
    assert not is_group_due(DIAMOND, SLOWEST, {"B": True, "C": True, "D": False})
    assert is_group_due(DIAMOND, SLOWEST, dict.fromkeys("BCD", True))


def test_is_group_due_singleton_bypass() -> None:
    alone = one("a>B")
    for policy in SchedulePolicy:
        assert is_group_due(alone, policy, {"B": True})
        assert not is_group_due(alone, policy, {"B": False})


def test_members_without_a_schedule_are_not_waited_for() -> None:
    assert is_group_due(DIAMOND, SLOWEST, {"B": True, "D": True})
    for policy in SchedulePolicy:
        assert not is_group_due(DIAMOND, policy, {})


def test_a_cycle_is_due_when_one_member_is() -> None:
    group = one("s>A>B>A t>C", pair=["A", "C"])
    assert is_group_due(group, SLOWEST, {"A": False, "B": True, "C": True})
    assert not is_group_due(group, SLOWEST, {"A": False, "B": True, "C": False})
    assert is_group_due(one("s>A>B>A"), SLOWEST, {"A": False, "B": True})


def test_group_policy_convergence_node_overrides_guc() -> None:
    assert group_policy(DIAMOND, {"D": SLOWEST}, default=FASTEST) is SLOWEST
    assert group_policy(DIAMOND, {"D": FASTEST}, default=SLOWEST) is FASTEST
    assert group_policy(DIAMOND, {"D": None}, default=SLOWEST) is SLOWEST


def test_group_policy_of_intermediates_has_no_effect() -> None:
    assert group_policy(DIAMOND, {"B": SLOWEST, "C": SLOWEST, "D": FASTEST}) is FASTEST


def test_group_policy_nested_strictest_wins() -> None:
    assert group_policy(NESTED, {"D": SLOWEST, "G": FASTEST}) is SLOWEST
    assert group_policy(NESTED, {"D": FASTEST, "G": SLOWEST}) is SLOWEST
    assert group_policy(NESTED, {"D": FASTEST, "G": FASTEST}, default=SLOWEST) is FASTEST


def test_group_policy_none_mode_ignored() -> None:
    groups = consistency_groups(graph("a>B>D a>C>D"), opted_out={"D"})
    due = {"B": True, "C": False, "D": False}
    for group in groups:
        policy = group_policy(group, {"D": SLOWEST})
        assert is_group_due(group, policy, due) is due[group.id]


def test_declared_group_overrides_autodetect() -> None:
    isolation = {"pair": Isolation.REPEATABLE_READ, "loose": Isolation.READ_COMMITTED}
    assert group_isolation(DIAMOND, isolation) is Isolation.READ_COMMITTED
    declared = one("a>B>D a>C>D", pair=["B", "C"], loose=["C", "D"])
    assert group_isolation(declared, isolation) is Isolation.REPEATABLE_READ
    loose = one("a>B>D a>C>D", loose=["C", "D"])
    assert group_isolation(loose, isolation) is Isolation.READ_COMMITTED

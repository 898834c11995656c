"""What is said when a table closes a diamond."""

from __future__ import annotations

from dataclasses import replace

from anabranch.catalog import events
from anabranch.tables.refresh_groups import notices
from tests.unit.scheduler.looks import name, state

BEFORE = {"b": "a", "c": "a"}
AFTER = state({**BEFORE, "d": "b c"})


def test_a_diamond_is_said_of_its_convergence_point() -> None:
    made = {name("d"): AFTER.streams[name("d")]}
    (found,) = notices(state(BEFORE), made, AFTER.reads)
    assert (found.table, found.kind) == (name("d"), events.DIAMOND)
    assert "t.a reaches it through t.b and through t.c" in found.message


def test_tables_that_are_published_apart_close_none() -> None:
    made = {name("d"): AFTER.streams[name("d")]}
    apart = {name("d"): replace(made[name("d")], diamond_consistency="none")}
    assert notices(state(BEFORE), apart, AFTER.reads) == []
    branch = state(BEFORE, b={"diamond_consistency": "none"})
    assert notices(branch, made, AFTER.reads) == []

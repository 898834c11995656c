"""A plan of ours fails, or the data does: the query as it was written tells which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.errors import DataError, NotIncremental, PlanFailed
from anabranch.refresh import component, definition
from anabranch.refresh.execute import table
from tests.e2e.graphs import overdue, status
from tests.standin.engine import connect, installed

QUERY = "SELECT k, CAST(v AS BIGINT) AS v FROM s.t"
MODES = ("AUTO", "DIFFERENTIAL")


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v STRING)")
        opened.sql("INSERT INTO s.t VALUES (1, '1')")
        for mode in MODES:
            opened.create_stream_table(f"s.{mode.lower()}", QUERY, refresh_mode=mode, schedule="1h")
        yield opened


def fails_on_rows(*_: Any, **__: Any) -> Any:
    """As a job does that meets a value which a function cannot take."""
    raise DataError("Illegal input for day")


def our_plan_fails(patch: pytest.MonkeyPatch) -> None:
    real = table.full_job

    def full_job(*given: Any, **named: Any) -> Any:
        if given[3].kept is not None:
            fails_on_rows()
        return real(*given, **named)

    patch.setattr(table, "full_job", full_job)


def test_what_breaks_the_plan_of_the_changes_alone_is_our_fault(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, '2')")  # rows only came
    with monkeypatch.context() as patch:
        patch.setattr(table, "incremental_job", fails_on_rows)
        ab.refresh("s.auto")
        with pytest.raises(PlanFailed, match=r"s.differential: .*Illegal input for day"):
            ab.refresh("s.differential")
    line = ab.history("s.auto")[0]
    assert (line["action"], line["status"]) == ("FULL", "COMPLETED")
    assert line["reason"] == "the changes cannot be computed: Illegal input for day"
    assert ab.events("s.auto")[0]["kind"] == "FALLBACK"
    assert sorted(ab.table("s.auto").collect()) == [(1, 1), (2, 2)]
    assert ab.table("s.differential").collect() == [(1, 1)]


def test_what_breaks_our_plan_of_the_whole_query_is_our_fault(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    our_plan_fails(monkeypatch)
    ab.create_stream_table("s.first", QUERY, schedule=None)
    assert "our plan of it failed: Illegal input" in ab.history("s.first")[0]["reason"]
    assert ab.events("s.first")[0]["kind"] == "FALLBACK"
    assert ab.table("s.first").collect() == [(1, 1)]
    with pytest.raises(PlanFailed):
        ab.create_stream_table("s.strict", QUERY, refresh_mode="DIFFERENTIAL", schedule=None)
    ab.refresh("s.differential", full=True)  # whoever asks gets the rows


@pytest.mark.parametrize("broken", ["nothing", "changes", "all"])
def test_what_breaks_the_query_is_the_data(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Whatever our plans do."""
    if broken != "nothing":
        monkeypatch.setattr(table, "incremental_job", fails_on_rows)
    if broken == "all":
        our_plan_fails(monkeypatch)
    for statement in ("INSERT INTO s.t VALUES (2, 'two')", "DELETE FROM s.t WHERE k = 1"):
        ab.sql(statement)
        for mode in MODES:
            with pytest.raises(DataError, match="two"):
                ab.refresh(f"s.{mode.lower()}")
            assert ab.events(f"s.{mode.lower()}") == []
    assert status(ab, "s.auto")["next_retry_at"] is not None  # somebody may mend the rows
    ab.sql("DELETE FROM s.t WHERE k = 2")
    if broken == "nothing":
        ab.refresh()
        assert ab.table("s.differential").collect() == []


def test_a_query_that_breaks_our_planning_is_recomputed(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lower(*_: Any, **__: Any) -> Any:
        raise KeyError("_ab_v4")

    monkeypatch.setattr(definition, "lower", lower)
    definition._cache.clear()
    ab.create_stream_table("s.new", QUERY, schedule=None)
    ab.sql("INSERT INTO s.t VALUES (2, '2')")
    ab.refresh("s.new")
    assert sorted(ab.table("s.new").collect()) == [(1, 1), (2, 2)]
    assert "NOT_PLANNED" in str(ab.explain("s.new"))
    with pytest.raises(NotIncremental, match="NOT_PLANNED.*fault of Anabranch"):
        ab.create_stream_table("s.strict", QUERY, refresh_mode="DIFFERENTIAL", schedule=None)


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_in_planning_is_neither_retried_nor_suspended(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """DIFFERENTIAL needs the changes; AUTO fails where recomputing fails as well."""
    name = f"s.{mode.lower()}"

    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("key not found: _ab_v4")

    ab.set("max_consecutive_errors", 2)
    ab.sql("INSERT INTO s.t VALUES (2, '2')")
    with monkeypatch.context() as patch:
        patch.setattr(component, "gather", broken)
        if mode == "AUTO":
            patch.setattr(component, "only_now", broken)
        for _ in range(4):
            overdue(ab, name)
            ab.tick()
    told = status(ab, name)
    assert (told["status"], told["consecutive_errors"]) == ("ERROR", 1)
    assert told["next_retry_at"] is None and "fault of Anabranch" in told["last_error"]
    monkeypatch.setattr(component, "gather", broken)
    ab.refresh(name, full=True)  # which does not ask what changed
    assert sorted(ab.table(name).collect()) == [(1, 1), (2, 2)]

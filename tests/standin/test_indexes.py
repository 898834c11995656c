"""An index is kept by the same steps as a stream table: decided, staged, published, written down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog.indexes import all_indexes
from anabranch.errors import DataError
from anabranch.lake.indexes import is_current
from anabranch.refresh import decide
from anabranch.refresh.execute import table as jobs
from tests.e2e.graphs import status
from tests.standin.engine import connect, installed

COPY = "s.d__by_v"


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10), (2, 20)")
        opened.create_stream_table(
            "s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k", schedule="1h"
        )
        opened.sql("CREATE INDEX by_v ON s.d (v)")
        yield opened


def in_step(ab: Anabranch) -> bool:
    """The index holds the rows of its table at the newest cut."""
    tx = ab._runtime.begin(ab._runtime.world())
    with ab._store.reading() as c:
        found = [index for each in all_indexes(c).values() for index in each]
    try:
        return bool(found) and all(is_current(tx.stage, each) for each in found)
    finally:
        tx.abandon()


def last(ab: Anabranch) -> tuple[str, str, str]:
    line = ab.history(COPY)[0]
    return line["action"], line["reason_code"], line["reason"]


def failing(monkeypatch: pytest.MonkeyPatch, job: str, name: str, error: Exception) -> list[str]:
    """From here on a job fails for one table; the tables whose job is tried."""
    real, tried = getattr(jobs, job), list[str]()

    def job_of(runtime: Any, tx: Any, table: Any, *rest: Any, **more: Any) -> Any:
        tried.append(str(table.name))
        if str(table.name) == name:
            raise error
        return real(runtime, tx, table, *rest, **more)

    monkeypatch.setattr(jobs, job, job_of)
    return tried


def test_history_says_how_an_index_was_kept(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ab.history(COPY) == [], "a statement is no refresh"
    ab.sql("INSERT INTO s.t VALUES (3, 30)")
    asked = ab.refresh()
    assert [line["table"] for line in asked] == ["s.d"], "nobody asked for the index"
    assert last(ab) == ("FULL", "SORTED_AGAIN", "3 rows are few enough to sort again")
    monkeypatch.setattr(decide, "SORTED_ROWS", 0)
    ab.sql("INSERT INTO s.t VALUES (4, 40)")
    ab.refresh()
    share = "1 changed rows are 25% of the table"
    assert last(ab) == ("FULL", "SORTED_AGAIN", share)
    ab.sql(
        "INSERT INTO s.t SELECT k + 100, 1 FROM s.t; INSERT INTO s.t SELECT k + 1000, 1 FROM s.t"
    )
    ab.refresh()
    ab.sql("INSERT INTO s.t VALUES (5, 50)")
    ab.refresh()
    assert last(ab) == ("DIFFERENTIAL", "CHANGED_ROWS", "1 changed rows")
    line, own = ab.history(COPY)[0], ab.history("s.d")[0]
    assert (line["rows_inserted"], line["rows_deleted"], line["delta_rows"]) == (1, 0, 1)
    assert line["cut_id"] == own["cut_id"] == ab.cuts()[0]["cut_id"]
    assert line["initiated_by"] == own["initiated_by"]
    assert line["predicted_ms"] is None, "nothing is learned of indexes"
    before = len(ab.history(COPY))
    ab.refresh()
    assert len(ab.history(COPY)) == before
    assert in_step(ab)


def test_explain_says_how_an_index_stands(ab: Anabranch) -> None:
    assert "index by_v (v): up to date" in ab.explain("s.d")
    runtime = ab._runtime

    def left_behind(tx: Any) -> None:
        tx.keep_index = None
        tx.stage.drop(tx.world.resolve(index.copy))

    with ab._store.reading() as c:
        ((index,),) = all_indexes(c).values()
    runtime.write("drop", left_behind)
    told = "index by_v (v): out of date, not read; next refresh: FULL, first refresh"
    assert told in ab.explain("s.d")
    ab.maintain()
    assert in_step(ab)


def test_what_fails_from_changes_is_sorted_again(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql(
        "INSERT INTO s.t SELECT k + 100, 1 FROM s.t; INSERT INTO s.t SELECT k + 1000, 1 FROM s.t"
    )
    ab.refresh()
    monkeypatch.setattr(decide, "SORTED_ROWS", 0)
    tried = failing(monkeypatch, "incremental_job", COPY, KeyError("_ab_v4"))
    ab.sql("INSERT INTO s.t VALUES (3, 30)")
    ab.refresh()
    assert tried == ["s.d", COPY]
    assert last(ab)[:2] == ("FULL", "PLAN_FAILED")
    assert ab.events(COPY)[0]["kind"] == "FALLBACK"
    assert in_step(ab)


def test_an_index_that_fails_keeps_its_table_back(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = ab.cuts()[0]["cut_id"]
    ab.sql("INSERT INTO s.t VALUES (3, 30)")
    with monkeypatch.context() as patch:
        failing(patch, "full_job", COPY, DataError("the disk is full"))
        with pytest.raises(DataError, match=r"s\.d__by_v: the disk is full"):
            ab.refresh()
    assert ab.cuts()[0]["cut_id"] == cut + 1, "only the insert"
    assert "the disk is full" in str(ab.history("s.d")[0]["error"])
    assert in_step(ab)
    ab.refresh()
    assert status(ab, "s.d")["status"] == "ACTIVE"
    assert in_step(ab)


def test_indexes_are_staged_beside_the_tables_that_come_after(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one after the other before the publish, when everything else is done."""
    ab.create_stream_table("s.e", "SELECT MAX(v) AS v FROM s.d", schedule="1h")
    ab.set("parallelism", 2)
    sorting, together = threading.Event(), list[bool]()

    def job_of(real: Callable[..., Any]) -> Callable[..., Any]:
        def job(runtime: Any, tx: Any, table: Any, *rest: Any, **more: Any) -> Any:
            if str(table.name) == COPY:
                sorting.set()
            if str(table.name) == "s.e":
                together.append(sorting.wait(timeout=10))
            return real(runtime, tx, table, *rest, **more)

        return job

    ab.sql("INSERT INTO s.t VALUES (3, 30)")
    for name in ("full_job", "incremental_job"):
        monkeypatch.setattr(jobs, name, job_of(getattr(jobs, name)))
    ab.refresh()
    assert together == [True]
    assert in_step(ab)

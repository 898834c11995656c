"""Rows that were produced and are not in the files are missed before anything is published."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch import Anabranch
from anabranch.errors import RowsLost
from anabranch.refresh.execute.fixpoint import CycleWork
from tests.standin import files
from tests.standin.engine import connect, installed
from tests.standin.refreshes import cycle_follow
from tests.standin.session import Frame, table_of

CYCLE = {"s.a": "SELECT k FROM s.t UNION SELECT k FROM s.b", "s.b": "SELECT k FROM s.a"}


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home", allow_circular=True) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1), (2)")
        opened.create_stream_table("s.d", "SELECT k FROM s.t", schedule=None)
        opened.create_stream_tables(CYCLE, schedule=None)
        opened.sql("INSERT INTO s.t VALUES (3)")
        yield opened


@pytest.fixture
def torn(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """From now on every file lacks its last row, as if a task had written it to another disk."""
    write_table = files.pq.write_table

    def losing(table: pa.Table, *given: Any, **named: Any) -> None:
        write_table(table.slice(0, table.num_rows - 1), *given, **named)

    monkeypatch.setattr(files.pq, "write_table", losing)
    return monkeypatch


def a_round(self: CycleWork, *, careful: bool) -> Any:
    """One round that is written as Spark's rounds are, whose rows are counted as they are kept."""
    with self.backend() as backend:
        rows = next(iter(backend.rows.values()))
        produced = Frame(self.runtime.spark.session, table_of([(3,)], rows.columns))
        backend.kept(rows, rows.added, backend.written(rows, produced, 1))
    return cycle_follow(self, careful=careful)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("INSERT INTO s.t VALUES (4), (5)", {"s.t"}),
        ("REFRESH STREAM TABLE s.d", {"s.d"}),
        ("REFRESH STREAM TABLE s.d FULL", {"s.d"}),
        ("REFRESH STREAM TABLE s.a", set(CYCLE)),
    ],
)
def test_nothing_is_published(
    ab: Anabranch, torn: pytest.MonkeyPatch, statement: str, names: set[str]
) -> None:
    refused(ab, torn, statement, names)


def test_a_round_of_a_cycle_is_counted_when_it_is_written(
    ab: Anabranch, torn: pytest.MonkeyPatch
) -> None:
    with torn.context() as patch:
        patch.setattr(CycleWork, "follow", a_round)
        patch.setattr(CycleWork, "stage", lambda self, decision: pytest.fail("got past the round"))
        refused(ab, torn, "REFRESH STREAM TABLE s.a", set(CYCLE))


def refused(ab: Anabranch, torn: pytest.MonkeyPatch, statement: str, names: set[str]) -> None:
    cuts = ab.cuts()
    with pytest.raises(RowsLost, match="but the files to be committed hold"):
        ab.sql(statement)
    assert ab.cuts() == cuts
    lost = [each["table"] for each in ab.events() if each["kind"] == "ROWS_LOST"]
    assert lost and {*lost} <= names
    torn.undo()
    assert sorted(ab.table("s.t").collect()) == [(1,), (2,), (3,)]
    for name in ("s.d", *CYCLE):
        assert sorted(ab.table(name).collect()) == [(1,), (2,)], name

"""A publish compares everything it was computed from: definitions, views, groups and what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch.api import Anabranch
from anabranch.catalog import streams
from anabranch.catalog.leases import Lease
from anabranch.catalog.read_set import ReadSet
from anabranch.errors import Refused
from anabranch.leases import Leases
from anabranch.names import TableName
from anabranch.refresh import staging
from anabranch.tables import stream_tables as declare
from tests.standin.editions import other_plans
from tests.standin.engine import connect, installed

OLD = "SELECT k FROM s.t WHERE v > 100"
NEW = "SELECT k FROM s.t WHERE v < 100"
D = TableName.parse("s.d")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        yield tmp_path / "home"


@pytest.fixture(autouse=True)
def without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases keep others out, and definitions must do without: all leases have ended."""

    @contextmanager
    def hold(
        self: Leases, names: Any, seconds: float, *, wait: bool, begin: Any = None
    ) -> Iterator[Lease]:
        yield Lease("nobody's", ())

    monkeypatch.setattr(Leases, "hold", hold)


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with connect(home) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        yield opened


def between(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], table: TableName = D
) -> list[object]:
    """Once, after a refresh of the table was computed and before it is published."""
    real, done = staging.refresh_component, []

    def refresh_component(*given: Any, **options: Any) -> Any:
        outcomes = real(*given, **options)
        if not done and outcomes[0].table == table:
            done.append(outcomes[0])
            act()
        return outcomes

    monkeypatch.setattr(staging, "refresh_component", refresh_component)
    return done


def rows(ab: Anabranch, name: str = "s.d") -> list[tuple[Any, ...]]:
    return sorted(ab.table(name).collect())


@pytest.mark.parametrize("filled", [False, True], ids=["unfilled", "empty"])
@pytest.mark.parametrize("verb", ["refresh", "tick"])
def test_an_alter_between_is_not_lost(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch, filled: bool, verb: str
) -> None:
    """Neither moves a pointer, if the table has no rows: only the token tells."""
    ab.create_stream_table("s.d", OLD, initialize=filled)
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    with connect(home) as other:
        said = between(monkeypatch, lambda: other.alter_stream_table("s.d", query=NEW))
        getattr(ab, verb)()
    assert said, "nothing came between"
    ab.tick()
    assert rows(ab) == [(1,)]
    assert ab.verify("s.d")["equal"]


@pytest.mark.parametrize("altered", ["s.u", "s.d"], ids=["what it reads", "itself"])
def test_a_table_filled_during_an_alter_gets_the_new_rows(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch, altered: str
) -> None:
    """That a table has no rows yet is compared as well: no pointer tells, for none is moved."""
    ab.create_stream_table("s.u", "SELECT k, v FROM s.t WHERE v < 100")
    ab.create_stream_table("s.d", "SELECT k, v FROM s.u WHERE v < 100", initialize=False)
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    ab.refresh("s.u")
    real, done = declare.requery, []

    def requery(*given: Any, **named: Any) -> Any:
        names = real(*given, **named)
        if not done:
            done.append(other.refresh("s.d"))
        return names

    monkeypatch.setattr(declare, "requery", requery)
    with connect(home) as other:
        source = "s.t" if altered == "s.u" else "s.u"
        ab.alter_stream_table(altered, query=f"SELECT k, v + 1 AS v FROM {source}")
    assert done and rows(ab) == [(1, 11)]
    assert ab.verify("s.d")["equal"] and ab.verify("s.u")["equal"]


def test_rows_of_another_definition_are_stale(ab: Anabranch) -> None:
    """However they came to be: a refresh makes them right, as the hint of verify says."""
    ab.create_stream_table("s.d", OLD)
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    ab.refresh()
    with ab._store.writing() as c:
        streams.change(c, D, query=NEW)
    with pytest.raises(Refused, match="REFRESH STREAM TABLE"):
        ab.verify("s.d")
    (line,) = ab.refresh("s.d")
    assert line["action"] == "REINITIALIZE" and rows(ab) == [(1,)]
    assert ab.verify("s.d")["equal"]


def test_another_format_of_fingerprints_is_noticed(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.create_stream_table("s.d", NEW)
    assert ab.refresh()[0]["action"] == "NO_DATA"
    other_plans(monkeypatch, "9.9", "2")
    with pytest.raises(Refused, match="REFRESH STREAM TABLE"):
        ab.verify("s.d")
    assert ab.refresh()[0]["action"] == "REINITIALIZE"
    assert ab.verify("s.d")["equal"]
    assert ab.refresh()[0]["action"] == "NO_DATA"


def test_catalogs_without_tokens_are_looked_at_once(ab: Anabranch) -> None:
    ab.create_stream_table("s.d", NEW)
    with ab._store.writing() as c:
        streams.change(c, D, definition=None, computed_from=None)
    reason = ab.refresh()[0]
    assert reason["action"] == "NO_DATA"
    with ab._store.reading() as c:
        found = streams.get(c, D)
    assert found is not None and found.computed_from == streams.computed_from(
        None, found.fingerprint
    )


def test_an_upstream_redefined_between_is_noticed(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.create_stream_table("s.u", OLD)
    ab.create_stream_table("s.d", "SELECT k FROM s.u", initialize=False)
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    ab.refresh("s.u")
    with connect(home) as other:
        said = between(monkeypatch, lambda: other.alter_stream_table("s.u", query=NEW))
        ab.refresh("s.d")
    assert said and rows(ab) == [(1,)] and ab.verify("s.d")["equal"]


def test_who_belongs_together_is_compared(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one arm is refreshed alone, somebody joins it with another: no cut shows them torn."""
    for arm in ("b", "d"):
        ab.create_stream_table(f"s.{arm}", "SELECT k, v FROM s.t")
    ab.sql("INSERT INTO s.t VALUES (1, 10)")
    joined = "SELECT b.k, b.v AS bv, d.v AS dv FROM s.b JOIN s.d ON b.k = d.k"

    def close() -> None:
        with ab._store.writing() as c:  # as a process does that holds no lease of the arm
            streams.add(c, [streams.StreamTable(TableName.parse("s.j"), joined, "")])
            streams.set_dependencies(c, {TableName.parse("s.j"): [D, TableName.parse("s.b")]})

    said = between(monkeypatch, close)
    before = ab.cuts()[0]["cut_id"]
    ab.tick()
    assert said
    for cut in ab.cuts():
        if cut["cut_id"] > before:
            assert "s.d" not in cut["tables"] or "s.b" in cut["tables"]


@pytest.mark.parametrize("part", ["definitions", "views"])
def test_looks_that_disagree_do_not_mix(part: str) -> None:
    used = ReadSet(**{part: {D: "one"}})
    used.add(ReadSet(**{part: {D: "one"}}))
    with pytest.raises(Exception, match="by another process"):
        used.add(ReadSet(**{part: {D: "two"}}))

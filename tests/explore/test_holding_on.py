"""Everyone who writes a stream table holds its lease; nobody waits for ever, and nobody for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from anabranch.api import Anabranch
from anabranch.catalog import leases, tables
from anabranch.catalog.leases import Lease, Waiting
from anabranch.leases import Leases
from anabranch.names import TableName
from anabranch.refresh import staging
from tests.standin.engine import connect, installed

D = TableName.parse("s.d")
JOIN = "SELECT d.k, d.v AS dv, e.v AS ev FROM s.d JOIN s.e USING (k)"
NEW = "SELECT k, v + 1 AS v FROM s.t"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed():
        yield tmp_path / "home"


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with connect(home) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10)")
        opened.create_stream_table("s.d", "SELECT k, v FROM s.t")
        opened.create_stream_table("s.e", "SELECT k, v FROM s.t")
        opened.create_stream_table(
            "s.j", "SELECT d.k, d.v AS dv, e.v AS ev FROM s.d JOIN s.e USING (k)"
        )
        yield opened


def rows(ab: Anabranch, name: str) -> list[tuple[Any, ...]]:
    return sorted(ab.table(name).collect())


@contextmanager
def somebody_holds(ab: Anabranch, name: TableName = D) -> Iterator[Lease]:
    with ab._store.writing() as c:
        held = leases.take(c, [name], 60)
    assert isinstance(held, Lease)
    yield held
    with ab._store.writing() as c:
        leases.give_back(c, held)


WRITERS: dict[str, Callable[[Anabranch], object]] = {
    "alter": lambda ab: ab.alter_stream_table("s.d", query=NEW),
    "options": lambda ab: ab.alter_stream_table("s.d", schedule="5s"),
    "replace": lambda ab: ab.sql(f"CREATE OR REPLACE STREAM TABLE s.d AS {NEW}"),
    "drop": lambda ab: ab.drop_stream_table("s.d", cascade=True),
    "create": lambda ab: ab.create_stream_table("s.x", "SELECT d.k FROM s.d JOIN s.e USING (k)"),
    "refresh": lambda ab: ab.refresh("s.d"),
}


@pytest.mark.parametrize("verb", WRITERS)
def test_who_writes_waits_for_the_lease(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    before, asked = ab.cuts()[0]["cut_id"], threading.Event()
    real = leases.queue

    def queue(*given: Any) -> None:
        real(*given)
        asked.set()

    monkeypatch.setattr(leases, "queue", queue)
    with connect(home) as other, somebody_holds(ab):
        thread = threading.Thread(target=WRITERS[verb], args=(other,))
        thread.start()
        assert asked.wait(60), "it did not ask for the lease"
        assert ab.cuts()[0]["cut_id"] == before
        with ab._store.writing() as c:
            c.execute(tables.leases.delete())
        thread.join(60)
    assert not thread.is_alive()
    with ab._store.reading() as c:
        assert not c.execute(tables.waiters.select()).all()


def test_maintain_leaves_alone_what_somebody_writes(ab: Anabranch) -> None:
    ab.set("snapshot_retention", "0s")
    for key in range(2, 5):
        ab.sql(f"INSERT INTO s.t VALUES ({key}, 1)")
        ab.refresh()
    pointers = ab._runtime.lake.pointers()
    with somebody_holds(ab):
        ab.maintain()
        now = ab._runtime.lake.pointers()
        assert now[D] == pointers[D], "it is being written"
        assert now[TableName.parse("s.e")] != pointers[TableName.parse("s.e")]
    ab.maintain()
    assert ab._runtime.lake.pointers()[D] != pointers[D]


def test_a_scheduler_lets_those_who_wait_go_first(ab: Anabranch) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    with ab._store.writing() as c:
        waiting = Waiting.begin(c)
        leases.queue(c, [D], waiting, 60)
    (group,) = ab.tick()
    assert group["outcome"] == "SKIPPED"
    with ab._store.writing() as c:
        c.execute(update(tables.waiters).values(expires_at=tables.now()))
    (group,) = ab.tick()
    assert group["outcome"] == "PUBLISHED", "who fell silent holds nobody up"


def test_those_who_wait_get_their_turn(ab: Anabranch) -> None:
    with ab._store.writing() as c:
        first, second = Waiting.begin(c), Waiting.begin(c)
        held = leases.take(c, [D], 60)
        assert isinstance(held, Lease)
        assert leases.take(c, [D], 60, first) == D == leases.take(c, [D], 60, second)
        leases.give_back(c, held)
        assert leases.take(c, [D], 60) == D, "a newcomer"
        assert leases.take(c, [D], 60, second) == D
        assert isinstance(leases.take(c, [D], 60, first), Lease)


def test_who_gives_up_waiting_leaves_the_queue(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("anabranch.leases.time", SimpleNamespace(sleep=interrupt))
    waits = Leases(ab._store).hold([D], 60, wait=True)
    with somebody_holds(ab), pytest.raises(KeyboardInterrupt), waits:
        pass
    with ab._store.reading() as c:
        assert not c.execute(tables.waiters.select()).all()


def test_a_busy_scheduler_does_not_starve_an_alter(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the new rows were computed, the scheduler has published others: they are kept."""
    real, computed = staging.refresh_component, []
    with connect(home) as scheduler:

        def refresh_component(
            runtime: Any, tx: Any, seen: Any, part: Any, *rest: Any, **how: Any
        ) -> Any:
            outcomes = real(runtime, tx, seen, part, *rest, **how)
            if part.members == (D,) and seen.streams[D].query == NEW:
                computed.extend(outcomes)
                if len(computed) < 10:
                    scheduler.sql(f"INSERT INTO s.t VALUES ({len(computed) + 1}, 0)")
                    scheduler.tick()
            return outcomes

        monkeypatch.setattr(staging, "refresh_component", refresh_component)
        ab.alter_stream_table("s.d", query=NEW)
    assert [each.action.value for each in computed] == ["REINITIALIZE", "DIFFERENTIAL"]
    assert rows(ab, "s.d")[:2] == [(1, 11), (2, 1)], "and what came meanwhile is in it"
    (line, *_) = ab.history("s.d")
    assert (line["action"], line["initiated_by"]) == ("REINITIALIZE", "alter")
    ab.tick()
    for name in ("s.d", "s.e", "s.j"):
        assert ab.verify(name)["equal"]
    assert {(dv - 1, ev) for _, dv, ev in rows(ab, "s.j")} == {(v, v) for _, v in rows(ab, "s.e")}


def test_a_long_backfill_stops_nobody(
    ab: Anabranch, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the rows are computed, the group around the table is refreshed, itself included."""
    real, ticked = staging.refresh_component, []
    with connect(home) as scheduler:

        def refresh_component(
            runtime: Any, tx: Any, seen: Any, part: Any, *rest: Any, **how: Any
        ) -> Any:
            if seen.streams[part.members[0]].query == NEW and not ticked:
                ticked.append(None)
                scheduler.sql("INSERT INTO s.t VALUES (2, 20)")
                ticked[:] = [each["outcome"] for each in scheduler.tick()]
            return real(runtime, tx, seen, part, *rest, **how)

        monkeypatch.setattr(staging, "refresh_component", refresh_component)
        ab.alter_stream_table("s.d", query=NEW)
    assert ticked == ["PUBLISHED"]
    assert rows(ab, "s.d") == [(1, 11), (2, 21)]
    assert rows(ab, "s.j") == [(1, 11, 10), (2, 21, 20)]

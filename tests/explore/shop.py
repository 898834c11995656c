"""A small shop for actors: a diamond in production and rows not yet seen.

Where actors ask for it, a new version is staged or was promoted, or one of each, or one more table was
never filled.
The home is made once and put back before every run; the files of tables never change, so they are
linked; what else lies there is copied.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.util import LRUCache

import anabranch
from anabranch import cache
from anabranch.api import Anabranch
from anabranch.catalog import leases, streams, tables
from anabranch.errors import Refused, UserError
from anabranch.names import TableName
from anabranch.refresh.observe import observe_now
from tests.explore.accesses import unseen
from tests.explore.interleave import Actor
from tests.standin import foreign
from tests.standin.engine import Session

FILES = {
    "anabranch.toml": 'name = "shop"',
    "models/db/raw/s.sql": "CREATE TABLE s (k BIGINT, v BIGINT)",
    "models/db/m/b.sql": "CREATE STREAM TABLE b AS SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
    "models/db/m/c.sql": "CREATE STREAM TABLE c AS SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
}
NEW_B = "CREATE STREAM TABLE b AS SELECT k, 2 * SUM(v) AS v FROM raw.s GROUP BY k"
NEWER_B = "CREATE STREAM TABLE b AS SELECT k, 4 * SUM(v) AS v FROM raw.s GROUP BY k"
ALTERED = "SELECT k, 3 * SUM(v) AS v FROM db.raw.s GROUP BY k"
JOINED = "SELECT b.k, b.v AS bv, c.v AS cv FROM db.m.b AS b JOIN db.m.c AS c ON b.k = c.k"
REDEFINED = "SELECT k FROM db.raw.s WHERE k > 1"
B, C, D, E = (TableName.parse(name) for name in ("db.m.b", "db.m.c", "db.x.d", "db.x.e"))
OURS = {B, C, D, E}
SETTINGS: dict[str, Any] = {"parallelism": 1, "lease_time": "1h", "snapshot_retention": "0s"}


class Shop:
    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.home, self.session = folder, folder / "home", Session()
        self.statements: LRUCache[Any, Any] = LRUCache(1000)
        with self.open() as ab:
            for name, text in FILES.items():
                self._write(name, text)
            ab.promote(self._stage(ab))
            ab.create_stream_table("db.x.d", JOINED)  # a reader outside of the project
            if kind == "unfilled":
                ab.create_stream_table("db.x.e", "SELECT k FROM db.raw.s", initialize=False)
            ab.sql("INSERT INTO db.raw.s VALUES (1, 5)")
            ab.refresh("db.x.d")
            ab.maintain()  # few cuts: all of them are read after each run
            if kind in ("promoted", "promoted and staged"):
                self._write("models/db/m/b.sql", NEW_B)
                self.promoted = self._stage(ab)
                ab.promote(self.promoted)
            if kind in ("staged", "promoted and staged"):
                self._write("models/db/m/b.sql", NEWER_B)
                self.staged = self._stage(ab)
            ab.sql("INSERT INTO db.raw.s VALUES (1, 2), (2, 7)")
        self._copy(self.home, folder / "template")

    def _write(self, name: str, text: str) -> None:
        place = self.folder / "shop" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def _stage(self, ab: Anabranch) -> str:
        made = ab.stage(str(self.folder / "shop"))
        assert made is not None
        return made

    def open(self) -> Anabranch:
        ab = anabranch.connect(self.home, spark=self.session, **SETTINGS)  # type: ignore[arg-type]
        ab._store.engine._compiled_cache = self.statements  # a tenth of a run went into compiling
        with unseen():  # opening is no place to switch: actors of one process share its locks
            _ = ab._runtime
        return ab

    def restore(self) -> None:
        """As it was, and nothing is known of the last run: what comes out of a cache is no event."""
        cache.clear()
        shutil.rmtree(self.home)
        self._copy(self.folder / "template", self.home)

    def _copy(self, source: Path, target: Path) -> None:
        def place(found: str, wanted: str) -> None:
            never_changes = found.endswith((".parquet", ".avro", ".metadata.json"))
            os.link(found, wanted) if never_changes else shutil.copyfile(found, wanted)

        shutil.copytree(source, target, copy_function=place)


# -- what actors do ------------------------------------------------------------------------------

Act = Callable[[Shop, Anabranch], object]


def take_over(shop: Shop, ab: Anabranch) -> None:
    """All leases end, as of processes that fell silent on other machines; then somebody refreshes."""
    with ab._store.writing() as c:
        c.execute(update(tables.leases).values(host="elsewhere", expires_at=tables.now()))
    ab.refresh()


def steal(shop: Shop, ab: Anabranch) -> None:
    """Somebody takes all leases over, and gives them back without having published."""
    with ab._store.writing() as c:
        c.execute(update(tables.leases).values(host="elsewhere", expires_at=tables.now()))
        held = map(TableName.parse, c.execute(select(tables.leases.c.table_name)).scalars())
        taken = leases.take(c, {*OURS, *held}, 60)
    assert isinstance(taken, leases.Lease)
    with ab._store.writing() as c:
        leases.give_back(c, taken)


def churn(shop: Shop, ab: Anabranch) -> None:
    """Everything that the newest cut shows is replaced, and what is old is removed."""
    ab.sql("UPDATE db.raw.s SET v = v + 1")
    ab.refresh("db.x.d")
    ab.maintain()


def read(shop: Shop, ab: Anabranch) -> None:
    """One cut, read table by table."""
    with ab.at() as world:
        first = [sorted(world.table(str(name)).collect()) for name in (B, C, D)]
        with ab._store.reading():  # others may come between
            pass
        again = [sorted(world.table(str(name)).collect()) for name in (B, C, D)]
    assert first == again, "a held cut moved"
    check_joined(*first)


ACTS: Mapping[str, Act] = {
    "refresh": lambda shop, ab: ab.refresh(),
    "tick": lambda shop, ab: ab.tick(),
    "alter": lambda shop, ab: ab.alter_stream_table(str(B), query=ALTERED),
    "drop": lambda shop, ab: ab.drop_stream_table(str(D)),
    "promote": lambda shop, ab: ab.promote(shop.staged),
    "rollback": lambda shop, ab: ab.rollback(shop.promoted),
    "maintain": lambda shop, ab: ab.maintain(),
    "foreign": lambda shop, ab: foreign.append(ab, "db.raw.s", (3, 1)),
    "expiry": take_over,
    "read": read,
}
# An ALTER that moves no pointer, because the table has no rows yet; a busy time; lost leases.
MORE: Mapping[str, Act] = {
    "redefine": lambda shop, ab: ab.alter_stream_table(str(E), query=REDEFINED),
    "churn": churn,
    "steal": steal,
    "abort": lambda shop, ab: ab.abort(shop.staged),
    "suspend": lambda shop, ab: ab.suspend(str(B)),
    "resume": lambda shop, ab: (ab.suspend(str(B)), ab.resume(str(B))),
}
ALLOWED = (UserError, Refused)  # a table that was dropped, a deployment that came too late


def kind_of(acts: Collection[str]) -> str:
    """The shop that these acts are about."""
    if {"promote", "rollback"} <= {*acts}:
        return "promoted and staged"
    needed = {
        "rollback": "promoted",
        "promote": "staged",
        "abort": "staged",
        "redefine": "unfilled",
    }
    return next((kind for act, kind in needed.items() if act in acts), "plain")


def actors(shop: Shop, names: Sequence[str]) -> list[Actor]:
    def act(name: str) -> Callable[[], object]:
        def run() -> object:
            with shop.open() as ab:
                return {**ACTS, **MORE}[name](shop, ab)

        return run

    return [Actor(name, act(name)) for name in names]


# -- what must hold ------------------------------------------------------------------------------


def check_joined(b: Any, c: Any, d: Any) -> None:
    """The diamond at one cut."""
    found = dict(c)
    wanted = Counter((key, value, found[key]) for key, value in b if key in found)
    assert Counter(map(tuple, d)) == wanted, f"torn: b {b}, c {c}, d {d}"


def check_cuts(ab: Anabranch) -> None:
    """Every cut that is listed can be read, and shows the diamond in one piece."""
    for cut in ab.cuts():
        try:
            with ab.at(cut["cut_id"]) as world:
                known = {str(name) for name in world.names()}
                if {str(B), str(C), str(D)} <= known:
                    check_joined(*(world.table(str(n)).collect() for n in (B, C, D)))
        except UserError as error:  # before the tables of the shop were there
            assert "expired" in str(error)


def check_tables(ab: Anabranch) -> None:
    """Every table that was filled is its declared query at its frontier: verify refuses otherwise."""
    seen = observe_now(ab._runtime)
    for name in OURS & seen.streams.keys():
        if seen.streams[name].populated:
            found = ab.verify(str(name))
            assert found["equal"], f"{name} is not its query: {found}"


def check_nothing_held(ab: Anabranch) -> None:
    with ab._store.reading() as c:
        for table in (tables.leases, tables.waiters, tables.read_leases, tables.stages):
            assert not c.execute(select(table)).all(), f"{table.name} is not empty"


def check_way_out(ab: Anabranch) -> None:
    """One refresh makes everything right."""
    ab.refresh()
    seen = observe_now(ab._runtime)
    assert not seen.stale(seen.order()), "a refresh left tables out of date"
    for name in OURS & seen.streams.keys():
        assert ab.verify(str(name))["equal"]
    assert {row["status"] for row in ab.status()} <= {"ACTIVE"}
    with ab._store.reading() as c:
        assert streams.all_streams(c).keys() == seen.streams.keys()


def check_suspended(ab: Anabranch) -> None:
    """A table that somebody suspended is so, whoever published meanwhile; then it may go on."""
    status = {row["name"]: row["status"] for row in ab.status()}
    assert status[str(B)] == "SUSPENDED", f"the suspension of b was lost: {status}"
    ab.resume(str(B))


def check(shop: Shop, acts: Collection[str] = ()) -> None:
    with shop.open() as ab:
        check_nothing_held(ab)
        check_tables(ab)
        if "suspend" in acts:
            check_suspended(ab)
        if "resume" in acts:
            status = {row["name"]: row["status"] for row in ab.status()}
            assert status[str(B)] == "ACTIVE", f"b was not taken in again: {status}"
        check_way_out(ab)
        check_cuts(ab)

"""Promote and roll-back publish whole groups: no cut is torn, inside or outside the project."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from anabranch import Anabranch
from anabranch.catalog import clusters, deployments, stages, tables
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.deploy import abort, along, promote, rollback, stage, swap
from anabranch.deploy.progress import progress
from anabranch.deploy.state import newest
from anabranch.deploy.steps import Action
from anabranch.errors import InvalidValue, Refused
from anabranch.leases import Leases
from anabranch.names import TableName
from anabranch.refresh.execute import table as jobs
from anabranch.refresh.observe import observe, observe_now
from anabranch.verbs.deployments import abort_dry, promote_dry, rollback_dry
from tests.standin.engine import connect, installed

FILES = {
    "anabranch.toml": 'name = "shop"',
    "models/db/raw/s.sql": "CREATE TABLE s (k BIGINT, v BIGINT)",
    "models/db/b/b.sql": "CREATE STREAM TABLE b AS SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
    "models/db/c/c.sql": "CREATE STREAM TABLE c AS SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
    "models/db/d/d.sql": (
        "CREATE STREAM TABLE d AS SELECT b.k, b.v AS bv, c.v AS cv"
        " FROM b.b AS b JOIN c.c AS c ON b.k = c.k"
    ),
}
TWICE = "CREATE STREAM TABLE b AS SELECT k, 2 * SUM(v) AS v FROM raw.s GROUP BY k"
RENAMED = "CREATE STREAM TABLE b AS SELECT k, SUM(v) AS w FROM raw.s GROUP BY k"


class Shop:
    def __init__(self, folder: Path, ab: Anabranch) -> None:
        self.folder, self.ab = folder, ab
        for name, text in FILES.items():
            self.write(name, text)
        self.deploy()
        ab.sql("INSERT INTO db.raw.s VALUES (1, 5)")
        ab.refresh()

    def write(self, name: str, text: str) -> None:
        place = self.folder / "shop" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def edit(self, query: str) -> None:
        self.write("models/db/b/b.sql", query)
        if query == RENAMED:
            text = FILES["models/db/d/d.sql"].replace("b.v", "b.w")
            self.write("models/db/d/d.sql", text)

    def plan(self) -> Any:
        return self.ab.plan(str(self.folder / "shop"))

    def stage(self, **options: Any) -> str:
        made = self.ab.stage(str(self.folder / "shop"), **options)
        assert made is not None
        return made

    def deploy(self, **options: Any) -> dict[str, Any]:
        return self.ab.promote(self.stage(), **options)

    def rows(self, name: str, cut: int | None = None) -> list[Any]:
        with self.ab.at(cut) as world:
            return sorted(world.table(name).collect())

    def check(self, factor: int, *others: str) -> None:
        """In the newest cut all tables tell of the same rows, and each equals its query."""
        with self.ab.at() as world:
            tables = {name: world.table(f"db.{name}.{name}").collect() for name in "bcd"}
        (b,), (c,), (d,) = tables["b"], tables["c"], tables["d"]
        assert b[1] == factor * c[1], "b and c stand on different rows"
        assert d == (b[0], b[1], c[1]), "d joins something else than b and c"
        for name in ("db.b.b", "db.c.c", "db.d.d", *others):
            assert self.ab.verify(name)["equal"], name


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with installed(), connect(tmp_path / "home") as ab:
        yield Shop(tmp_path, ab)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> list[str]:
    """The tables whose rows are computed from here on."""
    from anabranch.refresh.execute import table

    found: list[str] = []
    for job in ("full_job", "incremental_job"):
        real = getattr(table, job)

        def noted(
            runtime: Any, tx: Any, stream: Any, *rest: Any, _real: Any = real, **options: Any
        ) -> Any:
            found.append(str(stream.name))
            return _real(runtime, tx, stream, *rest, **options)

        monkeypatch.setattr(table, job, noted)
    assert jobs is not None
    return found


def states(ab: Anabranch) -> dict[str, str]:
    return {row["name"]: row["status"] for row in ab.status()}


def test_a_roll_back_does_not_tear_a_diamond(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    shop.check(2)
    shop.ab.sql("UPDATE db.raw.s SET v = 101")
    shop.ab.refresh()
    shop.ab.rollback()
    shop.check(1)
    assert shop.rows("db.d.d") == [(1, 101, 101)]
    assert {row["action"] for row in shop.ab.refresh()} == {"NO_DATA"}


def test_a_roll_back_computes_nothing_where_nothing_has_to_be(
    shop: Shop, computed: list[str]
) -> None:
    shop.edit(TWICE)
    shop.deploy()
    computed.clear()
    shop.ab.rollback()
    assert computed == []
    shop.check(1)


def test_a_group_that_returns_as_a_whole_is_not_computed(shop: Shop, computed: list[str]) -> None:
    shop.edit(TWICE)
    shop.write("models/db/c/c.sql", FILES["models/db/c/c.sql"].replace("SUM(v)", "3 * SUM(v)"))
    shop.deploy()
    shop.ab.sql("UPDATE db.raw.s SET v = 101")
    shop.ab.refresh()
    assert shop.rows("db.d.d") == [(1, 202, 303)]
    computed.clear()
    shop.ab.rollback()
    assert computed == []
    assert shop.rows("db.d.d") == [(1, 5, 5)]
    shop.ab.refresh()
    shop.check(1)


def test_a_promote_computes_nothing_when_all_is_up_to_date(shop: Shop, computed: list[str]) -> None:
    shop.edit(TWICE)
    made = shop.stage()
    computed.clear()
    shop.ab.promote(made)
    assert computed == []
    shop.check(2)


OUTSIDE = "SELECT b.k, b.v AS bv, c.v AS cv FROM db.b.b AS b JOIN db.c.c AS c ON b.k = c.k"


def test_a_promote_brings_readers_outside_of_the_project_along(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.own", OUTSIDE)
    ab.create_stream_table("mine.top", "SELECT SUM(bv) AS total FROM mine.own")
    shop.edit(TWICE)
    readers = {row["reader"]: row["outcome"] for row in shop.plan().as_dict()["readers"]}
    assert readers == {"mine.own": "rebuilt", "mine.top": "refreshed"}
    cut = shop.deploy()["cut_id"]
    assert shop.rows("mine.own", cut) == [(1, 10, 5)]
    assert shop.rows("mine.top", cut) == [(10,)]
    shop.check(2, "mine.own", "mine.top")
    assert {row["action"] for row in ab.refresh()} == {"NO_DATA"}
    ab.sql("UPDATE db.raw.s SET v = 7")
    ab.refresh()
    cut = ab.rollback()["cut_id"]
    assert shop.rows("mine.own", cut) == [(1, 7, 7)]
    assert shop.rows("mine.top", cut) == [(7,)]
    shop.check(1, "mine.own", "mine.top")


def test_a_deployment_that_breaks_a_reader_is_refused(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.own", OUTSIDE)
    ab.create_stream_table("mine.top", "SELECT SUM(bv) AS total FROM mine.own")
    shop.edit(RENAMED)
    plan = shop.plan()
    (own, top) = plan.as_dict()["readers"]
    assert own["outcome"] == "fails" and "v" in own["error"]
    assert top["outcome"] == "waits"
    assert "mine.own" in str(plan) and "would fail" in str(plan)
    with pytest.raises(Refused, match=r"mine\.own is outside the project and cannot follow"):
        shop.stage()
    assert ab.deployments()[0]["status"] == "PROMOTED", "nothing was begun"
    made = shop.stage(suspend_readers=True)
    assert states(ab)["mine.own"] == "ACTIVE", "staging changes nothing"
    assert ab.promote(made)["suspended"] == ["mine.own"]
    assert states(ab)["mine.own"] == "SUSPENDED"
    assert [row["table"] for row in ab.events() if row["kind"] == "SUSPENDED"] == ["mine.own"]
    ab.sql("UPDATE db.raw.s SET v = 7")
    ab.refresh()  # the suspended reader holds nobody back
    assert shop.rows("db.b.b") == [(1, 7)]
    assert shop.rows("mine.own") == [(1, 5, 5)]
    ab.rollback()
    assert states(ab)["mine.own"] == "ACTIVE"
    shop.check(1, "mine.own", "mine.top")
    assert shop.rows("mine.top") == [(7,)]


def test_a_reader_that_came_after_staging_is_seen_by_promote(shop: Shop) -> None:
    ab = shop.ab
    shop.edit(RENAMED)
    made = shop.stage()
    ab.create_stream_table("mine.own", OUTSIDE)
    before = shop.rows("db.b.b")
    with pytest.raises(Refused, match=r"mine\.own is outside the project"):
        ab.promote(made)
    assert shop.rows("db.b.b") == before and states(ab)["mine.own"] == "ACTIVE"
    assert ab.promote(made, suspend_readers=True)["suspended"] == ["mine.own"]
    shop_states = states(ab)
    assert shop_states["mine.own"] == "SUSPENDED" and "ERROR" not in shop_states.values()


def test_a_roll_back_that_breaks_a_reader_is_refused(shop: Shop) -> None:
    ab = shop.ab
    shop.edit(RENAMED)
    shop.deploy()
    ab.create_stream_table("mine.own", OUTSIDE.replace("b.v", "b.w"))
    (found,) = rollback_dry(ab._runtime, None)["readers"]
    assert found["reader"] == "mine.own" and found["outcome"] == "fails"
    with pytest.raises(Refused, match=r"mine\.own is outside the project"):
        ab.rollback()
    assert ab.deployments()[0]["status"] == "PROMOTED"
    assert ab.rollback(suspend_readers=True)["suspended"] == ["mine.own"]
    shop.check(1)


def test_a_reader_whose_rows_break_is_refused_or_suspended(shop: Shop) -> None:
    """Its query fits the new columns, but not the new rows."""
    ab = shop.ab
    shop.write("models/db/x/x.sql", "CREATE STREAM TABLE x AS SELECT '1' AS t FROM raw.s")
    shop.deploy()
    ab.create_stream_table("mine.own", "SELECT CAST(t AS INT) AS n FROM db.x.x")
    shop.write("models/db/x/x.sql", "CREATE STREAM TABLE x AS SELECT 'one' AS t FROM raw.s")
    made = shop.stage()
    with pytest.raises(Refused, match=r"mine\.own is outside the project"):
        ab.promote(made)
    assert states(ab)["mine.own"] == "ACTIVE"
    assert ab.promote(made, suspend_readers=True)["suspended"] == ["mine.own"]
    assert shop.rows("db.x.x") == [("one",)]


def test_a_reader_of_everything_gets_the_new_columns(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.all", "SELECT * FROM db.b.b")
    shop.edit(RENAMED)
    shop.deploy()
    assert [each.name for each in ab.table("mine.all").schema] == ["k", "w"]
    assert ab.verify("mine.all")["equal"]
    shop.ab.rollback()
    assert [each.name for each in ab.table("mine.all").schema] == ["k", "v"]
    assert ab.verify("mine.all")["equal"]


def test_a_declared_group_moves_as_one(shop: Shop) -> None:
    """A kept table that only a declared group ties to the one that moves."""
    ab = shop.ab
    shop.write("models/db/e/e.sql", "CREATE STREAM TABLE e AS SELECT COUNT(*) AS n FROM raw.s")
    shop.deploy()
    ab.create_refresh_group("pair", ["db.e.e", "db.b.b"])
    shop.edit(TWICE)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    ab.refresh()
    ab.rollback()
    assert shop.rows("db.e.e") == [(2,)] and shop.rows("db.b.b") == [(1, 6)]
    shop.check(1, "db.e.e")


# -- what is staged is not seen ----------------------------------------------------------------------

WIDER = {
    "clusters/fast.sql": "CREATE CLUSTER fast POOL 'fast'",
    "models/db/raw/s.sql": "CREATE TABLE s (k BIGINT, v BIGINT, note STRING, w DOUBLE)",
    "models/db/n/notes.sql": (
        "CREATE STREAM TABLE notes IN CLUSTER fast AS"
        " SELECT note, COUNT(*) AS n, SUM(v) AS v FROM raw.s GROUP BY note"
    ),
    "models/db/n/everything.sql": "CREATE STREAM TABLE everything AS SELECT * FROM raw.s",
}


def shown(ab: Anabranch) -> dict[str, Any]:
    """All that somebody can see who does not look into staging schemas."""
    world = ab._runtime.world()
    names = [name for name in world.names() if "__" not in str(name)]
    with ab._store.reading() as c:
        spaces = c.exec_driver_sql("SELECT namespace FROM iceberg_namespace_properties").scalars()
        spaces_now = sorted(name for name in spaces if "__" not in name)
    return {
        "columns": {
            str(name): [column.name for column in world.version(name).columns]
            for name in names
            if name not in world.views
        },
        "pointers": {str(name): world.pointers.get(name) for name in names},
        "views": {str(name): text for name, text in world.views.items() if "__" not in str(name)},
        "clusters": ab.clusters(),
        "status": [
            {key: value for key, value in row.items() if key != "staleness_seconds"}
            for row in ab.status()
            if "__" not in row["name"]
        ],
        "spaces": spaces_now,
    }


def test_stage_changes_nothing_that_production_shows(shop: Shop) -> None:
    ab = shop.ab
    before, names = shown(ab), ab._runtime.world().names()
    for name, text in WIDER.items():
        shop.write(name, text)
    made = shop.stage()
    assert shown(ab) == before
    ab.abort(made)
    assert shown(ab) == before
    assert ab._runtime.world().names() == names, "an abort leaves nothing"
    with ab._store.reading() as c:
        spaces = c.exec_driver_sql("SELECT namespace FROM iceberg_namespace_properties").scalars()
        assert not [name for name in spaces if "__" in name]
    assert [row["status"] for row in ab.deployments()] == ["ABORTED", "PROMOTED"]
    assert not [
        row["table"] for row in (*ab.history(), *ab.events()) if "__" in (row["table"] or "")
    ]
    ab.set("snapshot_retention", "0s")
    ab.maintain()
    warehouse = shop.folder / "home" / "warehouse"
    assert not [path for path in warehouse.rglob("*") if path.is_file() and made in str(path)]


def test_source_columns_and_clusters_come_with_the_promote(shop: Shop) -> None:
    ab = shop.ab
    for name, text in WIDER.items():
        shop.write(name, text)
    made = shop.stage()
    ab.sql("INSERT INTO db.raw.s VALUES (2, 6)")  # production still has two columns
    ab.refresh()
    ab.promote(made)
    assert shown(ab)["columns"]["db.raw.s"] == ["k", "v", "note", "w"]
    (cluster,) = ab.clusters()
    assert (cluster["cluster"], cluster["used_by"]) == ("fast", ["db.n.notes"])
    assert shop.rows("db.n.notes") == [(None, 2, 11)]
    assert shop.rows("db.n.everything") == [(1, 5, None, None), (2, 6, None, None)]
    seen = observe_now(ab._runtime)
    late = {str(name) for name in seen.stale(seen.order())}
    assert late.isdisjoint({"db.n.notes", "db.n.everything"}), "they have read the altered table"
    done = {row["table"]: row["action"] for row in ab.refresh()}
    assert done["db.n.notes"] == done["db.n.everything"] == "NO_DATA"
    ab.sql("INSERT INTO db.raw.s VALUES (3, 1, 'x', 0.5)")
    done = {row["table"]: row["action"] for row in ab.refresh()}
    assert done["db.n.notes"] == done["db.n.everything"] == "DIFFERENTIAL"
    for name in ("db.n.notes", "db.n.everything", "db.b.b", "db.c.c", "db.d.d"):
        assert ab.verify(name)["equal"], name
    assert shop.plan().empty


def test_a_roll_back_takes_columns_back_that_nobody_has_used(shop: Shop) -> None:
    ab = shop.ab
    before = shown(ab)
    for name, text in WIDER.items():
        shop.write(name, text)
    shop.deploy()
    assert ab.rollback()["kept_columns"] == []
    after = shown(ab)
    assert after["columns"] == before["columns"] and after["clusters"] == before["clusters"]
    for name in WIDER:
        (shop.folder / "shop" / name).unlink()
    shop.write("models/db/raw/s.sql", FILES["models/db/raw/s.sql"])
    assert shop.plan().empty
    ab.sql("INSERT INTO db.raw.s VALUES (2, 6)")
    ab.refresh()
    shop.ab.verify("db.d.d")


def test_a_roll_back_keeps_columns_that_hold_rows(shop: Shop) -> None:
    ab = shop.ab
    for name, text in WIDER.items():
        shop.write(name, text)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (3, 1, 'x', 0.5)")
    ab.refresh()
    assert ab.rollback()["kept_columns"] == ["db.raw.s"]
    assert shown(ab)["columns"]["db.raw.s"] == ["k", "v", "note", "w"]
    assert [row["table"] for row in ab.events() if row["kind"] == "COLUMNS_KEPT"] == ["db.raw.s"]
    assert sorted(ab.table("db.raw.s").collect()) == [(1, 5, None, None), (3, 1, "x", 0.5)]
    ab.refresh()
    for name in ("db.b.b", "db.c.c", "db.d.d"):
        assert ab.verify(name)["equal"], name


def test_a_roll_back_that_takes_a_column_from_a_reader_is_refused(shop: Shop) -> None:
    ab = shop.ab
    for name, text in WIDER.items():
        shop.write(name, text)
    shop.deploy()
    ab.create_stream_table("mine.notes", "SELECT note FROM db.raw.s")
    with pytest.raises(Refused, match=r"mine\.notes is outside the project"):
        ab.rollback()
    assert shown(ab)["columns"]["db.raw.s"] == ["k", "v", "note", "w"]
    ab.rollback(suspend_readers=True)
    assert states(ab)["mine.notes"] == "SUSPENDED"


# -- the cut at which tables stand -------------------------------------------------------------------


def test_what_is_promoted_stands_at_the_cut_of_the_promote(tmp_path: Path) -> None:
    """The staged source that it was built from had another name in older cuts."""
    with installed(), connect(tmp_path / "home") as ab:
        shop = Shop.__new__(Shop)
        shop.folder, shop.ab = tmp_path, ab
        for name, text in FILES.items():
            shop.write(name, text)
        made = shop.stage()
        ab.sql(f"INSERT INTO db.raw__{made}.s VALUES (1, 5)")
        cut = ab.promote(made)["cut_id"]
        assert {row["cut_id"] for row in ab.status()} == {cut}
        shop.check(1)


def test_comments_do_not_move_a_table_from_its_cut(shop: Shop) -> None:
    """They come after the fill: other metadata, the same rows."""
    note = ";\nCOMMENT ON STREAM TABLE {name} IS 'what it is for'"
    for name, query in {
        "n1": "SELECT k, v + 2 AS v FROM raw.s",
        "n2": "SELECT k, MAX(v) AS w FROM a.n1 GROUP BY k",
    }.items():
        text = f"CREATE STREAM TABLE {name} AS {query}" + note.format(name=name)
        shop.write(f"models/db/a/{name}.sql", text)
    shop.deploy(refresh=False)
    assert all(row["cut_id"] is not None for row in shop.ab.status())
    shop.write("models/db/raw/s.sql", FILES["models/db/raw/s.sql"] + ";\nCOMMENT ON TABLE s IS 'x'")
    shop.write("models/db/c/c.sql", FILES["models/db/c/c.sql"] + note.format(name="c"))
    shop.edit(TWICE)
    shop.deploy(refresh=False)
    assert all(row["cut_id"] is not None for row in shop.ab.status())
    shop.ab.sql("COMMENT ON STREAM TABLE db.b.b IS 'by hand'")
    seen = observe_now(shop.ab._runtime)
    assert seen.lagging(seen.order()) == []


def group_cut(shop: Shop) -> int | None:
    (group,) = [each for each in shop.ab.groups() if "db.b.b" in each["members"]]
    assert {row["cut_id"] for row in shop.ab.status()} == {group["cut_id"]}
    found: int | None = group["cut_id"]
    return found


def test_a_group_names_one_cut_after_a_roll_back(shop: Shop) -> None:
    """What is refreshed along follows its definition, and stands at the cut of the publish."""
    shop.edit(TWICE)
    shop.deploy()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    shop.ab.refresh()
    assert group_cut(shop) is not None
    made = shop.ab.rollback()["cut_id"]
    assert group_cut(shop) == made
    seen = observe_now(shop.ab._runtime)
    assert seen.stale(seen.order()) == []


def test_a_group_that_is_late_names_one_cut_too(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    at = group_cut(shop)
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    shop.ab.rollback()
    assert group_cut(shop) == at  # the newest with the rows that all of them stand on
    for name in ("db.b.b", "db.c.c", "db.d.d"):
        assert shop.ab.verify(name)["equal"]


def test_a_new_source_beside_one_that_moved_on_is_read_at_one_cut(shop: Shop) -> None:
    shop.write("models/db/raw/t.sql", "CREATE TABLE t (k BIGINT)")
    join = "SELECT s.v FROM raw.s AS s LEFT JOIN raw.t AS t ON s.k = t.k"
    shop.write("models/db/n/n.sql", f"CREATE STREAM TABLE n AS {join}")
    made = shop.stage()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    shop.ab.promote(made, refresh=False)
    assert shop.rows("db.n.n") == [(1,), (5,)]
    assert all(row["cut_id"] is not None for row in shop.ab.status())


def test_readers_that_move_along_stand_at_one_cut(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.own", OUTSIDE)
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")  # not seen yet
    shop.edit(TWICE)
    shop.deploy()
    assert shop.rows("mine.own") == [(1, 12, 6)]
    rows = {row["name"]: row for row in ab.status()}
    assert not any(row["mixed_cuts"] for row in rows.values())
    shop.check(2, "mine.own")
    ab.sql("UPDATE db.raw.s SET v = 4")
    ab.refresh()
    ab.rollback()
    assert not any(row["mixed_cuts"] for row in ab.status())
    shop.check(1, "mine.own")


def test_a_reader_made_in_the_last_moment_is_brought_along(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the publish somebody closes a diamond outside the project."""
    ab, real = shop.ab, along.Flip.publish
    shop.edit(TWICE)
    made = shop.stage()

    made_by: list[threading.Thread] = []

    def meddle(flip: Any, *arguments: Any) -> Any:
        monkeypatch.setattr(along.Flip, "publish", real)
        thread = threading.Thread(
            target=ab.create_stream_table, args=("mine.own", "SELECT v FROM db.b.b")
        )
        thread.start()
        made_by.append(thread)
        return real(flip, *arguments)

    monkeypatch.setattr(along.Flip, "publish", meddle)
    ab.promote(made)
    made_by[0].join()
    assert shop.rows("mine.own") == [(10,)]
    shop.check(2, "mine.own")


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Somebody does something between the last look of a promote and its publish, once.

    The last look is a rehearsal if something moves along, else the one that everything began with.
    """

    def installed_once(meddle: Callable[[], object], *, rehearsed: bool) -> None:
        if rehearsed:
            real_check = along.Flip.check_leased

            def checked(flip: Any, *arguments: Any) -> None:
                real_check(flip, *arguments)
                monkeypatch.setattr(along.Flip, "check_leased", real_check)
                meddle()

            monkeypatch.setattr(along.Flip, "check_leased", checked)
        else:
            real_publish = along.Flip.publish

            def published(flip: Any, *arguments: Any) -> Any:
                monkeypatch.setattr(along.Flip, "publish", real_publish)
                meddle()
                return real_publish(flip, *arguments)

            monkeypatch.setattr(along.Flip, "publish", published)

    return installed_once


def test_rows_that_come_in_the_last_moment_are_in_no_table(
    shop: Shop, at_the_end: Callable[..., None]
) -> None:
    """What was brought along stands at the cut that it has read, not at the newest."""
    ab = shop.ab
    ab.create_stream_table("mine.own", OUTSIDE)
    shop.edit(TWICE)
    made = shop.stage()
    at_the_end(lambda: ab.sql("INSERT INTO db.raw.s VALUES (1, 100)"), rehearsed=True)
    ab.promote(made)
    assert shop.rows("mine.own") == [(1, 10, 5)]
    shop.check(2, "mine.own")
    ab.refresh()
    assert shop.rows("mine.own") == [(1, 210, 105)]
    shop.check(2, "mine.own")


def test_a_reader_that_holds_no_lease_is_found_in_the_publish(
    shop: Shop,
    at_the_end: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leases keep readers out while tables move; if they ever did not, nothing is torn."""
    shop.edit(TWICE)
    made = shop.stage()
    hold = Leases.hold

    def meddle() -> None:
        with monkeypatch.context() as inside:
            nobody = [TableName.parse("no.body")]
            inside.setattr(
                Leases, "hold", lambda self, names, *rest, **how: hold(self, nobody, *rest, **how)
            )
            shop.ab.create_stream_table("mine.own", "SELECT k, v FROM db.b.b")

    at_the_end(meddle, rehearsed=False)
    shop.ab.promote(made)
    assert shop.rows("mine.own") == [(1, 10)]
    shop.check(2, "mine.own")


def test_an_object_of_another_project_is_not_replaced_in_the_publish(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects stage an object of one name; versions of schemas keep the second out, and owners."""
    ab = shop.ab
    other = shop.folder / "other"
    for place, name, query in (
        (other, "crm", "SELECT 1"),
        (shop.folder / "shop", "shop", "SELECT 2"),
    ):
        (place / "models/db/x").mkdir(parents=True)
        (place / "anabranch.toml").write_text(f'name = "{name}"')
        (place / "models/db/x/x.sql").write_text(f"CREATE STREAM TABLE x AS {query} AS n")
    mine, theirs = shop.stage(), ab.stage(str(other))
    assert theirs is not None
    ab.promote(theirs)
    monkeypatch.setattr(promote, "check_base", lambda *_: None)
    monkeypatch.setattr(swap, "check_base", lambda *_: None)
    with pytest.raises(Refused, match=r"db\.x\.x belongs to project crm"):
        ab.promote(mine)
    assert shop.rows("db.x.x") == [(1,)]


def test_a_roll_back_of_several_projects_must_say_which(shop: Shop) -> None:
    ab = shop.ab
    other = shop.folder / "other"
    for name, text in {
        "anabranch.toml": 'name = "crm"',
        "models/crm/a/t.sql": "CREATE TABLE t (id BIGINT)",
    }.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(text)
    made = ab.stage(str(other))
    assert made is not None
    ab.promote(made)
    with pytest.raises(Refused, match="several projects have deployments: crm, shop"):
        ab.rollback()
    assert rollback_dry(ab._runtime, None, "crm")["id"] == made
    assert ab.rollback(project="crm")["id"] == made
    assert [row["status"] for row in ab.deployments()] == ["ROLLED_BACK", "PROMOTED"]


def test_a_neighbour_in_the_same_schema_is_in_nobodys_way(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    for name, text in {
        "anabranch.toml": 'name = "neighbour"',
        "models/db/b/unrelated.sql": "CREATE STREAM TABLE unrelated AS SELECT 1 AS one",
    }.items():
        place = shop.folder / "neighbour" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    made = shop.ab.stage(str(shop.folder / "neighbour"))
    assert made is not None
    shop.ab.promote(made)
    shop.ab.rollback(project="shop")
    shop.check(1)
    assert shop.rows("db.b.unrelated") == [(1,)]
    shop.ab.rollback(made)
    assert "db.b.unrelated" not in states(shop.ab)
    shop.check(1)


def test_only_what_was_deployed_over_it_blocks_a_roll_back(shop: Shop) -> None:
    shop.write("models/db/b/other.sql", "CREATE STREAM TABLE other AS SELECT k FROM raw.s")
    first = shop.deploy()["id"]
    shop.edit(TWICE)  # in the same schema
    second = shop.deploy()["id"]
    (shop.folder / "shop" / "models/db/b/other.sql").unlink()
    third = shop.deploy()["id"]
    with pytest.raises(Refused, match=rf"{third} deployed db\.b\.other after {first}") as refused:
        shop.ab.rollback(first)
    assert refused.value.hint == f"`anabranch rollback {third}` first"
    shop.ab.rollback(third)
    shop.ab.rollback(first)
    assert "db.b.other" not in states(shop.ab)
    shop.check(2)
    shop.ab.rollback(second)
    shop.check(1)


def test_promoted_tables_and_their_readers_stand_at_a_cut(shop: Shop) -> None:
    """Tables without a schedule are sources for those that read them, under their new names too."""
    ab = shop.ab
    ab.create_stream_table("db.x.x", "SELECT SUM(bv) AS v FROM db.d.d", schedule="1h")
    names = ["db.b.b", "db.c.c", "db.d.d", "db.x.x"]
    for query in (TWICE, FILES["models/db/b/b.sql"]):
        shop.edit(query)
        shop.deploy()
        for name in names:
            assert ab.verify(name)["equal"], (name, ab.verify(name))
    ab.rollback()
    for name in names:
        assert ab.verify(name)["equal"], (name, ab.verify(name))
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    ab.refresh()
    ab.tick()
    stands = {row["name"]: row["cut_id"] for row in ab.status()}
    assert all(stands[name] is not None for name in names), stands
    for name in names:
        assert ab.verify(name)["equal"], (name, ab.verify(name))


# -- by chance ---------------------------------------------------------------------------------------

QUERIES = {
    "b": [
        "SELECT k, {n} * SUM(v) AS v FROM raw.s GROUP BY k",
        "SELECT k, SUM(v) AS v, {n} AS n FROM raw.s GROUP BY k",
        "SELECT k, v + {n} AS v FROM raw.s",
    ],
    "c": [
        "SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
        "SELECT k, COUNT(*) + {n} AS v FROM raw.s GROUP BY k",
    ],
    "d": [
        "SELECT b.k, b.v AS bv, c.v AS cv FROM b.b AS b JOIN c.c AS c ON b.k = c.k",
        "SELECT k, v AS bv, {n} AS cv FROM b.b",
        "SELECT k, v AS bv, v AS cv FROM c.c WHERE v > {n}",
    ],
}
OUTSIDERS = {
    "mine.own": OUTSIDE,
    "mine.top": "SELECT SUM(bv) AS total FROM db.d.d",
    "mine.both": "SELECT d.bv, c.v FROM db.d.d AS d JOIN db.c.c AS c ON d.k = c.k",
    "mine.far": "SELECT COUNT(*) AS n FROM mine.own",
}


class Chance(random.Random):
    """Steps of somebody who edits, deploys, rolls back and writes."""

    def step(self, shop: Shop) -> str:
        verb = self.choice(["edit", "edit", "write", "deploy", "deploy", "rollback", "outside"])
        ab = shop.ab
        if verb == "edit":
            name = self.choice("bcd")
            query = self.choice(QUERIES[name]).format(n=self.randint(1, 3))
            shop.write(f"models/db/{name}/{name}.sql", f"CREATE STREAM TABLE {name} AS {query}")
        elif verb == "write":
            ab.sql(f"INSERT INTO db.raw.s VALUES ({self.randint(1, 2)}, {self.randint(1, 9)})")
            if self.random() < 0.7:
                ab.refresh(self.choice([None, "db.c.c", "db.b.b"]))
        elif verb == "deploy":
            made = ab.stage(str(shop.folder / "shop"))
            if self.random() < 0.5:
                ab.sql(f"UPDATE db.raw.s SET v = v + {self.randint(1, 9)} WHERE k = 1")
            if made:
                ab.promote(made)
                assert shop.plan().empty
        elif verb == "rollback" and len([r for r in ab.deployments() if r["cut_id"]]) > 1:
            if sum(row["status"] == "PROMOTED" for row in ab.deployments()) > 1:
                ab.rollback()
        elif verb == "outside":
            name = self.choice(list(OUTSIDERS))
            there = {row["name"] for row in ab.status()}
            if name not in there and (name != "mine.far" or "mine.own" in there):
                ab.create_stream_table(name, OUTSIDERS[name])
        return verb


def check_all(shop: Shop) -> None:
    """No group is torn in the newest cut, and every table is its query at the cut it names."""
    with shop.ab._store.reading() as c:
        seen = observe(c, shop.ab._runtime.lake)
    for group in seen.groups:
        assert not along.torn(seen, group.members), group.members
    for row in shop.ab.status():
        assert row["status"] == "ACTIVE" and not row["mixed_cuts"], row
        assert shop.ab.verify(row["name"])["equal"], row["name"]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in range(1, 40))]
)
def test_deployments_by_chance(shop: Shop, seed: int) -> None:
    chance = Chance(seed)
    for _ in range(14):
        if chance.step(shop) in ("deploy", "rollback"):
            check_all(shop)
    shop.ab.refresh()
    check_all(shop)


def add_column(shop: Shop) -> str:
    shop.write("models/db/raw/s.sql", "CREATE TABLE s (k BIGINT, v BIGINT, x STRING)")
    query = "SELECT k, SUM(v) AS v, MAX(x) AS x FROM raw.s GROUP BY k"
    shop.write("models/db/b/b.sql", f"CREATE STREAM TABLE b AS {query}")
    return shop.stage()


def test_a_source_altered_after_staging_is_staged_again(shop: Shop) -> None:
    staged = add_column(shop)
    shop.ab.sql("ALTER TABLE db.raw.s ADD COLUMN x STRING")
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 6, 'q')")
    with pytest.raises(Refused, match=r"db\.raw\.s was altered since") as refused:
        shop.ab.promote(staged)
    assert "stage" in (refused.value.hint or "")
    shop.ab.abort(staged)
    shop.deploy()
    assert shop.rows("db.b.b") == [(1, 11, "q")]
    shop.check(1)


def test_a_source_altered_in_the_last_moment_is_seen_in_the_publish(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = add_column(shop)
    monkeypatch.setattr(promote, "check_now", lambda *_: None)
    shop.ab.sql("ALTER TABLE db.raw.s ADD COLUMN x STRING")
    with pytest.raises(Refused, match=r"db\.raw\.s was altered since"):
        shop.ab.promote(staged)


def drop_from_project(shop: Shop, name: str) -> None:
    (shop.folder / "shop" / name).unlink()


def test_a_roll_back_leaves_a_table_made_by_hand(shop: Shop) -> None:
    drop_from_project(shop, "models/db/d/d.sql")
    shop.deploy()
    shop.ab.sql("CREATE TABLE db.d.d (x BIGINT)")
    shop.ab.sql("INSERT INTO db.d.d VALUES (42)")
    with pytest.raises(Refused, match=r"db\.d\.d was made by hand") as refused:
        shop.ab.rollback()
    assert "drop db.d.d first" in (refused.value.hint or "")
    assert shop.rows("db.d.d") == [(42,)]
    shop.ab.sql("DROP TABLE db.d.d")
    shop.ab.rollback()
    shop.check(1)


def test_a_roll_back_leaves_a_table_in_place_of_a_new_one(shop: Shop) -> None:
    shop.write("models/db/b/n.sql", "CREATE STREAM TABLE n AS SELECT k FROM raw.s")
    shop.deploy()
    shop.ab.sql("DROP STREAM TABLE db.b.n")
    shop.ab.sql("CREATE TABLE db.b.n (x BIGINT)")
    shop.ab.sql("INSERT INTO db.b.n VALUES (42)")
    with pytest.raises(Refused, match=r"db\.b\.n was changed by hand"):
        shop.ab.rollback()
    assert shop.rows("db.b.n") == [(42,)]
    shop.ab.sql("DROP TABLE db.b.n")
    shop.ab.rollback()  # it would be dropped anyway
    shop.check(1)


def test_a_roll_back_leaves_a_query_changed_by_hand(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.edit(TWICE)
    shop.deploy()
    query = "SELECT k, 3 * SUM(v) AS v FROM db.raw.s GROUP BY k"
    shop.ab.sql(f"ALTER STREAM TABLE db.b.b AS {query}")
    with pytest.raises(Refused, match=r"db\.b\.b was changed by hand"):
        rollback_dry(shop.ab._runtime, None)
    promoted = newest_promoted(shop)
    monkeypatch.setattr(rollback, "to_roll_back", lambda *_: promoted)
    with pytest.raises(Refused, match=r"db\.b\.b was changed by hand"):
        shop.ab.rollback()
    shop.ab.refresh()
    shop.check(3)


def newest_promoted(shop: Shop) -> Deployment:
    with shop.ab._store.reading() as c:
        return newest(c, DeploymentStatus.PROMOTED)


def test_an_older_promote_noted_less_but_no_table_is_lost(shop: Shop) -> None:
    drop_from_project(shop, "models/db/d/d.sql")
    shop.deploy()
    promoted = newest_promoted(shop)
    assert promoted.undo is not None
    undo = replace(promoted.undo, left=None).record()
    with shop.ab._store.writing() as c:
        status = DeploymentStatus.PROMOTED
        deployments.move(c, promoted.id, (status,), status, undo=undo)
    shop.ab.sql("CREATE TABLE db.d.d (x BIGINT)")
    with pytest.raises(Refused, match=r"db\.d\.d was made by hand"):
        shop.ab.rollback()
    shop.ab.sql("DROP TABLE db.d.d")
    shop.ab.rollback()
    shop.check(1)


def test_a_reader_of_a_broken_reader_does_not_hold_the_promote_back(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.r", "SELECT k, v FROM db.b.b")
    joined = "SELECT r.k, r.v, d.bv FROM mine.r AS r JOIN db.d.d AS d ON r.k = d.k"
    ab.create_stream_table("mine.q", joined)
    ab.create_stream_table("mine.top", "SELECT k FROM mine.r")
    shop.edit(RENAMED)
    promoted = ab.promote(shop.stage(suspend_readers=True))
    assert promoted["suspended"] == ["mine.q", "mine.r"]
    assert states(ab)["mine.top"] == "ACTIVE", "it waits, and holds nobody back"
    ab.sql("INSERT INTO db.raw.s VALUES (1, 100)")
    ab.refresh("db.d.d")
    assert shop.rows("db.d.d") == [(1, 105, 105)]
    ab.rollback()
    assert {*states(ab).values()} == {"ACTIVE"}
    shop.check(1, "mine.r", "mine.q", "mine.top")


def test_a_plan_sees_through_views_that_break(shop: Shop) -> None:
    ab = shop.ab
    ab.sql("CREATE VIEW mine.w AS SELECT k, v FROM db.b.b")
    ab.create_stream_table("mine.r", "SELECT w.k FROM mine.w AS w JOIN db.c.c AS c ON w.k = c.k")
    shop.edit(RENAMED)
    readers = {row["reader"]: row for row in shop.plan().as_dict()["readers"]}
    assert readers["mine.w"]["outcome"] == "fails"
    assert readers["mine.r"]["outcome"] == "fails" and "mine.w" in readers["mine.r"]["error"]
    with pytest.raises(Refused, match=r"mine\.r is outside the project"):
        shop.stage()


def test_a_dry_promote_tells_the_readers_that_there_are_now(shop: Shop) -> None:
    ab = shop.ab
    ab.create_stream_table("mine.before", "SELECT k FROM db.b.b")
    shop.edit(TWICE)
    staged = shop.stage()
    ab.sql("DROP STREAM TABLE mine.before")
    ab.create_stream_table("mine.after", "SELECT k FROM db.b.b")
    found = {row["reader"]: row["outcome"] for row in promote_dry(ab._runtime, staged)["readers"]}
    assert found == {"mine.after": "rebuilt"}


def test_views_over_staged_tables_are_not_broken(shop: Shop) -> None:
    shop.edit(TWICE)
    staged = shop.stage()
    shop.ab.sql(f"CREATE VIEW mine.peek AS SELECT * FROM db.B__{staged}.b")
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    before = (shop.ab.cuts(), shop.ab.deployments(), shop.ab.tables())
    for verb in (promote_dry, promote.promote, abort_dry, abort.abort):
        with pytest.raises(Refused, match=r"mine\.peek reads .*, which would be dropped") as no:
            verb(shop.ab._runtime, staged)
        assert no.value.hint == "DROP VIEW mine.peek"
    assert (shop.ab.cuts(), shop.ab.deployments(), shop.ab.tables()) == before
    shop.ab.sql("DROP VIEW mine.peek")
    shop.ab.promote(staged)
    shop.check(2)


# -- who stages it, and whether that one lives -------------------------------------------------------


def from_elsewhere(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> Any:
    with monkeypatch.context() as there:
        there.setattr(stages, "host", lambda: "another host")
        return act()


def stuck(shop: Shop, deployment: str) -> bool:
    return bool(progress(shop.ab._store, shop.ab._runtime.lake, deployment)["stuck"])


@pytest.fixture
def short_leases(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = shop.ab._runtime.settings.with_("lease_time", "500ms")
    monkeypatch.setattr(shop.ab._runtime, "settings", settings)


@pytest.mark.usefixtures("short_leases")
def test_a_long_stage_elsewhere_is_not_taken_for_dead(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken hours, and four times its lease since it last began to build something."""
    found: list[Any] = []
    build = stage.build

    def slow(*given: Any) -> None:
        build(*given)
        if found:
            return
        with shop.ab._store.writing() as c:
            (mine,) = (each for each in deployments.listing(c) if each.status.value == "STAGING")
            hours_ago = mine.created_at - timedelta(hours=2)
            c.execute(update(tables.deployments).values(created_at=hours_ago))
        time.sleep(2)
        found.append(from_elsewhere(monkeypatch, lambda: stuck(shop, mine.id)))
        found.append(from_elsewhere(monkeypatch, shop.stage))

    monkeypatch.setattr(stage, "build", slow)
    shop.edit(TWICE)
    mine = shop.stage()
    assert found[0] is False and found[1] != mine
    shop.ab.abort(found[1])
    shop.ab.promote(mine)
    shop.check(2)


@pytest.mark.usefixtures("short_leases")
def test_a_dead_stage_elsewhere_is_found_when_its_lease_is_over(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: Any) -> None:
        raise KeyboardInterrupt

    shop.edit(TWICE)
    with monkeypatch.context() as dead:
        dead.setattr(stage, "build", dies)
        dead.setattr(deployments, "let_go", lambda *given: None)
        with pytest.raises(KeyboardInterrupt):
            shop.stage()
    (mine,) = (row["id"] for row in shop.ab.deployments() if row["status"] == "STAGING")
    assert not from_elsewhere(monkeypatch, lambda: stuck(shop, mine))
    time.sleep(0.6)
    assert from_elsewhere(monkeypatch, lambda: stuck(shop, mine))
    assert from_elsewhere(monkeypatch, shop.stage) == mine
    shop.ab.promote(mine)
    shop.check(2)


@pytest.mark.usefixtures("short_leases")
def test_a_stage_that_slept_leaves_the_work_to_who_took_it_over(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    build = stage.build

    def sleeps(*given: Any) -> None:
        build(*given)
        if not taken:
            taken.append("")
            with shop.ab._store.writing() as c:
                c.execute(update(tables.deployments).values(expires_at=tables.now(c)))
            taken.append(from_elsewhere(monkeypatch, shop.stage))

    monkeypatch.setattr(stage, "build", sleeps)
    monkeypatch.setattr(deployments, "renew", lambda *given, **named: None)
    shop.edit(TWICE)
    with pytest.raises(Refused, match=r"another process took .* over") as no:
        shop.stage()
    assert no.value.hint == f"`anabranch wait {taken[1]}` shows its progress"
    shop.ab.promote(taken[1])
    shop.check(2)


def test_a_roll_back_keeps_what_somebody_suspended(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 100)")
    shop.ab.refresh()
    shop.ab.suspend("db.d.d")
    shop.ab.rollback(project="shop")
    assert states(shop.ab)["db.d.d"] == "SUSPENDED"
    shop.check(1)
    shop.ab.resume("db.d.d")
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    shop.ab.refresh()
    shop.check(1)


def test_nothing_is_no_deployment(shop: Shop) -> None:
    assert shop.ab.stage(str(shop.folder / "shop")) is None
    for verb in (shop.ab.promote, shop.ab.abort):
        with pytest.raises(InvalidValue, match="deployment_id is None"):
            verb(None)  # type: ignore[arg-type]


def test_a_roll_back_leaves_a_cluster_that_was_changed_since(shop: Shop) -> None:
    shop.write("clusters/cc.sql", "CREATE CLUSTER cc POOL 'p'")
    shop.deploy()
    shop.write("clusters/cc.sql", "CREATE CLUSTER cc POOL 'q'")
    shop.deploy()
    with shop.ab._store.writing() as c:
        clusters.put(c, Cluster("cc", "r", None, {}))
    shop.ab.rollback()
    (found,) = shop.ab.clusters()
    assert found["pool"] == "r"
    assert "CLUSTER_KEPT" in [row["kind"] for row in shop.ab.events()]


def test_another_project_of_the_same_name_is_refused(shop: Shop) -> None:
    other = shop.folder / "other"
    (other / "models/db/raw2").mkdir(parents=True)
    (other / "anabranch.toml").write_text('name = "shop"')
    (other / "models/db/raw2/t.sql").write_text("CREATE TABLE t (k BIGINT)")
    for verb in (shop.ab.plan, shop.ab.stage):
        with pytest.raises(Refused, match="all of them would be dropped") as refused:
            verb(str(other))
        assert "another name" in (refused.value.hint or "")
    (other / "models/db/raw2/t.sql").unlink()
    assert len(shop.ab.plan(str(other)).keys(Action.DROP)) == 4, (
        "an empty project may take all away"
    )


def test_another_project_of_the_same_name_may_share_a_table(shop: Shop) -> None:
    other = shop.folder / "other"
    for name, text in {
        "anabranch.toml": 'name = "shop"',
        "models/db/raw/s.sql": FILES["models/db/raw/s.sql"],
        "models/db/q/q.sql": "CREATE STREAM TABLE q AS SELECT k FROM raw.s",
    }.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(text)
    plan = shop.ab.plan(str(other))
    (refused,) = [row for row in plan.as_dict()["refused"] if row["unless"] == "drop_most"]
    assert "3 of the 4 objects deployed as shop would be dropped: db.b.b, db.c.c" in str(plan)
    assert "another name in anabranch.toml" in refused["hint"]
    with pytest.raises(Refused, match="3 of the 4 objects") as no:
        shop.ab.stage(str(other), drop_tables=True)
    assert "stage --drop-most" in (no.value.hint or "")
    made = shop.ab.stage(str(other), drop_most=True)
    assert made is not None
    shop.ab.promote(made)
    assert states(shop.ab).keys() == {"db.q.q"}

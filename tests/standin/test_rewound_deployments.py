"""A restored cut has rows and definitions that belong together, and no deployment is left half-way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import null, update

import anabranch
from anabranch import Anabranch
from anabranch.catalog import deployments, tables
from anabranch.deploy import stage
from tests.standin.engine import connect, installed
from tests.standin.test_deployments import RENAMED, TWICE, Shop

TOTAL = "CREATE STREAM TABLE total AS SELECT SUM(v) AS v FROM b.b"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with installed(), connect(tmp_path / "home") as ab:
        yield Shop(tmp_path, ab)


def newest(ab: Anabranch) -> int:
    return int(ab.cuts()[0]["cut_id"])


@contextmanager
def restored(shop: Shop, cut: int) -> Iterator[tuple[Shop, dict[str, Any]]]:
    """The same project in front of what a backup of now gives of a cut."""
    shop.ab.backup(shop.folder / "backup")
    done = anabranch.restore(shop.folder / "backup", shop.folder / "again", cut=cut)
    with connect(shop.folder / "again") as ab:
        again = Shop.__new__(Shop)
        again.folder, again.ab = shop.folder, ab
        yield again, done


def names(shop: Shop) -> set[str]:
    return {row["table"] for row in shop.ab.tables()}


def goes_on(shop: Shop, factor: int) -> None:
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 7)")
    shop.ab.refresh()
    shop.check(factor)
    shop.ab.maintain()


@pytest.mark.parametrize("query", [TWICE, RENAMED])
def test_before_a_promote_the_older_definitions_are_back(shop: Shop, query: str) -> None:
    shop.write("models/db/b/total.sql", TOTAL)
    shop.deploy()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 2)")
    shop.ab.refresh()
    before = names(shop)
    shop.edit(query)
    shop.write("models/db/b/total.sql", TOTAL.replace("(v)", "(w)" if query == RENAMED else "(v)"))
    staged = shop.stage()
    cut = newest(shop.ab)
    assert names(shop) != before
    shop.ab.promote(staged)
    with restored(shop, cut) as (again, done):
        assert done["deployments"] == [
            {"id": staged, "status": "ABORTED", "reason": "it was promoted after the cut"}
        ]
        assert done["stale"] == [] and done["undefined"] == []
        assert names(again) == before
        assert {row["name"] for row in again.ab.status()} == before - {"db.raw.s"}
        assert all(again.ab.verify(row["name"])["equal"] for row in again.ab.status())
        assert again.rows("db.b.total") == [(7,)]
        again.ab.sql("INSERT INTO db.raw.s VALUES (1, 2)")
        lines = again.ab.refresh()
        assert {line["action"] for line in lines} == {"DIFFERENTIAL"}
        assert again.ab.abort(staged)["removed"] == []
        assert not again.plan().empty  # what the plan compares with is what was deployed then
        again.deploy()
        assert again.plan().empty
        assert all(again.ab.verify(row["name"])["equal"] for row in again.ab.status())
        again.ab.rollback()
        assert all(again.ab.verify(row["name"])["equal"] for row in again.ab.status())


def test_what_is_staged_can_be_promoted(shop: Shop) -> None:
    shop.edit(TWICE)
    staged = shop.stage()
    cut = newest(shop.ab)
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 2)")
    shop.ab.refresh()
    with restored(shop, cut) as (again, done):
        assert done["deployments"] == [{"id": staged, "status": "STAGED", "reason": None}]
        assert done["stale"] == []
        again.ab.promote(staged)
        goes_on(again, 2)


@pytest.mark.parametrize("ends", ["staged", "promoted", "aborted", "rolled back"])
def test_what_was_half_staged_is_aborted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    before, half = names(shop), []
    build = stage.build

    def noted(*given: Any) -> None:
        build(*given)
        half.append(newest(shop.ab))

    monkeypatch.setattr(stage, "build", noted)
    shop.edit(TWICE)
    staged = shop.stage()
    assert len(half) > 1
    if ends in ("promoted", "rolled back"):
        shop.ab.promote(staged)
    if ends == "aborted":
        shop.ab.abort(staged)
    if ends == "rolled back":
        shop.ab.rollback()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 2)")
    with restored(shop, half[0]) as (again, done):
        assert names(again) == before
        status = {"rolled back": "ROLLED_BACK"}.get(ends, "ABORTED")
        assert next((row["id"], row["status"]) for row in again.ab.deployments()) == (
            staged,
            status,
        )
        told = [row["id"] for row in done["deployments"]]
        assert told == ([staged] if ends in ("staged", "promoted") else [])
        goes_on(again, 1)
        again.deploy()
        again.check(2)


def test_a_restored_whole_backup_has_its_deployments(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process is at work at the deployment, but in the other catalog."""
    kept: list[bool] = []
    build = stage.build

    def backed_up(*given: Any) -> None:
        build(*given)
        if kept:
            return
        kept.append(True)
        with restored(shop, newest(shop.ab)) as (again, done):
            (found,) = done["deployments"]
            assert found["status"] == "STAGING"
            with again.ab._store.reading() as c:
                (row,) = (each for each in deployments.listing(c) if each.id == found["id"])
                assert not row.alive(tables.now(c))
            assert again.stage() == found["id"]
            again.ab.promote(found["id"])
            goes_on(again, 2)

    monkeypatch.setattr(stage, "build", backed_up)
    shop.edit(TWICE)
    shop.deploy()
    shop.check(2)


def test_definitions_that_are_not_known_are_told(shop: Shop) -> None:
    cut = newest(shop.ab)
    shop.edit(TWICE)
    done = shop.deploy()
    with shop.ab._store.writing() as c:  # as upkeep does once it cannot be rolled back any more
        undone = update(tables.deployments).where(tables.deployments.c.id == done["id"])
        c.execute(undone.values(undo=null()))
    with restored(shop, cut) as (again, told):
        assert [row["table"] for row in told["stale"]] == ["db.b.b"]
        assert "not known to come from the query" in told["stale"][0]["reason"]
        again.ab.refresh()
        again.check(2)
        assert again.plan().empty


def test_only_what_was_a_stream_table_becomes_one(tmp_path: Path) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        ab.sql("CREATE TABLE s.mine (k BIGINT)")
        ab.sql("INSERT INTO s.mine VALUES (42)")
        ab.sql("INSERT INTO s.t VALUES (1)")
        ab.create_stream_table("s.gone", "SELECT k FROM s.t")
        ab.sql("CREATE INDEX i ON s.t (k)")
        cut = newest(ab)
        ab.sql("DROP TABLE s.mine")
        ab.create_stream_table("s.mine", "SELECT k FROM s.t")
        ab.sql("DROP INDEX i ON s.t")
        ab.sql("DROP STREAM TABLE s.gone")
        ab.backup(tmp_path / "backup")
        done = anabranch.restore(tmp_path / "backup", tmp_path / "again", cut=cut)
        assert done["undefined"] == ["s.gone"] and done["stale"] == []
        with connect(tmp_path / "again") as again:
            assert {row["table"] for row in again.tables()} == {"s.gone", "s.mine", "s.t"}
            again.refresh()
            assert again.table("s.mine").collect() == [(42,)]


def test_a_query_over_what_came_later_is_told(tmp_path: Path) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1)")
        ab.create_stream_table("s.d", "SELECT k FROM s.t")
        cut = newest(ab)
        ab.sql("CREATE TABLE s.later (k BIGINT)")
        ab.create_stream_table("s.d", "SELECT k FROM s.later", or_replace=True)
        ab.backup(tmp_path / "backup")
        done = anabranch.restore(tmp_path / "backup", tmp_path / "again", cut=cut)
        assert done["stale"] == [
            {
                "table": "s.d",
                "reason": "its query in the backup reads s.later, which the cut does not have",
            }
        ]

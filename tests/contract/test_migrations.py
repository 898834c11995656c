"""Catalogs of every layout that there was are brought to the layout of today, and keep their rows."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, inspect, select, text

from anabranch.catalog import (
    clusters,
    cuts,
    deployments,
    events,
    history,
    indexes,
    leases,
    migrations,
    read_leases,
    refresh_groups,
    stages,
    streams,
    tables,
    views,
)
from anabranch.catalog.deployment_state import Notes
from anabranch.catalog.grants import grants
from anabranch.catalog.migrations import FORMAT_VERSION, MIGRATIONS
from anabranch.catalog.store import Store, parse_url
from anabranch.errors import MissingRight, Unreachable
from anabranch.model import RefreshMode, Status
from anabranch.names import TableName
from tests.contract.test_processes import answer, run

NEXT = FORMAT_VERSION + 1
FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "catalogs").glob("*.sql"))
PART = re.compile(r"^-- (sqlite|postgresql|rows)$", re.MULTILINE)
BY_REGION, SIZE = TableName.of("shop", "by_region"), TableName.of("shop", "größe von 't'")
SALES, LARGE = TableName.of("shop", "sales"), TableName.of("shop", "large")
LATER = datetime(2026, 3, 1, 12, 30, 0, 250000, tzinfo=timezone.utc)
Schema = dict[str, dict[str, Any]]
Rows = dict[str, list[dict[str, Any]]]


def number(fixture: Path) -> int:
    return int(fixture.name.partition("_")[0])


def put(catalog_url: str, fixture: Path) -> None:
    """Make the database that a fixture describes."""
    _, *parts = PART.split(fixture.read_text())
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    if "://" not in catalog_url:
        with closing(sqlite3.connect(catalog_url)) as connection:
            connection.executescript(texts["sqlite"] + texts["rows"])
        return
    with psycopg.connect(catalog_url, autocommit=True) as server:
        server.execute("SET TIME ZONE 'UTC'")
        server.execute((texts["postgresql"] + texts["rows"]).encode())


def engine_of(catalog_url: str) -> Engine:
    return create_engine(parse_url(catalog_url))


def schema(c: Connection) -> Schema:
    """All that there is to tables but the order of columns and the names of keys."""
    found = inspect(c)
    shown: Schema = {}
    for table in found.get_table_names():
        columns = {
            each["name"]: (str(each["type"]), each["nullable"], each["default"])
            for each in found.get_columns(table)
        }
        made = {
            each["name"]: (tuple(each["column_names"]), bool(each["unique"]))
            for each in found.get_indexes(table)
        }
        keys = tuple(found.get_pk_constraint(table)["constrained_columns"])
        shown[table] = {"columns": columns, "indexes": made, "key": keys}
    return shown


def contents(c: Connection) -> Rows:
    found = {}
    for table in sorted(inspect(c).get_table_names()):
        rows = c.execute(text(f"SELECT * FROM {table}")).mappings()
        found[table] = sorted(({**row} for row in rows), key=repr)
    return found


def look(catalog_url: str) -> tuple[Schema, Rows]:
    engine = engine_of(catalog_url)
    try:
        with engine.connect() as c:
            return schema(c), contents(c)
    finally:
        engine.dispose()


@pytest.fixture(scope="module")
def new_schemas() -> dict[bool, Schema]:
    return {}


@pytest.fixture
def new_schema(catalog_url: str, new_schemas: dict[bool, Schema]) -> Schema:
    """That of a catalog which is made today, on the same kind of database."""
    on_server = "://" in catalog_url
    if on_server not in new_schemas:
        url = str(Path(catalog_url).with_name("new.db"))
        if on_server:
            with psycopg.connect(catalog_url, autocommit=True) as server:
                server.execute("CREATE SCHEMA made_today")
            url = catalog_url.rpartition("%3D")[0] + "%3Dmade_today"
        Store.open(url).close()
        new_schemas[on_server] = look(url)[0]
    return new_schemas[on_server]


def test_there_is_a_fixture_of_every_layout() -> None:
    assert sorted(MIGRATIONS) == list(range(2, FORMAT_VERSION + 1))
    assert [number(each) for each in FIXTURES] == list(range(1, FORMAT_VERSION + 1))
    assert all(migrate.__doc__ for migrate in MIGRATIONS.values())


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_a_catalog_of_every_layout(catalog_url: str, new_schema: Schema, fixture: Path) -> None:
    put(catalog_url, fixture)
    _, before = look(catalog_url)
    store = Store.open(catalog_url)
    assert store.catalog_uuid == "00000000-0000-0000-0000-00000000abab"
    found, after = look(catalog_url)
    assert found == new_schema, "whoever changes the tables adds a migration"
    check_values(before, after)
    with store.reading() as c:
        check_meaning(c, number(fixture))
    with store.writing() as c:  # and it can be gone on with: numbers continue
        history.add(c, [history.Refresh(SALES, history.Action.FULL, history.COMPLETED)])
        events.record(c, SALES, events.MODE_CHANGED, "new")
        assert cuts.advance(c) == 4
    with store.reading() as c:
        assert history.listing(c)[0]["table"] == "shop.sales"
        assert len(history.listing(c)) == 3
    store.close()


def check_values(before: Rows, after: Rows) -> None:
    """All values stay; only the version of the layout is another."""
    told = after["ab_meta"][0]
    assert told.pop("format_version") == FORMAT_VERSION and "layout" not in told
    before["ab_meta"][0].pop("format_version"), before["ab_meta"][0].pop("layout", None)
    before.pop("ab_boots", None)  # whoever opens a catalog adds its own
    for table, rows in before.items():
        kept = [{name: row[name] for name in rows[0]} for row in after[table]]
        assert sorted(kept, key=repr) == rows, table


def check_meaning(c: Connection, layout: int) -> None:
    """As the catalog's own functions read them; what a layout had no place for is not known."""
    check_streams(c, layout)
    check_cuts(c, layout)
    check_history(c, layout)
    check_processes(c, layout)
    check_the_rest(c, layout)


def check_streams(c: Connection, layout: int) -> None:
    one, two = streams.get(c, BY_REGION), streams.get(c, SIZE)
    assert one is not None and two is not None and len(streams.all_streams(c)) == 2
    assert one.query == "SELECT region, sum(amount) AS total FROM shop.sales GROUP BY region"
    assert (one.refresh_mode, one.status, one.populated) == (RefreshMode.AUTO, Status.ACTIVE, True)
    assert (one.schedule, one.last_refresh_at, one.options) == ("1m", LATER, {"monotone": False})
    assert (one.epoch, one.cluster) == ((7, "big") if layout >= 3 else (None, None))
    assert one.token == ("a" * 32 if layout >= 6 else "")
    assert one.cuts == ((3,) if layout >= 9 else ())
    bounds = one.max_fixpoint_iterations, one.max_fixpoint_rows, one.max_fixpoint_time
    assert bounds == ((50, 3_000_000_000, 1.5) if layout >= 11 else (None, None, None))
    assert (one.data_at is not None) == (layout >= 13)
    assert two.query == "SELECT 'it''s' AS \"q\", 1 / 0 AS x FROM shop.sales"
    assert (two.status, two.populated, two.consecutive_errors) == (Status.ERROR, False, 3)
    assert two.last_error == "division by zero\nhint: none"
    assert (two.failed_mark, two.cluster) == ("m" if layout >= 3 else None, None)
    assert streams.dependencies(c) == {BY_REGION: (SALES,), SIZE: (SALES,)}
    assert streams.frontiers(c)[BY_REGION] == {SALES: 2**62}
    assert streams.inputs(c)[BY_REGION][SALES].snapshot_id == 2


def check_cuts(c: Connection, layout: int) -> None:
    assert cuts.current(c) == 3
    assert [line["kind"] for line in cuts.listing(c)] == ["refresh", "insert", "create"]
    place = "file:///warehouse/shop"
    first, second = f"{place}/sales/1.metadata.json", f"{place}/sales/2.metadata.json"
    assert cuts.pointers_at(c, 1) == {SALES: first}
    assert cuts.pointers_at(c, 2) == {SALES: second}
    newest = {SALES: second, BY_REGION: f"{place}/by_region/1.metadata.json"}
    assert cuts.pointers_at(c, 3) == cuts.pointers(c, "anabranch") == newest
    assert cuts.moved_by_others(c, "anabranch") == []
    # by its file alone, until upkeep has read it (tests/contract/test_growth.py)
    assert {each.shape is None for each in cuts.known_versions(c)} == {layout < 13}
    assert cuts.of_stage(c, "3" * 32) == (3 if layout >= 7 else None)
    text_of = "SELECT * FROM shop.sales WHERE amount > 100"
    assert views.all_views(c) == views.views_at(c, 1) == {LARGE: text_of}


def check_history(c: Connection, layout: int) -> None:
    failed, completed = history.listing(c)
    assert (failed["status"], failed["error"]) == ("FAILED", "division by zero")
    assert (completed["cut_id"], completed["rows_inserted"], completed["epoch"]) == (3, 2, 7)
    (last,) = history.last_runs(c, BY_REGION, history.Action.FULL, 5)
    known = (10, 100) if layout >= 2 else (None, None)
    assert (last.scanned_rows, last.predicted_ms) == known
    assert last.rounds == ("[[0, 2]]" if layout >= 3 else None)
    assert last.stands_at == (3 if layout >= 9 else None)
    told = [each["message"] for each in events.listing(c)]
    assert sorted(told) == (["division by zero", "of no table"] if layout >= 2 else [])
    codes = [each["reason_code"] for each in history.listing(c)]
    assert codes == [None, "FIRST"], "also of what was written when there were only texts"


def check_processes(c: Connection, layout: int) -> None:
    (stage,) = stages.all_stages(c)
    assert (stage.host, stage.pid, stage.cut_id) == ("elsewhere", 4711, 3 if layout >= 8 else None)
    assert leases.held(c, [BY_REGION, SIZE]) == ({BY_REGION} if layout >= 3 else set())
    assert set(read_leases.held_cuts(c, LATER)) == ({2} if layout >= 8 else set())
    assert read_leases.all_files_held(c, LATER) == (layout >= 12)


def check_the_rest(c: Connection, layout: int) -> None:
    found = deployments.listing(c)
    owners = deployments.owners(c)
    if layout < 3:
        assert not found and not owners and not indexes.all_indexes(c)
        return
    assert [(each.project, each.status.value) for each in found] == [("shop", "PROMOTED")]
    assert found[0].notes == Notes() and found[0].plan.steps == () and found[0].undo is None
    assert c.execute(select(tables.deployments.c.notes)).scalar_one() == {"why": "first"}
    assert [each.named for each in owners.values()] == [layout >= 5]
    assert deployments.schema_versions(c)["db", "shop"].version == 4
    ((index,),) = indexes.all_indexes(c).values()
    assert (index.name, tuple(index.columns), index.cluster) == (
        "by_total",
        ("total", "region"),
        "big",
    )
    assert clusters.all_clusters(c)["big"].settings == {"spark.executor.cores": "4"}
    assert tuple(refresh_groups.all_groups(c)["both"].members) == (BY_REGION, SIZE)


def test_a_catalog_that_has_more_than_it_says(catalog_url: str, new_schema: Schema) -> None:
    """Before layouts were numbered, an older Anabranch could open the catalog of a newer one."""
    put(catalog_url, FIXTURES[14])
    engine = engine_of(catalog_url)
    with engine.begin() as c:
        c.execute(text("UPDATE ab_meta SET format_version = 1, layout = NULL"))
        c.execute(text("DROP TABLE ab_read_leases"))
        c.execute(text("DROP INDEX ab_versions_location"))
    engine.dispose()
    store = Store.open(catalog_url)
    with store.reading() as c:
        assert views.views_at(c, 1).keys() == {LARGE}, "the texts of views are noted once"
    store.close()
    assert look(catalog_url)[0] == new_schema


def test_several_processes_open_an_older_catalog_at_once(
    catalog_url: str, new_schema: Schema
) -> None:
    put(catalog_url, FIXTURES[0])
    found = [run("tests.contract.opening", catalog_url) for _ in range(4)]
    assert {answer(each) for each in found} == {"00000000-0000-0000-0000-00000000abab"}
    assert look(catalog_url)[0] == new_schema


def test_a_newer_catalog_is_refused_and_left_alone(catalog_url: str) -> None:
    put(catalog_url, FIXTURES[-1])
    engine = engine_of(catalog_url)
    with engine.begin() as c:
        c.execute(text("UPDATE ab_meta SET format_version = 99"))
    engine.dispose()
    before = look(catalog_url)
    file = Path(catalog_url)
    content = file.read_bytes() if "://" not in catalog_url else b""
    with pytest.raises(Unreachable) as caught:
        Store.open(catalog_url)
    assert "has format version 99" in caught.value.message
    assert f"up to {FORMAT_VERSION}" in caught.value.message
    assert "install that Anabranch or a newer one" in (caught.value.hint or "")
    assert look(catalog_url) == before
    if content:
        assert file.read_bytes() == content


def test_a_migration_that_fails_leaves_nothing(
    catalog_url: str, new_schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(catalog_url, FIXTURES[2])
    before = look(catalog_url)

    def fails(c: Connection) -> None:
        c.execute(text("CREATE TABLE ab_half (k INTEGER)"))
        raise ZeroDivisionError

    monkeypatch.setattr(migrations, "MIGRATIONS", {**MIGRATIONS, NEXT: fails})
    monkeypatch.setattr(migrations, "FORMAT_VERSION", NEXT)
    with pytest.raises(ZeroDivisionError):
        Store.open(catalog_url)
    assert look(catalog_url) == before
    monkeypatch.undo()
    Store.open(catalog_url).close()
    assert look(catalog_url)[0] == new_schema


def test_a_process_that_is_killed_in_a_migration_leaves_nothing(
    catalog_url: str, new_schema: Schema
) -> None:
    put(catalog_url, FIXTURES[2])
    before = look(catalog_url)
    killed = run("tests.contract.opening", catalog_url, "killed")
    _, error = killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL, error
    assert look(catalog_url) == before
    Store.open(catalog_url).close()
    assert look(catalog_url)[0] == new_schema


def test_migrations_to_come_are_applied_once_and_in_order(
    catalog_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(catalog_url, FIXTURES[-1])
    done: list[int] = []
    added = {at: lambda c, at=at: done.append(at) for at in (NEXT + 1, NEXT)}
    monkeypatch.setattr(migrations, "MIGRATIONS", {**MIGRATIONS, **added})
    monkeypatch.setattr(migrations, "FORMAT_VERSION", NEXT + 1)
    Store.open(catalog_url).close()
    Store.open(catalog_url).close()
    assert done == [NEXT, NEXT + 1]
    assert look(catalog_url)[1]["ab_meta"][0]["format_version"] == NEXT + 1


def test_a_lost_table_is_not_taken_for_an_older_layout(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.db")
    put(path, FIXTURES[0])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE ab_history")
    with pytest.raises(Unreachable, match="is damaged: its table ab_history is missing"):
        Store.open(path)


def test_only_the_owner_of_the_tables_may_bring_them_up_to_date(postgres_url: str) -> None:
    admin = psycopg.connect(postgres_url, autocommit=True)
    with admin:
        admin.execute("CREATE SCHEMA to_migrate")
        url = f"{postgres_url}&options=-csearch_path%3Dto_migrate"
        put(url, FIXTURES[-1])
        admin.execute("UPDATE to_migrate.ab_meta SET format_version = 2")
        admin.execute("ALTER TABLE to_migrate.ab_meta ADD COLUMN layout VARCHAR(40)")
        given = grants("migrating_", "to_migrate")
        try:
            for role in ("reader", "writer"):
                for statement in given[role]:
                    admin.execute(statement.encode())
            admin.execute("CREATE USER a_migrating IN ROLE migrating_writer")
            other = url.replace("anabranch@", "a_migrating@")
            with pytest.raises(MissingRight, match="only the owner of its tables may") as caught:
                Store.open(other)
            assert "`anabranch grants` again" in (caught.value.hint or "")
            Store.open(url).close()
            Store.open(other).close()
        finally:
            for statement in (
                "DROP SCHEMA to_migrate CASCADE",
                "DROP USER IF EXISTS a_migrating",
                "DROP ROLE IF EXISTS migrating_writer",
                "DROP ROLE IF EXISTS migrating_reader",
            ):
                admin.execute(statement.encode())


def test_backups_of_layouts_that_had_more_columns_can_be_restored() -> None:
    from anabranch.catalog.rows import unknown_parts

    meta = {"id": 1, "catalog_uuid": "u", "format_version": 2, "cut": 3, "layout": "abc"}
    assert unknown_parts({"ab_meta": [meta]}) == []
    assert unknown_parts({"ab_meta": [meta | {"newer": 1}]}) == ["ab_meta.newer"]
    assert json.dumps(meta) and "layout" not in tables.meta.c

"""Tables of attached catalogs are sources: observed, recorded as cuts, and maintained exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.types import StringType

from anabranch import Anabranch, missing
from anabranch.errors import (
    AlreadyExists,
    InvalidValue,
    Refused,
    UnknownName,
    Unreachable,
)
from anabranch.lake import foreign
from tests.standin.engine import connect, installed
from tests.standin.theirs import RestServer, Theirs, rest
from tests.unit.lake.test_private import hide

EXTENDED = pytest.mark.extended
SUM = "SELECT COUNT(*) AS n, SUM(amount) AS s FROM prod.sales.orders"


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    found = Theirs(tmp_path / "theirs")
    found.table()
    found.append("orders", (1, 10), (2, 20))
    return found


@pytest.fixture
def ab(tmp_path: Path, theirs: Theirs) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home", catalog_timeout="2s") as opened:
        opened.attach("prod", "sql", **theirs.properties)
        yield opened


@pytest.fixture
def server(theirs: Theirs) -> Iterator[RestServer]:
    with rest(theirs) as running:
        yield running


def events(ab: Anabranch, *kinds: str) -> list[str]:
    return [each["kind"] for each in reversed(ab.events()) if not kinds or each["kind"] in kinds]


def attach_rest(ab: Anabranch, server: RestServer, name: str = "web") -> None:
    ab.attach(name, "rest", uri=server.uri)


def test_a_query_reads_the_table_as_it_is(ab: Anabranch, theirs: Theirs) -> None:
    assert ab.sql("SELECT * FROM prod.sales.orders").collect() == [(1, 10), (2, 20)]
    theirs.append("orders", (3, 5))
    assert ab.table("prod.sales.orders").count() == 3
    assert [each["kind"] for each in ab.cuts()] == ["observed", "observed"]
    assert {"table": "prod.sales.orders", "kind": "foreign table", "status": None} in ab.tables()


def test_a_stream_table_follows_every_commit(ab: Anabranch, theirs: Theirs) -> None:
    ab.create_stream_table("mart.r", SUM, schedule="1ms")
    assert ab.table("mart.r").collect() == [(2, 30)]
    theirs.append("orders", (3, 5))
    assert ab.tick()[0]["outcome"] == "PUBLISHED"
    assert ab.table("mart.r").collect() == [(3, 35)]
    assert ab.history("mart.r")[0]["action"] == "DIFFERENTIAL"
    theirs.catalog.load_table("sales.orders").delete("id = 1")
    ab.refresh("mart.r")
    assert ab.table("mart.r").collect() == [(2, 25)]
    assert ab.verify("mart.r")["equal"]
    assert ab.tick()[0]["outcome"] == "NO_DATA"


@EXTENDED
def test_a_cut_is_read_again_as_it_was(ab: Anabranch, theirs: Theirs) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    before = ab.cuts(1)[0]["cut_id"]
    theirs.append("orders", (3, 5))
    ab.refresh()
    with ab.at(before) as world:
        assert world.table("prod.sales.orders").count() == 2
        assert world.table("mart.r").collect() == [(2, 30)]
    with ab.at() as world:
        assert world.sql(SUM).collect() == world.table("mart.r").collect() == [(3, 35)]


def test_one_held_cut_shows_all_foreign_tables(ab: Anabranch, theirs: Theirs) -> None:
    theirs.table("other")
    ab.sql("SELECT * FROM prod.sales.orders JOIN prod.sales.other USING (id)")
    theirs.append("orders", (7, 7))
    theirs.append("other", (7, 1))
    with ab.at() as world:
        joined = "SELECT o.amount FROM prod.sales.orders o JOIN prod.sales.other x USING (id)"
        assert world.sql(joined).collect() == [(7,)]
        with pytest.raises(UnknownName, match="there is no table prod.sales.third"):
            world.table("prod.sales.third")


def test_own_tables_are_written_from_foreign_ones(ab: Anabranch, theirs: Theirs) -> None:
    ab.sql("CREATE TABLE own.copy AS SELECT * FROM prod.sales.orders")
    theirs.append("orders", (3, 5))
    ab.sql("INSERT INTO own.copy SELECT * FROM prod.sales.orders WHERE id = 3")
    assert ab.table("own.copy").count() == 3


@EXTENDED
def test_views_over_foreign_tables_are_observed(ab: Anabranch, theirs: Theirs) -> None:
    ab.sql("CREATE VIEW own.v AS SELECT amount FROM prod.sales.orders")
    theirs.append("orders", (3, 5))
    assert ab.table("own.v").count() == 3
    with pytest.raises(Refused, match="catalog prod is read by own.v"):
        ab.detach("prod")


WRITES = (
    "INSERT INTO prod.sales.orders VALUES (1, 2)",
    "DELETE FROM prod.sales.orders",
    "UPDATE prod.sales.orders SET amount = 0",
    "CREATE TABLE prod.sales.mine (a INT)",
    "CREATE STREAM TABLE prod.sales.mine AS SELECT * FROM prod.sales.orders",
    "CREATE VIEW prod.sales.mine AS SELECT 1 AS a",
    "DROP TABLE prod.sales.orders",
    "ALTER TABLE prod.sales.orders ADD COLUMN a INT",
    "COMMENT ON TABLE prod.sales.orders IS 'mine'",
    "CREATE INDEX i ON prod.sales.orders (id)",
)


def test_nothing_of_ours_writes_there(ab: Anabranch, theirs: Theirs) -> None:
    for statement in WRITES:
        with pytest.raises(Refused, match="belongs to the attached catalog prod"):
            ab.sql(statement)
    assert theirs.catalog.list_tables("sales") == [("sales", "orders")]


def test_detach_is_refused_while_a_table_reads_it(ab: Anabranch) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    with pytest.raises(Refused, match="catalog prod is read by mart.r"):
        ab.sql("DETACH CATALOG prod")
    ab.drop_stream_table("mart.r")
    ab.sql("DETACH CATALOG prod")
    assert ab.catalogs() == [] and ab.cuts(1)[0]["kind"] == "detached"
    with pytest.raises(UnknownName):
        ab.table("prod.sales.orders")
    with pytest.raises(UnknownName, match="there is no catalog prod"):
        ab.detach("prod")
    ab.detach("prod", if_exists=True)


@EXTENDED
def test_attached_again_it_is_observed_again(ab: Anabranch, theirs: Theirs) -> None:
    ab.table("prod.sales.orders")
    ab.detach("prod")
    theirs.append("orders", (3, 5))
    ab.attach("prod", "sql", **theirs.properties)
    assert ab.table("prod.sales.orders").count() == 3


def test_secrets_are_references(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    for properties in ({"token": "s3cr3t"}, {"uri": "http://me:s3cr3t@127.0.0.1:1"}):
        with pytest.raises(InvalidValue, match="holds a secret") as refused:
            ab.attach("web", "rest", **{"uri": "http://127.0.0.1:1", **properties})
        assert "ENV('NAME')" in str(refused.value) and "s3cr3t" not in str(refused.value)
    with pytest.raises(Unreachable, match="there is no environment variable PROD_TOKEN"):
        ab.attach("web", "rest", uri="http://127.0.0.1:1", token="ENV('PROD_TOKEN')")


def test_a_private_part_of_pyiceberg_that_is_missing_is_an_event(
    ab: Anabranch, theirs: Theirs, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing.forget()
    hide(monkeypatch, "_session")
    attach_rest(ab, server)
    ab.create_stream_table("mart.web", SUM.replace("prod", "web"), schedule="1ms")
    theirs.append("orders", (3, 5))
    ab.tick()
    assert ab.table("mart.web").collect() == [(3, 35)]
    (event,) = [each for each in ab.events() if each["kind"] == "FALLBACK"]
    assert event["table"] is None and "RestCatalog._session cannot be used" in event["message"]
    missing.forget()


def test_a_secret_is_neither_kept_nor_shown(
    ab: Anabranch, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROD_TOKEN", "s3cr3t-t0ken")
    ab.sql(f"ATTACH CATALOG web TYPE rest WITH (uri = '{server.uri}', token = ENV('PROD_TOKEN'))")
    assert ab.table("web.sales.orders").count() == 2
    (shown,) = [each for each in ab.catalogs() if each["catalog"] == "web"]
    assert shown["properties"]["token"] == "ENV('PROD_TOKEN')"
    assert b"s3cr3t-t0ken" not in Path(ab._store.shown).read_bytes()


def test_code_is_not_run_for_a_catalog(ab: Anabranch) -> None:
    with pytest.raises(Refused, match="py-io-impl names code"):
        ab.attach("web", "sql", **{"uri": "sqlite://", "py-io-impl": "os.system"})


WRONG = (
    ("rest", "http://127.0.0.1:1/", "Connection refused"),
    ("rest", "http://no.such.host.invalid/", "cannot be reached"),
    ("rest", "nonsense", "cannot be reached|No scheme|Invalid URL"),
    ("sql", "sqlite:////no/such/file.db", "there is no file /no/such/file.db"),
    ("sql", "nonsense", "Could not parse"),
    ("hive", "thrift://127.0.0.1:1", "pyiceberg"),
)


def test_a_wrong_address_is_one_line(ab: Anabranch) -> None:
    for kind, uri, says in WRONG:
        with pytest.raises(Unreachable, match=f"catalog web cannot be read: .*({says})") as refused:
            ab.attach("web", kind, uri=uri)
        assert "\n" not in refused.value.message and refused.value.hint
    assert [each["catalog"] for each in ab.catalogs()] == ["prod"]


def test_a_type_or_name_that_cannot_be(ab: Anabranch, theirs: Theirs) -> None:
    with pytest.raises(InvalidValue, match="no catalog type 'oracle'"):
        ab.attach("web", "oracle")
    with pytest.raises(InvalidValue, match="'system' cannot be the name"):
        ab.attach("system", "sql", **theirs.properties)
    with pytest.raises(AlreadyExists, match="prod is already attached"):
        ab.attach("prod", "sql", **theirs.properties)
    ab.attach("prod", "sql", if_not_exists=True, uri="sqlite:////no/such")
    ab.attach("prod", "sql", or_replace=True, **theirs.properties)
    ab.sql("CREATE TABLE db.s.t (a INT)")
    with pytest.raises(Refused, match="would hide db.s.t"):
        ab.attach("db", "sql", **theirs.properties)


def test_settings_attach_catalogs(tmp_path: Path, theirs: Theirs) -> None:
    given = {"catalogs": {"prod": {"type": "sql", **theirs.properties}}}
    with installed(), connect({"home": str(tmp_path / "other"), **given}) as ab:
        assert ab.table("prod.sales.orders").count() == 2
        assert [each["catalog"] for each in ab.catalogs()] == ["prod"]


# -- what can go wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        ("broken", "answers 500 disk full"),
        pytest.param("rubbish", "not that of an Iceberg catalog .text/html", marks=EXTENDED),
        pytest.param("forbidden", "answers 401 no token", marks=EXTENDED),
        ("slow", "timed out|does not answer within"),
        pytest.param("gone", "cannot be reached: ", marks=EXTENDED),
    ],
)
def test_a_catalog_that_does_not_answer_stops_nobody_else(
    ab: Anabranch, theirs: Theirs, server: RestServer, mood: str, said: str
) -> None:
    attach_rest(ab, server)
    ab.create_stream_table("mart.web", SUM.replace("prod", "web"), schedule="1ms")
    ab.create_stream_table("mart.r", SUM, schedule="1ms")
    ab._runtime.lake.attached.seconds = 0.5
    server.mood, server.delay = mood, 0.8
    theirs.append("orders", (3, 5))
    ab.tick()
    ab.tick()
    assert ab.table("mart.r").collect() == [(3, 35)]
    assert ab.table("mart.web").collect() == [(2, 30)]
    assert ab.table("web.sales.orders").count() == 2  # as it was observed last
    (shown,) = [each for each in ab.catalogs() if each["catalog"] == "web"]
    problem = shown["problem"] or shown["table_problems"]["web.sales.orders"]
    assert re.search(said, problem) and "\n" not in problem
    assert len(events(ab, "CATALOG_SILENT", "FOREIGN_UNREADABLE")) == 1  # said once
    with pytest.raises(Unreachable, match="catalog web cannot be read|table web.sales.orders"):
        ab.refresh("mart.web")
    assert [line["table"] for line in ab.refresh("mart.r")] == ["mart.r"]
    server.mood = "well"
    ab.refresh()
    assert ab.table("mart.web").collect() == [(3, 35)]
    (shown,) = [each for each in ab.catalogs() if each["catalog"] == "web"]
    assert shown["problem"] is None and shown["table_problems"] == {}


def test_a_table_that_vanished_stops_its_readers_alone(ab: Anabranch, theirs: Theirs) -> None:
    theirs.table("other")
    ab.create_stream_table("mart.r", SUM, schedule="1ms")
    ab.create_stream_table("mart.o", SUM.replace("orders", "other"), schedule="1ms")
    theirs.catalog.drop_table("sales.orders")
    theirs.append("other", (1, 1))
    outcomes = {each["members"][0]: each["outcome"] for each in ab.tick()}
    assert outcomes == {"mart.r": "FAILED", "mart.o": "PUBLISHED"}
    assert "reads prod.sales.orders, which no longer exists" in ab.history("mart.r")[0]["error"]
    assert events(ab, "FOREIGN_GONE") == ["FOREIGN_GONE"]
    assert ab.table("mart.r").collect() == [(2, 30)]
    theirs.table()  # back, and empty
    ab.refresh()
    assert ab.table("mart.r").collect() == [(0, None)]


def test_a_table_that_was_replaced_is_recomputed(ab: Anabranch, theirs: Theirs) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    theirs.catalog.drop_table("sales.orders")
    theirs.table()
    theirs.append("orders", (9, 1))
    (line,) = ab.refresh()
    assert ab.table("mart.r").collect() == [(1, 1)]
    assert line["action"] in ("FULL", "REINITIALIZE") and line["reason"]
    assert events(ab, "FOREIGN_REPLACED") == ["FOREIGN_REPLACED"]


def test_an_expired_base_is_recomputed_with_its_reason(ab: Anabranch, theirs: Theirs) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    old = theirs.catalog.load_table("sales.orders").current_snapshot()
    theirs.append("orders", (3, 5))
    table = theirs.catalog.load_table("sales.orders")
    assert old is not None
    table.maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
    Path(old.manifest_list.removeprefix("file://")).unlink()
    (line,) = ab.refresh()
    assert ab.table("mart.r").collect() == [(3, 35)]
    assert (line["action"] == "FULL" and "expired" in line["reason"]) or "gone" in line["reason"]


def test_changed_columns_are_told(ab: Anabranch, theirs: Theirs) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    with theirs.catalog.load_table("sales.orders").update_schema() as update:
        update.add_column("note", StringType())
    ab.refresh()
    said = [each for each in ab.events() if each["kind"] == "FOREIGN_COLUMNS"]
    assert [each["message"] for each in said] == ["its columns changed: note"]
    assert ab.table("prod.sales.orders").columns == ["id", "amount", "note"]


def test_a_missing_metadata_file_is_named(ab: Anabranch, theirs: Theirs) -> None:
    theirs.table("other")
    ab.create_stream_table("mart.r", SUM, schedule="1ms")
    ab.create_stream_table("mart.o", SUM.replace("orders", "other"), schedule="1ms")
    theirs.append("orders", (3, 5))
    theirs.append("other", (1, 1))
    table = theirs.catalog.load_table("sales.orders")
    Path(table.metadata_location.removeprefix("file://")).unlink()
    ab.tick()
    assert ab.table("mart.o").collect() == [(1, 1)]
    assert ab.table("mart.r").collect() == [(2, 30)]
    (said,) = [each for each in ab.events() if each["kind"] == "FOREIGN_UNREADABLE"]
    assert said["table"] == "prod.sales.orders" and "is missing" in said["message"]


def test_tables_that_never_stand_still_are_left_as_they_were(
    ab: Anabranch, theirs: Theirs, server: RestServer
) -> None:
    theirs.table("other")
    attach_rest(ab, server)
    ab.sql("SELECT * FROM web.sales.orders JOIN web.sales.other USING (id)")
    before = ab.cuts(1)[0]["cut_id"]

    def commit(identifier: tuple[str, str]) -> None:
        table = theirs.catalog.load_table(identifier)
        with server.lock, table.transaction() as change:
            change.set_properties(at=str(server.asked))

    server.before_answer = commit
    found = foreign.observe_all(ab._runtime.lake)
    assert [str(each) for each in found.unsettled] == ["web.sales.orders", "web.sales.other"]
    assert events(ab, "UNSETTLED") == ["UNSETTLED"] and ab.cuts(1)[0]["cut_id"] == before


def test_one_table_that_never_stands_still_does_not_hold_up_the_others(
    ab: Anabranch, theirs: Theirs, server: RestServer
) -> None:
    theirs.table("other")
    attach_rest(ab, server)
    ab.sql("SELECT * FROM web.sales.orders JOIN web.sales.other USING (id)")
    theirs.append("other", (1, 1))

    def commit(identifier: tuple[str, str]) -> None:
        if identifier[1] == "orders":
            with server.lock, theirs.catalog.load_table(identifier).transaction() as change:
                change.set_properties(at=str(server.asked))

    server.before_answer = commit
    found = foreign.observe_all(ab._runtime.lake)
    assert not found.unsettled and found.cut_id is not None
    with ab.at(found.cut_id) as world:
        assert world.table("web.sales.other").count() == 1


# -- cost and upkeep ---------------------------------------------------------------------------


def test_unchanged_tables_cost_one_request_without_a_body(
    ab: Anabranch, theirs: Theirs, server: RestServer
) -> None:
    attach_rest(ab, server)
    ab.create_stream_table("mart.web", SUM.replace("prod", "web"), schedule="1ms")
    ab.tick()
    asked, unchanged, cut = server.asked, server.unchanged, ab.cuts(1)[0]["cut_id"]
    for _ in range(3):
        assert ab.tick()[0]["outcome"] == "NO_DATA"
    assert (server.asked - asked, server.unchanged - unchanged) == (3, 3)
    assert ab.cuts(1)[0]["cut_id"] == cut


@EXTENDED
def test_a_server_without_etags_is_read_as_well(ab: Anabranch, theirs: Theirs) -> None:
    with rest(theirs, etags=False) as server:
        attach_rest(ab, server)
        ab.create_stream_table("mart.web", SUM.replace("prod", "web"), schedule="1ms")
        theirs.append("orders", (3, 5))
        ab.tick()
        assert ab.table("mart.web").collect() == [(3, 35)]


def test_nothing_foreign_is_deleted_and_upkeep_needs_none_of_it(
    ab: Anabranch, theirs: Theirs
) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    theirs.append("orders", (3, 5))
    ab.refresh()
    files = sorted(each for each in theirs.folder.rglob("*") if each.is_file())
    ab.maintain()
    assert sorted(each for each in theirs.folder.rglob("*") if each.is_file()) == files
    assert ab.check() == []
    hidden = theirs.folder.with_name("away")
    theirs.folder.rename(hidden)
    ab.maintain()
    hidden.rename(theirs.folder)
    assert ab.verify("mart.r")["equal"]


@EXTENDED
def test_another_process_sees_what_was_attached(
    ab: Anabranch, theirs: Theirs, tmp_path: Path
) -> None:
    ab.create_stream_table("mart.r", SUM, schedule=None)
    theirs.append("orders", (3, 5))
    with connect(tmp_path / "home") as other:
        other.refresh()
        assert other.table("mart.r").collect() == [(3, 35)]
    assert ab.table("mart.r").collect() == [(3, 35)]


def test_a_backup_brings_what_was_attached(ab: Anabranch, theirs: Theirs, tmp_path: Path) -> None:
    import anabranch

    ab.create_stream_table("mart.r", SUM, schedule=None)
    ab.backup(tmp_path / "backup")
    anabranch.restore(tmp_path / "backup", tmp_path / "restored")
    theirs.append("orders", (3, 5))
    with connect(tmp_path / "restored") as other:
        other.refresh()
        assert other.table("mart.r").collect() == [(3, 35)]

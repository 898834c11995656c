"""REFRESH … FULL: the verb that makes a table right, whatever is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import AnabranchError, BaseExpired, Refused, SchemaError
from anabranch.lake import manifests, version
from anabranch.spark.session import Spark
from tests.another_program import alter
from tests.e2e.world import Outside, bag, rows

pytestmark = pytest.mark.extended

TOTALS = "SELECT k, sum(v) AS total FROM f.s GROUP BY k"


@pytest.fixture
def full(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE f.s (k STRING, v BIGINT)")
    ab.sql("INSERT INTO f.s VALUES ('a', 1), ('a', 2), ('b', 4)")
    ab.create_stream_table("f.t", TOTALS, refresh_mode="DIFFERENTIAL", schedule=None)
    return ab


def lines(ab: Anabranch, count: int) -> list[tuple[Any, ...]]:
    return [(each["table"], each["action"], each["reason"]) for each in ab.history(limit=count)]


def right(ab: Anabranch, *names: str) -> bool:
    return all(ab.verify(name)["equal"] for name in names)


def test_every_door_recomputes_a_group_that_has_nothing_to_do(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE f.s (k STRING, v BIGINT)")
    ab.sql("INSERT INTO f.s VALUES ('a', 1), ('a', 2), ('b', 4)")
    for name, query in {
        "f.b": "SELECT k, sum(v) AS v FROM f.s GROUP BY k",
        "f.c": "SELECT k, count(*) AS n FROM f.s GROUP BY k",
        "f.d": "SELECT b.k, b.v, c.n FROM f.b JOIN f.c ON b.k = c.k",
        "f.alone": "SELECT max(v) AS m FROM f.b",
    }.items():
        ab.create_stream_table(name, query, refresh_mode="DIFFERENTIAL", schedule=None)
    group = {(f"f.{name}", "FULL", "asked for") for name in "bcd"}

    answer = ab.sql("REFRESH STREAM TABLE f.b FULL")
    assert {(each["table"], each["action"], each["reason"]) for each in answer} == group
    assert len({each["cut_id"] for each in answer}) == 1
    assert set(lines(ab, 3)) == group
    assert right(ab, "f.b", "f.c", "f.d")

    assert {each["action"] for each in ab.refresh("f.c", full=True)} == {"FULL"}
    everything = ab.sql("REFRESH ALL STREAM TABLES FULL")
    assert {each["table"] for each in everything} == {"f.b", "f.c", "f.d", "f.alone"}
    assert {(each["action"], each["reason"]) for each in everything} == {("FULL", "asked for")}

    ab.sql("INSERT INTO f.s VALUES ('b', 6)")
    ab.refresh()
    assert {each["action"] for each in ab.history(limit=4)} == {"DIFFERENTIAL"}
    assert ab.events("f.b") == []  # a way that was asked for is no surprise
    assert bag(ab.table("f.d")) == rows(("a", 3, 2), ("b", 10, 2))


def test_rows_that_nothing_notices_are_wrong(full: Anabranch, outside: Outside) -> None:
    outside.table("f.t").append(pa.table({"k": ["z"], "total": pa.array([9], pa.int64())}))
    with full._store.writing() as c:  # as if it were what we wrote
        c.exec_driver_sql(
            "UPDATE ab_inputs SET metadata_location = (SELECT metadata_location FROM iceberg_tables"
            " WHERE table_name = 't') WHERE source = 'f.t'"
        )
    assert {each["action"] for each in full.refresh("f.t")} == {"NO_DATA"}
    assert not full.verify("f.t")["equal"]
    full.refresh("f.t", full=True)
    assert bag(full.table("f.t")) == rows(("a", 3), ("b", 4))
    full.sql("INSERT INTO f.s VALUES ('a', 1)")
    full.refresh("f.t")
    assert full.history("f.t")[0]["action"] == "DIFFERENTIAL"
    assert bag(full.table("f.t")) == outside.bag("f.t") == rows(("a", 4), ("b", 4))


@pytest.mark.parametrize(
    "broken",
    [
        "data",
        pytest.param("manifests", marks=pytest.mark.slow),
        "metadata",
        pytest.param("no metadata", marks=pytest.mark.slow),
    ],
)
def test_nothing_that_is_stored_is_needed(
    full: Anabranch, tmp_path: Path, spark: Spark, broken: str
) -> None:
    full.create_stream_table("f.reader", "SELECT max(total) AS m FROM f.t", schedule=None)
    damage(tmp_path, broken)
    with anabranch.connect(tmp_path, spark=spark.session) as ab:
        ab.sql("INSERT INTO f.s VALUES ('b', 6)")
        with pytest.raises(AnabranchError):
            ab.table("f.t").collect()
        ab.refresh("f.t", full=True)
        assert ab.history("f.t")[0]["reason"] == "asked for"
        assert bag(ab.table("f.t")) == rows(("a", 3), ("b", 10))
        assert right(ab, "f.t")
        kinds = {each["kind"] for each in ab.events("f.t")}
        assert kinds == (set() if broken == "data" else {"REINITIALIZED"})
        ab.refresh("f.reader", full=True)
        assert bag(ab.table("f.reader")) == rows((10,))


def damage(home: Path, what: str) -> None:
    (root,) = (home / "warehouse" / "f").glob("t-*")
    found = {
        "data": lambda: list(root.glob("data/**/*.parquet")),
        "manifests": lambda: list(root.glob("metadata/*.avro")),
        "metadata": lambda: list(root.glob("metadata/*.json")),
        "no metadata": lambda: list(root.glob("metadata/*.json")),
    }[what]()
    assert found
    for path in found:
        if what == "no metadata":
            path.unlink()
        else:
            path.write_bytes(b"not what it was")
    for cache in (manifests._lists, manifests._entries, version._states):
        cache._values.clear()  # another process remembers nothing


def test_an_expired_base_of_a_strict_table(full: Anabranch) -> None:
    full.sql("INSERT INTO f.s VALUES ('b', 6)")
    with full._store.writing() as c:
        c.exec_driver_sql("UPDATE ab_inputs SET snapshot_id = 7 WHERE source = 'f.s'")
    with pytest.raises(BaseExpired, match="REFRESH STREAM TABLE f.t FULL"):
        full.refresh("f.t")
    assert full.status()[0]["status"] == "ERROR"
    full.refresh("f.t", full=True)
    assert full.status()[0]["status"] == "ACTIVE" and right(full, "f.t")


def test_a_suspended_table_is_recomputed_when_it_is_named(full: Anabranch) -> None:
    full.suspend("f.t")
    full.sql("INSERT INTO f.s VALUES ('b', 6)")
    with pytest.raises(Refused, match="suspended"):
        full.refresh("f.t")
    full.refresh("f.t", full=True)
    assert bag(full.table("f.t")) == rows(("a", 3), ("b", 10))
    assert full.status()[0]["status"] == "SUSPENDED"  # somebody wanted that
    with full._store.writing() as c:  # given up after failures
        c.exec_driver_sql("UPDATE ab_stream_tables SET consecutive_errors = 3")
    full.refresh("f.t", full=True)
    assert full.status()[0]["status"] == "ACTIVE"


def test_a_circle_starts_from_empty(ab: Anabranch, tmp_path: Path, spark: Spark) -> None:
    ab.set("allow_circular", True)
    ab.sql("CREATE TABLE f.seed (id BIGINT)")
    ab.sql("INSERT INTO f.seed VALUES (1), (2)")
    ab.create_stream_tables(
        {"f.t": "SELECT id FROM f.seed UNION SELECT id FROM f.u", "f.u": "SELECT id FROM f.t"},
        refresh_mode="DIFFERENTIAL",
        schedule=None,
    )
    damage(tmp_path, "metadata")
    with anabranch.connect(tmp_path, spark=spark.session) as again:
        with pytest.raises(Exception, match=r"."):
            again.table("f.u").collect()
            again.table("f.t").collect()
        again.refresh("f.u", full=True)
        assert {*lines(again, 2)} == {(f"f.{name}", "FULL", "asked for") for name in "tu"}
        assert right(again, "f.t", "f.u")
        again.sql("DELETE FROM f.seed WHERE id = 1")
        again.refresh("f.t")
        assert bag(again.table("f.u")) == rows((2,)) and right(again, "f.t", "f.u")


def test_columns_are_taken_over_unless_a_reader_needs_them(full: Anabranch) -> None:
    full.create_stream_table("f.all", "SELECT * FROM f.s", schedule=None)
    full.create_stream_table("f.some", "SELECT v FROM f.all", schedule=None)
    full.drop_stream_table("f.t")
    alter(full, "ALTER TABLE f.s DROP COLUMN v")
    with pytest.raises(AnabranchError, match=r"f\.all"):
        full.refresh("f.all")
    with pytest.raises(SchemaError, match=r"f\.some"):
        full.refresh("f.all", full=True)
    full.drop_stream_table("f.some")
    full.refresh("f.all", full=True)
    assert bag(full.table("f.all")) == rows(("a",), ("a",), ("b",))

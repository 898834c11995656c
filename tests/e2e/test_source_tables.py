"""Source tables: every type, every statement, transactions; small tables and large ones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pandas
import pyarrow as pa
import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import (
    AlreadyExists,
    DataError,
    Refused,
    UnknownName,
    Unsupported,
)
from anabranch.spark.session import Spark
from anabranch.tables import dml as write
from tests.e2e.world import Outside, bag, nothing_changes, refused, rows

TYPES = """
    CREATE TABLE lake.types (
        bool BOOLEAN, tiny TINYINT, small SMALLINT, i INT NOT NULL, big BIGINT, f FLOAT, d DOUBLE,
        money DECIMAL(38,10), s STRING, v VARCHAR(20), c CHAR(3), b BINARY, day DATE,
        at TIMESTAMP, local TIMESTAMP_NTZ, list ARRAY<INT>, dict MAP<STRING, DECIMAL(5,2)>,
        point STRUCT<x: DOUBLE, `odd name`: STRING>,
        deep ARRAY<STRUCT<k: STRING, m: MAP<INT, ARRAY<DATE>>>>
    )
"""


def test_all_types_read_back_the_same_by_spark_and_pyiceberg(
    ab: Anabranch, outside: Outside
) -> None:
    ab.sql(TYPES)
    ab.sql("""
        INSERT INTO lake.types VALUES
        (true, 127, -32768, 1, 9223372036854775807, 1.5, double('NaN'),
         1234567890123456789012345678.0123456789, 'ü''\\n', 'v', 'abc', X'00FF', '1582-10-04',
         TIMESTAMP '2024-02-29 23:59:59.123456+02:00', TIMESTAMP_NTZ '0001-01-01 00:00:00',
         array(1, NULL), map('a', 1.25, 'b', NULL), named_struct('x', 0.1, 'odd name', 'o'),
         array(named_struct('k', 'k', 'm', map(7, array(DATE '2024-01-01'))), NULL)),
        (NULL, NULL, NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL),
        (false, 0, 0, 3, 0, -0.0, double('Infinity'), 0, '', '', '   ', X'', '9999-12-31',
         TIMESTAMP '1970-01-01 00:00:00Z', TIMESTAMP_NTZ '9999-12-31 23:59:59.999999',
         array(), map(), named_struct('x', NULL, 'odd name', NULL), array())
    """)
    utc = dt.timezone.utc
    one = (
        True, 127, -32768, 1, 9223372036854775807, 1.5, float("nan"),
        Decimal("1234567890123456789012345678.0123456789"), "ü'\n", "v", "abc", b"\x00\xff",
        dt.date(1582, 10, 4), dt.datetime(2024, 2, 29, 21, 59, 59, 123456),
        dt.datetime(1, 1, 1), [1, None], {"a": Decimal("1.25"), "b": None}, (0.1, "o"),
        [("k", {7: [dt.date(2024, 1, 1)]}), None],
    )  # fmt: skip
    two = (*(None,) * 3, 2, *(None,) * 15)
    three = (
        False, 0, 0, 3, 0, -0.0, float("inf"), Decimal(0), "", "", "   ", b"",
        dt.date(9999, 12, 31), dt.datetime(1970, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999), [], {}, (None, None), [],
    )  # fmt: skip
    assert bag(ab.table("lake.types")) == rows(one, two, three)
    found = {row["i"]: row for row in outside.table("lake.types").scan().to_arrow().to_pylist()}
    assert set(found) == {1, 2, 3}
    assert found[1]["at"] == one[13].replace(tzinfo=utc)
    assert found[1]["money"] == one[7]
    assert found[1]["s"] == "ü'\n"
    assert found[1]["dict"] == [("a", Decimal("1.25")), ("b", None)]
    assert found[1]["point"] == {"x": 0.1, "odd name": "o"}
    assert found[1]["deep"] == [{"k": "k", "m": [(7, [dt.date(2024, 1, 1)])]}, None]
    # PyIceberg itself reads a NULL list of structs as an empty one
    assert {name for name, value in found[2].items() if value is not None} - {"deep"} == {"i"}
    assert found[3]["local"] == three[14]
    ab.sql("UPDATE lake.types SET list = array(9), deep = NULL WHERE i = 1")
    ab.sql("DELETE FROM lake.types WHERE i = 3")
    expected = [(1, [9], Decimal("1.25"), None), (2, None, None, None)]
    query = "SELECT i, list, dict['a'], deep FROM lake.types ORDER BY i"
    assert [tuple(row) for row in ab.sql(query).collect()] == expected
    found = {row["i"]: row for row in outside.table("lake.types").scan().to_arrow().to_pylist()}
    assert (found[1]["list"], found[1]["point"]) == ([9], {"x": 0.1, "odd name": "o"})
    assert set(found) == {1, 2}


@pytest.mark.extended
def test_statements_on_small_tables_and_large_ones(ab: Anabranch, outside: Outside) -> None:
    """The same statements by rewriting and by marking: the same rows for every reader."""
    ab.sql("CREATE TABLE lake.k (k BIGINT, note STRING)")
    ab.sql("INSERT INTO lake.k VALUES (1, 'one'), (2, 'two'), (2, 'again'), (NULL, 'null')")
    for table in ("lake.small", "lake.large"):
        ab.sql(f"CREATE TABLE {table} (id BIGINT, g STRING, x DECIMAL(10,2))")
        ab.sql(f"INSERT INTO {table} SELECT id, concat('g', id % 5), id / 4 FROM range(400)")
        ab.sql(f"INSERT INTO {table} VALUES (1, 'g1', 0.25), (NULL, NULL, NULL)")
    statements = [
        ("UPDATE {t} AS u SET x = u.x + 1, g = upper(g) WHERE u.id BETWEEN 10 AND 12", 3),
        ("UPDATE {t} SET g = NULL WHERE x > 99.5", 1),
        ("UPDATE {t} SET x = x WHERE id < 100", 0),  # nothing differs
        ("UPDATE {t} SET g = 'y' WHERE x = NULL", 0),
        ("UPDATE {t} SET x = (SELECT max(k) FROM lake.k WHERE k <= {t}.id) WHERE id IN (5, 6)", 2),
        ("UPDATE {t} SET g = 'dup' WHERE EXISTS (SELECT 1 FROM lake.k WHERE k.k = id)", 3),
        ("DELETE FROM {t} WHERE id IN (SELECT k + 20 FROM lake.k)", 2),
        ("DELETE FROM {t} WHERE id NOT IN (SELECT k FROM lake.k)", 0),  # a NULL among them
        ("DELETE FROM {t} WHERE id > 395 AND id NOT IN (SELECT k FROM lake.k WHERE k > 1)", 4),
        ("DELETE FROM {t} WHERE g IS NULL AND id IS NULL", 1),
        ("DELETE FROM {t} WHERE id = (SELECT min(k) FROM lake.k) AND x < 1", 2),
    ]
    for statement, expected in statements:
        for table, rewritten_up_to in (("lake.small", 100_000), ("lake.large", 0)):
            ab.set("small_table_rows", rewritten_up_to)
            done = ab.sql(statement.format(t=table))
            changed = max(done["rows_inserted"], done["rows_deleted"])
            assert (statement, changed) == (statement, expected)
    expected = bag(ab.table("lake.small"))
    assert expected.total() == 400 + 2 - 2 - 4 - 1 - 2
    assert bag(ab.table("lake.large")) == expected
    assert outside.bag("lake.small") == outside.bag("lake.large") == expected
    marks = outside.table("lake.large").inspect.delete_files()
    assert len(marks) >= 5, "large tables are marked"
    assert not len(outside.table("lake.small").inspect.delete_files())


MERGE = """
    MERGE INTO {t} AS t USING (SELECT * FROM lake.news WHERE id > 0) AS n
    ON t.id = n.id
    WHEN MATCHED AND n.what = 'gone' THEN DELETE
    WHEN MATCHED AND n.what IS NOT NULL THEN UPDATE SET x = t.x + n.x, g = n.what
    WHEN NOT MATCHED AND n.what = 'skip' THEN INSERT (id) VALUES (-n.id)
    WHEN NOT MATCHED THEN INSERT (x, id, g) VALUES (n.x, n.id, n.what)
    WHEN NOT MATCHED BY SOURCE AND t.id = 199 THEN DELETE
    WHEN NOT MATCHED BY SOURCE AND t.id >= 198 THEN UPDATE SET g = 'orphan'
"""


@pytest.mark.extended
def test_merge(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE lake.news (id BIGINT, what STRING, x DECIMAL(10,2))")
    ab.sql("""
        INSERT INTO lake.news VALUES (1, 'gone', 5), (2, 'new', 5), (3, NULL, 5), (300, 'skip', 1),
        (301, 'come', 7.5), (301, 'come', 7.5), (NULL, 'null', 1), (-1, 'out', 1)
    """)
    for table, rewritten_up_to in (("lake.small", 100_000), ("lake.large", 0)):
        ab.set("small_table_rows", rewritten_up_to)
        ab.sql(f"CREATE TABLE {table} (id BIGINT, g STRING, x DECIMAL(10,2))")
        ab.sql(f"INSERT INTO {table} SELECT id, 'old', id FROM range(1, 200)")
        done = ab.sql(MERGE.format(t=table))
        assert (done["rows_inserted"], done["rows_deleted"]) == (5, 4)
        changed = bag(ab.sql(f"SELECT * FROM {table} WHERE g <> 'old' OR g IS NULL OR id < 4"))
        assert changed == rows(
            (2, "new", Decimal("7.00")), (3, "old", Decimal("3.00")), (-300, None, None),
            (301, "come", Decimal("7.50")), (301, "come", Decimal("7.50")),
            (198, "orphan", Decimal("198.00")),
        )  # fmt: skip
        assert outside.bag(table) == bag(ab.table(table))
        star = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        one = "(SELECT 2 AS id, 1.5 AS x, 's' AS g UNION ALL SELECT 1, 2, 'back')"
        ab.sql(f"MERGE INTO {table} t USING {one} s ON t.id = s.id {star}")
        assert bag(ab.sql(f"SELECT * FROM {table} WHERE id IN (1, 2)")) == rows(
            (1, "back", Decimal("2.00")), (2, "s", Decimal("1.50"))
        )
        with nothing_changes(ab, outside), pytest.raises(DataError, match="more than one"):
            ab.sql(f"""
                MERGE INTO {table} t USING (SELECT 2 AS id FROM range(2)) s ON t.id = s.id
                WHEN MATCHED THEN UPDATE SET x = 0
            """)


def test_a_source_of_chance_is_asked_once(tmp_path: Path, spark: Spark) -> None:
    """Were it asked again for what is not matched, rows would be lost or come twice."""
    with anabranch.connect(tmp_path, spark=spark.session, allow_external_code=True) as ab:
        _merge_by_chance(ab)


def _merge_by_chance(ab: Anabranch) -> None:
    ab.set("small_table_rows", 0)
    ab.sql("CREATE TABLE lake.t (id BIGINT, x DOUBLE)")
    ab.sql("INSERT INTO lake.t SELECT id, 0 FROM range(0, 1000)")
    chance = (
        "CAST(reflect('java.lang.Math', 'random') AS DOUBLE)"  # rand() repeats itself in a plan
    )
    done = ab.sql(f"""
        MERGE INTO lake.t
        USING (SELECT DISTINCT CAST({chance} * 2000 AS BIGINT) AS id FROM range(500)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET x = 1
        WHEN NOT MATCHED THEN INSERT (id, x) VALUES (s.id, 2)
    """)
    assert done["rows_deleted"] > 0
    assert bag(ab.sql("SELECT id FROM lake.t")).most_common(1)[0][1] == 1


def test_large_tables_read_only_the_files_that_can_match(ab: Anabranch, outside: Outside) -> None:
    ab.set("small_table_rows", 0)
    ab.sql("CREATE TABLE lake.events (id BIGINT, s STRING)")
    for start in (0, 100, 200):
        ab.sql(f"INSERT INTO lake.events SELECT id, 'x' FROM range({start}, {start + 100})")
    files = {task.file.file_path for task in outside.table("lake.events").scan().plan_files()}
    assert len(files) >= 3
    read: list[tuple[str, ...]] = []
    original = write.frame

    def watched(session, reading, columns, **more):
        read.append(reading.files)
        return original(session, reading, columns, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "frame", watched)
        ab.sql("UPDATE lake.events SET s = 'y' WHERE id = 150 AND s = 'x'")
        ab.sql("DELETE FROM lake.events WHERE id >= 290")
        ab.sql("""
            MERGE INTO lake.events t USING (SELECT id, 'm' AS s FROM range(120, 130)) n
            ON n.id = t.id AND t.s <> n.s
            WHEN MATCHED AND n.id < 125 THEN UPDATE SET s = n.s
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT *
        """)
        ab.sql("DELETE FROM lake.events WHERE id = 1000")
    few = [len(paths) for paths in read]
    assert all(count * 3 <= len(files) + 1 for count in few), few
    assert few[-1] == 0
    assert outside.bag("lake.events") == bag(ab.table("lake.events"))
    assert outside.bag("lake.events").total() == 285


def test_merge_by_keys_that_the_column_cannot_hold(ab: Anabranch) -> None:
    ab.set("small_table_rows", 0)
    ab.sql("CREATE TABLE lake.t (id INT)")
    for start in (0, 100, 200):
        ab.sql(f"INSERT INTO lake.t SELECT INT(id) FROM range({start}, {start + 100})")
    wide = "(SELECT explode(array(-3000000000, 150, 250, 3000000000)) AS id)"
    for source, expected in ((wide, 2), ("(SELECT 3000000000 AS id)", 0)):
        done = ab.sql(f"MERGE INTO lake.t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE")
        assert done["rows_deleted"] == expected
    assert ab.table("lake.t").count() == 298


def test_alter_table(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE lake.t (id INT, gone STRING, old STRING, p FLOAT)")
    ab.sql("INSERT INTO lake.t VALUES (1, 'a', 'b', 1.5)")
    ab.sql("ALTER TABLE lake.t ADD COLUMN at DATE, more DECIMAL(5,1)")
    ab.sql("INSERT INTO lake.t VALUES (2, 'c', 'd', 2.5, '2024-01-01', 1)")
    ab.sql("ALTER TABLE lake.t DROP COLUMN gone")
    ab.sql("ALTER TABLE lake.t RENAME COLUMN old TO new")
    ab.sql("ALTER TABLE lake.t ALTER COLUMN id TYPE BIGINT; ALTER TABLE lake.t ADD COLUMN gone INT")
    ab.sql("INSERT INTO lake.t VALUES (5000000000, 'e', 3.5, NULL, NULL, 7)")
    first = (1, "b", 1.5, None, None, None)
    expected = rows(
        first,
        (2, "d", 2.5, dt.date(2024, 1, 1), Decimal("1.0"), None),
        (5000000000, "e", 3.5, None, None, 7),
    )
    assert ab.table("lake.t").columns == ["id", "new", "p", "at", "more", "gone"]
    assert bag(ab.table("lake.t")) == outside.bag("lake.t") == expected
    ab.sql("UPDATE lake.t SET gone = id WHERE new = 'b'")
    expected = expected - rows(first) + rows((*first[:-1], 1))
    assert bag(ab.table("lake.t")) == outside.bag("lake.t") == expected
    described = {row["column"]: row["type"] for row in ab.sql("DESCRIBE lake.t").collect()}
    assert described["id"] == "bigint"
    for wrong, error in [
        ("ALTER TABLE lake.t ADD COLUMN new STRING", AlreadyExists),
        ("ALTER TABLE lake.t DROP COLUMN nwe", UnknownName),
        ("ALTER TABLE lake.t RENAME COLUMN id TO P", AlreadyExists),
        ("ALTER TABLE lake.t ADD COLUMN n INT NOT NULL", Unsupported),
        ("ALTER TABLE lake.t ALTER COLUMN id TYPE INT", Unsupported),
    ]:
        with refused(ab, outside, error):
            ab.sql(wrong)
    ab.sql("DROP TABLE lake.t")
    with pytest.raises(UnknownName):
        ab.table("lake.t")
    ab.sql("CREATE TABLE lake.t (id BIGINT)")
    assert bag(ab.table("lake.t")) == rows()
    ab.sql("DROP TABLE IF EXISTS lake.t; DROP TABLE IF EXISTS lake.t")


def test_names_that_pass_to_other_columns(ab: Anabranch, outside: Outside) -> None:
    """Spark filters files by column name although it reads them by field id."""
    ab.sql("CREATE TABLE lake.t (id INT, a INT, b INT)")
    ab.sql("INSERT INTO lake.t VALUES (1, 10, 20), (2, 11, 21)")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        ab.sql(f"ALTER TABLE lake.t RENAME COLUMN {old} TO {new}")
    ab.create_stream_table("lake.s", "SELECT id FROM lake.t WHERE a >= 20")
    assert bag(ab.table("lake.s")) == rows((1,), (2,))
    assert bag(ab.sql("SELECT id, a, b FROM lake.t WHERE a = 20 AND b < 11")) == rows((1, 20, 10))
    ab.sql("UPDATE lake.t SET b = 5 WHERE a = 21")
    ab.sql("DELETE FROM lake.t WHERE b = 10")
    ab.refresh()
    assert bag(ab.table("lake.s")) == rows((2,))
    ab.drop_stream_table("lake.s")
    ab.sql("ALTER TABLE lake.t DROP COLUMN a; ALTER TABLE lake.t ADD COLUMN a INT")
    assert bag(ab.sql("SELECT id, a FROM lake.t WHERE a IS NULL")) == rows((2, None))
    ab.sql("UPDATE lake.t SET a = 7 WHERE a IS NULL")
    assert bag(ab.table("lake.t")) == outside.bag("lake.t") == rows((2, 5, 7))


def test_alter_table_with_nested_columns(ab: Anabranch, outside: Outside) -> None:
    """Other readers go by names there, so a name may not come back for another column."""
    ab.sql("CREATE TABLE lake.n (id INT, old ARRAY<INT>, gone STRUCT<a: INT>)")
    ab.sql("INSERT INTO lake.n VALUES (1, array(1), named_struct('a', 1))")
    ab.sql("ALTER TABLE lake.n DROP COLUMN gone; ALTER TABLE lake.n RENAME COLUMN old TO new")
    ab.sql("ALTER TABLE lake.n ADD COLUMN deep MAP<STRING, ARRAY<STRUCT<x: INT>>>")
    ab.sql("INSERT INTO lake.n VALUES (2, NULL, map('a', array(named_struct('x', 7))))")
    expected = rows((1, [1], None), (2, None, {"a": [(7,)]}))
    assert bag(ab.table("lake.n")) == expected
    found = outside.table("lake.n").scan().to_arrow().to_pylist()
    assert [row["new"] for row in found if row["id"] == 1] == [[1]]
    assert [row["deep"] for row in found if row["id"] == 2] == [[("a", [{"x": 7}])]]
    with refused(ab, outside, Unsupported, "another column gone before"):
        ab.sql("ALTER TABLE lake.n ADD COLUMN gone INT")


def test_insert_and_append_in_every_form(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE lake.t (id BIGINT, s STRING, x DECIMAL(10,2), at TIMESTAMP)")
    ab.sql("INSERT INTO lake.t (x, id) VALUES (1.5, 1), (2, 2)")
    ab.sql("INSERT INTO lake.t BY NAME SELECT 3 AS id, 'three' AS s")
    ab.sql(
        "INSERT INTO lake.t WITH c AS (SELECT id + 3 AS i FROM lake.t) SELECT i, 's', 0, NULL FROM c"
    )
    ab.append("lake.t", ab.spark.createDataFrame([(7, "spark")], "ID INT, s STRING"))
    ab.append("lake.t", pandas.DataFrame({"s": ["p", None], "id": [8, 9], "x": [0.5, None]}))
    at = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    done = ab.append(
        "lake.t", pa.table({"id": [10], "at": pa.array([at], pa.timestamp("us", "UTC"))})
    )
    assert done == {"table": "lake.t", "rows_inserted": 1}
    ab.append("lake.t", [{"id": 11, "x": Decimal("1.25")}])
    expected = rows(
        (1, None, Decimal("1.50"), None), (2, None, Decimal("2.00"), None), (3, "three", None, None),
        *((i, "s", Decimal("0.00"), None) for i in (4, 5, 6)), (7, "spark", None, None),
        (8, "p", Decimal("0.50"), None), (9, None, None, None),
        (10, None, None, dt.datetime(2024, 1, 1)), (11, None, Decimal("1.25"), None),
    )  # fmt: skip
    assert bag(ab.table("lake.t")) == expected
    ab.sql("CREATE TABLE lake.copy AS SELECT id, s FROM lake.t WHERE id < 3")
    with ab.transaction():
        ab.sql("DELETE FROM lake.copy; INSERT INTO lake.copy SELECT 1, 'only'")
    assert outside.bag("lake.copy") == rows((1, "only"))
    ab.sql("TRUNCATE TABLE lake.copy")
    assert bag(ab.table("lake.copy")) == outside.bag("lake.copy") == rows()


def test_transaction(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE bank.a (id BIGINT, x BIGINT); CREATE TABLE bank.b (id BIGINT, x BIGINT)")
    ab.sql("INSERT INTO bank.a SELECT id, 100 FROM range(3)")
    before = ab.cuts()[0]["cut_id"]
    with ab.transaction():
        ab.sql("UPDATE bank.a SET x = x - 10 WHERE id = 1")
        ab.sql("INSERT INTO bank.b SELECT id, 10 FROM bank.a WHERE x = 90")
        ab.sql("UPDATE bank.a SET x = x - 5 WHERE x = 90")
        ab.sql("INSERT INTO bank.a VALUES (9, 9)")
        ab.append("bank.a", [{"id": 10, "x": 10}])
        ab.sql("DELETE FROM bank.a WHERE id = 9")
        ab.sql("CREATE TABLE bank.c AS SELECT sum(x) AS total FROM bank.a")
        ab.sql("ALTER TABLE bank.b ADD COLUMN note STRING")
        ab.sql("INSERT INTO bank.b VALUES (1, 5, 'second')")
        assert bag(ab.table("bank.a")) == rows((0, 100), (1, 85), (2, 100), (10, 10))
        assert outside.bag("bank.a") == rows((0, 100), (1, 100), (2, 100))
        with ab.at() as world:
            assert bag(world.table("bank.b")) == rows()
    assert bag(ab.table("bank.a")) == rows((0, 100), (1, 85), (2, 100), (10, 10))
    assert bag(ab.table("bank.b")) == rows((1, 10, None), (1, 5, "second"))
    assert bag(ab.table("bank.c")) == rows((295,))
    cut = ab.cuts()[0]
    assert (cut["cut_id"], cut["kind"]) == (before + 1, "transaction")
    assert cut["tables"] == ["bank.a", "bank.b", "bank.c"]
    assert outside.bag("bank.a") == bag(ab.table("bank.a"))


def test_a_transaction_that_fails_leaves_nothing(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE bank.a (id BIGINT, x BIGINT); INSERT INTO bank.a VALUES (1, 1)")
    with nothing_changes(ab, outside), pytest.raises(ZeroDivisionError), ab.transaction():
        ab.sql("UPDATE bank.a SET x = 2")
        ab.sql("CREATE TABLE bank.new AS SELECT * FROM bank.a; DROP TABLE bank.a")
        raise ZeroDivisionError
    with nothing_changes(ab, outside), pytest.raises(DataError), ab.transaction():
        ab.sql("INSERT INTO bank.a VALUES (2, 2)")
        ab.sql("INSERT INTO bank.a SELECT 1, x / 0 FROM bank.a")
    assert bag(ab.table("bank.a")) == rows((1, 1))
    with ab.transaction():  # a statement that fails is undone, the others stand
        ab.sql("INSERT INTO bank.a VALUES (2, 2)")
        with pytest.raises(DataError):
            ab.sql("INSERT INTO bank.a SELECT 1, x / (x - 2) FROM bank.a")
        with pytest.raises(DataError):
            ab.sql("CREATE TABLE bank.new AS SELECT x / (x - 2) AS q FROM bank.a")
        ab.sql("INSERT INTO bank.a VALUES (3, 3)")
    assert bag(ab.table("bank.a")) == outside.bag("bank.a") == rows((1, 1), (2, 2), (3, 3))
    assert "bank.new" not in {row["table"] for row in ab.sql("SHOW TABLES").collect()}
    with pytest.raises(Refused, match="nest"), ab.transaction(), ab.transaction():
        pass
    ab.create_stream_table("bank.s", "SELECT id FROM bank.a")
    with ab.transaction():  # what could not be taken back with the rest is refused
        for act in (
            lambda: ab.suspend("bank.s"),
            lambda: ab.alter_stream_table("bank.s", schedule="5s"),
            lambda: ab.drop_stream_table("bank.s"),
            lambda: ab.sql("CREATE CLUSTER c"),
            ab.maintain,
            ab.refresh,
            ab.tick,
        ):
            with pytest.raises(Refused, match="inside a transaction"):
                act()
    assert (ab.status()[0]["status"], ab.clusters()) == ("ACTIVE", [])
    cut = ab.cuts()[0]["cut_id"]
    with ab.transaction():
        pass
    assert ab.cuts()[0]["cut_id"] == cut, "nothing was written, nothing is published"

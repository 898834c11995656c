"""What must fail does so with a short error of the right class and leaves nothing; odd names work."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import (
    AlreadyExists,
    AnabranchError,
    DataError,
    InvalidValue,
    Refused,
    SqlSyntaxError,
    UnknownName,
    Unreachable,
    Unsupported,
    UserError,
)
from anabranch.spark.session import Spark
from tests.another_program import alter
from tests.e2e.world import Outside, bag, refused, rows


@pytest.fixture
def shop(ab: Anabranch) -> Anabranch:
    ab.sql(
        "CREATE TABLE shop.sales (id INT NOT NULL, region STRING, amount DECIMAL(6,2), day DATE)"
    )
    ab.sql("INSERT INTO shop.sales VALUES (1, 'eu', 10, '2024-01-01'), (2, NULL, 20, NULL)")
    ab.sql("CREATE VIEW shop.eu AS SELECT * FROM shop.sales WHERE region = 'eu'")
    return ab


STATEMENTS: list[tuple[str, type[AnabranchError], tuple[str, ...]]] = [
    # unknown names
    ("SELECT * FROM shop.sale", UnknownName, ("no table shop.sale", 'mean "shop.sales"')),
    ("SELECT amout FROM shop.sales", UnknownName, ("amout", 'mean "amount"')),
    ("SELECT s.amout FROM shop.sales s", UnknownName, ("amout", 'amount"')),
    ("SELECT nofunc(id) FROM shop.sales", UnknownName, ("nofunc",)),
    ("INSERT INTO shop.sale VALUES (1)", UnknownName, ('mean "shop.sales"',)),
    ("INSERT INTO shop.sales (id, regio) VALUES (1, 'x')", UnknownName, ('mean "region"',)),
    ("UPDATE shop.sales SET amout = 1", UnknownName, ("amout", 'mean "amount"')),
    ("UPDATE shop.sales SET amount = amout", UnknownName, ("amout", 'mean "amount"')),
    ("DELETE FROM shop.sales WHERE regon = 'eu'", UnknownName, ('mean "region"',)),
    ("DROP TABLE shop.sale", UnknownName, ('mean "shop.sales"',)),
    ("DROP VIEW shop.ue", UnknownName, ("shop.ue",)),
    ("ALTER TABLE shop.sales DROP COLUMN amout", UnknownName, ('mean "amount"',)),
    ("CREATE STREAM TABLE shop.s AS SELECT * FROM shop.sale", UnknownName, ("shop.sale",)),
    ("CREATE STREAM TABLE shop.s AS SELECT amout FROM shop.sales", UnknownName, ("amout",)),
    ("CREATE VIEW shop.v AS SELECT amout FROM shop.sales", UnknownName, ("amout",)),
    ("REFRESH STREAM TABLE shop.sales", UnknownName, ("no stream table shop.sales",)),
    ("EXPLAIN STREAM TABLE shop.nope", UnknownName, ("shop.nope",)),
    # text that does not parse
    ("SELEC 1", SqlSyntaxError, ("line 1, column 1", "^", 'mean "SELECT"')),
    ("SELECT 1;\n SELEC 2", SqlSyntaxError, ("line 2, column 2", "^")),
    ("SELECT id FROM shop.sales WHERE", SqlSyntaxError, ("line 1", "^")),
    ("SELECT id,\n       amount) FROM shop.sales", SqlSyntaxError, ("line 2", "^")),
    ("INSERT INTO shop.sales VALUES (1, 'a', 2", SqlSyntaxError, ("line 1", "^")),
    ("CREATE TABLE shop.t (id BIGINT,, x INT)", SqlSyntaxError, ("line 1, column 32", "^")),
    ("CREATE TABLE shop.t (id BIGNIT)", Unsupported, ("BIGNIT",)),
    ("CREATE STREAM TABLE shop.s AS\nSELECT id\nFROM shop.sales GROUP id", SqlSyntaxError,
     ("line 3", "^")),
    ("UPDATE shop.sales SET amount + 1", SqlSyntaxError, ("line 1, column 30", "^")),
    ("DELETE shop.sales", SqlSyntaxError, ("line 1, column 8", "^")),
    ("SELECT 'open", SqlSyntaxError, ("line 1",)),
    ("INSERT INTO shop.sales VALUES (3, 'x', 1, NULL); SELECT FROM", SqlSyntaxError, ()),
    # statements that are not taken
    ("GRANT SELECT ON shop.sales TO bob", Unsupported, ("GRANT",)),
    ("BEGIN", Unsupported, ("transaction",)),
    ("CREATE TABLE shop.t (id INT) PARTITIONED BY (id)", Unsupported, ("PARTITIONED BY",)),
    ("CREATE TABLE shop.t (id INTERVAL DAY)", Unsupported, ("INTERVAL",)),
    ("CREATE TABLE shop.t (id INT DEFAULT 1)", Unsupported, ("DEFAULT",)),
    ("INSERT OVERWRITE shop.sales SELECT 1", Unsupported, ("OVERWRITE", "DELETE")),
    ("SELECT * FROM shop.sales VERSION AS OF 1", Unsupported, ("at(cut",)),
    # names that are taken, reserved or wrong
    ("CREATE TABLE shop.sales (id INT)", AlreadyExists, ("shop.sales",)),
    ("CREATE TABLE shop.SALES (id INT)", AlreadyExists, ("shop.sales",)),
    ("CREATE TABLE shop.eu (id INT)", AlreadyExists, ("a view",)),
    ("CREATE VIEW shop.sales AS SELECT 1 AS x", AlreadyExists, ("a table",)),
    ("CREATE OR REPLACE VIEW shop.sales AS SELECT 1 AS x", AlreadyExists, ("a table",)),
    ("CREATE STREAM TABLE shop.sales AS SELECT 1 AS x", AlreadyExists, ("a table",)),
    ("CREATE TABLE system.t (id INT)", Refused, ("system", "reserved")),
    ("INSERT INTO System.cuts VALUES (1)", Refused, ("System.cuts shows the catalog",)),
    ("CREATE STREAM TABLE shop.s AS SELECT * FROM system.cuts", Refused, ("shows the catalog",)),
    ("CREATE VIEW shop.v AS SELECT * FROM system.cuts", Refused, ("shows the catalog",)),
    ("CREATE TABLE shop.t (_ab_x INT)", InvalidValue, ("_ab_",)),
    ("CREATE TABLE shop.t (a INT, A INT)", InvalidValue, ("twice",)),
    ("CREATE TABLE `a.b`.t (id INT)", InvalidValue, ("dot",)),
    ("CREATE TABLE a.b.c.d (id INT)", InvalidValue, ("4 parts",)),
    ("CREATE STREAM TABLE shop.s AS SELECT id AS _ab_n FROM shop.sales", UserError, ("_ab_",)),
    ("CREATE STREAM TABLE shop.s AS SELECT id, id FROM shop.sales", UserError, ("id", "AS")),
    ("CREATE STREAM TABLE shop.s AS SELECT NULL AS n FROM shop.sales", Unsupported, ("n", "CAST")),
    ("CREATE STREAM TABLE shop.s AS SELECT * FROM shop.s", Refused, ("shop.s -> shop.s",)),
    ("CREATE OR REPLACE VIEW shop.eu AS SELECT * FROM shop.eu", Refused, ("read itself",)),
    # values of the wrong type
    ("INSERT INTO shop.sales VALUES ('x', 'y', 1, NULL)", UserError, ('column "id"', "string")),
    ("INSERT INTO shop.sales VALUES (1, 'y', 1, 5)", UserError, ('column "day"', "date")),
    ("INSERT INTO shop.sales VALUES (1, 'y')", UserError, ("4 values", "2")),
    ("INSERT INTO shop.sales (region) VALUES ('x')", DataError, ('"id"', "NULL")),
    ("INSERT INTO shop.sales (id) VALUES (NULL)", DataError, ("id", "NULL")),
    ("INSERT INTO shop.sales (id) VALUES (3000000000)", DataError, ("3000000000",)),
    ("INSERT INTO shop.sales VALUES (1, 'x', 123456.78, NULL)", DataError, ("123456.78",)),
    ("INSERT INTO shop.sales VALUES (1, 'x', 1, '2024-02-30')", DataError, ("2024-02-30",)),
    ("UPDATE shop.sales SET id = NULL WHERE id = 1", DataError, ("id", "NULL")),
    ("UPDATE shop.sales SET day = true", UserError, ("day",)),
    ("UPDATE shop.sales SET region = 'a', Region = 'b'", InvalidValue, ("twice",)),
    ("UPDATE shop.sales SET amount = amount / 0", DataError, ("zero",)),
    ("DELETE FROM shop.sales WHERE region", UserError, ()),
    ("UPDATE shop.sales SET amount = (SELECT amount FROM shop.sales)", DataError, ("one row",)),
    # settings and options
    ("SET anabranch.tick_intervall = 1s", UnknownName, ('mean "tick_interval"',)),
    ("SET anabranch.tick_interval = soon", InvalidValue, ("tick_interval", "soon")),
    ("SET anabranch.catalog = other.db", InvalidValue, ("cannot be changed",)),
    ("SET spark.sql.ansi.enabled = false", Unsupported, ("anabranch.",)),
    ("CREATE STREAM TABLE shop.s SCHEDULE 'soon' AS SELECT 1 AS x", InvalidValue, ("soon",)),
    ("CREATE STREAM TABLE shop.s REFRESH MODE SOMETIMES AS SELECT 1 AS x", SqlSyntaxError,
     ("SOMETIMES",)),
    ("CREATE STREAM TABLE shop.s WITH (color = 'red') AS SELECT 1 AS x", Unsupported, ("color",)),
    ("CREATE STREAM TABLE shop.s WITH (schedule = '2s') AS SELECT 1 AS x", Unsupported,
     ("write SCHEDULE",)),
    ("CREATE STREAM TABLE shop.s WITH (initialize = maybe) AS SELECT 1 AS x", InvalidValue,
     ("initialize", "'maybe'")),
    ("ALTER STREAM TABLE shop.s SET (initialize = true)", InvalidValue, ("for CREATE",)),
]  # fmt: skip


def test_statements_that_fail(shop: Anabranch, outside: Outside) -> None:
    wrong = []
    for statement, error, words in STATEMENTS:
        try:
            with refused(shop, outside, error, *words):
                shop.sql(statement)
        except BaseException as problem:
            wrong.append(f"{statement!r}\n   {type(problem).__name__}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert bag(shop.sql("SELECT id FROM shop.sales")) == rows((1,), (2,))


def test_calls_that_fail(shop: Anabranch, outside: Outside, tmp_path: Path) -> None:
    query = "SELECT id FROM shop.sales"
    for call, error, words in [
        (lambda: shop.append("shop.sales", pa.table({"idd": [1]})), UnknownName, ('mean "id"',)),
        (lambda: shop.append("shop.sales", pa.table({"id": ["x"]})), UserError, ("id",)),
        (lambda: shop.append("shop.sales", pa.table({"region": ["x"]})), DataError, ("id",)),
        (lambda: shop.append("shop.sales", "rows"), InvalidValue, ("str",)),
        (lambda: shop.create_stream_table("shop.s", query, schedule="soon"), InvalidValue, ("soon",)),
        (lambda: shop.create_stream_table("shop.s", query, refresh_mode="no"), InvalidValue, ("AUTO",)),
        (lambda: shop.create_stream_table("shop.s", query, diamond_consistency="x"), InvalidValue, ()),
        (lambda: shop.create_stream_table("shop s", query), InvalidValue, ("backticks",)),
        (lambda: shop.create_stream_table("a.b.c.d", query), InvalidValue, ("4 parts",)),
        (lambda: shop.create_stream_table("shop.s", "DELETE FROM shop.sales"), SqlSyntaxError, ()),
        (lambda: shop.create_stream_table("shop.s", f"{query}; {query}"), SqlSyntaxError, ()),
        (lambda: shop.create_stream_table("shop.s", ""), SqlSyntaxError, ()),
        (lambda: shop.alter_stream_table("shop.sales", schedule="1s"), UnknownName, ()),
        (lambda: shop.drop_stream_table("shop.sales"), UnknownName, ()),
        (lambda: shop.table("shop.sale"), UnknownName, ('mean "shop.sales"',)),
        (lambda: shop.table("shop."), InvalidValue, ()),
        (lambda: shop.set("parallelism", 0), InvalidValue, ("parallelism",)),
        (lambda: shop.set("colour", "red"), UnknownName, ("colour",)),
    ]:  # fmt: skip
        with refused(shop, outside, error, *words):
            call()


def test_catalog_or_warehouse_that_cannot_be_used(
    shop: Anabranch, tmp_path: Path, spark: Spark
) -> None:
    (tmp_path / "text.db").write_text("this is no database, it is a long text for people to read")
    for place, more, words in [
        ("/proc/nowhere/home", {}, "/proc/nowhere"),
        (str(tmp_path / "text.db"), {"warehouse": str(tmp_path / "w")}, "text.db"),
        ("postgresql://nobody:secret@127.0.0.1:9/none", {"warehouse": str(tmp_path / "w")}, "127"),
    ]:
        given = {"catalog": place, **more} if more else place
        with pytest.raises(Unreachable, match=words) as caught:
            anabranch.connect(given).status()
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidValue, match="parallelism"):
        anabranch.connect(tmp_path / "new", parallelism="many")
    # somebody else's warehouse
    other = {"catalog": str(tmp_path / "other.db"), "warehouse": str(tmp_path / "warehouse")}
    with anabranch.connect(other, spark=spark.session) as stranger:
        with pytest.raises(Unreachable, match="belongs to another catalog"):
            stranger.sql("CREATE TABLE shop.t (id INT)")
        assert stranger.cuts() == []
    # files that are gone
    warehouse = tmp_path / "warehouse"
    warehouse.rename(tmp_path / "moved")
    again = anabranch.connect(tmp_path, spark=spark.session)
    with again, pytest.raises(Unreachable, match=r"shop\.sales"):
        again.table("shop.sales")
    (tmp_path / "moved").rename(warehouse)
    assert bag(shop.table("shop.sales")).total() == 2


CREATE = """
import sys, anabranch
with anabranch.connect(sys.argv[1]) as ab:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        ab.sql("CREATE TABLE shop.race (id INT)")
        print("made")
    except anabranch.errors.AlreadyExists as error:
        print("taken")
"""


@pytest.mark.extended
def test_two_processes_make_the_same_table(shop: Anabranch, tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = sorted(racer.communicate(timeout=60)[0].strip() for racer in racers)
    assert answers == ["made", "taken"]
    assert bag(shop.table("shop.race")) == rows()


def test_two_threads_make_the_same_stream_table(
    shop: Anabranch, tmp_path: Path, spark: Spark
) -> None:
    answers = []
    start = threading.Barrier(2)

    def make() -> None:
        with anabranch.connect(tmp_path, spark=spark.session) as mine:
            start.wait()
            try:
                mine.create_stream_table("shop.race", "SELECT count(*) AS n FROM shop.sales")
                answers.append("made")
            except AlreadyExists:
                answers.append("taken")
            mine.append("shop.sales", [{"id": 7, "region": "race"}])  # lost races are run again

    racers = [threading.Thread(target=make) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(answers) == ["made", "taken"]
    shop.refresh()
    assert bag(shop.table("shop.race")) == rows((4,))


ODD = [
    "select", "a.b", "with space", 'quo"te', "back`tick", "ümläut", "имя", "pos", "file_path",
    "_metadata", "op", "1st", "_w", "action", "Mixed", "per%cent", "semi;colon", "a,b", "e0", "n=1",
]  # fmt: skip


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.extended
def test_odd_names(ab: Anabranch, outside: Outside) -> None:
    """Tables and columns of any name, through every statement."""
    table, stream, joined = '`my shop`.`sales.2024 "ü"`', "`my shop`.`by ``name```", "x.`группа`"
    ab.set("small_table_rows", 0)
    columns = ", ".join(f"{quoted(name)} STRING" for name in ODD)
    ab.sql(f"CREATE TABLE {table} (id BIGINT, {columns})")
    values = ", ".join(f"concat('{name[0]}', id % 3)" for name in ODD)
    ab.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(30)")
    names = ", ".join(quoted(name) for name in ODD)
    few = ", ".join(f"max({quoted(name)}) AS {quoted(name)}" for name in ODD[1:6])
    both = f"{table} a JOIN {stream} b ON a.id = b.id AND a.`a.b` = b.`a.b`"
    pairs = ", ".join(f"a.{quoted(name)} AS {quoted(name + '!')}" for name in ODD[:7])
    ab.create_stream_tables(
        {
            stream: f"SELECT id, {names} FROM {table} WHERE `with space` <> 'w2'",
            "x.groups": f"SELECT `select`, count(*) AS `count`, {few} FROM {table} GROUP BY `select`",
            joined: f"SELECT {pairs}, b.`pos` FROM {both}",
        }
    )
    everything = ", ".join(
        f"{quoted(name)} = upper({quoted(name)})" for name in ODD[1:] if name != "pos"
    )
    ab.sql(f"UPDATE {table} SET {everything}, `pos` = 'moved' WHERE `a.b` = 'a1' AND id < 5")
    ab.sql(f"DELETE FROM {table} WHERE `_metadata` = '_0' AND `file_path` = 'f0' AND id > 20")
    ab.sql(f"""
        MERGE INTO {table} t USING (SELECT 7 AS id, 'merged' AS `quo"te` UNION ALL SELECT 99, 'new') s
        ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.`quo"te` = s.`quo"te`
        WHEN NOT MATCHED THEN INSERT (id, `back``tick`) VALUES (s.id, s.`quo"te`)
    """)
    done = ab.refresh()
    assert {line["action"] for line in done} == {"DIFFERENTIAL"}
    for name in (stream, "x.groups", joined):
        assert ab.verify(name)["equal"]
    for name in (table, stream, joined):
        assert outside.bag(name) == bag(ab.table(name))
    assert ab.sql(f'SELECT t.`quo"te` FROM {table} t WHERE t.id = 7').first()[0] == "merged"
    with pytest.raises(Refused, match="read by stream table"):
        ab.sql(f"ALTER TABLE {table} RENAME COLUMN `a.b` TO `c.d`")
    alter(
        ab,
        f"ALTER TABLE {table} RENAME COLUMN `a.b` TO `c.d`; ALTER TABLE {table} ADD COLUMN `ü ü` INT",
    )
    assert {"c.d", "ü ü"} <= set(ab.table(table).columns)
    assert {str(row["name"]) for row in ab.status()} >= {"x.groups", "x.`группа`"}
    ab.sql(f"DROP STREAM TABLE {joined}; DROP STREAM TABLE {stream}; DROP STREAM TABLE x.groups")
    ab.sql(f"DROP TABLE {table}")


def test_columns_named_like_those_of_delete_files(ab: Anabranch, outside: Outside) -> None:
    """Beside a nested column other readers go by names, so the names in files must be known."""
    ab.set("small_table_rows", 0)
    ab.sql("CREATE TABLE odd.t (pos INT, File_Path STRING, list ARRAY<INT>, _metadata STRING)")
    ab.sql("INSERT INTO odd.t SELECT id, 'f', array(id), 'm' FROM range(20)")
    ab.create_stream_table("odd.s", "SELECT pos, file_path, list FROM odd.t WHERE pos < 15")
    ab.sql("UPDATE odd.t SET file_path = 'changed', pos = pos + 100 WHERE pos IN (3, 4)")
    ab.sql("DELETE FROM odd.t WHERE _metadata = 'm' AND file_path = 'f' AND pos = 5")
    assert ab.refresh()[0]["action"] == "DIFFERENTIAL"
    assert ab.verify("odd.s")["equal"]
    assert outside.bag("odd.t") == bag(ab.table("odd.t"))
    assert outside.bag("odd.s") == bag(ab.table("odd.s"))
    assert outside.bag("odd.t").total() == 19


STRINGS = r"""
    SELECT id, s, 'it''s' AS doubled, "it's" AS other, 'it\'s' AS escaped, 'a\\b' AS back,
        'tab\tend' AS tab, r'raw\n' AS raw, 'ü\u00fc' AS wide, '100\%' AS percent, 'a' 'b' AS two
    FROM lit.t WHERE s <> 'it''s' AND s NOT LIKE '%\\%%' AND s <> "dq""dq"
"""


@pytest.mark.extended
def test_string_literals_mean_what_they_mean_in_spark(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE lit.t (id INT, s STRING)")
    ab.append("lit.t", [{"id": 1, "s": "it's"}, {"id": 2, "s": "a\\b"}, {"id": 3, "s": "100%"}])
    ab.create_stream_table("lit.strings", STRINGS)
    ab.create_stream_table(
        "lit.groups", "SELECT concat(s, '''', \"\\\\\") AS g, count(*) AS n FROM lit.t GROUP BY s"
    )
    ab.sql(r"INSERT INTO lit.t VALUES (4, 'it''s'), (5, 'x\'y'), (6, 'c:\\d\\'), (7, r'\n')")
    assert bag(ab.sql("SELECT s FROM lit.t WHERE id > 3")) == rows(
        ("it's",), ("x'y",), ("c:\\d\\",), ("\\n",)
    )
    assert {line["action"] for line in ab.refresh()} == {"DIFFERENTIAL"}
    ab.spark.createDataFrame(ab.table("lit.t").collect(), "id INT, s STRING").createTempView(
        "lit_t"
    )
    direct = ab.spark.sql(STRINGS.replace("lit.t", "lit_t"))
    ab.spark.catalog.dropTempView("lit_t")
    assert bag(ab.table("lit.strings")) == bag(direct)
    assert bag(ab.sql("SELECT doubled FROM lit.strings LIMIT 1")) == rows(("it's",))
    assert bag(ab.table("lit.groups")) == rows(
        *((s + "'\\", n) for s, n in [("it's", 2), ("a\\b", 1), ("100%", 1), ("x'y", 1),
                                      ("c:\\d\\", 1), ("\\n", 1)])
    )  # fmt: skip

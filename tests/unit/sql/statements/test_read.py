"""Every statement becomes its record; everything else says what is possible instead."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from anabranch.errors import AnabranchError, InvalidValue, SqlSyntaxError, Unsupported
from anabranch.model import RefreshMode
from anabranch.names import TableName
from anabranch.sql.statements.column_types import column_type
from anabranch.sql.statements.read import (
    AddColumn,
    AlterStreamTable,
    AlterTable,
    ColumnDef,
    Comment,
    CreateCluster,
    CreateIndex,
    CreateStreamTable,
    CreateTable,
    CreateTableAs,
    CreateTest,
    CreateView,
    Delete,
    Describe,
    DropCluster,
    DropColumn,
    DropIndex,
    DropStreamTable,
    DropTable,
    DropView,
    ExplainStreamTable,
    Insert,
    Merge,
    MergeClause,
    Query,
    RefreshStreamTable,
    RenameColumn,
    Resume,
    Set,
    SetOptions,
    SetQuery,
    SetRefreshMode,
    SetSchedule,
    ShowTables,
    Statement,
    Suspend,
    Update,
    WidenColumn,
    parse_statement,
)
from anabranch.sql.statements.records import (
    AlterRefreshGroup,
    CreateRefreshGroup,
    DropRefreshGroup,
    Rows,
)
from anabranch.sql.text.parse import split
from anabranch.sql.text.tokens import Place

T = TableName.of("t")
SALES = TableName.of("shop", "sales")

STATEMENTS: list[tuple[str, Statement]] = [
    ("SELECT 1", Query("SELECT 1")),
    ("-- c\nselect 1 /* d */ ;", Query("select 1")),
    ("VALUES (1), (2)", Query("VALUES (1), (2)")),
    ("(SELECT 1)", Query("(SELECT 1)")),
    ("CREATE TABLE t (a INT)", CreateTable(T, (ColumnDef("a", "int"),))),
    (
        "create table if not exists `shop`.Sales (id BIGINT NOT NULL COMMENT 'it''s; id', "
        '`a b` decimal( 12 , 2 )) USING Iceberg COMMENT "x"',
        CreateTable(
            TableName.of("shop", "Sales"),
            (ColumnDef("id", "bigint", False, "it's; id"), ColumnDef("a b", "decimal(12,2)")),
            if_not_exists=True,
            comment="x",
        ),
    ),
    (
        "CREATE TABLE t (`from` INT, date DATE, check STRING, constraint INT, comment INT COMMENT '')",
        CreateTable(
            T,
            (
                ColumnDef("from", "int"),
                ColumnDef("date", "date"),
                ColumnDef("check", "string"),
                ColumnDef("constraint", "int"),
                ColumnDef("comment", "int", comment=""),
            ),
        ),
    ),
    ("CREATE OR REPLACE TABLE t AS SELECT 1 AS a", CreateTableAs(T, "SELECT 1 AS a", False, True)),
    ("DROP TABLE IF EXISTS t", DropTable(T, True)),
    ("ALTER TABLE t ADD COLUMN c INT", AlterTable(T, (AddColumn(ColumnDef("c", "int")),))),
    (
        "ALTER TABLE t ADD COLUMNS (a INT, b STRING COMMENT 'x')",
        AlterTable(
            T,
            (AddColumn(ColumnDef("a", "int")), AddColumn(ColumnDef("b", "string", True, "x"))),
        ),
    ),
    ("ALTER TABLE t DROP COLUMN c", AlterTable(T, (DropColumn("c"),))),
    (
        "ALTER TABLE t DROP COLUMNS IF EXISTS (a, `b c`)",
        AlterTable(T, (DropColumn("a", True), DropColumn("b c", True))),
    ),
    ("ALTER TABLE t RENAME COLUMN a TO b", AlterTable(T, (RenameColumn("a", "b"),))),
    ("ALTER TABLE t ALTER COLUMN a TYPE LONG", AlterTable(T, (WidenColumn("a", "bigint"),))),
    ("INSERT INTO t VALUES (1, 'a;b')", Insert(T, "VALUES (1, 'a;b')")),
    ("INSERT INTO TABLE t (a, `b`) SELECT 1, 2", Insert(T, "SELECT 1, 2", ("a", "b"))),
    ("INSERT INTO t (SELECT 1)", Insert(T, "(SELECT 1)")),
    ("INSERT INTO t BY NAME SELECT 1 AS a", Insert(T, "SELECT 1 AS a", by_name=True)),
    (
        "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
        Insert(T, "WITH q AS (SELECT 1) SELECT * FROM q"),
    ),
    (
        "UPDATE shop.sales SET amount = amount * 2, x = 'a, b' WHERE id IN (1, 2)",
        Update(SALES, (("amount", "amount * 2"), ("x", "'a, b'")), None, "id IN (1, 2)"),
    ),
    (
        "UPDATE shop.sales AS s SET s.x = CASE WHEN s.case THEN f(a, b) ELSE s.end END, y == 2",
        Update(SALES, (("x", "CASE WHEN s.case THEN f(a, b) ELSE s.end END"), ("y", "2")), "s"),
    ),
    (
        "UPDATE shop.sales SET shop.sales.x = 1, sales.y = s.where WHERE sales.set = 1",
        Update(SALES, (("x", "1"), ("y", "s.where")), None, "sales.set = 1"),
    ),
    (
        "UPDATE t SET x = (SELECT max(y) FROM u WHERE u.a = 1) WHERE -- c\r\n x = 'é'",
        Update(T, (("x", "(SELECT max(y) FROM u WHERE u.a = 1)"),), None, "x = 'é'"),
    ),
    ("DELETE FROM t", Delete(T)),
    ("delete from t x where x.a = 'WHERE'", Delete(T, "x", "x.a = 'WHERE'")),
    ("TRUNCATE TABLE t", Delete(T)),
    (
        "CREATE OR REPLACE VIEW v (a, b) COMMENT 'c' AS SELECT 1, 2",
        CreateView(TableName.of("v"), "SELECT 1, 2", True, False, ("a", "b"), "c"),
    ),
    ("DROP VIEW IF EXISTS v", DropView(TableName.of("v"), True)),
    ("CREATE STREAM TABLE t AS SELECT 1", CreateStreamTable(T, "SELECT 1")),
    (
        "CREATE STREAM TABLE t WITH (a = 'b', C.d = -1, e = true) IN CLUSTER big "
        "REFRESH MODE full SCHEDULE '2s' AS WITH q AS (SELECT 1) SELECT * FROM q",
        CreateStreamTable(
            T,
            "WITH q AS (SELECT 1) SELECT * FROM q",
            "2s",
            RefreshMode.FULL,
            "big",
            {"a": "b", "c.d": "-1", "e": "true"},
        ),
    ),
    (
        "CREATE STREAM TABLE IF NOT EXISTS t SCHEDULE NONE AS SELECT 1",
        CreateStreamTable(T, "SELECT 1", None, if_not_exists=True),
    ),
    (
        "CREATE OR REPLACE STREAM TABLE t SCHEDULE CALCULATED AS SELECT 1",
        CreateStreamTable(T, "SELECT 1", "calculated", or_replace=True),
    ),
    ("ALTER STREAM TABLE t SET SCHEDULE '5s'", AlterStreamTable(T, SetSchedule("5s"))),
    (
        "ALTER STREAM TABLE t SET REFRESH MODE DIFFERENTIAL",
        AlterStreamTable(T, SetRefreshMode(RefreshMode.DIFFERENTIAL)),
    ),
    ("ALTER STREAM TABLE t AS SELECT 2", AlterStreamTable(T, SetQuery("SELECT 2"))),
    ("ALTER STREAM TABLE t SET (a = b)", AlterStreamTable(T, SetOptions({"a": "b"}))),
    ("ALTER STREAM TABLE t SUSPEND", AlterStreamTable(T, Suspend())),
    ("ALTER STREAM TABLE t RESUME", AlterStreamTable(T, Resume())),
    ("DROP STREAM TABLE IF EXISTS t CASCADE", DropStreamTable(T, True, True)),
    ("REFRESH STREAM TABLE shop.sales", RefreshStreamTable(SALES)),
    ("REFRESH ALL STREAM TABLES", RefreshStreamTable()),
    ("EXPLAIN STREAM TABLE t", ExplainStreamTable(T)),
    ("EXPLAIN STREAM TABLE t RULES", ExplainStreamTable(T, rules=True)),
    ("SET", Set()),
    ("SET anabranch.tick_interval", Set("tick_interval")),
    ("SET Anabranch.tick_interval = '1s'", Set("tick_interval", "1s")),
    ("SET anabranch.spark.master = local[2]", Set("spark.master", "local[2]")),
    ("CREATE CLUSTER c", CreateCluster("c", "c")),
    (
        "create or replace cluster c pool 'p' with (weight = 2, Min_Share = 1)",
        CreateCluster("c", "p", None, {"weight": "2", "min_share": "1"}, or_replace=True),
    ),
    (
        "CREATE CLUSTER IF NOT EXISTS c ADDRESS 'sc://h' WITH (spark.sql.x.maxY = '8')",
        CreateCluster("c", None, "sc://h", {"spark.sql.x.maxY": "8"}, if_not_exists=True),
    ),
    ("DROP CLUSTER IF EXISTS c", DropCluster("c", True)),
    ("CREATE INDEX i ON shop.sales (a, `b c`)", CreateIndex("i", SALES, ("a", "b c"))),
    (
        "CREATE INDEX IF NOT EXISTS i ON t (a) IN CLUSTER c",
        CreateIndex("i", T, ("a",), "c", if_not_exists=True),
    ),
    ("DROP INDEX i ON t", DropIndex("i", T)),
    ("COMMENT ON TABLE t IS 'x'", Comment(T, "x")),
    ("COMMENT ON STREAM TABLE shop.sales IS NULL", Comment(SALES, None)),
    ("COMMENT ON COLUMN shop.sales.a IS 'x'", Comment(SALES, "x", "a")),
    (
        "CREATE TEST t FOR shop.sales GIVEN t AS (SELECT (1) AS a) EXPECT NO ROWS",
        CreateTest("t", SALES, ((T, Rows("SELECT (1) AS a")),), None),
    ),
    (
        "CREATE TEST t GIVEN t (a, b) AS (VALUES (1, 2)) EXPECT (a) AS (VALUES (1))",
        CreateTest(
            "t", None, ((T, Rows("VALUES (1, 2)", ("a", "b"))),), Rows("VALUES (1)", ("a",))
        ),
    ),
    ("CREATE TEST t EXPECT (VALUES (1))", CreateTest("t", None, (), Rows("VALUES (1)"))),
    (
        "CREATE TEST t AT '2024-01-31' EXPECT NO ROWS",
        CreateTest("t", None, (), None, datetime(2024, 1, 31, tzinfo=timezone.utc)),
    ),
    ("SHOW TABLES", ShowTables()),
    ("SHOW TABLES IN shop LIKE 'a*'", ShowTables("shop", "a*")),
    ("SHOW STREAM TABLES", ShowTables(streams_only=True)),
    ("DESCRIBE TABLE shop.sales", Describe(SALES)),
    ("DESC t", Describe(T)),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_statement(text: str, statement: Statement) -> None:
    assert parse_statement(text) == statement
    assert parse_statement(f"  -- before\r\n{text}\n ; -- after") == statement


def test_merge() -> None:
    text = """
        MERGE INTO shop.sales AS t USING (SELECT * FROM new WHERE x) AS s
        ON t.id = s.id AND CASE WHEN s.a THEN true ELSE false END
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.x = CASE WHEN s.x > 1 THEN s.x ELSE 0 END, y = s.y
        WHEN NOT MATCHED BY TARGET AND s.x > 0 THEN INSERT (id, x) VALUES (s.id, coalesce(s.x, 0))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET x = 0"""
    assert parse_statement(text) == Merge(
        SALES,
        "SELECT * FROM new WHERE x",
        "t.id = s.id AND CASE WHEN s.a THEN true ELSE false END",
        (
            MergeClause("matched", "delete", "s.gone"),
            MergeClause(
                "matched",
                "update",
                None,
                (("x", "CASE WHEN s.x > 1 THEN s.x ELSE 0 END"), ("y", "s.y")),
            ),
            MergeClause(
                "not_matched", "insert", "s.x > 0", (("id", "s.id"), ("x", "coalesce(s.x, 0)"))
            ),
            MergeClause("not_matched", "insert", star=True),
            MergeClause("not_matched_by_source", "update", None, (("x", "0"),)),
        ),
        "t",
        None,
        "s",
    )


def test_merge_from_a_table() -> None:
    found = parse_statement("MERGE INTO t USING new.x ON t.a = x.a WHEN MATCHED THEN UPDATE SET *")
    assert isinstance(found, Merge)
    assert found.source_table == TableName.of("new", "x")
    assert found.source == "SELECT * FROM `new`.`x`"
    assert found.source_alias is None


def test_queries_know_where_they_start() -> None:
    script = "SELECT 1;\r\nCREATE STREAM TABLE t -- x\r\n  AS\r\n    SELECT 'é',\n  1"
    found = parse_statement(split(script)[1])
    assert isinstance(found, CreateStreamTable)
    assert found.query == "SELECT 'é',\n  1"
    assert found.query_at == Place(4, 5)
    assert found.query_at.shift(Place(2, 3)) == Place(5, 3)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("BOOLEAN", "boolean"),
        ("byte", "tinyint"),
        ("SHORT", "smallint"),
        ("Integer", "int"),
        ("LONG", "bigint"),
        ("REAL", "float"),
        ("DOUBLE", "double"),
        ("DEC", "decimal(10,0)"),
        ("NUMERIC(5)", "decimal(5,0)"),
        ("DECIMAL (38 , 38)", "decimal(38,38)"),
        ("STRING", "string"),
        ("CHARACTER(3)", "char(3)"),
        ("varchar( 10 )", "varchar(10)"),
        ("BINARY", "binary"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("ARRAY<ARRAY<INT>>", "array<array<int>>"),
        ("MAP<STRING, DATE>", "map<string,date>"),
        ("STRUCT<A: INT, `b c` STRING>", "struct<A:int,`b c`:string>"),
    ],
)
def test_types(text: str, canonical: str) -> None:
    assert column_type(text) == canonical
    assert column_type(canonical) == canonical


REFUSALS: list[tuple[str, type[AnabranchError], str]] = [
    ("", SqlSyntaxError, "found nothing"),
    ("-- c", SqlSyntaxError, "found nothing"),
    ("SELECT 1; SELECT 2", SqlSyntaxError, "line 1, column 11"),
    ("SELCT 1", SqlSyntaxError, 'did you mean "SELECT"'),
    ("FOO 1", SqlSyntaxError, "possible: SELECT, INSERT"),
    ("123", SqlSyntaxError, "expected a statement"),
    ("BEGIN", Unsupported, "ab.transaction()"),
    ("commit", Unsupported, "ab.transaction()"),
    ("USE shop", Unsupported, "schema.table"),
    ("EXPLAIN SELECT 1", Unsupported, "EXPLAIN STREAM TABLE"),
    ("REFRESH TABLE t", Unsupported, "REFRESH STREAM TABLE"),
    ("SHOW VIEWS", Unsupported, "SHOW VIEWS is not supported"),
    ("SET spark.x = 1", Unsupported, "start with anabranch."),
    ("SET anabranch.x =", SqlSyntaxError, "expected a value"),
    ("CREATE SCHEMA shop", Unsupported, "created on first use"),
    ("CREATE INDEX i ON t", SqlSyntaxError, 'expected "("'),
    ("CREATE INDEX i ON t (a, A)", InvalidValue, "column A appears twice"),
    ("CREATE OR REPLACE INDEX i ON t (a)", SqlSyntaxError, "drop the index"),
    ("CREATE CLUSTER c POOL 'p' ADDRESS 'sc://h'", SqlSyntaxError, "not both"),
    ("CREATE CLUSTER c ADDRESS 'http://h'", InvalidValue, "write ADDRESS 'sc://host:15002'"),
    ("CREATE CLUSTER c WITH (wieght = 1)", InvalidValue, 'did you mean "weight"?'),
    ("CREATE CLUSTER c WITH (weight = heavy)", InvalidValue, "not a whole number"),
    ("CREATE CLUSTER c ADDRESS 'sc://h' WITH (weight = 1)", InvalidValue, "start with spark."),
    ("COMMENT ON COLUMN c IS ''", SqlSyntaxError, "COMMENT ON COLUMN table.column"),
    ("COMMENT ON SCHEMA s IS ''", SqlSyntaxError, "expected TABLE, VIEW, STREAM TABLE or COLUMN"),
    ("CREATE TEST t", SqlSyntaxError, "expected GIVEN or EXPECT"),
    ("CREATE TEST t AT 'noon' EXPECT NO ROWS", SqlSyntaxError, "'noon' is not a point in time"),
    ("CREATE TEST t GIVEN a AS (SELECT 1) GIVEN a AS (SELECT 1)", SqlSyntaxError, "given twice"),
    ("CREATE TEST t EXPECT (SELEC 1)", SqlSyntaxError, "expected a query"),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", Unsupported, "CREATE TEMPORARY"),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", Unsupported, "CREATE STREAM TABLE"),
    ("CREATE TABEL t (a INT)", SqlSyntaxError, 'did you mean "TABLE"'),
    ("CREATE TABLE t", SqlSyntaxError, "expected the columns"),
    ("CREATE TABLE t (a INT", SqlSyntaxError, 'expected ")"'),
    ("CREATE TABLE t (a INT) x", SqlSyntaxError, 'unexpected "x"'),
    ("CREATE TABLE a-b (a INT)", SqlSyntaxError, "backticks"),
    ("CREATE TABLE 'a' (a INT)", SqlSyntaxError, "expected a table name"),
    ("CREATE TABLE a.b.c.d (a INT)", InvalidValue, "4 parts"),
    ("CREATE TABLE t (a INT, A INT)", InvalidValue, "appears twice"),
    ("CREATE TABLE t (_AB_w INT)", InvalidValue, "may not start with _ab_"),
    ("CREATE TABLE t (a INT DEFAULT 3)", Unsupported, "DEFAULT"),
    ("CREATE TABLE t (a INT GENERATED ALWAYS AS (1))", Unsupported, "GENERATED"),
    ("CREATE TABLE t (a INT PRIMARY KEY)", Unsupported, "PRIMARY KEY"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a))", Unsupported, "PRIMARY KEY"),
    ("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 1))", Unsupported, "CONSTRAINT"),
    ("CREATE TABLE t (a INT) PARTITIONED BY (a)", Unsupported, "PARTITIONED BY"),
    ("CREATE TABLE t (a INT) TBLPROPERTIES ('a' = 'b')", Unsupported, "TBLPROPERTIES"),
    ("CREATE TABLE t (a INT) LOCATION 'x'", Unsupported, "LOCATION"),
    ("CREATE TABLE t (a INT) USING delta", Unsupported, "USING delta"),
    ("CREATE TABLE t (a INT) AS SELECT 1", Unsupported, "columns from the query"),
    ("CREATE TABLE t LIKE u", Unsupported, "LIKE"),
    ("CREATE TABLE t (a INTERVAL)", Unsupported, "INTERVAL"),
    ("CREATE TABLE t (a VARIANT)", Unsupported, "VARIANT"),
    ("CREATE TABLE t (a VOID)", Unsupported, "VOID"),
    ("CREATE TABLE t (a TIME)", Unsupported, "TIME"),
    ("CREATE TABLE t (a INTERGER)", Unsupported, 'did you mean "INTEGER"'),
    ("CREATE TABLE t (a DECIMAL(39,2))", InvalidValue, "precision is 1 to 38"),
    ("CREATE TABLE t (a STRUCT<b: INT NOT NULL>)", Unsupported, "NOT NULL inside STRUCT"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", SqlSyntaxError, "do not go together"),
    ("ALTER TABLE t RENAME TO u", Unsupported, "cannot be renamed"),
    ("ALTER TABLE t ADD COLUMN c INT AFTER b", Unsupported, "AFTER"),
    ("ALTER TABLE t ADD COLUMN c INT NOT NULL", Unsupported, "cannot be added as NOT NULL"),
    ("ALTER TABLE t ADD COLUMN c.d INT", Unsupported, "field inside column c"),
    ("ALTER TABLE t DROP PARTITION (a = 1)", Unsupported, "DROP PARTITION"),
    ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", Unsupported, "ALTER COLUMN … SET"),
    ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", Unsupported, "ALTER TABLE … SET"),
    ("INSERT OVERWRITE t SELECT 1", Unsupported, "INSERT OVERWRITE"),
    ("INSERT INTO t PARTITION (a = 1) SELECT 1", Unsupported, "PARTITION"),
    ("INSERT INTO t (a, a) SELECT 1, 2", InvalidValue, "appears twice"),
    ("INSERT INTO t VALUES (1", SqlSyntaxError, "is not closed"),
    ("INSERT INTO t", SqlSyntaxError, "expected a query"),
    ("UPDATE t SET x = DEFAULT", Unsupported, "DEFAULT"),
    ("UPDATE t SET x =", SqlSyntaxError, "expected an expression"),
    ("UPDATE t SET x = 1, X = 2", InvalidValue, "appears twice"),
    ("UPDATE t SET a.b = 1", Unsupported, "set the whole column"),
    ("UPDATE t SET x = 1 WHERE", SqlSyntaxError, "expected an expression"),
    ("UPDATE t SET x = 1 2 WHERE y", SqlSyntaxError, 'unexpected "2"'),
    ("DELETE t", SqlSyntaxError, "expected FROM"),
    ("MERGE INTO t USING s ON t.a = s.a", SqlSyntaxError, "expected WHEN"),
    ("MERGE INTO t USING s ON a WHEN MATCHED THEN INSERT *", SqlSyntaxError, "UPDATE or DELETE"),
    (
        "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
        SqlSyntaxError,
        "names 2 columns but gives 1 values",
    ),
    (
        "MERGE INTO t USING s ON a WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
        SqlSyntaxError,
        "without a condition",
    ),
    ("CREATE STREAM TABLE t SELECT 1", SqlSyntaxError, "expected SCHEDULE"),
    ("CREATE STREAM TABLE t SCHEDUL '1s' AS SELECT 1", SqlSyntaxError, 'did you mean "SCHEDULE"'),
    ("CREATE STREAM TABLE t SCHEDULE 5 AS SELECT 1", SqlSyntaxError, "such as '2s'"),
    ("CREATE STREAM TABLE t REFRESH MODE FAST AS SELECT 1", SqlSyntaxError, "not a refresh mode"),
    ("CREATE STREAM TABLE t SCHEDULE '1s' SCHEDULE '2s' AS SELECT 1", SqlSyntaxError, "twice"),
    ("CREATE STREAM TABLE t WITH (a = 1, A = 2) AS SELECT 1", InvalidValue, "twice"),
    ("CREATE STREAM TABLE t (a) AS SELECT 1", Unsupported, "columns from the query"),
    ("CREATE STREAM TABLE t AS DELETE FROM u", SqlSyntaxError, "expected a query"),
    ("CREATE STREAM TABLE t AS SELECT 1 1", SqlSyntaxError, "line 1, column 35"),
    ("ALTER STREAM TABLE t SET FOO", SqlSyntaxError, "expected SET SCHEDULE"),
    ("DROP STREAM TABLE t u", SqlSyntaxError, 'unexpected "u"'),
]


@pytest.mark.parametrize(("text", "kind", "says"), REFUSALS, ids=[text for text, _, _ in REFUSALS])
def test_refusal(text: str, kind: type[AnabranchError], says: str) -> None:
    with pytest.raises(AnabranchError) as error:
        parse_statement(text)
    assert type(error.value) is kind
    assert says in str(error.value)


def test_a_long_insert_is_read_quickly() -> None:
    rows = ", ".join(f"({i}, 'name {i}')" for i in range(20_000))
    found = parse_statement(f"INSERT INTO t VALUES {rows}")
    assert isinstance(found, Insert)
    assert found.query.endswith("(19999, 'name 19999')")


def test_names_of_fewer_parts_are_at_home_somewhere() -> None:
    home = ("db", "shop")
    for text, name in [("t", "db.shop.t"), ("s.t", "db.s.t"), ("x.s.t", "x.s.t")]:
        found = parse_statement(f"CREATE TABLE {text} (a INT)", home)
        assert isinstance(found, CreateTable)
        assert str(found.name) == name
    found = parse_statement("COMMENT ON COLUMN t.a IS ''", home)
    assert found == Comment(TableName.of("db", "shop", "t"), "", "a")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("CREATE REFRESH GROUP g (s.a, s.b)", {}),
        ("CREATE REFRESH GROUP g MEMBERS (s.a, s.b);", {}),
        (
            "CREATE REFRESH GROUP g (s.a, s.b) ISOLATION READ COMMITTED",
            {"isolation": "read_committed"},
        ),
        (
            "CREATE REFRESH GROUP g (s.a, s.b) ISOLATION 'repeatable_read' "
            "WITH (snapshot_timeout_ms = 500)",
            {"isolation": "repeatable_read", "snapshot_timeout_ms": "500"},
        ),
    ],
)
def test_refresh_groups(text: str, options: dict[str, str]) -> None:
    members = (TableName.of("s", "a"), TableName.of("s", "b"))
    assert parse_statement(text) == CreateRefreshGroup("g", members, options)
    assert parse_statement("DROP REFRESH GROUP IF EXISTS g") == DropRefreshGroup("g", True)


def test_alter_refresh_group() -> None:
    a, b, c = (TableName.parse(f"s.{each}") for each in "abc")
    everything = parse_statement(
        "ALTER REFRESH GROUP g ADD (s.a, s.b) DROP s.c SET ISOLATION READ COMMITTED "
        "SET SNAPSHOT TIMEOUT 500;"
    )
    options = {"isolation": "read_committed", "snapshot_timeout_ms": "500"}
    assert everything == AlterRefreshGroup("g", (a, b), (c,), options)
    text = "ALTER REFRESH GROUP g SET (isolation = 'read_committed', snapshot_timeout_ms = 500)"
    assert parse_statement(text) == AlterRefreshGroup("g", options=options)
    for text, says in (
        ("ALTER REFRESH GROUP g", "expected ADD, DROP"),
        ("ALTER REFRESH GROUP g SET (speed = 1)", 'no option "speed"'),
        ("ALTER REFRESH GROUP g ADD", "expected"),
    ):
        with pytest.raises(AnabranchError, match=says):
            parse_statement(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE OR REPLACE REFRESH GROUP g (a, b)", "DROP REFRESH GROUP first"),
        ("CREATE REFRESH GROUP g (a, b) WITH (speed = 'high')", 'no option "speed"'),
        ("CREATE REFRESH GROUP g (a, b) QUICKLY", "expected ISOLATION or WITH"),
        ("CREATE REFRESH GROUP (a, b)", "a group's name"),
    ],
)
def test_what_is_no_refresh_group(text: str, says: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        parse_statement(text)
    assert says in str(caught.value)

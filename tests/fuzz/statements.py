"""SQL of every statement form, right and then spoilt."""

from __future__ import annotations

import inspect
import random

from anabranch.verbs.table import PROCEDURES
from tests.fuzz.values import LETTERS, TEXTS, mutated, text

NAMES = (
    "s.t",
    "s.u",
    "s.d",
    "s.e",
    "s.v",
    "s.new",
    "t",
    "`s`.`t`",
    "a.b.c",
    "system.cuts",
    "s.nothing",
)
EXPRESSIONS = (
    "k",
    "v",
    "1",
    "NULL",
    "'x'",
    "k + 1",
    "k / 0",
    "CAST(v AS INT)",
    "CAST('x' AS BIGINT)",
    "sum(k)",
    "count(*)",
    "k = 1",
    "v LIKE '%'",
    "(SELECT max(k) FROM s.t)",
    "k IN (SELECT k FROM s.u)",
    "9999999999999999999",
    "1e400",
    "-9223372036854775808",
    "DATE '2020-02-30'",
    "TIMESTAMP '99999-01-01'",
    "INTERVAL 1 DAY",
    "INTERVAL '9999999999' YEAR",
    "array(1, 2)[5]",
    "map('a', 1)",
    "struct(1, 2).x",
    "X'0g'",
    "r'\\'",
    "CAST(k AS VOID)",
    "CAST(1 AS DECIMAL(39, 40))",
    "CAST(1 AS NOTHING)",
    "nosuch(k)",
    "reflect('a', 'b')",
    "sum(k) OVER (PARTITION BY v)",
    "CASE WHEN k THEN 1 END",
    "$1",
    ":x",
    "?",
    "k::int",
    "@x",
    "k.v.w.x",
    "EXISTS (SELECT 1)",
    "NOT k",
    "k AND v",
    "rand()",
    "current_date()",
    "'\\u12'",
    "'\\U11ffffff'",
    "'\\ud800'",
    "'\\0'",
    "sum(sum(k))",
    "count(DISTINCT k, v)",
    "substring(v, 1e10)",
    "repeat(v, 1000)",
)
TYPES = (
    "BIGINT",
    "STRING",
    "DECIMAL(12,2)",
    "DECIMAL(99,1)",
    "INT",
    "VOID",
    "NOTHING",
    "ARRAY<INT>",
    "MAP<INT>",
    "STRUCT<a: INT>",
    "VARCHAR(0)",
    "TIMESTAMP",
    "DECIMAL(-1)",
    "CHAR",
    "ARRAY<",
    "VARIANT",
    "INTERVAL YEAR",
)
# Of CALL: the names of arguments, and values.
ARGUMENTS = tuple(
    sorted(
        {
            argument
            for verb in PROCEDURES.values()
            for argument in inspect.signature(verb.act()).parameters
        }
    )
)
VALUES = (
    *("TRUE", "FALSE", "NULL", "0", "-1", "1e400", "9223372036854775808", "1L", "1.5BD", "- 1"),
    *("'s.d'", "'s.t'", "'nowhere/at/all'", "'\\ud800'", "'\\U11ffffff'", "r'\\ud800'", '"x"'),
    *("k", "array(1)", "DATE '2020-01-01'", "1 + 1", "'a' 'b'", "ENV('X')", "'8f3a'", "1", "2"),
)
FORMS = (
    "SELECT {e} AS a, {e} AS b FROM {n} WHERE {e} GROUP BY {e} ORDER BY {e} LIMIT {e}",
    "SELECT {e} AS a FROM {n}",
    "SELECT * FROM {n} JOIN {n} ON {e}",
    "SELECT {e} AS a UNION SELECT {e}",
    "WITH c AS (SELECT {e} AS a FROM {n}) SELECT * FROM c",
    "VALUES ({e}, {e}), ({e})",
    "FROM {n}",
    "WITH RECURSIVE c AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM c WHERE a < 5) SELECT * FROM c",
    "CREATE TABLE {n} (k {t}, v {t})",
    "CREATE OR REPLACE TABLE {n} (k {t} NOT NULL COMMENT 'x')",
    "CREATE TABLE IF NOT EXISTS {n} AS SELECT {e} AS a FROM {n}",
    "DROP TABLE {n}",
    "DROP TABLE IF EXISTS {n}",
    "ALTER TABLE {n} ADD COLUMN c {t}",
    "ALTER TABLE {n} ADD COLUMNS (c {t}, d {t})",
    "ALTER TABLE {n} DROP COLUMN k",
    "ALTER TABLE {n} RENAME COLUMN k TO c",
    "ALTER TABLE {n} ALTER COLUMN k TYPE {t}",
    "INSERT INTO {n} VALUES ({e}, {e})",
    "INSERT INTO {n} (k, v) SELECT {e}, {e} FROM {n}",
    "UPDATE {n} SET k = {e}, v = {e} WHERE {e}",
    "DELETE FROM {n} WHERE {e}",
    "DELETE FROM {n}",
    "MERGE INTO {n} USING {n} x ON {e} WHEN MATCHED AND {e} THEN UPDATE SET v = {e}"
    " WHEN NOT MATCHED THEN INSERT (k, v) VALUES ({e}, {e})",
    "CREATE VIEW {n} AS SELECT {e} AS a FROM {n}",
    "CREATE OR REPLACE VIEW {n} (c) AS SELECT {e} AS a FROM {n}",
    "DROP VIEW {n}",
    "CREATE STREAM TABLE {n} AS SELECT {e} AS a FROM {n}",
    "CREATE STREAM TABLE {n} SCHEDULE '{x}' REFRESH MODE AUTO AS SELECT k, {e} AS a FROM {n}",
    "CREATE OR REPLACE STREAM TABLE {n} REFRESH MODE DIFFERENTIAL AS"
    " SELECT {e} AS a, count(*) AS c FROM {n} GROUP BY 1",
    "CREATE STREAM TABLE IF NOT EXISTS {n} IN CLUSTER {n} WITH (max_fixpoint_rows = '{x}') AS"
    " SELECT k FROM {n}",
    "CREATE STREAM TABLE {n} WITH ({x} = '{x}') AS SELECT {e} AS a FROM {n}",
    "ALTER STREAM TABLE {n} SET SCHEDULE '{x}'",
    "ALTER STREAM TABLE {n} SET REFRESH MODE {x}",
    "ALTER STREAM TABLE {n} AS SELECT {e} AS a FROM {n}",
    "ALTER STREAM TABLE {n} SET (diamond_consistency = '{x}')",
    "ALTER STREAM TABLE {n} SUSPEND",
    "ALTER STREAM TABLE {n} RESUME",
    "DROP STREAM TABLE {n}",
    "DROP STREAM TABLE IF EXISTS {n} CASCADE",
    "REFRESH STREAM TABLE {n}",
    "REFRESH STREAM TABLE {n} FULL",
    "CREATE REFRESH GROUP {x} ({n}, {n}) WITH (isolation = '{x}', snapshot_timeout_ms = '{x}')",
    "CREATE REFRESH GROUP g ({n}, {n})",
    "ALTER REFRESH GROUP g ADD {n}",
    "DROP REFRESH GROUP {x}",
    "CREATE CLUSTER c POOL '{x}'",
    "CREATE CLUSTER {x} WITH ('{x}' = '{x}')",
    "DROP CLUSTER {x}",
    "CREATE INDEX i ON {n} (k)",
    "CREATE INDEX {x} ON {n} (k, {x})",
    "DROP INDEX i ON {n}",
    "DROP VIEW {n} CASCADE",
    "DROP TABLE IF EXISTS {n} CASCADE",
    "ALTER TABLE {n} DROP COLUMN k CASCADE",
    "ALTER TABLE {n} DROP COLUMNS (k, {x})",
    "ALTER TABLE {n} DROP COLUMN IF EXISTS {x}",
    "ALTER TABLE {n} ADD COLUMN IF NOT EXISTS c {t} COMMENT '{x}'",
    "CREATE TABLE {n} (k {t} COMMENT '{x}') COMMENT '{x}'",
    "CREATE TABLE {n} (k {t}, d {t}) PARTITIONED BY (k, {x})",
    "CREATE TABLE {n} (k {t}) PARTITIONED BY (bucket({e}, k), days(k))",
    "SELECT * FROM {n} VERSION AS OF {e}",
    "SELECT * FROM {n} FOR VERSION AS OF '{x}'",
    "SELECT * FROM {n} TIMESTAMP AS OF {e}",
    "SELECT * FROM {n} FOR SYSTEM_TIME AS OF '{x}'",
    "CREATE STREAM TABLE {n} AS SELECT k FROM {n} VERSION AS OF {e}",
    "CREATE STREAM TABLE {n} TARGET LAG '{x}' AS SELECT '{x}' AS a FROM {n}",
    "SELECT '{x}' AS a, \"{x}\" AS b FROM {n} WHERE v LIKE '{x}' ESCAPE '{x}'",
    "ATTACH CATALOG {x} TYPE {x} WITH ('{x}' = '{x}')",
    "ATTACH CATALOG p TYPE sql WITH (uri = '{x}')",
    "ATTACH CATALOG p TYPE rest WITH (uri = '{x}', token = ENV('{x}'))",
    "ATTACH OR REPLACE CATALOG p TYPE {x} WITH ({x} = FILE('{x}'), uri = 'sqlite:///{x}')",
    "ATTACH CATALOG IF NOT EXISTS {n} TYPE sql WITH (uri = 'sqlite://')",
    "DETACH CATALOG {x}",
    "DETACH CATALOG IF EXISTS {x} CASCADE",
    "SELECT * FROM p.s.{x}",
    "CALL system.{p}()",
    "CALL system.{p}({a})",
    "CALL system.{p}({a}, {a})",
    "CALL system.{p}({k} => {a})",
    "CALL system.{p}('{n}', {k} => {a}, {k} => {a})",
    "CALL {x}.{p}({a})",
    "ALTER REFRESH GROUP g DROP {n} WITH (isolation = '{x}')",
    "ALTER REFRESH GROUP {x} ADD {n} DROP {n}",
    "CREATE CLUSTER c ADDRESS '{x}' WITH ('{x}' = ENV('{x}'))",
    "CREATE OR REPLACE CLUSTER IF NOT EXISTS {x} POOL '{x}' WITH (weight = {e})",
    "CREATE TEST {x} FOR {n} AT '{x}' GIVEN {n} (k) AS (VALUES ({e})) EXPECT NO ROWS",
    "CREATE TEST x GIVEN {n} (k) AS (VALUES ({e})) EXPECT (k) AS (VALUES ({e}))",
    "CREATE EXPECTATION {x} ON {n} CHECK ({e}) ON VIOLATION {x}",
    "COMMENT ON VIEW {n} IS NULL",
    "COMMENT ON TABLE {n} IS '{x}'",
    "COMMENT ON COLUMN {n}.k IS '{x}'",
    "CREATE TEST x GIVEN {n} (k) AS (VALUES ({e}))",
    "EXPLAIN STREAM TABLE {n}",
    "EXPLAIN STREAM TABLE {n} RULES",
    "SET anabranch.{x} = {x}",
    "SET anabranch.tick_interval = '{x}'",
    "SET",
    "SHOW TABLES",
    "SHOW TABLES IN {x} LIKE '{x}'",
    "SHOW STREAM TABLES",
    "DESCRIBE {n}",
    "SELECT * FROM system.settings",
    "SELECT * FROM system.{x}",
    "TRUNCATE TABLE {n}",
    "USE {n}",
    "CACHE TABLE {n}",
    "ADD JAR 'x'",
    "GRANT ALL ON {n} TO x",
    "BEGIN",
    "COMMIT",
    "CALL x()",
    "LOAD DATA INPATH '{x}' INTO TABLE {n}",
)


def statement(rng: random.Random) -> str:
    found = rng.choice(FORMS)
    slots = (
        *(("{n}", NAMES), ("{e}", EXPRESSIONS), ("{t}", TYPES), ("{x}", TEXTS)),
        *(("{p}", tuple(PROCEDURES)), ("{k}", ARGUMENTS), ("{a}", VALUES)),
    )
    for slot, choices in slots:
        while slot in found:
            odd = rng.random() < 0.08
            found = found.replace(slot, text(rng) if odd else rng.choice(choices), 1)
    chance = rng.random()
    if chance < 0.25:
        return mutated(rng, found)
    if chance < 0.3:
        return spoilt_words(rng, found)
    if chance < 0.34:
        return deep(rng, found)
    if chance < 0.36:
        return found + rng.choice((" ", "\n", "-- x", "/* x", ";", ";;", "; ;")) * rng.choice(
            (1, 2000)
        )
    return found


def spoilt_words(rng: random.Random, given: str) -> str:
    """Words lost, doubled and in another order."""
    words = given.split(" ")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(words))
        other = rng.choice((rng.choice(words), rng.choice(LETTERS)))
        words[at : at + 1] = rng.choice(([], [words[at]] * 2, [other]))
        words = words or [""]
    return " ".join(words)


def deep(rng: random.Random, given: str) -> str:
    """Nested beyond what a parser's stack holds, or long beyond reason."""
    depth = rng.choice((20, 100, 400, 3000))
    shape = rng.randrange(6)
    if shape == 0:
        return f"SELECT {'(' * depth}1{')' * depth} AS a"
    if shape == 1:
        return "SELECT * FROM (" * depth + "SELECT k FROM s.t" + ")" * depth
    if shape == 2:
        return "SELECT " + "-" * depth + "1 AS a"
    if shape == 3:
        return "SELECT " + " + ".join(["k"] * min(depth, 100)) + " AS a FROM s.t"
    if shape == 4:
        return "SELECT " + "NOT " * depth + "true AS a"
    return "CREATE TABLE s.n (k " + "ARRAY<" * depth + "INT" + ">" * depth + ")"

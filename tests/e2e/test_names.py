"""Every operator meets names that need quotes, that mean something elsewhere, or that look alike."""

# ruff: noqa: E501  a query is read best in one line

from __future__ import annotations

from pathlib import Path
from string import Template

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import UserError
from anabranch.names import quote
from anabranch.spark.session import Spark
from tests.another_program import alter
from tests.e2e.world import Outside, bag, rows

# Keys, values, and a text; the names of tables.
NAMES = {
    "k": "a b",
    "s": "select",
    "d": "a.b",
    "b": "x`y.z",
    "u": "e\u0301t\u00e9",  # an accent of its own, and one in the letter
    "e": "😀 ",
    "e2": "😀",  # the same but for the blank behind it
    "r": "שלום",
    "n": 'it\'s "1\\2", (-- {{c}} /* :p ?',
    "l": "two\nlines",
    "t": "t a.b`c",  # the first table
    "o": "from",  # and the other
}
Q = {short: quote(name) for short, name in NAMES.items()}
COLUMNS = "$k INT, $s BIGINT, $d STRING, $b INT, $u INT, $e INT, $e2 INT, $r INT, $n INT, $l STRING"
ROWS = [
    "(1, 10, 'x', 2, 1, 1, 2, 3, 4, 'l')",
    "(1, 20, 'y', 3, 1, 2, 2, 3, 4, 'l')",
    "(2, 30, 'x', 4, 2, 3, 2, 1, 4, NULL)",
    "(2, 30, 'x', 4, 2, 3, 2, 1, 4, NULL)",
    "(3, NULL, 'z', 1, 2, 4, 5, 6, 7, 'm')",
]
QUERIES = {
    "filtered": "SELECT $k, $d, $b, $u, $e, $e2, $r, $n, $l FROM $t WHERE $s > 5 AND $d <> 'q'",
    "projected": "SELECT *, $e + $e2 AS `e + e2`, $n + 1 AS `1` FROM $t AS `t 1`",
    "joined": "SELECT $t.$k, `o o`.$d, `o o`.$e AS $e2 FROM $t JOIN $o AS `o o` ON $t.$b = `o o`.$k",
    "outer": "SELECT p.$d AS $l, q.$r, q.$n AS $k FROM $t p LEFT JOIN $o q ON p.$b = q.$k AND q.$e > 0",
    "full": "SELECT p.$d AS $l, q.$r FROM $t p FULL JOIN $o q USING ($k)",
    "semi": "SELECT $k, $n FROM $t WHERE EXISTS (SELECT 1 FROM $o WHERE $o.$k = $t.$b AND $o.$e2 > 0)",
    "anti": "SELECT $k, $n FROM $t WHERE $b NOT IN (SELECT $k FROM $o WHERE $r IS NOT NULL)",
    "summed": "SELECT $k, SUM($s) AS `sum of it`, COUNT(*) AS `count(*)`, AVG($b) AS $b FROM $t GROUP BY $k",
    "extrema": "SELECT $l AS $d, MIN($n) AS $n, MAX($d) AS $l, SUM($e) AS $e, COUNT($e2) AS $e2 FROM $t GROUP BY $l",
    "whole": "SELECT SUM($s) AS $s, MAX($r) AS $r FROM $t",
    "grouped": "SELECT $d, COUNT(DISTINCT $u) AS $u, MEDIAN($e) AS $e FROM $t GROUP BY $d",
    "above": "SELECT `a.b`, `a b` * 2 AS $b FROM (SELECT $d AS `a.b`, MAX($k) AS `a b` FROM $t GROUP BY $d) AS `x y` WHERE `x y`.`a b` > 0",
    "distinct": "SELECT DISTINCT $d, $l FROM $t",
    "united": "SELECT $k, $d FROM $t UNION SELECT $e AS `other`, $l FROM $o",
    "without": "SELECT $k, $d FROM $t EXCEPT ALL SELECT $k, $d FROM $o",
    "both": "SELECT $k FROM $t INTERSECT SELECT $k FROM $o",
    "windowed": "SELECT $k, $n, ROW_NUMBER() OVER (PARTITION BY $d ORDER BY $s, $e, $b) AS `row number` FROM $t",
    "top": "SELECT $k, $s AS `ORDER` FROM $t ORDER BY $s DESC, $k LIMIT 3",
    "exploded": "SELECT $k, `v.v`.`c c` FROM $t LATERAL VIEW explode(array($e, $e2)) `v.v` AS `c c`",
    "inlined": "SELECT $k, inline(array(struct($e AS `x:y`, $d AS `<z>`))) FROM $t",
    "nested": "SELECT $k, struct($e AS `i n`, $d AS `j.k`) AS $s, map($k, $d) AS $d, array(named_struct('``', $b)) AS $b FROM $t",
    "field": "SELECT v.`i n`, v.`j.k` FROM (SELECT struct($e AS `i n`, $d AS `j.k`) AS v FROM $t)",
    "pivoted": "SELECT * FROM (SELECT $k, $d, $b FROM $t) PIVOT (SUM($b) FOR $d IN ('x' AS `x x`, 'y' AS `y.y`))",
    "rolled_up": "SELECT $k, $d, SUM($s) AS `s s`, GROUPING($k) AS `g g` FROM $t GROUP BY ROLLUP ($k, $d)",
    "scalar": "SELECT $k, (SELECT MAX($s) FROM $o AS `i.n` WHERE `i.n`.$k = `o.t`.$b) AS `m m` FROM $t AS `o.t`",
    "recursive": (
        "WITH RECURSIVE `r r` (`f f`, `t.t`, `d``d`) AS (SELECT $k, $b, 1 FROM $t UNION ALL "
        "SELECT `f f`, $t.$b, `d``d` + 1 FROM `r r` JOIN $t ON `t.t` = $t.$k WHERE `d``d` < 3) "
        "SELECT `f f`, `t.t`, $o.$d FROM `r r` LEFT JOIN $o ON $o.$k = `t.t`"
    ),
}
CYCLE = {
    "c.`way s`": "SELECT $k, $b FROM $t UNION SELECT p.$k, q.$b FROM c.`m.m` p JOIN $t q ON p.$b = q.$k",
    "c.`m.m`": "SELECT $k, $b FROM c.`way s` UNION SELECT $k, $e FROM $o",
}
WINDOWS = [
    [
        "INSERT INTO $t VALUES (4, 5, 'x', 1, 3, 1, 1, 1, 1, 'n'), (1, 7, NULL, 3, 1, 0, 2, 9, 0, 'l')",
        "UPDATE $t SET $s = $s + 1, $e = 9, $t.$n = $e2, $l = $d WHERE $d = 'y' AND $b > 0",
        "DELETE FROM $o WHERE $k = 2",
    ],
    [
        "DELETE FROM $t AS `x y` WHERE `x y`.$s = 30 OR `x y`.$r IN (SELECT $r FROM $o WHERE $d = 'z')",
        (
            "MERGE INTO $t USING (SELECT 1 AS $k, 2 AS $e, 'm' AS $d UNION ALL SELECT 8, 8, 'x') AS `s.s` "
            "ON $t.$k = `s.s`.$k AND $t.$e = `s.s`.$e "
            "WHEN MATCHED AND `s.s`.$d = 'q' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET $l = `s.s`.$d, $t.$b = `s.s`.$e "
            "WHEN NOT MATCHED THEN INSERT ($k, $d, $e, $b) VALUES (`s.s`.$k, `s.s`.$d, `s.s`.$e, 2) "
            "WHEN NOT MATCHED BY SOURCE AND $n = 7 THEN DELETE"
        ),
        "MERGE INTO $o USING (SELECT * FROM $t WHERE $k = 4) AS `4` ON $o.$k = `4`.$k WHEN NOT MATCHED THEN INSERT *",
    ],
]


def told(text: str) -> str:
    return Template(text).substitute(Q)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("small", "windows"),
    [
        pytest.param(100_000, [[*WINDOWS[0], *WINDOWS[1]]], id="rewritten"),
        pytest.param(0, WINDOWS, id="deleted by position", marks=pytest.mark.slow),
    ],
)
@pytest.mark.extended
def test_every_operator_meets_odd_names(
    spark: Spark, tmp_path: Path, small: int, windows: list[list[str]]
) -> None:
    settings = {"small_table_rows": small, "allow_circular": True}
    with anabranch.connect(tmp_path, spark=spark.session, **settings) as ab:
        for table in ("$t", "$o"):
            ab.sql(told(f"CREATE TABLE {table} ({COLUMNS})"))
        ab.sql(told(f"INSERT INTO $t VALUES {', '.join(ROWS)}"))
        ab.sql(told(f"INSERT INTO $o VALUES {', '.join(ROWS[2:])}"))
        queries = {f"st.{name}": told(query) for name, query in QUERIES.items()}
        ab.create_stream_tables(queries, refresh_mode="DIFFERENTIAL", schedule=None)
        cycle = {name: told(query) for name, query in CYCLE.items()}
        ab.create_stream_tables(cycle, refresh_mode="DIFFERENTIAL", schedule=None)
        ab.sql(told("CREATE INDEX `by name` ON $t ($k, $d)"))
        outside = Outside(tmp_path)
        check(ab, outside, queries, cycle)
        for window in windows:
            with ab.transaction():
                for statement in window:
                    ab.sql(told(statement))
            done = {line["table"]: line for line in ab.refresh()}
            actions = {name: done[name]["action"] for name in [*queries, *cycle] if name in done}
            assert set(actions.values()) <= {"DIFFERENTIAL", "NO_DATA"}, done
            check(ab, outside, queries, cycle)
        alter(ab, told("ALTER TABLE $t RENAME COLUMN $u TO `an.other ``name```"))
        ab.maintain()
        found = bag(ab.table(told("$t"), where=told("$k = 1 AND $d = 'x'")))
        assert found == bag(ab.sql(told("SELECT * FROM $t WHERE $k = 1 AND $d = 'x'")))
        outside.catalog.close()


def test_an_incremental_sum_meets_odd_names(ab: Anabranch) -> None:
    """The least of the above: blanks, backticks, dots and keywords in keys, values and results."""
    ab.sql(told("CREATE TABLE $t ($k INT, $s BIGINT, $b INT)"))
    ab.sql(told("INSERT INTO $t VALUES (1, 10, 2), (1, 20, 3), (2, 30, 4)"))
    query = "SELECT $k, SUM($s) AS `sum of it`, MAX($b) AS `from` FROM $t GROUP BY $k"
    ab.create_stream_table("odd", told(query), refresh_mode="DIFFERENTIAL", schedule=None)
    ab.sql(told("UPDATE $t SET $s = $s + 1 WHERE $b = 3"))
    ab.refresh("odd")
    assert ab.history("odd")[0]["action"] == "DIFFERENTIAL"
    assert bag(ab.table("odd")) == rows((1, 31, 3), (2, 30, 4))
    assert ab.verify("odd")["equal"]


def check(ab: Anabranch, outside: Outside, queries: dict[str, str], cycle: dict[str, str]) -> None:
    wrong = {}
    for name, query in queries.items():
        is_nested = name == "st.nested"  # PyIceberg has other words for structs and maps
        kept = bag(ab.table(name)) if is_nested else outside.bag(name)
        expected = bag(ab.sql(query))
        if kept != expected:
            wrong[name] = {"too much": kept - expected, "missing": expected - kept}
    assert wrong == {}
    for name in [*cycle, "st.summed", "st.extrema", "st.nested", "st.recursive"]:
        assert ab.verify(name)["equal"], name


def test_names_that_differ_in_case_only_are_one_name(ab: Anabranch) -> None:
    """As in Spark; a blank behind a name is a part of it."""
    with pytest.raises(UserError, match="twice|same name|two columns"):
        ab.sql("CREATE TABLE twice (`É a` INT, `é A` INT)")
    ab.sql("CREATE TABLE once (`É a` INT, `é a ` INT)")
    ab.sql("INSERT INTO once VALUES (1, 2)")
    with pytest.raises(UserError, match="`z Z` twice"):
        ab.create_stream_table("s", "SELECT `é a` AS `Z z`, `É a ` AS `z Z` FROM once")
    ab.create_stream_table("s", "SELECT `É A`, sum(`É A `) AS `z ` FROM once GROUP BY `é A`")
    ab.sql("INSERT INTO once VALUES (1, 3)")
    ab.refresh("s")
    assert ab.history("s")[0]["action"] == "DIFFERENTIAL"
    assert [tuple(row) for row in ab.table("s").collect()] == [(1, 5)]
    assert ab.verify("s")["equal"]

"""A mistake in a statement that writes is told before Spark has to start, at its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import UnknownName, UserError
from anabranch.names import TableName
from anabranch.spark import session
from anabranch.sql.analyze.columns import Column, Relation, table
from anabranch.sql.analyze.writes import mistake_of_write
from anabranch.sql.batches import batches
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateTable, Delete, Insert, Merge, Statement, Update
from anabranch.types import Type
from tests.e2e import traps

TABLES = (
    "CREATE TABLE shop.sales (id INT, region STRING, total DECIMAL(6,2), day DATE, tags ARRAY<INT>)",
    "CREATE TABLE shop.news (id INT, region STRING, price INT)",
)
MERGE = "MERGE INTO shop.sales s USING shop.news n ON s.id = n.id "


@pytest.fixture
def ab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anabranch]:
    def start(*given: Any, **named: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(session, "connect", start)
    with anabranch.connect(tmp_path) as opened:
        for each in TABLES:
            opened.sql(each)
        yield opened


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE shop.sales SET totl = 1", 'no column "totl" (line 1, column 23)'),
        ("UPDATE shop.sales SET total = totl", "column totl does not exist (line 1, column 31)"),
        ("UPDATE shop.sales\n  SET total = 1\n  WHERE totl > 1", "(line 3, column 9)"),
        ("UPDATE shop.sales SET day = 1", "is date and cannot take int (line 1, column 29)"),
        ("UPDATE shop.sales SET id = 1 WHERE total", "WHERE takes a condition, not decimal(6,2)"),
        ("UPDATE shop.sales SET id = sum(id)", "SET cannot use the aggregate sum"),
        (
            "UPDATE shop.sales SET id = (SELECT max(prise) FROM shop.news)",
            "column prise does not exist (line 1, column 40)",
        ),
        ("DELETE FROM shop.sales WHERE day > 7", "cannot be compared"),
        ("DELETE FROM shop.sales x WHERE y.id = 1", "column y.id does not exist (line 1, column 32)"),
        ("DELETE FROM shop.sales WHERE tags AND true", "AND takes conditions, not array<int>"),
        ("INSERT INTO shop.news SELECT id, region FROM shop.sales", "takes 3 values and was given 2"),
        ("INSERT INTO shop.news (id, regoin) SELECT 1, 'x'", 'no column "regoin" (line 1, column 28)'),
        ("INSERT INTO shop.news (id, regoin) VALUES (1, 'x')", 'no column "regoin"'),
        ("INSERT INTO shop.news (id, region) SELECT 1", "takes 2 values and was given 1"),
        ("INSERT INTO shop.news BY NAME SELECT 1 AS id, 2 AS prise", 'no column "prise"'),
        ("INSERT INTO shop.news\nSELECT id, regn, 1 FROM shop.sales", "regn does not exist (line 2,"),
        ("INSERT INTO shop.sales (id, day) SELECT 1, id FROM shop.news", "is date and cannot take int"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET total = region", "column region is ambiguous"),
        (MERGE + "WHEN MATCHED THEN UPDATE SET totl = 1", 'no column "totl" (line 1, column 87)'),
        (MERGE + "WHEN MATCHED AND n.price THEN DELETE", "WHEN takes a condition, not int"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", "column s.id does not exist"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT *", 'the source has no column "total" for INSERT *'),
        (MERGE + "WHEN NOT MATCHED BY SOURCE AND price > 1 THEN DELETE", "price does not exist"),
        (MERGE.replace("n.id", "n.idd") + "WHEN MATCHED THEN DELETE", "n.idd does not exist"),
        (MERGE.replace("s.id", "s.day") + "WHEN MATCHED THEN DELETE", "cannot be compared"),
        (
            "MERGE INTO shop.sales s USING (SELECT idd FROM shop.news) n ON true"
            " WHEN MATCHED THEN DELETE",
            "column idd does not exist (line 1, column 39)",
        ),
    ],
)  # fmt: skip
def test_mistakes(ab: Anabranch, statement: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        ab.sql(statement)
    assert said in str(raised.value)
    assert "line" in str(raised.value) or "*" in statement


def test_cures(ab: Anabranch) -> None:
    with pytest.raises(UnknownName, match='did you mean "total"'):
        ab.sql("UPDATE shop.sales SET totl = 1")
    with pytest.raises(UserError, match="put the table's name before it"):
        ab.sql(MERGE + "WHEN MATCHED THEN UPDATE SET total = region")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shop.sales AS s SET total = s.total + 1, day = '2024-01-01' WHERE s.id = '7'",
        "UPDATE shop.sales SET total = sales.id, region = id WHERE shop.sales.id IN (1, 2)",
        "UPDATE shop.sales SET total = NULL, tags = array() WHERE id = (SELECT max(id) FROM shop.news)",
        "UPDATE shop.sales SET total = transform(tags, x -> x + id)[0], day = current_date",
        "DELETE FROM shop.sales WHERE EXISTS (SELECT 1 FROM shop.news n WHERE n.id = sales.id)",
        "INSERT INTO shop.news (region, id) SELECT region, id FROM shop.sales",
        "INSERT INTO shop.news BY NAME SELECT 1 AS price, 2 AS ID",
        "INSERT INTO shop.news VALUES (1, 'x', 2)",
        "INSERT INTO shop.news SELECT 1, 2, 3.5",
        MERGE + "WHEN MATCHED AND s.total > n.price THEN UPDATE SET s.total = n.price, id = n.id"
        " WHEN NOT MATCHED THEN INSERT (id, total) VALUES (id, price)"
        " WHEN NOT MATCHED BY SOURCE AND total > 3 THEN UPDATE SET total = total + 1",
        "MERGE INTO shop.news USING (SELECT id, region, price FROM shop.news) ON news.id = source.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ],
)  # fmt: skip
def test_what_spark_takes_is_not_blamed(statement: str) -> None:
    made = [parse_statement(each) for each in TABLES]
    tables = [each for each in made if isinstance(each, CreateTable)]
    assert judged(parse_statement(statement), tables) is None


def judged(statement: Statement, tables: list[CreateTable]) -> str | None:
    known = {
        each.name: tuple(Column(c.name, Type.parse(c.type)) for c in each.columns)
        for each in tables
    }

    def relation(name: TableName) -> Relation:
        return table(name, known[name]) if name in known else Relation(None)

    assert isinstance(statement, Insert | Update | Delete | Merge)
    name = statement.target if isinstance(statement, Merge) else statement.table
    wrong = mistake_of_write(statement, name, relation)
    return None if wrong is None else str(wrong)


@pytest.mark.parametrize("name", sorted({*traps.names()} - {"schema"}))  # which alters tables
def test_writes_of_the_traps_are_not_blamed(name: str) -> None:
    made: list[CreateTable] = []
    for window in traps.load(name).windows:
        for batch in batches(window.statements):
            for statement in batch.statements:
                if isinstance(statement, CreateTable):
                    made.append(statement)
                elif isinstance(statement, Insert | Update | Delete | Merge):
                    assert judged(statement, made) is None, statement

"""What a stranger's SQL or project must not do, through every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.errors import Refused, UnknownName
from tests.standin.engine import connect, installed
from tests.unit.project.folder import ORDERS, mistakes, project

CODE = "reflect('java.lang.System', 'getenv', 'HOME')"


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v STRING)")
        opened.sql("INSERT INTO s.t VALUES (1, 'a')")
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {CODE} AS x FROM s.t",
        f"INSERT INTO s.t VALUES (2, {CODE})",
        f"INSERT INTO s.t SELECT k, {CODE} FROM s.t",
        f"UPDATE s.t SET v = {CODE}",
        f"UPDATE s.t SET v = 'b' WHERE v = {CODE}",
        f"DELETE FROM s.t WHERE v = {CODE}",
        f"MERGE INTO s.t USING (SELECT 1 AS k, {CODE} AS v) u ON t.k = u.k"
        " WHEN MATCHED THEN UPDATE SET v = u.v",
        "MERGE INTO s.t USING s.t u ON t.k = u.k"
        f" WHEN MATCHED AND u.v <> {CODE} THEN UPDATE SET v = {CODE}",
        "MERGE INTO s.t USING s.t u ON t.k = u.k"
        f" WHEN NOT MATCHED THEN INSERT (k, v) VALUES (1, {CODE})",
        f"CREATE TABLE s.u AS SELECT {CODE} AS x",
        f"CREATE VIEW s.w AS SELECT {CODE} AS x FROM s.t",
        f"CREATE STREAM TABLE s.x AS SELECT k, {CODE} AS x FROM s.t",
        "CREATE STREAM TABLE s.x AS SELECT TRANSFORM (k) USING 'cat' AS (x STRING) FROM s.t",
    ],
)
def test_no_statement_runs_code(ab: Anabranch, text: str) -> None:
    before, cuts = ab.tables(), len(ab.cuts())
    with pytest.raises(Refused, match="may run code"):
        ab.sql(text)
    assert ab.tables() == before
    assert len(ab.cuts()) == cuts


def test_a_function_that_nobody_knows_is_not_called(ab: Anabranch) -> None:
    with pytest.raises(UnknownName, match="there is no function my_udf"):
        ab.sql("CREATE STREAM TABLE s.x AS SELECT my_udf(v) AS x FROM s.t")


def test_no_other_door_does(ab: Anabranch) -> None:
    ab.create_stream_table("s.x", "SELECT k FROM s.t")
    with ab.at() as world:
        for act in (
            lambda: world.sql(f"SELECT {CODE} AS x FROM s.t"),
            lambda: world.table("s.t", where=f"v = {CODE}"),
            lambda: ab.alter_stream_table("s.x", query=f"SELECT k, {CODE} AS x FROM s.t"),
            lambda: ab.create_stream_tables({"s.y": f"SELECT k, {CODE} AS x FROM s.t"}),
        ):
            with pytest.raises(Refused, match="may run code"):
                act()


def test_what_an_operator_allowed_is_refused_where_nobody_did(
    ab: Anabranch, tmp_path: Path
) -> None:
    """A view made by a process that may run code turns nothing on in one that may not."""
    ab.sql("CREATE VIEW s.w AS SELECT k, v AS x FROM s.t")
    ab.create_stream_table("s.x", "SELECT k, x FROM s.w")
    with ab._store.writing() as c:
        c.execute(update(tables.views).values(query=f"SELECT k, {CODE} AS x FROM s.t"))
    for act in (lambda: ab.table("s.w"), lambda: ab.sql("SELECT * FROM s.w")):
        with pytest.raises(Refused, match="may run code"):
            act()
    with pytest.raises(Refused, match="may run code"):
        ab.refresh("s.x")
    with connect(tmp_path / "home", allow_external_code=True) as trusted:
        trusted._world().guard(f"SELECT {CODE}")


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE STREAM TABLE x AS SELECT id, {CODE} AS x FROM orders",
        f"CREATE VIEW x AS SELECT id, {CODE} AS x FROM orders",
        "CREATE STREAM TABLE x AS SELECT id FROM orders; CREATE TEST a"
        f" GIVEN orders (id, region) AS (VALUES (1, {CODE})) EXPECT (id) AS (VALUES (1))",
    ],
)
def test_a_project_runs_no_code(tmp_path: Path, text: str) -> None:
    found = project(tmp_path, orders=ORDERS, x=text)
    assert any("reflect may run code" in each for each in mistakes(found)), mistakes(found)

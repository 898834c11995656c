"""A script that stops says where, and what stands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, SqlSyntaxError
from tests.standin.engine import connect, installed


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        yield opened


def failed(ab: Anabranch, text: str) -> str:
    with pytest.raises(AnabranchError) as error:
        ab.sql(text)
    return str(error.value)


def test_where_a_script_stopped(ab: Anabranch) -> None:
    said = failed(ab, "CREATE TABLE s.t (k INT); INSERT INTO s.u VALUES (1); DROP TABLE s.t")
    assert "there is no table s.u" in said
    assert (
        "statement 2 of 3 failed: what came before it took effect, and nothing after it was run"
        in said
    )
    assert [row["table"] for row in ab.tables()] == ["s.t"]


def test_the_first_and_the_last(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t (k INT)")
    first = failed(ab, "DROP TABLE s.u; DROP TABLE s.t")
    assert "statement 1 of 2 failed: nothing was done, and nothing after it was run" in first
    last = failed(ab, "INSERT INTO s.t VALUES (1); DROP TABLE s.u")
    assert last.endswith("statement 2 of 2 failed: what came before it took effect")


def test_inside_a_transaction(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t (k INT)")
    with ab.transaction():
        said = failed(ab, "INSERT INTO s.t VALUES (1); DROP TABLE s.u")
        assert said.endswith("what came before it took effect in the open transaction")
    assert ab.table("s.t").collect() == [(1,)]


def test_one_statement_says_nothing_of_others(ab: Anabranch) -> None:
    assert "statement" not in failed(ab, "DROP TABLE s.u")


def test_nothing_runs_of_a_script_that_does_not_parse(ab: Anabranch) -> None:
    with pytest.raises(SqlSyntaxError):
        ab.sql("CREATE TABLE s.t (k INT); INSRT INTO s.t VALUES (1)")
    assert not ab.tables()

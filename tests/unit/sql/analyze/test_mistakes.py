"""A mistake in a query is told before Spark has to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.cli.main import run
from anabranch.errors import UnknownName, UserError
from anabranch.spark import session

TABLE = "CREATE TABLE shop.sales (id INT, region STRING, total DECIMAL(6,2), toll_x INT)"


@pytest.fixture
def ab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anabranch]:
    def start(*given: Any, **named: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(session, "connect", start)
    with anabranch.connect(tmp_path) as opened:
        opened.sql(TABLE)
        yield opened
        assert not opened._runtime.spark.started


@pytest.mark.parametrize(
    "act",
    [
        lambda ab, query: ab.sql(query),
        lambda ab, query: ab.create_stream_table("shop.s", query),
        lambda ab, query: ab.sql(f"CREATE STREAM TABLE shop.s AS {query}"),
        lambda ab, query: ab.sql(f"CREATE VIEW shop.v AS {query}"),
    ],
    ids=["select", "create_stream_table", "statement", "view"],
)
def test_a_column_that_does_not_exist(ab: Anabranch, act: Callable[[Anabranch, str], Any]) -> None:
    with pytest.raises(UnknownName) as caught:
        act(ab, "SELECT o.region,\n  o.totl FROM shop.sales AS o")
    assert caught.value.message == "column o.totl does not exist (line 2, column 3)"
    assert caught.value.hint == 'did you mean "o.total"?'


def test_other_mistakes(ab: Anabranch) -> None:
    with pytest.raises(UserError, match="column region is neither in GROUP BY nor inside"):
        ab.sql("SELECT region, count(*) FROM shop.sales")
    with pytest.raises(UserError, match="WHERE takes a condition, not int"):
        ab.create_stream_table("shop.s", "SELECT id FROM shop.sales WHERE id")
    with pytest.raises(UnknownName, match="column statuss does not exist"):
        ab.sql("SELECT statuss FROM system.stream_tables")


def test_the_command(tmp_path: Path, ab: Anabranch, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--home", str(tmp_path), "sql", "SELECT totl FROM shop.sales"])
    said = capsys.readouterr().err
    assert code == 1
    assert "column totl does not exist (line 1, column 8)" in said
    assert 'did you mean "total"?' in said

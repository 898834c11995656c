"""Queries that DIFFERENTIAL refuses, and mistakes, are told before Spark has to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.catalog import streams
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AlreadyExists, NotIncremental, Refused, UnknownName, UserError
from anabranch.model import RefreshMode
from anabranch.names import TableName
from anabranch.spark import session

KEPT = TableName.parse("shop.kept")
RANDOM = "SELECT id, rand() AS r FROM shop.sales"


@pytest.fixture
def ab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anabranch]:
    def start(*given: Any, **named: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(session, "connect", start)
    with anabranch.connect(tmp_path) as opened:
        opened.sql("CREATE TABLE shop.sales (id INT, region STRING)")
        opened.sql("CREATE TABLE shop.kept (id INT)")
        stream = StreamTable(KEPT, "SELECT id FROM shop.sales", "", RefreshMode.DIFFERENTIAL)
        with opened._runtime.store.writing() as c:
            streams.add(c, [stream])
            streams.set_dependencies(c, {KEPT: (TableName.parse("shop.sales"),)})
        yield opened


@pytest.mark.parametrize(
    "act",
    [
        lambda ab: ab.create_stream_table("shop.s", RANDOM, refresh_mode="DIFFERENTIAL"),
        lambda ab: ab.sql(f"CREATE STREAM TABLE shop.s REFRESH MODE DIFFERENTIAL AS {RANDOM}"),
        lambda ab: ab.sql(
            f"CREATE OR REPLACE STREAM TABLE shop.kept REFRESH MODE DIFFERENTIAL AS {RANDOM}"
        ),
        lambda ab: ab.sql(f"ALTER STREAM TABLE shop.kept AS {RANDOM}"),
        lambda ab: ab.alter_stream_table("shop.kept", query=RANDOM),
        lambda ab: ab.create_stream_tables(
            {"shop.one": "SELECT id FROM shop.sales", "shop.two": RANDOM.replace("sales", "one")},
            refresh_mode="DIFFERENTIAL",
        ),
    ],
    ids=["create", "statement", "replace", "alter", "alter_stream_table", "batch"],
)
def test_what_differential_refuses(ab: Anabranch, act: Callable[[Anabranch], Any]) -> None:
    with pytest.raises(NotIncremental) as caught:
        act(ab)
    assert "NONDETERMINISTIC_FUNCTION at line 1, column 12: rand: the function may" in str(
        caught.value
    )
    assert "REFRESH MODE AUTO" in (caught.value.hint or "")


def test_every_reason_is_told(ab: Anabranch) -> None:
    query = "SELECT id, rand() AS r, uuid() AS u FROM shop.sales"
    with pytest.raises(NotIncremental, match=r"rand: (.|\n)*uuid: "):
        ab.create_stream_table("shop.s", query, refresh_mode="DIFFERENTIAL")


def test_reasons_that_a_plan_tells(ab: Anabranch) -> None:
    with pytest.raises(NotIncremental, match="LIMIT_WITHOUT_ORDER at line 1, column 27"):
        ab.create_stream_table(
            "shop.s", "SELECT id FROM shop.sales LIMIT 3", refresh_mode="DIFFERENTIAL"
        )


def test_a_mistake_in_any_query_of_a_batch(ab: Anabranch) -> None:
    queries = {"shop.one": "SELECT id FROM shop.sales", "shop.two": "SELECT idd FROM shop.one"}
    with pytest.raises(UnknownName, match=r"column idd does not exist \(line 1, column 8\)"):
        ab.create_stream_tables(queries)
    with pytest.raises(UserError, match="UNION of 1 and 2 columns"):
        ab.create_stream_tables(
            {**queries, "shop.two": "SELECT id FROM shop.one UNION SELECT 1, 2"}
        )


def test_other_refusals_come_first(ab: Anabranch) -> None:
    with pytest.raises(AlreadyExists):
        ab.create_stream_table("shop.sales", RANDOM, refresh_mode="DIFFERENTIAL")
    with pytest.raises(UnknownName, match="no table shop.nothing"):
        ab.create_stream_table(
            "shop.s", RANDOM.replace("sales", "nothing"), refresh_mode="DIFFERENTIAL"
        )
    with pytest.raises(Refused, match="in a cycle: "):
        ab.create_stream_tables(
            {"shop.one": "SELECT rand() AS r FROM shop.two", "shop.two": "SELECT 1 FROM shop.one"},
            refresh_mode="DIFFERENTIAL",
        )

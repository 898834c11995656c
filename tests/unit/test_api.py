"""The verbs with arguments that are not what they should be; none of this starts Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch, AnabranchError
from anabranch.errors import InvalidValue, UnknownName


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path) as opened:
        yield opened
        assert not opened._session.is_running or not opened._runtime.spark.started


def at(cut: Any) -> Callable[[Anabranch], None]:
    def read(ab: Anabranch) -> None:
        with ab.at(cut):
            pass

    return read


NOTHING: Any = None
WRONG: list[tuple[Callable[[Anabranch], Any], type[AnabranchError], str]] = [
    (lambda ab: ab.history(""), InvalidValue, "'' is not a table name"),
    (lambda ab: ab.graph(5), InvalidValue, "name is 5"),  # type: ignore[arg-type]
    (lambda ab: ab.refresh(""), InvalidValue, "'' is not a table name"),
    (lambda ab: ab.sql(NOTHING), InvalidValue, "text is None"),
    (lambda ab: ab.create_stream_table("a.b", NOTHING), InvalidValue, "query is None"),
    (lambda ab: ab.create_stream_table("a.b", ""), AnabranchError, "query"),
    (
        lambda ab: ab.create_stream_table("a.b", "SELECT 1 AS x", refresh_mode=NOTHING),
        InvalidValue,
        "refresh_mode is None",
    ),
    (
        lambda ab: ab.create_stream_tables({"a.b": "SELECT 1 AS x"}, shedule="2s"),
        UnknownName,
        'mean "schedule"',
    ),
    (
        lambda ab: ab.create_stream_table("a.b", "SELECT 1 AS x", cluster="c"),
        UnknownName,
        "no cluster c",
    ),
    (lambda ab: ab.alter_stream_table("a.b", cluster="c"), UnknownName, "no cluster c"),
    (
        lambda ab: ab.create_refresh_group("g", ["a.b", "a.c"], snapshot_timeout_ms="5"),  # type: ignore[arg-type]
        InvalidValue,
        "snapshot_timeout_ms is '5'",
    ),
    (at("2"), InvalidValue, "cut is '2'"),
    (at(True), InvalidValue, "cut is True"),
    (at(7), UnknownName, "no cut 7"),
    (lambda ab: ab.sql("SELECT * FROM a.nothing"), UnknownName, "no table a.nothing"),
    (lambda ab: ab.sql("SELECT 1; SELEC 2"), AnabranchError, "line 1, column 11"),
]


@pytest.mark.parametrize(("act", "error", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_wrong_arguments(
    ab: Anabranch, act: Callable[[Anabranch], Any], error: type[AnabranchError], says: str
) -> None:
    with pytest.raises(error) as caught:
        act(ab)
    assert says in str(caught.value)
    assert (ab.cuts(), ab.status(), ab.history()) == ([], [], [])

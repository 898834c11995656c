"""Types that become wider inside of arrays and structs are carried over to every reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.names import TableName
from tests.standin.engine import connect, installed

WIDER = ["int", "array<bigint>", "struct<a:bigint,b:array<bigint>>"]


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k INT, l ARRAY<INT>, r STRUCT<a: INT, b: ARRAY<INT>>)")
        opened.sql("INSERT INTO s.t SELECT 1, array(1, 2), named_struct('a', 1, 'b', array(3))")
        opened.create_stream_table("s.whole", "SELECT * FROM s.t", schedule=None)
        opened.create_stream_table("s.below", "SELECT k, l, r FROM s.whole", schedule=None)
        yield opened


def test_wider_types_inside_of_others(ab: Anabranch) -> None:
    ab.sql("ALTER TABLE s.t ALTER COLUMN l TYPE ARRAY<BIGINT>")
    ab.sql("ALTER TABLE s.t ALTER COLUMN r TYPE STRUCT<a: BIGINT, b: ARRAY<BIGINT>>")
    big = 3_000_000_000
    ab.sql(f"INSERT INTO s.t SELECT 2, array({big}), named_struct('a', {big}, 'b', array({big}))")
    ab.refresh()
    wanted = [(1, [1, 2], {"a": 1, "b": [3]}), (2, [big], {"a": big, "b": [big]})]
    for name in ("s.whole", "s.below"):
        columns = ab._runtime.lake.current(TableName.parse(name)).columns
        assert [column.type for column in columns] == WIDER, name
        assert sorted(ab.table(name).collect()) == wanted
        assert ab.history(name)[0]["action"] == "REINITIALIZE"

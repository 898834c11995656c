"""A catalog whose Iceberg rows are lost is damaged, and there is a way back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.errors import SchemaError, Unreachable
from tests.standin.engine import connect, installed


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT); INSERT INTO s.t VALUES (1, 10)")
        opened.create_stream_table("s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k")
        yield opened


def lose(ab: Anabranch, *names: str) -> None:
    with ab._store.writing() as c:
        lost = delete(tables.iceberg_tables)
        c.execute(lost.where(tables.iceberg_tables.c.table_name.in_(names)) if names else lost)


def test_an_emptied_table_of_pointers_is_damage_and_comes_back(ab: Anabranch) -> None:
    cuts = ab.cuts()
    lose(ab)
    for act in (
        lambda: ab.table("s.d"),
        lambda: ab.sql("INSERT INTO s.t VALUES (2, 20)"),
        ab.refresh,
    ):
        with pytest.raises(Unreachable, match="iceberg_tables is empty") as caught:
            act()
        assert "recover --from-warehouse" in str(caught.value.hint)
    assert ab.cuts() == cuts, "nobody dropped anything"
    assert {row["table"] for row in ab.recover()} == {"s.t", "s.d"}
    assert ab.table("s.d").collect() == [(1, 10)]
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    ab.refresh()
    assert sorted(ab.table("s.d").collect()) == [(1, 10), (2, 20)]
    assert ab.verify("s.d")["equal"]


def test_verify_says_what_is_missing_and_what_helps(ab: Anabranch) -> None:
    lose(ab, "t")
    with pytest.raises(SchemaError, match=r"s\.d reads s\.t, which no longer exists") as caught:
        ab.verify("s.d")
    assert "restore it from a backup" in str(caught.value.hint)
    assert "DROP STREAM TABLE s.d" in str(caught.value.hint)

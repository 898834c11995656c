"""Column-level lineage is kept with stream tables, and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from anabranch import Anabranch
from anabranch import listing as catalog_listing
from anabranch.catalog import tables
from anabranch.cli import main
from anabranch.errors import UnknownName
from tests.standin.engine import connect, installed

TABLES = {
    "s.regional": "SELECT region, sum(amount) AS total FROM s.paid GROUP BY region",
    "s.ranked": "SELECT r.region, total * 2 AS twice FROM s.regional AS r JOIN s.names AS n "
    "ON r.region = n.region WHERE n.shown",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ab(home: Path) -> Iterator[Anabranch]:
    with installed(), connect(home) as opened:
        opened.sql("CREATE TABLE s.sales (id BIGINT, region STRING, amount BIGINT, state STRING)")
        opened.sql("CREATE TABLE s.names (region STRING, shown BOOLEAN)")
        opened.sql("CREATE VIEW s.paid AS SELECT region, amount FROM s.sales WHERE state = 'paid'")
        opened.create_stream_tables(TABLES)
        yield opened


def told(rows: list[dict[str, Any]]) -> list[str]:
    return [
        f"{row['column']} {row['kind']} {row['source_table']}.{row['source_column']}"
        + (f" via {' '.join(row['via'])}" if row.get("via") else "")
        for row in rows
    ]


REGIONAL = [
    "region computed s.sales.region",
    "region decides s.sales.state",
    "total computed s.sales.amount",
    "total decides s.sales.region",
    "total decides s.sales.state",
]
TWICE = [
    "twice computed s.regional.total",
    "twice decides s.names.region",
    "twice decides s.names.shown",
    "twice decides s.regional.region",
]


def test_one_step_up_and_through_views(ab: Anabranch) -> None:
    assert told(ab.lineage("s.regional")) == REGIONAL
    assert told(ab.lineage("S.RANKED", "Twice")) == TWICE
    assert told(catalog_listing.lineage(ab._store))[-5:] == REGIONAL
    with pytest.raises(UnknownName, match="no column twic") as caught:
        ab.lineage("s.ranked", "twic")
    assert caught.value.hint == 'did you mean "twice"?'


def test_down_to_the_source_tables(ab: Anabranch) -> None:
    assert told(ab.lineage("s.ranked", "twice", to_sources=True)) == [
        "twice computed s.sales.amount via s.regional",
        "twice decides s.names.region",
        "twice decides s.names.shown",
        "twice decides s.sales.region via s.regional",
        "twice decides s.sales.state via s.regional",
    ]


def test_what_changes_a_query_changes_it(ab: Anabranch) -> None:
    ab.sql("CREATE OR REPLACE VIEW s.paid AS SELECT region, amount + id AS amount FROM s.sales")
    assert told(ab.lineage("s.regional", "total")) == [
        "total computed s.sales.amount",
        "total computed s.sales.id",
        "total decides s.sales.region",
    ]
    ab.refresh()
    ab.alter_stream_table("s.ranked", query="SELECT total AS twice FROM s.regional")
    assert told(ab.lineage("s.ranked")) == ["twice computed s.regional.total"]


def test_a_catalog_from_before(ab: Anabranch, home: Path) -> None:
    """Found out from the query, until upkeep notes it."""
    with ab._store.writing() as c:
        c.execute(update(tables.stream_tables).values(lineage=None))
    assert catalog_listing.lineage(ab._store) == []
    assert told(ab.lineage("s.ranked", "twice")) == TWICE
    ab.maintain()
    assert told(catalog_listing.lineage(ab._store))[-5:] == REGIONAL


def test_the_command_and_explain(ab: Anabranch, home: Path) -> None:
    asked = ["--home", str(home), "lineage", "s.ranked", "twice"]
    shown = CliRunner().invoke(main.cli, [*asked, "--json"], catch_exceptions=False)
    assert told(json.loads(shown.stdout)) == TWICE
    shown = CliRunner().invoke(main.cli, [*asked, "--to-sources"], catch_exceptions=False)
    assert "s.sales" in shown.stdout and "s.regional" in shown.stdout
    text = ab.explain("s.regional")
    assert "columns are computed from:\n  region: s.sales.region\n  total: s.sales.amount\n" in text
    assert "rows are decided by: s.sales.region, s.sales.state\n" in text

"""Source tables are widened, never narrowed."""

from __future__ import annotations

import pytest

from anabranch.deploy.snapshot import SnapshotObject
from anabranch.deploy.source_tables import changes, declared_columns
from anabranch.errors import Refused
from anabranch.lake.schemas import AddColumn, AllowNull, WidenColumn
from anabranch.model import Column
from tests.unit.deploy.drawing import key

STORED = (Column("id", "bigint", nullable=False), Column("Region", "string"), Column("n", "int"))


def table(columns: str) -> SnapshotObject:
    return SnapshotObject(key("s.t"), "table", "", "", sql=f"CREATE TABLE t ({columns})")


def test_the_same_columns_are_no_change() -> None:
    assert changes(table("id BIGINT NOT NULL, region STRING, n INT"), STORED) == []
    assert changes(table("n INTEGER, id LONG NOT NULL, REGION VARCHAR(9)"), STORED) == []


def test_columns_are_added_widened_and_may_become_nullable() -> None:
    wider = table("id BIGINT, region STRING, n BIGINT, note STRING")
    assert changes(wider, STORED) == [
        AllowNull("id"),
        WidenColumn("n", "bigint"),
        AddColumn(Column("note", "string")),
    ]


def test_what_would_lose_rows_or_values_is_refused() -> None:
    with pytest.raises(Refused, match="has a column n that the project does not declare") as error:
        changes(table("id BIGINT NOT NULL, region STRING"), STORED)
    assert error.value.hint == "declare it, or ALTER TABLE db.s.t DROP COLUMN n"
    with pytest.raises(Refused, match="column Region of db.s.t may hold NULLs"):
        changes(table("id BIGINT NOT NULL, region STRING NOT NULL, n INT"), STORED)


def test_declared_columns_come_from_the_statement() -> None:
    assert declared_columns(table("id BIGINT NOT NULL, v DECIMAL(12, 2)")) == (
        Column("id", "bigint", nullable=False),
        Column("v", "decimal(12,2)"),
    )

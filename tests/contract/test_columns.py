"""Tables that cannot be read stand in nobody's way but their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, UUIDType

import anabranch
from anabranch.errors import Unsupported
from anabranch.names import TableName


def test_columns_of_the_tables_that_can_be_read(tmp_path: Path) -> None:
    with anabranch.connect(tmp_path) as ab:
        ab.sql("CREATE TABLE shop.ours (id BIGINT)")
        uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
        other = SqlCatalog("anabranch", uri=uri, warehouse=warehouse)
        key = NestedField(2, "key", UUIDType())
        other.create_table("shop.theirs", Schema(NestedField(1, "id", LongType()), key))
        other.close()
        assert list(ab.columns()) == [TableName.of("shop", "ours")]
        assert [row["table"] for row in ab.tables()] == ["shop.ours", "shop.theirs"]
        with pytest.raises(Unsupported, match=r"shop\.theirs: column key has Iceberg type uuid"):
            ab._runtime.world().version(TableName.of("shop", "theirs")).columns  # noqa: B018

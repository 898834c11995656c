"""Looking at a home from outside: bags of rows, PyIceberg's own reader, files on disk."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from anabranch import Anabranch
from anabranch.errors import AnabranchError
from anabranch.names import TableName

Bag = Counter


def bag(frame: Any) -> Bag[tuple[Any, ...]]:
    """The rows of a Spark frame with their multiplicities."""
    return Counter(tuple(frozen(value) for value in row) for row in frame.collect())


def rows(*given: tuple[Any, ...]) -> Bag[tuple[Any, ...]]:
    return Counter(tuple(frozen(value) for value in row) for row in given)


def frozen(value: Any) -> Any:
    """A value that can be counted: NaN equals NaN, maps are sets of entries."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return frozenset((frozen(key), frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value


class Outside:
    """The same catalog and warehouse as another program sees them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.catalog = SqlCatalog("anabranch", uri=f"sqlite:///{home / 'catalog.db'}")

    def table(self, name: str) -> Table:
        parsed = TableName.parse(name)
        return self.catalog.load_table(parsed.parts)

    def bag(self, name: str) -> Bag[tuple[Any, ...]]:
        """What PyIceberg's own reader gives."""
        found = self.table(name).scan().to_arrow()
        columns = [column.to_pylist() for column in found.columns]
        return Counter(tuple(frozen(value) for value in row) for row in zip(*columns, strict=True))

    def snapshots(self, name: str) -> list[int]:
        return [each.snapshot_id for each in self.table(name).metadata.snapshots]

    def files(self) -> set[str]:
        """Every file of the warehouse but the marker."""
        found = (self.home / "warehouse").rglob("*")
        return {str(path) for path in found if path.is_file() and path.name != "anabranch.json"}


@contextmanager
def nothing_changes(ab: Anabranch, outside: Outside) -> Any:
    """Inside, no cut, file or history line is made, and no stage is left."""
    cuts, files, history = ab.cuts(), outside.files(), ab.history()
    yield
    assert ab.cuts() == cuts
    assert outside.files() == files
    assert ab.history() == history
    with ab._store.reading() as c:
        assert c.exec_driver_sql("SELECT count(*) FROM ab_stages").scalar_one() == 0


@contextmanager
def refused(ab: Anabranch, outside: Outside, error: type[AnabranchError], *words: str) -> Any:
    """The work inside fails with this very class and these words, and leaves no trace."""
    with nothing_changes(ab, outside), pytest.raises(AnabranchError) as caught:
        yield
    assert type(caught.value) is error, repr(caught.value)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert len(str(caught.value)) < 600, str(caught.value)
    assert "Exception" not in str(caught.value)

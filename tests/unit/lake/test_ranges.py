"""Where values lie, as footers tell it: at least there, and nothing known where one does not tell."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    NestedField,
    TimestampType,
)

from anabranch.lake import ranges
from anabranch.lake.ranges import DATE, INTEGER, MOST_FILES, column_range, in_files
from anabranch.lake.schemas import schema_of
from anabranch.model import Column, RangeSet
from anabranch.plan.statistics import ColumnRange

SCHEMA = schema_of((Column("n", "bigint"), Column("d", "date"), Column("s", "string")))
NUMBER, DAY, TEXT = SCHEMA.fields
IO = PyArrowFileIO()


def write(path: Path, *rows: tuple[Any, Any, Any]) -> str:
    columns = [list(values) for values in zip(*rows, strict=True)]
    table = pa.table(columns, schema=schema_to_pyarrow(SCHEMA))
    pq.write_table(table, path, row_group_size=2)
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    day = dt.date(1970, 1, 1)
    return [
        write(tmp_path / "a", (1, day, "x"), (3, day, "x"), (90, None, "x"), (None, None, "x")),
        write(tmp_path / "b", (-5, dt.date(1969, 12, 31), "y")),
    ]


def test_ranges_of_row_groups(files: list[str]) -> None:
    wanted = RangeSet(INTEGER, ((-5, -5), (1, 3), (90, 90)), nulls=True)
    assert in_files(IO, files, NUMBER) == wanted
    assert in_files(IO, files, DAY) == RangeSet(DATE, ((-1, 0),), nulls=True)


def test_texts_have_none(files: list[str]) -> None:
    assert in_files(IO, files, TEXT) is None


def test_a_footer_is_read_once_for_all_columns(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(io: Any, path: str) -> Any:
        read.append(path)
        return original(io, path)

    original = ranges.ranges
    monkeypatch.setattr(ranges, "ranges", counted)
    for field in (NUMBER, DAY, NUMBER):
        in_files(IO, files, field)
    assert read == files


def test_a_file_that_is_gone_tells_nothing(files: list[str]) -> None:
    assert in_files(IO, [*files, f"{files[0]}.gone"], NUMBER) is None


def test_many_files_are_not_opened(files: list[str]) -> None:
    assert in_files(IO, files * MOST_FILES, NUMBER) is None


@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        ("=", (10,), True),
        ("=", (9,), False),
        ("in", (1, 20), True),
        ("<", (10,), False),
        ("<=", (10,), True),
        (">", (20,), False),
        (">=", (20,), True),
        ("null", (), False),
    ],
)
def test_what_a_file_may_hold(op: str, values: tuple[int, ...], expected: bool) -> None:
    assert ColumnRange(10, 20, nulls=False).may_satisfy(op, values) is expected
    assert ColumnRange(None, None).may_satisfy(op, values)
    assert ColumnRange(None, None, only_nulls=True).may_satisfy(op, values) is (op == "null")


@pytest.mark.parametrize(
    "bounds",
    [{1: b"\x01"}, {1: b"\x01\x02\x03"}, {}, None],
    ids=["short", "odd", "none", "nothing"],
)
def test_ends_that_no_value_has_are_not_known(bounds: dict[int, bytes] | None) -> None:
    """A careless writer's statistics leave no file out."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    for kind in (IntegerType(), LongType(), DateType(), TimestampType(), BooleanType()):
        field = NestedField(1, "v", kind)
        if kind == BooleanType() and bounds == {1: b"\x01"}:
            continue
        assert column_range(file, field) == ColumnRange(None, None)


def test_an_int_that_became_a_bigint() -> None:
    """Its old files have ends of four bytes."""
    four = (7).to_bytes(4, "little")
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
        lower_bounds={1: four},
        upper_bounds={1: four},
    )
    assert column_range(file, NestedField(1, "v", LongType())) == ColumnRange(7, 7)

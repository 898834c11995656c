"""Statistics from footers: what is pruned by them must not hold a matching row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

from anabranch.errors import InternalError, InvalidValue
from anabranch.lake.footers import TAIL_ID, data_files, delete_files
from anabranch.lake.ranges import pruned
from anabranch.lake.row_deletes import RowDeletes
from anabranch.lake.schemas import schema_of
from anabranch.model import FILE_PATH_ID, POSITION_ID, Bound, Column

UTC = dt.timezone.utc
CASES: list[tuple[str, Any, Any, Any, Any]] = [
    # type, least, greatest, a value inside, a value outside
    ("boolean", False, False, False, True),
    ("int", -5, 5, 0, 6),
    ("bigint", 1, 2**40, 7, 0),
    ("date", dt.date(2024, 1, 1), dt.date(2024, 12, 31), dt.date(2024, 6, 1), dt.date(2025, 1, 1)),
    (
        "timestamp",
        dt.datetime(2024, 1, 1, tzinfo=UTC),
        dt.datetime(2024, 2, 1, tzinfo=UTC),
        dt.datetime(2024, 1, 15, tzinfo=UTC),
        dt.datetime(2024, 3, 1, tzinfo=UTC),
    ),
    (
        "timestamp_ntz",
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 2, 1),
        dt.datetime(2024, 1, 15),
        dt.datetime(2023, 3, 1),
    ),
    ("string", "b" * 40, "d" * 40, "b" * 39 + "c", "e"),
    ("binary", b"b", b"d" * 40, b"c", b"\xff"),
    ("decimal(5,2)", Decimal("1.00"), Decimal("9.99"), Decimal("2.50"), Decimal("10.00")),
    ("decimal(15,2)", Decimal("-1.00"), Decimal("9.99"), Decimal("2.50"), Decimal("-1.01")),
    ("decimal(30,2)", Decimal("-1.00"), Decimal("9.99"), Decimal("2.50"), Decimal("10.00")),
]


@pytest.mark.parametrize("integers", [True, False], ids=["like Spark", "like Arrow"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_bounds(tmp_path: Path, case: tuple[str, Any, Any, Any, Any], integers: bool) -> None:
    kind, least, greatest, inside, outside = case
    schema = schema_of((Column("v", kind), Column("w", kind)))
    shape = schema_to_pyarrow(schema)
    table = pa.table([[least, None, greatest], [None] * 3], schema=shape)
    path = str(tmp_path / "f.parquet")
    pq.write_table(table, path, store_decimal_as_integer=integers, row_group_size=1)
    (file,) = data_files(PyArrowFileIO(), schema, [path])
    assert (file.record_count, file.value_counts) == (3, {1: 3, 2: 3})
    assert file.null_value_counts == {1: 1, 2: 3}
    assert file.lower_bounds.keys() == file.upper_bounds.keys() == {1}
    assert len(file.split_offsets or []) == 3
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)

    def found(*bounds: Bound) -> bool:
        return bool(pruned(schema, [entry], bounds))

    assert found(Bound("v", "=", (inside,))) and not found(Bound("v", "=", (outside,)))
    assert found(Bound("v", "in", (inside, outside)))
    assert found(Bound("v", ">=", (greatest,))) and found(Bound("v", "<=", (least,)))
    assert found(Bound("v", "null")) and found(Bound("w", "null"))
    assert not found(Bound("w", "=", (inside,)))


FAR = [  # type, Arrow's type, number, bytes of the bound
    ("date", pa.date32(), 3_663_000, 4),
    ("date", pa.date32(), -1_000_000, 4),
    ("timestamp", pa.timestamp("us", "UTC"), 316_516_000_000_000_000, 8),
    ("timestamp_ntz", pa.timestamp("us"), -99_999_999_999_999_999, 8),
]


@pytest.mark.parametrize(("kind", "arrow", "number", "length"), FAR)
def test_days_that_python_has_no_date_for(
    tmp_path: Path, kind: str, arrow: pa.DataType, number: int, length: int
) -> None:
    schema = schema_of((Column("v", kind),))
    values = pa.array([number, 0], pa.int32() if length == 4 else pa.int64()).cast(arrow)
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table([values], schema=schema_to_pyarrow(schema)), path)
    (file,) = data_files(PyArrowFileIO(), schema, [path])
    low, high = sorted((number, 0))
    assert file.lower_bounds == {1: low.to_bytes(length, "little", signed=True)}
    assert file.upper_bounds == {1: high.to_bytes(length, "little", signed=True)}
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)
    assert pruned(schema, [entry], [Bound("v", "null")]) == []


def test_numbers_with_nan_are_never_pruned(tmp_path: Path) -> None:
    """Spark puts NaN above all numbers, so `v > 5` is true for it."""
    schema = schema_of((Column("v", "double"),))
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table([[1.0, float("nan")]], schema=schema_to_pyarrow(schema)), path)
    (file,) = data_files(PyArrowFileIO(), schema, [path])
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)
    assert pruned(schema, [entry], [Bound("v", ">", (5.0,))]) == [entry]


def test_columns_outside_the_schema_and_odd_names(tmp_path: Path) -> None:
    """A column that looks like a field of a struct; hidden columns; renamed columns."""
    inner = Column("a", "struct<b:bigint,c:array<string>>")
    with pytest.raises(InvalidValue, match="multiple fields for name a.b"):
        schema_of((inner, Column("a.b", "bigint")))
    schema = schema_of((inner, Column("x.b", "bigint")))
    hidden = pa.field("_ab_n", pa.int64(), metadata={"PARQUET:field_id": "10001"})
    shape = schema_to_pyarrow(schema)
    shape = pa.schema([shape.field(0), shape.field(1).with_name("a.b"), hidden])
    path = str(tmp_path / "f.parquet")
    rows = pa.table([[{"b": 1, "c": ["x", "y"]}], [7], [3]], schema=shape)
    pq.write_table(rows, path)
    (file,) = data_files(PyArrowFileIO(), schema, [path])
    outer = schema.fields[1].field_id
    assert file.lower_bounds == {outer: (7).to_bytes(8, "little")}
    assert file.column_sizes.keys() == {outer, TAIL_ID}


def test_position_delete_files(tmp_path: Path) -> None:
    shape = pa.schema(
        [
            pa.field("v", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": str(FILE_PATH_ID)}),
            pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": str(POSITION_ID)}),
        ]
    )
    low, high = "file:///" + "x" * 100 + "/a", "file:///" + "x" * 100 + "/ü"
    path = str(tmp_path / "d.parquet")
    pq.write_table(pa.table([[1, 2], [low, high], [0, 9]], schema=shape), path)
    (file,) = delete_files(PyArrowFileIO(), [path])
    assert file.lower_bounds == {FILE_PATH_ID: low.encode()}
    assert file.upper_bounds == {FILE_PATH_ID: high.encode()}
    empty = str(tmp_path / "e.parquet")
    pq.write_table(shape.empty_table(), empty)
    assert delete_files(PyArrowFileIO(), [empty]) == []
    plain = str(tmp_path / "p.parquet")
    pq.write_table(pa.table({"v": [1]}), plain)
    with pytest.raises(InternalError, match="is not a position delete file"):
        delete_files(PyArrowFileIO(), [plain])


def test_which_marks_reach_which_files() -> None:
    def entry(
        path: str, age: int, low: str | None = None, high: str | None = None
    ) -> ManifestEntry:
        from pyiceberg.manifest import DataFile

        bounds = {} if low is None or high is None else {
            "lower_bounds": {FILE_PATH_ID: low.encode()},
            "upper_bounds": {FILE_PATH_ID: high.encode()},
        }  # fmt: skip
        file = DataFile.from_args(file_path=path, record_count=1, **bounds)
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, sequence_number=age, data_file=file
        )

    data = [entry("b", 1), entry("a", 1), entry("c", 5)]
    deletes = RowDeletes([entry("m1", 2, "a", "b"), entry("m2", 3), entry("m3", 9, "d", "e")])
    assert deletes.applying_to(data).paths == {"m1", "m2"}
    assert [each.data_file.file_path for each in deletes.touched(data)] == ["a", "b"]
    assert deletes.without(RowDeletes([entry("m2", 3)])).paths == {"m1", "m3"}
    assert RowDeletes(()).touched(data) == []

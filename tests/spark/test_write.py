"""What lies on disk after a write."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anabranch.model import Column
from anabranch.spark.session import Spark
from anabranch.spark.write import list_files, write

COLUMNS = (
    Column("id", "bigint", False, 1),
    Column("op", "string", True, 2),
    Column(
        "p", "struct<x:int,l:array<struct<y:string>>>", True, 3, {"x": 4, "l": 5, "l.element.y": 7}
    ),
    Column("t", "timestamp", True, 8),
    Column("_ab_n", "bigint", True, 10001),
)
SQL = """
    SELECT id, 'mine' AS op, struct(1 AS x, array(struct('q' AS y)) AS l) AS p,
           TIMESTAMP'1700-01-01 00:00:00' AS t, id AS _ab_n,
           IF(id % 3 = 1, concat('/f', 9 - id), NULL) AS _ab_file,
           IF(id % 3 = 1, 100 - id, NULL) AS _ab_pos,
           CASE id % 3 WHEN 0 THEN 'add' WHEN 1 THEN 'remove' ELSE 'keep' END AS _ab_op
    FROM range(9)
"""


def test_files_by_op(spark: Spark, tmp_path: Path) -> None:
    folder = f"file://{tmp_path}/a b"
    written = write(spark.session.sql(SQL), folder, COLUMNS, 1)
    assert [len(paths) for paths in (written.add, written.remove, written.keep)] == [1, 1, 1]
    assert written.remove[0].startswith(f"{folder}/")
    assert "/_ab_op=remove/part-" in written.remove[0]
    leaves = [path for path in (tmp_path / "a b").rglob("*") if path.is_file()]
    assert not [path for path in leaves if "SUCCESS" in path.name]
    table = pq.ParquetFile(written.remove[0].removeprefix("file://")).read()
    assert table.column("file_path").to_pylist() == ["/f2", "/f5", "/f8"]
    assert table.column("op").to_pylist() == ["mine"] * 3


def test_field_ids_at_every_level(spark: Spark, tmp_path: Path) -> None:
    written = write(spark.session.sql(SQL), str(tmp_path / "d"), COLUMNS, 1)
    schema = pq.read_schema(written.remove[0])

    def id_of(field: object) -> int:
        return int(field.metadata[b"PARQUET:field_id"])  # type: ignore[attr-defined]

    assert {field.name: id_of(field) for field in schema} == {
        "id": 1, "op": 2, "p": 3, "t": 8, "_ab_n": 10001, "file_path": 2147483546, "pos": 2147483545
    }  # fmt: skip
    point = schema.field("p").type
    assert [id_of(point.field(at)) for at in range(2)] == [4, 5]
    assert id_of(point.field(1).type.value_type.field(0)) == 7
    assert str(schema.field("t").type) == "timestamp[us, tz=UTC]"


def test_only_rows_to_add_need_no_folders(spark: Spark, tmp_path: Path) -> None:
    written = write(spark.session.sql("SELECT 1L AS id"), str(tmp_path / "d"), COLUMNS[:1], 1)
    assert len(written.add) == 1 and "_ab_op" not in written.add[0]


def test_values_are_cast_and_columns_ordered(spark: Spark, tmp_path: Path) -> None:
    written = write(
        spark.session.sql("SELECT 'x' AS OP, 1 AS ID"), str(tmp_path / "d"), COLUMNS[:2], 1
    )
    table = pq.ParquetFile(written.add[0]).read()
    assert table.column_names == ["id", "op"]
    assert str(table.schema.field("id").type) == "int64"


@pytest.mark.parametrize("files", [1, 3])
def test_number_of_files(spark: Spark, tmp_path: Path, files: int) -> None:
    df = spark.session.range(0, 100, 1, 6)
    assert len(write(df, str(tmp_path / "d"), COLUMNS[:1], files).add) == files


def test_nothing_to_write(spark: Spark, tmp_path: Path) -> None:
    df = spark.session.sql(SQL).filter("id > 100")
    assert write(df, str(tmp_path / "d"), COLUMNS, 1).add == ()


def test_two_writes_into_one_folder_are_told_apart(spark: Spark, tmp_path: Path) -> None:
    df = spark.session.sql("SELECT 1L AS id")
    one, two = (write(df, str(tmp_path / "d"), COLUMNS[:1], 1) for _ in range(2))
    assert len(one.add) == len(two.add) == 1
    assert one.add != two.add


def test_listing_skips_what_committers_leave(tmp_path: Path) -> None:
    for name in (
        "a.parquet",
        "_temporary/0/b.parquet",
        ".c.parquet",
        "_ab_op=add/d.parquet",
        "e.crc",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    for form in ("", "file:", "file://"):
        assert sorted(list_files(f"{form}{tmp_path}")) == ["_ab_op=add/d.parquet", "a.parquet"]

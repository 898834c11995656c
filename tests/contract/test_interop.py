"""Other readers see plain Iceberg tables, wherever they lie and whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, UUIDType

from anabranch.errors import InternalError, InvalidValue, UnknownName, Unsupported
from anabranch.lake.places import location_of, same_form
from anabranch.lake.publish import publish
from anabranch.lake.schemas import AddColumn, AllowNull, DropColumn, RenameColumn, WidenColumn
from anabranch.lake.stage import Stage
from anabranch.lake.version import check_readable
from anabranch.model import Column
from anabranch.names import TableName
from tests.contract.world import COLUMNS, HIDDEN, T, World, bag, find, net, written


@pytest.fixture(params=["plain", "with space", "größe-日本", "100%25+x", "hash#q?x"])
def odd_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    opened = World(str(tmp_path / "catalog.db"), tmp_path / request.param / "warehouse")
    yield opened
    opened.close()


def test_marks_in_any_folder(odd_world: World) -> None:
    odd_world.create()
    odd_world.append([(1, "eu"), (2, "us"), (3, "eu")])
    odd_world.append([(4, "eu")])
    version = odd_world.mark([(2, "us"), (4, "eu")])
    (mark,) = version.state(version.snapshot_id).deletes.entries
    assert mark.data_file.content is DataFileContent.POSITION_DELETES
    assert odd_world.seen_by_pyiceberg() == {(1, "eu"): 1, (3, "eu"): 1} == bag(version)
    table = odd_world.foreign().load_table(("shop", "sales"))
    assert table.scan(row_filter="id > 1").to_arrow()["id"].to_pylist() == [3]
    assert odd_world.compact().rows == 2
    assert odd_world.seen_by_pyiceberg() == {(1, "eu"): 1, (3, "eu"): 1}


def test_one_form_of_paths(tmp_path: Path) -> None:
    assert location_of("/a b/ü") == "file:///a b/ü"
    assert location_of("file:/a/b/") == location_of("file:///a/b") == "file:///a/b"
    assert location_of("/a#b") == "/a#b"
    assert location_of("s3://bucket/x/") == "s3://bucket/x"
    root = "file:///a b/ü/t-1"
    for spelling in (
        "file:///a b/ü/t-1/x", "file:/a b/ü/t-1/x", "/a b/ü/t-1/x", "file:///a%20b/%C3%BC/t-1/x",
        "file:/a%20b/%C3%BC/t-1/x",
    ):  # fmt: skip
        assert same_form(spelling, root) == root + "/x"
    assert same_form("s3://b/t/x", "s3://b/t") == "s3://b/t/x"
    with pytest.raises(InvalidValue):
        location_of("/a\nb")


def test_files_outside_the_table_are_refused(world: World) -> None:
    world.create()
    with Stage(world.lake) as stage, pytest.raises(InternalError):
        files = written(stage, T, add=[(1, "eu")])
        stage.commit_rows(T, type(files)(add=("/somewhere/else.parquet",)))


NESTED = (
    Column("id", "bigint"),
    Column("tags", "array<string>"),
    Column("props", "map<string,bigint>"),
    Column("point", "struct<x:bigint,deep:array<struct<y:string>>>"),
)
NESTED_ROWS = [
    (1, ["a", "b"], [("k", 1)], {"x": 1, "deep": [{"y": "q"}]}),
    (2, None, [], {"x": None, "deep": []}),  # PyIceberg reads a NULL list in a struct as empty
]


def test_nested_and_hidden_columns(world: World) -> None:
    """Files as Spark writes them: no ids for elements, keys and values; columns that only we read."""
    version = world.create(T, NESTED)
    assert version.columns[3].nested.keys() == {
        "x", "deep", "deep.element", "deep.element.y",
    }  # fmt: skip
    hidden_rows = [(*row, 7) for row in NESTED_ROWS]
    with Stage(world.lake) as stage:
        files = written(stage, T, add=hidden_rows, hidden=HIDDEN, like_spark=True)
        stage.commit_rows(T, files, hidden=HIDDEN)
        publish(stage, "test")
    version = world.lake.current(T)
    assert version.hidden == HIDDEN and version.hidden_complete and version.ours
    table = world.foreign().load_table(("shop", "sales"))
    assert table.scan().to_arrow().to_pylist() == [
        dict(zip([column.name for column in NESTED], row, strict=True)) for row in NESTED_ROWS
    ]
    with Stage(world.lake) as stage:
        (path,) = stage.version(T).reading().files
        gone = [(path, 0, hidden_rows[0])]
        files = written(stage, T, remove=gone, hidden=HIDDEN, like_spark=True)
        stage.commit_rows(T, files)
        publish(stage, "test")
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [2]


def test_hidden_columns_are_invisible(world: World) -> None:
    world.create()
    with Stage(world.lake) as stage:
        files = written(stage, T, add=[(1, "eu", 5), (2, "us", 6)], hidden=HIDDEN)
        stage.commit_rows(T, files, hidden=HIDDEN)
        publish(stage, "test")
    table = world.foreign().load_table(("shop", "sales"))
    assert table.schema().column_names == ["id", "region"]
    assert world.seen_by_pyiceberg() == {(1, "eu"): 1, (2, "us"): 1}
    with Stage(world.lake) as stage, pytest.raises(InternalError, match="hidden columns change"):
        stage.commit_rows(T, written(stage, T, add=[(3, "eu")]), hidden=())
    table.overwrite(pa.table({"id": [9], "region": ["x"]}))
    rewritten = world.lake.current(T)
    assert not rewritten.ours and not rewritten.hidden_complete and rewritten.hidden == HIDDEN


def test_changing_the_schema(world: World) -> None:
    world.create(T, (Column("id", "int", nullable=False), Column("region", "string")))
    world.append([(1, "eu")])
    with Stage(world.lake) as stage:
        stage.alter(
            T,
            [
                WidenColumn("ID", "bigint"),
                AllowNull("id"),
                RenameColumn("region", "area"),
                AddColumn(Column("amount", "decimal(12,2)")),
            ],
        )
        publish(stage, "test")
    version = world.lake.current(T)
    assert [(each.name, each.type, each.nullable, each.field_id) for each in version.columns] == [
        ("id", "bigint", True, 1),
        ("area", "string", True, 2),
        ("amount", "decimal(12,2)", True, 3),
    ]
    assert world.seen_by_pyiceberg() == {(1, "eu", None): 1}
    with Stage(world.lake) as stage:
        stage.alter(T, [DropColumn("area"), AddColumn(Column("area", "bigint"))])
        publish(stage, "test")
    assert world.lake.current(T).columns[-1].field_id == 4
    assert world.seen_by_pyiceberg() == {(1, None, None): 1}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (DropColumn("nope"), UnknownName, "has no column nope"),
        (DropColumn("regio"), UnknownName, 'did you mean "region"'),
        (WidenColumn("id", "int"), Unsupported, "cannot change from bigint to int"),
        (RenameColumn("id", "_ab_x"), InvalidValue, "reserved"),
        (RenameColumn("id", ""), InvalidValue, "no name"),
        (AddColumn(Column("x", "interval year")), Unsupported, "column x has type interval year"),
        (AddColumn(Column("x", "int", nullable=False)), InvalidValue, "already has rows"),
    ],
)
def test_refused_schema_changes(
    world: World, change: object, error: type[Exception], text: str
) -> None:
    world.create()
    world.append([(1, "eu")])
    with Stage(world.lake) as stage, pytest.raises(error, match=text):
        stage.alter(T, [change])


def test_a_name_used_twice_in_time_is_refused_with_nested_columns(world: World) -> None:
    world.create(T, NESTED)
    with Stage(world.lake) as stage:
        stage.commit_rows(T, written(stage, T, add=NESTED_ROWS, like_spark=True))
        stage.alter(T, [RenameColumn("id", "number")])
        publish(stage, "test")
    table = world.foreign().load_table(("shop", "sales"))
    assert table.scan().to_arrow()["number"].to_pylist() == [1, 2]
    with Stage(world.lake) as stage, pytest.raises(Unsupported, match="had another column id"):
        stage.alter(T, [AddColumn(Column("id", "string"))])


def test_other_columns_altogether(world: World) -> None:
    world.create()
    world.append([(1, "eu")])
    with Stage(world.lake) as stage:
        stage.set_columns(T, (Column("region", "string"), Column("id", "string")))
        stage.commit_rows(T, written(stage, T, add=[("eu", "one")]), replace_all=True)
        publish(stage, "test")
    assert [each.field_id for each in world.lake.current(T).columns] == [2, 3]
    assert world.seen_by_pyiceberg() == {("eu", "one"): 1}


def test_tables_that_are_only_read(world: World) -> None:
    """Partitioned tables of others can be read; writing them is left to their makers."""
    catalog, name = world.foreign(), TableName.of("their", "parts")
    catalog.create_namespace("their")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = catalog.create_table(
        ("their", "parts"),
        schema,
        location=world.lake.warehouse.location + "/theirs",
        partition_spec=spec,
    )
    table.append(pa.table({"id": [1, 2], "region": ["eu", "us"]}))
    version = world.lake.current(name)
    assert bag(version) == {(1, "eu"): 1, (2, "us"): 1}
    with Stage(world.lake) as stage, pytest.raises(Unsupported, match="is partitioned"):
        stage.commit_rows(name, written(stage, name, add=[(3, "eu")]))


def test_tables_of_format_version_1(world: World) -> None:
    """Tables of others from the old days are read, and brought to version 2 by our first write."""
    catalog, name = world.foreign(), TableName.of("their", "old")
    catalog.create_namespace("their")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
    table = catalog.create_table(
        ("their", "old"),
        schema,
        location=world.lake.warehouse.location + "/old",
        properties={"format-version": "1"},
    )
    table.append(pa.table({"id": [1, 2], "region": ["eu", "us"]}))
    before = world.lake.current(name)
    assert before.metadata.format_version == 1 and before.rows == 2
    after = world.mark([(1, "eu")], name, add=[(3, "eu")])
    assert after.metadata.format_version == 2
    assert world.seen_by_pyiceberg(name) == bag(after) == {(2, "us"): 1, (3, "eu"): 1}
    assert net(after.delta(before.snapshot_id)) == {(1, "eu"): -1, (3, "eu"): 1}


@pytest.mark.parametrize(
    ("content", "form", "text"),
    [
        (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, "equality deletes without columns"),
        (DataFileContent.DATA, FileFormat.ORC, "ORC files"),
    ],
)
def test_files_that_cannot_be_read_exactly(
    tmp_path: Path, content: DataFileContent, form: FileFormat, text: str
) -> None:
    world = World(str(tmp_path / "catalog.db"), tmp_path / "warehouse")
    version = world.create()
    file = DataFile.from_args(content=content, file_path="x", file_format=form, record_count=1)
    file.spec_id = 0
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file)
    with pytest.raises(Unsupported, match=f"table shop.sales has {text}"):
        check_readable(version, [entry])
    world.close()


def test_types_of_others_that_cannot_be_read(world: World) -> None:
    catalog = world.foreign()
    catalog.create_namespace("their")
    catalog.create_table(
        ("their", "ids"),
        Schema(NestedField(1, "key", UUIDType())),
        location=world.lake.warehouse.location + "/ids",
    )
    with pytest.raises(Unsupported, match="column key has Iceberg type uuid"):
        _ = world.lake.current(TableName.of("their", "ids")).columns


def test_metadata_needs_no_catalog(world: World) -> None:
    world.create()
    world.append([(1, "eu")])
    world.mark([(1, "eu")], add=[(2, "us")])
    table = StaticTable.from_metadata(world.lake.current(T).location)
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "region": "us"}]
    summary = table.metadata.current_snapshot().summary
    assert summary["total-records"] == "2" and summary["total-position-deletes"] == "1"
    assert len(table.metadata.metadata_log) == 2
    assert find(world.lake.current(T), [(2, "us")])
    assert world.lake.current(T).columns[:1] == (Column("id", "bigint", True, 1, {}),)
    assert COLUMNS[0].name == "id"

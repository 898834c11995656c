"""A small lake for tests: rows are written with pyarrow and read back in several ways."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow

from anabranch.catalog.store import Store, parse_url
from anabranch.lake.lake import Lake
from anabranch.lake.places import local_path
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.model import FILE_PATH_ID, POSITION_ID, Column, Columns, Delta, Reading, Written
from anabranch.names import TableName

Row = tuple[Any, ...]
Bag = Counter[Row]
T = TableName.of("shop", "sales")
COLUMNS = (Column("id", "bigint"), Column("region", "string"))
HIDDEN = (Column("_ab_n", "bigint", True, 10001),)


class World:
    """One catalog and its warehouse."""

    def __init__(self, url: str, warehouse: Path) -> None:
        self.url = url
        self.warehouse = warehouse
        self.store = Store.open(url, fsync=False)  # power cuts have tests of their own
        self.lake = Lake(self.store, warehouse)
        self._foreign: SqlCatalog | None = None

    def close(self) -> None:
        if self._foreign is not None:
            self._foreign.close()
        self.store.close()

    def foreign(self) -> SqlCatalog:
        """The same catalog through PyIceberg alone."""
        if self._foreign is None:
            address = parse_url(self.url).render_as_string(hide_password=False)
            self._foreign = SqlCatalog("anabranch", uri=address)
        return self._foreign

    def create(self, name: TableName = T, columns: Columns = COLUMNS) -> TableVersion:
        with Stage(self.lake) as stage:
            stage.create(name, columns)
            publish(stage, "test")
        return self.lake.current(name)

    def append(self, rows: Iterable[Row], name: TableName = T) -> TableVersion:
        with Stage(self.lake) as stage:
            stage.commit_rows(name, written(stage, name, add=rows))
            publish(stage, "test")
        return self.lake.current(name)

    def mark(
        self, rows: Sequence[Row], name: TableName = T, add: Iterable[Row] = ()
    ) -> TableVersion:
        """Delete rows by position; `rows` must be there."""
        with Stage(self.lake) as stage:
            places = find(stage.version(name), rows)
            stage.commit_rows(name, written(stage, name, add=add, remove=places))
            publish(stage, "test")
        return self.lake.current(name)

    def rewrite(
        self, remove: Sequence[Row], add: Iterable[Row], name: TableName = T
    ) -> TableVersion:
        with Stage(self.lake) as stage:
            version = stage.version(name)
            kept = bag(version) - Counter(remove)
            files = written(
                stage, name, add=add, remove=find(version, remove), keep=kept.elements()
            )
            stage.commit_rows(name, files, rewrite=True)
            publish(stage, "test")
        return self.lake.current(name)

    def replace(self, rows: Iterable[Row], name: TableName = T) -> TableVersion:
        with Stage(self.lake) as stage:
            stage.commit_rows(name, written(stage, name, add=rows), replace_all=True)
            publish(stage, "test")
        return self.lake.current(name)

    def compact(self, name: TableName = T) -> TableVersion:
        with Stage(self.lake) as stage:
            files = written(stage, name, keep=bag(stage.version(name)).elements())
            stage.commit_rows(name, files, compaction=True)
            publish(stage, "test")
        return self.lake.current(name)

    def seen_by_pyiceberg(self, name: TableName = T) -> Bag:
        table = self.foreign().load_table((*name.namespace, name.name)).scan().to_arrow()
        return Counter(tuple(row.values()) for row in table.to_pylist())


def written(
    stage: Stage,
    name: TableName,
    *,
    add: Iterable[Row] = (),
    remove: Sequence[tuple[str, int, Row]] = (),
    keep: Iterable[Row] = (),
    hidden: Columns = (),
    like_spark: bool = False,
) -> Written:
    """Rows as Parquet files with field ids, laid out as Spark would."""
    version, folder = stage.version(name), stage.directory(name)
    shape = _shape(version, hidden, like_spark)
    marked = sorted(remove)
    paths = pa.schema(
        [
            *shape,
            _field("file_path", pa.string(), FILE_PATH_ID),
            _field("pos", pa.int64(), POSITION_ID),
        ]
    )
    added, kept = list(add), list(keep)
    return Written(
        add=_file(f"{folder}/op=add", shape, added),
        remove=_file(f"{folder}/op=remove", paths, [(*row, path, at) for path, at, row in marked]),
        keep=_file(f"{folder}/op=keep", shape, kept),
        rows=len(added) + len(marked) + len(kept),
    )


def _shape(version: TableVersion, hidden: Columns, like_spark: bool) -> pa.Schema:
    visible = schema_to_pyarrow(version.metadata.schema())
    if like_spark:
        visible = pa.schema([field.with_type(_without_ids(field.type)) for field in visible])
    loose = (field.with_nullable(True) for field in visible)  # as Spark writes them
    return pa.schema([*loose, *(_field(each.name, pa.int64(), each.field_id) for each in hidden)])


def _without_ids(kind: pa.DataType) -> pa.DataType:
    """Spark gives ids to fields of structs, but not to elements, keys and values."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_without_ids(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_without_ids(kind.key_type), _without_ids(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_ids(field.type)) for field in kind])
    return kind


def _field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def _file(folder: str, shape: pa.Schema, rows: Sequence[Row]) -> tuple[str, ...]:
    if not rows:
        return ()
    path = f"{folder}/part-{uuid.uuid4().hex[:8]}.parquet"
    place = Path(local_path(path) or "")
    place.parent.mkdir(parents=True, exist_ok=True)
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(shape)]
    pq.write_table(pa.Table.from_arrays(columns, schema=shape), place)
    return (path,)


def positions(reading: Reading, columns: int = 2) -> list[tuple[str, int, Row]]:
    """The rows of a reading, with file and position, as the engine would find them."""
    skip = {place for path in reading.skip for place in _marks(path)}
    only = {place for path in reading.only for place in _marks(path)}
    found = []
    for path in reading.files:
        table = pq.read_table(local_path(path), partitioning=None)
        for at, row in enumerate(table.to_pylist()):
            if (path, at) not in skip and (not reading.only or (path, at) in only):
                found.append((path, at, tuple(row.values())[:columns]))
    return found


def _marks(path: str) -> list[tuple[str, int]]:
    table = pq.read_table(local_path(path), columns=["file_path", "pos"], partitioning=None)
    return [(row["file_path"], row["pos"]) for row in table.to_pylist()]


def find(version: TableVersion, rows: Sequence[Row]) -> list[tuple[str, int, Row]]:
    """A place for each of the rows."""
    wanted, found = Counter(rows), []
    for path, at, row in positions(version.reading()):
        if wanted[row] > 0:
            wanted[row] -= 1
            found.append((path, at, row))
    assert not +wanted, f"not in the table: {+wanted}"
    return found


def bag(version: TableVersion, snapshot_id: int | None = None) -> Bag:
    return Counter(row for _, _, row in positions(version.reading(snapshot_id)))


def net(delta: Delta) -> Bag:
    """The weights of a delta, summed up; zero weights are left out."""
    weights: Bag = Counter()
    for side, sign in ((delta.plus, 1), (delta.minus, -1)):
        for reading in side:
            for _, _, row in positions(reading):
                weights[row] += sign
    return Counter({row: weight for row, weight in weights.items() if weight})


def difference(after: Bag, before: Bag) -> Bag:
    weights = Counter(after)
    weights.subtract(before)
    return Counter({row: weight for row, weight in weights.items() if weight})

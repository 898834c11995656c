"""Commits as other engines make them and PyIceberg does not: equality deletes, deletion vectors, files
with old sequence numbers.  Manifests and metadata are written by hand, and the rows that should be
left are kept beside them.
"""

from __future__ import annotations

import json
import random
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from tests.standin.theirs import Theirs

Row = Mapping[int, Any]  # by field id
ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string()}
FILE_PATH, POS = 2147483546, 2147483545


@dataclass(frozen=True)
class Deletion:
    """A delete file; a vector has a place in a Puffin file, and the positions of `file`."""

    content: DataFileContent
    path: str
    rows: int
    size: int
    spec: int
    partition: tuple[Any, ...]
    sequence: int
    keys: tuple[int, ...] = ()
    file: str | None = None
    blob: tuple[int, int] | None = None
    places: frozenset[int] = frozenset()
    bounds: str | None = None


@dataclass(frozen=True)
class Data:
    """A data file with its rows, of which `live` are left."""

    path: str
    rows: tuple[Row, ...]
    size: int
    spec: int
    partition: tuple[Any, ...]
    sequence: int
    live: frozenset[int]


@dataclass
class Hand:
    """A table in a catalog of others, written by hand; `rows` are those that readers must see."""

    theirs: Theirs
    name: str
    chance: random.Random
    data: list[Data] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    lacking: dict[str, dict[int, int]] = field(
        default_factory=dict
    )  # sizes of columns that are there
    _io: PyArrowFileIO = field(default_factory=PyArrowFileIO)

    @property
    def metadata(self) -> TableMetadata:
        return self.theirs.catalog.load_table(("sales", self.name)).metadata

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        ids = [each.field_id for each in self.metadata.schema().fields]
        return [
            tuple(file.rows[at].get(id_) for id_ in ids)
            for file in self.data
            for at in sorted(file.live)
        ]

    # -- what engines do -----------------------------------------------------------------------

    def append(self, rows: Iterable[Row]) -> None:
        self._commit(self._written(rows, self._next), [])

    def delete_places(self, chosen: Callable[[Row], bool]) -> None:
        """Position deletes, in one file for each data file, as Spark and Trino leave them."""
        made = []
        for at, file in enumerate(self.data):
            gone = [p for p in sorted(file.live) if chosen(file.rows[p])]
            if gone:
                made.append(self._position_file(file, gone))
                self.data[at] = replace(file, live=file.live - {*gone})
        if made:
            self._commit([], made)

    def delete_keys(
        self, keys: tuple[int, ...], rows: Sequence[Row], add: Sequence[Row] = ()
    ) -> None:
        """Equality deletes, as Flink writes them; rows that are added along with them stay."""
        sequence = self._next
        made = []
        spec = self.metadata.spec()
        scopes: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            scopes.setdefault(self._partition(spec, row), []).append(row)
        for partition, some in scopes.items():
            made.append(self._equality_file(keys, some, spec, partition, sequence))
            values = {tuple(row.get(k) for k in keys) for row in some}
            for at, file in enumerate(self.data):
                scoped = not spec.is_unpartitioned()
                if scoped and (file.spec, file.partition) != (spec.spec_id, partition):
                    continue
                gone = {p for p in file.live if tuple(file.rows[p].get(k) for k in keys) in values}
                self.data[at] = replace(file, live=file.live - gone)
        self._commit(self._written(add, sequence), made)

    def delete_by_vectors(self, chosen: Callable[[Row], bool]) -> None:
        """Deletion vectors in one Puffin file, each in place of all that named places before."""
        found: list[tuple[Data, list[int]]] = []
        for at, file in enumerate(self.data):
            gone = [p for p in sorted(file.live) if chosen(file.rows[p])]
            if gone:
                found.append((file, gone))
                self.data[at] = replace(file, live=file.live - {*gone})
        if found:
            made = self._puffin(found)
            self._upgrade()
            self._commit([], made)

    def rewrite(self, chosen: Callable[[Data], bool], *, keep_age: bool = False) -> None:
        """Files are written anew without what is deleted; with their old age, as a compaction may."""
        old = [each for each in self.data if chosen(each)]
        if not old:
            return
        age = max(each.sequence for each in old) if keep_age else self._next
        if keep_age and any(each.sequence != age for each in old):
            return  # a file of two ages has none
        rows = [each.rows[at] for each in old for at in sorted(each.live)]
        self.data = [each for each in self.data if each not in old]
        gone = {each.path for each in old}
        self.deletions = [each for each in self.deletions if each.file not in gone]
        self._commit(self._written(rows, age), [])

    def change(self, act: Callable[[Any], None]) -> None:
        """Columns or partitions change, as PyIceberg does it, which writes no version 3."""
        third = self.metadata.format_version == 3
        if third:
            self._put({**self._json(), "format-version": 2})
        act(self.theirs.catalog.load_table(("sales", self.name)))
        if third:
            self._upgrade()

    # -- files ---------------------------------------------------------------------------------

    @property
    def _next(self) -> int:
        return self.metadata.last_sequence_number + 1

    def _folder(self) -> Path:
        folder = Path(self.metadata.location.removeprefix("file://")) / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _partition(self, spec: PartitionSpec, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(each.source_id) for each in spec.fields)

    def _written(self, rows: Iterable[Row], sequence: int) -> list[Data]:
        metadata = self.metadata
        spec = metadata.spec()
        parts: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            parts.setdefault(self._partition(spec, row), []).append(row)
        found = []
        for partition, some in parts.items():
            ids = {e.field_id: (e.name, str(e.field_type)) for e in metadata.schema().fields}
            path, size = self._parquet(some, ids)
            live = frozenset(range(len(some)))
            found.append(Data(path, tuple(some), size, spec.spec_id, partition, sequence, live))
        return found

    def _parquet(
        self, rows: Sequence[Row], columns: Mapping[int, tuple[str, str]]
    ) -> tuple[str, int]:
        fields, arrays = [], []
        for id_, (name, type_) in columns.items():
            arrow = ARROW[type_]
            fields.append(pa.field(name, arrow, metadata={"PARQUET:field_id": str(id_)}))
            arrays.append(pa.array([row.get(id_) for row in rows], arrow))
        local = self._folder() / f"{uuid.uuid4().hex}.parquet"
        pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), local)
        return f"file://{local}", local.stat().st_size

    def _position_file(self, file: Data, gone: Sequence[int]) -> Deletion:
        rows = [{FILE_PATH: file.path, POS: at} for at in gone]
        columns = {FILE_PATH: ("file_path", "string"), POS: ("pos", "long")}
        path, size = self._parquet(rows, columns)
        bounds = file.path if self.chance.random() < 0.7 else None
        return Deletion(
            DataFileContent.POSITION_DELETES, path, len(rows), size, file.spec, file.partition,
            self._next, file=None, places=frozenset(gone), bounds=bounds,
        )  # fmt: skip

    def _equality_file(
        self,
        keys: tuple[int, ...],
        rows: Sequence[Row],
        spec: PartitionSpec,
        partition: tuple[Any, ...],
        sequence: int,
    ) -> Deletion:
        fields = {e.field_id: e for e in self.metadata.schema().fields}
        columns = {key: (fields[key].name, str(fields[key].field_type)) for key in keys}
        path, size = self._parquet(rows, columns)
        return Deletion(
            DataFileContent.EQUALITY_DELETES, path, len(rows), size, spec.spec_id, partition,
            sequence, keys=keys,
        )  # fmt: skip

    def _puffin(self, found: Sequence[tuple[Data, Sequence[int]]]) -> list[Deletion]:
        local = self._folder() / f"{uuid.uuid4().hex}.puffin"
        body, blobs, made = b"PFA1", [], []
        sequence = self._next
        for file, gone in found:
            old = [e for e in self.deletions if e.file == file.path]
            places = frozenset(gone).union(*(each.places for each in old))
            bounded = [e for e in self.deletions if e.bounds == file.path]
            places = places.union(*(each.places for each in bounded))
            self.deletions = [e for e in self.deletions if e not in old and e not in bounded]
            framed = bytes([0xD1, 0xD3, 0x39, 0x64]) + BitMap64(places).serialize()
            blob = len(framed).to_bytes(4, "big") + framed + zlib.crc32(framed).to_bytes(4, "big")
            made.append(
                Deletion(
                    DataFileContent.POSITION_DELETES, f"file://{local}", len(places), 0, file.spec,
                    file.partition, sequence, file=file.path, blob=(len(body), len(blob)),
                    places=places,
                )
            )  # fmt: skip
            blobs.append(
                {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1,
                 "offset": len(body), "length": len(blob),
                 "properties": {"referenced-data-file": file.path, "cardinality": str(len(places))}}
            )  # fmt: skip
            body += blob
        footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
        body += b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0\0\0\0" + b"PFA1"
        local.write_bytes(body)
        return [replace(each, size=len(body)) for each in made]

    # -- metadata ------------------------------------------------------------------------------

    def _upgrade(self) -> None:
        if self.metadata.format_version < 3:
            self._put({**self._json(), "format-version": 3, "next-row-id": 0})

    def _json(self) -> dict[str, Any]:
        table = self.theirs.catalog.load_table(("sales", self.name))
        found: dict[str, Any] = json.loads(
            table.io.new_input(table.metadata_location).open().read()
        )
        return found

    def _commit(self, data: Sequence[Data], deletions: Sequence[Deletion]) -> None:
        self.data += data
        self.deletions += deletions
        metadata = self.metadata
        snapshot_id, sequence = self.chance.getrandbits(62), self._next
        added = {*(each.path for each in data)}
        new = {(each.path, each.blob) for each in deletions}
        manifests = self._manifests(
            snapshot_id, sequence, ManifestContent.DATA,
            [
                (_data_file(e, self.lacking.get(e.path)), e.spec, e.sequence, e.path in added)
                for e in self.data
            ],
        ) + self._manifests(
            snapshot_id, sequence, ManifestContent.DELETES,
            [
                (_delete_file(each), each.spec, each.sequence, (each.path, each.blob) in new)
                for each in self.deletions
            ],
        )  # fmt: skip
        folder = f"{metadata.location}/metadata"
        path = f"{folder}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
        with write_manifest_list(
            format_version=2,
            output_file=self._io.new_output(path),
            snapshot_id=snapshot_id,
            parent_snapshot_id=metadata.current_snapshot_id,
            sequence_number=sequence,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(manifests)
        only_added = bool(data) and not deletions and len(added) == len(data)
        at = int(time.time() * 1000)
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": at,
            "manifest-list": path,
            "summary": {"operation": "append" if only_added and self._grown else "overwrite"},
            "schema-id": metadata.current_schema_id,
        }
        if metadata.current_snapshot_id is not None:
            snapshot["parent-snapshot-id"] = metadata.current_snapshot_id
        if metadata.format_version >= 3:
            snapshot |= {"first-row-id": 0, "added-rows": 0}
        found = self._json()
        found |= {
            "snapshots": [*found.get("snapshots", []), snapshot],
            "current-snapshot-id": snapshot_id,
            "refs": {"main": {"snapshot-id": snapshot_id, "type": "branch"}},
            "last-sequence-number": sequence,
            "last-updated-ms": at,
        }
        self._put(found)

    _grown = False  # appends are told by comparing states as well

    def _manifests(
        self,
        snapshot_id: int,
        sequence: int,
        content: ManifestContent,
        files: Sequence[tuple[DataFile, int, int, bool]],
    ) -> list[ManifestFile]:
        metadata = self.metadata
        found = []
        for spec_id in sorted({spec for _, spec, _, _ in files}):
            place = f"{metadata.location}/metadata/{uuid.uuid4()}-m.avro"
            with _Writer(
                metadata.specs()[spec_id],
                metadata.schema(),
                self._io.new_output(place),
                snapshot_id,
                "deflate",
                content,
            ) as writer:
                for file, spec, age, is_new in files:
                    if spec == spec_id:
                        added, there = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING
                        writer.add_entry(
                            ManifestEntry.from_args(
                                _table_format_version=3,
                                status=added if is_new else there,
                                snapshot_id=snapshot_id,
                                sequence_number=age,
                                file_sequence_number=sequence if is_new else age,
                                data_file=file,
                            )
                        )
            found.append(writer.to_manifest_file())
        return found

    def _put(self, found: Mapping[str, Any]) -> None:
        path = f"{self.metadata.location}/metadata/{uuid.uuid4().hex}.metadata.json"
        Path(path.removeprefix("file://")).write_text(json.dumps(found))
        with self.theirs.catalog.engine.begin() as c:
            c.exec_driver_sql(
                "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, "
                "metadata_location = ? WHERE table_namespace = 'sales' AND table_name = ?",
                (path, self.name),
            )


class _Writer(ManifestWriterV2):
    """Manifests with the fields of version 3, of data or deletes."""

    def __init__(self, *given: Any) -> None:
        *rest, self._content = given
        super().__init__(*rest)

    def content(self) -> ManifestContent:
        return self._content  # type: ignore[no-any-return]

    @property
    def _meta(self) -> dict[str, str]:
        kind = "data" if self._content is ManifestContent.DATA else "deletes"
        return {**super()._meta, "content": kind}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(3),
            record_schema=self._with_partition(3),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def _data_file(file: Data, sizes: Mapping[int, int] | None) -> DataFile:
    return _file(
        file.spec,
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=len(file.rows),
        file_size_in_bytes=file.size,
        column_sizes=sizes,
    )


def _delete_file(file: Deletion) -> DataFile:
    bounds = {FILE_PATH: file.bounds.encode()} if file.bounds is not None else None
    return _file(
        file.spec,
        content=file.content,
        file_path=file.path,
        file_format=FileFormat.PUFFIN if file.blob is not None else FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        equality_ids=list(file.keys) or None,
        referenced_data_file=file.file,
        content_offset=file.blob[0] if file.blob is not None else None,
        content_size_in_bytes=file.blob[1] if file.blob is not None else None,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )


def _file(spec_id: int, **facts: Any) -> DataFile:
    made = DataFile.from_args(_table_format_version=3, **facts)
    made.spec_id = spec_id
    return made


def imported(theirs: Theirs, name: str, years: Sequence[int]) -> None:
    """A table of files that a migration took over: `sales/year=2024/…`, without ids and without years.

    A column was renamed since, and later files carry ids.
    """
    schema = pa.schema([("id", pa.int64()), ("label", pa.string()), ("year", pa.int32())])
    table = theirs.catalog.create_table(("sales", name), schema)
    with table.update_spec() as spec:
        spec.add_field("year", IdentityTransform(), "year")
    mapping = [{"field-id": at, "names": [n]} for at, n in ((1, "id"), (2, "label"), (3, "year"))]
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    hand = Hand(theirs, name, random.Random(0))
    for year in years:
        local = hand._folder() / f"{name}-{year}.parquet"
        rows = pa.table({"label": [f"a{year}", None], "id": pa.array([year, 1], pa.int64())})
        pq.write_table(rows, local)
        found = Data(
            f"file://{local}", ({1: year, 2: f"a{year}", 3: year}, {1: 1, 2: None, 3: year}),
            local.stat().st_size, hand.metadata.default_spec_id, (year,), hand._next,
            frozenset({0, 1}),
        )  # fmt: skip
        hand.lacking[found.path] = {1: 8, 2: 8}
        hand._commit([found], [])
    with theirs.catalog.load_table(("sales", name)).update_schema() as update:
        update.rename_column("label", "title")
    hand.append([{1: 7, 2: "new", 3: years[0]}])

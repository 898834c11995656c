"""A table at one version: its columns, snapshots, files and changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField
from pyiceberg.types import StructType as IcebergStruct

from anabranch.cache import Cache
from anabranch.errors import BaseExpired, Unsupported
from anabranch.lake.checksums import damaged
from anabranch.lake.comments import comments_of
from anabranch.lake.footers import tail_of
from anabranch.lake.imported import constants_of, names_of
from anabranch.lake.manifests import is_live, live_entries, manifests
from anabranch.lake.ranges import file_statistics, kind_of, pruned
from anabranch.lake.row_deletes import RowDeletes, Terms, blob_of, referenced
from anabranch.lake.types import columns_of
from anabranch.lake.vectors import positions
from anabranch.lazy import lazy
from anabranch.model import (
    FILE_PATH_ID,
    POSITION_ID,
    Bound,
    Column,
    ColumnRanges,
    Columns,
    Delta,
    KeyDeletes,
    Reading,
    Vector,
)
from anabranch.names import TableName
from anabranch.plan.statistics import FileStatistics, is_clustered, share

if TYPE_CHECKING:
    from anabranch.lake import changes as deltas
else:
    deltas = lazy("anabranch.lake.changes")


HIDDEN = "anabranch.hidden"  # table property: the hidden columns of our files
STAGE = "anabranch.stage"  # snapshot summary: the stage that made it
ROWS = "anabranch.rows"  # snapshot summary: rows in the table
_OURS = re.compile(r"/data/[0-9a-f]{32}/")


@dataclass(frozen=True)
class FileState:
    """The live files of a snapshot."""

    data: tuple[ManifestEntry, ...]
    deletes: RowDeletes


@dataclass(frozen=True, eq=False)
class TableVersion:
    """Immutable, like the metadata file it stands for.

    `older` finds snapshots by table and id that the metadata does not list any more.
    """

    name: TableName
    location: str
    metadata: TableMetadata = field(repr=False)
    io: FileIO = field(repr=False)
    older: Callable[[str, int], Snapshot | None] = field(repr=False, default=lambda *_: None)

    @property
    def root(self) -> str:
        return self.metadata.location.rstrip("/")

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def comments(self) -> Mapping[str, str]:
        """By the name of the column; "" is the table itself."""
        return comments_of(self.metadata)

    @property
    def snapshot_id(self) -> int | None:
        return self.metadata.current_snapshot_id

    @cached_property
    def snapshot_ids(self) -> frozenset[int]:
        return frozenset(each.snapshot_id for each in self.metadata.snapshots)

    @cached_property
    def columns(self) -> Columns:
        """What users see."""
        schema = self.metadata.schema()
        for each in schema.fields:
            if each.initial_default is not None:
                raise Unsupported(
                    f"column {each.name} of {self.name} has an initial default",
                    hint="rewrite the table, so that its files hold the values",
                )
        owners = self._owners()
        try:
            found = columns_of(schema.as_struct())
        except Unsupported as error:
            raise Unsupported(f"{self.name}: {error.message}", hint=error.hint) from None
        return tuple(
            replace(column, ambiguous=owners[column.name.lower()] != {column.field_id})
            for column in found
        )

    def _owners(self) -> dict[str, set[int]]:
        """All columns that ever had a name; delete files have two names of their own."""
        owners: dict[str, set[int]] = {"file_path": {FILE_PATH_ID}, "pos": {POSITION_ID}}
        for schema in (*self.metadata.schemas, self.metadata.schema()):
            for each in schema.fields:
                owners.setdefault(each.name.lower(), set()).add(each.field_id)
        return owners

    @cached_property
    def hidden(self) -> Columns:
        """State that only we read, inside the same files."""
        return columns_from_json(self.properties.get(HIDDEN, "[]"))

    @cached_property
    def ours(self) -> bool:
        """Whether the current snapshot was made by Anabranch; an empty table has none."""
        snapshot = self.metadata.current_snapshot()
        return snapshot is None or STAGE in summary_of(snapshot)

    @cached_property
    def hidden_complete(self) -> bool:
        """Whether all files carry the hidden columns: other writers do not know of them."""
        data = self.state(self.snapshot_id).data
        return all(_OURS.search(each.data_file.file_path) for each in data)

    @cached_property
    def empty(self) -> bool:
        """Whether the table has no data file; told by its list of manifests alone."""
        found = manifests(self.io, self.metadata.current_snapshot())
        return not any(is_live(each) and each.content == ManifestContent.DATA for each in found)

    @cached_property
    def rows(self) -> int:
        """Rows that a reader sees, without reading any.

        Exact while only we write the table.  After deletes by others it is counted from manifests,
        which is too low when position deletes outlive the files they point to.
        """
        told = self.summary().get(ROWS)
        if told is not None:
            return int(told)
        return max(0, self._counted(ManifestContent.DATA) - self.marked)

    @cached_property
    def marked(self) -> int:
        """Rows that deletes of places hide."""
        if self._counted(ManifestContent.DELETES) == 0:
            return 0
        return self.state(self.snapshot_id).deletes.counted

    @cached_property
    def bytes(self) -> int:
        return sum(each.data_file.file_size_in_bytes for each in self.state(self.snapshot_id).data)

    @property
    def net_rows(self) -> tuple[int, int]:
        """Rows that the current snapshot inserted and deleted; unknown deletions count as none."""
        snapshot = self.metadata.current_snapshot()
        own = deltas.own_delta(self, snapshot) if snapshot is not None else None
        return (own.plus_rows, own.minus_rows) if own is not None else (self.rows, 0)

    def summary(self, snapshot_id: int | None = None) -> Mapping[str, str]:
        """The summary of a snapshot, with its `operation`."""
        snapshot = self.snapshot(snapshot_id if snapshot_id is not None else self.snapshot_id)
        return {} if snapshot is None else summary_of(snapshot)

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """A snapshot by id; None stands for the empty table."""
        if snapshot_id is None:
            return None
        found = self.find_snapshot(snapshot_id)
        if found is None:
            raise BaseExpired(
                f"snapshot {snapshot_id} of {self.name} is gone",
                hint="REFRESH STREAM TABLE … FULL recomputes; snapshot_retention keeps more of them",
            )
        return found

    def find_snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """A snapshot that is listed, or kept for a cut or a stream table."""
        if snapshot_id is None:
            return None
        found = self.metadata.snapshot_by_id(snapshot_id)
        return found or self.older(str(self.metadata.table_uuid), snapshot_id)

    def state(self, snapshot_id: int | None) -> FileState:
        snapshot = self.snapshot(snapshot_id)
        if snapshot is None:
            return FileState((), RowDeletes(()))
        return _states.get(snapshot.manifest_list, lambda: self._read_state(snapshot))

    def reading(
        self,
        snapshot_id: int | None = None,
        prune: Sequence[Bound] = (),
        within: Sequence[ColumnRanges] = (),
    ) -> Reading:
        """The files to read, without those that cannot hold a row for which all bounds of `prune`
        hold, or one in a box of `within`."""
        state = self.state(self.snapshot_id if snapshot_id is None else snapshot_id)
        data: Sequence[ManifestEntry] = state.data
        if prune:
            data = pruned(self.metadata.schema(), data, prune)
        if within:
            known = self.file_statistics(within, data)
            data = [each for each, file in zip(data, known, strict=True) if file.share(within)]
        return self.reading_of(data, skip=state.deletes)

    def reading_of(
        self,
        files: Sequence[ManifestEntry],
        skip: RowDeletes | None = None,
        only: RowDeletes | None = None,
    ) -> Reading:
        """Data files with the deletes that can apply to them, however they came into the table."""
        found = reading_of(files, skip, only)
        others = [each for each in files if not _OURS.search(each.data_file.file_path)]
        if not others:
            return found
        paths = [each.data_file.file_path for each in others]
        names = names_of(self.io, self.metadata, paths, self.name)
        constants = constants_of(self.metadata, others, self.name)
        return replace(found, names=names, constants=constants) if names or constants else found

    def field(self, column: str) -> NestedField | None:
        """A column by its name, letter by letter."""
        return self._fields.get(column)

    @cached_property
    def _fields(self) -> dict[str, NestedField]:
        return {field.name: field for field in self.metadata.schema().fields}

    def kind(self, column: str) -> str | None:
        """The kind of spans that the values of a column have."""
        field = self.field(column)
        return kind_of(field) if field is not None else None

    def lies_together(self, column: str) -> bool:
        """Whether rows with like values of a column lie in the same files."""
        data = self.state(self.snapshot_id).data
        return is_clustered(file_statistics(self.metadata.schema(), data, [column]), column)

    def share(self, within: Sequence[ColumnRanges]) -> float:
        """About what part of the rows lies in the boxes, as far as file statistics tell."""
        return share(self.file_statistics(within), within)

    def file_statistics(
        self, boxes: Sequence[ColumnRanges], files: Sequence[ManifestEntry] | None = None
    ) -> tuple[FileStatistics, ...]:
        """What is known of the columns of some boxes, file by file; of all files if not told."""
        names = {name for box in boxes for name, _ in box}
        found = self.state(self.snapshot_id).data if files is None else files
        return file_statistics(self.metadata.schema(), found, names)

    def delta(
        self, since: int | None, until: int | None = None, *, by_states: bool = False
    ) -> Delta:
        """What changed from one snapshot to another (the current one unless said).

        It may name rows that came and went on the way, unless it is found `by_states` alone.
        """
        last = self.snapshot_id if until is None else until
        if by_states:
            return deltas.compared(self, since, last)
        return deltas.changes(self, since, last)

    def _counted(self, content: ManifestContent) -> int:
        found = manifests(self.io, self.metadata.current_snapshot())
        return sum(
            (each.added_rows_count or 0) + (each.existing_rows_count or 0)
            for each in found
            if each.content == content
        )

    def _read_state(self, snapshot: Snapshot) -> FileState:
        data: list[ManifestEntry] = []
        deletes: list[ManifestEntry] = []
        for manifest in manifests(self.io, snapshot):
            if is_live(manifest):
                entries = live_entries(self.io, manifest)
                check_readable(self, entries)
                (data if manifest.content == ManifestContent.DATA else deletes).extend(entries)
        return FileState(tuple(data), self.deletes_of(deletes))

    def deletes_of(self, entries: Sequence[ManifestEntry]) -> RowDeletes:
        """Delete files in the terms of this table."""
        return RowDeletes(entries, Terms(self._vector, self._keys, _scope))

    def _vector(self, entry: ManifestEntry) -> Vector:
        file, blob = entry.data_file, blob_of(entry)
        path, data = file.file_path, referenced(entry)
        if blob is None or data is None:
            raise damaged(path, "deletion vector")
        read = partial(positions, self.io, path, *blob, file.record_count)
        return Vector(path, blob[0], data, read)

    def _keys(self, entry: ManifestEntry) -> KeyDeletes:
        file = entry.data_file
        ids = sorted(file.equality_ids or ())
        columns = tuple(self._key(each) for each in ids)
        if any(each.type in ("float", "double") for each in columns):
            raise Unsupported(
                f"table {self.name} has equality deletes by a floating-point column",
                hint="compact it with the program that wrote them",
            )
        scope = _scope(entry) if self._is_partitioned(file.spec_id) else ""
        return KeyDeletes(file.file_path, columns, entry.sequence_number or 0, scope)

    def _is_partitioned(self, spec_id: int) -> bool:
        spec = self.metadata.specs().get(spec_id)
        return spec is not None and not spec.is_unpartitioned()

    def _key(self, field_id: int) -> Column:
        """A column that equality deletes name, which may have been dropped since."""
        current = {each.field_id: each for each in self.columns}
        if field_id in current:
            return current[field_id]
        for schema in sorted(self.metadata.schemas, key=lambda each: -each.schema_id):
            for found in schema.fields:
                if found.field_id == field_id:
                    return columns_of(IcebergStruct(found))[0]
        raise Unsupported(
            f"table {self.name} has equality deletes by a field inside a column",
            hint="compact it with the program that wrote them",
        )


_states: Cache[FileState] = Cache(256, "file states", of_files=True)


def check_readable(version: TableVersion, entries: Sequence[ManifestEntry]) -> None:
    """Refuse what Spark could not read exactly."""
    for each in entries:
        file = each.data_file
        if file.content == DataFileContent.EQUALITY_DELETES and not file.equality_ids:
            what, cure = "equality deletes without columns", "compact it with their writer"
        elif file.file_format is FileFormat.PUFFIN:
            continue
        elif file.file_format is not FileFormat.PARQUET:
            what, cure = f"{file.file_format.value} files", "rewrite it as Parquet"
        else:
            continue
        raise Unsupported(f"table {version.name} has {what}", hint=cure)


def reading_of(
    files: Sequence[ManifestEntry], skip: RowDeletes | None = None, only: RowDeletes | None = None
) -> Reading:
    """Data files with the deletes that can apply to them."""
    rows = sum(each.data_file.record_count for each in files)
    skip = skip.applying_to(files) if skip else RowDeletes(())
    only = only.applying_to(files) if only else RowDeletes(())
    marked = only.counted if only.entries and not only.keys else rows
    by_age = skip.keys or only.keys
    return Reading(
        files=tuple(each.data_file.file_path for each in files),
        skip=tuple(sorted(skip.paths)),
        only=tuple(sorted(only.paths)),
        skip_vectors=skip.vectors,
        only_vectors=only.vectors,
        skip_keys=skip.keys,
        only_keys=only.keys,
        ages={each.data_file.file_path: _age(each) for each in files} if by_age else {},
        rows=min(rows, marked),
        bytes=sum(each.data_file.file_size_in_bytes for each in files),
        longest=max((each.data_file.record_count for each in files), default=0),
        tails=tails_of((*files, *skip.entries, *only.entries)),
    )


def _age(file: ManifestEntry) -> tuple[int, str]:
    return file.sequence_number or 0, _scope(file)


def _scope(entry: ManifestEntry) -> str:
    """The partition that a file is of."""
    partition = entry.data_file.partition
    values = [partition[at] for at in range(len(partition))]
    return f"{entry.data_file.spec_id}:{values!r}"


def tails_of(entries: Sequence[ManifestEntry]) -> dict[str, int]:
    """Checksums by path, of the files that have one."""
    found = ((each.data_file.file_path, tail_of(each.data_file)) for each in entries)
    return {path: tail for path, tail in found if tail is not None}


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    if snapshot.summary is None:
        return {}
    operation = snapshot.summary.operation.value
    return {"operation": operation, **snapshot.summary.additional_properties}


def columns_to_json(columns: Columns) -> str:
    return json.dumps([asdict(column) for column in columns])


def columns_from_json(text: str) -> Columns:
    return tuple(Column(**column) for column in json.loads(text))

"""Written files become a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    SetPropertiesUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from anabranch.errors import DataError, InternalError, RowsLost, Unreachable, Unsupported
from anabranch.lake.changes import DELTA, NetDelta
from anabranch.lake.footers import counts, data_files, delete_files, tail_of
from anabranch.lake.places import same_form
from anabranch.lake.snapshots import FileChange, with_snapshot
from anabranch.lake.version import HIDDEN, ROWS, STAGE, TableVersion, columns_to_json
from anabranch.model import FIRST_HIDDEN_ID, Columns, Written
from anabranch.names import shown


def committed(
    version: TableVersion,
    stage_id: str,
    written: Written,
    *,
    how: str,
    replaced: Collection[str] | None,
    hidden: Columns,
    summary: Mapping[str, str],
) -> TableMetadata:
    """The table's metadata with the written files in a new snapshot; the same when nothing changed."""
    try:
        change = _change(version, written, how, replaced)
        if change is None:
            _discard(version, written)
            return version.metadata
        metadata = _writable(version)
        metadata = _with_hidden(version, metadata, hidden, keeps=not change.everything)
        rows = _rows_after(version, change)
        told = {STAGE: stage_id, ROWS: str(rows), **summary, **change.summary}
        change = FileChange(
            change.operation, change.add, change.deletes, change.drop, change.everything, told
        )
        return with_snapshot(version.io, metadata, stage_id, change)
    except OSError as error:
        raise Unreachable(
            f"the files of {version.name} cannot be reached: {error}",
            hint="check the warehouse and its free space",
        ) from error


def _change(
    version: TableVersion, written: Written, how: str, replaced: Collection[str] | None
) -> FileChange | None:
    io, schema = version.io, version.metadata.schema()
    add = data_files(io, schema, _placed(version, written.add))
    keep = data_files(io, schema, _placed(version, written.keep))
    removed = _placed(version, written.remove)
    removed_counts = counts(io, removed)
    in_files = sum(file.record_count for file in (*add, *keep))
    check_rows(version.name, written.rows, in_files + _rows(removed_counts))
    _check_nulls(version, add)
    empty = version.empty
    if how == "compaction":
        drop = None if replaced is None else frozenset(replaced)
        told = _told(version, [], {})
        return FileChange(Operation.REPLACE, [*keep, *add], (), drop, replaced is None, told)
    if how == "replace":
        if empty and not add and not keep:
            return None
        told = _told(version, [*keep, *add], {}) if empty else {}
        operation = Operation.APPEND if empty else Operation.OVERWRITE
        return FileChange(operation, [*keep, *add], everything=not empty, summary=told)
    if not add and not removed_counts:
        return None
    told = _told(version, add, removed_counts)
    if how == "rewrite":
        operation = Operation.OVERWRITE if not empty else Operation.APPEND
        return FileChange(operation, [*keep, *add], everything=not empty, summary=told)
    if keep:
        raise InternalError(f"{version.name}: rows are to be kept, but the table is not rewritten")
    deletes = delete_files(io, removed)
    if not deletes:
        return FileChange(Operation.APPEND, add, summary=told)
    return FileChange(Operation.OVERWRITE if add else Operation.DELETE, add, deletes, summary=told)


def check_rows(name: object, produced: int, found: int) -> None:
    """Rows that Spark produced and nobody finds are lost, rows that nobody produced are strays."""
    if produced != found:
        raise RowsLost(
            f"{name}: Spark produced {produced:,} rows, but the files to be committed hold "
            f"{found:,}: nothing was published",
            hint="every executor must see the warehouse, and nobody else may write into the folder",
        )


def _rows(found: Mapping[str, tuple[int, int, int]]) -> int:
    return sum(rows for rows, _, _ in found.values())


def _told(
    version: TableVersion, add: Sequence[DataFile], removed: Mapping[str, tuple[int, int, int]]
) -> dict[str, str]:
    delta = NetDelta(
        base=version.snapshot_id,
        plus=tuple(file.file_path for file in add),
        minus=tuple(removed),
        plus_rows=sum(file.record_count for file in add),
        minus_rows=_rows(removed),
        plus_bytes=sum(file.file_size_in_bytes for file in add),
        minus_bytes=sum(size for _, size, _ in removed.values()),
        plus_tails=tuple(tail_of(file) or 0 for file in add),
        minus_tails=tuple(tail for _, _, tail in removed.values()),
    )
    return {DELTA: delta.to_json(version.root)}


def _rows_after(version: TableVersion, change: FileChange) -> int:
    added = sum(file.record_count for file in change.add)
    if change.everything or version.snapshot_id is None:
        return added
    if change.operation is Operation.REPLACE:
        return version.rows
    return version.rows + added - sum(file.record_count for file in change.deletes)


def _placed(version: TableVersion, paths: Sequence[str]) -> list[str]:
    placed = [same_form(path, version.root) for path in paths]
    for path in placed:
        if not path.startswith(version.root + "/"):
            raise InternalError(f"{path} is not in the folder of table {version.name}")
    return placed


def _discard(version: TableVersion, written: Written) -> None:
    for path in _placed(version, (*written.add, *written.remove, *written.keep)):
        version.io.delete(path)


def _check_nulls(version: TableVersion, files: Sequence[DataFile]) -> None:
    for column in version.metadata.schema().fields:
        if column.required and any(
            (file.null_value_counts or {}).get(column.field_id) for file in files
        ):
            raise DataError(
                f"column {shown(column.name)} of {version.name} is NOT NULL, "
                "but a row has NULL there"
            )


def _writable(version: TableVersion) -> TableMetadata:
    metadata = version.metadata
    if metadata.format_version > 2:
        raise Unsupported(
            f"table {version.name} has format version {metadata.format_version}: it is read-only",
            hint="write it with the program that created it",
        )
    if metadata.spec().fields:
        raise Unsupported(
            f"table {version.name} is partitioned: it is read-only",
            hint="write it with the program that created it",
        )
    if metadata.format_version == 1:
        upgrade = UpgradeFormatVersionUpdate.model_validate({"format-version": 2})
        metadata = update_table_metadata(metadata, (upgrade,))
    return metadata


def _with_hidden(
    version: TableVersion, metadata: TableMetadata, hidden: Columns, keeps: bool
) -> TableMetadata:
    if hidden == version.hidden:
        return metadata
    if keeps and not version.empty:
        raise InternalError(f"{version.name}: hidden columns change, but old files stay")
    if any(column.field_id < FIRST_HIDDEN_ID for column in hidden):
        raise InternalError(f"{version.name}: hidden columns need ids from {FIRST_HIDDEN_ID} up")
    if metadata.last_column_id >= FIRST_HIDDEN_ID:
        raise Unsupported(f"table {version.name} has used too many column ids")
    update = SetPropertiesUpdate(updates={HIDDEN: columns_to_json(hidden)})
    return update_table_metadata(metadata, (update,))

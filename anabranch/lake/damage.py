"""What is wrong with the files of a table: quickly by their sizes, deeply by reading them.

quick   metadata and manifests can be read; data files are there, with the sizes that manifests tell
deep    every page and footer has its checksum; rows are as many as manifests tell; position deletes
        name rows that there are
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileType
from pyiceberg.manifest import DataFileContent, ManifestEntry

from anabranch.engine.tails import summed
from anabranch.errors import FileDamaged, FileMissing
from anabranch.lake.changes import own_delta
from anabranch.lake.footers import tail_of
from anabranch.lake.lake import Lake
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

MISSING = "MISSING"  # a file is gone
SIZE = "SIZE"  # a file is longer or shorter than its manifest says
DAMAGED = "DAMAGED"  # a checksum is wrong, or a file cannot be read at all
ROWS = "ROWS"  # a file has other rows than its manifest says
POSITIONS = "POSITIONS"  # a position delete names a row that is not there
EXPIRED = "EXPIRED"  # a snapshot that a stream table stands on is gone
THREADS = 4
BATCH = 1 << 16


@dataclass(frozen=True)
class Damage:
    path: str
    problem: str
    detail: str


def damages(
    lake: Lake, name: TableName, location: str, needed: Collection[int] = (), *, deep: bool = False
) -> list[Damage]:
    """Of a table as it is, and of the older snapshots that are `needed`."""
    try:
        version = lake.version(name, location)
        if deep:
            lake.reread(name, location)
    except FileMissing as error:
        return [_of(error, location)]
    return damages_of(lake, version, needed, deep=deep)


def damages_of(
    lake: Lake, version: TableVersion, needed: Collection[int] = (), *, deep: bool = False
) -> list[Damage]:
    """The same of a version that could be read."""
    location = version.location
    found: list[Damage] = []
    files: dict[str, ManifestEntry] = {}
    for snapshot_id in dict.fromkeys([version.snapshot_id, *sorted(needed)]):
        if snapshot_id is not None and snapshot_id not in version.snapshot_ids:
            gone = f"snapshot {snapshot_id}, which a stream table stands on, is gone"
            found.append(Damage(location, EXPIRED, gone))
            continue
        try:
            state = version.state(snapshot_id)
        except FileMissing as error:
            found.append(_of(error, location))
            continue
        files |= {e.data_file.file_path: e for e in (*state.data, *state.marks.entries)}
    sizes = {path: entry.data_file.file_size_in_bytes for path, entry in files.items()}
    found += _sizes(lake, {**_deltas(version, needed), **sizes})
    if deep:
        broken = {each.path for each in found}
        found += _read_all(version, [e for path, e in files.items() if path not in broken])
    return found


def _of(error: FileMissing, location: str) -> Damage:
    problem = DAMAGED if isinstance(error, FileDamaged) else MISSING
    return Damage(error.path or location, problem, error.message)


def _deltas(version: TableVersion, needed: Collection[int]) -> dict[str, int | None]:
    """The files that tell the changes since the oldest snapshot that is needed."""
    found: dict[str, int | None] = {}
    at, left = version.metadata.current_snapshot(), {*needed}
    while at is not None and left - {at.snapshot_id}:
        left.discard(at.snapshot_id)
        if delta := own_delta(version, at):
            found |= dict.fromkeys((*delta.plus, *delta.minus))
        parent = at.parent_snapshot_id
        at = version.metadata.snapshot_by_id(parent) if parent is not None else None
    return found if at is not None and not left - {at.snapshot_id} else {}


def _sizes(lake: Lake, wanted: Mapping[str, int | None]) -> Iterator[Damage]:
    paths = sorted(wanted)
    for path, size in zip(paths, _lengths(lake, paths), strict=True):
        told = wanted[path]
        if size is None:
            yield Damage(path, MISSING, "the file is gone")
        elif told is not None and size != told:
            yield Damage(path, SIZE, f"the file has {size:,} bytes, its manifest says {told:,}")


def _lengths(lake: Lake, paths: Sequence[str]) -> Iterator[int | None]:
    for at in range(0, len(paths), BATCH):
        chunk = paths[at : at + BATCH]
        filesystem, _ = lake.warehouse.filesystem(chunk[0])
        plain = [lake.warehouse.filesystem(path)[1] for path in chunk]
        try:
            infos = filesystem.get_file_info(plain)
        except OSError as error:
            raise lake.warehouse.unreachable(error) from error
        yield from (info.size if info.type == FileType.File else None for info in infos)


def _read_all(version: TableVersion, entries: Sequence[ManifestEntry]) -> list[Damage]:
    rows = {each.data_file.file_path: each.data_file.record_count for each in entries}
    with ThreadPoolExecutor(THREADS, thread_name_prefix="check") as pool:
        found = pool.map(lambda each: _read(version, each, rows), entries)
        return [damage for damage in found if damage is not None]


def _read(version: TableVersion, entry: ManifestEntry, rows: Mapping[str, int]) -> Damage | None:
    file = entry.data_file
    marks = file.content == DataFileContent.POSITION_DELETES
    try:
        with version.io.new_input(file.file_path).open() as stream:
            tail = tail_of(file)
            if tail is not None:
                stream.seek(file.file_size_in_bytes - (tail >> 32))
                if summed(stream.read(tail >> 32)) != tail:
                    return Damage(file.file_path, DAMAGED, "its footer is not what was written")
            stream.seek(0)
            opened = pq.ParquetFile(stream, page_checksum_verification=True)
            if opened.metadata.num_rows != file.record_count:
                told = f"{opened.metadata.num_rows:,} rows, its manifest says {file.record_count:,}"
                return Damage(file.file_path, ROWS, f"the file has {told}")
            for batch in opened.iter_batches(BATCH):
                if marks and (stray := _stray(batch, rows)):
                    return Damage(file.file_path, POSITIONS, stray)
    except (OSError, ValueError, pa.ArrowException) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Damage(file.file_path, DAMAGED, said)
    return None


def _stray(batch: pa.RecordBatch, rows: Mapping[str, int]) -> str | None:
    """A row of a data file of the table that is not there; other files may be gone by now."""
    places: Iterable[tuple[str, int]] = zip(
        batch.column("file_path").to_pylist(), batch.column("pos").to_pylist(), strict=True
    )
    for path, at in places:
        if path in rows and not 0 <= at < rows[path]:
            return f"it names row {at:,} of {path}, which has {rows[path]:,} rows"
    return None

"""What is wrong with the files of a table: quickly by their sizes, deeply by reading them.

quick   metadata and manifests can be read; data files are there, with the sizes that manifests tell
deep    every page and footer has its checksum; rows are as many as manifests tell; position deletes
        name rows that there are
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileType
from pyiceberg.manifest import DataFileContent, ManifestEntry

from anabranch.errors import FileDamaged, FileMissing, FileUnreadable
from anabranch.lake.changes import own_delta
from anabranch.lake.footers import tail_of
from anabranch.lake.lake import Lake
from anabranch.lake.version import TableVersion
from anabranch.names import TableName
from anabranch.spark.tails import summed

MISSING = "MISSING"  # a file is gone
SIZE = "SIZE"  # a file is longer or shorter than its manifest says
DAMAGED = "DAMAGED"  # a checksum is wrong, or a file cannot be read at all
ROWS = "ROWS"  # a file has other rows than its manifest says
POSITIONS = "POSITIONS"  # a position delete names a row that is not there
UNREADABLE = "UNREADABLE"  # this user may not read a file
EXPIRED = "EXPIRED"  # a snapshot that a stream table stands on is gone
THREADS = 4
BATCH = 1 << 16


@dataclass(frozen=True)
class Damage:
    path: str
    problem: str
    detail: str
    current: bool = True  # False: only an older snapshot, or the changes since, cannot be read


def damages(
    lake: Lake, name: TableName, location: str, needed: Collection[int] = (), *, deep: bool = False
) -> list[Damage]:
    """Of a table as it is, and of the older snapshots that are `needed`."""
    try:
        version = lake.version(name, location)
        if deep:
            lake.reread(name, location)
    except (FileMissing, FileUnreadable) as error:
        return [_of(error, location)]
    return damages_of(lake, version, needed, deep=deep)


def is_whole(lake: Lake, version: TableVersion, read: set[str]) -> bool:
    """Whether every file of a version is what was written; `read` remembers data files that are."""
    return not damages_of(lake, version) and not damages_of(lake, version, deep=True, read=read)


def damages_of(
    lake: Lake,
    version: TableVersion,
    needed: Collection[int] = (),
    *,
    deep: bool = False,
    read: set[str] | None = None,
) -> list[Damage]:
    """The same of a version whose metadata could be read; what is in `read` is not read again."""
    location = version.location
    found: list[Damage] = []
    files: dict[str, ManifestEntry] = {}
    now: set[str] = set()
    for snapshot_id in dict.fromkeys([version.snapshot_id, *sorted(needed)]):
        if snapshot_id is not None and version.find_snapshot(snapshot_id) is None:
            gone = f"snapshot {snapshot_id}, which a stream table stands on, is gone"
            found.append(Damage(location, EXPIRED, gone, current=False))
            continue
        current = snapshot_id == version.snapshot_id
        try:
            state = version.state(snapshot_id)
        except (FileMissing, FileUnreadable) as error:
            each = _of(error, location)
            if each not in found:
                found.append(replace(each, current=current))
            continue
        files |= {e.data_file.file_path: e for e in (*state.data, *state.deletes.entries)}
        now = {*files} if current else now
    sizes = {path: entry.data_file.file_size_in_bytes for path, entry in files.items()}
    of_files = [*_sizes(lake, {**_deltas(version, needed), **sizes})]
    if deep:
        broken = {each.path for each in of_files}
        unread = [e for path, e in files.items() if path not in broken]
        of_files += _read_all(version, unread, read if read is not None else set())
    return [*found, *(replace(each, current=each.path in now) for each in of_files)]


def damaged_files(version: TableVersion, paths: Collection[str]) -> list[Damage]:
    """Those of some data files of a version, as it is, that are not what was written."""
    state = version.state(version.snapshot_id)
    found = [
        each for each in (*state.data, *state.deletes.entries) if each.data_file.file_path in paths
    ]
    return _read_all(version, found, set())


def _of(error: FileMissing | FileUnreadable, location: str) -> Damage:
    problem = DAMAGED if isinstance(error, FileDamaged) else MISSING
    if isinstance(error, FileUnreadable):
        problem = UNREADABLE
    return Damage(error.path or location, problem, error.message)


def _deltas(version: TableVersion, needed: Collection[int]) -> dict[str, int | None]:
    """The files that tell the changes since the oldest snapshot that is needed."""
    found: dict[str, int | None] = {}
    at, left = version.metadata.current_snapshot(), {*needed}
    while at is not None and left - {at.snapshot_id}:
        left.discard(at.snapshot_id)
        if delta := own_delta(version, at):
            found |= dict.fromkeys((*delta.plus, *delta.minus))
        at = version.find_snapshot(at.parent_snapshot_id)
    return found if at is not None and not left - {at.snapshot_id} else {}


def _sizes(lake: Lake, wanted: Mapping[str, int | None]) -> Iterator[Damage]:
    paths = sorted(wanted)
    for path, size in zip(paths, _lengths(lake, paths), strict=True):
        told = wanted[path]
        if isinstance(size, PermissionError):
            yield _locked(path, size)
        elif size is None:
            yield Damage(path, MISSING, "the file is gone")
        elif told is not None and size != told:
            yield Damage(path, SIZE, f"the file has {size:,} bytes, its manifest says {told:,}")


def _locked(path: str, error: PermissionError) -> Damage:
    return Damage(path, UNREADABLE, str(error).splitlines()[0])


def _lengths(lake: Lake, paths: Sequence[str]) -> Iterator[int | PermissionError | None]:
    """Of each file; None for one that is gone, and why this user may not ask for it."""
    for at in range(0, len(paths), BATCH):
        chunk = paths[at : at + BATCH]
        filesystem, _ = lake.warehouse.filesystem(chunk[0])
        plain = [lake.warehouse.filesystem(path)[1] for path in chunk]
        try:
            infos = filesystem.get_file_info(plain)
        except PermissionError as error:  # of one of them
            if len(chunk) == 1:
                yield error
            else:
                yield from (size for path in chunk for size in _lengths(lake, [path]))
            continue
        except OSError as error:
            raise lake.warehouse.unreachable(error) from error
        yield from (info.size if info.type == FileType.File else None for info in infos)


def _read_all(
    version: TableVersion, entries: Sequence[ManifestEntry], read: set[str]
) -> list[Damage]:
    rows = {each.data_file.file_path: each.data_file.record_count for each in entries}
    wanted = [each for each in entries if each.data_file.file_path not in read]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="check") as pool:
        found = [*pool.map(lambda each: _read(version, each, rows), wanted)]
    for entry, damage in zip(wanted, found, strict=True):
        # what position deletes name depends on the other files of a snapshot: they are read again
        if damage is None and entry.data_file.content == DataFileContent.DATA:
            read.add(entry.data_file.file_path)
    return [damage for damage in found if damage is not None]


def _read(version: TableVersion, entry: ManifestEntry, rows: Mapping[str, int]) -> Damage | None:
    file = entry.data_file
    deletes = file.content == DataFileContent.POSITION_DELETES
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
                if deletes and (stray := _stray(batch, rows)):
                    return Damage(file.file_path, POSITIONS, stray)
    except PermissionError as error:
        return _locked(file.file_path, error)
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

"""A light lake, and rows in plain Python.

Metadata files, manifests and data files are Python values on the simulated disk; everything that
decides which of them are written, read, named, kept and deleted is the product's.  Queries are written
in a language of four words over bags of rows (key, value):

    scale 3 s.a      every value times three        sum s.a         one row, the sum
    join s.l s.r     pairs of equal keys            plus s.x s.y    one row, the sum of two sums
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.table.metadata import MetadataLogEntry

from anabranch.errors import BaseExpired, FileMissing, InternalError
from anabranch.lake.relocate import Move, Relocation
from anabranch.lake.version import TableVersion
from anabranch.model import Action, Written
from anabranch.names import TableName
from anabranch.refresh import component, rebuild
from anabranch.refresh.decide import Code, Decision, Reason
from anabranch.refresh.definition import Definition
from anabranch.refresh.members import MemberTable
from anabranch.refresh.sources import Sources
from anabranch.sql.analyze.columns import Flow, Ref
from anabranch.sql.analyze.lineage import Lineage
from tests.simulation.disk import SIZE, Disk, Files

Bag = Counter[Any]
RowsOf = Callable[[TableName], Bag]


# -- metadata ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    additional_properties: Mapping[str, str]
    operation: Any = field(default_factory=lambda: SimpleNamespace(value="overwrite"))


@dataclass(frozen=True)
class Snapshot:
    """Numbers of snapshots count up, and so are their times and places in the sequence."""

    snapshot_id: int
    parent_snapshot_id: int | None
    manifest_list: str
    summary: Summary

    @property
    def sequence_number(self) -> int:
        return self.snapshot_id

    timestamp_ms = sequence_number

    def model_dump(self, **_: object) -> dict[str, Any]:
        """What rows tell of it."""
        return {
            "snapshot-id": self.snapshot_id,
            "parent-snapshot-id": self.parent_snapshot_id,
            "manifest-list": self.manifest_list,
            "timestamp-ms": self.timestamp_ms,
            "summary": self.summary.additional_properties,
        }

    @classmethod
    def model_validate(cls, record: Mapping[str, Any]) -> Snapshot:
        return cls(
            record["snapshot-id"],
            record["parent-snapshot-id"],
            record["manifest-list"],
            Summary(record["summary"]),
        )


@dataclass(frozen=True)
class Metadata:
    location: str
    table_uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: Sequence[Snapshot] = ()
    refs: Mapping[str, Any] = field(default_factory=dict)
    snapshot_log: tuple[Any, ...] = ()
    metadata_log: Sequence[Any] = ()
    last_updated_ms: int = 0
    statistics: tuple[Any, ...] = ()
    partition_statistics: tuple[Any, ...] = ()
    partition_specs: tuple[Any, ...] = ()
    format_version = 2  # of each

    def spec(self) -> Any:
        return SimpleNamespace(fields=())

    def schema(self) -> tuple[str, ...]:
        return ()

    def snapshot_by_id(self, wanted: int) -> Snapshot | None:
        return next((each for each in self.snapshots if each.snapshot_id == wanted), None)

    def current_snapshot(self) -> Snapshot | None:
        found = self.current_snapshot_id
        return None if found is None else self.snapshot_by_id(found)

    def model_copy(self, *, update: Mapping[str, Any]) -> Metadata:
        return replace(self, **update)

    def model_dump(self, *, exclude: Collection[str], **_: object) -> dict[str, Any]:
        """Its shape: all that is not of one version."""
        assert "snapshots" in exclude and "metadata_log" in exclude
        return {
            "location": self.location,
            "table-uuid": self.table_uuid,
            "properties": dict(self.properties),
        }

    @classmethod
    def parse_obj(cls, told: Mapping[str, Any]) -> Metadata:
        """The metadata of a version as its rows tell it, without its file."""
        return cls(
            told["location"],
            told["table-uuid"],
            told["properties"],
            told.get("current-snapshot-id"),
            tuple(map(Snapshot.model_validate, told["snapshots"])),
            {
                name: SimpleNamespace(snapshot_id=r["snapshot-id"])
                for name, r in told["refs"].items()
            },
        )


@dataclass(frozen=True)
class Manifest:
    manifest_path: str
    content: ManifestContent = ManifestContent.DATA
    added_rows_count: int = 0
    existing_rows_count: int = 0

    def has_added_files(self) -> bool:
        return True

    def has_existing_files(self) -> bool:
        return True


@dataclass(frozen=True)
class DataFile:
    file_path: str
    content: DataFileContent = DataFileContent.DATA
    file_format: FileFormat = FileFormat.PARQUET
    spec_id: int = 0
    column_sizes: Any = None
    record_count: int = 1
    file_size_in_bytes: int = SIZE


def entry(path: str) -> Any:
    return SimpleNamespace(data_file=DataFile(path))


def new_metadata(root: str, table_uuid: str) -> Metadata:
    return Metadata(root, table_uuid)


class Numbers:
    """The same numbers in every run of a seed."""

    def __init__(self) -> None:
        self.begin(1)

    def begin(self, first: int) -> None:
        self._next = itertools.count(first)

    def __call__(self) -> int:
        return next(self._next)


number = Numbers()


def with_files(disk: Disk, metadata: Metadata, stage_id: str, files: Collection[str]) -> Metadata:
    """A snapshot that shows these files: its manifest and list are written."""
    snapshot_id = number()
    folder = f"{metadata.location}/metadata"
    manifest = f"{folder}/{stage_id}-{snapshot_id}-m0.avro"
    listed = f"{folder}/snap-{snapshot_id}-{stage_id}.avro"
    disk.write(manifest, tuple(files))
    disk.write(listed, (Manifest(manifest),))
    made = Snapshot(
        snapshot_id, metadata.current_snapshot_id, listed, Summary({"anabranch.stage": stage_id})
    )
    return replace(
        metadata,
        current_snapshot_id=snapshot_id,
        snapshots=(*metadata.snapshots, made),
        refs={"main": SimpleNamespace(snapshot_id=snapshot_id)},
    )


def committed(
    version: TableVersion,
    stage_id: str,
    written: Written,
    *,
    how: str,
    replaced: Collection[str] | None,
    hidden: object,
    summary: Mapping[str, str],
) -> Any:
    metadata: Any = version.metadata
    disk = version.io.disk  # type: ignore[attr-defined]
    old = files_at(disk, metadata.current_snapshot()) if how == "plain" else ()
    return with_files(disk, metadata, stage_id, (*old, *written.keep, *written.add))


def manifests(io: Files, snapshot: Any) -> tuple[Manifest, ...]:
    found: tuple[Manifest, ...] = ()
    return found if snapshot is None else io.disk.read(snapshot.manifest_list, "manifest list")


def live_entries(io: Files, manifest: Any) -> list[Any]:
    return [entry(path) for path in io.disk.read(manifest.manifest_path, "manifest")]


def files_at(disk: Disk, snapshot: Any) -> tuple[str, ...]:
    """The data files of a snapshot; None stands for the empty table."""
    return () if snapshot is None else files_in(disk, snapshot.manifest_list)


def files_in(disk: Disk, manifest_list: str) -> tuple[str, ...]:
    listed = disk.read(manifest_list, "manifest list")
    return tuple(path for each in listed for path in disk.read(each.manifest_path, "manifest"))


def bag_of(disk: Disk, files: Collection[str]) -> Bag:
    """The rows of data files."""
    rows: Bag = Counter()
    for path in files:
        rows.update(disk.read(path, "data file"))
    return rows


def rows_of(version: TableVersion, snapshot_id: int | None = None) -> Bag:
    """The rows of a version, as a job of Spark reads them."""
    disk = version.io.disk  # type: ignore[attr-defined]
    disk.step("read", str(version.name))
    wanted = version.snapshot_id if snapshot_id is None else snapshot_id
    return bag_of(disk, files_at(disk, version.snapshot(wanted)))


def moved(content: Any, path: Callable[[str], str]) -> Any:
    """The content of a file that names other files, for another place."""
    if isinstance(content, str):
        return path(content)
    if isinstance(content, (tuple, list)):
        return type(content)(moved(each, path) for each in content)
    if isinstance(content, MetadataLogEntry):
        return content.model_copy(update={"metadata_file": path(content.metadata_file)})
    if isinstance(content, (Metadata, Snapshot, Manifest)):
        named = ("location", "snapshots", "metadata_log", "manifest_list", "manifest_path")
        known = {name: getattr(content, name) for name in named if hasattr(content, name)}
        return replace(content, **{name: moved(each, path) for name, each in known.items()})
    return content


def relocate(
    lake: Any, move: Move, records: Iterable[Any] = (), noted: set[str] | None = None
) -> Relocation:
    """Let the files of a warehouse name their own place."""
    disk, written = lake.warehouse.disk, []
    relocation = Relocation(move, _nothing, _nothing)
    for path, file in sorted(lake.warehouse.listing(lake.warehouse.location).items()):
        if path.endswith((".avro", ".metadata.json")):
            new = moved(file.content, move.path)
            if new != file.content:
                if noted is not None:
                    noted.add(path)
                replace_file(lake, path, new)
                written.append(path)
    relocation.rewritten = len(written)
    disk.sync(written)
    return relocation


def replace_file(lake: Any, path: str, content: Any) -> None:
    """Whole or not at all."""
    lake.warehouse.disk.step("replace", path)
    lake.warehouse.disk.put(path, content)


def _nothing(*_: object) -> Any:
    raise AssertionError("there are no bytes here")


# -- queries -------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def sources_of(query: str) -> tuple[TableName, ...]:
    return tuple(TableName.parse(word) for word in query.split() if "." in word)


def over(query: str, names: Mapping[TableName, TableName]) -> str:
    """The same query over other tables."""
    known = {str(name): str(other) for name, other in names.items()}
    return " ".join(known.get(word, word) for word in query.split())


def evaluate(query: str, rows: RowsOf) -> Bag:
    word, *_ = query.split()
    given = [rows(name) for name in sources_of(query)]
    if word == "scale":
        factor = int(query.split()[1])
        return Counter({(key, factor * value): n for (key, value), n in given[0].items()})
    if word == "sum":
        return Counter([(0, _sum(given[0]))])
    if word == "plus":
        return Counter([(0, sum(map(_sum, given)))])
    left, right = given
    found: Bag = Counter()
    by_key: dict[Any, list[tuple[Any, int]]] = {}
    for (key, value), n in right.items():
        by_key.setdefault(key, []).append((value, n))
    for (key, value), n in left.items():
        for other, m in by_key.get(key, ()):
            found[key, (value, other)] += n * m
    return found


def _sum(rows: Bag) -> int:
    return sum(value * n for (_, value), n in rows.items())


@lru_cache(maxsize=1000)
def _defined(query: str, sources: frozenset[TableName], views: frozenset[TableName]) -> Definition:
    return Definition(
        query, (), sources, views, None, (), None, (), query, lineage=_lineage(sources)
    )


def _lineage(sources: frozenset[TableName]) -> Lineage:
    """Values come from values; keys, if there are any, decide."""
    flow = Flow(frozenset(Ref(each, "value") for each in sources))
    return Lineage((("value", flow),), frozenset(Ref(each, "key") for each in sources))


def define(world: Any, query: str, moment: object = None) -> Definition:
    """A query, with the tables that it reads."""
    for name in sources_of(query):
        world.resolve(name)
    return _defined(query, frozenset(sources_of(query)), frozenset())


def understood(world: Any, name: TableName, query: str, moment: object = None) -> Definition:
    return define(world, query)


class Counted(Sources):
    """Sources of which nobody asks how many rows they have."""

    @property
    def rows(self) -> int:
        return 0

    @property
    def delta_rows(self) -> int:
        return 0


def write_rows(tx: Any, name: TableName, rows: Bag) -> Written:
    """A data file of a stage."""
    place = f"{tx.stage.directory(name)}/part-{number()}.parquet"
    tx.stage.lake.warehouse.disk.write(place, tuple(rows.elements()))
    return Written(add=(place,), rows=sum(rows.values()))


def refresh_component(
    runtime: Any, tx: Any, seen: Any, part: Any, done: Any, *, full: Reason | None = None
) -> list[component.Outcome]:
    """One stream table: stored + Q(now) - Q(before) if nothing is in the way, or Q(now)."""
    (name,), world = part.members, tx.world
    stream = seen.streams[name]
    disk = tx.stage.lake.warehouse.disk
    if disk.lossy and rebuild.unreadable(tx, name):
        rebuild.replace_table(tx, name, ())
    definition = define(world, stream.query)
    known = seen.inputs.get(name, {})
    versions = {each: world.version(each) for each in sorted(definition.sources)}
    before = {each: known[each].snapshot_id for each in versions if each in known}
    stored = world.version(name)
    own = known.get(name)
    wanted = None
    now = evaluate(stream.query, lambda each: rows_of(versions[each]))
    if (
        full is None
        and stream.populated
        and stream.fingerprint == definition.fingerprint
        and definition.sources <= known.keys()
        and (own is None or own.snapshot_id == stored.snapshot_id)
    ):
        wanted = _changed(stream, stored, versions, before, now)
    action = Action.FULL if wanted is None else Action.DIFFERENTIAL
    decision = Decision(action, Reason(Code.CHANGED_ROWS, "simulated"))
    wanted = now if wanted is None else wanted
    sources = Counted(versions, before, {})
    standing = component.Standing.of(tx, seen, done, sources)
    member = MemberTable(stream, definition)
    outcome = component.planned(tx, seen, member, sources, decision, standing, {})
    after = stored
    if stored.snapshot_id is None or wanted != _rows_if_whole(disk, stored):
        after = tx.stage.commit_rows(
            name, write_rows(tx, name, wanted), replace_all=True, hidden=()
        )
    return [component.staged(tx, seen, outcome, stored, after)]


def _rows_if_whole(disk: Disk, stored: TableVersion) -> Bag | None:
    """None where files were lost."""
    try:
        return rows_of(stored)
    except FileMissing:
        if disk.lossy:
            return None
        raise


def uncounted(before: TableVersion, after: TableVersion) -> tuple[int, int]:
    return 0, 0


def _changed(
    stream: Any,
    stored: TableVersion,
    versions: Mapping[TableName, TableVersion],
    before: Mapping[TableName, int | None],
    now: Bag,
) -> Bag | None:
    def then(each: TableName) -> Bag:
        snapshot = before[each]
        return Counter() if snapshot is None else rows_of(versions[each], snapshot)

    try:
        found = rows_of(stored)
        found.update(now)
        found.subtract(evaluate(stream.query, then))
    except (BaseExpired, FileMissing):
        return None
    if any(count < 0 for count in found.values()):
        raise InternalError(f"{stream.name}: a row would be there less than no times")
    return +found


class Spark:
    """Nobody asks it for rows."""

    session = None
    allows_external_code = True
    time_zone = "UTC"

    @contextmanager
    def pool(self, name: str) -> Iterator[None]:
        yield

    def stop(self) -> None: ...

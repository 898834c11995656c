"""What the catalog keeps of a deployment besides its row: JSON on one side, records on the other.

This is the only place that knows the JSON.  Older catalogs lack some of it; what they lack is empty, or
None where that is something else than nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, TypeVar

from anabranch.catalog.clusters import Cluster
from anabranch.catalog.indexes import Index
from anabranch.names import TableName

V = TypeVar("V")
W = TypeVar("W")
Json = Mapping[str, Any]
Row = dict[str, Any]  # of a table of ours, as JSON
Key = tuple[str, str, str]  # database, schema, object; a cluster has neither database nor schema
Option = str | int | float | None
Options = Mapping[str, Option]
ColumnRecord = tuple[int | None, str, str, bool]  # id, name, type, whether it may be NULL


class IndexRecord(TypedDict):
    name: str
    cluster: str | None
    canonical: str
    columns: list[str]


class _ObjectRecord(TypedDict):
    kind: str
    hash: str
    canonical: str
    cluster: str | None
    indexes: list[IndexRecord]
    reads: list[list[str]]
    metadata: str
    options: dict[str, str | None]
    sql: str
    query: str
    columns: list[list[str]]


class ObjectRecord(_ObjectRecord, total=False):
    """An object of a project; in older catalogs it has no comments."""

    comments: dict[str, str]


class NamedRecord(ObjectRecord):
    parts: list[str]


class ClusterRecord(TypedDict):
    hash: str
    canonical: str
    options: dict[str, str | None]


class SnapshotRecord(TypedDict):
    """The objects and clusters that a deployment puts in place (see deploy/record)."""

    objects: list[NamedRecord]
    clusters: dict[str, ClusterRecord]


def _named(found: Mapping[str, V] | None, read: Callable[[V], W]) -> dict[TableName, W]:
    return {TableName.parse(name): read(value) for name, value in (found or {}).items()}


def _shown(found: Mapping[TableName, V], write: Callable[[V], Any]) -> dict[str, Any]:
    return {str(name): write(value) for name, value in found.items()}


def _same(value: V) -> V:
    return value


class _Kept(Protocol):
    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class PlannedStep:
    """One step; `parts` are those of the name of an object, or of a schema."""

    action: str
    object: str
    parts: tuple[str, ...]
    kind: str
    why: str
    rows: int = 0

    @classmethod
    def read(cls, record: Json) -> PlannedStep:
        return cls(**{**record, "parts": tuple(record["parts"])})

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "parts": list(self.parts)}


@dataclass(frozen=True)
class PlannedChange:
    """An object whose definition was added, modified or deleted, with the difference of its SQL."""

    object: str
    change: str
    diff: str

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Dirty:
    """An object that is dirty, and a shortest chain of reasons, causes first; `index_only`: nothing
    around it is dirty because of it."""

    object: str
    index_only: bool
    why: tuple[str, ...]

    @classmethod
    def read(cls, record: Json) -> Dirty:
        return cls(record["object"], record["index_only"], tuple(record["why"]))

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "why": list(self.why)}


@dataclass(frozen=True)
class PlannedReader:
    """A table or view outside of the project, and what becomes of it."""

    reader: str
    kind: str
    reads: tuple[str, ...]
    outcome: str
    error: str | None

    @classmethod
    def read(cls, record: Json) -> PlannedReader:
        return cls(**{**record, "reads": tuple(record["reads"])})

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "reads": list(self.reads)}


@dataclass(frozen=True)
class PlannedByHand:
    """Something that somebody had set on an object, and what a promote makes of it."""

    object: str
    what: str
    then: str

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class PlannedRefusal:
    """What stage does not do, and the option by which somebody may have agreed to it."""

    error: str
    hint: str | None
    unless: str | None

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Planned:
    """What a deployment does, and all that its plan said when it was made.

    What a plan of an older version did not say is None.
    """

    steps: tuple[PlannedStep, ...] = ()
    clusters_changed: tuple[str, ...] = ()
    empty: bool | None = None
    changed: tuple[PlannedChange, ...] | None = None
    dirty: tuple[Dirty, ...] | None = None
    dirty_clusters: tuple[str, ...] | None = None
    dirty_schemas: tuple[str, ...] | None = None
    metadata_only: tuple[str, ...] | None = None
    readers: tuple[PlannedReader, ...] | None = None
    by_hand: tuple[PlannedByHand, ...] | None = None
    refused: tuple[PlannedRefusal, ...] | None = None
    rows: int | None = None

    @classmethod
    def read(cls, record: Json) -> Planned:
        def every(name: str, read: Callable[[Json], V]) -> tuple[V, ...] | None:
            found = record.get(name)
            return None if found is None else tuple(map(read, found))

        def names(name: str) -> tuple[str, ...] | None:
            found = record.get(name)
            return None if found is None else tuple(map(str, found))

        return cls(
            steps=every("steps", PlannedStep.read) or (),
            clusters_changed=names("clusters_changed") or (),
            empty=record.get("empty"),
            changed=every("changed", lambda each: PlannedChange(**each)),
            dirty=every("dirty", Dirty.read),
            dirty_clusters=names("dirty_clusters"),
            dirty_schemas=names("dirty_schemas"),
            metadata_only=names("metadata_only"),
            readers=every("readers", PlannedReader.read),
            by_hand=every("by_hand", lambda each: PlannedByHand(**each)),
            refused=every("refused", lambda each: PlannedRefusal(**each)),
            rows=record.get("rows"),
        )

    def record(self) -> dict[str, Any]:
        def every(found: Iterable[_Kept] | None) -> list[dict[str, Any]] | None:
            return None if found is None else [each.as_dict() for each in found]

        def names(found: Iterable[str] | None) -> list[str] | None:
            return None if found is None else list(found)

        said = {
            "empty": self.empty,
            "changed": every(self.changed),
            "dirty": every(self.dirty),
            "dirty_clusters": names(self.dirty_clusters),
            "dirty_schemas": names(self.dirty_schemas),
            "metadata_only": names(self.metadata_only),
            "clusters_changed": names(self.clusters_changed),
            "steps": every(self.steps),
            "readers": every(self.readers),
            "by_hand": every(self.by_hand),
            "refused": every(self.refused),
            "rows": self.rows,
        }
        return {name: value for name, value in said.items() if value is not None}

    def with_actions(self, actions: Iterable[str]) -> list[PlannedStep]:
        chosen = set(actions)
        return [step for step in self.steps if step.action in chosen]


@dataclass(frozen=True)
class Base:
    """What production was when the deployment was staged, and must be when it is promoted."""

    schemas: tuple[tuple[str, str, int], ...] = ()  # database, schema, version
    touched: tuple[tuple[str, str], ...] = ()
    definitions: Mapping[TableName, str | None] = field(default_factory=dict, hash=False)
    ids: Mapping[TableName, str | None] = field(default_factory=dict, hash=False)
    columns: Mapping[TableName, tuple[ColumnRecord, ...] | None] = field(
        default_factory=dict, hash=False
    )

    @classmethod
    def read(cls, record: Json) -> Base:
        return cls(
            tuple(
                (database, schema, version)
                for database, schema, version in record.get("schemas", ())
            ),
            tuple((database, schema) for database, schema in record.get("touched", ())),
            _named(record.get("definitions"), _same),
            _named(record.get("ids"), _same),
            _named(record.get("columns"), lambda found: found and tuple(map(_column, found))),
        )

    def record(self) -> Json:
        return {
            "schemas": [list(each) for each in self.schemas],
            "touched": [list(each) for each in self.touched],
            "definitions": _shown(self.definitions, _same),
            "ids": _shown(self.ids, _same),
            "columns": _shown(self.columns, lambda found: found and [list(one) for one in found]),
        }


def _column(record: Iterable[Any]) -> ColumnRecord:
    field_id, name, type_, nullable = record
    return field_id, name, type_, nullable


@dataclass(frozen=True)
class Notes:
    """What stage found out for promote: who may be suspended, and the fingerprints of the tables, as
    they are staged and as they will be."""

    suspend: tuple[TableName, ...] = ()
    fingerprints: Mapping[TableName, tuple[str, str]] | None = field(default=None, hash=False)

    @classmethod
    def read(cls, record: Json) -> Notes:
        known = record.get("fingerprints")
        pairs = None if known is None else _named(known, lambda pair: (pair[0], pair[1]))
        return cls(tuple(map(TableName.parse, record.get("suspend", ()))), pairs)

    def record(self) -> Json:
        found: dict[str, Any] = {"suspend": [str(name) for name in self.suspend]}
        if self.fingerprints is not None:
            found["fingerprints"] = _shown(self.fingerprints, list)
        return found


@dataclass(frozen=True)
class SuspendedReader:
    """A stream table outside of the project as it was; `why` is None where an older one noted none."""

    name: TableName
    status: str
    last_error: str | None
    diamond_consistency: str
    why: str | None = None

    @classmethod
    def read(cls, record: Json) -> SuspendedReader:
        return cls(**{**record, "name": TableName.parse(record["name"])})

    def record(self) -> Json:
        found = {**vars(self), "name": str(self.name)}
        return {name: value for name, value in found.items() if name != "why" or value is not None}


@dataclass(frozen=True)
class LeftGroup:
    """A refresh group that some tables left, as it was before; `ended`: nothing was left of it."""

    name: str
    members: tuple[TableName, ...]
    isolation: str
    snapshot_timeout_ms: int
    left: tuple[TableName, ...]
    ended: bool

    @classmethod
    def read(cls, record: Json) -> LeftGroup:
        names = {key: tuple(map(TableName.parse, record[key])) for key in ("members", "left")}
        return cls(**{**record, **names})

    def record(self) -> Json:
        names = {"members": list(map(str, self.members)), "left": list(map(str, self.left))}
        return {**vars(self), **names}


Clusters = Mapping[str, Cluster | None]  # None: there was none


@dataclass(frozen=True)
class Undo:
    """All that a roll-back puts back, and with `…left` what the promote made of it.

    Where something is not as it was left, somebody has changed it since.  `left`, `comments_left`,
    `indexes_left` and `options_left` are None in what older versions noted.
    """

    pointers: Mapping[TableName, str | None] = field(default_factory=dict, hash=False)
    rows: Mapping[str, list[Row]] = field(default_factory=dict, hash=False)  # by kind
    metadata: Mapping[TableName, Options] = field(default_factory=dict, hash=False)
    indexes: Mapping[TableName, tuple[Index, ...]] = field(default_factory=dict, hash=False)
    comments: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict, hash=False)
    altered: Mapping[TableName, tuple[str, str]] = field(default_factory=dict, hash=False)
    readers: tuple[SuspendedReader, ...] = ()
    groups: tuple[LeftGroup, ...] = ()
    clusters: Clusters = field(default_factory=dict, hash=False)
    keys: tuple[Key, ...] = ()
    deployed: tuple[Row, ...] = ()
    schemas: tuple[tuple[str, str, str], ...] = ()  # database, schema, deployment
    ids: Mapping[TableName, str] = field(default_factory=dict, hash=False)
    left: Mapping[TableName, str | None] | None = field(default=None, hash=False)
    comments_left: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict, hash=False)
    indexes_left: Mapping[TableName, tuple[Index, ...]] | None = field(default=None, hash=False)
    clusters_left: Clusters = field(default_factory=dict, hash=False)
    options_left: Mapping[TableName, Options] = field(default_factory=dict, hash=False)

    @classmethod
    def read(cls, record: Json) -> Undo:
        left = record.get("left")
        indexes_left = record.get("indexes_left")
        return cls(
            pointers=_named(record.get("pointers"), _same),
            rows=record.get("rows", {}),
            metadata=_named(record.get("metadata"), _same),
            indexes=_indexes(record.get("indexes", {})),
            comments=_named(record.get("comments"), _same),
            altered=_named(record.get("altered"), lambda pair: (pair[0], pair[1])),
            readers=tuple(map(SuspendedReader.read, record.get("readers", ()))),
            groups=tuple(map(LeftGroup.read, record.get("groups", ()))),
            clusters=_clusters(record.get("clusters", {})),
            keys=tuple((a, b, c) for a, b, c in record.get("keys", ())),
            deployed=tuple(record.get("deployed", ())),
            schemas=tuple((a, b, c) for a, b, c in record.get("schemas", ())),
            ids=_named(record.get("ids"), _same),
            left=None if left is None else _named(left, _same),
            comments_left=_named(record.get("comments_left"), _same),
            indexes_left=None if indexes_left is None else _indexes(indexes_left),
            clusters_left=_clusters(record.get("clusters_left", {})),
            options_left=_named(record.get("options_left"), _same),
        )

    def record(self) -> Json:
        found: dict[str, Any] = {
            "pointers": _shown(self.pointers, _same),
            "rows": dict(self.rows),
            "metadata": _shown(self.metadata, dict),
            "indexes": _shown(self.indexes, _index_records),
            "comments": _shown(self.comments, dict),
            "altered": _shown(self.altered, list),
            "readers": [each.record() for each in self.readers],
            "groups": [each.record() for each in self.groups],
            "clusters": _cluster_records(self.clusters),
            "keys": [list(key) for key in self.keys],
            "deployed": list(self.deployed),
            "schemas": [list(each) for each in self.schemas],
            "ids": _shown(self.ids, _same),
            "comments_left": _shown(self.comments_left, dict),
            "clusters_left": _cluster_records(self.clusters_left),
            "options_left": _shown(self.options_left, dict),
        }
        if self.left is not None:
            found["left"] = _shown(self.left, _same)
        if self.indexes_left is not None:
            found["indexes_left"] = _shown(self.indexes_left, _index_records)
        return found

    @property
    def views(self) -> dict[TableName, str]:
        return self._queries("views")

    @property
    def streams(self) -> dict[TableName, str]:
        return self._queries("streams")

    def _queries(self, kind: str) -> dict[TableName, str]:
        return {TableName.parse(row["name"]): row["query"] for row in self.rows.get(kind, ())}

    @property
    def locations(self) -> set[str]:
        """Metadata files of tables that come back."""
        found = {at for at in self.pointers.values() if at is not None}
        return found | {before for before, _ in self.altered.values()}


def _indexes(record: Mapping[str, Iterable[Any]]) -> dict[TableName, tuple[Index, ...]]:
    return {
        (table := TableName.parse(name)): tuple(
            Index(table, index, tuple(columns), cluster) for index, columns, cluster in found
        )
        for name, found in record.items()
    }


def _index_records(found: Iterable[Index]) -> list[list[Any]]:
    return [[each.name, list(each.columns), each.cluster] for each in found]


def _clusters(record: Mapping[str, Json | None]) -> dict[str, Cluster | None]:
    return {name: Cluster(**found) if found else None for name, found in record.items()}


def _cluster_records(found: Clusters) -> dict[str, Json | None]:
    return {name: vars(each) if each is not None else None for name, each in found.items()}

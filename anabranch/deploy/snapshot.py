"""A project at one moment, as plain records: what change sets and deployments are computed from.

Names are raw parts, never one dotted text.  `hash` is over the canonical form of what decides the
rows and their home (the statement, its cluster, its indexes); `metadata` is what is not hashed,
comments above all, and is deployed without building anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from anabranch.errors import InvalidValue
from anabranch.names import TableName, shown

ObjectKind = Literal["table", "view", "stream table"]
KINDS: tuple[ObjectKind, ...] = ("table", "view", "stream table")
Options = Mapping[str, str | None]


class ObjectKey(NamedTuple):
    """The raw parts of an object's name."""

    database: str
    schema: str
    name: str

    @property
    def place(self) -> SchemaKey:
        return SchemaKey(self.database, self.schema)

    @property
    def table(self) -> TableName:
        return TableName((self.database, self.schema), self.name)

    @classmethod
    def of(cls, table: TableName) -> ObjectKey:
        """The key of a table that has all three parts."""
        if len(table.namespace) != 2:
            raise InvalidValue(f"{table} has no database", hint="write database.schema.table")
        return cls(*table.namespace, table.name)

    def __str__(self) -> str:
        return ".".join(map(shown, self))


class SchemaKey(NamedTuple):
    """The raw parts of a schema's name."""

    database: str
    schema: str

    def __str__(self) -> str:
        return ".".join(map(shown, self))


@dataclass(frozen=True)
class IndexFact:
    """An index of an object; `canonical` is its statement in canonical form."""

    name: str
    cluster: str | None
    canonical: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterFact:
    """A cluster of the project; `hash` is over the canonical form of its statement."""

    name: str
    hash: str
    canonical: str
    options: Options = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class SnapshotObject:
    """One object: `sql` is its statement as written and `query` its query with names resolved.

    `canonical` is the statement in canonical form; `reads` are the objects of the project, and the
    tables outside of it, that the query reads.  `options` are those of a stream table: `schedule`,
    `refresh_mode` and what stands in WITH (…).  `columns` are (name, type) of a source table;
    `comments` go by the name of the column, "" is the object itself.
    """

    key: ObjectKey
    kind: ObjectKind
    hash: str
    canonical: str
    cluster: str | None = None
    indexes: tuple[IndexFact, ...] = ()
    reads: frozenset[ObjectKey] = frozenset()
    metadata: str = ""
    options: Options = field(default_factory=dict, hash=False)
    sql: str = ""
    query: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidValue(f"{self.key}: {self.kind!r} is not a kind of object")
        if len({index.name for index in self.indexes}) != len(self.indexes):
            raise InvalidValue(f"{self.key} has two indexes of one name")


@dataclass(frozen=True)
class Snapshot:
    """All objects and clusters of a project at one moment."""

    objects: Mapping[ObjectKey, SnapshotObject] = field(default_factory=dict, hash=False)
    clusters: Mapping[str, ClusterFact] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for key, each in self.objects.items():
            if key != each.key:
                raise InvalidValue(f"object {each.key} is stored under the key {key}")


EMPTY = Snapshot()

"""What a publish was computed from, besides pointers: compared in its transaction, in one place.

The stage compares the pointers.  Definitions, views and leases have none, and a refresh that changes
no row moves none either; so a transaction notes what it used of them here, and `check` refuses as soon
as one of them is not what it was.  Whatever a result depends on belongs either to the stage or to this
record: something that is in neither can change unseen between the computation and the publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from sqlalchemy import Connection

from anabranch.catalog import cuts, groups, leases, refresh_groups, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.groups import Group
from anabranch.catalog.indexes import Index, all_indexes
from anabranch.catalog.leases import Lease
from anabranch.catalog.streams import Graph, Input, StreamTable
from anabranch.errors import PublishConflict
from anabranch.names import TableName

Members = tuple[TableName, ...]
T = TypeVar("T")


@dataclass
class ReadSet:
    """Definitions by their token, None where there must be no stream table; views by their text.

    `inputs` is what the tables had read when their change was computed: two refreshes that leave a
    table as it is must not overtake each other.  `groups` are the consistency groups that the publish
    takes for whole: as they are before it, and, if it redefines tables, as they are after it.
    `readers` are the stream tables that read a table or view which is dropped or gets another meaning.
    `names` are those that it gives away: tables and views are rows of different tables, and names that
    differ in case are different keys, so no constraint of the database keeps two from one name.
    `whole`: the publish looks at all rows anyway, so that asking for some first is a statement more.
    """

    definitions: dict[TableName, str | None] = field(default_factory=dict)
    views: dict[TableName, str | None] = field(default_factory=dict)
    inputs: dict[TableName, Mapping[TableName, Input]] = field(default_factory=dict)
    groups: set[Members] = field(default_factory=set)
    groups_after: set[Members] = field(default_factory=set)
    leases: dict[str, Lease] = field(default_factory=dict)
    readers: dict[TableName, frozenset[TableName]] = field(default_factory=dict)
    names: set[TableName] = field(default_factory=set)
    last: set[str] = field(default_factory=set)  # leases that end with the publish
    indexes: dict[TableName, tuple[Index, ...]] = field(default_factory=dict)
    whole: bool = False

    def add(self, other: ReadSet) -> None:
        """Take more in; two looks that disagree cannot both be right."""
        _merge(self.definitions, other.definitions, "stream table {} was redefined")
        _merge(self.views, other.views, "view {} was changed")
        _merge(self.inputs, other.inputs, "{} was refreshed")
        self.groups |= other.groups
        self.groups_after |= other.groups_after
        self.leases.update(other.leases)
        _merge(self.readers, other.readers, "readers of {} were created or dropped")
        self.names |= other.names
        self.last |= other.last
        _merge(self.indexes, other.indexes, "indexes of {} were created or dropped")
        self.whole |= other.whole

    def hold(self, lease: Lease, *, last: bool = False) -> None:
        """Publish only while the lease is ours; the `last` thing done under it gives it back."""
        self.leases[lease.token] = lease
        if last:
            self.last.add(lease.token)

    def copy(self) -> ReadSet:
        return ReadSet(
            dict(self.definitions),
            dict(self.views),
            dict(self.inputs),
            set(self.groups),
            set(self.groups_after),
            dict(self.leases),
            dict(self.readers),
            set(self.names),
            set(self.last),
            dict(self.indexes),
            self.whole,
        )

    def check(self, c: Connection) -> Present:
        """Refuse to publish what was computed from something that is no longer so."""
        now = Present(c, None if self.whole else self.inputs)
        for token, lease in self.leases.items():
            (leases.end if token in self.last else leases.check)(c, lease)
        if self.definitions:
            found = {name: stream.token for name, stream in now.streams.items()}
            _compare(self.definitions, found, "stream table {} was redefined")
        if self.views:
            _compare(self.views, view_rows.all_views(c), "view {} was changed")
        if self.inputs:
            _compare(self.inputs, now.graph.inputs, "{} was refreshed", {})
        if self.readers:
            readers = {name: readers_of(name, now.graph.dependencies) for name in self.readers}
            _compare(self.readers, readers, "readers of {} were created or dropped")
        if self.indexes:
            _compare(self.indexes, all_indexes(c), "indexes of {} were created or dropped", ())
        _check_groups(now, self.groups)
        return now

    def check_after(self, c: Connection) -> None:
        """Refuse when what was written does not make the groups that were staged as whole ones, or
        has given a name away twice."""
        _check_groups(Present(c, ()), self.groups_after)
        _check_names(c, self.names)


class Present:
    """The catalog as a transaction finds it, each kind of rows read when it is first asked for.

    `read_by`: the tables of which it is asked what they have read; None: all.
    """

    def __init__(self, c: Connection, read_by: Collection[TableName] | None) -> None:
        self._c, self._read_by = c, read_by

    def has_read(self, name: TableName) -> bool:
        """Whether inputs and the frontier of the table are part of the graph."""
        return self._read_by is None or name in self._read_by

    @cached_property
    def streams(self) -> Mapping[TableName, StreamTable]:
        return streams.all_streams(self._c)

    @cached_property
    def graph(self) -> Graph:
        if self._read_by is None:
            return streams.whole_graph(self._c)
        return streams.graph_of(self._c, self._read_by)

    @cached_property
    def groups(self) -> list[Group]:
        nothing: dict[TableName, tuple[TableName, ...]] = dict.fromkeys(self.streams, ())
        declared = refresh_groups.all_groups(self._c)
        return groups.grouped({**nothing, **self.graph.dependencies}, self.streams, declared)


def _check_groups(found: Present, whole: Collection[Members]) -> None:
    if not whole:
        return
    now = {frozenset(each.members) for each in found.groups}
    for members in sorted(whole):
        if frozenset(members) not in now:
            raise _conflict("the tables grouped with {} changed", members[0])


def readers_of(
    name: TableName, reads: Mapping[TableName, Collection[TableName]]
) -> frozenset[TableName]:
    return frozenset(reader for reader, read in reads.items() if name in read)


def _check_names(c: Connection, given: Collection[TableName]) -> None:
    if not given:
        return
    known = Counter(name.folded for name in (*cuts.newest(c), *view_rows.all_views(c)))
    for name in sorted(given):
        if known[name.folded] > 1:
            raise _conflict("{} was made", name)


def _merge(known: dict[TableName, T], more: Mapping[TableName, T], said: str) -> None:
    for name, value in more.items():
        if name in known and known[name] != value:
            raise _conflict(said, name)
        known[name] = value


def _compare(
    then: Mapping[TableName, object],
    now: Mapping[TableName, object],
    said: str,
    missing: object = None,
) -> None:
    for name in sorted(then):
        if now.get(name, missing) != then[name]:
            raise _conflict(said, name)


def _conflict(said: str, name: TableName) -> PublishConflict:
    return PublishConflict(f"{said.format(name)} by another process", hint="run it again")


def tokens_of(
    known: Mapping[TableName, StreamTable | None], names: Iterable[TableName]
) -> dict[TableName, str | None]:
    """The definitions of the given tables, as they were read."""
    found = {name: known.get(name) for name in names}
    return {name: stream.token if stream else None for name, stream in found.items()}

"""What the catalog knows at one moment, and which stream tables are out of date: no Spark, no files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.catalog import cuts, refresh_groups, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.groups import Group, Reads, grouped, homes, kept_components
from anabranch.catalog.read_set import ReadSet, tokens_of
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import Input, StreamTable
from anabranch.graph.components import Component
from anabranch.graph.order import closure
from anabranch.lake.lake import Lake
from anabranch.lake.observe import observed
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.fingerprint import computed_from
from anabranch.runtime import Runtime

Frontier = Mapping[TableName, int | None]


@dataclass(frozen=True)
class Look:
    """One consistent look at all catalog rows a refresh needs."""

    pointers: Mapping[TableName, str]
    views: Mapping[TableName, str]
    streams: Mapping[TableName, StreamTable]
    reads: Reads  # stream table -> tables and views it reads
    inputs: Mapping[TableName, Mapping[TableName, Input]]
    frontiers: Mapping[TableName, Frontier]
    declared: Mapping[str, RefreshGroup] = field(default_factory=dict)
    cut_id: int = 0
    stored: Mapping[TableName, StreamTable | None] = field(default_factory=dict)  # see `declaring`
    had_read: Mapping[TableName, Mapping[TableName, Input]] = field(default_factory=dict)

    def declaring(self, made: Mapping[TableName, StreamTable], reads: Reads) -> Look:
        """As it will be once the given tables are declared; `stored` is what the catalog has."""
        stored = {name: self.streams.get(name) for name in made}
        return replace(
            self,
            streams={**self.streams, **made},
            reads={**self.reads, **reads},
            stored={**stored, **self.stored},
        )

    def upon(self, before: Look) -> Look:
        """A look at what will be: a publish finds the catalog as it was before."""
        changed = [n for n, each in self.streams.items() if each != before.streams.get(n)]
        moved = [n for n, read in self.inputs.items() if read != before.inputs.get(n)]
        return replace(
            self,
            stored={name: before.streams.get(name) for name in changed},
            had_read={name: before.inputs.get(name, {}) for name in moved},
        )

    @property
    def groups(self) -> list[Group]:
        """The consistency groups, upstreams first."""
        return grouped(self.reads, self.streams, self.declared)

    def components(self, names: Iterable[TableName] | None = None) -> list[Component[TableName]]:
        """Stream tables, upstreams first: all of them, or the given ones with their upstreams."""
        wanted = set(self.streams) if names is None else closure(names, self.reads)
        parts = kept_components(tuple(self.reads.items()))
        return [each for each in parts if wanted.intersection(each.members)]

    def order(self, names: Iterable[TableName] | None = None) -> list[TableName]:
        """The members of `components`, one after the other."""
        parts = self.components(names)
        return [name for part in parts for name in part.members if name in self.streams]

    def mark(self, source: TableName) -> str | None:
        """What stands for the present state of a source: equal marks mean nothing changed."""
        if source in self.views:
            return view_mark(self.views[source])
        return self.pointers.get(source)

    def used(self, names: Iterable[TableName]) -> ReadSet:
        """What a refresh of the tables is computed from: for the publish to compare.

        The definitions of all stream tables above count as well: the frontier says what a table is
        only as long as they are the same.
        """
        members = [name for name in names if name in self.streams]
        above = closure(members, self.reads)
        involved = [*members, *(name for name in above if name in self.streams)]
        return ReadSet(
            definitions=tokens_of({**self.streams, **self.stored}, involved),
            inputs={name: {**self.inputs, **self.had_read}.get(name, {}) for name in members},
        )

    def stale(self, order: Iterable[TableName]) -> list[TableName]:
        """Those that are not what their query would give, as far as marks can tell."""
        found: dict[TableName, None] = {}
        names = [name for name in order if name in self.streams]  # others were dropped
        place = homes(tuple(self.reads.items()))
        for name in names:
            together = place[name].members if name in place else (name,)
            if name not in found and any(self._is_stale(each, found) for each in together):
                found |= dict.fromkeys(together)
        return [name for name in names if name in found]

    def moved_frontiers(self, order: Iterable[TableName]) -> dict[TableName, Frontier]:
        """Frontiers of tables that are up to date, where they changed.

        An upstream that looked at new rows and stayed as it was stands on newer snapshots now, and so
        does every table that reads it.
        """
        moved: dict[TableName, Frontier] = {}
        for name in order:
            upstreams = [each for each in self.reads.get(name, ()) if each in self.streams]
            if not upstreams or name in upstreams:
                continue
            old = self.frontiers.get(name, {})
            new = dict(old)
            for upstream in upstreams:
                new |= moved.get(upstream) or self.frontiers.get(upstream, {})
            if new != old:
                moved[name] = new
        return moved

    def _is_stale(self, name: TableName, found: Collection[TableName]) -> bool:
        known, stream = self.inputs.get(name, {}), self.streams[name]
        return (
            not stream.populated
            or stream.status is Status.ERROR  # what was in the way may be gone
            or bool(stream.options.get("always"))
            or stream.computed_from != computed_from(stream.definition)
            or not known
            or any(each.metadata_location != self.mark(source) for source, each in known.items())
            or any(upstream in found for upstream in self.reads.get(name, ()))
        )


def look(c: Connection, lake: Lake) -> Look:
    """The newest recorded cut, and all rows of ours."""
    known = streams.all_streams(c)
    nothing: dict[TableName, tuple[TableName, ...]] = dict.fromkeys(known, ())
    return Look(
        pointers=cuts.newest(c),
        views=view_rows.all_views(c),
        streams=known,
        reads=nothing | streams.dependencies(c),  # a query may read no table at all
        inputs=streams.inputs(c),
        frontiers=streams.frontiers(c),
        declared=refresh_groups.all_groups(c),
        cut_id=cuts.current(c),
    )


def look_now(runtime: Runtime) -> Look:
    """The same, once the commits of other programs are part of a cut."""
    with observed(runtime.lake) as c:
        return look(c, runtime.lake)


def view_mark(text: str) -> str:
    return "view:" + hashlib.sha256(text.encode()).hexdigest()

"""What the catalog knows at one moment, and which stream tables are out of date: no Spark, no files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.catalog import cuts, refresh_groups, streams, tables
from anabranch.catalog import views as view_rows
from anabranch.catalog.groups import Group, Reads, grouped, homes, kept_components
from anabranch.catalog.read_set import ReadSet, tokens_of
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import Input, StreamTable
from anabranch.graph.components import Component
from anabranch.graph.order import closure
from anabranch.graph.policies import Isolation, group_isolation
from anabranch.lazy import lazy
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.editions import to_be_looked_at

if TYPE_CHECKING:
    from anabranch.lake import foreign
    from anabranch.lake import observe as commits
    from anabranch.lake.lake import Lake
    from anabranch.runtime import Runtime
else:
    commits = lazy("anabranch.lake.observe")
    foreign = lazy("anabranch.lake.foreign")

Frontier = Mapping[TableName, int | None]


@dataclass(frozen=True)
class CatalogState:
    """All catalog rows that a refresh needs, read in one transaction: tables as of `cut_id`."""

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
    refreshed: frozenset[TableName] = (
        frozenset()
    )  # published upon this state: its cut shows them older
    committed: Mapping[TableName, datetime | None] = field(default_factory=dict)  # as of the cut
    foreign: frozenset[TableName] = frozenset()  # those of `pointers` that attached catalogs have
    moment: datetime = field(default_factory=tables.now, compare=False)  # of the catalog's clock
    ahead: timedelta = field(default=timedelta(), compare=False)  # of it, the clock on the wall

    def declaring(self, made: Mapping[TableName, StreamTable], reads: Reads) -> CatalogState:
        """As it will be once the given tables are declared; `stored` is what the catalog has."""
        stored = {name: self.streams.get(name) for name in made}
        return replace(
            self,
            streams={**self.streams, **made},
            reads={**self.reads, **reads},
            stored={**stored, **self.stored},
        )

    def upon(self, before: CatalogState) -> CatalogState:
        """The state as it will be: a publish finds the catalog as it was before."""
        changed = [n for n, each in self.streams.items() if each != before.streams.get(n)]
        moved = [n for n, read in self.inputs.items() if read != before.inputs.get(n)]
        return replace(
            self,
            stored={name: before.streams.get(name) for name in changed},
            had_read={name: before.inputs.get(name, {}) for name in moved},
        )

    def standing(
        self, stream: StreamTable, inputs: Mapping[TableName, Input], frontier: Frontier
    ) -> CatalogState:
        """As if the table had been refreshed from the given inputs."""
        name = stream.name
        return replace(
            self,
            streams={**self.streams, name: stream},
            inputs={**self.inputs, name: inputs},
            frontiers={**self.frontiers, name: frontier},
            stored={name: self.streams.get(name), **self.stored},
            had_read={name: self.inputs.get(name, {}), **self.had_read},
        )

    @property
    def groups(self) -> list[Group]:
        """The consistency groups, upstreams first."""
        return grouped(self.reads, self.streams, self.declared)

    @cached_property
    def boundaries(self) -> frozenset[TableName]:
        """Tables that are refreshed by hand only: those that read them take them as sources.

        A table without a schedule that shares a group with one that has a schedule comes along with
        its group, and is no boundary.
        """
        if not any(_by_hand(each) for each in self.streams.values()):
            return frozenset()
        return frozenset(
            name
            for group in self.groups
            if all(_by_hand(self.streams[member]) for member in group.members)
            for name in group.members
        )

    @cached_property
    def opted_out(self) -> frozenset[TableName]:
        """Tables that read whatever is there, at several cuts perhaps, because somebody said so."""
        alone = {name for name, each in self.streams.items() if each.diamond_consistency == "none"}
        if not self.declared:
            return frozenset(alone)
        loose = (group for group in self.groups if self.reads_committed(group))
        return frozenset(alone.union(*(group.members for group in loose)))

    def reads_committed(self, group: Group) -> bool:
        """Whether each member reads the newest there is: never in a diamond, which would be torn."""
        if not group.declared or group.convergence_points:
            return False
        isolation = {name: Isolation(each.isolation) for name, each in self.declared.items()}
        return group_isolation(group, isolation) is Isolation.READ_COMMITTED

    def components(self, names: Iterable[TableName] | None = None) -> list[Component[TableName]]:
        """Stream tables, upstreams first: all of them, or the given ones with their upstreams."""
        wanted = set(self.streams) if names is None else closure(names, self.reads)
        parts = kept_components(tuple(self.reads.items()))
        return [each for each in parts if wanted.intersection(each.members)]

    def order(self, names: Iterable[TableName] | None = None) -> list[TableName]:
        """The members of `components`, one after the other."""
        parts = self.components(names)
        return [name for part in parts for name in part.members if name in self.streams]

    def above(
        self, names: Iterable[TableName], until: Collection[TableName] = ()
    ) -> list[TableName]:
        """Stream tables that others read, directly or not, as far as boundaries; upstreams first.

        What tables in `until` read is not looked for.
        """
        given = set(names)
        found: set[TableName] = set()
        waiting = list(given)
        while waiting:
            name = waiting.pop()
            for each in self.reads.get(name, ()) if name not in until else ():
                if each in self.streams and each not in found and each not in self.boundaries:
                    found.add(each)
                    waiting.append(each)
        found -= given
        return [name for name in self.order(found) if name in found] if found else []

    def needed(self, names: Iterable[TableName]) -> list[TableName]:
        """What must stand at this cut before the tables can; those that opted out need nothing."""
        return self.above(names, self.opted_out)

    def is_source(self, name: TableName, location: str | None) -> bool:
        """Whether a table that reads this version stands on it, not on what is below.

        A boundary is a source, unless it was refreshed upon this state: the cut does not show it as it
        is now, but it stands at the cut as all others do.
        """
        if name not in self.streams:
            return True
        here = name in self.refreshed and self.streams[name].cuts == (self.cut_id,)
        along = here and location == self.pointers.get(name)
        return name in self.boundaries and not along

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
        return self._spread(order, self._is_stale)

    def lagging(self, order: Iterable[TableName]) -> list[TableName]:
        """Those that do not stand at this cut, as far as marks can tell.

        A query of the current time is stale whenever it is due, and yet stands at the cut.
        """
        return self._spread(order, self._lags)

    def behind(
        self, names: Iterable[TableName], besides: Collection[TableName] = ()
    ) -> list[TableName]:
        """Whom these tables have to wait for: what they read and does not stand at this cut."""
        return self.lagging(name for name in self.needed(names) if name not in besides)

    def unfit(self, name: TableName) -> str | None:
        """Why nobody may take a boundary as it is: its rows are not those of its query at any cut."""
        if not self.streams[name].populated:
            return "it has not been filled yet"
        own = self.inputs.get(name, {}).get(name)
        if own is None or own.metadata_location == self.pointers.get(name):
            return None
        did = "wrote to it" if name in self.pointers else "dropped it"
        return f"another program {did}; REFRESH STREAM TABLE {name} rebuilds it"

    def unfit_above(
        self, names: Iterable[TableName], besides: Collection[TableName] = ()
    ) -> tuple[TableName, str] | None:
        """A boundary that one of the tables reads and nobody may take as it is, and why."""
        if not self.boundaries:
            return None
        for name in names:
            for each in self.reads.get(name, ()):
                if each in self.boundaries and each not in besides and (why := self.unfit(each)):
                    return each, why
        return None

    def noting(self, names: Iterable[TableName]) -> CatalogState:
        """The state in which all of these tables that stand at its cut say so, and on what."""
        here = (self.cut_id,)
        wanted = [name for name in names if self.streams[name].cuts != here]
        if not wanted:
            return self
        given = {*self.above(wanted), *wanted}
        order = [name for name in self.order(given) if name in given]
        late = set(self.lagging(order))
        moved = [name for name in order if name not in late and self.streams[name].cuts != here]
        if not moved:
            return self
        noted = {
            name: replace(
                self.streams[name], cut_id=self.cut_id, options=_unmixed(self.streams[name])
            )
            for name in moved
        }
        return replace(
            self,
            streams={**self.streams, **noted},
            frontiers={**self.frontiers, **self._frontiers_now(moved)},
        )

    def _frontiers_now(self, order: Iterable[TableName]) -> dict[TableName, Frontier]:
        """What tables stand on that are up to date: what they have read, down to the sources.

        An upstream that looked at new rows and stayed as it was stands on newer snapshots now, and so
        does every table that reads it.
        """
        found: dict[TableName, Frontier] = {}
        place = homes(tuple(self.reads.items()))
        for name in order:
            if name in found:
                continue
            together = place[name].members if name in place else (name,)
            frontier: dict[TableName, int | None] = {}
            for member in together:
                for source, read in self.inputs.get(member, {}).items():
                    if source in self.views or source in together:
                        continue
                    if source in self.streams and source not in self.boundaries:
                        frontier |= found.get(source) or self.frontiers.get(source, {})
                    else:
                        frontier[source] = read.snapshot_id
            found |= dict.fromkeys(together, frontier)
        return found

    def _spread(
        self,
        order: Iterable[TableName],
        own: Callable[[TableName, Collection[TableName]], bool],
    ) -> list[TableName]:
        """Those of which something holds, and what reads them; members of a cycle all or none."""
        found: dict[TableName, None] = {}
        names = [name for name in order if name in self.streams]  # others were dropped
        place = homes(tuple(self.reads.items()))
        for name in names:
            together = place[name].members if name in place else (name,)
            if name not in found and any(own(each, found) for each in together):
                found |= dict.fromkeys(together)
        return [name for name in names if name in found]

    def _is_stale(self, name: TableName, found: Collection[TableName]) -> bool:
        return bool(self.streams[name].options.get("always")) or self._lags(name, found)

    def _lags(self, name: TableName, found: Collection[TableName]) -> bool:
        known, stream = self.inputs.get(name, {}), self.streams[name]
        return (
            not stream.populated
            or stream.status is Status.ERROR  # what was in the way may be gone
            or to_be_looked_at(stream)
            or not known
            or any(each.metadata_location != self.mark(source) for source, each in known.items())
            or any(upstream in found for upstream in self.reads.get(name, ()))
        )


def observe(
    c: Connection, lake: Lake | None = None, shown: cuts.Shown | None = None
) -> CatalogState:
    """The newest recorded cut, which may be known, and all rows of ours."""
    known, graph = streams.all_streams(c), streams.whole_graph(c)
    nothing: dict[TableName, tuple[TableName, ...]] = dict.fromkeys(known, ())
    return CatalogState(
        pointers=cuts.newest(c) if shown is None else shown.pointers,
        views=view_rows.all_views(c),
        streams=known,
        reads={**nothing, **graph.dependencies},  # a query may read no table at all
        inputs=graph.inputs,
        frontiers=graph.frontiers,
        declared=refresh_groups.all_groups(c),
        cut_id=cuts.current(c) if shown is None else shown.cut_id,
        committed={} if shown is None else shown.committed,
        foreign=frozenset() if shown is None else shown.foreign,
        moment=tables.now(c),
        ahead=tables.ahead(c),
    )


def observe_now(runtime: Runtime) -> CatalogState:
    """The same, once the commits of other programs are part of a cut."""
    with commits.shown(runtime.lake) as (c, found):
        return observe(c, runtime.lake, found)


def observe_everything(runtime: Runtime, *, asked_for: bool = False) -> CatalogState:
    """The same, once what moved in attached catalogs is part of a cut as well."""
    with commits.shown(runtime.lake) as (c, found):
        if not found.foreign:
            return observe(c, runtime.lake, found)
    foreign.observe_all(runtime.lake, asked_for=asked_for)
    return observe_now(runtime)


def _by_hand(stream: StreamTable) -> bool:
    return stream.schedule is None


def _unmixed(stream: StreamTable) -> Mapping[str, Any]:
    return {name: value for name, value in stream.options.items() if name != streams.MIXED_CUTS}


def view_mark(text: str) -> str:
    return "view:" + hashlib.sha256(text.encode()).hexdigest()

"""What hangs on a swap is published with it: a cut is never torn, whoever publishes it.

A promote or a roll-back moves some tables and keeps others.  Where a moved table is in a consistency
group with one that stays, or is read by a stream table outside of the project, those are refreshed over
the moved tables in the same transaction, as ALTER STREAM TABLE … AS does.  A group that moves
as a whole and has no other readers needs no computing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from anabranch.catalog import cuts, deployments, events, streams
from anabranch.catalog.clusters import all_clusters
from anabranch.catalog.deployment_state import SuspendedReader
from anabranch.catalog.events import Event
from anabranch.catalog.indexes import Index
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Connection
from anabranch.catalog.views import all_views
from anabranch.deploy.cycles import Queries, with_path
from anabranch.deploy.outside import is_staged
from anabranch.deploy.readers import Reader
from anabranch.deploy.refresh_groups import leave
from anabranch.deploy.refusals import breaks, broken
from anabranch.errors import (
    AnabranchError,
    Kind,
    NotIncremental,
    PlanFailed,
    PublishConflict,
    Refused,
    SchemaError,
    UserError,
)
from anabranch.graph.components import Component
from anabranch.graph.order import closure, dependants
from anabranch.graph.policies import DiamondConsistency
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.cycles import Members, check_member, define_again
from anabranch.refresh.definition import check_mode, understood
from anabranch.refresh.observe import CatalogState, observe
from anabranch.refresh.publish_sets import asked_for, world_of
from anabranch.refresh.record import Trigger, note_cuts, record_outcomes
from anabranch.refresh.staging import Staging
from anabranch.retry import attempts
from anabranch.runtime import Leased, Runtime, Transaction
from anabranch.tables.column_migration import fit_columns, understood_together

VIEW_BROKEN = (
    "a deployment broke this view, with --suspend-readers: {why}; "
    "CREATE OR REPLACE VIEW {name} AS … gives it another query"
)
OF_THE_TABLE = (Kind.USER, Kind.SCHEMA, Kind.REFUSED)  # errors that say what is wrong with a table
HELD_BACK = (Status.SUSPENDED, Status.ERROR)  # a refresh has to wait for somebody to act


@dataclass(frozen=True)
class After:
    """The catalog as it will be, and whose objects are whose then."""

    seen: CatalogState
    own: frozenset[TableName]  # of some project, or staged by one: not outside
    staged: tuple[str, ...]  # endings of the staging schemas of open deployments

    def outside(self, name: TableName) -> bool:
        return name not in self.own and not self.is_staged(name)

    def is_staged(self, name: TableName) -> bool:
        return is_staged(name, self.staged)


def look_after(c: Connection, runtime: Runtime, project: str) -> After:
    return whose(c, observe(c, runtime.lake), project)


def whose(c: Connection, seen: CatalogState, project: str) -> After:
    keys = [key for key, owner in deployments.owners(c).items() if owner.project == project]
    own = frozenset(TableName((key[0], key[1]), key[2]) for key in keys if key[0])
    staged = tuple(f"__{each}" for each in sorted(deployments.open_ids(c)))
    return After(seen, own, staged)


@dataclass(frozen=True)
class Consent:
    """Which readers outside of the project may be suspended if they cannot follow."""

    all: bool = False
    names: Collection[TableName] = ()

    def __contains__(self, name: TableName) -> bool:
        return self.all or name in self.names


@dataclass(frozen=True)
class Cures:
    """What helps when a table cannot be refreshed with the swap: all of it works as it is written.

    `again` repeats the command, after bringing all up to date; `as_it_is` does so just as it was given.
    `instead` is for tables that the swap gives their query; `fixed` names the tables whose queries may
    not be altered before it.
    """

    again: str
    as_it_is: str
    instead: str
    fixed: frozenset[TableName] = frozenset()

    def of(self, name: TableName, error: AnabranchError) -> str:
        mend = f"fix the rows that {name} reads"
        if name in self.fixed:
            return f"{mend}, then {self.again}; or {self.instead.format(name=name)}"
        return f"{cure(name, error)}, then {self.again}"


class Unleased(PublishConflict):
    """More tables have to move along than leases are held of."""


class NotAlone(PublishConflict):
    """Something has to be refreshed, or looked at with Spark, before the swap can be published."""


@dataclass(frozen=True)
class Found:
    """What a swap goes by, read in one transaction; its publish compares."""

    after: After  # as it is before the swap
    indexed: Mapping[TableName, tuple[Index, ...]]

    @property
    def seen(self) -> CatalogState:
        return self.after.seen


F = TypeVar("F", bound=Found)


@dataclass
class Flip(Generic[F]):
    """A swap that is tried until nobody comes between; everything that it writes is leased.

    `prepare` ends with a look at the catalog, and `look` only looks.
    """

    runtime: Runtime
    names: Iterable[TableName]
    cures: Cures
    look: Callable[[], F]
    consent: Consent = Consent()
    prepare: Callable[[], F] | None = None
    suspended: dict[TableName, str] = field(default_factory=dict)  # readers outside, and why
    broken_views: dict[TableName, str] = field(default_factory=dict)  # likewise

    def run(self, act: Callable[[Transaction, Lease, F], int | None]) -> int | None:
        self.names = set(self.names)
        for attempt in attempts():
            try:
                with attempt:
                    return self._attempt(act)
            except Broken as failed:
                if failed.table not in self.consent:
                    first = cure(failed.table, failed.error)
                    why = {failed.table: failed.error.message}
                    raise breaks(why, cure=first) from failed.error
                self.suspended[failed.table] = failed.error.message
        raise PublishConflict("production keeps changing", hint="run it again")

    def _attempt(self, act: Callable[[Transaction, Lease, F], int | None]) -> int | None:
        """The stage begins in the transaction that takes the lease, and the publish gives it back."""
        found, begun = (self.prepare or self.look)(), list[Transaction]()

        def begin(c: Connection) -> None:
            begun.append(self.begin(found, c))

        self.runtime.lake.fence.claim()
        seconds = self.runtime.settings.lease_time
        try:
            with self.runtime.leases.hold(
                sorted(self.names), seconds, wait=True, begin=begin
            ) as lease:
                assert isinstance(lease, Lease)
                if lease.waited:  # somebody has done something meanwhile
                    found = self.look()
                    with self.runtime.store.writing(durable=False) as c:
                        begin(c)
                (tx,) = begun
                tx.used.hold(lease, last=True)
                cut_id = act(tx, lease, found)
                self.runtime.leases.ended(lease)
                return cut_id
        except BaseException:
            for each in begun:
                each.abandon()
            raise

    def begin(self, found: F, c: Connection | None = None) -> Transaction:
        """A transaction upon what was found."""
        tx = self.runtime.begin(world_of(self.runtime, found.seen), c)
        tx.leased = Leased(found.indexed)
        tx.used.whole = True
        return tx

    def publish(self, along: Along, lease: Lease) -> int | None:
        """Most swaps need nothing refreshed, which shows in the publish itself.  For others it was a
        rehearsal: it has shown what is to be refreshed before the next try."""
        tx = along.tx
        undo, before = tx.bookmark(), dict(tx.stage.changes)
        along.stand_alone()
        try:
            return tx.publish(along.kind, keep=True)
        except NotAlone:
            if tx.stage.changes != before:  # copies for indexes are made once more, at the end
                along.rehearsed = None
            undo()
        tx.leased = None  # what moves along has indexes, which were not compared
        along.stage()
        self.check_leased(lease, along.written)
        return tx.publish(along.kind)

    def along(
        self,
        tx: Transaction,
        kind: str,
        seen: CatalogState,
        project: str,
        moved: Iterable[TableName],
        altered: Iterable[TableName] = (),
    ) -> Along:
        self.suspended = dict(self.suspended)
        return Along(
            self.runtime,
            tx,
            kind,
            seen,
            project,
            frozenset(moved),
            self.consent,
            self.suspended,
            self.cures,
            frozenset(altered),
        )

    def break_views(self, tx: Transaction, seen: CatalogState, readers: Iterable[Reader]) -> None:
        """Views have no rows to bring along: those that would stop to work need somebody's consent."""
        failing = [each for each in broken(readers) if each.kind == "view"]
        self.broken_views = {each.name: each.error or "" for each in failing}
        refused = {n: why for n, why in self.broken_views.items() if n not in self.consent}
        if refused:
            raise breaks(refused, refused)
        said = [
            Event(name, events.VIEW_BROKEN, VIEW_BROKEN.format(why=why, name=name))
            for name, why in sorted(self.broken_views.items())
        ]

        def rows(c: Connection, cut_id: int | None) -> None:
            if all_views(c) != seen.views:  # made or changed since it was looked at
                raise PublishConflict("a view was changed by another process", hint="run it again")
            events.add(c, said)

        tx.later(rows)

    def check_leased(self, lease: Lease, written: Iterable[TableName]) -> None:
        more = set(written) - set(lease.tables)
        if more:
            self.names = {*self.names, *more}
            raise Unleased(f"{sorted(more)[0]} moves along", hint="run it again")


@dataclass
class Along:
    """One attempt: `moved` are the tables and views of the swap; `suspended` the readers outside of the
    project that cannot follow, and why."""

    runtime: Runtime
    tx: Transaction
    kind: str
    before: CatalogState
    project: str
    moved: frozenset[TableName]
    consent: Consent
    suspended: dict[TableName, str]
    cures: Cures
    altered: frozenset[TableName] = frozenset()  # source tables that only get other columns
    tokens: dict[str, str] = field(default_factory=lambda: defaultdict(streams.new_token))
    written: tuple[TableName, ...] = ()
    stopped: tuple[TableName, ...] = ()  # by hand: they stay so, whatever takes their place
    rehearsed: After | None = None  # by a publish that could not stand alone

    def stand_alone(self) -> None:
        """Publish only if nothing must move along."""
        self.tx.later(self._suspend)
        self.tx.later(self._check_alone)
        self.tx.later(self._stay_suspended)

    def _check_alone(self, c: Connection, cut_id: int | None) -> None:
        """Whatever `stage` would find, in the publish, after everything."""
        after = look_after(c, self.runtime, self.project)
        if (
            self._closed(after)[1]
            or needing(after, self.moved)
            or unfilled(after, self.moved)
            or self._altered_readers(after, ())
            or self._cut_off(after, ())
        ):
            self.rehearsed = after
            raise NotAlone("something moves along", hint="run it again")
        self._note_cut(c, after)

    def stage(self) -> None:
        """Refresh what must move along; the rows of the swap are in the transaction already."""
        self.tx.later(self._suspend)
        while True:
            after, self.rehearsed = self.rehearsed or self._rehearse(), None
            self._check_world(after.seen)
            self._check_cycles(after)
            needed = needing(after, self.moved)
            failing = self._fit(after, needed | unfilled(after, self.moved))
            failing |= self._unfit(after, needed)
            left_alone = {} if failing else self._cut_off(after, needed)
            if not failing and not left_alone:
                break
            self._take_out(failing)
            self.suspended |= left_alone
        if needed:
            self._refresh(after, needed)
        self.tx.later(self._check_whole)
        self.tx.later(self._stay_suspended)

    def _rehearse(self) -> After:
        return self.tx.rehearse(self.kind, lambda c: look_after(c, self.runtime, self.project))

    def keep_suspended(self, c: Connection, names: Iterable[TableName]) -> None:
        """Note in the publish which tables somebody has suspended, before others take their places.

        SUSPEND takes no lease, so as not to wait for a long refresh: only what the transaction of the
        publish reads is sure.  Tables that were suspended after failures have an error.
        """
        known = (streams.get(c, name) for name in names)
        self.stopped = tuple(
            each.name
            for each in known
            if each is not None and each.status is Status.SUSPENDED and each.last_error is None
        )

    def _stay_suspended(self, c: Connection, cut_id: int | None) -> None:
        """The last thing: before, they are refreshed with their groups."""
        for name in self.stopped:
            streams.change(c, name, status=Status.SUSPENDED)

    def _check_whole(self, c: Connection, cut_id: int | None) -> None:
        """In the publish, after everything: nobody may have made a reader meanwhile."""
        after = look_after(c, self.runtime, self.project)
        left = needing(after, self.moved, settled=True)
        if left:
            raise PublishConflict(f"{sorted(left)[0]} would not fit", hint="run it again")
        self._note_cut(c, after)

    def _note_cut(self, c: Connection, after: After) -> None:
        """What moved and is up to date stands at the cut of the publish: at an older one, what it reads
        may have had another name."""
        names = [name for name in (*self.moved, *self.written) if name in after.seen.streams]
        noted = after.seen.noting(names)
        note_cuts(c, after.seen, noted)
        meet(c, noted, names)

    def _check_world(self, after: CatalogState) -> None:
        """What is read must be what the rehearsal has seen: nobody may have come between."""
        changed, known = self.tx.stage.changes, self.tx.world.pointers
        for name in {*known, *after.pointers} - changed.keys():
            if known.get(name) != after.pointers.get(name):
                raise PublishConflict(f"{name} moved meanwhile", hint="run it again")
        self.tx.world.views = after.views

    def _check_cycles(self, after: After) -> None:
        """With the tables of others a cycle may close that the project alone does not have."""
        then, found = self._closed(after)
        for component in found:
            queries = {name: then.streams[name] for name in sorted(component & then.streams.keys())}
            try:
                definitions = define_again(self.tx, queries)
            except (UserError, SchemaError):  # a reader does not fit: that is told with its cure
                continue
            for name, definition in definitions.items():
                mode = after.seen.streams[name].refresh_mode
                try:
                    check_member(self.tx.world, name, mode, definition, component)
                except Refused as error:
                    raise with_path(error, then.reads, component) from None

    def _closed(self, after: After) -> tuple[Queries, list[Members]]:
        """What is read then, and the cycles that close; refused where they are not allowed."""
        before, then = (Queries.of(seen, after.staged) for seen in (self.before, after.seen))
        found = then.closed(before, self.moved)
        then.check_allowed(self.runtime.settings, before, found)
        return then, found

    def _take_out(self, failing: Mapping[TableName, str]) -> None:
        """Readers that cannot follow are suspended, if somebody agreed to it."""
        refused = {name: why for name, why in failing.items() if name not in self.consent}
        if refused:
            raise breaks(refused)
        self.suspended |= failing

    def let_go(self, c: Connection, name: TableName, why: str) -> bool:
        """Suspend a reader outside of the project that loses a table; False if nobody agreed to it."""
        if name not in self.consent or not whose(c, self.before, self.project).outside(name):
            return False
        self.suspended[name] = why
        return True

    def _cut_off(self, after: After, needed: Collection[TableName]) -> dict[TableName, str]:
        """Readers of suspended readers that would hold the swap back, or those they are grouped with.

        Whoever agreed to suspend a reader has agreed to these.
        """
        seen = after.seen
        below = {
            name
            for name in downstream(seen, self.suspended)
            if after.outside(name) and not held_back(seen, name)
        } - {*self.moved, *self.suspended}
        stopped = {*below, *self.suspended}
        home = {name: group.members for group in seen.groups for name in group.members}
        return {
            name: f"it reads {sorted(stopped.intersection(seen.reads[name]))[0]}, which is suspended"
            for name in sorted(below)
            if name in needed or not stopped.issuperset(home.get(name, ()))
        }

    def _fit(self, after: After, needed: Collection[TableName]) -> dict[TableName, str]:
        """Give readers the columns of their queries; those that have none any more, and why."""
        failing: dict[TableName, str] = {}
        seen = after.seen
        for part in seen.components(needed):
            outside = [
                name
                for name in part.members
                if name in needed and after.outside(name) and name not in self.moved
            ]
            if not outside:
                continue
            try:
                self._fit_part(seen, part)
            except (UserError, SchemaError, NotIncremental) as error:
                failing |= dict.fromkeys(outside, error.message)
        held = [
            name
            for name in sorted(needed)
            if after.outside(name) and name not in self.moved and stopped(seen, name)
        ]  # what is in error is tried: its rows may be mended by now
        return {**dict.fromkeys(held, "it is suspended"), **failing}

    def _unfit(self, after: After, needed: Collection[TableName]) -> dict[TableName, str]:
        """Readers of altered source tables that will not work at their next refresh, and why."""
        found = {}
        for name in self._altered_readers(after, needed):
            stream = after.seen.streams[name]
            try:
                definition = understood(self.tx.world, name, stream.query)
                check_mode(name, stream.refresh_mode, definition)
            except (UserError, SchemaError, NotIncremental) as error:
                found[name] = error.message
        return found

    def _altered_readers(self, after: After, needed: Collection[TableName]) -> list[TableName]:
        below = downstream(after.seen, self.altered) - {*needed, *self.moved}
        return [n for n in sorted(below) if after.outside(n) and not held_back(after.seen, n)]

    def _fit_part(self, seen: CatalogState, part: Component[TableName]) -> None:
        queries = {name: seen.streams[name].query for name in part.members}
        found = understood_together(self.tx, queries, cyclic=part.cyclic)
        for name, definition in found.items():
            check_mode(name, seen.streams[name].refresh_mode, definition)
        for name, definition in found.items():
            fit_columns(self.tx, name, definition)

    def _refresh(self, after: After, needed: Collection[TableName]) -> None:
        found = self._where_it_runs(after.seen.upon(self.before))
        found = replace(found, cut_id=self.before.cut_id)  # what is read is of that cut
        order = asked_for(found, needed).members
        seen = found.noting([name for name in order if name not in self.moved])
        stale = [name for name in seen.stale(order) if seen.streams[name].populated]
        self._refuse_suspended(seen, stale)
        staging = Staging(self.runtime, self.tx, seen)
        staging.run(stale)
        if staging.failure is not None:
            self._give_up(after, staging.failure.table, staging.failure.error)
        used = self.tx.used
        used.views |= {name: self.before.views.get(name) for name in self.moved & used.views.keys()}
        for name in self.tx.stage.changes:  # moved here: the publish compares its pointer anyway
            self.tx.stage.expected.pop(name, None)
        done = list(staging.done.values())
        self.written = tuple(stale)

        def rows(c: Connection, cut_id: int | None) -> None:
            note_cuts(c, found, seen)
            kept = self.tx.kept.values()
            record_outcomes(c, cut_id, done, Trigger(self.kind), seen.groups, kept=kept)

        self.tx.later(rows)

    def _where_it_runs(self, seen: CatalogState) -> CatalogState:
        """Clusters that come with the publish are not there yet: their tables run anywhere."""
        with self.runtime.store.reading() as c:
            known = all_clusters(c)
        new = {
            name: replace(stream, cluster=None)
            for name, stream in seen.streams.items()
            if stream.cluster is not None and stream.cluster not in known
        }
        return replace(seen, streams={**seen.streams, **new})

    def _refuse_suspended(self, seen: CatalogState, stale: Iterable[TableName]) -> None:
        for name in stale:
            if stopped(seen, name):
                resume = f"ALTER STREAM TABLE {name} RESUME, then {self.cures.again}"
                raise self._cannot_follow(seen, name, "it is suspended", resume)

    def _give_up(self, after: After, name: TableName, error: AnabranchError) -> None:
        """A lost Spark is nobody's fault; a query or rows that do not fit are the table's."""
        if error.kind not in OF_THE_TABLE and not isinstance(error, PlanFailed):
            raise error
        if after.outside(name) and name not in self.moved:
            raise Broken(name, error) from error
        helps = self.cures.of(name, error)
        raise self._cannot_follow(after.seen, name, error.message, helps) from error

    def _cannot_follow(self, seen: CatalogState, name: TableName, why: str, cure: str) -> Refused:
        """A table of the project that belongs to a group which would be torn without it."""
        group = next(each.members for each in seen.groups if name in each.members)
        others = sorted(self.moved.intersection(group) - {name})
        beside = f" with {others[0]}" if others else ""
        statements = [
            f"ALTER STREAM TABLE {each} SET (diamond_consistency = 'none')"
            for each in self._could_leave(seen, name, group)
        ]
        alone = f"; or {', '.join(statements)} ends the group, then {self.cures.as_it_is}"
        return Refused(
            f"this {self.kind} has to refresh {name} in one publish{beside}, and cannot: {why}",
            hint=f"{cure}{alone if statements else ''}",
        )

    def _could_leave(
        self, seen: CatalogState, name: TableName, group: Iterable[TableName]
    ) -> tuple[TableName, ...]:
        """Which tables that stay would have to leave the group, so that `name` need not be refreshed:
        the fewest, and none at all if that does not help."""
        staying = [
            each
            for each in sorted(group)
            if each not in self.moved and not self._redeclares(seen, each)
        ]
        with self.runtime.store.reading() as c:
            after = whose(c, seen, self.project)
        for some in (*((each,) for each in staying), tuple(staying)):
            left = {
                each: replace(seen.streams[each], diamond_consistency=DiamondConsistency.NONE.value)
                for each in some
            }
            parted = replace(seen, streams={**seen.streams, **left})
            needed = needing(replace(after, seen=parted), self.moved)
            if some and name not in parted.stale(asked_for(parted, needed).members):
                return some
        return ()

    def _redeclares(self, seen: CatalogState, name: TableName) -> bool:
        """Does the swap set the options of a table, whatever somebody sets now?"""
        before = self.before.streams.get(name)
        return before is None or before.definition != seen.streams[name].definition

    def _suspend(self, c: Connection, cut_id: int | None) -> None:
        suspend(c, self.suspended)


def cure(name: TableName, error: AnabranchError) -> str:
    """What helps a table that cannot be refreshed."""
    if isinstance(error, PlanFailed):
        return (
            f"REFRESH STREAM TABLE {name} FULL, or ALTER STREAM TABLE {name} SET REFRESH MODE AUTO"
        )
    return f"fix the rows that it reads, or ALTER STREAM TABLE {name} AS …"


class Broken(Exception):
    """A reader outside the project failed while it was refreshed over what moved."""

    def __init__(self, table: TableName, error: AnabranchError) -> None:
        super().__init__(str(error))
        self.table, self.error = table, error


def needing(after: After, moved: frozenset[TableName], *, settled: bool = False) -> set[TableName]:
    """Stream tables that must be refreshed with a swap, group by group, upstreams first.

    `settled`: after that refresh, when members that had nothing to do stand where they stood.
    """
    seen = after.seen
    found: set[TableName] = set()
    for group in seen.groups:
        members = [name for name in group.members if _counts(after, name)]
        alone = len(group.members) == 1
        if alone and members and held_back(seen, members[0]) and members[0] not in moved:
            continue  # it moves nobody and nobody waits for it
        if (
            any(_has_not_seen(seen, name, moved, found) for name in members)
            or (not moved.isdisjoint(members) and torn(seen, members, settled=settled))
            or (not settled and any(_nowhere(seen, name) for name in moved.intersection(members)))
        ):
            found |= set(members)
    return found


def unfilled(after: After, moved: Collection[TableName]) -> set[TableName]:
    """Readers outside that wait for their first refresh: their queries must still work."""
    return {
        name
        for name in downstream(after.seen, moved)
        if after.outside(name) and not after.seen.streams[name].populated
    }


def _counts(after: After, name: TableName) -> bool:
    stream = after.seen.streams.get(name)
    return stream is not None and stream.populated and not after.is_staged(name)


def _has_not_seen(
    seen: CatalogState, name: TableName, moved: Collection[TableName], found: Collection[TableName]
) -> bool:
    """Does it read something else than it has read, because of the swap?"""
    known = seen.inputs.get(name, {})
    for source in seen.reads.get(name, ()):
        if source == name:
            continue
        if source in found:
            return True
        plain = source not in seen.streams and source not in seen.views
        if source in moved and not (
            plain and name in moved
        ):  # a source may be ahead of its readers
            read = known.get(source)
            if read is None or read.metadata_location != seen.mark(source):
                return True
    return False


def _nowhere(seen: CatalogState, name: TableName) -> bool:
    """Does it read a table that is new beside one that has moved on?  No cut has shown both."""
    return not seen.streams[name].cuts and bool(seen.lagging([name]))


def torn(seen: CatalogState, members: Iterable[TableName], *, settled: bool = False) -> bool:
    """Do members of a group stand on different versions of a source, or of each other?"""
    names = list(members)
    versions: dict[TableName, int | None] = {}
    for name in names:
        for source, snapshot in seen.frontiers.get(name, {}).items():
            if not settled and versions.setdefault(source, snapshot) != snapshot:
                return True
        for source, read in seen.inputs.get(name, {}).items():
            if source in names and source != name and read.metadata_location != seen.mark(source):
                return True
    return False


def meet(c: Connection, seen: CatalogState, names: Iterable[TableName]) -> None:
    """Members of a group that returned from an older cut, or waited in a staging schema, say the newest
    cut at which all of them stand: their sources may not have moved in between."""
    wanted = set(names)
    for group in seen.groups:
        cuts_of = {name: seen.streams[name].cuts for name in group.members}
        stands = {cut for found in cuts_of.values() for cut in found}
        mixed = any(len(found) > 1 for found in cuts_of.values())
        if wanted.isdisjoint(group.members) or mixed or len(set(cuts_of.values())) < 2:
            continue
        for cut_id in sorted(stands, reverse=True):
            shown = {name: each.snapshot_id for name, each in cuts.versions_at(c, cut_id).items()}
            if all(_stands_at(seen, name, shown) for name in group.members):
                late = [name for name in group.members if cuts_of[name] != (cut_id,)]
                streams.note_cut(c, cut_id, {name: seen.frontiers.get(name, {}) for name in late})
                break


def _stands_at(seen: CatalogState, name: TableName, shown: Mapping[TableName, int | None]) -> bool:
    found = seen.frontiers.get(name, {})
    return all(source in shown and shown[source] == at for source, at in found.items())


def held_back(seen: CatalogState, name: TableName) -> bool:
    return seen.streams[name].status in HELD_BACK


def stopped(seen: CatalogState, name: TableName) -> bool:
    return seen.streams[name].status is Status.SUSPENDED


def suspend(c: Connection, readers: Mapping[TableName, str]) -> None:
    """Readers stop, visibly; they leave their groups, so as not to hold back what moved on."""
    for name, why in sorted(readers.items()):
        streams.change(
            c,
            name,
            status=Status.SUSPENDED,
            last_error=why,
            diamond_consistency=DiamondConsistency.NONE.value,
        )
    leave(c, list(readers))
    events.add(
        c,
        [
            Event(
                name,
                events.SUSPENDED,
                f"suspended by a deployment that it cannot follow: {why}; it has left its "
                f"consistency group. ALTER STREAM TABLE {name} AS … gives it another query",
            )
            for name, why in sorted(readers.items())
        ],
    )


def taken_out(c: Connection, readers: Mapping[TableName, str]) -> list[SuspendedReader]:
    """What a roll-back needs to take suspended readers in again; their groups are noted apart."""
    known = [(name, streams.get(c, name)) for name in sorted(readers)]
    return [
        SuspendedReader(
            name,
            stream.status.value,
            stream.last_error,
            stream.diamond_consistency,
            readers[name],
        )
        for name, stream in known
        if stream is not None
    ]


def take_in(c: Connection, readers: Iterable[SuspendedReader], along: Along) -> None:
    """Readers that a deployment suspended go on, unless somebody has seen to them since."""
    for reader in readers:
        stream = streams.get(c, reader.name)
        if reader.name in along.suspended or stream is None:
            continue
        why = stream.last_error if reader.why is None else reader.why
        if stream.status is Status.SUSPENDED and stream.last_error == why:
            streams.change(
                c,
                reader.name,
                status=Status(reader.status),
                last_error=reader.last_error,
                diamond_consistency=reader.diamond_consistency,
                definition=along.tokens[str(reader.name)],
            )


def downstream(seen: CatalogState, moved: Collection[TableName]) -> set[TableName]:
    """Stream tables that read what moves, directly or not."""
    return {name for name in closure(moved, dependants(seen.reads)) if name in seen.streams}

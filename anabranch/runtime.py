"""What every verb works with: settings, catalog, lake and Spark; and how changes become one cut."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.catalog import cuts, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.history import Refresh
from anabranch.catalog.indexes import Index, all_indexes, set_indexes
from anabranch.catalog.leases import Lease
from anabranch.catalog.read_leases import ReadLease
from anabranch.catalog.read_set import Present, ReadSet
from anabranch.catalog.store import Connection, Store
from anabranch.cut_view import CutView, NotObserved
from anabranch.errors import (
    AlreadyExists,
    InvalidValue,
    PublishConflict,
    Refused,
)
from anabranch.lake import foreign
from anabranch.lake.checksums import SEAL
from anabranch.lake.indexes import along, check_columns
from anabranch.lake.lake import Lake
from anabranch.lake.observe import observed
from anabranch.lake.publish import check_pointers, publish, rehearse
from anabranch.lake.stage import Stage, or_conflict
from anabranch.lake.version import TableVersion
from anabranch.leases import Leases
from anabranch.model import Action, Written
from anabranch.names import TableName
from anabranch.retry import attempts
from anabranch.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.spark.session import Spark

T = TypeVar("T")
Rows = Callable[[Connection, int | None], None]  # writes our rows in the transaction of a publish
KeepIndex = Callable[["Transaction", Index], None]


def silent(event: str, facts: Mapping[str, Any]) -> None:
    """Progress that nobody watches."""


class IsolationLevel(str, Enum):
    """What a transaction promises about the others that run beside it."""

    SNAPSHOT = "snapshot"
    SERIALIZABLE = "serializable"

    @classmethod
    def parse(cls, text: object) -> IsolationLevel:
        try:
            return cls(str(text).strip().lower())
        except ValueError:
            raise InvalidValue(
                f"there is no isolation {text!r}", hint="possible: snapshot, serializable"
            ) from None


@dataclass(frozen=True)
class Leased:
    """Rows that nobody else changes while the leases of their tables are held."""

    indexes: Mapping[TableName, tuple[Index, ...]] = field(default_factory=dict)
    runs: Mapping[TableName, Mapping[Action, Sequence[Refresh]]] = field(default_factory=dict)


class Transaction:
    """Changes that become visible together, as one cut, or not at all.

    `appends` are the files of tables that were only added to.  Such a table may have moved by the
    time of the publish: rows that depend on nothing in it can be added to what it is then.
    `keep_index` stages an index of a table that is staged.  Without it indexes are left behind, as
    another program would: they are not read until upkeep brings them along.
    """

    def __init__(
        self, world: CutView, c: Connection | None = None, keep_index: KeepIndex | None = None
    ) -> None:
        self.stage = Stage(world.lake, world.pointers, world.cut_id, c)
        self.world = replace(world, stage=self.stage, again=None)
        self.used = ReadSet()  # what the publish has to compare, besides pointers
        self.appends: dict[TableName, tuple[Written, ...]] = {}
        self._rows: list[Rows] = []
        self.indexes: dict[TableName, tuple[Index, ...]] = {}  # of tables that get other ones
        self.leased: Leased | None = None  # what was read with the leases of all that it writes
        self.found: Present | None = None  # what the publish has compared with
        self.keep_index = keep_index
        self.kept: dict[TableName, Refresh] = {}  # indexes that were staged, as lines of history

    def attempt(self, act: Callable[[Transaction], T]) -> T:
        """Run one change of several; one that fails is undone, the others stand."""
        undo = self.bookmark()
        try:
            with or_conflict(self.world.lake, self.world.cut_id, self.stage.id):
                return act(self)
        except BaseException:
            undo()
            raise

    def first(self, act: Callable[[Transaction], T]) -> T:
        """Run the only change; if it fails nothing is left."""
        try:
            with or_conflict(self.world.lake, self.world.cut_id, self.stage.id):
                return act(self)
        except BaseException:
            self.abandon()
            raise

    def bookmark(self) -> Callable[[], None]:
        """What brings the transaction back to where it is now."""
        changes, expected = dict(self.stage.changes), dict(self.stage.expected)
        views, count, indexes = self.world.views, len(self._rows), dict(self.indexes)
        used, appends, kept = self.used.copy(), dict(self.appends), dict(self.kept)

        def undo() -> None:
            self.stage.changes, self.stage.expected = changes, expected
            self.world.views, self.indexes, self.used = views, indexes, used
            self.appends, self.kept = appends, kept
            del self._rows[count:]

        return undo

    def moved(self) -> bool:
        """Whether something that this was computed from is no longer so."""
        with self.world.lake.store.reading() as c:
            try:
                self.used.check(c)
                check_pointers(c, self.stage)
            except PublishConflict:
                return True
        return False

    def restart(self, world: CutView) -> None:
        """Begin again upon another cut; files that were written stay and may be used."""
        self.stage.restart(world.pointers, world.cut_id)
        self.world = replace(world, stage=self.stage, again=None)
        self.used, self._rows, self.indexes = ReadSet(), [], {}
        self.appends, self.kept = {}, {}

    def reading(self, pointers: Mapping[TableName, str], cut_id: int) -> Transaction:
        """The same work, with the tables it does not change read as a newer cut shows them."""
        other = copy(self)
        shown = {**self.world.pointers, **pointers}
        other.world = replace(self.world, pointers=shown, cut_id=cut_id)
        return other

    def on(self, spark: Spark) -> Transaction:
        """The same work, done by another Spark."""
        other = copy(self)
        other.world = replace(self.world, spark=spark)
        return other

    def later(self, rows: Rows) -> None:
        """Write rows of ours in the transaction that publishes."""
        self._rows.append(rows)

    def note_append(self, name: TableName, written: Written) -> None:
        """Rows were added to a table, whatever is in it."""
        if name in self.appends or name not in self.stage.changes:
            self.appends[name] = (*self.appends.get(name, ()), written)

    def expect_what_was_read(self) -> None:
        """Publish only if all that was read is still so: the transaction could as well run now."""
        for name in self.world.read:
            if name in self.world.views:
                self.used.views.setdefault(name, self.world.views[name])
            elif name not in self.stage.changes:
                self.stage.expect(name, self.world.pointers.get(name))

    def rebase(self, pointers: Mapping[TableName, str]) -> bool:
        """Add the rows once more to tables that others have moved; False where that is not right, or
        where something else than a pointer has changed."""
        if not self.stage.open or any(
            pointers.get(name) != location for name, location in self.stage.expected.items()
        ):
            return False
        moved = [n for n, each in self.stage.changes.items() if pointers.get(n) != each.base]
        if not moved or not all(self._may_rebase(name, pointers.get(name)) for name in moved):
            return False
        for name in moved:
            self.stage.rebase(name, pointers[name])
            for written in self.appends[name]:
                self.stage.commit_rows(name, written)
        return True

    def _may_rebase(self, name: TableName, location: str | None) -> bool:
        """Whether rows written for one version of a table are rows of another one as well."""
        if location is None or name not in self.appends or name in self.world.read:
            return False
        before, now = self.world.version(name), self.world.lake.version(name, location)
        return (
            before.metadata.table_uuid == now.metadata.table_uuid
            and before.metadata.schema() == now.metadata.schema()
            and _said_of(before) == _said_of(now)
            and before.hidden == now.hidden
        )

    def publish(self, kind: str, *, keep: bool = False) -> int | None:
        """Make everything visible; None when there was nothing to publish.

        With `keep` a lost race leaves all as it was, for `rebase` and another try.
        """
        if not self._rows and not self.stage.changes and not self.indexes:
            self.stage.abort()
            return None
        try:
            self._bring_indexes()
        except BaseException:
            self.abandon()
            raise
        return publish(self.stage, kind, self._write_rows, keep=keep)

    def rehearse(self, kind: str, look: Callable[[Connection], T]) -> T:
        """What a look would show after the publish, of all that is staged so far."""
        return rehearse(self.stage, kind, self._write_rows, look)

    def _bring_indexes(self) -> None:
        """No cut shows an index without its table: whoever changes the one publishes the other."""
        found = along(
            self.stage, self.indexes, None if self.leased is None else self.leased.indexes
        )
        for index in found.indexes:
            if self.keep_index is None:
                check_columns(index, self.stage.version(index.table).columns)
            else:
                self.keep_index(self, index)
        for table, indexes in found.rows.items():
            self.later(lambda c, cut_id, t=table, f=indexes: set_indexes(c, t, f))  # type: ignore[misc]

    def _write_rows(self, c: Connection, cut_id: int | None) -> None:
        self.found = self.used.check(c)
        for rows in self._rows:
            rows(c, cut_id)
        self.used.check_after(c)

    def abandon(self) -> None:
        self.stage.abort()


class Workers:
    """Threads for refreshes, none for a size of 1; `slots` bounds the tables at work at a time.

    Members of a group have other threads than the groups, which wait for their members.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.slots = threading.BoundedSemaphore(size)
        several = size > 1
        self.members = ThreadPoolExecutor(size, "anabranch-refresh") if several else None
        self.coordinators = ThreadPoolExecutor(size, "anabranch-group") if several else None

    def close(self) -> None:
        for executor in (self.members, self.coordinators):
            if executor is not None:
                executor.shutdown(wait=False)


@dataclass
class Runtime:
    settings: Settings
    store: Store
    lake: Lake
    spark: Spark
    progress: Callable[[str, Mapping[str, Any]], None] = silent
    system: Callable[[str], DataFrame] | None = None
    keep_index: Callable[[Runtime, Transaction, Index], None] | None = None
    _local: threading.local = field(default_factory=threading.local)
    _workers: Workers | None = None

    @cached_property
    def leases(self) -> Leases:
        return Leases(self.store)

    @property
    def workers(self) -> Workers:
        """As many as the setting `parallelism` says now."""
        if self._workers is None or self._workers.size != self.settings.parallelism:
            self._workers = Workers(self.settings.parallelism)
        return self._workers

    def close(self) -> None:
        """Stop Spark if it was started here, and the threads."""
        if self._workers is not None:
            self._workers.close()
        self.spark.stop()

    def world(self, cut: int | None = None, fresh: Collection[TableName] = ()) -> CutView:
        """The current cut, or an old one by number; read in one transaction.

        `fresh`: foreign tables that were just observed; the current cut tells no others, since they
        may have moved.
        """
        with self.store.reading() if cut is not None else observed(self.lake) as c:
            pointers = cuts.newest(c) if cut is None else self.lake.pointers_at(cut, c)
            newest = cuts.current(c)
            shown = newest if cut is None else cut
            past = shown < newest
            views = view_rows.views_at(c, shown) if past else view_rows.all_views(c)
            indexes = all_indexes(c)
        world = CutView(self.lake, self.spark, pointers, views, None, shown, self.system)
        if cut is not None:
            return replace(world, indexes=indexes)
        return replace(world, indexes=indexes, fresh=frozenset(fresh), again=self._observed)

    def _observed(self, names: Collection[TableName]) -> CutView:
        """The current cut, once it shows these foreign tables as they are now."""
        foreign.require(self.lake, names)
        return self.world(fresh=names)

    @contextmanager
    def held(self, cut: int | None = None) -> Iterator[CutView]:
        """The same, under a read lease: upkeep leaves the cut readable until the end."""
        if cut is None:
            foreign.observe_all(self.lake)
        with ExitStack() as end:
            world, lease = self._hold(cut, end)
            yield replace(world, check_held=lambda: self.leases.check_cut(lease))

    def _hold(self, cut: int | None, end: ExitStack) -> tuple[CutView, ReadLease]:
        for attempt in attempts():
            with attempt:
                world = replace(self.world(cut), fresh=None, again=None)
                held = self.leases.hold_cut(world.cut_id or 0, self.settings.lease_time)
                lease = end.enter_context(held)
                if lease is None:  # upkeep was faster: of a numbered cut the next look says so
                    raise PublishConflict(
                        f"cut {world.cut_id} was forgotten before it could be held",
                        hint="run it again",
                    )
                return world, lease
        raise AssertionError("unreachable")

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that this thread has open."""
        found: Transaction | None = getattr(self._local, "transaction", None)
        return found

    @contextmanager
    def open_transaction(
        self, isolation: IsolationLevel = IsolationLevel.SNAPSHOT
    ) -> Iterator[Transaction]:
        if self.transaction is not None:
            raise Refused("a transaction is already open", hint="transactions do not nest")
        foreign.observe_all(self.lake)
        transaction = self._begin(None)
        self._local.transaction = transaction
        try:
            yield transaction
        except BaseException:
            transaction.abandon()
            raise
        finally:
            self._local.transaction = None
        if isolation is IsolationLevel.SERIALIZABLE:
            transaction.expect_what_was_read()
        with self._leased(transaction):
            cut_id = self._publish_patiently(transaction)
        self.progress("published", {"cut_id": cut_id})

    def begin(self, world: CutView, c: Connection | None = None) -> Transaction:
        """A transaction that brings the indexes of the tables along that it changes."""
        keep = None if self.keep_index is None else partial(self.keep_index, self)
        return Transaction(world, c, keep)

    def _begin(self, fresh: Collection[TableName] | None) -> Transaction:
        """A transaction upon the newest cut; upkeep may forget it before it is held.

        Without `fresh` it reads foreign tables as the cut shows them.
        """
        for attempt in attempts():
            with attempt:
                world = self.world(fresh=fresh or ())
                return self.begin(world if fresh is not None else replace(world, fresh=None))
        raise AssertionError("unreachable")

    def _publish_patiently(self, transaction: Transaction) -> int | None:
        """Publish; rows that were only added are added again to what others made of their table."""
        for attempt in attempts():
            undo = transaction.bookmark()
            try:
                return transaction.publish("transaction", keep=True)
            except PublishConflict:
                undo()
                with observed(self.lake) as c:
                    pointers = cuts.newest(c)
                if attempt.last or not transaction.rebase(pointers):
                    transaction.abandon()
                    raise
                attempt.pause()
            except BaseException:
                transaction.abandon()
                raise
        raise AssertionError("unreachable")

    def write(self, kind: str, act: Callable[[Transaction], T]) -> T:
        """Run a change in the open transaction, or in one of its own.

        A change that lost a race is computed anew on the new state; it is never moved over.
        """
        if self.transaction is not None:
            return self.transaction.attempt(act)
        fresh: frozenset[TableName] = frozenset()
        while True:
            try:
                return self._write(kind, act, fresh)
            except NotObserved as error:
                fresh |= error.names
                foreign.require(self.lake, fresh)

    def _write(self, kind: str, act: Callable[[Transaction], T], fresh: Collection[TableName]) -> T:
        for attempt in attempts():
            with attempt:
                transaction = self._begin(fresh)
                result = transaction.first(act)
                with self._leased(transaction) as lease:
                    if lease is not None and transaction.moved():  # while it was waited for
                        transaction.restart(self.world(fresh=fresh))
                        result = transaction.first(act)
                        transaction.used.hold(lease)
                    cut_id = transaction.publish(kind)
                self.progress("published", {"cut_id": cut_id})
                return result
        raise AssertionError("unreachable")

    @contextmanager
    def _leased(self, transaction: Transaction) -> Iterator[Lease | None]:
        """Hold the leases of the stream tables that are written, unless the change itself does.

        Whoever writes one waits for a refresh that is under way: a comment or an index would throw
        away the rows that were computed meanwhile.
        """
        written = {*transaction.stage.changes, *transaction.indexes}
        held = {name for lease in transaction.used.leases.values() for name in lease.tables}
        try:
            with self.store.reading() as c:
                wanted = streams.among(c, written - held)
            if not wanted:
                yield None
                return
            with self.leases.hold(wanted, self.settings.lease_time, wait=True) as lease:
                assert isinstance(lease, Lease)
                transaction.used.hold(lease)
                yield lease
        except BaseException:
            transaction.abandon()
            raise


def _said_of(version: TableVersion) -> dict[str, str]:
    """The properties of a table, but for the checksum that every version has of its own."""
    return {name: value for name, value in version.metadata.properties.items() if name != SEAL}


def check_new_name(tx: Transaction, name: TableName) -> None:
    """A name for something new: free, also when it is published, and not one of ours."""
    if name.is_system:
        raise Refused(f"{name}: the schema system is reserved", hint="choose another schema")
    tx.world.lake.attached.refuse_write(name)
    tx.used.names.add(name)
    found = tx.world.find(name)
    if found is not None:
        what = "a view" if found in tx.world.views else "a table"
        raise AlreadyExists(f"{found} already exists: it is {what}", hint="choose another name")

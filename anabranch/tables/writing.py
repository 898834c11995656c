"""How stream tables are written by everyone but a refresh: under the lease of all that is written.

The work is staged first, without a lease, so that a long backfill keeps nobody from refreshing the
tables around it.  Then the lease is waited for, in the queue of those who wait, which a scheduler lets
go first.  What was staged is published as it is if nothing moved meanwhile; otherwise it is brought up
to date under the lease, where nobody but another program can come between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from anabranch.catalog.leases import Lease
from anabranch.catalog.streams import Input, StreamTable
from anabranch.cut_view import NotObserved
from anabranch.errors import PublishConflict
from anabranch.lake import foreign
from anabranch.lake.changes import DELTA
from anabranch.lake.version import ROWS, STAGE, TableVersion
from anabranch.model import Columns, Written
from anabranch.names import TableName
from anabranch.refresh.component import Outcome
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.publish_sets import world_of
from anabranch.retry import ATTEMPTS, attempts
from anabranch.runtime import Runtime, Transaction

Names = Collection[TableName]
Act = Callable[
    [Transaction, CatalogState], Names
]  # stages the work, and says which tables it writes


def write_tables(runtime: Runtime, kind: str, act: Act) -> int | None:
    """Stage, hold the lease of what is written, publish; the new cut, None if no table changed."""
    work: Work | None = None
    try:
        for attempt in attempts():
            with attempt:
                work = work or Work.begin(runtime, act)
                seconds = runtime.settings.lease_time
                with runtime.leases.hold(work.names, seconds, wait=True) as lease:
                    assert isinstance(lease, Lease)
                    if work.tx.moved() and not work.again() <= {*lease.tables}:
                        continue  # more tables belong to it by now
                    work.tx.used.hold(lease)
                    cut_id = work.tx.publish(kind)
                    runtime.progress("published", {"cut_id": cut_id})
                    return cut_id
            if work is not None:  # a lost race: its files are gone
                work.tx.abandon()
                work = None
    except BaseException:
        if work is not None:
            work.tx.abandon()
        raise
    raise PublishConflict(
        f"the tables to be written changed {ATTEMPTS} times meanwhile", hint="run it again"
    )


@dataclass
class Work:
    runtime: Runtime
    act: Act
    tx: Transaction
    names: frozenset[TableName] = frozenset()
    fresh: frozenset[TableName] = frozenset()  # foreign tables that were observed for it

    @classmethod
    def begin(cls, runtime: Runtime, act: Act, fresh: frozenset[TableName] = frozenset()) -> Work:
        seen = observe_now(runtime)
        world = replace(world_of(runtime, seen), fresh=fresh)
        work = cls(runtime, act, runtime.begin(world), fresh=fresh)
        try:
            work.names = frozenset(act(work.tx, seen))
        except NotObserved as error:
            work.tx.abandon()
            foreign.require(runtime.lake, fresh | error.names)
            return cls.begin(runtime, act, fresh | error.names)
        except BaseException:
            work.tx.abandon()
            raise
        return work

    def again(self) -> frozenset[TableName]:
        """The same work upon what is there now; the tables that it writes."""
        seen = observe_now(self.runtime)
        self.tx.restart(replace(world_of(self.runtime, seen), fresh=self.fresh))
        self.names = frozenset(self.act(self.tx, seen))
        return self.names


@dataclass(frozen=True)
class Backfill:
    """All rows of a table, computed from its query and laid down in files of a stage."""

    stage_id: str
    root: str
    outcome: Outcome
    columns: Columns
    hidden: Columns
    files: tuple[str, ...]
    rows: int
    summary: Mapping[str, str]

    @classmethod
    def of(cls, tx: Transaction, outcome: Outcome) -> Backfill | None:
        """None where the stage does not hold all the rows itself."""
        version = tx.stage.version(outcome.table)
        state = version.state(version.snapshot_id)
        files = tuple(each.data_file.file_path for each in state.data)
        if state.deletes.entries or not all(f"/{tx.stage.id}/" in path for path in files):
            return None
        rows = sum(each.data_file.record_count for each in state.data)
        columns, summary = version.columns, _summary(version)
        return cls(
            tx.stage.id, version.root, outcome, columns, version.hidden, files, rows, summary
        )

    def usable(self, tx: Transaction, fingerprint: str) -> bool:
        """The files are still there, in the table's folder, and the query means the same, in the same
        columns: a promote may have put another table in its place."""
        version = tx.world.version(self.outcome.table)
        return (
            self.stage_id == tx.stage.id
            and self.root == version.root
            and self.columns == version.columns
            and self.outcome.fingerprint == fingerprint
        )

    def put(self, tx: Transaction, seen: CatalogState, stream: StreamTable) -> CatalogState:
        """The rows become those of the table; what its sources gained since is left to a refresh."""
        name = stream.name
        version = tx.stage.commit_rows(
            name,
            Written(add=self.files, rows=self.rows),
            replace_all=True,
            hidden=self.hidden,
            summary=self.summary,
        )
        own = Input(version.location, version.snapshot_id)
        filled = replace(
            stream, fingerprint=self.outcome.fingerprint, computed_from=self.outcome.computed_from
        )
        return seen.standing(
            filled, {**self.outcome.inputs, name: own}, dict(self.outcome.frontier)
        )

    def told(self, outcome: Outcome) -> Outcome:
        """What is said of the table that was filled and then brought up to date."""
        return replace(
            outcome,
            decision=self.outcome.decision,
            rows_inserted=self.outcome.rows_inserted,
            rows_deleted=self.outcome.rows_deleted,
            changed=True,
        )


def _summary(version: TableVersion) -> dict[str, str]:
    snapshot = version.snapshot(version.snapshot_id)
    if snapshot is None or snapshot.summary is None:
        return {}
    facts = snapshot.summary.additional_properties
    own = {DELTA, ROWS, STAGE}  # of the snapshot itself
    return {k: v for k, v in facts.items() if k.startswith("anabranch.") and k not in own}

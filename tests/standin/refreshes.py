"""Refreshes of the stand-in.

An incremental refresh adds Q(sources now) - Q(sources before) to what is stored, which is what the
rules of the delta engine amount to.  Like them it goes wrong if the stored rows are not those of the
query over the sources before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anabranch.catalog.bounds import bounds_of
from anabranch.delta.fixpoint import Converged, Counts, NoFixedPoint, Strategy
from anabranch.errors import InternalError
from anabranch.lake.version import TableVersion
from anabranch.model import Column, Columns, FixpointBounds, Op, Reading
from anabranch.names import TableName
from anabranch.refresh.cycles import Members
from anabranch.refresh.decide import Decision, settled
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.fixpoint import CycleWork, not_converged
from anabranch.refresh.execute.recompute import Recompute
from anabranch.refresh.execute.table import summary as summary_of
from anabranch.refresh.maintained import MaintainedTable, hidden_of
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.spark import query
from anabranch.spark.types import FILE, POSITION
from anabranch.spark.write import OP
from tests.standin.files import frame, run_sql, write_frame
from tests.standin.session import Frame, Row, table_of


def full_job(
    runtime: Runtime,
    tx: Transaction,
    table: MaintainedTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
    *,
    compare: bool = True,
) -> TableVersion:
    stored = tx.world.version(table.name)
    hidden = hidden_of(table.mode, definition)
    rows = _result(tx, definition, sources, now=True)
    if compare and not table.order and table.populated and {*stored.hidden} >= {*hidden}:
        return _exchange(runtime, tx, stored, Counter(rows), hidden, summary)
    made = Frame(runtime.spark.session, table_of(rows, stored.columns))
    written = write_frame(made, tx.stage.directory(table.name), (*stored.columns, *hidden))
    return tx.stage.commit_rows(
        table.name, written, replace_all=True, hidden=hidden, summary=summary
    )


def incremental_job(
    runtime: Runtime,
    tx: Transaction,
    table: MaintainedTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
) -> TableVersion:
    """stored + Q(now) - Q(before)."""
    stored = tx.world.version(table.name)
    wanted = Counter(frame(runtime.spark.session, stored.reading(), stored.columns).collect())
    wanted.update(_result(tx, definition, sources, now=True))
    wanted.subtract(_result(tx, definition, sources, now=False))
    if any(count < 0 for count in wanted.values()):
        raise InternalError(f"{table.name}: a row would be there less than no times")
    return _exchange(runtime, tx, stored, +wanted, definition.hidden, summary)


def _result(tx: Transaction, definition: Definition, sources: Sources, *, now: bool) -> list[Row]:
    world = tx.world

    def rows_of(name: TableName, looked_in: str | None) -> Any:
        version = sources.versions[name]
        snapshot = version.snapshot_id if now else sources.before[name]
        reading = version.reading(snapshot) if snapshot is not None else Reading(())
        return frame(world.spark.session, reading, version.columns)

    with query.Inputs(world.spark.session) as inputs:
        text = world.bind(inputs, definition.query, rows=rows_of)
        return run_sql(world.spark.session, text).collect()


def _exchange(
    runtime: Runtime,
    tx: Transaction,
    stored: TableVersion,
    wanted: Counter[Row],
    hidden: Columns,
    summary: Mapping[str, str],
) -> TableVersion:
    """The table with these rows: those that stay are kept, the others exchanged."""
    session, columns = runtime.spark.session, stored.columns
    missing, out = Counter(wanted), []
    for row in frame(session, stored.reading(), columns, positions=True).collect():
        values = row[: len(columns)]
        if missing[values] > 0:
            missing[values] -= 1
            out.append((*values, None, None, Op.KEEP.value))
        else:
            out.append((*row, Op.REMOVE.value))
    out += [(*row, None, None, Op.ADD.value) for row in missing.elements()]
    made = Frame(session, table_of(out, (*columns, FILE, POSITION, Column(OP, "string"))))
    written = write_frame(made, tx.stage.directory(stored.name), (*columns, *hidden))
    return tx.stage.commit_rows(stored.name, written, rewrite=True, hidden=hidden, summary=summary)


# -- tables that read each other ---------------------------------------------------------------


def cycle_follow(self: CycleWork, *, careful: bool) -> Converged:
    """The smallest tables that equal their queries over each other: upwards from what is stored if
    rows only came, as semi-naive rounds do, and from nothing otherwise.  Rows that came and went are
    read, as rounds do, so that their files are needed."""
    session = self.runtime.spark.session
    for name, delta in self.sources.deltas.items():
        for reading in (*delta.plus, *delta.minus):
            frame(session, reading, self.sources.versions[name].columns).collect()
    if not self.only_gains:
        return cycle_from_empty(self)
    return _rounds(
        self,
        Strategy.INSERTS,
        {
            name: Counter(frame(session, each.version.reading(), each.version.columns).collect())
            for name, each in self.rows.items()
        },
    )


def cycle_from_empty(self: CycleWork) -> Converged:
    return _rounds(self, Strategy.EMPTY, {name: Counter() for name in self.members})


def _rounds(
    work: CycleWork, strategy: Strategy, start: Mapping[TableName, Counter[Row]]
) -> Converged:
    member = partial(_member, work)
    found, rounds = _settled(work.bounds, list(start), start, member, work.watch)
    vars(work)["found"] = found  # what `cycle_stage` takes
    return Converged(strategy, (), rounds)


def _settled(
    bounds: FixpointBounds,
    members: Sequence[TableName],
    found: Mapping[TableName, Counter[Row]],
    member: Callable[[TableName, Mapping[TableName, Counter[Row]]], Counter[Row]],
    watch: Callable[[Counts], None],
) -> tuple[Mapping[TableName, Counter[Row]], tuple[Counts, ...]]:
    rounds: list[Counts] = []
    while True:
        again = {name: member(name, found) for name in members}
        if again == found:
            return found, tuple(rounds)
        added = {name: sum((again[name] - found[name]).values()) for name in members}
        if len(rounds) >= bounds.rounds:
            raise not_converged(NoFixedPoint(rounds), members, bounds)
        found = again
        rounds.append(added)
        watch(added)


def _member(work: CycleWork, name: TableName, found: Mapping[TableName, Any]) -> Counter[Row]:
    world, session = work.tx.world, work.runtime.spark.session

    def rows_of(source: TableName, looked_in: str | None) -> Any:
        if source in found:
            return Frame(
                session, table_of(list(found[source].elements()), world.version(source).columns)
            )
        version = work.sources.versions[source]
        return frame(session, version.reading(), version.columns)

    with query.Inputs(session) as inputs:
        text = world.bind(inputs, work.members[name].definition.query, rows=rows_of)
        return Counter(run_sql(session, text).collect())


def component_anew(
    self: Recompute, component: Members, inputs: query.Inputs, bound: Callable[[TableName], str]
) -> dict[TableName, Frame]:
    """For `verify`: from nothing, over the sources as they were."""
    world, session = self.world, self.runtime.spark.session

    def member(name: TableName, found: Mapping[TableName, Counter[Row]]) -> Counter[Row]:
        def rows_of(source: TableName, looked_in: str | None) -> Any:
            if source in found:
                rows = list(found[source].elements())
                return Frame(session, table_of(rows, world.version(source).columns))
            return session.sql(f"SELECT * FROM {bound(source)}")

        with query.Inputs(session) as more:
            text = world.bind(more, self.state.streams[name].query, rows=rows_of)
            return Counter(run_sql(session, text).collect())

    streams = [self.state.streams[name] for name in component]
    bounds = bounds_of(streams, self.runtime.settings)
    nothing: dict[TableName, Counter[Row]] = {name: Counter() for name in component}
    found, _ = _settled(bounds, sorted(component), nothing, member, lambda counts: None)
    return {
        name: Frame(session, table_of(list(rows.elements()), world.version(name).columns))
        for name, rows in found.items()
    }


def cycle_stage(self: CycleWork, decision: Decision) -> None:
    assert self.converged is not None
    decision = settled(decision, self.converged)
    for name, each in self.members.items():
        told = summary_of(each.definition, self.sources, decision, self.cuts)
        stored, hidden = self.tx.world.version(name), each.definition.hidden
        wanted: Counter[Row] = vars(self)["found"][name]
        if not decision.afresh:
            _exchange(self.runtime, self.tx, stored, wanted, hidden, told)
            continue
        made = Frame(self.runtime.spark.session, table_of(list(wanted.elements()), stored.columns))
        written = write_frame(made, self.tx.stage.directory(name), (*stored.columns, *hidden))
        self.tx.stage.commit_rows(name, written, replace_all=True, hidden=hidden, summary=told)

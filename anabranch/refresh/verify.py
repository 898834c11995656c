"""Prove that a stream table equals its query: recompute it at its frontier and compare the bags."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.catalog import cuts
from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import MIXED_CUTS, Input, StreamTable, is_unplanned
from anabranch.cut_view import CutView
from anabranch.delta.maintenance import ByRows, Combine
from anabranch.errors import Refused, UnknownName, UserError
from anabranch.graph.order import closure
from anabranch.model import Reading
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Parameter, Scan
from anabranch.plan.walk import settles_ties, walk
from anabranch.refresh.cycles import Members, component_of
from anabranch.refresh.definition import Definition, understood
from anabranch.refresh.execute.recompute import Recompute
from anabranch.refresh.execute.recursion import Recursions
from anabranch.refresh.members import changed_below, member_definition_leniently
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.runtime import Runtime
from anabranch.spark.compare import Surplus, as_stored, bag_difference
from anabranch.spark.merge import add_all
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.scan import frame
from anabranch.sql.analyze.tables import rebind, tables_of
from anabranch.sql.lower.moments import Moment, pinned
from anabranch.sql.lower.recursion import is_beyond_spark
from anabranch.sql.render import to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 20  # differing rows that are named
DIFFERS = "its rows are not those of its query at its frontier"
STATE_DIFFERS = "its hidden state is not what its query gives at its frontier"
LEAVE_OPEN = frozenset(
    {
        "APPROXIMATE_AGGREGATE",
        "COLLATION",
        "LIMIT_WITHOUT_ORDER",
        "NONDETERMINISTIC_FUNCTION",
        "ORDER_DEPENDENT_AGGREGATE",
        "ORDER_DEPENDENT_WINDOW",
        "SAMPLE",
        "TIES",
    }
)


def verify(runtime: Runtime, name: TableName, *, state: bool = False) -> dict[str, Any]:
    """Missing rows are in the query's result only, unexpected ones in the table only.

    With `state`, rows that are right are also compared with the hidden columns they are kept by:
    state that is wrong makes wrong rows of the next change.
    """
    catalog = observe_now(runtime)
    world = CutView(runtime.lake, runtime.spark, catalog.pointers, catalog.views)
    found = name.find_in(catalog.streams)
    if found is None:
        if world.find(name) is not None:
            raise UserError(f"{name} is not a stream table", hint="only stream tables have a query")
        known = [str(each) for each in catalog.streams]
        raise UnknownName(f"there is no stream table {name}", name=str(name), known=known)
    name, stream = found, catalog.streams[found]
    if not stream.populated:
        raise Refused(f"{name} has not been filled yet", hint=f"REFRESH STREAM TABLE {name}")
    frontier = catalog.frontiers.get(name, {})  # a query may read no table at all
    direct = read_directly(catalog, stream, frontier)
    asked = [catalog.streams[each] for each in recomputed(catalog, name, direct)]
    for each in asked:
        check_current(world, catalog, each)
    levels = max(bounds_of([each], runtime.settings).rounds for each in asked)
    torn = misplaced(runtime, stream, frontier)
    stored = world.table(name)
    with (
        Inputs(runtime.spark.session) as inputs,
        closing(Recompute(runtime, world, catalog)) as anew,
        runtime.spark.tuned(10_000_000, levels=levels),
    ):
        recomputation = Recomputation(world, catalog, inputs, anew, frontier, direct)
        expected = recomputation.stream(stream)
        columns = world.version(name).columns
        definition = defined(world, stream, component_of(catalog.reads, name))
        missing, unexpected = bag_difference(
            expected, stored, columns, SHOWN, computed=is_computed(definition.plan)
        )
        differs = bool(missing.total or unexpected.total)
        why = torn or (_differs(definition) if differs else None)
        if state and why is None:
            missing, unexpected = state_difference(recomputation, definition, stream)
            why = STATE_DIFFERS if missing.total or unexpected.total else None
    return {
        "table": str(name),
        "equal": why is None,
        "missing": missing.rows,
        "unexpected": unexpected.rows,
        "missing_rows": missing.total,
        "unexpected_rows": unexpected.total,
        "frontier": {str(source): snapshot for source, snapshot in sorted(frontier.items())},
        "cut_id": stream.cut_id,
        "mixed_cuts": list(stream.options.get(MIXED_CUTS, ())),
        "why": why,
    }


def is_computed(plan: Node | None) -> bool:
    """Whether values may come from several rows, not from one."""
    return plan is None or any(each.combines for each in walk(plan))


def _differs(definition: Definition) -> str:
    """Where a query leaves open what it shows, two right answers may differ."""
    open_ = [each for each in definition.obstacles if each.code in LEAVE_OPEN]
    return f"{DIFFERS}; but its query does not determine them: {open_[0]}" if open_ else DIFFERS


def state_difference(
    recomputation: Recomputation, definition: Definition, stream: StreamTable
) -> tuple[Surplus, Surplus]:
    """Stored rows with their hidden columns against the plan that fills them.

    A hash is one of the stored row itself, so it is compared with that: sums of floating-point
    numbers may end in other digits each time.
    """
    version, kept = recomputation.world.version(stream.name), definition.kept
    if kept is None or not version.hidden or not version.hidden_complete:
        return Surplus(0, []), Surplus(0, [])
    columns = (*version.columns, *version.hidden)
    stored = frame(recomputation.world.spark.session, version.reading(), columns)
    if isinstance(kept, ByRows):
        expected = add_all(stored, version.columns, hashed=True)
    else:
        expected = recomputation.planned(kept.full, definition, stream)
    states = kept.state if isinstance(kept, Combine) else ()
    sums = {each.name for each in states if each.combine == "sum"}
    return bag_difference(expected, stored, columns, SHOWN, sums=sums)


def read_directly(
    catalog: CatalogState, stream: StreamTable, frontier: Mapping[TableName, int | None]
) -> dict[TableName, int | None]:
    """Tables to be read as they were read: boundaries, or all if no frontier says what they were."""
    if not stream.options.get("mixed"):
        return {name: snapshot for name, snapshot in frontier.items() if name in catalog.streams}
    inputs = catalog.inputs.get(stream.name, {})
    return {
        name: each.snapshot_id
        for name, each in inputs.items()
        if name not in catalog.views and name != stream.name
    }


def recomputed(
    catalog: CatalogState, name: TableName, direct: Mapping[TableName, int | None]
) -> list[TableName]:
    """The tables whose queries are asked: the table and what it reads, as far as they go."""
    reads = {
        each: [up for up in reads if up not in direct]
        for each, reads in catalog.reads.items()
        if each not in direct
    }
    wanted = closure([name], reads)
    return [each for each in catalog.order([name]) if each in wanted]


def misplaced(
    runtime: Runtime, stream: StreamTable, frontier: Mapping[TableName, int | None]
) -> str | None:
    """Why the table does not stand at the cut it names, as long as that cut is kept."""
    if stream.cut_id is None:
        return None
    with runtime.store.reading() as c:
        if not cuts.is_recorded(c, stream.cut_id):
            return None
        shown = cuts.versions_at(c, stream.cut_id)
    for source, snapshot in sorted(frontier.items()):
        there = shown.get(source)
        if there is None:
            return f"it was computed from {source}, which cut {stream.cut_id} does not show"
        found = there.snapshot_id
        if found is None and there.metadata_location is not None:
            found = runtime.lake.version(source, there.metadata_location).snapshot_id
        if found != snapshot:
            said = f"snapshot {snapshot} of {source}; cut {stream.cut_id} shows {found}"
            return f"it was computed from {said}"
    return None


def check_current(world: CutView, catalog: CatalogState, stream: StreamTable) -> None:
    """The query at the frontier can be asked only as it was when the table was refreshed."""
    if not stream.populated:
        return
    definition = defined(world, stream, component_of(catalog.reads, stream.name))
    if definition.fingerprint == stream.fingerprint:
        return
    if not is_same_text(world, definition, stream, catalog.inputs.get(stream.name, {})):
        notices = stream.name in catalog.lagging(catalog.order([stream.name]))
        raise Refused(
            f"{stream.name}: its query, the columns or views it reads, or the version that reads it "
            "changed since its last refresh",
            hint=f"REFRESH STREAM TABLE {stream.name}{'' if notices else ' FULL'}",
        )


def is_same_text(
    world: CutView, definition: Definition, stream: StreamTable, known: Mapping[TableName, Input]
) -> bool:
    """Whether one of two fingerprints differs only because the query could not be planned."""
    if not is_unplanned(definition.fingerprint) and not is_unplanned(stream.fingerprint):
        return False
    same = stream.basis.token == stream.token and definition.sources <= known.keys()
    return same and not changed_below(world, definition, known)


def defined(world: CutView, stream: StreamTable, component: Members | None = None) -> Definition:
    """The definition for the moment of the last refresh; `component`: the component it is in."""
    moment = stream.options.get("moment")
    at = Moment.parse(moment) if moment else None
    if component is not None:
        return member_definition_leniently(world, stream, component, at)
    return understood(world, stream.name, stream.query, at)


@dataclass(frozen=True)
class Recomputation:
    """Queries from scratch: stream tables and views written out down to the base sources."""

    world: CutView
    catalog: CatalogState
    inputs: Inputs
    anew: Recompute
    frontier: Mapping[TableName, int | None]
    direct: Mapping[TableName, int | None] = field(default_factory=dict)

    def stream(self, stream: StreamTable) -> DataFrame:
        """Where the query leaves open which of tied rows to take, its plan decides, unless the
        stored rows had none."""
        component = component_of(self.catalog.reads, stream.name)
        if component is not None:
            return self.anew.member(stream.name, component, self.inputs, self.bound)
        definition = defined(self.world, stream)
        plan = definition.plan
        if (
            plan is None
            or is_unplanned(stream.fingerprint)
            or not (settles_ties(plan) or is_beyond_spark(stream.query))
        ):
            return self.query(definition.query, definition.moment)
        return self.planned(plan, definition, stream)

    def planned(self, plan: Node, definition: Definition, stream: StreamTable) -> DataFrame:
        """The rows of a plan, which may have columns that the query does not show."""
        names = {name: self.bound(name) for name in definition.sources}

        def name_of(leaf: Scan | Parameter) -> str:
            assert isinstance(leaf, Scan)
            return names[leaf.table]

        bounds = bounds_of([stream], self.anew.runtime.settings)
        session = self.world.spark.session
        recursions = Recursions(session, self.inputs, name_of, bounds, stream.name)
        text = to_sql(recursions.bound(plan), recursions.named(name_of), "spark", hints=False)
        return run_sql(self.world.spark.session, text, labels=self.inputs.labels)

    def query(self, query: str, moment: Moment | None) -> DataFrame:
        self.world.guard(query)
        names = {
            reference: self.bound(self.world.resolve(reference), moment)
            for reference in tables_of(query)
        }
        return run_sql(self.world.spark.session, rebind(query, names), labels=self.inputs.labels)

    def bound(self, name: TableName, moment: Moment | None = None) -> str:
        return self.inputs.add(self.table(name, moment), str(name))

    def table(self, name: TableName, moment: Moment | None) -> DataFrame:
        if name in self.direct:
            return _source(self.world, name, self.direct)
        if name in self.catalog.streams:
            return as_stored(self.stream(self.catalog.streams[name]))
        if name in self.world.views:
            text = self.world.views[name]
            return self.query(pinned(text, moment) if moment else text, moment)
        return _source(self.world, name, self.frontier)


def _source(world: CutView, name: TableName, frontier: Mapping[TableName, int | None]) -> DataFrame:
    version = world.version(name)
    snapshot = frontier.get(name)
    reading = version.reading(snapshot) if snapshot is not None else Reading(())
    return frame(world.spark.session, reading, version.columns)

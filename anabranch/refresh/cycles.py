"""Stream tables that read each other in a cycle: whether they may, and which columns they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from anabranch.catalog.events import UNBOUNDED, Event
from anabranch.catalog.groups import Reads
from anabranch.catalog.streams import StreamTable
from anabranch.cut_view import CutView
from anabranch.errors import NotIncremental, Refused, caret
from anabranch.graph.components import components
from anabranch.graph.order import Cycle, topological
from anabranch.model import Columns, RefreshMode
from anabranch.names import TableName, shown
from anabranch.plan.monotone import Broken, not_monotone, unbounded
from anabranch.plan.nodes import Node
from anabranch.refresh.definition import (
    Definition,
    define,
    fitting,
    given_columns,
    output_columns,
    reach,
)
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.rebuild import readable_columns
from anabranch.runtime import Runtime, Transaction
from anabranch.settings import Settings
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.lower.cycle_columns import settle_columns
from anabranch.sql.lower.locate import locate_operator
from anabranch.sql.lower.recursion import has_distinct_recursion
from anabranch.sql.text.source_text import SourceText
from anabranch.types import Type

Members = frozenset[TableName]


def cyclic_components(reads: Reads) -> list[Members]:
    return [frozenset(part.members) for part in components(reads) if part.cyclic]


def component_of(reads: Reads, name: TableName) -> Members | None:
    return next((component for component in cyclic_components(reads) if name in component), None)


def check_allowed(settings: Settings, reads: Reads, found: Iterable[Members]) -> None:
    """Cycles have to be asked for."""
    if settings.allow_circular:
        return
    for component in found:
        raise Refused(
            f"stream tables read each other in a cycle: {path(reads, component)}",
            hint="SET anabranch.allow_circular = true, or break the cycle",
        )


def path(reads: Reads, component: Members) -> str:
    """One way round: a -> b -> a."""
    inside = {name: [up for up in reads[name] if up in component] for name in sorted(component)}
    try:
        topological(inside)
    except Cycle as cycle:
        return str(cycle)
    raise AssertionError("a cycle has a way round")


def check_member(
    world: CutView, name: TableName, mode: RefreshMode, definition: Definition, component: Members
) -> None:
    """A member has a plan, only gains rows when other members do, and is not recomputed in full."""
    if mode is RefreshMode.FULL:
        raise Refused(
            f"{name} has refresh mode FULL, but is in a cycle with {_others(name, component)}",
            hint="a fixed point is found from changes: use REFRESH MODE AUTO or DIFFERENTIAL",
        )
    if definition.plan is None:
        reasons = "\n".join(f"  {obstacle}" for obstacle in definition.obstacles)
        raise NotIncremental(
            f"{name} cannot be in a cycle with {_others(name, component)}, "
            f"because its query is not incremental:\n{reasons}",
            hint="change the query, or read the part that is not incremental from another table",
        )
    for column in definition.columns:
        if any(part.name == "map" for part in Type.parse(column.type).walk()):
            raise Refused(
                f"{name} cannot be in a cycle: its column {shown(column.name)} is a map, "
                "and maps cannot be compared",
                hint="use map_entries(…)",
            )
    _refuse_recursion(name, definition.query, component)
    for broken in not_monotone(definition.plan, component):
        views = {view: world.views[view] for view in definition.views}
        raise not_monotone_in(name, definition.query, views, definition.sources, broken)


def _refuse_recursion(name: TableName, query: str, component: Members) -> None:
    if has_distinct_recursion(query):
        raise Refused(
            f"{name} cannot be in a cycle with {_others(name, component)}: "
            "its query has a WITH RECURSIVE … UNION of its own",
            hint="make the recursion a stream table of its own, and read that",
        )


def not_monotone_in(
    name: TableName,
    query: str,
    views: Mapping[TableName, str],
    sources: Iterable[TableName],
    broken: Broken,
) -> Refused:
    nothing: Columns = ()
    reach = Reach.of(SourceText(query), dict.fromkeys(sources, nothing), views)
    below = locate_operator(reach, broken.table, broken.operator)
    source = below.source
    line, column = source.position(below.start)
    where = f"in view {source.view}, " if source.view else ""
    error = Refused(
        f"{name} reads {broken.table}, which is in a cycle with it, "
        f"{below.operator.value} ({where}line {line}, column {column})\n"
        f"{caret(source.text, line, column)}",
        hint="in a cycle more rows must never remove rows: "
        "put this into a stream table that reads the cycle from outside",
    )
    error.not_monotone = True
    return error


def _others(name: TableName, component: Members) -> str:
    return ", ".join(str(other) for other in sorted(component - {name})) or "itself"


def _growth_notices(plans: Mapping[TableName, Node], component: Members) -> list[Event]:
    """Rows that go round the cycle and come back twice as many have no fixed point."""
    open_ = {name: tuple(sorted(unbounded(plan, component))) for name, plan in plans.items()}
    return [
        Event(
            min(loop),
            UNBOUNDED,
            f"nothing in the cycle {path(open_, loop)} keeps a row only once: if data goes round "
            "it, counts grow until max_fixpoint_iterations; UNION or DISTINCT would end that",
        )
        for loop in cyclic_components(open_)
    ]


def define_with_component(
    runtime: Runtime, tx: Transaction, state: CatalogState, stream: StreamTable
) -> dict[TableName, Definition]:
    """The definition of a stream table with another query or mode, and of all that are in a cycle
    with it then."""
    sources, views = reach(tx.world, stream.query)
    reads = {**state.reads, stream.name: tuple(sorted(sources | views))}
    component = component_of(reads, stream.name)
    if component is None:
        return {stream.name: define(tx.world, stream.query)}
    if component not in cyclic_components(state.reads):
        check_allowed(runtime.settings, reads, [component])
    queries = {name: state.streams[name].query for name in sorted(component - {stream.name})}
    return define_again(tx, {**queries, stream.name: stream.query}, redefined=stream.name)


def check_component(
    world: CutView, state: CatalogState, stream: StreamTable, found: Mapping[TableName, Definition]
) -> list[Event]:
    """Whether a table may close a cycle, or stay in it; what to say about it."""
    if stream.name not in found[stream.name].reads and len(found) == 1:
        return []
    for name, definition in found.items():
        mode = stream.refresh_mode if name == stream.name else state.streams[name].refresh_mode
        check_member(world, name, mode, definition, frozenset(found))
    return growth(found)


def growth(found: Mapping[TableName, Definition]) -> list[Event]:
    plans = {name: each.plan for name, each in found.items() if each.plan is not None}
    return _growth_notices(plans, frozenset(found))


# -- columns ---------------------------------------------------------------------------------------


def define_again(
    tx: Transaction, queries: Mapping[TableName, str], redefined: TableName | None = None
) -> dict[TableName, Definition]:
    """The members of a cycle that exists by their queries alone, as if they were made now.

    The columns that are stored have no say: a struct that got a field below the cycle, or a query that
    names its columns otherwise, could not be resolved against them.  Nothing stays staged.
    """
    stored = readable_columns(tx, queries)
    before = {name: tx.stage.changes.get(name) for name in queries}
    try:
        for name in queries:
            if tx.stage.exists(name):
                tx.stage.drop(name)
        return define_component(tx, queries, stored, redefined)
    finally:
        tx.stage.put_back(before)


def define_component(
    tx: Transaction,
    queries: Mapping[TableName, str],
    stored: Mapping[TableName, Columns] | None = None,
    redefined: TableName | None = None,
) -> dict[TableName, Definition]:
    """Make the tables of a cycle: their columns are those of the branches that it starts from,
    widened until all queries agree with them.

    `stored` are the columns of tables that exist, for a cycle that starts from nothing else; of those
    all but the `redefined` one have the queries that they had.
    """
    for name, query in queries.items():
        _refuse_recursion(name, query, frozenset(queries))
    tables = StagedTables(tx, queries, {*(stored or ())} - {redefined})
    settle_columns(queries, tables, stored)
    return tables.definitions


@dataclass
class StagedTables:
    """The tables of a cycle as they are staged; those in `kept` have the queries that they had."""

    tx: Transaction
    queries: Mapping[TableName, str]
    kept: Collection[TableName]
    definitions: dict[TableName, Definition] = field(default_factory=dict)

    def parts(self, key: TableName) -> tuple[str, ...]:
        return key.parts

    def columns(self, key: TableName, query: str) -> Columns:
        world, whole = self.tx.world, self.queries[key]
        with fitting(world, key, whole) if key in self.kept else nullcontext():
            if query != whole:
                return given_columns(world, query)
            self.definitions[key] = define(world, query)
        return self.definitions[key].columns

    def put(self, key: TableName, columns: Columns) -> Columns:
        kept = output_columns(columns)
        if self.tx.stage.exists(key):
            self.tx.stage.drop(key)
        self.tx.stage.create(key, kept)
        return kept

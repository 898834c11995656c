"""What the decision is about: changes of the sources, stored rows, what earlier refreshes have cost.

How many rows each way of a refresh would read is told by plans and metadata: no row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.catalog.streams import StreamTable
from anabranch.cut_view import CutView
from anabranch.delta.maintenance import ByGroups, ByRows, Combine, Replace
from anabranch.errors import BaseExpired, FileMissing
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, Delta
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Parameter, Version
from anabranch.plan.statistics import NONE, Limits
from anabranch.plan.walk import scans_of
from anabranch.refresh.cost import Work
from anabranch.refresh.cost_history import CostHistory, last_runs, recall
from anabranch.refresh.decide import DecisionInputs, Reason
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.sources import Sources, plain
from anabranch.runtime import Runtime, Transaction

if TYPE_CHECKING:
    from anabranch.refresh.definition import Definition
    from anabranch.refresh.maintained import MaintainedTable
    from anabranch.refresh.members import Members, MemberTable


@dataclass(frozen=True)
class Outside:
    """What a component reads from outside: one state before and one after, the same for all members.

    `apart` names a source that the members have read at different versions.
    """

    sources: Sources
    apart: TableName | None = None


def gather(
    world: CutView, state: CatalogState, definitions: Mapping[TableName, Definition]
) -> Outside:
    """The sources of all members, and what changed in them since the last refresh."""
    read = {source for each in definitions.values() for source in each.sources}
    names = read - set(definitions)
    versions = {name: world.version(name) for name in sorted(names)}
    before: dict[TableName, int | None] = {}
    apart = None
    for member, definition in definitions.items():
        known = state.inputs.get(member, {})
        for name in sorted(definition.sources & names & known.keys()):
            snapshot = known[name].snapshot_id
            apart = name if before.setdefault(name, snapshot) != snapshot else apart
    return Outside(changes(versions, before), apart)


def only_now(world: CutView, names: Collection[TableName]) -> Outside:
    """Sources as they are: what changed in them does not matter."""
    return Outside(Sources({name: world.version(name) for name in sorted(names)}, {}, {}))


def changes(
    versions: Mapping[TableName, TableVersion], before: Mapping[TableName, int | None]
) -> Sources:
    """What came and went in tables since the snapshots before; of others nothing is known."""
    deltas: dict[TableName, Delta] = {}
    expired = lost = None
    for name, version in sorted(versions.items()):
        if name not in before or version.snapshot_id == before[name]:
            continue
        try:
            delta = version.delta(before[name])
        except BaseExpired:
            expired, lost = str(name), None
            continue
        except FileMissing as error:
            expired, lost = str(name), error.message.splitlines()[0]
            continue
        if not delta.empty:
            deltas[name] = delta
    return Sources(versions, before, deltas, expired, lost)


def check_readable_now(sources: Sources) -> None:
    """Files that only tell what sources were can be done without; those that tell what they are can
    not, and then that is the error, and no base that has expired."""
    for version in sources.versions.values():
        version.state(version.snapshot_id)


def remember(runtime: Runtime, tx: Transaction | None, stream: StreamTable) -> CostHistory:
    """From what was read with the lease, where there is one."""
    if not stream.populated:
        return CostHistory()
    if tx is not None and tx.leased is not None and stream.name in tx.leased.runs:
        return recall(tx.leased.runs[stream.name])
    with runtime.store.reading() as c:
        return recall(last_runs(c, [stream.name])[stream.name])


def decision_inputs(
    runtime: Runtime,
    world: CutView,
    state: CatalogState,
    members: Members,
    outside: Outside,
    history: CostHistory | None = None,
) -> DecisionInputs:
    """All that the decision looks at; `history` is that of a table alone, None for a cycle."""
    found = replace(observed(members, outside.sources, cyclic=history is None), apart=outside.apart)
    if history is None:
        unplanned = (name for name, each in members.items() if each.rule is None)
        return replace(found, unplanned=next(unplanned, None))
    (member,) = members.values()
    return _of_table(runtime, world, state, member, outside.sources, history, found)


def observed(
    members: Mapping[TableName, MaintainedTable], sources: Sources, *, cyclic: bool = False
) -> DecisionInputs:
    """What there is to see of maintained tables of any kind, and of what they are computed from."""
    return DecisionInputs(
        members=tuple(members),
        kind=next(iter(members.values())).kind,
        modes={name: each.mode for name, each in members.items()},
        cyclic=cyclic,
        unfilled=tuple(name for name, each in members.items() if not each.populated),
        redefined=_first(members, lambda each: each.redefined, cyclic=cyclic),
        tampered=_first(members, lambda each: each.tampered, cyclic=cyclic),
        expired=sources.expired,
        lost=sources.lost,
        changed=bool(sources.deltas),
        source_rows=sources.rows,
        rows_before=rows_before(sources),
        deleted_rows=deleted_rows(sources),
        from_changes=Work(sources.delta_rows),
    )


def _of_table(
    runtime: Runtime,
    world: CutView,
    state: CatalogState,
    member: MemberTable,
    sources: Sources,
    history: CostHistory,
    shared: DecisionInputs,
) -> DecisionInputs:
    """What there is to choose by where both ways are open."""
    definition, stored = member.definition, world.version(member.name)
    return replace(
        shared,
        obstacles=tuple(dict.fromkeys(obstacle.code for obstacle in definition.obstacles)),
        always=bool(definition.options.get("always")),
        stored_rows=stored.rows,
        from_changes=from_changes(definition, sources, stored.rows),
        in_full=in_full(definition, sources),
        costs=history.costs,
        readers_ms=round(readers(state, member.name) * Work(2 * stored.rows).ms),
        usual=history.usual,
        overdue=history.overdue,
        threshold=runtime.settings.full_refresh_threshold,
    )


def _first(
    members: Mapping[TableName, MaintainedTable],
    why: Callable[[MaintainedTable], Reason | None],
    *,
    cyclic: bool,
) -> Reason | None:
    """The first member's reason; in a cycle it names the member."""
    for name, member in members.items():
        if (found := why(member)) is not None:
            return replace(found, text=f"{name}: {found.text}") if cyclic else found
    return None


def readers(state: CatalogState, name: TableName) -> int:
    """Stream tables that read this one: rows that are all replaced are all changes to them."""
    return sum(name in reads for reader, reads in state.reads.items() if reader in state.streams)


def deleted_rows(sources: Sources) -> int:
    return sum(reading.rows for delta in sources.deltas.values() for reading in delta.minus)


def rows_before(sources: Sources) -> int:
    """Rows that the sources had before the change."""
    moved = [
        sign * reading.rows
        for delta in sources.deltas.values()
        for sign, readings in ((1, delta.minus), (-1, delta.plus))
        for reading in readings
    ]
    return sources.rows + sum(moved)


# -- how many rows each way would read ------------------------------------------------------------


def in_full(definition: Definition, sources: Sources) -> Work:
    """Every scan of the query; a query that was not understood reads each source once."""
    if definition.kept is None:
        return Work(0, sources.rows)
    return Work(0, scanned([(definition.kept.full, NONE)], sources))


def from_changes(definition: Definition, sources: Sources, stored_rows: int) -> Work:
    """The delta, the stored rows it is laid upon, and what its plan reads of the sources again."""
    kept = definition.kept
    if kept is None or not sources.deltas:
        return Work(sources.delta_rows, stored_rows)
    read = scanned(plans(definition, sources, stored_rows), sources)
    if isinstance(kept, ByRows) and kept.monotone and sources.insert_only:
        stored_rows = 0  # the change is added as it is
    return Work(sources.delta_rows, stored_rows + read)


Planned = tuple[Node, Limits]  # a plan, and what is known of the relation that is given to it


def plans(definition: Definition, sources: Sources, stored_rows: int) -> Iterator[Planned]:
    """What is run to find the change of the stored rows."""
    kept, changed = definition.kept, frozenset(sources.deltas)
    if isinstance(kept, ByRows):
        change = kept.delta(changed)
    elif isinstance(kept, Combine):
        change = kept.change(changed)
        lost = not sources.insert_only and any(state.deleted for state in kept.state)
        if change is not None and lost:
            yield kept.rescan(_touched(kept)), sources.ranges(change)
    else:
        assert isinstance(kept, Replace)
        change = from_stored(kept, definition.columns, sources, stored_rows)
        if change is None:
            change = kept.touched(changed)
            if change is not None:
                keys = _touched(kept) if kept.keys else None
                yield kept.recompute(keys), sources.ranges(change)
    if change is not None:
        yield change, NONE


def from_stored(kept: Replace, columns: Columns, sources: Sources, stored_rows: int) -> Node | None:
    """The first rows from those stored, where that takes reading less than all anew.  Equal rows are
    counted: their columns must be such that equal values are the same."""
    if kept.first is None or plain(columns) != {each.name for each in columns}:
        return None
    whole = stored_rows < (kept.first.limit or 0)
    node = kept.from_stored(frozenset(sources.deltas), complete=whole)
    if node is None:
        return None
    anew = scanned([(kept.recompute(None), NONE)], sources)
    return node if scanned([(node, NONE)], sources) < anew else None


ROWS_PER_SCAN = 50_000  # planning and starting a scan takes as long as reading so many rows


def scanned(planned: Iterable[Planned], sources: Sources) -> int:
    """Rows that are read of the sources; a plan of many scans costs something without any rows.
    What is asked of a large table in several places is read in few scans."""
    scans = [scan for node, limits in planned for scan in scans_of(sources.planned(node, limits))]
    rows = sum(sources.rows_of(scan) for scan in scans if scan.version is not Version.DELTA)
    return rows + ROWS_PER_SCAN * max(len(scans) - 1, 0)


def _touched(kept: ByGroups) -> Parameter:
    return Parameter("keys", tuple(key.name for key in kept.keys))

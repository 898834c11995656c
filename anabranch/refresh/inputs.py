"""What a refresh finds: what changed in the sources, the stored rows, and what refreshes have cost."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.catalog.streams import Input, StreamTable
from anabranch.errors import BaseExpired, FileMissing
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, Delta
from anabranch.names import TableName
from anabranch.refresh import work
from anabranch.refresh.cost import Work
from anabranch.refresh.cost_history import CostHistory, last_runs, recall
from anabranch.refresh.decide import DecisionInputs
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.table import hidden_of
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from anabranch.world import World


def gather(
    world: World, state: CatalogState, stream: StreamTable, definition: Definition
) -> Sources:
    known = state.inputs.get(stream.name, {})
    versions = {name: world.version(name) for name in definition.sources}
    before = {name: known[name].snapshot_id for name in versions if name in known}
    return changes(versions, before)


def changes(
    versions: Mapping[TableName, TableVersion], before: Mapping[TableName, int | None]
) -> Sources:
    """What came and went in tables since the snapshots before; of others nothing is known."""
    deltas: dict[TableName, Delta] = {}
    expired = None
    for name, version in sorted(versions.items()):
        if name not in before or version.snapshot_id == before[name]:
            continue
        try:
            delta = version.delta(before[name])
        except (BaseExpired, FileMissing):
            expired = str(name)
            continue
        if not delta.empty:
            deltas[name] = delta
    return Sources(versions, before, deltas, expired)


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
    world: World,
    state: CatalogState,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    past: CostHistory,
) -> DecisionInputs:
    """All that the decision looks at, but for a definition that changed."""
    stored = world.version(stream.name)
    own = state.inputs.get(stream.name, {}).get(stream.name)
    return DecisionInputs(
        table=str(stream.name),
        mode=stream.refresh_mode,
        populated=stream.populated,
        tampered=tampered(stored, hidden_of(stream, definition), own),
        obstacles=tuple(dict.fromkeys(obstacle.code for obstacle in definition.obstacles)),
        expired=sources.expired,
        always=bool(definition.options.get("always")),
        changed=bool(sources.deltas),
        source_rows=sources.rows,
        stored_rows=stored.rows,
        from_changes=work.from_changes(definition, sources, stored.rows),
        in_full=work.in_full(definition, sources),
        costs=past.costs,
        readers_ms=round(readers(state, stream.name) * Work(2 * stored.rows).ms),
        usual=past.usual,
        overdue=past.overdue,
        threshold=runtime.settings.full_refresh_threshold,
    )


def readers(state: CatalogState, name: TableName) -> int:
    """Stream tables that read this one: rows that are all replaced are all changes to them."""
    return sum(name in reads for reader, reads in state.reads.items() if reader in state.streams)


def tampered(stored: TableVersion, hidden: Columns, own: Input | None) -> str | None:
    """Whether somebody else wrote to the stream table since our last refresh."""
    if not stored.ours or not same_rows(stored, own):
        return "another program wrote to the table"
    if hidden and not stored.hidden_complete:
        return "files of another program lack the hidden columns"
    if stored.snapshot_id is not None and not {*stored.hidden} >= {*hidden}:
        return "the stored rows lack the hidden columns"
    return None


def same_rows(stored: TableVersion, own: Input | None) -> bool:
    """Whether nothing but upkeep happened since; a rollback shows an older snapshot of ours."""
    if own is None or own.snapshot_id == stored.snapshot_id:
        return True
    try:
        return stored.delta(own.snapshot_id).empty
    except BaseExpired:
        return False

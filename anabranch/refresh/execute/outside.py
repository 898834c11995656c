"""What a component reads from outside: one state before and one after, the same for all members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.names import TableName
from anabranch.plan.nodes import Scan, Version
from anabranch.refresh.definition import Definition
from anabranch.refresh.execute.scans import Scans
from anabranch.refresh.inputs import changes
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.sources import Sources
from anabranch.spark.rounds import netted
from anabranch.world import World


@dataclass(frozen=True)
class Outside:
    """`apart` names a source that the members have read at different versions."""

    sources: Sources
    apart: TableName | None = None


def outside(
    world: World, state: CatalogState, definitions: Mapping[TableName, Definition]
) -> Outside:
    """The sources of all members, and what changed in them since the last refresh."""
    names = {each for found in definitions.values() for each in found.sources} - set(definitions)
    versions = {name: world.version(name) for name in sorted(names)}
    before: dict[TableName, int | None] = {}
    apart = None
    for member, definition in definitions.items():
        known = state.inputs.get(member, {})
        for name in sorted(definition.sources & names & known.keys()):
            snapshot = known[name].snapshot_id
            apart = name if before.setdefault(name, snapshot) != snapshot else apart
    return Outside(changes(versions, before), apart)


@dataclass
class SourceViews:
    """Sources as temporary views; of a change only what it comes to in the columns that are read."""

    scans: Scans
    names: dict[tuple[TableName, tuple[str, ...]], str] = field(default_factory=dict)

    def view(self, scan: Scan) -> str:
        delta = self.scans.sources.deltas.get(scan.table)
        if scan.version is not Version.DELTA or delta is None or not delta.minus:
            return self.scans.view(scan)
        key = (scan.table, scan.names)
        if key not in self.names:
            whole = self.scans.read(scan.table, Version.DELTA, ())
            self.names[key] = self.scans.inputs.keep(netted(whole, scan.names), str(scan.table))
        return self.names[key]


def deleted_rows(sources: Sources, names: Sequence[TableName]) -> int:
    deltas = [sources.deltas[name] for name in names if name in sources.deltas]
    return sum(reading.rows for delta in deltas for reading in delta.minus)


def rows_before(sources: Sources) -> int:
    """Rows that the sources had before the change."""
    moved = [
        sign * reading.rows
        for delta in sources.deltas.values()
        for sign, readings in ((1, delta.minus), (-1, delta.plus))
        for reading in readings
    ]
    return sources.rows + sum(moved)

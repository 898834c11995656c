"""Which source columns the columns of a stream table come from, directly or down to source tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.lineage import lineage_of, set_lineage
from anabranch.errors import UnknownName
from anabranch.names import TableName
from anabranch.refresh.definition import lineage as found_lineage
from anabranch.refresh.observe import observe_now
from anabranch.refresh.publish_sets import world_of
from anabranch.refresh.run import resolve
from anabranch.runtime import Runtime
from anabranch.sql.analyze.columns import Ref
from anabranch.sql.analyze.lineage import COMPUTED, DECIDES, Lineage

Via = tuple[TableName, ...]


@dataclass
class Lineages:
    """Those that are kept in the catalog; of older definitions, found out from their queries."""

    runtime: Runtime
    known: dict[TableName, Lineage] = field(default_factory=dict)
    missing: list[TableName] = field(default_factory=list)  # in the catalog

    def __post_init__(self) -> None:
        self.state = observe_now(self.runtime)
        with self.runtime.store.reading() as c:
            kept = lineage_of(c, self.state.streams)
        world = world_of(self.runtime, self.state)
        for name, record in kept.items():
            if record is not None:
                self.known[name] = Lineage.read(record)
            elif name in world.pointers:
                query, own = self.state.streams[name].query, world.version(name).columns
                self.known[name] = found_lineage(world, query, own)
                self.missing.append(name)

    def rows(
        self, name: TableName, column: str | None = None, *, to_sources: bool = False
    ) -> Iterator[dict[str, Any]]:
        lineage = self.known.get(name, Lineage())
        names = [each for each, _ in lineage.columns]
        if column is not None and column.lower() not in map(str.lower, names):
            raise UnknownName(f"{name} has no column {column}", name=column, known=names)
        for each in names:
            if column is not None and each.lower() != column.lower():
                continue
            flows = self.below(name, each) if to_sources else self.direct(name, each)
            for (kind, ref), via in flows.items():
                yield {
                    "table": str(name),
                    "column": each,
                    "source_table": str(ref.table),
                    "source_column": ref.column,
                    "kind": kind,
                    "via": [str(step) for step in via],
                }

    def direct(self, name: TableName, column: str) -> dict[tuple[str, Ref], Via]:
        return dict.fromkeys(self.known[name].sources(column), ())

    def below(self, name: TableName, column: str) -> dict[tuple[str, Ref], Via]:
        """Down to tables that are no stream tables; `via` is a shortest way.

        What decides about rows on the way only decides, unless another way computes from it.
        """
        reached: dict[tuple[str, Ref], Via] = {}
        state: set[tuple[str, Ref]] = set()
        todo: list[tuple[str, Ref, Via]] = [(COMPUTED, Ref(name, column), ())]
        for kind, at, via in todo:
            for own, ref in self.known[at.table].sources(at.column):
                both = COMPUTED if (kind, own) == (COMPUTED, COMPUTED) else DECIDES
                if (both, ref) in state:
                    continue
                state.add((both, ref))
                if ref.table in self.known:
                    todo.append((both, ref, (*via, ref.table)))
                else:
                    reached[both, ref] = via
        return {
            (kind, ref): via
            for (kind, ref), via in sorted(reached.items(), key=lambda each: each[0])
            if kind == COMPUTED or (COMPUTED, ref) not in reached
        }


def lineage(
    runtime: Runtime, name: TableName, column: str | None = None, *, to_sources: bool = False
) -> list[dict[str, Any]]:
    """One row for each source column of each column, or of one column."""
    found = resolve(runtime, name)
    return list(Lineages(runtime).rows(found, column, to_sources=to_sources))


def fill_in(runtime: Runtime) -> None:
    """Note the lineage of stream tables that were declared before it was kept."""
    found = Lineages(runtime)
    if found.missing:
        with runtime.store.writing() as c:
            set_lineage(c, {name: found.known[name].record() for name in found.missing})


def explained(lineage: Lineage) -> list[str]:
    """For `explain`: what each column is computed from, and what decides about rows."""
    lines = ["columns are computed from:"]
    for name, flow in lineage.columns:
        only = sorted(flow.decides - lineage.decides - flow.computed)
        inputs = ", ".join(f"{each.table}.{each.column}" for each in sorted(flow.computed))
        also = f"; over rows chosen by {_shown(only)}" if only else ""
        lines.append(f"  {name}: {inputs or 'no column'}{also}")
    if lineage.decides:
        lines.append(f"rows are decided by: {_shown(sorted(lineage.decides))}")
    return lines


def _shown(refs: list[Ref]) -> str:
    return ", ".join(f"{each.table}.{each.column}" for each in refs)

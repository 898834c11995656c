"""Plans as Spark's frames over the sources of a refresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.cache import cached
from anabranch.model import ColumnRanges, FixpointBounds, Reading
from anabranch.names import TableName
from anabranch.plan.nodes import Node, Parameter, Scan, Version
from anabranch.plan.rules.push_ranges import inside
from anabranch.plan.shared import shared, worth_materializing
from anabranch.plan.statistics import NONE, Limits
from anabranch.refresh.execute.recursion import Recursions
from anabranch.refresh.sources import Sources
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.scan import delta_frame, frame
from anabranch.sql.render import NameOf, to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Tables that read the same source read the same files, and what is read as it is now is read as it
# was before by the next refresh.  Files never change: what Spark found out about them is kept, up to
# so many of them.
MOST_FILES = 1_000
delta_once = cached(64)(delta_frame)
frame_once = cached(64)(frame)


@dataclass
class Scans:
    """Scans of a plan as temporary views, each read at most once per statement."""

    session: SparkSession
    sources: Sources
    inputs: Inputs
    table: TableName  # whose query it is
    bounds: FixpointBounds  # of its recursions
    hints: bool
    afresh: bool = False  # plans look at the sources as they are now, and not at what changed
    names: dict[object, str] = field(default_factory=dict)
    parts: dict[Node, str] = field(default_factory=dict)  # computed once, though used more often

    def run(self, node: Node, bound: DataFrame | None = None, limits: Limits = NONE) -> DataFrame:
        """The frame of a plan; `bound` are the rows of its Parameter, `limits` are those of its
        columns."""
        node = self.sources.planned(self.recursions.bound(node), limits)

        def name_of(leaf: Scan | Parameter) -> str:
            if isinstance(leaf, Parameter):
                assert bound is not None
                return self.inputs.add(bound, leaf.name)
            return self.view(leaf)

        named = self.recursions.named(name_of)
        for part in shared(node, self.parts):
            if worth_materializing(part, self.parts):
                kept = self.inputs.keep(self.frame(part, named), "a part of the change")
                self.parts[part] = kept
        return self.frame(node, named)

    @cached_property
    def recursions(self) -> Recursions:
        deltas = {} if self.afresh else self.sources.deltas
        return Recursions(
            self.session,
            self.inputs,
            self.view,
            self.bounds,
            self.table,
            changed=frozenset(deltas),
            losing=frozenset(name for name, delta in deltas.items() if delta.minus),
        )

    def frame(self, node: Node, name_of: NameOf) -> DataFrame:
        text = to_sql(node, name_of, "spark", hints=self.hints, materialized=self.parts)
        return run_sql(self.session, text, labels=self.inputs.labels)

    def view(self, scan: Scan) -> str:
        now = Version.AFTER if scan.version is Version.NOW else scan.version
        within = self.sources.within(scan)
        key = (scan.table, now, within)
        if key not in self.names:
            rows = self.read(scan.table, now, within)
            self.names[key] = self.inputs.add(rows, str(scan.table))
        return self.names[key]

    def read(
        self, table: TableName, version: Version, within: tuple[ColumnRanges, ...]
    ) -> DataFrame:
        current = self.sources.versions[table]
        if version is Version.DELTA:
            return delta_once(self.session, self.sources.deltas[table], current.columns)
        snapshot = current.snapshot_id if version is Version.AFTER else self.sources.before[table]
        reading = current.reading(snapshot, within=within) if snapshot is not None else Reading(())
        few = len(reading.files) + len(reading.skip) <= MOST_FILES
        rows = (frame_once if few else frame)(self.session, reading, current.columns)
        return rows.filter(inside(within).text) if within else rows

"""What the catalog knows at one moment, and which stream tables are out of date: no Spark, no files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.catalog import streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import Input, StreamTable
from anabranch.graph.order import closure, topological
from anabranch.lake.lake import Lake
from anabranch.model import Status
from anabranch.names import TableName


@dataclass(frozen=True)
class Look:
    """One consistent look at all catalog rows a refresh needs."""

    pointers: Mapping[TableName, str]
    views: Mapping[TableName, str]
    streams: Mapping[TableName, StreamTable]
    reads: Mapping[TableName, tuple[TableName, ...]]  # stream table -> tables and views it reads
    inputs: Mapping[TableName, Mapping[TableName, Input]]
    frontiers: Mapping[TableName, Mapping[TableName, int | None]]

    def order(self, names: Iterable[TableName] | None = None) -> list[TableName]:
        """Stream tables, upstreams first: all of them, or the given ones with their upstreams."""
        wanted = set(self.streams) if names is None else closure(names, self.reads)
        return [name for name in topological(self.reads) if name in wanted and name in self.streams]

    def mark(self, source: TableName) -> str | None:
        """What stands for the present state of a source: equal marks mean nothing changed."""
        if source in self.views:
            return view_mark(self.views[source])
        return self.pointers.get(source)

    def stale(self, order: Iterable[TableName]) -> list[TableName]:
        """Those that are not what their query would give, as far as marks can tell."""
        found: dict[TableName, None] = {}
        for name in order:
            known = self.inputs.get(name, {})
            if (
                not self.streams[name].populated
                or self.streams[name].status is Status.ERROR  # what was in the way may be gone
                or self.streams[name].options.get("always")
                or not known
                or any(
                    each.metadata_location != self.mark(source) for source, each in known.items()
                )
                or any(upstream in found for upstream in self.reads.get(name, ()))
            ):
                found[name] = None
        return list(found)


def look(c: Connection, lake: Lake) -> Look:
    known = streams.all_streams(c)
    nothing: dict[TableName, tuple[TableName, ...]] = dict.fromkeys(known, ())
    return Look(
        pointers=lake.pointers(c),
        views=view_rows.all_views(c),
        streams=known,
        reads=nothing | streams.dependencies(c),  # a query may read no table at all
        inputs=streams.inputs(c),
        frontiers=streams.frontiers(c),
    )


def view_mark(text: str) -> str:
    return "view:" + hashlib.sha256(text.encode()).hexdigest()

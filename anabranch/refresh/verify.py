"""Prove that a stream table equals its query: recompute it at its frontier and compare the bags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.engine.compare import bag_difference
from anabranch.engine.query import Inputs, run_sql
from anabranch.engine.scan import frame
from anabranch.errors import Refused, UnknownName, UserError
from anabranch.model import Reading
from anabranch.names import TableName
from anabranch.refresh.look import Look, look
from anabranch.refresh.run import alike
from anabranch.runtime import Runtime
from anabranch.sql.tables import rebind, tables_of
from anabranch.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 20  # differing rows that are named


def verify(runtime: Runtime, name: TableName) -> dict[str, Any]:
    """Missing rows are in the query's result only, unexpected ones in the table only."""
    with runtime.store.reading() as c:
        seen = look(c, runtime.lake)
    world = World(runtime.lake, runtime.spark, seen.pointers, seen.views)
    found = alike(name, seen.streams)
    if found is None:
        if world.find(name) is not None:
            raise UserError(f"{name} is not a stream table", hint="only stream tables have a query")
        known = [str(each) for each in seen.streams]
        raise UnknownName(f"there is no stream table {name}", name=str(name), known=known)
    name, stream = found, seen.streams[found]
    if not stream.populated:
        raise Refused(f"{name} has not been filled yet", hint=f"REFRESH STREAM TABLE {name}")
    frontier = seen.frontiers.get(name, {})  # a query may read no table at all
    stored = world.table(name)
    with Inputs(runtime.spark.session) as inputs, runtime.spark.tuned(10_000_000):
        expected = _recompute(world, seen, inputs, stream.query, frontier)
        columns = world.version(name).columns
        missing, unexpected = bag_difference(expected, stored, columns, SHOWN)
    return {
        "table": str(name),
        "equal": not missing.total and not unexpected.total,
        "missing": missing.rows,
        "unexpected": unexpected.rows,
        "missing_rows": missing.total,
        "unexpected_rows": unexpected.total,
        "frontier": {str(source): snapshot for source, snapshot in sorted(frontier.items())},
    }


def _recompute(
    world: World,
    seen: Look,
    inputs: Inputs,
    query: str,
    frontier: Mapping[TableName, int | None],
) -> DataFrame:
    """The query from scratch: stream tables and views written out down to the base sources."""
    names = {}
    for reference in tables_of(query):
        found = world.resolve(reference)
        if found in seen.streams:
            part = _recompute(world, seen, inputs, seen.streams[found].query, frontier)
        elif found in world.views:
            part = _recompute(world, seen, inputs, world.views[found], frontier)
        else:
            part = _source(world, found, frontier)
        names[reference] = inputs.add(part, str(found))
    return run_sql(world.spark.session, rebind(query, names), labels=inputs.labels)


def _source(world: World, name: TableName, frontier: Mapping[TableName, int | None]) -> DataFrame:
    version = world.version(name)
    snapshot = frontier.get(name)
    reading = version.reading(snapshot) if snapshot is not None else Reading(())
    return frame(world.spark.session, reading, version.columns)

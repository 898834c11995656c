"""Stored groups brought up to date, as frames for `write`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.errors import INTERNAL
from anabranch.engine.identity import canonical, same_key
from anabranch.engine.merge import Stored, difference, kept, names, quoted
from anabranch.engine.scan import Among
from anabranch.engine.types import FILE, POSITION, parse_type
from anabranch.engine.write import OP
from anabranch.model import Columns, Op
from anabranch.names import quote

OLD, NEW = "_ab_old", "_ab_new"
ROWS = "_ab_n"

_COMBINE: dict[str, Callable[[SparkColumn], SparkColumn]] = {
    "sum": F.sum,
    "min": F.min,
    "max": F.max,
}


@dataclass(frozen=True)
class State:
    """A hidden column of a group; `deleted` names the change's column with the deleted extremum."""

    name: str
    type: str
    combine: str  # sum, min or max
    deleted: str | None = None


@dataclass(frozen=True)
class Groups:
    """How a table of groups is kept: no keys means one row that never disappears.

    `outputs` gives every visible column as Spark SQL over the names of keys and state.
    """

    keys: tuple[str, ...]
    state: tuple[State, ...]
    outputs: tuple[tuple[str, str], ...]

    @property
    def extrema(self) -> list[State]:
        return [state for state in self.state if state.deleted is not None]


def combine_groups(
    stored: Stored,
    change: DataFrame,
    columns: Columns,
    groups: Groups,
    *,
    rewrite: bool,
    rescan: Callable[[DataFrame], DataFrame] | None = None,
    broadcast: bool = True,
) -> DataFrame:
    """new state = stored state ⊕ change, per key; `columns` are all that is stored.

    A group without rows disappears; one with fewer than none is a bug and stops the job.  Where a
    deleted value reaches the extremum, the state of `rescan(keys)` counts.
    """
    # A table that is rewritten goes through whole; others only where touched.
    among = None if rewrite else having(change, groups.keys, broadcast)
    old = stored(names(columns), among)
    merged = combine(old, change, columns, groups)
    if rescan is not None and groups.extrema:
        merged = rescanned(merged, groups, rescan)
    return emit(merged, columns, groups, rewrite)


def replace_groups(
    stored: Stored,
    touched: DataFrame,
    recompute: Callable[[DataFrame], DataFrame],
    columns: Columns,
    keys: Sequence[str],
    *,
    rewrite: bool,
    broadcast: bool = True,
) -> DataFrame:
    """Rows of the touched keys are exchanged for `recompute(touched)`; equal ones stay."""
    old = stored(names(columns), having(touched, keys, broadcast))
    changed = difference(old, recompute(touched), columns, rewrite=rewrite)
    if not rewrite or not keys:
        return changed
    others = stored(names(columns), having(touched, keys, broadcast, "left_anti"))
    return changed.unionByName(kept(others, names(columns)))


def having(
    change: DataFrame, keys: Sequence[str], broadcast: bool, how: str = "left_semi"
) -> Among | None:
    """Leaves the rows whose key is in the change (or is not: left_anti); without keys, all."""
    if not keys:
        return None
    aliases = [f"_ab_t{at}" for at in range(len(keys))]
    pairs = zip(keys, aliases, strict=True)
    touched = change.select(*(F.col(quote(key)).alias(name) for key, name in pairs))
    touched = F.broadcast(touched) if broadcast else touched
    met = same_key([F.col(quote(key)) for key in keys], [F.col(name) for name in aliases])
    return lambda rows: rows.join(touched, met, how)


def combine(touched: DataFrame, change: DataFrame, columns: Columns, groups: Groups) -> DataFrame:
    """One line per touched group: keys, new state, deleted extrema, and the old row if any."""
    types = {column.name: parse_type(column.type) for column in columns}
    keys, states = list(groups.keys), [state.name for state in groups.state]
    deleted = [state.deleted for state in groups.extrema if state.deleted]
    old = F.struct(*quoted(names(columns)), FILE.name, POSITION.name).alias(OLD)
    before = touched.select(*quoted([*keys, *states]), old)
    after = change.select(
        *(F.col(quote(key)).cast(types[key]).alias(key) for key in keys),
        *(
            F.col(state.name).cast(parse_type(state.type)).alias(state.name)
            for state in groups.state
        ),
        *deleted,
    )
    both = before.unionByName(after, allowMissingColumns=True)
    totals = [
        _COMBINE[state.combine](F.col(state.name)).cast(parse_type(state.type)).alias(state.name)
        for state in groups.state
    ]
    reached = [
        _COMBINE[state.combine](F.col(state.deleted)).alias(state.deleted)
        for state in groups.extrema
        if state.deleted
    ]
    row = F.first(OLD, ignorenulls=True).alias(OLD)
    return both.groupBy(*quoted(keys)).agg(*totals, *reached, row)


def rescanned(
    merged: DataFrame, groups: Groups, rescan: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Groups whose extremum may have been deleted take their extrema from the source."""
    doubtful = merged.select("*", doubt(groups).alias("_ab_doubt"))
    wanted = doubtful.filter("_ab_doubt").select(*quoted(groups.keys))
    keys = [f"_ab_t{at}" for at in range(len(groups.keys))]
    states = {state.name: f"_ab_fresh_{at}" for at, state in enumerate(groups.state)}
    fresh = rescan(
        wanted if groups.keys else doubtful.filter("_ab_doubt").select(F.lit(1).alias("_ab_any"))
    )
    fresh = fresh.select(
        *(F.col(quote(key)).alias(name) for key, name in zip(groups.keys, keys, strict=True)),
        *(F.col(state).alias(name) for state, name in states.items()),
    )
    met = F.col("_ab_doubt") & same_key(
        [F.col(quote(key)) for key in groups.keys], [F.col(name) for name in keys]
    )
    joined = doubtful.join(fresh, met, "left")
    agrees = F.col(states[ROWS]).eqNullSafe(F.col(ROWS))
    wrong = F.raise_error(F.lit(f"{INTERNAL}a rescanned group does not have the rows it should"))
    extrema = {state.name for state in groups.extrema}
    chosen = [
        F.when(~F.col("_ab_doubt"), F.col(state.name))
        .when(agrees, F.col(states[state.name]))
        .otherwise(wrong.cast(state.type))
        .alias(state.name)
        if state.name in extrema
        else F.col(state.name)
        for state in groups.state
    ]
    return joined.select(*quoted(groups.keys), *chosen, OLD)


def doubt(groups: Groups) -> SparkColumn:
    """A deleted value at or beyond what stored and inserted rows have as their extremum."""
    reached = [
        F.col(state.deleted).isNotNull()
        & F.coalesce(
            F.col(state.deleted) <= F.col(state.name)
            if state.combine == "min"
            else F.col(state.deleted) >= F.col(state.name),
            F.lit(True),
        )
        for state in groups.extrema
        if state.deleted
    ]
    found = reduce(SparkColumn.__or__, reached)
    # A group without rows goes, so its state is of no interest; without keys its row stays.
    return found & (F.col(ROWS) > 0) if groups.keys else found


def emit(merged: DataFrame, columns: Columns, groups: Groups, rewrite: bool) -> DataFrame:
    """Per group the old row to remove and the new row to add; nothing if they are equal."""
    outputs = dict(groups.outputs)
    values = [
        (F.expr(outputs[column.name]) if column.name in outputs else F.col(quote(column.name)))
        .cast(parse_type(column.type))
        .alias(column.name)
        for column in columns
    ]
    lines = merged.select(OLD, F.col(ROWS).alias("_ab_rows"), F.struct(*values).alias(NEW))
    exists = F.col(OLD).isNotNull()
    equal = exists & reduce(
        SparkColumn.__and__,
        (
            canonical(F.col(OLD)[column.name], parse_type(column.type)).eqNullSafe(
                canonical(F.col(NEW)[column.name], parse_type(column.type))
            )
            for column in columns
        ),
    )
    count = F.col("_ab_rows")
    wrong = F.raise_error(F.lit(f"{INTERNAL}a group has fewer rows than none")).cast("boolean")
    alive = F.lit(True) if not groups.keys else F.when(count < 0, wrong).otherwise(count > 0)
    stays = equal & alive
    first = F.when(stays, entry(Op.KEEP, OLD, columns) if rewrite else None).when(
        exists, entry(Op.REMOVE, OLD, columns)
    )
    second = F.when(alive & ~equal, entry(Op.ADD, NEW, columns))
    rows = lines.select(F.explode(F.array_compact(F.array(first, second))).alias("_ab_line"))
    return rows.select("_ab_line.*")


def entry(op: Op, source: str, columns: Columns) -> SparkColumn:
    row = F.col(source)
    values = [row[column.name].alias(column.name) for column in columns]
    place = [
        (row[column.name] if op is Op.REMOVE else F.lit(None)).cast(column.type).alias(column.name)
        for column in (FILE, POSITION)
    ]
    return F.struct(*values, *place, F.lit(op.value).alias(OP))

"""Stored groups brought up to date, as frames for `write`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.model import Columns, Op
from anabranch.names import quote
from anabranch.spark.identity import cast, exact, same
from anabranch.spark.merge import PLACE, Stored, difference, fail, kept, names, quoted
from anabranch.spark.scan import Among
from anabranch.spark.types import FILE, POSITION, parse_type, sql_type
from anabranch.spark.write import OP

OLD, NEW = "_ab_old", "_ab_new"
ROWS = "_ab_n"


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
    aliases = renamed(keys)
    touched = change.selectExpr(*(f"{quote(key)} AS {name}" for key, name in aliases.items()))
    touched = F.broadcast(touched) if broadcast else touched
    met = F.expr(same(quoted(keys), list(aliases.values())))
    return lambda rows: rows.join(touched, met, how)


def renamed(keys: Sequence[str]) -> dict[str, str]:
    """Names under which the keys can stand beside themselves in a join."""
    return {key: f"_ab_t{at}" for at, key in enumerate(keys)}


def combine(touched: DataFrame, change: DataFrame, columns: Columns, groups: Groups) -> DataFrame:
    """One line per touched group: keys, new state, deleted extrema, and the old row if any."""
    stored = {column.name: column for column in columns}
    keys, states = groups.keys, tuple(stored[state.name] for state in groups.state)
    reached = {state.deleted: state.combine for state in groups.extrema if state.deleted}
    old = f"struct({', '.join([*quoted(names(columns)), *PLACE])}) AS {OLD}"
    before = touched.selectExpr(*quoted([*keys, *names(states)]), old)
    after = change.selectExpr(*(cast(stored[key]) for key in keys), *map(cast, states), *reached)
    both = before.unionByName(after, allowMissingColumns=True)
    totals = [
        cast(column, f"{state.combine}({quote(column.name)})")
        for state, column in zip(groups.state, states, strict=True)
    ]
    extrema = [f"{function}({name}) AS {name}" for name, function in reached.items()]
    row = f"first({OLD}, TRUE) AS {OLD}"
    return both.groupBy(*quoted(keys)).agg(*map(F.expr, (*totals, *extrema, row)))


def rescanned(
    merged: DataFrame, groups: Groups, rescan: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Groups whose extremum may have been deleted take their extrema from the source."""
    doubtful = merged.selectExpr("*", f"{doubt(groups)} AS _ab_doubt")
    wanted = doubtful.filter("_ab_doubt").selectExpr(*quoted(groups.keys) or ["1 AS _ab_any"])
    keys = renamed(groups.keys)
    states = {state.name: f"_ab_fresh_{at}" for at, state in enumerate(groups.state)}
    pairs = {**keys, **states}.items()
    fresh = rescan(wanted).selectExpr(*(f"{quote(name)} AS {other}" for name, other in pairs))
    met = f"_ab_doubt AND {same(quoted(groups.keys), list(keys.values()))}"
    joined = doubtful.join(fresh, F.expr(met), "left")
    extrema = {state.name for state in groups.extrema}
    chosen = [
        f"""CASE WHEN NOT _ab_doubt THEN {state.name}
            WHEN {states[ROWS]} <=> {ROWS} THEN {states[state.name]}
            ELSE {fail(RESCANNED, sql_type(state.type))} END AS {state.name}"""
        if state.name in extrema
        else state.name
        for state in groups.state
    ]
    return joined.selectExpr(*quoted(groups.keys), *chosen, OLD)


RESCANNED = "a rescanned group does not have the rows it should"


def doubt(groups: Groups) -> str:
    """A deleted value at or beyond what stored and inserted rows have as their extremum."""
    beyond = {"min": "<=", "max": ">="}
    reached = [
        f"({state.deleted} IS NOT NULL"
        f" AND coalesce({state.deleted} {beyond[state.combine]} {state.name}, TRUE))"
        for state in groups.extrema
    ]
    found = f"({' OR '.join(reached)})"
    # A group without rows goes, so its state is of no interest; without keys its row stays.
    return f"{found} AND {ROWS} > 0" if groups.keys else found


def emit(merged: DataFrame, columns: Columns, groups: Groups, rewrite: bool) -> DataFrame:
    """Per group the old row to remove and the new row to add; nothing if they are equal."""
    outputs = dict(groups.outputs)
    values = ", ".join(cast(column, outputs.get(column.name)) for column in columns)
    alive = "TRUE"
    if groups.keys:
        wrong = fail("a group has fewer rows than none", "boolean")
        alive = f"CASE WHEN {ROWS} < 0 THEN {wrong} ELSE {ROWS} > 0 END"
    lines = merged.selectExpr(OLD, f"{alive} AS _ab_alive", f"struct({values}) AS {NEW}")
    sides = [[f"{row}.{quote(column.name)}" for column in columns] for row in (OLD, NEW)]
    types = [parse_type(column.type) for column in columns]
    compared = (map(exact, side, types) for side in sides)
    equal = f"({OLD} IS NOT NULL AND {same(*map(list, compared))})"
    keep = f"WHEN {equal} AND _ab_alive THEN {entry(Op.KEEP, OLD, columns) if rewrite else 'NULL'}"
    first = f"CASE {keep} WHEN {OLD} IS NOT NULL THEN {entry(Op.REMOVE, OLD, columns)} END"
    second = f"CASE WHEN _ab_alive AND NOT {equal} THEN {entry(Op.ADD, NEW, columns)} END"
    line = f"explode(array_compact(array({first}, {second}))) AS _ab_line"
    return lines.selectExpr(line).select("_ab_line.*")


def entry(op: Op, row: str, columns: Columns) -> str:
    """A stored or new row as a line for `write`; only what is removed has a place."""
    values = [f"{row}.{quote(column.name)} AS {quote(column.name)}" for column in columns]
    place = [
        cast(column, f"{row}.{column.name}" if op is Op.REMOVE else "NULL")
        for column in (FILE, POSITION)
    ]
    line = [*values, *place, f"'{op.value}' AS {OP}"]
    return f"struct({', '.join(line)})"

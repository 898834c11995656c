"""Window functions: partitions, orders and frames.

Where the place of a row among its equals shows, the order runs over all columns of the FROM clause:
then only equal rows can change places, and the result is one bag.  With two such orders it may be
several: see `_is_open` of `kept`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.builder import Builder, Query, Source, construct, listed, outputs
from tests.oracle.groups import call
from tests.oracle.tables import Col, Cols
from tests.oracle.values import item

Shape = Sequence[str] | None

_BOUNDS = (
    "UNBOUNDED PRECEDING AND CURRENT ROW",
    "1 PRECEDING AND CURRENT ROW",
    "1 PRECEDING AND 1 FOLLOWING",
    "CURRENT ROW AND UNBOUNDED FOLLOWING",
    "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "1 FOLLOWING AND 2 FOLLOWING",
    "2 PRECEDING AND 1 PRECEDING",
)


def _partition(b: Builder, cols: Cols) -> str:
    keys = b.some(cols, 0, 2) if b.chance(80) else []
    return f"PARTITION BY {', '.join(key.text for key in keys)} " if keys else ""


def _total(b: Builder, cols: Cols) -> str:
    """An order in which only equal rows are equal."""
    order = b.random.sample(list(cols), len(cols))
    return ", ".join(f"{col.text}{b.pick('', '', ' DESC', ' NULLS LAST')}" for col in order)


def _over_all(b: Builder, cols: Cols, frame: str = "") -> str:
    return f"OVER ({_partition(b, cols)}ORDER BY {_total(b, cols)}{frame})"


def _over_some(b: Builder, cols: Cols) -> str:
    return f"OVER ({_partition(b, cols)}ORDER BY {b.pick(*cols).text}{b.pick('', ' DESC')})"


@construct("place", "row_number")
def _row_number(b: Builder, cols: Cols) -> str:
    return f"row_number() {_over_all(b, cols)}"


@construct("place", "ntile")
def _ntile(b: Builder, cols: Cols) -> str:
    return f"ntile({b.pick(2, 3)}) {_over_all(b, cols)}"


@construct("place", "rank")
def _rank(b: Builder, cols: Cols) -> str:
    return f"rank() {_over_some(b, cols)}"


@construct("place", "dense_rank")
def _dense_rank(b: Builder, cols: Cols) -> str:
    return f"dense_rank() {_over_some(b, cols)}"


@construct("window int", "place")
def _place(b: Builder, cols: Cols) -> str:
    made: str = b.make("place", cols)
    return made


@construct("window int", "lag, lead")
def _lag(b: Builder, cols: Cols) -> str:
    function = b.pick("lag", "lead")
    more = b.pick("", ", 2", ", 1, -1")
    return f"{function}({b.column(cols, 'int')}{more}) {_over_all(b, cols)}"


@construct("window int", "first, last, nth value")
def _edge(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "int")
    function = b.pick(f"first_value({column})", f"last_value({column})", f"nth_value({column}, 2)")
    return f"{function} {_over_all(b, cols, _rows(b))}"


@construct("window int", "ignore nulls")
def _ignore_nulls(b: Builder, cols: Cols) -> str:
    function = f"{b.pick('first_value', 'last_value')}({b.column(cols, 'int')})"
    return f"{function} IGNORE NULLS {_over_all(b, cols, _rows(b))}"


def _rows(b: Builder) -> str:
    return b.pick("", f" ROWS BETWEEN {b.pick(*_BOUNDS)}")


@construct("window int", "whole partition")
def _whole(b: Builder, cols: Cols) -> str:
    return f"{_running(b, cols)} OVER ({_partition(b, cols).strip()})"


@construct("window int", "running")
def _to_here(b: Builder, cols: Cols) -> str:
    return f"{_running(b, cols)} {_over_some(b, cols)}"


@construct("window int", "rows frame")
def _rows_frame(b: Builder, cols: Cols) -> str:
    return f"{_running(b, cols)} {_over_all(b, cols, f' ROWS BETWEEN {b.pick(*_BOUNDS)}')}"


@construct("window int", "range frame")
def _range_frame(b: Builder, cols: Cols) -> str:
    order = f"ORDER BY {b.column(cols, 'int')}{b.pick('', ' DESC')}"
    return (
        f"{_running(b, cols)} OVER ({_partition(b, cols)}{order} RANGE BETWEEN {b.pick(*_BOUNDS)})"
    )


def _running(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "int")
    return b.pick(
        f"sum({column})", "count(*)", f"count({column})", f"min({column})", f"max({column})"
    )


@construct("window real", "window average")
def _average(b: Builder, cols: Cols) -> str:
    return f"avg({b.column(cols, 'int')}) {_over_some(b, cols)}"


@construct("window real", "cume_dist, percent_rank")
def _share(b: Builder, cols: Cols) -> str:
    return f"{b.pick('cume_dist', 'percent_rank')}() {_over_some(b, cols)}"


@construct("window text", "window of texts")
def _texts(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "text")
    return b.pick(f"max({column}) {_over_some(b, cols)}", f"lag({column}) {_over_all(b, cols)}")


@construct("window dec", "window of decimals")
def _decimals(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "dec")
    return f"{b.pick('sum', 'max')}({column}) {_over_some(b, cols)}"


def _windowed(b: Builder, cols: Cols, shape: Shape) -> list[Col]:
    """A list with at least one window function."""
    kinds = list(b.shape(cols, shape)) if shape is None else list(shape)
    if shape is None:
        kinds.append(b.pick("int", "int", "int", "real"))
    made = []
    for position, kind in enumerate(kinds):
        wanted = position == len(kinds) - 1 or b.chance(30)
        if wanted and kind != "bool":
            made.append(Col(b.make(f"window {kind}", cols), kind))
        else:
            made.append(item(b, cols, kind))
    return made


@construct("select", "windows")
def _windows(b: Builder, source: Source, shape: Shape) -> Query:
    items = _windowed(b, source.cols, shape)
    return Query(f"SELECT {listed(items)} FROM {source.text}", outputs(items))


@construct("select", "named window")
def _named(b: Builder, source: Source, shape: Shape) -> Query:
    cols = source.cols
    items = [item(b, cols, kind) for kind in b.shape(cols, shape)]
    items[-1] = Col(f"sum({b.column(cols, 'int')}) OVER w1", "int")
    if shape is not None and shape[-1] != "int":
        items[-1] = Col(f"max({b.column(cols, shape[-1])}) OVER w1", shape[-1])
    window = f"WINDOW w1 AS ({_partition(b, cols)}ORDER BY {b.pick(*cols).text})"
    return Query(f"SELECT {listed(items)} FROM {source.text} {window}", outputs(items))


@construct("select", "qualify")
def _qualify(b: Builder, source: Source, shape: Shape) -> Query:
    items = [item(b, source.cols, kind) for kind in b.shape(source.cols, shape)]
    test = f"{b.make('place', source.cols)} {b.pick('=', '<=')} {b.pick(1, 2)}"
    return Query(f"SELECT {listed(items)} FROM {source.text} QUALIFY {test}", outputs(items))


@construct("select", "windows over groups")
def _over_groups(b: Builder, source: Source, shape: Shape) -> Query:
    """The groups have one key, which is a total order."""
    key = b.pick(*source.cols)
    calls = [call(b, source.cols, kind) for kind in (shape or ("int",))]
    made = Col(f"{b.pick('sum', 'max')}(count(*)) OVER (ORDER BY {key.text})", "int")
    if shape is None:
        calls = [key, calls[0], made]
    elif "int" in shape:
        calls[list(shape).index("int")] = made
    text = f"SELECT {listed(calls)} FROM {source.text} GROUP BY {key.text}"
    return Query(text, outputs(calls))

"""GROUP BY in all its forms, HAVING, and the aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.builder import Builder, Query, Source, construct, listed, outputs
from tests.oracle.tables import Col, Cols
from tests.oracle.values import value

Shape = Sequence[str] | None


def call(b: Builder, cols: Cols, kind: str) -> Col:
    """An aggregate of that kind."""
    text: str = b.make(f"{kind} call", cols)
    if b.maybe("filter", 15) and " WITHIN " not in text:
        text += f" FILTER (WHERE {b.make('simple', cols)})"
    return Col(text, kind)


@construct("int call", "count rows")
def _count_rows(b: Builder, cols: Cols) -> str:
    return "count(*)"


@construct("int call", "count")
def _count(b: Builder, cols: Cols) -> str:
    return f"count({b.pick(*cols).text})"


@construct("int call", "sum")
def _sum(b: Builder, cols: Cols) -> str:
    return f"sum({value(b, cols, 'int').text})"


@construct("int call", "min, max")
def _extremum(b: Builder, cols: Cols) -> str:
    return f"{b.pick('min', 'max')}({value(b, cols, 'int').text})"


@construct("int call", "count distinct")
def _count_distinct(b: Builder, cols: Cols) -> str:
    return f"count(DISTINCT {b.pick(*cols).text})"


@construct("int call", "sum distinct")
def _sum_distinct(b: Builder, cols: Cols) -> str:
    return f"sum(DISTINCT {value(b, cols, 'int').text})"


@construct("int call", "count_if")
def _count_if(b: Builder, cols: Cols) -> str:
    return f"count_if({b.make('simple', cols)})"


@construct("int call", "bits")
def _bits(b: Builder, cols: Cols) -> str:
    return f"bit_{b.pick('and', 'or', 'xor')}({b.column(cols, 'int')})"


@construct("text call", "min, max of texts")
def _text_extremum(b: Builder, cols: Cols) -> str:
    return f"{b.pick('min', 'max')}({value(b, cols, 'text').text})"


@construct("text call", "listagg")
def _listagg(b: Builder, cols: Cols) -> str:
    column = next((col.text for col in cols if col.kind == "text"), "upper('x')")
    word, order = b.pick("", "DISTINCT "), b.pick("", " DESC")
    return f"listagg({word}{column}, ',') WITHIN GROUP (ORDER BY {column}{order})"


@construct("dec call", "sum of decimals")
def _dec_sum(b: Builder, cols: Cols) -> str:
    return f"sum({b.column(cols, 'dec')})"


@construct("dec call", "min, max of decimals")
def _dec_extremum(b: Builder, cols: Cols) -> str:
    return f"{b.pick('min', 'max')}({b.column(cols, 'dec')})"


@construct("real call", "average")
def _average(b: Builder, cols: Cols) -> str:
    return f"avg({b.column(cols, 'int')})"


@construct("real call", "average distinct")
def _average_distinct(b: Builder, cols: Cols) -> str:
    return f"avg(DISTINCT {b.column(cols, 'int')})"


@construct("real call", "median")
def _median(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "int")
    return b.pick(f"median({column})", f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {column})")


@construct("bool call", "bool_and, bool_or")
def _bools(b: Builder, cols: Cols) -> str:
    return f"{b.pick('bool_and', 'bool_or')}({b.make('simple', cols)})"


def _wanted(b: Builder, cols: Cols, shape: Shape) -> Sequence[str]:
    if shape is not None:
        return shape
    kinds = ("int", "int", "int", "text", "dec", "real", "bool")
    return [b.pick(*kinds) for _ in range(b.pick(1, 2, 2, 3))]


def _items(b: Builder, cols: Cols, keys: Sequence[Col], shape: Shape) -> list[Col]:
    """Keys and calls; an inner query of a shape may leave a key out."""
    made = []
    for kind in _wanted(b, cols, shape):
        fitting = [key for key in keys if key.kind == kind]
        made.append(b.pick(*fitting) if fitting and b.chance(50) else call(b, cols, kind))
    if shape is None and keys and b.chance(70):
        made = [*keys, *made][: b.pick(3, 4)]
    return made


def _having(b: Builder, cols: Cols) -> str:
    if not b.maybe("having", 25):
        return ""
    left, sign = call(b, cols, "int").text, b.pick(">", "<=", "=")
    if b.room > 0 and b.maybe("subquery in having", 40):
        b.room -= 1
        return f" HAVING {left} {sign} {b.make('scalar', ())}"
    return f" HAVING {left} {sign} {b.pick(0, 1, 2, 4)}"


def _grouped(b: Builder, source: Source, keys: Sequence[Col], clause: str, shape: Shape) -> Query:
    items = _items(b, source.cols, keys, shape)
    having = _having(b, source.cols)
    return Query(f"SELECT {listed(items)} FROM {source.text}{clause}{having}", outputs(items))


@construct("select", "group by")
def _group_by(b: Builder, source: Source, shape: Shape) -> Query:
    keys = [value(b, source.cols, b.pick(*source.cols).kind) for _ in range(b.pick(1, 1, 2))]
    clause = f" GROUP BY {', '.join(key.text for key in keys)}"
    return _grouped(b, source, _real_keys(keys), clause, shape)


def _real_keys(keys: Sequence[Col]) -> list[Col]:
    """A literal in GROUP BY is a position: not shown as a key."""
    return [key for key in keys if not key.text.isdigit()]


@construct("select", "whole aggregate")
def _whole(b: Builder, source: Source, shape: Shape) -> Query:
    items = [call(b, source.cols, kind) for kind in _wanted(b, source.cols, shape)]
    having = _having(b, source.cols)
    return Query(f"SELECT {listed(items)} FROM {source.text}{having}", outputs(items))


def _columns(b: Builder, cols: Cols, least: int, most: int) -> list[Col]:
    """Different columns; the key of USING goes before those it is made of."""
    bare = {col.text for col in cols if "." not in col.text}
    return b.some(
        [col for col in cols if col.text.split(".")[-1] not in bare - {col.text}], least, most
    )


def _sets(b: Builder, source: Source, keys: Sequence[Col], clause: str, shape: Shape) -> Query:
    """GROUPING() tells a key that is left out from a NULL."""
    told: list[Col] = []
    if shape is None and b.maybe("grouping", 50):
        key = b.pick(*keys).text
        told.append(Col(b.pick(f"grouping({key})", f"grouping_id({key})"), "int"))
    items = [*_items(b, source.cols, keys, shape), *told]
    having = _having(b, source.cols)
    text = f"SELECT {listed(items)} FROM {source.text} GROUP BY {clause}{having}"
    return Query(text, outputs(items))


@construct("select", "rollup")
def _rollup(b: Builder, source: Source, shape: Shape) -> Query:
    keys = _columns(b, source.cols, 1, 2)
    return _sets(b, source, keys, f"ROLLUP ({_texts(keys)})", shape)


@construct("select", "cube")
def _cube(b: Builder, source: Source, shape: Shape) -> Query:
    keys = _columns(b, source.cols, 1, 2)
    return _sets(b, source, keys, f"CUBE ({_texts(keys)})", shape)


@construct("select", "grouping sets")
def _grouping_sets(b: Builder, source: Source, shape: Shape) -> Query:
    keys = _columns(b, source.cols, 2, 3)
    sets = [f"({_texts(keys[:2])})", f"({keys[-1].text})", b.pick("()", f"({keys[0].text})")]
    return _sets(b, source, keys, f"GROUPING SETS ({', '.join(sets)})", shape)


def _texts(keys: Sequence[Col]) -> str:
    return ", ".join(key.text for key in keys)

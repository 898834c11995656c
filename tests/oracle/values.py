"""Values and conditions over the columns of a FROM clause.

`value`      any expression that is a function of one row
`condition`  conditions of a WHERE, with subqueries
`simple`     conditions without subqueries, which may stand anywhere
"""

from __future__ import annotations

from tests.oracle.builder import Builder, Query, Source, construct
from tests.oracle.tables import LITERALS, Col, Cols


def value(b: Builder, cols: Cols, kind: str) -> Col:
    """A value that may stand in GROUP BY and inside aggregates: no subqueries."""
    column = b.column(cols, kind)
    if kind in ("int", "text") and b.chance(20):
        return Col(b.make(f"{kind} value", cols, column), kind)
    return Col(column, kind)


@construct("int value", "arithmetic")
def _arithmetic(b: Builder, cols: Cols, column: str) -> str:
    return f"{column} {b.pick('+', '-', '*')} {b.pick(b.column(cols, 'int'), '2')}"


@construct("int value", "coalesce")
def _coalesce(b: Builder, cols: Cols, column: str) -> str:
    return f"coalesce({column}, {b.column(cols, 'int')}, 0)"


@construct("int value", "case")
def _case(b: Builder, cols: Cols, column: str) -> str:
    otherwise = b.pick("", f" ELSE {b.column(cols, 'int')}")
    return f"CASE WHEN {b.make('simple', cols)} THEN {column}{otherwise} END"


@construct("text value", "upper")
def _upper(b: Builder, cols: Cols, column: str) -> str:
    return f"upper({column})"


@construct("text value", "concatenation")
def _concatenation(b: Builder, cols: Cols, column: str) -> str:
    return f"{column} || {b.pick(b.column(cols, 'text'), LITERALS['text'][0])}"


@construct("simple", "comparison")
def _comparison(b: Builder, cols: Cols) -> str:
    kind = b.pick("int", "int", "text", "dec") if any(c.kind == "dec" for c in cols) else "int"
    kind = b.pick(kind, kind, _real_or_int(cols))
    other = b.pick(b.column(cols, kind), b.pick(*LITERALS[kind]))
    return f"{b.column(cols, kind)} {b.pick('=', '<', '<=', '>', '<>')} {other}"


@construct("simple", "null test")
def _null_test(b: Builder, cols: Cols) -> str:
    return f"{b.pick(*cols).text} IS {b.pick('', 'NOT ')}NULL"


@construct("simple", "null-safe equality")
def _null_safe(b: Builder, cols: Cols) -> str:
    return f"{b.column(cols, 'int')} <=> {b.column(cols, 'int')}"


@construct("simple", "between")
def _between(b: Builder, cols: Cols) -> str:
    return f"{b.column(cols, 'int')} BETWEEN {b.column(cols, 'int')} AND {b.pick('2', '3')}"


@construct("simple", "in list")
def _in_list(b: Builder, cols: Cols) -> str:
    return f"{b.column(cols, 'int')} {b.pick('', 'NOT ')}IN (0, 2{b.pick('', ', NULL')})"


@construct("simple", "like")
def _like(b: Builder, cols: Cols) -> str:
    return f"{b.column(cols, 'text')} LIKE '{b.pick('x%', '%y', '_')}'"


@construct("simple", "and, or, not")
def _connected(b: Builder, cols: Cols) -> str:
    left, right = b.make("simple", cols), b.make("simple", cols)
    return b.pick(f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})")


@construct("condition", "simple condition")
def _simple(b: Builder, cols: Cols) -> str:
    made: str = b.make("simple", cols)
    return made


@construct("condition", "subquery under or", nested=True)
def _under_or(b: Builder, cols: Cols) -> str:
    return f"({b.make('simple', cols)} OR {b.make('subquery condition', cols)})"


@construct("condition", "subquery under and", nested=True)
def _under_and(b: Builder, cols: Cols) -> str:
    return f"{b.make('simple', cols)} AND {b.make('subquery condition', cols)}"


@construct("condition", "subquery", nested=True)
def _subquery(b: Builder, cols: Cols) -> str:
    made: str = b.make("subquery condition", cols)
    return made


@construct("subquery condition", "exists")
def _exists(b: Builder, cols: Cols) -> str:
    source = related(b, cols)
    return f"EXISTS (SELECT 1 FROM {source.text})"


@construct("subquery condition", "not exists")
def _not_exists(b: Builder, cols: Cols) -> str:
    source = related(b, cols)
    return f"NOT EXISTS (SELECT 1 FROM {source.text})"


@construct("subquery condition", "exists, uncorrelated")
def _exists_alone(b: Builder, cols: Cols) -> str:
    source = inner(b)
    return f"EXISTS (SELECT 1 FROM {source.text} WHERE {b.make('simple', source.cols)})"


def _real_or_int(cols: Cols) -> str:
    """Zeros of both signs and NaN, where there are some."""
    return "real" if any(col.kind == "real" for col in cols) else "int"


@construct("subquery condition", "in")
def _in(b: Builder, cols: Cols) -> str:
    kind = b.pick("int", "text", _real_or_int(cols))
    query: Query = b.make("body", [kind])
    return f"{b.column(cols, kind)} IN ({query.text})"


@construct("subquery condition", "not in")
def _not_in(b: Builder, cols: Cols) -> str:
    kind = b.pick("int", "text", _real_or_int(cols))
    query: Query = b.make("body", [kind])
    return f"{b.column(cols, kind)} NOT IN ({query.text})"


@construct("subquery condition", "in, correlated")
def _in_correlated(b: Builder, cols: Cols) -> str:
    source = related(b, cols)
    item = b.column(source.cols, "int")
    return (
        f"{b.column(cols, 'int')} {b.pick('', 'NOT ')}IN (SELECT {item} AS c0 FROM {source.text})"
    )


@construct("subquery condition", "in pairs")
def _in_pairs(b: Builder, cols: Cols) -> str:
    query: Query = b.make("body", ["int", "int"])
    left = f"({b.column(cols, 'int')}, {b.column(cols, 'int')})"
    return f"{left} {b.pick('', 'NOT ')}IN ({query.text})"


@construct("subquery condition", "compared with a subquery")
def _compared(b: Builder, cols: Cols) -> str:
    return f"{b.column(cols, 'int')} {b.pick('=', '<', '>=')} {b.make('scalar', cols)}"


@construct("scalar", "scalar subquery")
def _scalar(b: Builder, cols: Cols) -> str:
    source = inner(b)
    return f"(SELECT {_one(b, source.cols)} FROM {source.text})"


@construct("scalar", "correlated scalar subquery")
def _scalar_correlated(b: Builder, cols: Cols) -> str:
    source = related(b, cols, "=")
    return f"(SELECT {_one(b, source.cols)} FROM {source.text})"


def _one(b: Builder, cols: Cols) -> str:
    column = b.column(cols, "int")
    return b.pick("count(*)", f"max({column})", f"min({column})", f"sum({column})")


def inner(b: Builder) -> Source:
    source: Source = b.make("source")
    return source


def related(b: Builder, cols: Cols, *comparisons: str) -> Source:
    """A FROM and WHERE that compares with a column of the outer query."""
    source = inner(b)
    kind = b.pick("int", _real_or_int(source.cols), "text")
    sign = b.pick(*(comparisons or ("=", "=", "=", "<", "<>")))
    conditions = [f"{b.column(source.cols, kind)} {sign} {b.column(cols, kind)}"]
    if b.chance(40):
        conditions.append(b.make("simple", source.cols))
    return Source(f"{source.text} WHERE {' AND '.join(conditions)}", source.cols)


def item(b: Builder, cols: Cols, kind: str) -> Col:
    """A value of a SELECT list without GROUP BY: subqueries are welcome."""
    if kind in ("int", "bool"):
        return Col(b.make(f"{kind} item", cols), kind)
    return value(b, cols, kind)


@construct("int item", "plain number")
def _plain_number(b: Builder, cols: Cols) -> str:
    return value(b, cols, "int").text


@construct("bool item", "plain truth")
def _plain_truth(b: Builder, cols: Cols) -> str:
    made: str = b.make("simple", cols)
    return made


@construct("int item", "subquery as a value", nested=True)
def _scalar_item(b: Builder, cols: Cols) -> str:
    made: str = b.make("scalar", cols)
    return b.pick(made, f"coalesce({made}, -1)", f"{made} + 1")


@construct("int item", "predicate as a number", nested=True)
def _counted_item(b: Builder, cols: Cols) -> str:
    return f"CASE WHEN {b.make('subquery condition', cols)} THEN 1 ELSE 0 END"


@construct("bool item", "predicate as a value", nested=True)
def _predicate_item(b: Builder, cols: Cols) -> str:
    return f"coalesce({b.make('subquery condition', cols)}, false)"


@construct("bool item", "predicate as it is", nested=True)
def _bare_predicate_item(b: Builder, cols: Cols) -> str:
    made: str = b.make("subquery condition", cols)
    return made

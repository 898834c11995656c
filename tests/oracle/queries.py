"""Random queries as Spark's SQL: one integer is one query.

Families of constructs live in `values`, `sources`, `groups` and `frames`; here is the rest, from the
whole query down to the SELECT.  Every result is one bag: orders are total where they show, sums are
of integers and decimals, nothing is divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.oracle import frames, groups, sources, values
from tests.oracle.builder import CONSTRUCTS, Builder, Query, Source, construct, listed, outputs
from tests.oracle.tables import TABLES, Col
from tests.oracle.weights import WEIGHTS

FAMILIES = (frames, groups, sources, values)  # importing them has registered their constructs
Shape = Sequence[str] | None
_SHAPES = (
    ("int",), ("int", "text"), ("int", "int"), ("text",), ("text", "int", "int"), ("dec",),
    ("real",), ("int", "real"),
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A query, the constructs in it, and the tables it reads."""

    text: str
    used: frozenset[str]
    tables: tuple[str, ...]


def draw(seed: int, weights: Mapping[str, int] = WEIGHTS) -> Drawn:
    random = Random(f"query {seed}")
    builder = Builder(random, weights, room=random.choice((0, 0, 1, 1, 1, 1, 2, 2, 3)))
    query: Query = builder.make("query")
    tables = tuple(name for name in TABLES if name in builder.tables)
    return Drawn(query.text, frozenset(builder.used), tables or tuple(TABLES))


def names() -> set[str]:
    """Every construct that the generator may draw."""
    made = {each.name for family in CONSTRUCTS.values() for each in family}
    return {
        name for name, weight in WEIGHTS.items() if weight and (name in made or name in CHANCES)
    }


CHANCES = (
    "filter",
    "having",
    "subquery in having",
    "grouping",
    "where",
    "cte used twice",
    "recursion, each row once",
)


@construct("query", "plain query")
def _plain(b: Builder) -> Query:
    query: Query = b.make("body", None)
    return query


@construct("query", "with", nested=True)
def _with(b: Builder) -> Query:
    made: Query = b.make("body", None)
    b.ctes["w"] = made.cols
    query: Query = b.make("body", None)
    if query.text.count(" w AS ") > 1:
        b.used.add("cte used twice")
    return Query(f"WITH w AS ({made.text}) {query.text}", query.cols)


@construct("body", "select")
def _select(b: Builder, shape: Shape) -> Query:
    source: Source = b.make("from")
    if b.maybe("where", 40):
        # a LATERAL VIEW and a join end where WHERE begins
        source = Source(f"{source.text} WHERE {b.make('condition', source.cols)}", source.cols)
    query: Query = b.make("select", source, shape)
    return query


@construct("body", "limit", nested=True)
def _limit(b: Builder, shape: Shape) -> Query:
    query = _select(b, shape)
    order = ", ".join(f"{col.text}{b.pick('', ' DESC', ' NULLS LAST')}" for col in query.cols)
    rest = b.pick(f"LIMIT {b.pick(1, 2, 3)}", f"LIMIT {b.pick(2, 3)} OFFSET {b.pick(1, 2)}")
    alias = b.alias()
    shown = ", ".join(col.text for col in query.cols)
    return Query(
        f"SELECT {shown} FROM ({query.text}) AS {alias} ORDER BY {order} {rest}", query.cols
    )


@construct("body", "offset", nested=True)
def _offset(b: Builder, shape: Shape) -> Query:
    query, alias = _select(b, shape), b.alias()
    shown = ", ".join(col.text for col in query.cols)
    return Query(
        f"SELECT {shown} FROM ({query.text}) AS {alias} ORDER BY {shown} OFFSET {b.pick(1, 2)}",
        query.cols,
    )


def _combined(b: Builder, shape: Shape, words: str) -> Query:
    shape = shape or b.pick(*_SHAPES)
    left, right = b.make("body", shape), b.make("body", shape)
    return Query(f"({left.text}) {words} ({right.text})", left.cols)


@construct("body", "union all", nested=True)
def _union_all(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "UNION ALL")


@construct("body", "union", nested=True)
def _union(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "UNION")


@construct("body", "intersect", nested=True)
def _intersect(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "INTERSECT")


@construct("body", "intersect all", nested=True)
def _intersect_all(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "INTERSECT ALL")


@construct("body", "except", nested=True)
def _except(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "EXCEPT")


@construct("body", "except all", nested=True)
def _except_all(b: Builder, shape: Shape) -> Query:
    return _combined(b, shape, "EXCEPT ALL")


@construct("select", "plain select")
def _plain_select(b: Builder, source: Source, shape: Shape) -> Query:
    items = _items(b, source, shape)
    return Query(f"SELECT {listed(items)} FROM {source.text}", outputs(items))


@construct("select", "distinct")
def _distinct(b: Builder, source: Source, shape: Shape) -> Query:
    items = _items(b, source, shape)
    return Query(f"SELECT DISTINCT {listed(items)} FROM {source.text}", outputs(items))


@construct("select", "explode in select")
def _explode_item(b: Builder, source: Source, shape: Shape) -> Query:
    items = _items(b, source, shape)
    kind = items[-1].kind
    cells = [b.column(source.cols, kind) for _ in range(b.pick(1, 2))]
    items[-1] = Col(f"explode(array({', '.join(cells)}))", kind)
    return Query(f"SELECT {listed(items)} FROM {source.text}", outputs(items))


def _items(b: Builder, source: Source, shape: Shape) -> list[Col]:
    kinds = list(b.shape(source.cols, shape))
    if shape is None and b.chance(10):
        kinds.append("bool")
    return [values.item(b, source.cols, kind) for kind in kinds]

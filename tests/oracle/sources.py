"""FROM: tables, subqueries, CTEs, VALUES, PIVOT, and every way to join them.

`source`  one FROM item with an alias of its own
`from`    a whole FROM clause
`join`    a FROM clause with one more item
"""

from __future__ import annotations

from tests.oracle.builder import Builder, Query, Source, construct
from tests.oracle.tables import LITERALS, TABLES, Col, Cols, columns_of, under
from tests.oracle.values import related


@construct("source", "table")
def _table(b: Builder) -> Source:
    return _read(b)


def _read(b: Builder) -> Source:
    name, alias = b.pick(*TABLES), b.alias()
    b.tables.add(name)
    return Source(f"{name} AS {alias}", under(alias, columns_of(name)))


@construct("source", "subquery in from", nested=True)
def _subquery(b: Builder) -> Source:
    query: Query = b.make("body", None)
    alias = b.alias()
    return Source(f"({query.text}) AS {alias}", under(alias, query.cols))


@construct("source", "cte")
def _cte(b: Builder) -> Source:
    if not b.ctes:
        return _read(b)
    name, alias = b.pick(*b.ctes), b.alias()
    return Source(f"{name} AS {alias}", under(alias, b.ctes[name]))


@construct("source", "values")
def _values(b: Builder) -> Source:
    alias = b.alias()
    rows = [
        f"({b.pick('NULL', *LITERALS['int'])}, {b.pick('NULL', *LITERALS['text'])})"
        for _ in range(b.pick(1, 2, 3))
    ]
    rows.append("(1, 'x')")
    cols = (Col("p", "int"), Col("q", "text"))
    return Source(f"(VALUES {', '.join(rows)}) AS {alias}(p, q)", under(alias, cols))


@construct("source", "recursion")
def _recursion(b: Builder) -> Source:
    """Ways of up to three steps, from table to table."""
    first, then, name, alias = b.pick("a", "b", "d"), b.pick("a", "b", "d"), b.alias(), b.alias()
    b.tables.update((first, then))
    step = f"SELECT {name}.x, s.k, n + 1 FROM {name} JOIN {then} AS s ON {name}.y = s.id"
    if b.chance(30):
        other = b.pick("a", "b", "d")
        b.tables.add(other)
        more = f"SELECT {name}.x + 1, s.k, n + 2 FROM {name} JOIN {other} AS s ON s.id = {name}.x"
        step = f"({step} WHERE n < 3 UNION ALL {more} WHERE n < 2)"
    else:
        step = f"{step} WHERE n < 3"
    words = "UNION" if b.maybe("recursion, each row once", 40) else "UNION ALL"
    text = (
        f"WITH RECURSIVE {name} (x, y, n) AS (SELECT id, k, 1 FROM {first} {words} {step}) "
        f"SELECT x, y, n FROM {name}"
    )
    if b.chance(30):
        text += f" UNION ALL SELECT y, x, -n FROM {name}"
    cols = (Col("x", "int"), Col("y", "int"), Col("n", "int"))
    return Source(f"({text}) AS {alias}", under(alias, cols))


@construct("source", "recursion to the end")
def _recursion_to_the_end(b: Builder) -> Source:
    """Ways of any number of steps.  Most edges lead upwards, so that they end; a few lead anywhere,
    also round a cycle, which a change may cut off.  Where one is reached, the query has no result."""
    first, then, name, alias = b.pick("a", "b", "d"), b.pick("a", "b", "d"), b.alias(), b.alias()
    b.tables.update((first, then))
    anywhere = {"a": "s.v = 'z'", "b": "s.w = 'z'", "d": "s.z = 3.00"}[then]
    seeds = b.pick("", " WHERE id = 1", " WHERE k > 1")
    shown = b.pick(f"{name}.x, s.k", "s.id, s.k", f"{name}.y, s.k")
    step = f"SELECT {shown} FROM {name} JOIN {then} AS s ON {name}.y = s.id"
    text = (
        f"WITH RECURSIVE {name} (x, y) AS (SELECT id, k FROM {first}{seeds} UNION ALL "
        f"{step} AND (s.id < s.k OR {anywhere})) SELECT x, y FROM {name}"
    )
    return Source(f"({text}) AS {alias}", under(alias, (Col("x", "int"), Col("y", "int"))))


@construct("source", "pivot", nested=True)
def _pivot(b: Builder) -> Source:
    return _pivoted(b, b.pick("sum(c2)", "min(c2)", "max(c2)"))


@construct("source", "pivot, counted", nested=True)
def _pivot_counted(b: Builder) -> Source:
    return _pivoted(b, "count(c2)")


def _pivoted(b: Builder, call: str) -> Source:
    query: Query = b.make("body", ["int", "text", "int"])
    alias = b.alias()
    text = f"SELECT c0, px, py FROM ({query.text}) PIVOT ({call} FOR c1 IN ('x' AS px, 'y' AS py))"
    cols = (Col("c0", "int"), Col("px", "int"), Col("py", "int"))
    return Source(f"({text}) AS {alias}", under(alias, cols))


@construct("source", "unpivot", nested=True)
def _unpivot(b: Builder) -> Source:
    query: Query = b.make("body", ["text", "int", "int"])
    alias = b.alias()
    nulls = b.pick("", " INCLUDE NULLS")
    text = f"SELECT c0, n, m FROM ({query.text}) UNPIVOT{nulls} (m FOR n IN (c1, c2))"
    cols = (Col("c0", "text"), Col("n", "text"), Col("m", "int"))
    return Source(f"({text}) AS {alias}", under(alias, cols))


@construct("from", "one source")
def _one(b: Builder) -> Source:
    source: Source = b.make("source")
    return source


@construct("from", "two sources")
def _two(b: Builder) -> Source:
    source: Source = b.make("join", _one(b))
    return source


@construct("from", "three sources")
def _three(b: Builder) -> Source:
    source: Source = b.make("join", _two(b))
    return source


@construct("from", "using")
def _using(b: Builder) -> Source:
    """The key of a chain of USING is one column; sides keep theirs under their own names."""
    names = b.some(("a", "b", "d"), 2, 3)
    text, sides = names[0], ["INNER", "LEFT", "RIGHT", "FULL"]
    for name in names[1:]:
        side = b.pick(*(each for each in sides if b.weights[f"{each.lower()} join"]))
        b.used.add(f"{side.lower()} join")
        text += f" {side} JOIN {name} USING (k)"
    return Source(text, (Col("k", "int"), *_qualified(b, names)))


@construct("from", "natural")
def _natural(b: Builder) -> Source:
    names = b.some(("a", "b", "d"), 2, 2)
    side = b.pick("", "LEFT ", "RIGHT ", "FULL ")
    text = f"{names[0]} NATURAL {side}JOIN {names[1]}"
    return Source(text, (Col("id", "int"), Col("k", "int"), *_qualified(b, names)))


def _qualified(b: Builder, names: list[str]) -> Cols:
    b.tables.update(names)
    return tuple(col for name in names for col in under(name, columns_of(name)))


@construct("from", "explode")
def _explode(b: Builder) -> Source:
    source = _one(b) if b.chance(70) else _two(b)
    cells = [b.column(source.cols, "int") for _ in range(b.pick(1, 2, 2))]
    name = b.alias()
    text = f"{source.text} LATERAL VIEW explode(array({', '.join(cells)})) {name} AS e{name}"
    return Source(text, (*source.cols, Col(f"e{name}", "int")))


@construct("from", "explode outer")
def _explode_outer(b: Builder) -> Source:
    """Some rows have no array."""
    source, name = _one(b), b.alias()
    array = f"array({b.column(source.cols, 'int')}, {b.column(source.cols, 'int')})"
    some = f"CASE WHEN {b.make('simple', source.cols)} THEN {array} END"
    text = f"{source.text} LATERAL VIEW OUTER explode({some}) {name} AS e{name}"
    return Source(text, (*source.cols, Col(f"e{name}", "int")))


@construct("from", "posexplode")
def _posexplode(b: Builder) -> Source:
    source, name = _one(b), b.alias()
    cells = [b.column(source.cols, "text") for _ in range(b.pick(1, 2))]
    view = f"posexplode(array({', '.join(cells)})) {name} AS p{name}, e{name}"
    cols = (Col(f"p{name}", "int"), Col(f"e{name}", "text"))
    return Source(f"{source.text} LATERAL VIEW {view}", (*source.cols, *cols))


@construct("join", "inner join")
def _inner(b: Builder, left: Source) -> Source:
    return _joined(b, left, "JOIN")


@construct("join", "left join")
def _left(b: Builder, left: Source) -> Source:
    return _joined(b, left, "LEFT JOIN")


@construct("join", "right join")
def _right(b: Builder, left: Source) -> Source:
    return _joined(b, left, "RIGHT JOIN")


@construct("join", "full join")
def _full(b: Builder, left: Source) -> Source:
    return _joined(b, left, "FULL JOIN")


@construct("join", "cross join")
def _cross(b: Builder, left: Source) -> Source:
    right = _one(b)
    return Source(f"{left.text} CROSS JOIN {right.text}", left.cols + right.cols)


@construct("join", "semi join")
def _semi(b: Builder, left: Source) -> Source:
    return Source(_joined(b, left, "LEFT SEMI JOIN").text, left.cols)


@construct("join", "anti join")
def _anti(b: Builder, left: Source) -> Source:
    return Source(_joined(b, left, "LEFT ANTI JOIN").text, left.cols)


@construct("join", "join on itself")
def _itself(b: Builder, left: Source) -> Source:
    """Twice the same table."""
    name = b.pick(*TABLES)
    b.tables.add(name)
    one, two = b.alias(), b.alias()
    mine, theirs = under(one, columns_of(name)), under(two, columns_of(name))
    condition = b.make("on", mine, theirs)
    return Source(
        f"{name} AS {one} {b.pick('', 'LEFT ')}JOIN {name} AS {two} ON {condition}", mine + theirs
    )


@construct("join", "lateral subquery", nested=True)
def _lateral(b: Builder, left: Source) -> Source:
    query, alias = _lateral_query(b, left.cols), b.alias()
    text = f"{left.text} CROSS JOIN LATERAL ({query.text}) AS {alias}"
    return Source(text, left.cols + under(alias, query.cols))


@construct("join", "left lateral subquery", nested=True)
def _left_lateral(b: Builder, left: Source) -> Source:
    query, alias = _lateral_query(b, left.cols), b.alias()
    text = f"{left.text} LEFT JOIN LATERAL ({query.text}) AS {alias} ON true"
    return Source(text, left.cols + under(alias, query.cols))


def _lateral_query(b: Builder, cols: Cols) -> Query:
    source = related(b, cols, "=")
    item = b.column(source.cols, "int")
    return b.pick(
        Query(f"SELECT {item} AS c0 FROM {source.text}", (Col("c0", "int"),)),
        Query(f"SELECT count(*) AS c0, max({item}) AS c1 FROM {source.text}", _two_ints()),
        Query(
            f"SELECT {item} AS c0 FROM {source.text} ORDER BY c0 LIMIT {b.pick(1, 2)}",
            (Col("c0", "int"),),
        ),
    )


def _two_ints() -> Cols:
    return (Col("c0", "int"), Col("c1", "int"))


def _joined(b: Builder, left: Source, words: str) -> Source:
    right = _one(b)
    condition = b.make("on", left.cols, right.cols)
    return Source(f"{left.text} {words} {right.text} ON {condition}", left.cols + right.cols)


@construct("on", "equal keys")
def _equal(b: Builder, left: Cols, right: Cols) -> str:
    kinds = {col.kind for col in left} & {col.kind for col in right} & {"int", "text"}
    kind = b.pick(*sorted(kinds or {"int"}))
    return f"{b.column(left, kind)} = {b.column(right, kind)}"


@construct("on", "two equal keys")
def _two_equal(b: Builder, left: Cols, right: Cols) -> str:
    return f"{_equal(b, left, right)} AND {_equal(b, left, right)}"


@construct("on", "null-safe key")
def _null_safe(b: Builder, left: Cols, right: Cols) -> str:
    return f"{b.column(left, 'int')} <=> {b.column(right, 'int')}"


@construct("on", "equal keys and more")
def _equal_and(b: Builder, left: Cols, right: Cols) -> str:
    return f"{_equal(b, left, right)} AND {b.make('simple', left + right)}"


@construct("on", "no equal keys")
def _range(b: Builder, left: Cols, right: Cols) -> str:
    return f"{b.column(left, 'int')} {b.pick('<', '>=', '<>')} {b.column(right, 'int')}"


@construct("on", "any condition")
def _any(b: Builder, left: Cols, right: Cols) -> str:
    made: str = b.make("simple", left + right)
    return made

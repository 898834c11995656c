"""Whether a recursion with UNION ALL goes round for ever: DuckDB, unlike Spark, would never say so.

The same recursion is asked with a level beside each row, and keeps a row once on each level: it ends at
a bound, which only rows that go round reach, as there are far fewer rows than that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import sqlglot
from sqlglot import exp

from tests.oracle.duck import duck
from tests.oracle.kept import World

BOUND = 60
PATIENCE = 60  # seconds, for what takes milliseconds
LEVEL = "level_"


def is_endless(world: World, query: str) -> bool:
    return any(world.db.execute(probe).fetchall() for probe in probes(query))


@contextmanager
def ending(world: World, query: str) -> Iterator[None]:
    """The query ends; what is done for it may not, and is then interrupted."""
    if not probes(query):
        yield
        return
    timer = threading.Timer(PATIENCE, world.db.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@lru_cache(maxsize=1_000)
def probes(query: str) -> tuple[str, ...]:
    """A query for each recursion that has no level of its own; it has rows if that never ends."""
    if "RECURSIVE" not in query.upper():
        return ()
    tree = sqlglot.parse_one(query, read="spark")
    clauses = (each for each in tree.find_all(exp.With) if each.args.get("recursive"))
    ctes = (cte for clause in clauses for cte in clause.expressions)
    return tuple(_probe(cte) for cte in ctes if _is_open(cte))


def _is_open(cte: exp.CTE) -> bool:
    body = cte.this
    columns = {column.name for column in cte.args["alias"].columns}
    counted = isinstance(body, exp.Union) and not body.args.get("distinct", True)
    return counted and _reads(body, cte.alias) and "n" not in columns


def _reads(tree: exp.Expr, name: str) -> bool:
    return any(table.name == name for table in tree.find_all(exp.Table))


def _probe(cte: exp.CTE) -> str:
    name, levelled = cte.alias, cte.copy()
    levelled.args["alias"].append("columns", exp.to_identifier(LEVEL))
    _count(levelled.this, name)
    found = exp.select("1").from_(name).where(f"{LEVEL} = {BOUND}").limit(1)
    found.set("with_", exp.With(expressions=[levelled], recursive=True))
    return duck(found.sql("spark"))


def _count(tree: exp.Expr, name: str) -> None:
    """A level in every branch."""
    match tree:
        case exp.Union():
            tree.set("distinct", True)
            _count(tree.this, name)
            _count(tree.expression, name)
        case exp.Subquery():
            _count(tree.this, name)
        case exp.Select():
            inside = _reads(tree, name)
            level = f"{name}.{LEVEL}"
            tree.select(f"{level} + 1" if inside else "0", copy=False)
            if inside:
                tree.where(f"{level} < {BOUND}", copy=False)

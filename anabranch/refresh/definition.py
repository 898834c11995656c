"""What a stream table is: its query, resolved against the tables and views of one world."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.delta.maintenance import ByRows, Maintenance, maintenance
from anabranch.engine.identity import HASHES, hashable
from anabranch.engine.query import analyze
from anabranch.engine.types import columns_of
from anabranch.errors import SchemaError, UserError
from anabranch.model import FIRST_HIDDEN_ID, Columns
from anabranch.names import RESERVED_PREFIX, TableName, shown
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Given, Item, Node, Project, Scan
from anabranch.sql.lower import lower
from anabranch.sql.render import to_sql
from anabranch.sql.support import Obstacle
from anabranch.sql.tables import tables_of
from anabranch.world import World


@dataclass(frozen=True)
class Definition:
    """A query that was understood: where it reads, what it gives, and how it can be kept."""

    query: str
    columns: Columns
    sources: frozenset[TableName]  # tables read, through views too
    views: frozenset[TableName]
    plan: Node | None
    obstacles: tuple[Obstacle, ...]
    kept: Maintenance | None
    fingerprint: str

    @property
    def hidden(self) -> Columns:
        """The hidden columns of the stored rows, with their field ids."""
        if self.kept is None:
            return ()
        own = self.kept.hidden
        if isinstance(self.kept, ByRows) and hashable(self.columns):
            own = HASHES
        return tuple(
            replace(column, field_id=FIRST_HIDDEN_ID + at) for at, column in enumerate(own)
        )


_cache: dict[tuple[str, str], Definition] = {}


def define(world: World, query: str) -> Definition:
    """Resolve a query; the answer is remembered as long as nothing it names changes."""
    sources, views = reach(world, query)
    columns = {name: world.version(name).columns for name in sources}
    texts = {name: world.views[name] for name in views}
    mark = _mark(query, columns, texts)
    key = (mark, query)
    if key not in _cache:
        _cache[key] = _define(world, query, columns, texts, mark)
    return _cache[key]


def reach(world: World, query: str) -> tuple[frozenset[TableName], frozenset[TableName]]:
    """The tables and the views that a query reads, directly or through views."""
    sources: set[TableName] = set()
    views: set[TableName] = set()
    waiting = list(tables_of(query))
    while waiting:
        name = world.resolve(waiting.pop())
        if name not in world.views:
            sources.add(name)
        elif name not in views:
            views.add(name)
            waiting.extend(tables_of(world.views[name]))
    return frozenset(sources), frozenset(views)


def _define(
    world: World,
    query: str,
    columns: dict[TableName, Columns],
    texts: dict[TableName, str],
    mark: str,
) -> Definition:
    output = _output(world, query)

    def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        probe = Project(node, tuple(Item(f"e{i}", expr) for i, expr in enumerate(exprs)))
        names = {name: f"_ab_t{i}" for i, name in enumerate(columns)}

        def name_of(scan: Scan | Given) -> str:
            assert isinstance(scan, Scan)
            return names[scan.table]

        text = to_sql(probe, name_of, "spark")
        found = analyze(world.spark.session, text, {names[name]: columns[name] for name in columns})
        return [column.type for column in found]

    lowered = lower(query, columns, texts, types, output=output)
    kept = maintenance(lowered.plan) if lowered.plan is not None else None
    return Definition(
        query=query,
        columns=output,
        sources=frozenset(columns),
        views=frozenset(texts),
        plan=lowered.plan,
        obstacles=lowered.obstacles,
        kept=kept,
        fingerprint=mark,
    )


def _output(world: World, query: str) -> Columns:
    """The columns of the query, by Spark's own analyser."""
    found = columns_of(world.sql(query).schema)
    seen: set[str] = set()
    for column in found:
        if column.name.lower() in seen:
            raise UserError(
                f"the query gives the column {shown(column.name)} twice",
                hint="name one of them with AS",
            )
        if column.name.lower().startswith(RESERVED_PREFIX):
            raise UserError(f"column {column.name}: names that start with _ab_ are reserved")
        if column.type == "void":
            raise UserError(
                f"column {shown(column.name)} has no type", hint="CAST(NULL AS …) gives it one"
            )
        seen.add(column.name.lower())
    return found


def _mark(query: str, columns: dict[TableName, Columns], texts: dict[TableName, str]) -> str:
    """Two equal marks mean: the same query over the same columns of the same views and tables."""
    facts = {
        "format": 1,
        "query": query.strip(),
        "views": sorted((str(name), text.strip()) for name, text in texts.items()),
        "columns": sorted(
            (str(name), [(c.name.lower(), c.field_id, c.type) for c in found])
            for name, found in columns.items()
        ),
    }
    return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:32]


def same_columns(stored: Columns, wanted: Columns) -> bool:
    return [(c.name, c.type) for c in stored] == [(c.name, c.type) for c in wanted]


def check_columns(name: TableName, stored: Columns, wanted: Columns) -> None:
    """The stored table and its query must still give the same columns."""
    if not same_columns(stored, wanted):
        have = ", ".join(f"{c.name} {c.type}" for c in stored)
        want = ", ".join(f"{c.name} {c.type}" for c in wanted)
        raise SchemaError(
            f"{name} has the columns ({have}) but its query now gives ({want})",
            hint=f"a source changed; ALTER STREAM TABLE {name} AS … takes the new columns over",
        )

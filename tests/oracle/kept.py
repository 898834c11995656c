"""A stream table kept on DuckDB: the reference that says what every maintenance must come to.

The world is a DuckDB database with the tables of the schema `now`.  A window copies it to `was`, lets
statements change it, and brings the stored rows up to date from the differences alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import sqlglot

from anabranch.delta.maintenance import ByRows, Combine, Maintenance, Replace, maintenance
from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import WEIGHT, Call, Given, Item, Node, Project, Scan
from anabranch.plan.rewrites import simplify
from anabranch.sql.lower import Lowered, lower
from anabranch.sql.render import to_sql

Row = tuple[Any, ...]
Bag = Counter[Row]

_COMBINE: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "min": min, "max": max}
_SPARK_TYPES = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "HUGEINT": "bigint",
    "VARCHAR": "string",
    "DOUBLE": "double",
    "FLOAT": "float",
    "BOOLEAN": "boolean",
    "DATE": "date",
}


class World:
    """Tables as they are, as they were before the window, and the difference."""

    def __init__(self, tables: Mapping[str, str]) -> None:
        """`tables` maps a name to its column list, `id INT, k INT`."""
        self.db = duckdb.connect()
        self.db.execute("SET threads = 1")
        self.names = list(tables)
        for schema in ("now", "was"):
            self.db.execute(f"CREATE SCHEMA {schema}")
            for name, columns in tables.items():
                self.db.execute(f"CREATE TABLE {schema}.{name} ({columns})")
        for name in tables:
            self.db.execute(f"CREATE VIEW {name}_now AS SELECT * FROM now.{name}")
            self.db.execute(f"CREATE VIEW {name}_after AS SELECT * FROM now.{name}")
            self.db.execute(f"CREATE VIEW {name}_before AS SELECT * FROM was.{name}")
            self.db.execute(
                f"CREATE TABLE {name}_delta AS SELECT *, 1::BIGINT AS {WEIGHT} FROM now.{name}"
            )
        self.db.execute("SET schema = 'now'")

    @property
    def columns(self) -> dict[TableName, Columns]:
        return {
            TableName.of(name): tuple(
                Column(row[0], spark_type(row[1]))
                for row in self.db.execute(f"DESCRIBE now.{name}").fetchall()
            )
            for name in self.names
        }

    def reset(self) -> None:
        for name in self.names:
            self.db.execute(f"DELETE FROM now.{name}")

    def begin(self) -> None:
        for name in self.names:
            self.db.execute(f"DELETE FROM was.{name}; INSERT INTO was.{name} FROM now.{name}")

    def end(self, noise: bool = False) -> frozenset[TableName]:
        """The window is over: the tables that differ.  `noise`: every row of the delta comes once more
        with both weights, for a delta is not consolidated."""
        changed = set()
        for name in self.names:
            parts = [
                f"SELECT *, 1::BIGINT FROM (FROM now.{name} EXCEPT ALL FROM was.{name})",
                f"SELECT *, -1::BIGINT FROM (FROM was.{name} EXCEPT ALL FROM now.{name})",
            ]
            self.db.execute(f"DELETE FROM main.{name}_delta")
            self.db.execute(f"INSERT INTO main.{name}_delta {' UNION ALL '.join(parts)}")
            rows = self.db.execute(f"SELECT count(*) FROM main.{name}_delta").fetchone()
            if rows and rows[0]:
                changed.add(TableName.of(name))
                if noise:
                    for weight in (1, -1):
                        self.db.execute(
                            f"INSERT INTO main.{name}_delta"
                            f" SELECT *, {weight}::BIGINT FROM now.{name} LIMIT 3"
                        )
        return frozenset(changed)

    def recompute(self, query: str) -> Bag:
        """The user's own text, run by DuckDB."""
        return Counter(self.db.execute(duck(query)).fetchall())

    def rows(self, node: Node) -> list[Row]:
        return self.db.execute(self.sql(node)).fetchall()

    def sql(self, node: Node) -> str:
        text = to_sql(node, _view, "duckdb")
        return text.replace('"main.', 'main."')

    def bind(self, name: str, node: Node, rows: Sequence[Row]) -> Given:
        """Rows with the columns and types of a node, as a relation of that name."""
        self.db.execute(
            f"CREATE OR REPLACE TABLE main.{name} AS SELECT * FROM ({self.sql(node)}) LIMIT 0"
        )
        if rows:
            marks = ", ".join("?" for _ in node.columns)
            self.db.executemany(
                f"INSERT INTO main.{name} VALUES ({marks})", [list(row) for row in rows]
            )
        return Given(name, node.columns)

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        items = tuple(Item(f"e{i}", expr) for i, expr in enumerate(exprs))
        described = self.db.execute("DESCRIBE " + self.sql(Project(node, items))).fetchall()
        return [spark_type(row[1]) for row in described]


def _view(node: Scan | Given) -> str:
    if isinstance(node, Given):
        return f"main.{node.name}"
    return f"main.{node.table.name}_{node.version.value}"


def duck(query: str) -> str:
    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def spark_type(text: str) -> str:
    return _SPARK_TYPES.get(text, text.lower())


class Obstructed(AssertionError):
    def __init__(self, lowered: Lowered) -> None:
        super().__init__("; ".join(map(str, lowered.obstacles)))
        self.codes = {found.code for found in lowered.obstacles}


class Kept:
    """One stream table: stored rows, kept by its maintenance, checked against recomputing."""

    def __init__(self, world: World, query: str, views: Mapping[str, str] | None = None) -> None:
        self.world, self.query, self.views = world, query, views or {}
        self.lowered = self._lower()
        if self.lowered.plan is None:
            raise Obstructed(self.lowered)
        self.plan = self.lowered.plan
        self.kept: Maintenance = maintenance(self.plan)
        self.stored: list[Row] = world.rows(self.kept.full)
        self.check()

    @classmethod
    def of(cls, world: World, query: str) -> Kept | None:
        """None for a floating-point aggregate below another operator, which cannot be kept."""
        try:
            return cls(world, query)
        except Obstructed as found:
            assert found.codes == {"INEXACT_AGGREGATE"}, found
            return None

    def _lower(self) -> Lowered:
        views = {TableName.parse(name): text for name, text in self.views.items()}
        described = self.world.db.execute("DESCRIBE " + duck(self._inlined())).fetchall()
        names = tuple(f"c{i}" for i in range(len(described)))
        output = tuple(
            Column(name, spark_type(row[1])) for name, row in zip(names, described, strict=True)
        )
        return lower(self.query, self.world.columns, views, self.world.types, output=output)

    def _inlined(self) -> str:
        for name, text in self.views.items():
            self.world.db.execute(f"CREATE OR REPLACE VIEW now.{name} AS {duck(text)}")
        return self.query

    @property
    def visible(self) -> Bag:
        width = len(self.plan.columns)
        return Counter(row[:width] for row in self.stored)

    def check(self) -> None:
        expected = self.world.recompute(self.query)
        assert _rounded(self.visible) == _rounded(expected), (
            f"{self.query}\nkept {dict(self.visible)}\nnot  {dict(expected)}"
        )

    def refresh(self, changed: frozenset[TableName]) -> None:
        match self.kept:
            case ByRows():
                self._by_rows(self.kept, changed)
            case Combine():
                self._combine(self.kept, changed)
            case Replace():
                self._replace(self.kept, changed)
        self.check()

    def _by_rows(self, kept: ByRows, changed: frozenset[TableName]) -> None:
        plan = kept.delta(changed)
        if plan is None:
            return
        assert plan.columns == (*self.plan.columns, WEIGHT)
        stored = Counter(self.stored)
        for *row, weight in self.world.rows(simplify(plan)):
            assert weight in (1, -1)
            stored[tuple(row)] += weight
        assert all(count >= 0 for count in stored.values()), f"{self.query}\nnegative {stored}"
        self.stored = list(stored.elements())

    def _combine(self, kept: Combine, changed: frozenset[TableName]) -> None:
        plan = kept.change(changed)
        if plan is None:
            return
        key_names = [key.name for key in kept.keys]
        groups = self._by_key(kept.full.columns, self.stored, key_names)
        doubted = []
        for change in self._dicts(plan.columns, self.world.rows(plan)):
            key = tuple(change[name] for name in key_names)
            new = dict.fromkeys(kept.full.columns) | dict(zip(key_names, key, strict=True))
            if self._merge(kept, groups.setdefault(key, new), change):
                doubted.append(key)
        self._rescan(kept, groups, doubted, key_names)
        alive = [g for g in groups.values() if g["_ab_n"] or not key_names]
        assert all(g["_ab_n"] >= 0 for g in alive)
        self._output(kept, alive)

    def _by_key(
        self, columns: Sequence[str], rows: Sequence[Row], keys: Sequence[str]
    ) -> dict[Row, dict[str, Any]]:
        found = {}
        for group in self._dicts(columns, rows):
            found[tuple(group[name] for name in keys)] = group
        assert len(found) == len(rows)
        return found

    def _dicts(self, columns: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _merge(self, kept: Combine, old: dict[str, Any], change: dict[str, Any]) -> bool:
        """New state in `old`; True when an extremum may have been deleted."""
        doubt = False
        for state in kept.state:
            before = old[state.name]
            values = [value for value in (before, change[state.name]) if value is not None]
            combine = _COMBINE[state.combine]
            old[state.name] = combine(values) if values else None
            if state.deleted and (gone := change[state.deleted]) is not None:
                doubt |= before is None or (
                    gone <= before if state.combine == "min" else gone >= before
                )
        return doubt

    def _rescan(
        self, kept: Combine, groups: dict[Row, dict[str, Any]], doubted: list[Row], names: list[str]
    ) -> None:
        if not doubted:
            return
        if names:
            keys = self.world.bind("keys", kept.groups(kept.input), doubted)
        else:
            keys = Given("keys", ("nothing",))
        plan = kept.rescan(keys)
        seen = set()
        for row in self._dicts(plan.columns, self.world.rows(plan)):
            key = tuple(row[name] for name in names)
            seen.add(key)
            groups[key].update(row)
        assert all(key in seen or not groups[key]["_ab_n"] for key in doubted)

    def _output(self, kept: Combine, groups: list[dict[str, Any]]) -> None:
        source = kept.groups(kept.input, tuple(Call(s.name, s.initial) for s in kept.state))
        rows = [tuple(group[name] for name in source.columns) for group in groups]
        given = self.world.bind("merged", source, rows)
        hidden = tuple(Item(each.name, Expr(f"`{each.name}`")) for each in kept.hidden)
        self.stored = self.world.rows(Project(given, (*kept.outputs, *hidden)))

    def _replace(self, kept: Replace, changed: frozenset[TableName]) -> None:
        touched = kept.touched(changed)
        if touched is None:
            return
        if not kept.keys:
            self.stored = self.world.rows(kept.recompute(None))
            return
        keys = self.world.rows(touched)
        assert len(set(keys)) == len(keys)
        names = [key.name for key in kept.keys]
        groups = self._by_key(kept.full.columns, self.stored, names)
        for key in keys:
            groups.pop(key, None)
        given = self.world.bind("keys", touched, keys)
        fresh = self.world.rows(kept.recompute(given))
        assert {tuple(g[n] for n in names) for g in self._dicts(kept.full.columns, fresh)} <= set(
            keys
        )
        rest = [tuple(group[name] for name in kept.full.columns) for group in groups.values()]
        self.stored = [*rest, *fresh]


def _rounded(bag: Bag) -> Bag:
    """DuckDB adds floating-point numbers in any order, too."""
    return Counter({tuple(_round(cell) for cell in row): count for row, count in bag.items()})


def _round(cell: Any) -> Any:
    return float(f"{cell:.9g}") if isinstance(cell, float) else cell

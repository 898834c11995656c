"""A stream table kept on DuckDB: the reference that says what every maintenance must come to.

The world is a DuckDB database with the tables of the schema `now`.  A window copies it to `was`, lets
statements change it, and brings the stored rows up to date from the differences alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property, lru_cache
from typing import Any

import duckdb

from anabranch.delta.first import STORED
from anabranch.delta.maintenance import ByRows, Combine, Maintenance, Replace, maintenance
from anabranch.model import Column, Columns, RangeSet, joined
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import WEIGHT, Call, Filter, Item, Node, Parameter, Project, Scan, Window
from anabranch.plan.optimize import DELTA_RULES, KEY_RULES, QUERY_RULES, optimize
from anabranch.plan.rules.push_ranges import inside, ranges_of
from anabranch.plan.statistics import NONE, Limits, Statistics, TableStatistics
from anabranch.plan.walk import transform, walk
from anabranch.sql.lower.query import Lowered, lower
from tests.oracle.duck import duck, place, plan_text

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
    '"NULL"': "void",  # a column that is NULL in every row
}
LARGE = 10  # rows of a table that is worth a look, as far as plans are told
_KINDS = {**dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"), "date": "date"}


class World:
    """Tables as they are, as they were before the window, and the difference."""

    def __init__(
        self, tables: Mapping[str, str], large: Iterable[str] = (), *, narrows: bool = True
    ) -> None:
        """`tables` maps a name to its column list, `id INT, k INT`; the `large` are worth a look.
        With `narrows` tables are read only where keys can lie: each window has plans of its own."""
        self.narrows = narrows
        self.large = [TableName.of(name) for name in large]
        self.db = duckdb.connect()
        self.db.execute("SET threads = 1")
        self.db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark
        self.names = list(tables)
        for schema in ("now", "was"):
            self.db.execute(f"CREATE SCHEMA {schema}")
            for name, columns in tables.items():
                self.db.execute(f"CREATE TABLE {schema}.{name} ({columns})")
        for name in tables:
            self.db.execute(
                f"CREATE TABLE {name}_delta AS SELECT *, 1::BIGINT AS {WEIGHT} FROM now.{name}"
            )
        self.db.execute("SET schema = 'now'")
        self._was: dict[str, Bag] = {name: Counter() for name in tables}
        self._moved: dict[str, list[Row]] = {}
        self._lowered: dict[str, Lowered] = {}
        self._statistics: Statistics | None = None

    @cached_property
    def columns(self) -> dict[TableName, Columns]:
        return {
            TableName.of(name): tuple(
                Column(row[0], spark_type(row[1]))
                for row in self.db.execute(f"DESCRIBE now.{name}").fetchall()
            )
            for name in self.names
        }

    def reset(self) -> None:
        self.db.execute("; ".join(f"DELETE FROM now.{name}" for name in self.names))

    def begin(self, names: Iterable[str] | None = None) -> None:
        """A window begins.  `names`: the only tables that may differ from what they were."""
        for name in self.names if names is None else names:
            now = self._bag(name)
            if now != self._was[name]:
                self.db.execute(f"DELETE FROM was.{name}; INSERT INTO was.{name} FROM now.{name}")
                self._was[name] = now

    def end(self, noise: bool = False, names: Iterable[str] | None = None) -> frozenset[TableName]:
        """The window is over: the tables that differ.  `noise`: rows come once more with both
        weights, for a delta is not consolidated."""
        for name in self._moved:
            self.db.execute(f"DELETE FROM main.{name}_delta")
        self._moved, self._statistics = {}, None
        for name in self.names if names is None else names:
            now, was = self._bag(name), self._was[name]
            rows = [(*row, 1) for row in (now - was).elements()]
            rows += [(*row, -1) for row in (was - now).elements()]
            if rows:
                if noise:
                    rows += [(*row, sign) for row in list(now)[:3] for sign in (1, -1)]
                self._moved[name] = rows
                self._insert(f"main.{name}_delta", rows)
        return frozenset(map(TableName.of, self._moved))

    def _bag(self, name: str) -> Bag:
        return Counter(fetched(self.db.execute(f"FROM now.{name}")))

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        one = f"({', '.join('?' for _ in rows[0])})"
        values = ", ".join(one for _ in rows)
        self.db.execute(
            f"INSERT INTO {table} VALUES {values}", [cell for row in rows for cell in row]
        )

    def lower(self, query: str, views: Mapping[str, str]) -> Lowered:
        """The query's plan, its columns named c0, c1, …; that of the last query is remembered."""
        if views:
            return self._lower(query, views)
        if query not in self._lowered:
            self._lowered = {query: self._lower(query, views)}
        return self._lowered[query]

    def _lower(self, query: str, views: Mapping[str, str]) -> Lowered:
        for name, text in views.items():
            self.db.execute(f"CREATE OR REPLACE VIEW now.{name} AS {duck(text)}")
        described = self.db.execute("DESCRIBE " + duck(query)).fetchall()
        output = tuple(Column(f"c{i}", spark_type(row[1])) for i, row in enumerate(described))
        texts = {TableName.parse(name): text for name, text in views.items()}
        return lower(query, self.columns, texts, self.types, output=output)

    def recompute(self, query: str) -> Bag:
        """The user's own text, run by DuckDB."""
        return Counter(fetched(self.db.execute(duck(query))))

    def rows(self, node: Node, limits: Limits = NONE) -> list[Row]:
        return fetched(self.db.execute(self.sql(node, limits)))

    def sql(self, node: Node, limits: Limits = NONE) -> str:
        return _sql(optimize(node, DELTA_RULES, self.statistics.given_that(limits)))

    def ranges(self, node: Node) -> Limits:
        """Where the values of a plan lie."""
        return ranges_of(optimize(node, KEY_RULES), self.statistics)

    @property
    def statistics(self) -> Statistics:
        """What is known of this window."""
        if self._statistics is None:
            tables = {name: self._table(name) for name in self.columns}
            self._statistics = Statistics(tables, large=LARGE)
        return self._statistics

    def _table(self, name: TableName) -> TableStatistics:
        columns = [each.name for each in self.columns[name]]
        rows = LARGE + self.large.index(name) if name in self.large else 0
        if not self.narrows:
            return TableStatistics(rows, same=frozenset(columns))
        kinds = {each: kind for each in columns if (kind := self.kind(name, each)) is not None}
        changed = {each: self.changed(name, each) for each in kinds}
        return TableStatistics(rows, kinds, frozenset(columns), changed)

    def kind(self, table: TableName, column: str) -> str | None:
        return self._kinds.get((table, column))

    @cached_property
    def _kinds(self) -> dict[tuple[TableName, str], str]:
        return {
            (table, each.name): _KINDS[each.type]
            for table, columns in self.columns.items()
            for each in columns
            if each.type in _KINDS
        }

    def changed(self, table: TableName, column: str) -> RangeSet:
        """As narrow as can be: the values themselves."""
        kind = self._kinds[table, column]
        at = [each.name for each in self.columns[table]].index(column)
        values = {row[at] for row in self._moved.get(table.name, ())}
        numbers = (_number(value) for value in values - {None})
        return RangeSet(kind, joined((each, each) for each in numbers), None in values)

    def keep(self, name: str, node: Node) -> tuple[Parameter, list[Row]]:
        """The rows of a node, which are also a relation of that name."""
        self.db.execute(f"CREATE OR REPLACE TABLE main.{name} AS {self.sql(node)}")
        rows = fetched(self.db.execute(f"FROM main.{name}"))
        return Parameter(name, node.columns), rows

    def bind(self, name: str, node: Node, rows: Sequence[Row]) -> Parameter:
        """Rows with the columns and types of a node, as a relation of that name."""
        self.db.execute(
            f"CREATE OR REPLACE TABLE main.{name} AS SELECT * FROM ({self.sql(node)}) LIMIT 0"
        )
        if rows:
            self._insert(f"main.{name}", rows)
        return Parameter(name, node.columns)

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        items = tuple(Item(f"e{i}", expr) for i, expr in enumerate(exprs))
        described = self.db.execute("DESCRIBE " + self.sql(Project(node, items))).fetchall()
        return [spark_type(row[1]) for row in described]


@lru_cache(maxsize=64)
def _sql(node: Node) -> str:
    """Windows that change the same rows have the same plans."""
    return plan_text(transform(node, _bare), place)


def _bare(node: Node) -> Node:
    """A scan that leaves out what it may, as a condition over one that does not."""
    if not isinstance(node, Scan) or not node.ranges:
        return node
    return Filter(replace(node, ranges=()), inside(node.ranges))


def _number(value: Any) -> int:
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else int(value)


def spark_type(text: str) -> str:
    return _SPARK_TYPES.get(text, text.lower())


class Wrong(AssertionError):
    """Rows that are not those of the query.  `part` is what is to blame: the plan or its delta."""

    def __init__(self, part: str, query: str, found: Bag, expected: Bag) -> None:
        super().__init__(
            f"the {part} is wrong\n{query}\n"
            f"unexpected {dict(found - expected)}\nmissing    {dict(expected - found)}"
        )
        self.part = part


class Obstructed(AssertionError):
    def __init__(self, lowered: Lowered) -> None:
        super().__init__("; ".join(map(str, lowered.obstacles)))
        self.codes = {found.code for found in lowered.obstacles}


class Kept:
    """One stream table: stored rows, kept by its maintenance, checked against recomputing."""

    def __init__(
        self,
        world: World,
        query: str,
        views: Mapping[str, str] | None = None,
        expected: Bag | None = None,
    ) -> None:
        """`expected` are the rows of the query, if they are known."""
        self.world, self.query = world, query
        lowered = world.lower(query, views or {})
        if lowered.plan is None:
            raise Obstructed(lowered)
        self.plan = lowered.plan
        self.kept: Maintenance = maintenance(self.plan)
        self.stored: list[Row] = world.rows(self.kept.full)
        self.is_open = _is_open(self.plan)
        if not self.is_open:
            known = world.recompute(query) if expected is None else expected
            self._compare("plan", self.visible, known)

    @property
    def visible(self) -> Bag:
        return self._visible(self.stored)

    def _visible(self, rows: Sequence[Row]) -> Bag:
        width = len(self.plan.columns)
        return Counter(row[:width] for row in rows)

    def check(self) -> None:
        """The query and what is kept come to the same; if not, it may be the plan's fault."""
        if self.is_open:
            self._compare("delta", self.visible, self._planned())
            return
        expected = self.world.recompute(self.query)
        try:
            self._compare("delta", self.visible, expected)
        except Wrong:
            self._compare("plan", self._planned(), expected)
            raise

    def _planned(self) -> Bag:
        return self._visible(self.world.rows(self.kept.full))

    def _compare(self, part: str, found: Bag, expected: Bag) -> None:
        if found != expected and _rounded(found) != _rounded(expected):
            raise Wrong(part, self.query, found, expected)

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
        for *row, weight in self.world.rows(optimize(plan, QUERY_RULES)):
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
        self._rescan(kept, plan, groups, doubted)
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

    def _first_rows(self, kept: Replace, changed: frozenset[TableName]) -> list[Row] | None:
        """None when others must be looked for."""
        if kept.first is None or kept.first.limit is None:
            return None
        whole = len(self.stored) < kept.first.limit
        plan = kept.from_stored(changed, complete=whole)
        assert plan is not None
        self.world.bind(STORED, kept.full, self.stored)
        found = self.world.rows(plan)
        return found if whole or len(found) == kept.first.limit else None

    def _rescan(
        self, kept: Combine, change: Node, groups: dict[Row, dict[str, Any]], doubted: list[Row]
    ) -> None:
        if not doubted:
            return
        if names := [key.name for key in kept.keys]:
            keys = self.world.bind("keys", kept.groups(kept.input), doubted)
            limits = self.world.ranges(change)
        else:
            self.world.db.execute("CREATE OR REPLACE TABLE main.keys AS SELECT 1 AS _ab_any")
            keys, limits = Parameter("keys", ("_ab_any",)), NONE
        plan = kept.rescan(keys)
        seen = set()
        for row in self._dicts(plan.columns, self.world.rows(plan, limits)):
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
            self.stored = self._first_rows(kept, changed) or self.world.rows(kept.recompute(None))
            return
        given, keys = self.world.keep("keys", touched)
        assert len(set(keys)) == len(keys)
        names = [key.name for key in kept.keys]
        touched_keys = set(keys)
        rest = [
            row
            for row, group in zip(
                self.stored, self._dicts(kept.full.columns, self.stored), strict=True
            )
            if tuple(group[name] for name in names) not in touched_keys
        ]
        fresh = self.world.rows(kept.recompute(given), self.world.ranges(touched))
        assert {tuple(g[n] for n in names) for g in self._dicts(kept.full.columns, fresh)} <= set(
            keys
        )
        self.stored = [*rest, *fresh]


NAN = float("nan")  # a set knows it again: it is the same object


def fetched(cursor: duckdb.DuckDBPyConnection) -> list[Row]:
    """The rows, in which NaN is one value."""
    return [
        tuple(NAN if cell != cell else cell for cell in row)
        if any(cell != cell for cell in row)
        else row
        for row in cursor.fetchall()
    ]


def _is_open(plan: Node) -> bool:
    """Whether two windows order equal rows, each its own way: which of their answers stand side by
    side is for the plan to say, whose second window goes on over the answers of the first."""
    calls = (call for node in walk(plan) if isinstance(node, Window) for call in node.calls)
    return any(name.startswith("_ab_win") for call in calls for name in call.expr.columns)


def _rounded(bag: Bag) -> Bag:
    """DuckDB adds floating-point numbers in any order, too."""
    return Counter({tuple(_round(cell) for cell in row): count for row, count in bag.items()})


def _round(cell: Any) -> Any:
    return float(f"{cell:.9g}") if isinstance(cell, float) and cell == cell else cell

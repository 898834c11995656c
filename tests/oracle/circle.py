"""A component kept on DuckDB: the same rounds as on Spark, over tables of a small database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from anabranch.delta.fixpoint import (
    REMOVED,
    Counts,
    Settled,
    Span,
    Spans,
    follow,
    from_empty,
)
from anabranch.delta.member import Member, among_rows, without
from anabranch.names import TableName
from anabranch.plan.exprs import column
from anabranch.plan.monotone import not_monotone
from anabranch.plan.nodes import WEIGHT, Aggregate, Given, Item, Node, Scan, Version
from anabranch.sql.lower import lower
from tests.oracle.duck import place, plan_text
from tests.oracle.kept import Bag, World

LIMIT = 200
ROWS = "* EXCLUDE (_ab_batch)"


class Circle:
    """Members and their rows; `world` holds the sources, and the members as empty tables."""

    def __init__(self, world: World, queries: Mapping[str, str]) -> None:
        self.world, self.queries = world, dict(queries)
        self.db = world.db
        self.db.execute("CREATE OR REPLACE MACRO raise_error(x) AS error(x)")
        names = {name: TableName.of(name) for name in queries}
        circle = frozenset(names.values())
        self.members: list[Member] = []
        for name, query in queries.items():
            lowered = lower(
                query, world.columns, {}, world.types, output=world.columns[names[name]]
            )
            assert lowered.plan is not None, lowered.obstacles
            assert not list(not_monotone(lowered.plan, circle))
            self.members.append(Member(names[name], lowered.plan, circle))
            empty = f"SELECT * FROM now.{name} LIMIT 0"
            self.db.execute(f"CREATE OR REPLACE TABLE main.{name}_old AS {empty}")
            for kind in ("rows", "lost"):
                self.db.execute(
                    f"CREATE OR REPLACE TABLE main.{name}_{kind} AS "
                    f"SELECT 0 AS _ab_batch, * FROM now.{name} LIMIT 0"
                )
        self.down = False
        self.texts: dict[Node, tuple[str, list[Scan | Given]]] = {}

    # -- as the outside sees it ------------------------------------------------------------------

    def fill(self) -> Settled:
        done = from_empty(self, self.members, LIMIT, _nothing)
        self._store()
        return done

    def refresh(self, changed: frozenset[TableName], *, insert_only: bool) -> Settled:
        gains = insert_only and not any(
            list(not_monotone(member.plan, changed)) for member in self.members
        )
        self._begin()
        stored = sum(sum(self.bag(name).values()) for name in self.queries)
        done = follow(
            self,
            self.members,
            changed,
            only_gains=gains,
            bound=(stored + 1) / 2,
            limit=LIMIT,
            watch=_nothing,
        )
        self._store()
        return done

    def bag(self, name: str) -> Bag:
        return Counter(self.db.execute(f"FROM main.{name}_old").fetchall())

    def least(self) -> dict[str, Bag]:
        """The queries themselves, from empty tables on, until nothing changes."""
        found: dict[str, Bag] = {name: Counter() for name in self.queries}
        for name in self.queries:
            self.db.execute(f"DELETE FROM now.{name}")
        while True:
            rows = {name: self.world.recompute(query) for name, query in self.queries.items()}
            if rows == found:
                break
            found = rows
            for name, bag in rows.items():
                self.db.execute(f"DELETE FROM now.{name}")
                if bag:
                    self.world._insert(f"now.{name}", list(bag.elements()))
        for name in self.queries:
            self.db.execute(f"DELETE FROM now.{name}")
        return found

    # -- the bench -------------------------------------------------------------------------------

    def clear(self) -> None:
        self.down = False
        for name in self.queries:
            self.db.execute(f"DELETE FROM main.{name}_rows")

    def _begin(self) -> None:
        self.down = True
        for name in self.queries:
            self.db.execute(f"DELETE FROM main.{name}_rows; DELETE FROM main.{name}_lost")
            self.db.execute(f"INSERT INTO main.{name}_rows SELECT -1, * FROM main.{name}_old")

    def remove(self) -> None:
        self.down = False
        for member in self.members:
            name = member.name.name
            self._make(
                "kept",
                without(Given(f"{name}_old", member.columns), member.given(REMOVED)),
                {},
                member,
            )
            self.db.execute(f"DELETE FROM main.{name}_rows")
            self.db.execute(f"INSERT INTO main.{name}_rows SELECT -1, * FROM main.kept")

    def add(self, member: Member, lines: Node, spans: Spans) -> int:
        self.down = False
        lines = self._distinct(member, lines) if member.is_set else lines
        self._make("lines", lines, spans, member)
        if member.is_set:
            self._make("fresh", without(member.given("lines"), member.now), spans, member)
        else:
            self.db.execute("CREATE OR REPLACE TABLE main.fresh AS FROM main.lines")
        return self._append(member, "rows", spans[member.name].after)

    def take(self, member: Member, lines: Node, spans: Spans, *, seeds: bool) -> int:
        self.down = True
        self._make("lines", self._distinct(member, lines), spans, member)
        given: Node = member.given("lines")
        if seeds:
            given = among_rows(given, member.now)
        self._make("fresh", without(given, member.given(REMOVED)), spans, member)
        batch = self.db.execute(
            f"SELECT count(DISTINCT _ab_batch) FROM main.{member.name.name}_lost"
        ).fetchone()
        assert batch is not None
        return self._append(member, "lost", batch[0])

    def _distinct(self, member: Member, lines: Node) -> Node:
        return Aggregate(lines, tuple(Item(name, column(name)) for name in member.columns))

    def _append(self, member: Member, kind: str, batch: int) -> int:
        row = self.db.execute("SELECT count(*) FROM main.fresh").fetchone()
        assert row is not None
        self.db.execute(
            f"INSERT INTO main.{member.name.name}_{kind} SELECT {batch}, * FROM main.fresh"
        )
        return int(row[0])

    def _make(self, name: str, node: Node, spans: Spans, member: Member) -> None:
        if node not in self.texts:
            self.texts[node] = _text(node, self.queries)
        text, leaves = self.texts[node]
        for leaf in leaves:
            if isinstance(leaf, Scan):
                self._view(leaf, spans)
            else:
                lost = f"SELECT {ROWS} FROM main.{member.name.name}_lost"
                self.db.execute(f"CREATE OR REPLACE VIEW main.{REMOVED} AS {lost}")
        self.db.execute(f"CREATE OR REPLACE TABLE main.{name} AS {text}")

    def _view(self, leaf: Scan, spans: Spans) -> None:
        name, version = leaf.table.name, leaf.version
        span = spans.get(leaf.table, Span(0, 0))
        kind, sign = ("lost", -1) if self.down else ("rows", 1)
        if version is Version.DELTA:
            where = f"_ab_batch >= {span.before} AND _ab_batch < {span.after}"
            text = f"SELECT {ROWS}, {sign}::BIGINT AS {WEIGHT} FROM main.{name}_{kind}"
        elif self.down:
            where, text = "true", f"SELECT * FROM main.{name}_old"
        else:
            end = span.before if version is Version.BEFORE else span.after
            where, text = f"_ab_batch < {end}", f"SELECT {ROWS} FROM main.{name}_rows"
        made = f"{name}_{version.value}_seen"
        self.db.execute(f"CREATE OR REPLACE VIEW main.{made} AS {text} WHERE {where}")

    def _store(self) -> None:
        for name in self.queries:
            self.db.execute(f"DELETE FROM main.{name}_old")
            self.db.execute(f"INSERT INTO main.{name}_old SELECT {ROWS} FROM main.{name}_rows")
            self.db.execute(f"DELETE FROM main.{name}_rows; DELETE FROM main.{name}_lost")


def _text(node: Node, members: Collection[str]) -> tuple[str, list[Scan | Given]]:
    """The SQL of a plan, and the relations of it that are other ones in each round."""
    moving: dict[Scan | Given, None] = {}

    def view(leaf: Scan | Given) -> str:
        if isinstance(leaf, Given):
            if leaf.name == REMOVED:
                moving[leaf] = None
            return f"main.{leaf.name}"
        if leaf.table.name not in members:
            return place(leaf)
        moving[leaf] = None
        return f"main.{leaf.table.name}_{leaf.version.value}_seen"

    return plan_text(node, view), list(moving)


def _nothing(_: Counts) -> None:
    pass


Edge = tuple[int, int | None]


def closure_of(rows: Sequence[Edge]) -> set[Edge]:
    """Transitive closure, plainly; a path ends where a node is not known."""
    after: dict[int | None, set[int | None]] = {}
    for source, target in rows:
        after.setdefault(source, set()).add(target)
    pairs: set[Edge] = set()
    for start in after:
        assert start is not None
        waiting: list[int | None] = [start]
        seen: set[int | None] = set()
        while waiting:
            for target in after.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        pairs |= {(start, target) for target in seen}
    return pairs

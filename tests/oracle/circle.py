"""A component kept on DuckDB: the same rounds as on Spark, over tables of a small database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp

from anabranch.delta.fixpoint import (
    REMOVED,
    BatchRange,
    BatchRanges,
    Converged,
    Counts,
    Meter,
    follow,
    from_empty,
)
from anabranch.delta.member import Member, among_rows, without
from anabranch.model import FixpointBounds
from anabranch.names import TableName
from anabranch.plan.exprs import column
from anabranch.plan.monotone import not_monotone
from anabranch.plan.nodes import WEIGHT, Aggregate, Item, Node, Parameter, Scan, Version
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.sql.lower.query import lower
from tests.oracle.duck import place, plan_text
from tests.oracle.kept import Bag, World, fetched

LIMIT = 200
PlanText = Callable[[Node, Callable[[Scan | Parameter], str]], str]
ROWS = "* EXCLUDE (_ab_batch)"


class Circle:
    """Members and their rows; `world` holds the sources, and the members as empty tables."""

    def __init__(
        self, world: World, queries: Mapping[str, str], text: PlanText = plan_text
    ) -> None:
        self.world, self.queries, self.text = world, dict(queries), text
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
            self.db.execute(
                f"CREATE OR REPLACE TABLE main.{name}_old AS FROM now.{name} LIMIT 0;"
                f"CREATE OR REPLACE TABLE main.{name}_rows AS "
                f"SELECT 0 AS _ab_batch, * FROM now.{name} LIMIT 0;"
                f"CREATE OR REPLACE TABLE main.{name}_lost AS FROM main.{name}_rows"
            )
        self.down = False
        self.meter: Meter | None = None
        self.texts: dict[Node, tuple[str, list[Scan | Parameter]]] = {}

    # -- as the outside sees it ------------------------------------------------------------------

    def fill(self) -> Converged:
        done = from_empty(self, self.members, FixpointBounds(LIMIT), _nothing)
        self._store()
        return done

    def refresh(
        self,
        changed: frozenset[TableName],
        *,
        insert_only: bool,
        strict: bool = False,
        careful: bool = False,
    ) -> Converged:
        """`strict`: never from empty, however much is lost."""
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
            give_up=None if strict else (stored + 1) / 2,
            bounds=FixpointBounds(LIMIT),
            watch=_nothing,
            careful=careful,
        )
        self._store()
        return done

    def bag(self, name: str) -> Bag:
        return Counter(fetched(self.db.execute(f"FROM main.{name}_old")))

    def least(self) -> dict[str, Bag]:
        """The queries themselves, from empty tables on, until nothing changes."""
        found: dict[str, Bag] = {name: Counter() for name in self.queries}
        self._empty()
        moved = True
        while moved:
            moved = False
            for name, query in self.queries.items():
                rows = self.world.recompute(without_tuples(query))
                if rows != found[name]:
                    found[name], moved = rows, True
                    self.db.execute(f"DELETE FROM now.{name}")
                    if rows:
                        self.world._insert(f"now.{name}", list(rows.elements()))
        self._empty()
        return found

    def _empty(self) -> None:
        self.db.execute("; ".join(f"DELETE FROM now.{name}" for name in self.queries))

    # -- the bench -------------------------------------------------------------------------------

    def clear(self) -> None:
        self.down = False
        self.db.execute("; ".join(f"DELETE FROM main.{name}_rows" for name in self.queries))

    def _begin(self) -> None:
        self.down = True
        for name in self.queries:
            self.db.execute(
                f"DELETE FROM main.{name}_rows; DELETE FROM main.{name}_lost;"
                f"INSERT INTO main.{name}_rows SELECT -1, * FROM main.{name}_old"
            )

    def remove(self) -> None:
        self.down = False
        for member in self.members:
            name = member.name.name
            kept = without(Parameter(f"{name}_old", member.columns), member.given(REMOVED))
            self.db.execute(f"DELETE FROM main.{name}_rows")
            self._insert(f"{name}_rows", -1, kept, {}, member)

    def add(self, member: Member, records: Node, ranges: BatchRanges) -> int:
        self.down = False
        if member.is_set:
            records = without(self._distinct(member, records), member.now)
        batch = ranges[member.name].after
        return self._insert(f"{member.name.name}_rows", batch, records, ranges, member)

    def take(self, member: Member, records: Node, ranges: BatchRanges, *, seeds: bool) -> int:
        self.down = True
        records = self._distinct(member, records)
        if seeds:
            records = among_rows(records, member.now)
        records = without(records, member.given(REMOVED))
        table = f"{member.name.name}_lost"
        batch = self.db.execute(f"SELECT count(DISTINCT _ab_batch) FROM main.{table}").fetchone()
        assert batch is not None
        return self._insert(table, batch[0], records, ranges, member)

    def _distinct(self, member: Member, records: Node) -> Node:
        return Aggregate(records, tuple(Item(name, column(name)) for name in member.columns))

    def _insert(
        self, table: str, batch: int, node: Node, ranges: BatchRanges, member: Member
    ) -> int:
        text = self._text(node, ranges, member)
        row = self.db.execute(
            f"INSERT INTO main.{table} SELECT {batch}, * FROM ({text})"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _text(self, node: Node, ranges: BatchRanges, member: Member) -> str:
        """The SQL of a plan, with what its moving relations are just now."""
        if node not in self.texts:
            self.texts[node] = _template(optimize(node, KEY_RULES), self.queries, self.text)
        text, leaves = self.texts[node]
        for leaf in leaves:
            if isinstance(leaf, Parameter):
                rows = f"SELECT {ROWS} FROM main.{member.name.name}_lost"
            else:
                rows = self._rows(leaf, ranges)
            schema, _, name = _seen(leaf).partition(".")
            for written in (f'{schema}."{name}"', f"{schema}.{name}"):
                text = text.replace(written, f"({rows})")
        return text

    def _rows(self, leaf: Scan, ranges: BatchRanges) -> str:
        name, version = leaf.table.name, leaf.version
        batch_range = ranges.get(leaf.table, BatchRange(0, 0))
        kind, sign = ("lost", -1) if self.down else ("rows", 1)
        if version is Version.DELTA:
            return (
                f"SELECT {ROWS}, {sign}::BIGINT AS {WEIGHT} FROM main.{name}_{kind} "
                f"WHERE _ab_batch >= {batch_range.before} AND _ab_batch < {batch_range.after}"
            )
        if self.down:
            return f"SELECT * FROM main.{name}_old"
        end = batch_range.before if version is Version.BEFORE else batch_range.after
        return f"SELECT {ROWS} FROM main.{name}_rows WHERE _ab_batch < {end}"

    def _store(self) -> None:
        for name in self.queries:
            self.db.execute(
                f"DELETE FROM main.{name}_old;"
                f"INSERT INTO main.{name}_old SELECT {ROWS} FROM main.{name}_rows;"
                f"DELETE FROM main.{name}_rows; DELETE FROM main.{name}_lost"
            )


def _template(
    node: Node, members: Collection[str], text: PlanText
) -> tuple[str, list[Scan | Parameter]]:
    """The SQL of a plan, and the relations of it that are other ones in each round."""
    moving: dict[Scan | Parameter, None] = {}

    def view(leaf: Scan | Parameter) -> str:
        if isinstance(leaf, Parameter) and leaf.name != REMOVED:
            return f"main.{leaf.name}"
        if isinstance(leaf, Scan) and leaf.table.name not in members:
            return place(leaf)
        moving[leaf] = None
        return _seen(leaf)

    return text(node, view), list(moving)


def _seen(leaf: Scan | Parameter) -> str:
    if isinstance(leaf, Parameter):
        return f"main.{leaf.name}_seen"
    return f"main.{leaf.table.name}_{leaf.version.value}_seen"


def _nothing(_: Counts) -> None:
    pass


@lru_cache(maxsize=100)
def without_tuples(query: str) -> str:
    """(a, b) IN (SELECT …) as EXISTS, since DuckDB cannot correlate the former; in a cycle only its
    truth counts."""
    if ") IN (SELECT" not in query:
        return query
    return sqlglot.parse_one(query, read="spark").transform(_exists).sql("spark")


def _exists(node: exp.Expr) -> exp.Expr:
    if not (isinstance(node, exp.In) and isinstance(node.this, exp.Tuple) and node.args["query"]):
        return node
    found = node.args["query"].this
    pairs = zip(node.this.expressions, found.selects, strict=True)
    return exp.Exists(this=found.where(*(exp.EQ(this=one, expression=two) for one, two in pairs)))


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

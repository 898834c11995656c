"""A new operator is its class and its delta rule: nothing else in the engine has to know of it.

`Duplicate` gives every row several times.  It is printed, pruned, asked for keys and for what it
compares, limited to ranges, written as SQL, differentiated, maintained and over-deleted like any other,
on random queries and rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import pytest
from sqlglot import exp

from anabranch.delta.explain import explain
from anabranch.delta.maintenance import ByRows, maintenance
from anabranch.delta.member import Member
from anabranch.delta.rule import Changed, Rule, differentiates
from anabranch.model import Column, RangeSet
from anabranch.names import TableName
from anabranch.plan.demand import Operator
from anabranch.plan.exprs import Expr, column
from anabranch.plan.monotone import not_monotone
from anabranch.plan.nodes import (
    WEIGHT,
    Call,
    Candidates,
    Filter,
    Generate,
    Item,
    Join,
    Node,
    On,
    OverOne,
    Parameter,
    Project,
    Scan,
    Sql,
    UnionAll,
    Version,
    items_of,
)
from anabranch.plan.optimize import DELTA_RULES, QUERY_RULES, optimize
from anabranch.plan.rules.push_keys import filter_keys
from anabranch.plan.show import show
from anabranch.plan.statistics import Statistics, TableStatistics
from anabranch.plan.walk import transform, walk
from anabranch.refresh.fingerprint import Spelling
from anabranch.refresh.verify import is_computed
from anabranch.sql.lower import query as lowering
from anabranch.sql.lower.known_types import known_type
from anabranch.sql.render import to_sql
from tests.oracle import data
from tests.oracle.kept import Kept, World
from tests.oracle.queries import draw
from tests.oracle.tables import TABLES

QUERIES = 60  # random queries, each with the operator above every table that it reads
A = TableName.of("a")


@dataclass(frozen=True)
class Duplicate(OverOne):
    """Every row of the input, several times."""

    times: int

    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True

    def uses(self, needed: frozenset[str]) -> tuple[frozenset[str], ...]:
        return (needed,)

    def routes(self, on: On) -> tuple[On, ...]:
        return (on,)

    @property
    def key_candidates(self) -> Candidates:
        return ()

    @property
    def head(self) -> str:
        return f"Duplicate {self.times} times"

    def body(self, sql: Sql) -> exp.Query:
        copies = Generate(self.input, Expr(f"EXPLODE(SEQUENCE(1, {self.times}))"), ("_copy",))
        return sql.body(Project(copies, items_of(self.columns)))


@differentiates(Duplicate)
def duplicate(node: Duplicate, changed: Changed, delta: Rule) -> Node | None:
    """Δ(n · R) = n · ΔR"""
    change = delta(node.input, changed)
    return None if change is None else Duplicate(change, node.times)


@dataclass(frozen=True)
class Silent(OverOne):
    """An operator that says nothing of itself but how it is written."""

    def body(self, sql: Sql) -> exp.Query:
        return sql.select(self.input, items_of(self.columns))


@dataclass(frozen=True)
class Counting(Silent):
    """An operator that adds a column."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, "n")

    def defined(self, name: str) -> Call | None:
        return Call("n", Expr("COUNT(*)"), "count") if name == "n" else None


@dataclass(frozen=True)
class Matching(Silent):
    """An operator that compares a value of its own."""

    @property
    def key_candidates(self) -> Candidates:
        return ((self.input, (Expr("`v` COLLATE UTF8_LCASE"),)),)


SCAN = Scan(A, ("id", "k", "v"))
PLAN = Project(Filter(Duplicate(SCAN, 2), Expr("`k` > 1")), items_of(["id"]))


@pytest.fixture(scope="module")
def world() -> World:
    made = World(TABLES)
    made.db.execute("PRAGMA disable_optimizer")
    return made


def test_it_is_printed() -> None:
    assert show(PLAN).splitlines()[2] == "    Duplicate 2 times"


def test_only_columns_that_are_used_are_read_below_it() -> None:
    (scan,) = (part for part in walk(optimize(PLAN, QUERY_RULES)) if isinstance(part, Scan))
    assert scan.names == ("id", "k")


def test_what_tells_nothing_of_its_columns_reads_all_of_them() -> None:
    plan = optimize(Project(Silent(SCAN), items_of(["id"])), QUERY_RULES)
    assert SCAN in set(walk(plan))


def test_keys_are_asked_for_below_it() -> None:
    keys, on = Parameter("keys", ("x",)), ((column("k"), "x"),)
    assert filter_keys(Duplicate(SCAN, 2), keys, on) == Duplicate(filter_keys(SCAN, keys, on), 2)
    assert filter_keys(Silent(SCAN), keys, on).inputs[0] == Silent(SCAN)


def test_ranges_go_through_it_from_below_and_from_above() -> None:
    near = RangeSet("integer", ((1, 3),))
    kinds = {"k": "integer"}
    known = Statistics(
        {
            A: TableStatistics(9, kinds, changed={"k": near}),
            TableName.of("b"): TableStatistics(9, kinds),
        }
    )
    change = Duplicate(Project(Scan(A, ("k",), Version.DELTA), items_of(["k"])), 2)
    other = Project(Scan(TableName.of("b"), ("k",), Version.AFTER), (Item("l", column("k")),))
    found = optimize(Join((change, Duplicate(other, 3)), Expr("`k` = `l`")), DELTA_RULES, known)
    (after,) = (part for part in walk(found) if getattr(part, "version", None) is Version.AFTER)
    assert isinstance(after, Scan) and after.ranges == ((("k", near),),)


def test_it_is_written_as_sql() -> None:
    text = to_sql(PLAN, lambda leaf: "a")
    assert "LATERAL VIEW EXPLODE(SEQUENCE(1, 2))" in text and "WHERE `k` > 1" in text


def test_its_change_is_explained_and_kept_by_rows() -> None:
    kept = maintenance(PLAN)
    assert isinstance(kept, ByRows) and kept.monotone
    assert "Duplicate 2 times\n        Scan default.a [delta]" in explain(kept)


def test_it_has_a_fingerprint() -> None:
    columns = tuple(Column(name, "int") for name in SCAN.names)
    two, three = (Spelling({A: columns}).plan(Duplicate(SCAN, times)) for times in (2, 3))
    assert two[0] == "Duplicate" and two != three


def test_a_member_may_be_read_below_it_only_if_it_says_so() -> None:
    assert not list(not_monotone(Duplicate(SCAN, 2), [A]))
    (broken,) = not_monotone(Silent(SCAN), [A])
    assert broken.operator is Operator.OTHER


def lowered_with(
    above: Callable[[Node], Node], query: str, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The obstacles of a query in whose plan an operator stands above every table."""

    def with_it(plan: Node, rules: Sequence[Any]) -> Node:
        return transform(optimize(plan, rules), lambda n: above(n) if isinstance(n, Scan) else n)

    def types(node: Node, exprs: Sequence[Expr]) -> list[str]:
        return ["string collate UTF8_LCASE" if "COLLATE" in each.text else "int" for each in exprs]

    columns = {A: tuple(Column(name, "string") for name in SCAN.names)}
    with monkeypatch.context() as patched:
        patched.setattr(lowering, "optimize", with_it)
        return [
            f"{e.code} {e.message}" for e in lowering.lower(query, columns, {}, types).obstacles
        ]


JUDGED = "SELECT id, k FROM a WHERE v COLLATE UTF8_LCASE = 'a'"  # row by row


def test_what_does_not_say_what_it_compares_is_refused_where_types_may_have_no_equality(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (said,) = lowered_with(Silent, JUDGED, monkeypatch)
    assert said.startswith("NO_EQUALITY Silent: ")
    assert lowered_with(Silent, "SELECT id, k FROM a WHERE v = 'a'", monkeypatch) == []
    assert lowered_with(lambda node: Duplicate(node, 2), JUDGED, monkeypatch) == []


def test_the_types_of_its_columns_are_known_from_what_it_says() -> None:
    tables = {A: tuple(Column(name, "int") for name in SCAN.names)}
    assert known_type(Duplicate(SCAN, 2), column("k"), tables) == "int"
    assert known_type(Counting(SCAN), column("n"), tables) == "bigint"
    assert known_type(Counting(SCAN), column("k"), tables) == "int"


def test_values_may_come_from_several_rows_unless_it_says_otherwise() -> None:
    assert not is_computed(Duplicate(SCAN, 2))
    assert is_computed(Silent(SCAN))


def test_what_it_compares_has_an_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    (said,) = lowered_with(Matching, JUDGED, monkeypatch)
    assert said.startswith("COLLATION string collate UTF8_LCASE: ")


def test_every_operator_of_a_query_says_what_it_compares(world: World) -> None:
    seen = set()
    for seed in range(QUERIES):
        if (plan := world.lower(draw(seed).text, {}).plan) is not None:
            for node in walk(plan):
                assert node.key_candidates is not None, type(node)
                seen.add(type(node).__name__)
    assert {"Aggregate", "Join", "Outer", "AntiJoin", "Window", "TopK"} <= seen


def test_what_it_may_lose(world: World) -> None:
    """No rule of its own: all that it was, which is at least what goes."""
    member = Member(TableName.of("m"), Duplicate(SCAN, 2), frozenset([A]))
    world.reset()
    world.db.execute("INSERT INTO now.a VALUES (1, 1, 'x'), (2, 2, 'y')")
    world.begin()
    world.db.execute("DELETE FROM now.a WHERE id = 1")
    world.end()
    lost = member.lost(frozenset([A]))
    assert lost is not None
    assert {(1, 1, "x")} <= {row[:3] for row in world.rows(lost)}


@pytest.mark.parametrize("seed", range(QUERIES))
def test_incremental_equals_recompute(world: World, seed: int) -> None:
    drawn = draw(seed)
    lowered = world.lower(drawn.text, {})
    if lowered.plan is None:
        return
    random = Random(f"duplicate {seed}")
    world.reset()
    for statement in data.start(random, drawn.tables):
        world.db.execute(statement)
    kept = OfPlan(world, transform(lowered.plan, doubled))
    for window in data.windows(random, drawn.tables):
        world.begin()
        for statement in window:
            world.db.execute(statement)
        kept.refresh(world.end())


def doubled(node: Node) -> Node:
    return Duplicate(node, 2) if isinstance(node, Scan) else node


def in_other_words(node: Node) -> Node:
    return UnionAll((node.input, node.input)) if isinstance(node, Duplicate) else node


class OfPlan(Kept):
    """A plan that is kept; its query says the same in words that everybody knows."""

    def __init__(self, world: World, plan: Node) -> None:
        self.world, self.query, self.plan = world, show(plan), plan
        self.kept = maintenance(plan)
        self.stored = world.rows(self.kept.full)
        self.check()

    def check(self) -> None:
        known = self.world.rows(transform(self.plan, in_other_words))
        self._compare("delta", self.visible, Counter(known))


def test_a_delta_has_the_columns_of_the_operator() -> None:
    change = ByRows(Duplicate(SCAN, 2)).delta(frozenset([A]))
    assert change is not None and change.columns == ("id", "k", "v", WEIGHT)

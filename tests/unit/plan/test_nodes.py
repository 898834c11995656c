from __future__ import annotations

import pytest

from anabranch.errors import InternalError
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Item,
    Join,
    KeyFilter,
    Node,
    Parameter,
    Project,
    ReducedScan,
    Scan,
    UnionAll,
    Version,
)
from anabranch.plan.optimize import QUERY_RULES, optimize
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.rules.push_keys import filter_keys
from anabranch.plan.show import show
from anabranch.plan.walk import tables

A = Scan(TableName.of("a"), ("id", "k"))


def named(table: str, *columns: str) -> Project:
    scan = Scan(TableName.of(table), columns)
    return Project(scan, tuple(Item(f"{table}.{name}", column(name)) for name in columns))


AA, BB = named("a", "id", "k"), named("b", "id", "k")
BOTH = Join((AA, BB), Expr("`a.k` = `b.k`"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scan(TableName.of("a"), ("id", "ID")),
        lambda: Filter(A, Expr("`nope` = 1")),
        lambda: Project(A, (Item("x", column("id")), Item("X", column("k")))),
        lambda: Project(A, (Item("x", column("nope")),)),
        lambda: Join((A, A)),
        lambda: Join((A,)),
        lambda: UnionAll((A, Scan(TableName.of("b"), ("id",)))),
        lambda: Aggregate(A, ()),
        lambda: Aggregate(A, (), (Call("n", Expr("SUM(`nope`)")),)),
        lambda: KeyFilter(A, Parameter("keys", ("k",)), ()),
        lambda: KeyFilter(A, Parameter("keys", ("k",)), ((column("k"), "other"),)),
        lambda: ReducedScan(A, ()),
        lambda: ReducedScan(A, ((Parameter("keys", ("k",)), ()),)),
        lambda: ReducedScan(A, ((Parameter("keys", ("k",)), ((column("k"), "other"),)),)),
    ],
)
def test_a_wrong_plan_cannot_be_built(make: object) -> None:
    with pytest.raises(InternalError):
        make()  # type: ignore[operator]


def test_a_delta_has_a_weight() -> None:
    assert Scan(TableName.of("a"), ("id",), Version.DELTA).columns == ("id", "_ab_w")
    assert tables(BOTH) == {TableName.of("a"), TableName.of("b")}


def test_simplify_moves_conditions_into_joins_and_drops_unused_columns() -> None:
    plan: Node = Filter(Project(BOTH, (Item("x", column("a.k")),)), Expr("`x` > 1"))
    assert show(optimize(plan, QUERY_RULES)) == "\n".join(
        [
            "Project a.k as x",
            "  Join on a.k = b.k AND a.k > 1",
            "    Project k as a.k",
            "      Scan default.a (k)",
            "    Project k as b.k",
            "      Scan default.b (k)",
        ]
    )


def test_conditions_on_keys_go_below_the_aggregate() -> None:
    groups = Aggregate(AA, (Item("a.k", column("a.k")),), (Call("n", Expr("COUNT(*)")),))
    plan = optimize(Filter(groups, Expr("`a.k` > 1 AND `n` > 2")), QUERY_RULES)
    assert show(plan).splitlines()[:3] == [
        "Filter n > 2",
        "  Aggregate COUNT(*) as n by a.k",
        "    Project k as a.k",
    ]


def test_keys_are_asked_of_every_input_that_must_have_them() -> None:
    plan = filter_keys(BOTH, Parameter("keys", ("g",)), ((column("a.k"), "g"),))
    assert show(plan).count("KeyFilter where k is g") == 2


def test_keys_stay_above_an_aggregate_that_does_not_group_by_them() -> None:
    groups = Aggregate(AA, (Item("a.k", column("a.k")),), (Call("n", Expr("COUNT(*)")),))
    assert isinstance(
        filter_keys(groups, Parameter("keys", ("g",)), ((column("n"), "g"),)), KeyFilter
    )
    total = Aggregate(AA, (), (Call("n", Expr("COUNT(*)")),))
    assert isinstance(filter_keys(total, Parameter("keys", ("g",)), ((Expr("1"), "g"),)), KeyFilter)


def doubled(depth: int) -> Node:
    """A plan that uses each of its parts twice."""
    plan: Node = Project(A, (Item("id", column("id")),))
    for _ in range(depth):
        plan = UnionAll((plan, plan))
    return plan


def test_equal_plans_are_compared_part_by_part_and_not_path_by_path() -> None:
    assert doubled(60) == doubled(60)
    assert doubled(60) != doubled(59)


def test_conditions_of_one_input_go_below_the_join() -> None:
    plan = Join((AA, BB), Expr("`a.k` = `b.k` AND `b.id` > 1 AND `a.id` + `b.id` = 3"))
    assert show(filter_below_join(plan)) == "\n".join(
        [
            "Join on a.k = b.k AND a.id + b.id = 3",
            "  Project id as a.id, k as a.k",
            "    Scan default.a (id, k)",
            "  Project id as b.id, k as b.k",
            "    Filter id > 1",
            "      Scan default.b (id, k)",
        ]
    )

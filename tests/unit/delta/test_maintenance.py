from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.delta.differentiate import delta
from anabranch.delta.explain import explain
from anabranch.delta.maintenance import ByRows, Combine, Maintenance, Replace, maintenance
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Join, Node, Parameter, Scan
from anabranch.plan.show import show
from anabranch.plan.walk import walk
from anabranch.sql.lower.query import lower
from anabranch.sql.render import to_sql

TYPES = {
    "g": "string",
    "i": "int",
    "l": "bigint",
    "d": "decimal(12,2)",
    "wide": "decimal(30,2)",
    "f": "double",
}
T = TableName.of("t")
TABLES = {
    T: tuple(Column(name, type_) for name, type_ in TYPES.items()),
    TableName.of("a"): (Column("id", "int"), Column("k", "int")),
    TableName.of("b"): (Column("id", "int"), Column("k", "int")),
    TableName.of("c"): (Column("id", "int"), Column("k", "int")),
}


def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
    return [TYPES.get((expr.column or "").split(".")[-1], "int") for expr in exprs]


def plan(query: str) -> Node:
    found = lower(query, TABLES, {}, types)
    assert found.plan is not None, found.obstacles
    return found.plan


def kept(query: str) -> Maintenance:
    return maintenance(plan(query))


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT g FROM t", ByRows),
        ("SELECT g FROM t UNION ALL SELECT g FROM t", ByRows),
        ("SELECT DISTINCT g FROM t", Combine),
        ("SELECT g, count(*) AS n FROM t GROUP BY g", Combine),
        ("SELECT g, sum(f) AS s FROM t GROUP BY g", Replace),
        ("SELECT g, max(f) AS s FROM t GROUP BY g", Combine),
        ("SELECT g, avg(d) AS s FROM t GROUP BY g", Combine),
        ("SELECT g, avg(wide) AS s FROM t GROUP BY g", Replace),
        ("SELECT g, sum(wide) AS s FROM t GROUP BY g", Combine),
        ("SELECT g, stddev(i) AS s FROM t GROUP BY g", Replace),
        ("SELECT g, count(DISTINCT i) AS s FROM t GROUP BY g", Replace),
        ("SELECT g, max(DISTINCT i) AS s FROM t GROUP BY g", Combine),
        ("SELECT g, count(i, l) AS s FROM t GROUP BY g", Replace),
        ("SELECT g, count_if(i > 1) AS s FROM t GROUP BY g", Combine),
        ("SELECT g, sum(i) AS s FROM t GROUP BY g HAVING sum(i) > 1", Replace),
        ("SELECT g, sum(i) AS s FROM t GROUP BY g HAVING g > 'a'", Combine),
        ("SELECT * FROM (SELECT g, sum(i) AS s FROM t GROUP BY g) WHERE g = 'a'", Combine),
    ],
)
def test_the_root_decides(query: str, kind: type) -> None:
    assert type(kept(query)) is kind


def test_state_and_outputs() -> None:
    found = kept(
        "SELECT g, sum(i) AS s, avg(i) AS a, avg(l) AS b, sum(d) AS d, min(f) AS m, count(*) AS n"
        " FROM t GROUP BY g"
    )
    assert isinstance(found, Combine)
    assert (found.state[0].name, found.state[0].type) == ("_ab_n", "bigint")
    by_name = {item.name: item.expr.text for item in found.outputs}
    assert by_name["g"] == "`g`"
    assert by_name["n"] == "`_ab_n`"
    assert "CAST(`_ab_s0` AS DOUBLE)" in by_name["a"]
    types_kept = {each.type for each in found.state}
    assert types_kept == {"bigint", "decimal(38,0)", "decimal(22,2)", "double"}
    change = found.change(frozenset({T}))
    assert change is not None
    assert change.columns[:2] == ("g", "_ab_n")
    (extremum,) = [each for each in found.state if each.deleted]
    assert change.columns[-1] == extremum.deleted
    assert found.full.columns == (
        "g",
        "s",
        "a",
        "b",
        "d",
        "m",
        "n",
        *(c.name for c in found.hidden),
    )


def test_keys_that_are_not_shown_are_hidden_columns() -> None:
    found = kept("SELECT upper(g) AS u, count(*) AS n FROM t GROUP BY g, i + 1")
    assert isinstance(found, Combine)
    assert [(key.name, key.type, key.visible) for key in found.keys] == [
        ("_ab_k0", "string", False),
        ("_ab_k1", "int", False),
    ]
    assert [column.name for column in found.hidden] == ["_ab_k0", "_ab_k1", "_ab_n"]


def test_without_keys() -> None:
    total = kept("SELECT stddev(i) AS s FROM t HAVING count(*) > 1")
    assert isinstance(total, Replace)
    assert total.keys == ()
    assert total.touched(frozenset({T})) is not None
    assert total.touched(frozenset()) is None
    assert "[after]" in show(total.recompute(None))


def test_nothing_changed_is_no_plan() -> None:
    rows, groups = kept("SELECT g FROM t"), kept("SELECT DISTINCT g FROM t")
    assert isinstance(rows, ByRows)
    assert isinstance(groups, Combine)
    assert rows.delta(frozenset()) is None
    assert groups.change(frozenset()) is None


def test_terms_start_from_their_delta_and_follow_equalities() -> None:
    chain = plan("SELECT a.id FROM a JOIN b ON a.k = b.k JOIN c ON b.id = c.id")
    change = delta(chain, frozenset({TableName.of("c")}))
    assert change is not None
    joins = [node for node in walk(change) if isinstance(node, Join)]
    assert [len(join.parts) for join in joins] == [2, 2]
    order = [node.table.name for node in walk(change) if isinstance(node, Scan)]
    assert order == ["c", "b", "a"]
    text = to_sql(change, lambda node: "v", "spark")
    assert "CROSS JOIN" not in text
    assert text.count("BROADCAST") == 2
    assert "BROADCAST" not in to_sql(change, lambda node: "v", hints=False)


def test_unchanged_tables_are_read_once_and_as_they_are() -> None:
    change = delta(plan("SELECT a.id FROM a JOIN b ON a.k = b.k"), frozenset({TableName.of("b")}))
    assert change is not None
    assert "[before]" not in show(change)


def test_explain_says_what_is_kept_and_why() -> None:
    text = explain(kept("SELECT g, sum(f) AS s FROM t GROUP BY g"))
    assert "by groups, recomputed: SUM(t.f) cannot be maintained from changes alone" in text
    assert "touched groups:" in text
    text = explain(kept("SELECT g, max(i) AS m FROM t GROUP BY g"))
    assert "_ab_n bigint" in text
    assert "groups that lost an extremum:" in text


def test_rescan_asks_for_the_given_keys_only() -> None:
    found = kept("SELECT g, max(i) AS m FROM t GROUP BY g")
    assert isinstance(found, Combine)
    text = to_sql(found.rescan(Parameter("keys", ("g",))), lambda node: "v")
    assert "LEFT SEMI JOIN" in text
    assert "IS NOT DISTINCT FROM" in text


@pytest.mark.parametrize(
    ("query", "followed"),
    [
        ("SELECT g, i FROM t ORDER BY i DESC LIMIT 3", True),
        ("SELECT i + 1 AS n FROM t ORDER BY i + 1 LIMIT 3", True),
        ("SELECT g, sum(i) AS s FROM t GROUP BY g ORDER BY s LIMIT 3", True),
        ("SELECT g FROM t ORDER BY i LIMIT 3", False),  # by what is not stored
        ("SELECT g, i FROM t ORDER BY i LIMIT 3 OFFSET 1", False),
        ("SELECT g, i FROM t ORDER BY i LIMIT 0", False),
        ("SELECT g FROM t", False),
    ],
)
def test_first_rows_follow_from_those_stored(query: str, followed: bool) -> None:
    found = kept(query)
    assert (isinstance(found, Replace) and found.first is not None) is followed

"""What the decision is about: which rows a way of refreshing reads."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.delta.maintenance import maintenance
from anabranch.model import Column, Delta, Reading
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node
from anabranch.refresh import inputs
from anabranch.refresh.cost import Work
from anabranch.refresh.sources import Sources
from anabranch.sql.lower.query import lower

A, B = TableName.of("a"), TableName.of("b")
COLUMNS = (Column("id", "int"), Column("k", "int"))
CAME, WENT = Reading(("f",), rows=7), Reading(("g",), rows=4)


def definition(query: str) -> Any:
    def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        return ["int"] * len(exprs)

    found = lower(query, {A: COLUMNS, B: COLUMNS}, {}, types)
    assert found.plan is not None, found.obstacles
    return SimpleNamespace(kept=maintenance(found.plan), columns=COLUMNS)


def unknown(name: str) -> None:
    """Nothing is known of a column's values."""


def sources(**deltas: Delta) -> Sources:
    """`a` has a thousand rows and `b` a hundred."""
    versions: Any = {
        A: SimpleNamespace(rows=1_000, kind=unknown, field=unknown),
        B: SimpleNamespace(rows=100, kind=unknown, field=unknown),
    }
    return Sources(versions, {}, {TableName.of(name): each for name, each in deltas.items()})


SCAN = inputs.ROWS_PER_SCAN
JOIN = "SELECT a.id, b.k FROM a JOIN b ON a.id = b.id"


@pytest.mark.parametrize(
    ("query", "changes", "from_changes", "in_full"),
    [
        ("SELECT id FROM a", sources(a=Delta((CAME,))), Work(7, 0), 1_000),
        ("SELECT id FROM a", sources(a=Delta((CAME,), (WENT,))), Work(11, 50), 1_000),
        (JOIN, sources(a=Delta((CAME,), (WENT,))), Work(11, 50 + 100 + SCAN), 1_100 + SCAN),
        (JOIN, sources(b=Delta((CAME,), (WENT,))), Work(11, 50 + 1_000 + SCAN), 1_100 + SCAN),
        ("SELECT k, count(*) AS n FROM a GROUP BY k", sources(a=Delta((CAME,), (WENT,))),
         Work(11, 50), 1_000),
        ("SELECT k, max(id) AS m FROM a GROUP BY k", sources(a=Delta((CAME,))), Work(7, 50), 1_000),
        ("SELECT k, max(id) AS m FROM a GROUP BY k", sources(a=Delta((CAME,), (WENT,))),
         Work(11, 50 + 1_000 + SCAN), 1_000),
        ("SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > 1",
         sources(a=Delta((CAME,))), Work(7, 50 + 1_000 + SCAN), 1_000),
        ("SELECT id, k FROM a ORDER BY k LIMIT 3", sources(a=Delta((CAME,))), Work(7, 50), 1_000),
        ("SELECT x.id FROM a x JOIN a y ON x.id = y.k", sources(), Work(0, 50), 2_000 + SCAN),
    ],
)  # fmt: skip
def test_rows_read(query: str, changes: Sources, from_changes: Work, in_full: int) -> None:
    found = definition(query)
    assert inputs.from_changes(found, changes, 50) == from_changes
    assert inputs.in_full(found, changes) == Work(0, in_full)


def test_a_query_that_is_not_understood_reads_each_source_once() -> None:
    query: Any = SimpleNamespace(kept=None)
    assert inputs.in_full(query, sources()) == Work(0, 1_100)

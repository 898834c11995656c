"""The branches of a query that a circle starts from, and where an operator stands."""

from __future__ import annotations

import pytest

from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.plan.demand import Operator
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.lower.base_branches import base_branches
from anabranch.sql.lower.locate import locate_operator
from anabranch.sql.text.source_text import SourceText

E, R = TableName.of("g", "e"), TableName.of("g", "r")


def reduced(query: str) -> tuple[str, tuple[str, ...]] | None:
    found = base_branches(query, lambda name: name == R)
    return None if found is None else (found.text, found.names)


@pytest.mark.parametrize(
    ("query", "text", "names"),
    [
        (
            "SELECT src, dst FROM g.e UNION SELECT e.src, r.dst FROM g.e JOIN g.r ON e.dst = r.src",
            "SELECT src, dst FROM g.e",
            ("src", "dst"),
        ),
        (
            "SELECT r.src AS a, 1 AS b FROM g.r UNION ALL (SELECT src, dst FROM g.e)",
            "(SELECT src, dst FROM g.e)",
            ("a", "b"),
        ),
        (
            "WITH x AS (SELECT 1 AS a UNION SELECT a FROM g.r), y AS (SELECT * FROM g.r) "
            "SELECT * FROM x UNION SELECT * FROM y",
            "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
            (),
        ),
        (
            "SELECT src FROM g.e WHERE src IN (SELECT dst FROM g.r)",
            "SELECT src FROM g.e",
            ("src",),
        ),
        ("SELECT src FROM g.e EXCEPT SELECT src FROM g.r", "SELECT src FROM g.e", ("src",)),
        (
            "SELECT DISTINCT src FROM (SELECT src FROM g.e UNION ALL SELECT dst FROM g.r) AS u",
            "SELECT DISTINCT src FROM (SELECT src FROM g.e) AS u",
            ("src",),
        ),
    ],
)
def test_branches_that_stand_by_themselves(query: str, text: str, names: tuple[str, ...]) -> None:
    assert reduced(query) == (text, names)


def test_there_may_be_none() -> None:
    assert reduced("SELECT * FROM g.r") is None
    assert reduced("SELECT * FROM g.r EXCEPT SELECT * FROM g.e") is None
    assert reduced("SELECT src FROM (SELECT src FROM g.r) AS u") is None


PLACES = [
    ("SELECT src,\n max(dst) FROM g.r\nGROUP BY src", Operator.AGGREGATE, (3, 1)),
    ("SELECT src\n, max(dst) FROM g.r", Operator.AGGREGATE, (2, 3)),
    ("SELECT e.src FROM g.e\n LEFT JOIN g.r ON e.dst = r.src", Operator.OUTER, (2, 2)),
    ("SELECT e.src FROM g.r\n FULL OUTER JOIN g.e ON e.dst = r.src", Operator.OUTER, (2, 2)),
    ("SELECT src FROM g.e\nEXCEPT SELECT src FROM g.r", Operator.EXCEPT, (2, 1)),
    ("SELECT src FROM g.r ORDER BY src\n  LIMIT 3", Operator.LIMIT, (2, 3)),
    ("SELECT src FROM g.e WHERE\n NOT EXISTS (SELECT 1 FROM g.r)", Operator.ABSENT, (2, 2)),
    ("SELECT src FROM g.e WHERE src\n NOT IN (SELECT dst FROM g.r)", Operator.VALUE, (2, 2)),
    ("SELECT src,\nsum(dst) OVER (PARTITION BY src) FROM g.r", Operator.WINDOW, (2, 1)),
    (
        "WITH x AS (SELECT src FROM g.r)\nSELECT src, count(*) FROM x\nGROUP BY src",
        Operator.AGGREGATE,
        (3, 1),
    ),
]


@pytest.mark.parametrize(("query", "operator", "place"), PLACES)
def test_the_operator_above_a_table(query: str, operator: Operator, place: tuple[int, int]) -> None:
    nothing: Columns = ()
    reach = Reach.of(SourceText(query), {E: nothing, R: nothing}, {})
    below = locate_operator(reach, R, operator)
    assert below.source.position(below.start) == place
    assert below.operator is (Operator.ABSENT if "NOT IN" in query else operator)


def test_the_operator_may_stand_in_a_view_or_around_it() -> None:
    v, nothing = TableName.of("g", "v"), ()
    views = {v: "SELECT src\n, count(*) AS n FROM g.r GROUP BY src"}
    reach = Reach.of(SourceText("SELECT src, n FROM g.v"), {R: nothing}, views)
    below = locate_operator(reach, R, Operator.AGGREGATE)
    assert below.source.view == v
    assert below.source.position(below.start)[0] == 2
    views = {v: "SELECT src FROM g.r"}
    reach = Reach.of(SourceText("SELECT count(*) AS n\nFROM g.v"), {R: nothing}, views)
    below = locate_operator(reach, R, Operator.AGGREGATE)
    assert below.source.view is None
    assert below.source.position(below.start)[0] == 1

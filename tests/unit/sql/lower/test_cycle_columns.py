"""Columns of cycles, with an analyser that knows two types."""

from __future__ import annotations

import pytest

from anabranch.errors import UserError
from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.lower.cycle_columns import SETTLING, settle_columns

A, B = TableName.of("db", "s", "a"), TableName.of("db", "s", "b")
START = "SELECT x FROM db.s.base UNION SELECT x FROM db.s.b"


class Analyser:
    """`x` is an int, and as wide as the widest table that is read; `wider` widens it once more."""

    def __init__(self, *wider: str) -> None:
        self.wider = wider
        self.asked: list[str] = []
        self.known: dict[TableName, Columns] = {}

    def parts(self, key: TableName) -> tuple[str, ...]:
        return key.parts

    def columns(self, key: TableName, query: str) -> Columns:
        self.asked.append(query)
        widths = {name: int(columns[0].type[3:]) for name, columns in self.known.items()}
        width = max((widths.get(name, 0) for name in tables_of(query)), default=0)
        return (Column("x", f"int{width + any(each in query for each in self.wider)}", False),)

    def put(self, key: TableName, columns: Columns) -> Columns:
        self.known[key] = columns
        return columns


def test_columns_go_round_until_they_agree() -> None:
    analyse = Analyser("base")
    found = settle_columns({A: START, B: "SELECT x FROM db.s.a"}, Analyser())
    assert found == {A: (Column("x", "int0"),), B: (Column("x", "int0"),)}
    with pytest.raises(UserError, match=r"db\.s\.a and db\.s\.b cannot be decided: x of db\.s\."):
        settle_columns({A: START, B: "SELECT x FROM db.s.a"}, analyse)
    assert len(analyse.asked) == 2 + 2 * SETTLING


def test_a_circle_starts_where_something_else_is_read() -> None:
    analyse = Analyser()
    settle_columns({B: "SELECT x FROM db.s.a", A: START}, analyse)
    assert analyse.asked[0] == "SELECT x FROM db.s.base"
    with pytest.raises(UserError, match="every branch of their queries reads the cycle itself"):
        settle_columns({A: "SELECT x FROM db.s.b", B: "SELECT x FROM db.s.a"}, analyse)


def test_names_are_those_of_the_first_branch() -> None:
    query = "SELECT y AS x FROM db.s.b UNION SELECT z FROM db.s.base"
    queries = {A: query, B: "SELECT x FROM db.s.a"}
    assert [column.name for column in settle_columns(queries, Analyser())[A]] == ["x"]


def test_a_cycle_that_starts_from_nothing_has_the_columns_that_it_had() -> None:
    stored = {A: (Column("x", "int3", False),)}
    queries = {A: "SELECT x FROM db.s.b", B: "SELECT x FROM db.s.a"}
    found = settle_columns(queries, Analyser(), stored)
    assert found == {A: (Column("x", "int3"),), B: (Column("x", "int3"),)}

"""A fault of our own analysis: users go on, and hear of it."""

from __future__ import annotations

import pytest
from sqlglot.errors import ParseError

from anabranch import noted
from anabranch.errors import FileMissing, InternalError, UserError
from anabranch.names import TableName
from anabranch.sql.analyze import mistakes, writes
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.columns import Column, Relation, table
from anabranch.sql.analyze.failures import ANALYSIS_FAILED, is_ours, spark_judges
from anabranch.sql.analyze.mistakes import mistake, relation_of
from anabranch.sql.analyze.walk import Walk
from anabranch.sql.analyze.writes import mistake_of_write
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import Delete, Insert

pytestmark = pytest.mark.analysis_fails
T = TableName.parse("s.t")
OURS = [KeyError("k"), TypeError("t"), AttributeError("a"), InternalError("i"), AssertionError("b")]


def tables(name: TableName) -> Relation:
    return table(name, (Column("id"),))


@pytest.fixture(params=OURS, ids=lambda error: type(error).__name__)
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """Whatever walks through a query runs into it."""
    error: Exception = request.param

    def query(*given: object) -> Relation:
        raise error

    monkeypatch.setattr(Walk, "query", query)
    return error


def test_the_analysis_itself_hides_nothing(fault: Exception) -> None:
    with pytest.raises(type(fault)):
        analyze("SELECT id FROM s.t", tables)


def test_who_asks_for_mistakes_goes_on_and_it_is_noted(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="anabranch"):
        assert mistake("SELECT id FROM s.t", tables, T) is None
        assert mistake("SELECT id + 1 AS n FROM s.t", tables, T) is None
    (told,) = noted.waiting().values()  # once for one place in the code, however many queries
    assert (told.kind, told.table) == (ANALYSIS_FAILED, T)
    assert type(fault).__name__ in told.message and "a fault of Anabranch" in told.message
    assert caplog.messages == [f"s.t: {told.message}"]


def test_a_view_and_a_write_too(fault: Exception) -> None:
    assert relation_of("SELECT id FROM s.t", tables) == Relation(None)
    insert = parse_statement("INSERT INTO s.t SELECT id FROM s.u")
    assert isinstance(insert, Insert)
    assert mistake_of_write(insert, T, tables) is None
    assert len(noted.said(ANALYSIS_FAILED)) == 1


def test_a_write_that_fails_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*given: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(writes, "misplaced", boom)
    delete = parse_statement("DELETE FROM s.t WHERE id = 1")
    assert isinstance(delete, Delete) and mistake_of_write(delete, T, tables) is None
    (said,) = noted.said(ANALYSIS_FAILED)
    assert "a statement that writes to s.t" in said and "IndexError" in said


@pytest.mark.parametrize("error", [UserError("wrong"), FileMissing("gone"), OSError("disk")])
def test_what_is_wrong_with_a_query_or_the_world_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)), spark_judges("a query"):
        raise error
    assert not is_ours(error) and noted.said(ANALYSIS_FAILED) == []


def test_what_sqlglot_cannot_follow_is_left_to_spark() -> None:
    with spark_judges("a query"):
        raise ParseError("unexpected token")
    assert noted.said(ANALYSIS_FAILED) == []


def test_a_query_that_is_nested_too_deeply_is_no_bug_but_said() -> None:
    query = "SELECT " + " + ".join(["id"] * 20_000) + " AS n FROM s.t"
    assert mistakes.mistake(query, tables) is None
    (said,) = noted.said(ANALYSIS_FAILED)
    assert "nested too deeply" in said and "fault" not in said

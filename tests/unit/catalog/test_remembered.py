"""Whole tables of ours are read once in a transaction, and again once they may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from anabranch.catalog import cuts, streams, views
from anabranch.catalog.store import Store
from anabranch.catalog.streams import StreamTable
from anabranch.names import TableName

A, B = TableName.of("s", "a"), TableName.of("s", "b")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store.open(tmp_path / "catalog.db")
    yield found
    found.close()


@pytest.fixture
def asked(store: Store) -> list[str]:
    """The statements that ask for rows of ours, by table."""
    texts: list[str] = []

    @event.listens_for(store.engine, "before_cursor_execute")
    def note(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("SELECT ab_"):
            texts.append(statement.split()[1].split(".")[0])

    return texts


def test_who_reads_asks_once(store: Store, asked: list[str]) -> None:
    with store.reading() as c:
        assert views.all_views(c) == views.all_views(c) == {}
    with store.reading() as c:
        views.all_views(c)
    assert asked == ["ab_views", "ab_views"]


def test_an_answer_is_the_callers_own(store: Store) -> None:
    with store.reading() as c:
        views.all_views(c)[A] = "SELECT 1"
        assert views.all_views(c) == {}


def test_what_is_written_is_read_again(store: Store, asked: list[str]) -> None:
    with store.writing() as c:
        assert streams.all_streams(c) == {} and views.all_views(c) == {}
        streams.add(c, [StreamTable(A, "SELECT 1", "f")])
        assert list(streams.all_streams(c)) == [A] and streams.get(c, A) is not None
        assert views.all_views(c) == {}
        streams.remove(c, A)
        assert streams.get(c, A) is None and streams.all_streams(c) == {}
    assert asked.count("ab_views") == 1


def test_what_was_rolled_back_is_forgotten(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.writing() as c:
        views.add(c, A, "SELECT 1")
        assert list(views.all_views(c)) == [A]
        _ = 1 / 0
    with store.writing() as c:
        assert views.all_views(c) == {}


def test_who_waited_for_others_reads_again(store: Store, asked: list[str]) -> None:
    """A publish may have waited for another one, which changed anything."""
    with store.writing() as c:
        views.all_views(c)
        cuts.advance(c)
        views.all_views(c)
        views.all_views(c)
    assert asked == ["ab_views", "ab_views"]


def test_dependencies_are_part_of_the_whole_graph(store: Store, asked: list[str]) -> None:
    with store.writing() as c:
        streams.set_dependencies(c, {B: [A]})
        assert streams.whole_graph(c).dependencies == {B: (A,)}
        before = len(asked)
        assert streams.dependencies(c) == streams.graph_of(c, [B]).dependencies == {B: (A,)}
        assert len(asked) == before
        streams.set_dependencies(c, {B: []})
        assert streams.dependencies(c) == {}

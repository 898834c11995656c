"""Whole tables of ours are read once in a transaction, and again once they may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from anabranch.catalog import cuts, deployments, leases, streams, views
from anabranch.catalog.cuts import Version
from anabranch.catalog.deployments import Owner
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


def test_who_has_the_lock_forgets_only_what_others_write_without_it(
    store: Store, asked: list[str]
) -> None:
    """A lease may have been waited for, and with it who stages; nobody has changed a view meanwhile."""
    with store.writing() as c:
        cuts.advance(c)
        for _ in range(2):
            assert views.all_views(c) == {} and deployments.open_ids(c) == frozenset()
        leases.take(c, [A], 60.0)
        assert views.all_views(c) == {} and deployments.open_ids(c) == frozenset()
    assert asked == ["ab_views", "ab_deployments", "ab_waiters", "ab_deployments"]


def test_whose_an_object_is_stands_in_its_record(store: Store, asked: list[str]) -> None:
    row = {"database_name": "d", "schema_name": "s", "object_name": "a", "project": "p"}
    row |= {"deployment_id": "1", "record": {"kind": "view"}, "named": True}
    key = ("d", "s", "a")
    with store.writing() as c:
        deployments.put_deployed(c, [], [row])
        assert deployments.deployed(c) == [(key, "p", {"kind": "view"})]
        assert deployments.take_deployed(c, [key]) == [row]
        assert deployments.owners(c) == {key: Owner("p", named=True)}
        assert deployments.deployed_by(c) == {key: "1"}
        deployments.put_deployed(c, [key], [])
        assert deployments.owners(c) == {}
    assert asked == ["ab_deployed", "ab_deployed"]


def test_a_publish_knows_its_cut(store: Store, asked: list[str]) -> None:
    with store.writing() as c:
        first = cuts.current(c)
        assert cuts.current(c) == first
        assert [cuts.advance(c), cuts.current(c)] == [first + 1] * 2
        assert [cuts.advance(c), cuts.current(c)] == [first + 2] * 2
    assert asked == ["ab_meta"]


def test_what_a_cut_shows_is_asked_once(store: Store, asked: list[str]) -> None:
    with store.writing() as c:
        cuts.add(c, cuts.advance(c), "test", [Version(A, "a.json")])
        assert cuts.shown(c, "anabranch").pointers == cuts.newest(c) == {A: "a.json"}
    assert asked.count("ab_versions") == 1


def test_dependencies_are_part_of_the_whole_graph(store: Store, asked: list[str]) -> None:
    with store.writing() as c:
        streams.set_dependencies(c, {B: [A]})
        assert streams.whole_graph(c).dependencies == {B: (A,)}
        before = len(asked)
        assert streams.dependencies(c) == streams.graph_of(c, [B]).dependencies == {B: (A,)}
        assert len(asked) == before
        streams.set_dependencies(c, {B: []})
        assert streams.dependencies(c) == {}

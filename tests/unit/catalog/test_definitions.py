"""Rows about tables are taken, kept as JSON and put back, also under other names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.catalog import definitions, deployments, history, streams, tables, views
from anabranch.catalog.definitions import Renaming
from anabranch.catalog.deployment_state import Base, Notes, Planned
from anabranch.catalog.deployments import Deployment, DeploymentStatus
from anabranch.catalog.history import COMPLETED, Refresh
from anabranch.catalog.lineage import lineage_of, set_lineage
from anabranch.catalog.store import Connection, Store
from anabranch.catalog.streams import Input, StreamTable
from anabranch.model import Action, RefreshMode, Status
from anabranch.names import TableName

A, B = TableName.of("db", "s__1", "a"), TableName.of("db", "s", "a")
SOURCE, VIEW = TableName.of("db", "s__1", "v"), TableName.of("db", "s", "v")


@pytest.fixture
def c(tmp_path: Path) -> Iterator[Connection]:
    store = Store.open(tmp_path / "catalog.db")
    with store.writing() as connection:
        yield connection
    store.close()


def declare(c: Connection) -> StreamTable:
    made = StreamTable(
        A, "SELECT 1", "f", status=Status.ACTIVE, last_refresh_at=tables.now(), options={"x": [1]}
    )
    made = replace(made, computed_from=f"{made.definition}/2")
    streams.add(c, [made])
    streams.set_dependencies(c, {A: [SOURCE]})
    streams.set_inputs(c, {A: {SOURCE: Input("mark", None), A: Input("a.json", 7)}})
    streams.set_frontiers(c, {A: {SOURCE: 3}})
    views.add(c, SOURCE, "SELECT 2")
    return made


def test_rows_come_back_as_they_were(c: Connection) -> None:
    made = declare(c)
    taken = json.loads(json.dumps(definitions.take(c, [A, SOURCE])))
    definitions.put(c, [A, SOURCE], {})
    assert streams.get(c, A) is None
    assert not streams.inputs(c) and not streams.frontiers(c) and not views.all_views(c)
    definitions.put(c, [A, SOURCE], taken)
    back = streams.get(c, A)
    assert back is not None and back.definition != made.definition, "it was declared once more"
    assert back.computed_from == f"{back.definition}/2", "and its rows are still those of the query"
    assert replace(back, definition=made.definition, computed_from=made.computed_from) == made
    assert streams.inputs(c) == {A: {SOURCE: Input("mark", None), A: Input("a.json", 7)}}
    assert streams.frontiers(c) == {A: {SOURCE: 3}}
    assert streams.dependencies(c) == {A: (SOURCE,)}
    assert views.all_views(c) == {SOURCE: "SELECT 2"}


def test_rows_move_to_other_names(c: Connection) -> None:
    made = declare(c)
    streams.add(c, [replace(made, name=B, query="old")])
    history.add(c, [Refresh(A, Action.FULL, COMPLETED)])
    moved = Renaming(
        names={str(A): str(B), str(SOURCE): str(VIEW)},
        streams={str(B): {"query": "SELECT 9", "fingerprint": "g"}},
        views={str(VIEW): "SELECT 3"},
        marks={"mark": "other mark"},
    )
    taken = definitions.take(c, [A, SOURCE])
    definitions.put(c, [A, SOURCE], {})
    definitions.put(c, [B, VIEW], moved(taken))
    definitions.rename_history(c, {A: B})
    (found,) = streams.all_streams(c).values()
    token = {"definition": found.definition, "computed_from": f"{found.definition}/2"}
    assert found == replace(made, name=B, query="SELECT 9", fingerprint="g", **token)
    assert streams.inputs(c) == {B: {VIEW: Input("other mark", None), B: Input("a.json", 7)}}
    assert streams.frontiers(c) == {B: {VIEW: 3}}
    assert streams.dependencies(c) == {B: (VIEW,)}
    assert views.all_views(c) == {VIEW: "SELECT 3"}
    assert [line["table"] for line in history.listing(c)] == [str(B)]


def test_lineage_follows_to_other_names(c: Connection) -> None:
    declare(c)
    kept = {"columns": [["x", [[str(SOURCE), "y"]], []]], "decides": [["db.other", "z"]]}
    set_lineage(c, {A: kept})
    taken = json.loads(json.dumps(definitions.take(c, [A])))
    moved = Renaming({str(A): str(B), str(SOURCE): str(VIEW)})(taken)
    definitions.put(c, [A, B], moved)
    assert lineage_of(c, [A, B]) == {
        B: {"columns": [["x", [[str(VIEW), "y"]], []]], "decides": [["db.other", "z"]]}
    }
    for row in taken["streams"]:
        del row["lineage"]  # taken by an older version
    definitions.put(c, [A], taken)
    assert lineage_of(c, [A]) == {A: None}


def test_a_deployment_moves_only_from_where_it_is(c: Connection) -> None:
    made = Deployment("1", "p", DeploymentStatus.STAGING, "me", "h", 1, "x", Planned(), {}, Base())
    deployments.add(c, made)
    assert deployments.get(c, "1") == made
    assert deployments.get(c, "2") is None
    staged, promoted = DeploymentStatus.STAGED, DeploymentStatus.PROMOTED
    assert not deployments.move(c, "1", [staged], promoted)
    assert deployments.move(c, "1", [DeploymentStatus.STAGING], staged, notes=Notes((A,)).record())
    assert deployments.listing(c) == [replace(made, status=staged, notes=Notes((A,)))]


def test_versions_of_schemas_only_grow(c: Connection) -> None:
    deployments.raise_versions(c, [("db", "a"), ("db", "b")], "1", "me")
    deployments.raise_versions(c, [("db", "a")], "2", "you")
    found = deployments.schema_versions(c)
    assert {place: each.version for place, each in found.items()} == {
        ("db", "a"): 2,
        ("db", "b"): 1,
    }
    assert found["db", "a"].changed_by == "you"


def test_another_declaration_is_another_token(c: Connection) -> None:
    made = declare(c)
    streams.change(c, A, schedule="5s")
    assert streams.tokens(c) == {A: made.definition}
    streams.change(c, A, refresh_mode=RefreshMode.FULL)
    moved = streams.get(c, A)
    assert moved is not None and moved.definition != made.definition
    assert moved.computed_from == f"{moved.definition}/2", "the query is the same"
    streams.change(c, A, query="SELECT 3")
    again = streams.get(c, A)
    assert again is not None and again.definition != moved.definition
    assert again.computed_from == moved.computed_from, "the rows are the old query's"


def test_a_table_on_a_source_under_another_name_stands_at_no_cut_yet(c: Connection) -> None:
    declare(c)
    streams.change(c, A, cut_id=5)
    taken = definitions.take(c, [A])
    (same,) = Renaming(names={str(A): str(B)})(taken)["streams"]
    (other,) = Renaming(names={str(A): str(B), str(SOURCE): str(VIEW)})(taken)["streams"]
    assert (same["name"], same["cut_id"]) == (str(B), 5)
    assert (other["name"], other["cut_id"]) == (str(B), None)

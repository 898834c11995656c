"""The JSON of deployments: what is written is read again, and so is what older versions wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.catalog.clusters import Cluster
from anabranch.catalog.deployment_state import (
    Base,
    LeftGroup,
    Notes,
    Planned,
    SuspendedReader,
    Undo,
)
from anabranch.catalog.indexes import Index
from anabranch.names import TableName

A, B = TableName.parse("db.s.a"), TableName.parse("db.s.`b c`")

WRITTEN: list[Any] = [
    Base((("db", "s", 3),), (("db", "s"),), {A: "SELECT 1", B: None}, {A: "u", B: None},
         {A: ((1, "k", "bigint", True),), B: None}),
    Base(),
    Notes((B,), {A: ("staged", "after")}),
    Notes(),
    Undo(
        pointers={A: "/a/1.json", B: None},
        rows={"streams": [{"name": str(A), "query": "SELECT 1"}], "views": []},
        metadata={A: {"schedule": None, "max_fixpoint_rows": 5}},
        indexes={A: (Index(A, "i", ("k", "v"), "c"),)},
        comments={A: {"": "of the table", "k": "of the column"}},
        altered={A: ("/old", "/new")},
        readers=(SuspendedReader(B, "ACTIVE", None, "atomic", "there is no k"),),
        groups=(LeftGroup("g", (A, B), "repeatable_read", 0, (A,), True),),
        clusters={"c": Cluster("c", "p", None, {"w": "1"}), "d": None},
        keys=(("db", "s", "a"), ("", "", "c")),
        deployed=({"object_name": "a"},),
        schemas=(("db", "s", "8f3a"),),
        ids={A: "u"},
        left={A: "SELECT 2", B: None},
        comments_left={A: {}},
        indexes_left={A: ()},
        clusters_left={"c": None},
        options_left={A: {"schedule": "2s"}},
    ),
    Undo(),
]  # fmt: skip


@pytest.mark.parametrize("state", WRITTEN, ids=lambda each: type(each).__name__)
def test_what_is_written_is_read_again(state: Any) -> None:
    kept = json.loads(json.dumps(state.record()))
    assert type(state).read(kept) == state
    assert json.loads(json.dumps(type(state).read(kept).record())) == kept


def test_what_older_versions_wrote() -> None:
    assert Base.read({"schemas": [], "touched": [], "definitions": {}}) == Base()
    assert Notes.read({"why": "first"}) == Notes()
    assert Planned.read({}).steps == ()
    undo = Undo.read(
        {
            "pointers": {"db.s.a": "/a"},
            "rows": {"streams": [], "views": [{"name": "db.s.v", "query": "SELECT 1"}]},
            "metadata": {},
            "indexes": {"db.s.a": [["i", ["k"], None]]},
            "comments": {},
            "readers": [{"name": "db.s.a", "status": "ACTIVE", "last_error": None,
                         "diamond_consistency": "atomic"}],
            "clusters": {},
            "keys": [["db", "s", "a"]],
            "deployed": [],
            "schemas": [["db", "s", ""]],
        }
    )  # fmt: skip
    assert undo.left is None and undo.indexes_left is None, (
        "nothing was noted, which is not nothing"
    )
    assert undo.readers[0].why is None
    assert undo.indexes == {A: (Index(A, "i", ("k",)),)}
    assert undo.views == {TableName.parse("db.s.v"): "SELECT 1"} and undo.locations == {"/a"}
    assert "left" not in undo.record() and "why" not in undo.record()["readers"][0]


def test_a_plan_keeps_all_that_it_said() -> None:
    step = {"action": "swap", "object": "db.s.a", "parts": ["db", "s", "a"], "kind": "view",
            "why": "new", "rows": 7}  # fmt: skip
    said = {"steps": [step], "clusters_changed": ["c"], "rows": 7}
    planned = Planned.read(said)
    assert planned.record() == said
    assert [each.as_dict() for each in planned.with_actions(["swap"])] == [step]
    assert planned.with_actions(["build"]) == [] and planned.clusters_changed == ("c",)

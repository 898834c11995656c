"""The JSON of deployments: what is written is read again, and so is what older versions wrote."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from anabranch.catalog import deployment_state
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.deployment_state import (
    Base,
    Dirty,
    LeftGroup,
    Notes,
    Planned,
    PlannedByHand,
    PlannedChange,
    PlannedReader,
    PlannedRefusal,
    PlannedStep,
    SuspendedReader,
    Undo,
)
from anabranch.catalog.deployments import Deployment
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
    Planned(
        steps=(PlannedStep("swap", "db.s.a", ("db", "s", "a"), "view", "new", 7),),
        clusters_changed=("c",),
        empty=False,
        changed=(PlannedChange("db.s.a", "modified", "-a\n+b"),),
        dirty=(Dirty("db.s.a", True, ("index i of db.s.a is kept on cluster c, which is dirty",)),),
        dirty_clusters=("c",),
        dirty_schemas=("db.s",),
        metadata_only=("db.s.b",),
        readers=(PlannedReader("db.s.r", "view", ("db.s.a",), "broken", "there is no k"),),
        by_hand=(PlannedByHand("db.s.a", "schedule = 2s", "stays"),),
        refused=(PlannedRefusal("it drops most", None, "drop_most"),),
        rows=0,
    ),
    Planned(),
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


def test_state_is_typed_to_the_last_field() -> None:
    """But for rows of our own tables, which a roll-back puts back as they were."""
    kinds = [each for each in vars(deployment_state).values() if is_dataclass(each)]
    for kind in (*kinds, Deployment):
        for each in fields(kind):
            assert not re.search(r"\b(Json|Any|object)\b", str(each.type)), f"{kind} {each.name}"


def test_a_plan_keeps_all_that_it_said() -> None:
    step = {"action": "swap", "object": "db.s.a", "parts": ["db", "s", "a"], "kind": "view",
            "why": "new", "rows": 7}  # fmt: skip
    said = {"steps": [step], "clusters_changed": ["c"], "rows": 7}
    planned = Planned.read(said)
    assert planned.record() == said
    assert [each.as_dict() for each in planned.with_actions(["swap"])] == [step]
    assert planned.with_actions(["build"]) == [] and planned.clusters_changed == ("c",)

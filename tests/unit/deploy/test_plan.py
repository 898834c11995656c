"""Plans: what is built, swapped, kept and dropped, in which order, for how many rows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from anabranch.catalog.deployment_state import Planned
from anabranch.deploy.plan import ByHand, Plan, Refusal, make_plan, what_if_plan
from anabranch.deploy.readers import Reader
from anabranch.deploy.select import chosen, matches
from anabranch.deploy.snapshot import EMPTY, ObjectKey
from anabranch.deploy.steps import Action, in_order
from anabranch.errors import Refused, UnknownName
from tests.unit.deploy.drawing import edited, key, project, thing, without

SHOP = project(
    thing("raw.sales", kind="table", text="(id)"),
    thing("raw.goods", kind="table", text="(id)"),
    thing("clean.sales", ["raw.sales"]),
    thing("clean.goods", ["raw.goods"], kind="view"),
    thing("mart.joined", ["clean.sales", "clean.goods"]),
    thing("mart.daily", ["mart.joined"]),
)
ROWS = {key("raw.sales"): 1000, key("raw.goods"): 50, key("clean.sales"): 900}


def done(plan: Plan) -> list[str]:
    return [f"{step.action.value} {step.key}".replace("db.", "") for step in plan.steps]


def test_the_same_project_gives_an_empty_plan() -> None:
    plan = make_plan(SHOP, SHOP)
    assert plan.empty
    assert plan.as_dict()["steps"] == []


def test_the_first_deployment_builds_upstreams_first() -> None:
    assert done(make_plan(EMPTY, SHOP))[:6] == [
        "build raw.goods",
        "build raw.sales",
        "build clean.goods",
        "build clean.sales",
        "build mart.joined",
        "build mart.daily",
    ]


def test_a_leaf_is_built_alone_and_its_schema_kept() -> None:
    assert done(make_plan(SHOP, edited(SHOP, "mart.daily"))) == [
        "build mart.daily",
        "swap mart.daily",
        "keep mart.joined",
    ]


def test_a_root_brings_its_readers() -> None:
    plan = make_plan(SHOP, edited(SHOP, "clean.sales"), rows=ROWS)
    assert done(plan) == [
        "build clean.sales",
        "build mart.joined",
        "build mart.daily",
        "swap clean.sales",
        "swap mart.joined",
        "swap mart.daily",
        "keep clean.goods",
    ]
    read = {str(step.key): step.rows for step in plan.steps if step.rows}
    assert read == {"db.clean.sales": 1000, "db.mart.joined": 950, "db.mart.daily": 950}
    assert plan.rows == 2900


def test_a_changed_source_table_is_altered_in_place_and_nothing_is_built() -> None:
    plan = make_plan(SHOP, edited(SHOP, "raw.goods", text="(id, name)"))
    assert done(plan) == [
        "alter raw.goods",
        "keep raw.goods",
        "keep raw.sales",
        "keep clean.goods",
        "keep clean.sales",
        "keep mart.joined",
        "keep mart.daily",
    ]
    assert done(what_if_plan(SHOP, [key("raw.goods")])) == done(plan)


def test_a_table_that_becomes_a_view_is_built_with_its_readers() -> None:
    objects = [each for each in SHOP.objects.values() if each.key != key("raw.goods")]
    view = thing("raw.goods", kind="view", text="SELECT 1 AS id")
    plan = make_plan(SHOP, project(*objects, view))
    assert plan.keys(Action.BUILD) == tuple(
        map(key, ("raw.goods", "clean.goods", "mart.joined", "mart.daily"))
    )


def test_deleted_objects_are_dropped_readers_first_and_their_schema_ends() -> None:
    plan = make_plan(SHOP, without(SHOP, "mart.joined", "mart.daily"))
    assert done(plan) == ["drop mart.daily", "drop mart.joined", "end mart"]
    again = without(SHOP, "mart.joined", "mart.daily")
    assert make_plan(again, again).empty


def test_options_and_clusters_need_no_build() -> None:
    old = project(thing("a", metadata="schedule = 1"), thing("b"), thing("t.c", cluster="x"))
    new = project(thing("a", metadata="schedule = 2"), thing("b"), thing("t.c", cluster="y"))
    plan = make_plan(old, new)
    assert done(plan) == ["metadata public.a", "metadata t.c"]
    assert [step.why for step in plan.steps] == [
        "its options or comments changed",
        "its cluster changed",
    ]


def test_a_changed_cluster_definition_is_named() -> None:
    old, new = (project(thing("a"), clusters={"c": text}) for text in ("small", "large"))
    plan = make_plan(old, new)
    assert plan.clusters_changed == ("c",)
    assert not plan.steps
    assert not plan.empty


def test_the_difference_of_the_sql_is_shown() -> None:
    (changed,) = make_plan(SHOP, edited(SHOP, "mart.daily")).changed
    assert "-CREATE STREAM TABLE AS SELECT 1\n+CREATE STREAM TABLE AS SELECT 2" in changed.diff


def test_what_if_names_what_an_edit_would_cost() -> None:
    plan = what_if_plan(SHOP, [key("clean.sales")], rows=ROWS)
    assert done(plan) == done(make_plan(SHOP, edited(SHOP, "clean.sales")))
    assert plan.rows == 2900


def test_json_says_everything() -> None:
    said = json.loads(json.dumps(make_plan(SHOP, edited(SHOP, "mart.daily")).as_dict()))
    assert [each["object"] for each in said["changed"]] == ["db.mart.daily"]
    assert {each["object"]: each["why"][-1] for each in said["dirty"]} == {
        "db.mart.daily": "db.mart.daily was modified",
        "db.mart.joined": "db.mart.joined is in schema db.mart, which is dirty",
    }
    assert said["dirty_schemas"] == ["db.mart"]
    assert said["steps"][0] == {
        "action": "build",
        "object": "db.mart.daily",
        "parts": ["db", "mart", "daily"],
        "kind": "stream table",
        "why": "db.mart.daily has a new definition",
        "rows": 0,
    }


def test_a_plan_reads_like_a_letter() -> None:
    plan = make_plan(SHOP, edited(SHOP, "mart.joined"), rows=ROWS)
    assert str(plan).splitlines() == [
        "~ db.mart.joined was modified",
        "    @@ -1 +1 @@",
        "    -CREATE STREAM TABLE AS SELECT 1",
        "    +CREATE STREAM TABLE AS SELECT 2",
        "",
        "dirty besides",
        "  db.mart.daily  db.mart.daily reads db.mart.joined, which is dirty",
        "",
        "steps",
        "  build    db.mart.joined  db.mart.joined has a new definition  about 950 rows",
        "  build    db.mart.daily   db.mart.daily reads db.mart.joined, which is rebuilt"
        "  about 950 rows",
        "  swap     db.mart.joined  db.mart.joined has a new definition",
        "  swap     db.mart.daily   db.mart.daily reads db.mart.joined, which is rebuilt",
        "",
        "2 to build, about 1,900 rows to process",
    ]
    assert str(make_plan(SHOP, SHOP)) == "nothing to deploy: the project is what is deployed"


def test_members_of_a_cycle_stand_side_by_side() -> None:
    ring = project(thing("s.seed"), thing("s.a", ["s.seed", "s.b"]), thing("s.b", ["s.a"]))
    assert in_order(ring) == [key("s.seed"), key("s.a"), key("s.b")]
    assert make_plan(ring, edited(ring, "s.b")).keys(Action.BUILD) == (key("s.a"), key("s.b"))


# Selection.


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("mart.daily", {"mart.daily"}),
        ("daily", {"mart.daily"}),
        ("DB.Mart.*", {"mart.daily", "mart.joined"}),
        ("*.sales", {"raw.sales", "clean.sales"}),
        ("+clean.sales", {"clean.sales", "raw.sales"}),
        ("joined+", {"mart.joined", "mart.daily"}),
        ("+joined+", {str(each).removeprefix("db.") for each in SHOP.objects}),
    ],
)
def test_selectors(pattern: str, expected: set[str]) -> None:
    assert chosen([SHOP], [pattern]) == set(map(key, expected))


def test_an_unknown_selector_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="dayly"):
        chosen([SHOP], ["db.mart.dayly"])


def test_a_quoted_part_may_hold_a_dot() -> None:
    assert matches(ObjectKey("db", "x.y", "z"), "`x.y`.z")
    assert not matches(ObjectKey("db", "x.y", "z"), "x.y.z")


def test_only_the_selected_changes_are_taken() -> None:
    new = edited(SHOP, "clean.sales", "mart.daily")
    plan = make_plan(SHOP, new, select=["mart.daily"])
    assert done(plan) == ["build mart.daily", "swap mart.daily", "keep mart.joined"]
    assert make_plan(plan.new, new).keys(Action.BUILD)[0] == key("clean.sales")


def test_a_selection_that_cannot_stand_alone_is_refused() -> None:
    new = project(*SHOP.objects.values(), thing("mart.new"), thing("mart.top", ["mart.new"]))
    with pytest.raises(Refused, match=r"db\.mart\.top reads db\.mart\.new") as error:
        make_plan(SHOP, new, select=["mart.top"])
    assert error.value.hint == "select +db.mart.top to take along what it reads"
    assert make_plan(SHOP, new, select=["+mart.top"]).keys(Action.BUILD)[-1] == key("mart.top")


def test_the_catalog_keeps_all_that_a_plan_says() -> None:
    """With types: what is read again is what was written, to the last reason."""
    changed = without(edited(SHOP, "clean.sales"), "mart.daily")
    plan = make_plan(SHOP, changed, rows=ROWS)
    error = Refused("it drops most of the project", hint="agree to it")
    reader = Reader(key("mart.r").table, (key("mart.joined").table,), "rebuilt")
    by_hand = ByHand(key("mart.joined"), "schedule = 2s", "stays")
    plan = replace(
        plan, readers=(reader,), by_hand=(by_hand,), refused=(Refusal(error, "drop_most"),)
    )
    kept = json.loads(json.dumps(plan.planned.record()))
    assert Planned.read(kept) == plan.planned and kept == plan.as_dict()
    assert {each.object for each in plan.planned.dirty or ()} == set(map(str, plan.found.dirty))
    assert all(each.why for each in plan.planned.dirty or ())
    assert [each.action for each in plan.planned.steps] == [s.action.value for s in plan.steps]

"""Comments: where PyIceberg finds them, and how deployments carry them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.deploy.promote import promote
from anabranch.deploy.rollback import rollback
from anabranch.deploy.snapshot import Snapshot
from anabranch.deploy.stage import stage
from anabranch.deploy.state import DesiredState, plan_now
from anabranch.deploy.steps import Action
from anabranch.errors import UnknownName
from anabranch.lake.publish import publish
from anabranch.lake.schemas import AddColumn, DropColumn
from anabranch.lake.stage import Stage
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.runtime import Runtime
from tests.contract.deploying import key, runtime_of, thing, version, without_spark
from tests.contract.world import COLUMNS, T, World

TOTAL, RAW = key("mart.total"), key("raw.sales")


def seen(world: World, name: TableName = T) -> dict[str, str]:
    """What another program reads."""
    table = world.foreign().load_table((*name.namespace, name.name))
    about = table.properties.get("comment")
    fields = {each.name: each.doc for each in table.schema().fields if each.doc}
    return {"": about, **fields} if about else fields


def say(world: World, **comments: str | None) -> None:
    with Stage(world.lake) as open_stage:
        open_stage.comment(T, {name.replace("table", ""): x for name, x in comments.items()})
        publish(open_stage, "test")


def test_other_programs_read_them(world: World) -> None:
    world.create()
    world.append([(1, "eu")])
    say(world, table="what was sold", REGION="where")
    assert seen(world) == {"": "what was sold", "region": "where"}
    assert world.seen_by_pyiceberg() == {(1, "eu"): 1}
    say(world, table=None, region=None)
    assert seen(world) == {}
    with pytest.raises(UnknownName, match="has no column area"):
        say(world, area="where")


def test_saying_the_same_again_is_no_change(world: World) -> None:
    world.create()
    say(world, table="what was sold", id="counted")
    with Stage(world.lake) as again:
        again.comment(T, {"": "what was sold", "id": "counted", "region": None})
        assert not again.changes


def test_they_outlive_writes_and_other_columns(world: World) -> None:
    world.create()
    say(world, id="counted", region="where")
    world.append([(1, "eu")])
    with Stage(world.lake) as other:
        other.alter(T, [AddColumn(Column("note", "string"), "by hand"), DropColumn("region")])
        other.set_columns(T, (Column("id", "string"), Column("note", "string")))
        publish(other, "test")
    assert seen(world) == {"id": "counted", "note": "by hand"}


def test_if_exists_leaves_a_table_alone(world: World) -> None:
    world.create()
    with Stage(world.lake) as same:
        again = AddColumn(COLUMNS[0], "another comment", if_not_exists=True)
        same.alter(T, [again, DropColumn("missing", if_exists=True)])
        assert not same.changes


# -- deployments ---------------------------------------------------------------------------------


@pytest.fixture
def runtime(world: World, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    without_spark(monkeypatch.setattr)
    return runtime_of(world)


def wanted(number: int = 1, **comments: dict[str, str]) -> DesiredState:
    """The project of the other tests; `mart__total={"id": …}` says something about mart.total."""
    objects = dict(version(number).snapshot.objects)
    for name, said in comments.items():
        one = key(name.replace("__", "."))
        objects[one] = replace(objects[one], comments=said, metadata=str(sorted(said.items())))
    return DesiredState("shop", Snapshot(objects))


def deploy(runtime: Runtime, project: DesiredState) -> str:
    made = stage(runtime, project)
    assert made is not None
    promote(runtime, made)
    return made


def test_what_is_built_has_them_from_the_start(world: World, runtime: Runtime) -> None:
    project = wanted(mart__total={"": "all of it", "id": "how many"}, raw__sales={"id": "counted"})
    made = stage(runtime, project)
    assert made is not None
    staged = TableName.parse(f"db.mart__{made}.total")
    assert seen(world, staged) == {"": "all of it", "id": "how many"}
    promote(runtime, made)
    assert seen(world, TOTAL.table) == {"": "all of it", "id": "how many"}
    assert seen(world, RAW.table) == {"id": "counted"}
    assert plan_now(runtime, project).plan.empty


def test_they_change_without_a_build_in_the_publish_and_roll_back(
    world: World, runtime: Runtime
) -> None:
    deploy(runtime, wanted(mart__total={"": "all of it", "id": "how many"}))
    project = wanted(mart__total={"region": "where"}, raw__sales={"": "sold"})
    plan = plan_now(runtime, project).plan
    assert not plan.keys(Action.BUILD)
    assert set(plan.keys(Action.METADATA)) == {TOTAL, RAW}
    made = stage(runtime, project)
    assert made is not None
    assert seen(world, TOTAL.table) == {"": "all of it", "id": "how many"}, "not before promote"
    promote(runtime, made)
    assert seen(world, TOTAL.table) == {"region": "where"}
    assert seen(world, RAW.table) == {"": "sold"}
    assert plan_now(runtime, project).plan.empty
    rollback(runtime)
    assert seen(world, TOTAL.table) == {"": "all of it", "id": "how many"}
    assert seen(world, RAW.table) == {}


def test_what_is_only_kept_loses_none(world: World, runtime: Runtime) -> None:
    """Somebody said something by hand about a sibling of a table that changes."""
    deploy(runtime, wanted(mart__total={"id": "how many"}))
    with Stage(world.lake) as by_hand:
        by_hand.comment(TOTAL.table, {"": "by hand"})
        publish(by_hand, "test")
    other = key("mart.other")
    objects = {**wanted(mart__total={"id": "how many"}).snapshot.objects}
    objects[other] = thing(other, "CREATE STREAM TABLE t AS SELECT id, region FROM db.raw.sales")
    project = DesiredState("shop", Snapshot(objects))
    assert TOTAL in plan_now(runtime, project).plan.keys(Action.KEEP)
    deploy(runtime, project)
    assert seen(world, TOTAL.table) == {"": "by hand", "id": "how many"}


def test_a_table_made_by_hand_gets_those_of_the_project(world: World, runtime: Runtime) -> None:
    world.create(RAW.table)
    project = wanted(raw__sales={"": "sold"})
    deploy(runtime, project)
    assert seen(world, RAW.table) == {"": "sold"}
    assert plan_now(runtime, project).plan.empty

"""Stage, promote, roll back and abort on real catalogs, with processes that are killed half-way."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from anabranch.catalog import deployments, refresh_groups, stages, streams
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.streams import StreamTable
from anabranch.deploy import build
from anabranch.deploy.abort import abort
from anabranch.deploy.listing import listing
from anabranch.deploy.progress import progress, wait
from anabranch.deploy.promote import promote
from anabranch.deploy.rollback import rollback
from anabranch.deploy.snapshot import Snapshot
from anabranch.deploy.stage import stage
from anabranch.deploy.state import DesiredState, plan_now
from anabranch.deploy.steps import Action
from anabranch.errors import PublishConflict, Refused, UnknownName
from anabranch.failpoints import BEGUN, STEPS
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.lake.upkeep import maintain
from anabranch.names import TableName
from anabranch.runtime import Runtime
from anabranch.verbs.deployments import rollback_dry
from tests.contract.deploying import (
    MOVING,
    key,
    look,
    project,
    runtime_of,
    thing,
    torn,
    version,
    whole,
    without_spark,
)
from tests.contract.test_processes import answer, run
from tests.contract.world import World, bag

pytestmark = pytest.mark.extended

Deploy = Callable[[DesiredState], str]


@pytest.fixture
def runtime(world: World, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    without_spark(monkeypatch.setattr)
    return runtime_of(world)


@pytest.fixture
def deploy(runtime: Runtime) -> Deploy:
    def deployed(wanted: DesiredState) -> str:
        made = stage(runtime, wanted)
        assert made is not None
        promote(runtime, made)
        return made

    return deployed


def names(world: World) -> set[str]:
    return {str(name) for name in world.lake.pointers()}


PRODUCTION = {
    "db.raw.sales", "db.clean.sales", "db.mart.regions", "db.mart.total", "db.other.copy",
}  # fmt: skip


def test_a_deployment_is_staged_promoted_and_then_there_is_nothing_to_do(
    world: World, runtime: Runtime
) -> None:
    made = stage(runtime, version(1))
    assert made is not None
    assert names(world) == {
        f"db.{name.split('.')[1]}__{made}.{name.split('.')[2]}" for name in PRODUCTION
    }
    assert promote(runtime, made)["status"] == "PROMOTED"
    assert names(world) == PRODUCTION
    assert look(world).numbers == {"1"}
    assert plan_now(runtime, version(1)).plan.empty
    assert stage(runtime, version(1)) is None
    assert [each["status"] for each in listing(world.store)] == ["PROMOTED"]


def test_only_what_has_other_rows_is_built(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    before = world.lake.pointers()
    made = stage(runtime, version(2))
    staged = {name for name in names(world) if made in name}
    assert staged == {
        f"db.clean__{made}.sales",
        f"db.mart__{made}.regions",
        f"db.mart__{made}.total",
    }
    assert made is not None
    with world.store.reading() as c:
        queries = {str(name): each.query for name, each in streams.all_streams(c).items()}
    assert f"`clean__{made}`.`sales`" in queries[f"db.mart__{made}.regions"]
    assert queries[f"db.clean__{made}.sales"].endswith("FROM db.raw.sales WHERE id > 2")
    promote(runtime, made)
    after = world.lake.pointers()
    same = {str(name) for name, at in after.items() if before.get(name) == at}
    assert same == {"db.raw.sales", "db.other.copy"}
    with world.store.reading() as c:
        known = streams.all_streams(c)
        reads, read = streams.dependencies(c), streams.inputs(c)
    assert set(map(str, known)) == PRODUCTION - {"db.raw.sales"}
    regions = known[key("mart.regions").table]
    assert regions.query == "SELECT 2 AS id, region FROM db.clean.sales"
    assert regions.fingerprint == f"of {regions.query}"
    assert regions.diamond_consistency == "atomic"
    assert reads[regions.name] == (key("clean.sales").table,)
    assert (
        read[regions.name][key("clean.sales").table].metadata_location
        == after[key("clean.sales").table]
    )


def test_roll_back_returns_to_the_state_before(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    before, pointers = look(world), world.lake.pointers()
    second = deploy(version(2))
    assert look(world).numbers == {"2"}
    assert rollback(runtime)["id"] == second
    assert look(world) == before
    assert world.lake.pointers() == pointers
    assert plan_now(runtime, version(1)).plan.empty
    assert plan_now(runtime, version(2)).plan.keys(Action.BUILD) == MOVING
    deploy(version(2))
    assert look(world).numbers == {"2"}


def test_roll_back_twice_goes_back_twice(world: World, runtime: Runtime, deploy: Deploy) -> None:
    for number in (1, 2, 3):
        deploy(version(number))
    rollback(runtime)
    assert look(world).numbers == {"2"}
    rollback(runtime)
    assert look(world).numbers == {"1"}
    rollback(runtime)
    assert names(world) == {"db.raw.sales"}  # it may hold rows
    assert not look(world).queries
    with pytest.raises(Refused, match="no deployment is promoted"):
        rollback(runtime)


def test_only_the_newest_deployment_of_a_schema_is_rolled_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    first = deploy(version(1))
    second = deploy(version(2))
    with pytest.raises(Refused, match=f"{second} deployed .* after {first}") as error:
        rollback(runtime, first)
    assert error.value.hint == f"`anabranch rollback {second}` first"


def test_roll_back_needs_the_cuts(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    first = look(world)
    second = deploy(version(2))
    maintain(world.lake, retention=timedelta(hours=1))
    rollback(runtime)
    assert look(world) == first
    maintain(world.lake, retention=timedelta(hours=1))
    third = deploy(version(2))
    assert third != second
    maintain(world.lake, retention=timedelta(0))
    with pytest.raises(Refused, match=f"what {third} replaced is no longer kept"):
        rollback(runtime)
    with pytest.raises(Refused, match="is no longer kept"):
        rollback_dry(runtime, third)
    assert look(world).numbers == {"2"}
    maintain(world.lake, retention=timedelta(0))
    assert look(world).numbers == {"2"}


def test_upkeep_forgets_how_to_undo_what_cannot_be_undone(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    deploy(version(2))
    maintain(world.lake, retention=timedelta(hours=1))
    assert all(undos(world))
    maintain(world.lake, retention=timedelta(0))
    assert undos(world)[0] is None, "what version 2 replaced is gone"
    assert [each["status"] for each in listing(world.store)] == ["PROMOTED"] * 2


def undos(world: World) -> list[object]:
    """Newest first."""
    with world.store.reading() as c:
        return [each.undo for each in deployments.listing(c)]


def test_upkeep_keeps_all_snapshots_that_a_roll_back_brings_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    for at in range(3):
        world.append([(at, "more")], key("other.copy").table)
        world.append([(at, "more")], key("mart.total").table)
    deploy(version(2))
    maintain(world.lake, retention=timedelta(hours=1))
    rollback(runtime)
    total = world.lake.current(key("mart.total").table)
    for snapshot_id in total.snapshot_ids:
        assert bag(total, snapshot_id)
    maintain(world.lake, retention=timedelta(hours=1))


def test_abort_removes_the_deployment_and_nothing_else(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    pointers, seen = world.lake.pointers(), look(world)
    mine, other = stage(runtime, version(2)), stage(runtime, version(3))
    assert mine is not None and other is not None and mine != other
    removed = abort(runtime, mine)["removed"]
    assert len(removed) == 3
    assert {name for name in names(world) if other in name} and not any(
        mine in name for name in names(world)
    )
    assert look(world).numbers == seen.numbers
    abort(runtime, other)
    assert world.lake.pointers() == pointers
    assert look(world) == seen
    assert abort(runtime, other)["removed"] == []  # once more does no harm
    with world.store.reading() as c:
        spaces = c.exec_driver_sql("SELECT namespace FROM iceberg_namespace_properties").scalars()
        assert set(spaces) == {"db.raw", "db.clean", "db.mart", "db.other"}


def test_a_promoted_deployment_cannot_be_aborted_or_promoted_again(
    runtime: Runtime, deploy: Deploy
) -> None:
    made = deploy(version(1))
    with pytest.raises(Refused, match="cannot be aborted: it is promoted") as error:
        abort(runtime, made)
    assert error.value.hint == f"`anabranch rollback {made}` takes it back"
    with pytest.raises(Refused, match="cannot be promoted: it is promoted"):
        promote(runtime, made)
    with pytest.raises(UnknownName, match="there is no deployment 1234"):
        promote(runtime, "1234")


def test_the_second_of_two_overlapping_promotes_is_refused(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    mine, other = stage(runtime, version(2)), stage(runtime, version(3))
    assert mine is not None and other is not None
    promote(runtime, other)
    cuts, seen = world.lake.pointers(), look(world)
    with pytest.raises(Refused, match=f"moved since {mine} was staged: .* deployed {other}") as no:
        promote(runtime, mine)
    assert no.value.hint == f"`anabranch abort {mine}`, then `anabranch stage` again"
    assert world.lake.pointers() == cuts
    assert look(world) == seen
    abort(runtime, mine)
    assert look(world) == seen


def test_promotes_of_other_schemas_do_not_disturb_each_other(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    copy = version(1).snapshot.objects | {
        key("other.copy"): thing(
            key("other.copy"), "CREATE STREAM TABLE t AS SELECT 9 AS id, region FROM db.raw.sales"
        )
    }
    mine = stage(runtime, version(2))
    other = stage(runtime, DesiredState("shop", Snapshot(copy)))
    assert mine is not None and other is not None
    promote(runtime, other)
    promote(runtime, mine)
    assert look(world).numbers == {"2"}
    assert look(world).queries["db.other.copy"].startswith("SELECT 9")
    with world.store.reading() as c:
        assert len(deployments.deployed(c)) == 5


def test_a_change_by_hand_is_noticed(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    made = stage(runtime, version(2))
    assert made is not None
    with world.store.writing() as c:
        streams.change(c, key("mart.total").table, query="SELECT 7 AS id, 'x' AS region")
    with pytest.raises(Refused, match="db.mart.total was changed by hand since"):
        promote(runtime, made)
    assert look(world).numbers == {"1"}


def test_the_next_deployment_mends_what_was_done_by_hand(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    with world.store.writing() as c:
        streams.change(c, key("mart.total").table, query="SELECT 7 AS id, 'x' AS region")
        streams.remove(c, key("other.copy").table)
    with Stage(world.lake) as gone:
        gone.drop(key("other.copy").table)
        publish(gone, "test")
    plan = plan_now(runtime, version(1)).plan
    assert set(plan.keys(Action.BUILD)) == {key("mart.total"), key("other.copy")}
    assert "-SELECT 7 AS id, 'x' AS region" in plan.changed[0].diff
    deploy(version(1))
    assert names(world) == PRODUCTION
    assert look(world).queries["db.mart.total"] == _queries(1)["mart__total"]
    assert plan_now(runtime, version(1)).plan.empty


def test_a_change_by_hand_is_noticed_even_in_the_last_moment(
    world: World, runtime: Runtime, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(version(1))
    made = stage(runtime, version(2))
    assert made is not None

    def meddle(*_: object) -> None:
        with world.store.writing() as c:
            streams.change(c, key("mart.total").table, query="SELECT 7 AS id, 'x' AS region")

    monkeypatch.setattr("anabranch.deploy.promote.check_one_world", meddle)
    with pytest.raises(Refused, match="db.mart.total was changed by hand since"):
        promote(runtime, made)
    assert look(world).rows["db.mart.regions"].startswith("SELECT 1")


def test_staged_tables_must_have_seen_the_newest_upstreams(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    made = stage(
        runtime, project(**{**_queries(1), "late__top": "SELECT id, region FROM db.mart.total"})
    )
    assert made is not None
    world.append([(1, "newer")], key("mart.total").table)
    with pytest.raises(PublishConflict, match="has not seen the newest db.mart.total"):
        promote(runtime, made)
    assert "db.late.top" not in names(world)


def _queries(number: int) -> dict[str, str]:
    objects = version(number).snapshot.objects.values()
    return {f"{each.key[1]}__{each.key[2]}": each.query for each in objects if each.query}


def test_what_is_deleted_goes_with_its_schema(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    less = {name: query for name, query in _queries(1).items() if not name.startswith("mart")}
    deploy(project(**less))
    assert names(world) == {"db.raw.sales", "db.clean.sales", "db.other.copy"}
    assert plan_now(runtime, project(**less)).plan.empty
    with world.store.reading() as c:
        spaces = c.exec_driver_sql("SELECT namespace FROM iceberg_namespace_properties").scalars()
        assert set(spaces) == {"db.raw", "db.clean", "db.other"}
    rollback(runtime)
    assert names(world) == PRODUCTION
    assert look(world).numbers == {"1"}


def test_what_others_read_is_not_dropped(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    less = {name: query for name, query in _queries(1).items() if name != "mart__total"}
    made = stage(runtime, project(**less))
    assert made is not None
    reader = StreamTable(TableName.parse("mine.own"), "SELECT 1", "x")
    with world.store.writing() as c:
        streams.add(c, [reader])
        streams.set_dependencies(c, {reader.name: [key("mart.total").table]})
    with pytest.raises(Refused, match="mine.own reads db.mart.total, which .* drops"):
        promote(runtime, made)
    assert names(world) == PRODUCTION


def test_source_tables_are_dropped_only_when_asked(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    world.append([(1, "eu")], key("raw.sales").table)
    nothing = DesiredState("shop", Snapshot())
    with pytest.raises(Refused, match="db.raw.sales is a source table") as error:
        stage(runtime, nothing)
    assert "--drop-tables" in (error.value.hint or "")
    made = stage(runtime, nothing, drop_tables=True)
    assert made is not None
    promote(runtime, made)
    assert names(world) == set()
    rollback(runtime)
    assert names(world) == PRODUCTION
    assert bag(world.lake.current(key("raw.sales").table)) == {(1, "eu"): 1}


def test_source_tables_are_widened_in_place(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    world.append([(1, "eu")], key("raw.sales").table)
    wider = thing(key("raw.sales"), "CREATE TABLE sales (id BIGINT, region STRING, note STRING)")
    objects = {**version(1).snapshot.objects, wider.key: wider}
    deploy(DesiredState("shop", Snapshot(objects)))
    version_now = world.lake.current(key("raw.sales").table)
    assert [column.name for column in version_now.columns] == ["id", "region", "note"]
    assert version_now.rows == 1
    narrow = thing(key("raw.sales"), "CREATE TABLE sales (id BIGINT)")
    with pytest.raises(Refused, match="has a column region that the project does not declare"):
        stage(runtime, DesiredState("shop", Snapshot({**objects, narrow.key: narrow})))


def test_a_source_table_made_by_hand_is_taken_as_it_is(world: World, runtime: Runtime) -> None:
    world.create(key("raw.sales").table)
    world.append([(1, "eu")], key("raw.sales").table)
    made = stage(runtime, version(1))
    assert made is not None
    assert f"db.raw__{made}.sales" not in names(world)
    promote(runtime, made)
    assert world.lake.current(key("raw.sales").table).rows == 1
    assert plan_now(runtime, version(1)).plan.empty


def test_a_source_table_made_by_hand_is_not_replaced_by_something_else(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    total = key("mart.total")
    world.create(total.table)
    world.append([(1, "mine")], total.table)
    with pytest.raises(Refused, match="db.mart.total is a source table and would be dropped"):
        stage(runtime, version(1))
    assert bag(world.lake.current(total.table)) == {(1, "mine"): 1}
    made = stage(runtime, version(1), drop_tables=True)
    assert made is not None
    promote(runtime, made)
    rollback(runtime)
    assert bag(world.lake.current(total.table)) == {(1, "mine"): 1}


def test_a_stream_table_made_by_hand_is_replaced_with_a_word(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    total = key("mart.total")
    world.create(total.table)
    with world.store.writing() as c:
        streams.add(c, [StreamTable(total.table, "SELECT 7 AS id, 'x' AS region", "f")])
    plan = plan_now(runtime, version(1)).plan
    (changed,) = [each for each in plan.changed if each.key == total]
    assert changed.change.value == "modified"
    assert "-SELECT 7 AS id, 'x' AS region" in changed.diff
    deploy(version(1))
    assert look(world).queries["db.mart.total"] == _queries(1)["mart__total"]
    rollback(runtime)
    assert look(world).queries == {"db.mart.total": "SELECT 7 AS id, 'x' AS region"}


def test_another_project_in_the_same_catalog_is_left_alone(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    elsewhere = thing(key("raw.sales"), "CREATE TABLE sales (id BIGINT)")
    named = replace(elsewhere, key=key("raw.sales")._replace(database="crm"))
    plan = plan_now(runtime, DesiredState("crm", Snapshot({named.key: named}))).plan
    assert plan.keys(Action.BUILD) == (named.key,)
    assert not plan.keys(Action.DROP)


def test_options_change_without_a_build_and_roll_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    total = version(1).snapshot.objects[key("mart.total")]
    slower = replace(total, options={"schedule": "1h", "refresh_mode": "FULL"}, metadata="1h")
    deploy(DesiredState("shop", Snapshot({**version(1).snapshot.objects, total.key: slower})))

    def found() -> tuple[str | None, str]:
        with world.store.reading() as c:
            stream = streams.get(c, total.key.table)
        assert stream is not None
        return stream.schedule, stream.refresh_mode.value

    assert found() == ("1h", "FULL")
    rollback(runtime)
    assert found() == (None, "AUTO")


def group(world: World, *members: str) -> None:
    named = tuple(key(each).table for each in members)
    with world.store.writing() as c:
        refresh_groups.add(c, RefreshGroup("mine", named))


def groups(world: World) -> dict[str, set[str]]:
    with world.store.reading() as c:
        found = refresh_groups.all_groups(c)
    return {name: {str(each) for each in one.members} for name, one in found.items()}


def test_what_goes_leaves_its_refresh_group_and_comes_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    group(world, "mart.regions", "mart.total", "other.copy")
    less = {name: query for name, query in _queries(1).items() if name != "mart__total"}
    deploy(project(**less))
    assert groups(world) == {"mine": {"db.mart.regions", "db.other.copy"}}
    rollback(runtime)
    assert groups(world) == {"mine": {"db.mart.regions", "db.mart.total", "db.other.copy"}}


def test_a_refresh_group_that_ended_comes_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    group(world, "mart.total", "other.copy")
    less = {name: query for name, query in _queries(1).items() if name != "mart__total"}
    deploy(project(**less))
    assert groups(world) == {}
    rollback(runtime)
    assert groups(world) == {"mine": {"db.mart.total", "db.other.copy"}}


def test_a_roll_back_takes_new_tables_out_of_refresh_groups(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    deploy(project(**_queries(1), late__top="SELECT id, region FROM db.mart.total"))
    group(world, "late.top", "other.copy")
    rollback(runtime)
    assert groups(world) == {}


@pytest.mark.parametrize("act", [promote, abort])
def test_staged_tables_leave_refresh_groups(
    world: World, runtime: Runtime, act: Callable[[Runtime, str], object]
) -> None:
    made = stage(runtime, version(1))
    assert made is not None
    group(world, f"mart__{made}.total", f"other__{made}.copy")
    act(runtime, made)
    assert groups(world) == {}


def test_epochs_never_go_back(world: World, runtime: Runtime, deploy: Deploy) -> None:
    def epoch() -> int:
        with world.store.reading() as c:
            found = streams.get(c, key("mart.total").table)
        assert found is not None
        return found.epoch or 0

    deploy(version(1))
    with world.store.writing() as c:
        streams.set_epochs(c, {key("mart.total").table: 50})
    deploy(version(2))
    assert epoch() == 51
    rollback(runtime)
    assert epoch() == 52


def test_wait_and_progress(world: World, runtime: Runtime, deploy: Deploy) -> None:
    made = stage(runtime, version(1))
    assert made is not None
    looks: list[object] = []
    found = wait(world.store, world.lake, made, watch=looks.append)
    assert found["ready"] and looks == [found]
    assert {each["state"] for each in found["objects"]} == {"FRESH"}
    world.append([(1, "eu")], TableName.parse(f"db.raw__{made}.sales"))
    states = {
        each["object"]: each["state"] for each in progress(world.store, world.lake, made)["objects"]
    }
    assert states["db.clean.sales"] == "BEHIND"
    abort(runtime, made)
    again = stage(runtime, version(1))
    assert again is not None
    promote(runtime, again)
    assert progress(world.store, world.lake, again)["status"] == "PROMOTED"


def test_a_failed_build_is_taken_up_again(
    world: World, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build.declare.create_all

    def fails(*arguments: object) -> None:
        if "mart__" in str(arguments[1]):
            raise Refused("no")
        whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(build.declare, "create_all", fails)
    with pytest.raises(Refused, match="no"):
        stage(runtime, version(1))
    (unfinished,) = listing(world.store)
    assert unfinished["status"] == "STAGING"
    monkeypatch.setattr(build.declare, "create_all", whole)
    assert stage(runtime, version(1)) == unfinished["id"]


def test_not_inside_a_transaction(runtime: Runtime, deploy: Deploy) -> None:
    made = deploy(version(1))
    with runtime.open_transaction():
        for act in (
            lambda: stage(runtime, version(2)),
            lambda: promote(runtime, made),
            lambda: rollback(runtime),
            lambda: abort(runtime, made),
        ):
            with pytest.raises(Refused, match="inside a transaction"):
                act()


# Processes: each takes seconds to start, so one kind of catalog must do.

on_sqlite = pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)


def killed_at(world: World, step: str, *arguments: str) -> None:
    """Run a command that is killed at a step."""
    job = ("tests.contract.deploying", "do", world.url, str(world.warehouse), *arguments)
    started = run(*job, kill=step)
    _, error = started.communicate(timeout=120)
    assert started.returncode == -signal.SIGKILL, error


@on_sqlite
@pytest.mark.parametrize(
    "step",
    [BEGUN, "staged:2", "metadata_written:1", "in_transaction:3", "published:1", "published:3"],
)
def test_a_killed_stage_is_finished_by_the_next(
    world: World, runtime: Runtime, deploy: Deploy, step: str
) -> None:
    deploy(version(1))
    before = look(world)
    killed_at(world, step, "stage", "2")
    assert look(world) == before
    (unfinished, _first) = listing(world.store)
    assert unfinished["status"] == "STAGING"
    maintain(world.lake)
    assert stage(runtime, version(2)) == unfinished["id"]
    promote(runtime, unfinished["id"])
    assert look(world).numbers == {"2"}
    with world.store.reading() as c:
        assert stages.all_stages(c) == []


ACTS = {"promote": promote, "rollback": rollback, "abort": abort}


# In every command the steps are the same; only promote dies at all of them each time.
KILLS = [
    pytest.param(verb, step, marks=[] if verb == "promote" or at >= 2 else pytest.mark.slow)
    for verb in ACTS
    for at, step in enumerate(STEPS)
]


@on_sqlite
@pytest.mark.parametrize(("verb", "step"), KILLS)
def test_a_killed_command_did_all_or_nothing(
    world: World, runtime: Runtime, deploy: Deploy, verb: str, step: str
) -> None:
    deploy(version(1))
    made = deploy(version(2)) if verb == "rollback" else stage(runtime, version(2))
    assert made is not None
    before, pointers = look(world), world.lake.pointers()
    killed_at(world, step, verb, made)
    if step != STEPS[-1]:
        assert look(world) == before
        assert world.lake.pointers() == pointers
        maintain(world.lake)
        ACTS[verb](runtime, made)
    elif verb != "abort":  # an abort may be repeated
        with pytest.raises(Refused, match=f"{made} cannot be .*: it is "):
            ACTS[verb](runtime, made)
    maintain(world.lake)
    assert look(world).numbers == {"2" if verb == "promote" else "1"}
    assert not any(made in name for name in names(world))


@on_sqlite
def test_two_people_stage_at_once(world: World, runtime: Runtime, deploy: Deploy) -> None:
    deploy(version(1))
    job = ("tests.contract.deploying", "do", world.url, str(world.warehouse), "stage")
    mine, other = [answer(each) for each in [run(*job, "2"), run(*job, "3")]]
    assert mine != other
    assert look(world).numbers == {"1"}
    abort(runtime, other)
    promote(runtime, mine)
    assert look(world).numbers == {"2"}
    assert names(world) == PRODUCTION


@on_sqlite
def test_a_reader_can_tell_two_deployments_apart(world: World, deploy: Deploy) -> None:
    deploy(version(1))
    before = whole(world)
    deploy(version(2))
    after = whole(world)
    assert torn(world, before) is None and torn(world, after) is None
    for at in range(len(MOVING) + 2):  # the last definition is the same in all versions
        mixed = (*before[:at], after[at], *before[at + 1 :])
        assert torn(world, mixed), at


@on_sqlite
def test_no_torn_read_while_promoting_and_rolling_back(
    world: World, runtime: Runtime, deploy: Deploy
) -> None:
    deploy(version(1))
    job = ("tests.contract.deploying", "reader", world.url, str(world.warehouse), "1500", "6")
    readers = [run(*job) for _ in range(2)]
    number = 1
    while any(each.poll() is None for each in readers):
        number += 1
        deploy(version(number))
        if number % 2:
            rollback(runtime)
    assert [answer(each) for each in readers] == ["ok", "ok"]
    assert number > 5

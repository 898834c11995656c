"""Publish: all or nothing, first come first served, and every cut stays readable."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from anabranch.catalog import cuts, stages, views
from anabranch.errors import (
    AlreadyExists,
    DataError,
    InternalError,
    InvalidValue,
    PublishConflict,
    UnknownName,
    Unreachable,
)
from anabranch.lake.lake import Lake
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.model import Column
from anabranch.names import TableName
from tests.contract.world import COLUMNS, T, World, bag, written

NAMES = [TableName.of("shop", f"t{at}") for at in range(5)]


def files(world: World) -> set[str]:
    return set(world.lake.warehouse.listing(world.lake.warehouse.location))


def open_stages(world: World) -> int:
    with world.store.reading() as c:
        return len(stages.all_stages(c))


def test_many_tables_one_cut(world: World) -> None:
    with Stage(world.lake) as stage:
        for name in NAMES:
            stage.create(name, COLUMNS)
            stage.commit_rows(name, written(stage, name, add=[(1, "eu")]))
            assert stage.version(name).rows == 1
        assert world.lake.pointers() == {}
        cut = publish(stage, "test")
    assert cut == 1
    assert sorted(world.lake.pointers()) == NAMES
    assert world.lake.pointers() == world.lake.pointers_at(cut)
    assert all(world.seen_by_pyiceberg(name) == {(1, "eu"): 1} for name in NAMES)
    assert open_stages(world) == 0
    with world.store.reading() as c:
        (line,) = cuts.listing(c)
    assert line["tables"] == [str(name) for name in NAMES] and line["kind"] == "test"


def test_a_lost_race_leaves_nothing(world: World) -> None:
    for name in NAMES:
        world.create(name)
    before = files(world)
    with Stage(world.lake) as late:
        for name in NAMES:
            late.commit_rows(name, written(late, name, add=[(1, "late")]))
        world.append([(1, "early")], NAMES[3])
        early = files(world)
        with pytest.raises(PublishConflict, match="shop.t3 was changed by another process"):
            publish(late, "test")
    assert [world.lake.current(name).rows for name in NAMES] == [0, 0, 0, 1, 0]
    assert files(world) == early - {path for path in early if late.id in path}
    assert before < files(world)
    assert open_stages(world) == 0
    with world.store.reading() as c:
        assert cuts.current(c) == len(NAMES) + 1
        assert [line["cut_id"] for line in cuts.listing(c)] == [6, 5, 4, 3, 2, 1]


def test_the_callback_shares_the_transaction(world: World) -> None:
    view = TableName.of("shop", "v")

    def failing(c: Connection, cut_id: int) -> None:
        views.add(c, view, "SELECT 1")
        raise ZeroDivisionError

    with Stage(world.lake) as stage, pytest.raises(ZeroDivisionError):
        stage.create(T, COLUMNS)
        publish(stage, "test", failing)
    assert world.lake.pointers() == {} and open_stages(world) == 0
    with world.store.reading() as c:
        assert views.all_views(c) == {} and cuts.current(c) == 0
    seen = []
    with Stage(world.lake) as stage:
        stage.create(T, COLUMNS)
        cut = publish(
            stage, "test", lambda c, cut_id: (views.add(c, view, "q"), seen.append(cut_id))[1]
        )
    assert seen == [cut] == [1]
    with world.store.reading() as c:
        assert views.all_views(c) == {view: "q"}


def test_the_read_set(world: World) -> None:
    other = TableName.of("shop", "other")
    source = world.create(T)
    world.create(other)
    with Stage(world.lake) as stage:
        stage.expect(T, source.location)
        stage.expect(TableName.of("shop", "new"), None)
        stage.commit_rows(other, written(stage, other, add=[(1, "eu")]))
        world.append([(1, "eu")])
        with pytest.raises(PublishConflict, match="shop.sales"):
            publish(stage, "test")
    assert world.lake.current(other).rows == 0


def test_old_cuts(world: World) -> None:
    world.create()
    seen = {}
    for at in range(4):
        world.append([(at, "eu")])
        with world.store.reading() as c:
            seen[cuts.current(c)] = bag(world.lake.current(T))
    with Stage(world.lake) as stage:
        stage.drop(T)
        after_drop = publish(stage, "test")
    assert world.lake.pointers() == {} == world.lake.pointers_at(after_drop)
    for cut, rows in seen.items():
        assert bag(world.lake.version(T, world.lake.pointers_at(cut)[T])) == rows
    with pytest.raises(UnknownName, match="there is no cut 99; the newest is 6"):
        world.lake.pointers_at(99)


def test_pointers_that_others_moved_become_a_cut_before_the_next(world: World) -> None:
    world.create()
    before = world.append([(1, "eu")])
    table = world.foreign().load_table(("shop", "sales"))
    table.append(table.scan().to_arrow())
    moved = world.lake.current(T)
    assert moved.location != before.location
    other = TableName.of("shop", "other")
    world.create(other)
    assert world.lake.pointers_at(2) == {T: before.location}
    assert world.lake.pointers_at(3) == {T: moved.location}
    assert world.lake.pointers_at(4).keys() == {T, other}
    world.foreign().drop_table(("shop", "sales"))
    world.create(TableName.of("shop", "another"))
    assert world.lake.pointers_at(5).keys() == {other}
    assert world.lake.pointers() == world.lake.pointers_at(6)
    with world.store.reading() as c:
        kinds = {each["cut_id"]: (each["kind"], each["tables"]) for each in cuts.listing(c)}
        shown = {each.metadata_location: each.snapshot_id for each in cuts.known_versions(c)}
    assert kinds[3] == ("observed", ["shop.sales"]) == kinds[5]
    assert kinds[4] == ("test", ["shop.other"]) and kinds[6] == ("test", ["shop.another"])
    assert shown[moved.location] == moved.snapshot_id


def test_what_a_stage_sees(world: World) -> None:
    world.create()
    world.append([(1, "eu")])
    with Stage(world.lake) as stage:
        world.append([(2, "us")])
        assert stage.version(T).rows == 1  # as it was when the stage began
        stage.commit_rows(T, written(stage, T, add=[(3, "eu")]))
        stage.commit_rows(T, written(stage, T, add=[(4, "eu")]))
        assert bag(stage.version(T)) == {(1, "eu"): 1, (3, "eu"): 1, (4, "eu"): 1}
        assert len(stage.version(T).snapshot_ids) == 3  # steps of one stage chain up
    assert bag(world.lake.current(T)) == {(1, "eu"): 1, (2, "us"): 1}


def test_create_drop_create(world: World) -> None:
    first = world.create()
    world.append([(1, "eu")])
    with Stage(world.lake) as stage:
        with pytest.raises(AlreadyExists, match="table shop.sales already exists"):
            stage.create(T, COLUMNS)
        stage.drop(T)
        assert not stage.exists(T)
        with pytest.raises(UnknownName):
            stage.version(T)
        with pytest.raises(UnknownName):
            stage.drop(T)
        stage.create(T, (Column("other", "int"),))
        publish(stage, "test")
    again = world.lake.current(T)
    assert again.root != first.root and again.rows == 0
    assert [column.name for column in again.columns] == ["other"]
    assert world.foreign().load_table(("shop", "sales")).schema().column_names == ["other"]
    with Stage(world.lake) as stage:
        stage.create(NAMES[0], COLUMNS)
        stage.drop(NAMES[0])
        assert stage.changes == {}


def test_creating_what_another_process_created(world: World) -> None:
    with Stage(world.lake) as one, Stage(world.lake) as two:
        one.create(T, COLUMNS)
        two.create(T, COLUMNS)
        publish(one, "test")
        with pytest.raises(PublishConflict):
            publish(two, "test")
    assert len(world.lake.pointers()) == 1


def test_a_stage_is_published_once(world: World) -> None:
    with Stage(world.lake) as stage:
        stage.create(T, COLUMNS)
        publish(stage, "test")
        with pytest.raises(InternalError):
            publish(stage, "test")


def test_a_stage_that_was_given_up_cannot_publish(world: World) -> None:
    with Stage(world.lake) as stage:
        stage.create(T, COLUMNS)
        with world.store.writing() as c:
            stages.remove(c, stage.id)
        with pytest.raises(PublishConflict, match="taken for abandoned"):
            publish(stage, "test")
    assert world.lake.pointers() == {}


def test_abort_removes_the_files(world: World) -> None:
    world.create()
    before = files(world)
    with Stage(world.lake) as stage:
        stage.commit_rows(T, written(stage, T, add=[(1, "eu")]))
        stage.create(NAMES[0], COLUMNS)
        stage.commit_rows(NAMES[0], written(stage, NAMES[0], add=[(1, "eu")]))
        assert files(world) > before
    assert files(world) == before
    assert open_stages(world) == 0


@pytest.mark.parametrize(
    "name",
    [
        TableName.of("my shop", "Größe/€ 100%"),
        TableName.of("shop", "a.b"),
        TableName.of("a", "b", "c"),
        TableName.of("x", "`tick`"),
        TableName.of("x", "n" * 255),
    ],
    ids=str,
)
def test_any_name(world: World, name: TableName) -> None:
    world.create(name)
    world.append([(1, "eu")], name)
    assert world.lake.pointers().keys() == {name}
    assert world.seen_by_pyiceberg(name) == {(1, "eu"): 1}


def test_a_schema_name_with_a_dot(world: World) -> None:
    with Stage(world.lake) as stage, pytest.raises(InvalidValue, match="may not hold a dot"):
        stage.create(TableName(("a.b",), "c"), COLUMNS)


def test_null_in_a_column_that_has_none(world: World) -> None:
    world.create(T, (Column("id", "bigint", nullable=False), Column("region", "string")))
    world.append([(1, None)])
    with (
        Stage(world.lake) as stage,
        pytest.raises(DataError, match="column id of shop.sales is NOT"),
    ):
        stage.commit_rows(T, written(stage, T, add=[(None, None)]))


def test_a_warehouse_of_another_catalog(world: World, tmp_path: object) -> None:
    world.create()
    foreign = Lake(world.store, f"{tmp_path}/warehouse")
    foreign.warehouse.catalog_uuid = "another"
    with pytest.raises(Unreachable, match="belongs to another catalog"):
        Stage(foreign)


def test_a_warehouse_out_of_reach(world: World) -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        Stage(Lake(world.store, "/proc/nothing"))
    world.create()
    place = world.lake.pointers()[T]
    world.lake.warehouse.delete(place)
    with pytest.raises(Unreachable, match="metadata file of shop.sales is missing"):
        Lake(world.store, world.lake.warehouse.location).current(T)

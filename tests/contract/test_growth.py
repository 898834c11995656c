"""Nothing grows: cuts name snapshots, metadata stays short, and old metadata files go."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from anabranch.catalog import cuts, read_leases, streams, tables
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Store
from anabranch.errors import BaseExpired
from anabranch.lake.lake import Lake
from anabranch.lake.places import local_path
from anabranch.lake.publish import PREVIOUS_METADATA, SUPERSEDED, delete_metadata, publish
from anabranch.lake.recorded import LISTED
from anabranch.lake.stage import Stage
from anabranch.lake.upkeep import maintain
from anabranch.names import TableName
from benchmarks.growth import Diamond, run
from tests.contract.world import T, World, bag, difference, net

OTHER = TableName.of("shop", "other")
NOTHING = Retention(timedelta(0), timedelta(0), timedelta(0))
MANY = LISTED + PREVIOUS_METADATA + SUPERSEDED + 3


def metadata_files(world: World) -> list[str]:
    found = world.lake.warehouse.listing(world.lake.warehouse.location)
    return sorted(path for path in found if path.endswith(".metadata.json"))


def opened_again(world: World) -> Lake:
    """A lake that remembers nothing."""
    return Lake(world.store, world.warehouse)


@pytest.fixture
def grown(world: World) -> World:
    world.create()
    for at in range(MANY):
        world.append([(at, "eu")])
    return world


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_every_cut_is_read_without_its_metadata_file(grown: World) -> None:
    assert len(metadata_files(grown)) <= PREVIOUS_METADATA + SUPERSEDED
    lake = opened_again(grown)
    version = lake.current(T)
    assert len(version.metadata.snapshots) == LISTED
    assert len(version.metadata.metadata_log) < PREVIOUS_METADATA + SUPERSEDED
    there = set(metadata_files(grown))
    gone = 0
    for cut in range(2, MANY + 2, 5):
        location = lake.pointers_at(cut)[T]
        gone += location not in there
        assert bag(lake.version(T, location)) == {(at, "eu"): 1 for at in range(cut - 1)}
    assert gone > 3
    first = lake.version(T, lake.pointers_at(2)[T])
    assert first.snapshot_id not in version.snapshot_ids
    assert net(version.delta(first.snapshot_id)) == difference(bag(version), bag(first))
    assert bag(version) == grown.seen_by_pyiceberg()


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_a_version_whose_file_is_gone_comes_back(grown: World) -> None:
    old = grown.lake.pointers_at(3)[T]
    assert old not in metadata_files(grown)
    lake = opened_again(grown)
    with Stage(lake) as stage:
        stage.adopt(T, old)
        publish(stage, "test")
    assert lake.pointers()[T] == old and old in metadata_files(grown)
    assert bag(opened_again(grown).current(T)) == {(0, "eu"): 1, (1, "eu"): 1}
    assert grown.seen_by_pyiceberg() == {(0, "eu"): 1, (1, "eu"): 1}
    delete_metadata(lake, [old])  # a writer that found it superseded just before
    assert old in metadata_files(grown)
    assert grown.append([(9, "us")]).rows == 3


def test_what_a_stream_table_stands_on_outlives_its_cut(grown: World) -> None:
    early = grown.lake.version(T, grown.lake.pointers_at(4)[T])
    rows = bag(early)
    with grown.store.writing() as c:
        streams.set_frontiers(c, {OTHER: {T: early.snapshot_id}})
    maintain(grown.lake, retention=NOTHING)
    version = opened_again(grown).current(T)
    assert bag(version, early.snapshot_id) == rows
    with grown.store.writing() as c:
        streams.set_frontiers(c, {OTHER: {}})
        assert len(c.execute(select(tables.snapshots)).all()) <= 2 + MANY
    maintain(grown.lake, retention=NOTHING)
    with grown.store.reading() as c:
        assert len(c.execute(select(tables.snapshots)).all()) == 1
        assert len(c.execute(select(tables.shapes)).all()) == 1
    with pytest.raises(BaseExpired):
        opened_again(grown).current(T).state(early.snapshot_id)


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_a_held_cut_stays_whole(grown: World) -> None:
    with grown.store.writing() as c:
        lease = read_leases.take(c, 5, 60)
    assert lease is not None
    maintain(grown.lake, retention=NOTHING)
    lake = opened_again(grown)
    assert bag(lake.version(T, lake.pointers_at(5)[T])) == {(at, "eu"): 1 for at in range(4)}
    with grown.store.reading() as c:
        assert [each["cut_id"] for each in cuts.listing(c)][-1] == 5


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_a_backup_under_way_keeps_every_file(world: World) -> None:
    world.create()
    with world.store.writing() as c:
        read_leases.take(c, 1, 60, all_files=True)
    for at in range(MANY):
        world.append([(at, "eu")])
    assert len(metadata_files(world)) == MANY + 1


@pytest.mark.parametrize("catalog_url", ["sqlite"], indirect=True)
def test_a_catalog_of_an_older_format(world: World) -> None:
    """Versions are told by their files alone: these stay until upkeep has read them."""
    world.create()
    for at in range(5):
        world.append([(at, "eu")])
    with world.store.writing() as c:
        c.execute(update(tables.versions).values(shape=None, table_uuid=None))
        c.execute(text("DROP TABLE ab_snapshots"))
        c.execute(text("DROP TABLE ab_shapes"))
        c.execute(update(tables.meta).values(format_version=1))
    store = Store.open(world.url, fsync=False)
    lake = Lake(store, world.warehouse)
    shown = {cut: bag(lake.version(T, lake.pointers_at(cut)[T])) for cut in range(1, 7)}
    for at in range(MANY):
        with Stage(lake) as stage:
            stage.set_properties(T, {"touched": str(at)})
            publish(stage, "test")
    before = set(metadata_files(world))
    assert {lake.pointers_at(cut)[T] for cut in range(1, 7)} <= before
    maintain(lake)
    maintain(lake)  # now that rows tell them, nothing refers to the files
    assert not {lake.pointers_at(cut)[T] for cut in range(1, 7)} & set(metadata_files(world))
    again = Lake(store, world.warehouse)
    for cut, rows in shown.items():
        assert bag(again.version(T, again.pointers_at(cut)[T])) == rows
    store.close()


def test_files_bytes_and_rows_stay_flat(tmp_path: Path) -> None:
    diamond = Diamond(tmp_path, fsync=False, rows=20)
    found = list(
        run(
            diamond,
            120,
            lines=3,
            tidy=lambda each: each.tidy(NOTHING, timedelta(0)),
            tidy_every=40,
        )
    )
    early, _, late = found
    # names and numbers have other lengths from run to run; what 80 commits leave would be tenfold
    assert late.files <= 1.5 * early.files
    assert late.catalog_rows <= 1.5 * early.catalog_rows
    assert late.metadata_bytes <= 1.5 * early.metadata_bytes
    diamond.store.close()


def test_between_two_rounds_of_upkeep_no_file_lists_all_commits(tmp_path: Path) -> None:
    diamond = Diamond(tmp_path, fsync=False, rows=20)
    for _ in run(diamond, 70, lines=1, tidy=lambda each: None, tidy_every=1000):
        files = Path(local_path(diamond.lake.warehouse.location) or "").rglob("*.metadata.json")
        listed = [path.read_text().count('"manifest-list"') for path in files]
        assert len(listed) <= 4 * (PREVIOUS_METADATA + SUPERSEDED) and max(listed) <= LISTED
    diamond.store.close()

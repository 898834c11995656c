"""Upkeep takes away what nobody needs, and nothing else."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.catalog import cuts, stages, streams, tables
from anabranch.errors import BaseExpired, InvalidValue, PublishConflict
from anabranch.lake.manifests import manifests
from anabranch.lake.places import local_path
from anabranch.lake.publish import publish
from anabranch.lake.snapshots import MANY_MANIFESTS
from anabranch.lake.stage import Stage
from anabranch.lake.upkeep import LONG_WAY, compaction, maintain
from anabranch.names import TableName
from tests.contract.world import COLUMNS, T, World, bag, difference, net, positions, written

NOW = timedelta(0)
OTHER = TableName.of("shop", "other")


def files(world: World) -> set[str]:
    return set(world.lake.warehouse.listing(world.lake.warehouse.location))


def make_old(world: World, cut: int) -> None:
    """Let the cuts up to one be published an hour ago, one after the other."""
    first = tables.now() - timedelta(hours=1)
    with world.store.writing() as c:
        for each in range(cut + 1):
            change = tables.cuts.update().where(tables.cuts.c.cut_id == each)
            c.execute(change.values(published_at=first + timedelta(milliseconds=each)))


def test_everything_old_goes_and_everything_needed_stays(world: World) -> None:
    world.create()
    needed = [world.append([(at, "eu")]) for at in range(6)][2]
    world.mark([(5, "eu")])
    world.rewrite([(4, "eu")], [(4, "us")])
    current = bag(world.lake.current(T))
    with world.store.writing() as c:
        streams.set_frontiers(c, {OTHER: {T: needed.snapshot_id}})
    report = maintain(world.lake, retention=NOW)
    assert report.cuts_forgotten == 8 and report.snapshots_expired == 2
    version = world.lake.current(T)
    assert bag(version) == current == world.seen_by_pyiceberg()
    assert bag(version, needed.snapshot_id) == bag(needed)
    assert net(version.delta(needed.snapshot_id)) == difference(current, bag(needed))
    left = files(world)
    assert maintain(world.lake, retention=NOW).files_deleted <= 1  # the metadata before upkeep
    assert maintain(world.lake, retention=NOW).files_deleted == 0
    assert bag(world.lake.current(T)) == current and len(files(world)) >= len(left) - 1
    with world.store.writing() as c:
        streams.set_frontiers(c, {OTHER: {}})
    assert maintain(world.lake, retention=NOW).snapshots_expired == 5
    with pytest.raises(BaseExpired):
        world.lake.current(T).delta(needed.snapshot_id)
    maintain(world.lake, retention=NOW)
    # data of the rewrite, manifest list, manifests, metadata, marker, what recover reads
    assert len(files(world)) < 11
    assert bag(world.lake.current(T)) == current == world.seen_by_pyiceberg()


def test_retained_cuts_stay_readable(world: World) -> None:
    world.create()
    for at in range(4):
        world.append([(at, "eu")])
    kept = {cut: bag(world.lake.version(T, world.lake.pointers_at(cut)[T])) for cut in (3, 4, 5)}
    world.replace([(7, "us")])
    make_old(world, 3)
    report = maintain(world.lake, retention=timedelta(minutes=1))
    assert report.cuts_forgotten == 2
    for cut, rows in kept.items():
        assert bag(world.lake.version(T, world.lake.pointers_at(cut)[T])) == rows
    with pytest.raises(InvalidValue, match="cut 2 has expired"):
        world.lake.pointers_at(2)
    with world.store.reading() as c:
        assert cuts.listing(c)[-1]["cut_id"] == 3


def test_dropped_tables_go_when_no_cut_shows_them(world: World) -> None:
    world.create()
    world.append([(1, "eu")])
    world.create(OTHER)
    root = world.lake.current(T).root
    with Stage(world.lake) as stage:
        stage.drop(T)
        publish(stage, "test")
    before = files(world)
    maintain(world.lake)
    assert all(path.endswith(".metadata.json") for path in before - files(world))
    assert bag(world.lake.version(T, world.lake.pointers_at(2)[T])) == {(1, "eu"): 1}
    maintain(world.lake, retention=NOW)
    assert not [path for path in files(world) if path.startswith(root)]
    assert not Path(local_path(root) or "").exists()
    assert world.lake.current(OTHER).rows == 0


def test_live_work_is_left_alone(world: World) -> None:
    world.create()
    with Stage(world.lake) as stage:
        stage.commit_rows(T, written(stage, T, add=[(1, "eu")]))
        stage.create(OTHER, COLUMNS)
        stage.commit_rows(OTHER, written(stage, OTHER, add=[(1, "eu")]))
        assert maintain(world.lake, retention=NOW).files_deleted == 0
        publish(stage, "test")
    maintain(world.lake, retention=NOW)
    assert world.seen_by_pyiceberg() == world.seen_by_pyiceberg(OTHER) == {(1, "eu"): 1}


def test_owners_on_other_hosts_must_speak(world: World) -> None:
    world.create()
    with Stage(world.lake) as stage:
        stage.commit_rows(T, written(stage, T, add=[(1, "eu")]))
        with world.store.writing() as c:
            c.execute(tables.stages.update().values(host="elsewhere", pid=1))
        assert maintain(world.lake).stages_ended == 0
        later = tables.now() + timedelta(hours=2)
        report = maintain(world.lake, now=later)
        assert report.stages_ended == 1 and report.files_deleted > 0
        with pytest.raises(PublishConflict):
            publish(stage, "test")


def test_a_process_number_that_was_given_away() -> None:
    row = stages.mine("x")
    assert stages.alive(row, tables.now())
    other = stages.StageRow("x", row.host, row.pid, "0", row.heartbeat_at)
    assert not stages.alive(other, tables.now())
    assert stages.process_start(2**22 + 1) is None


def test_files_that_others_are_writing(world: World) -> None:
    """Another program may not have committed yet: its files are only garbage when old."""
    root = Path(local_path(world.create().root) or "")
    (root / "data").mkdir(parents=True, exist_ok=True)
    young, old = root / "data" / "00000-young.parquet", root / "data" / "00000-old.parquet"
    elsewhere = root.parent / "theirs" / "data" / "x.parquet"
    elsewhere.parent.mkdir(parents=True)
    for path in (young, old, elsewhere):
        path.write_text("x")
    long_ago = time.time() - 10 * 86400
    os.utime(old, (long_ago, long_ago))
    os.utime(elsewhere, (long_ago, long_ago))
    assert maintain(world.lake, retention=NOW).files_deleted == 1
    assert young.exists() and elsewhere.exists() and not old.exists()


def test_tables_of_others_are_not_tidied(world: World) -> None:
    catalog = world.foreign()
    catalog.create_namespace("their")
    location = world.lake.warehouse.location + "/their/own"
    rows = pa.table({"id": [1]})
    table = catalog.create_table(("their", "own"), rows.schema, location=location)
    for _ in range(3):
        table.append(rows)
    before = files(world)
    assert maintain(world.lake, retention=NOW).snapshots_expired == 0
    assert files(world) >= before


def test_manifests_are_merged(world: World) -> None:
    world.create()
    for at in range(MANY_MANIFESTS + 5):
        world.append([(at, "eu")])
        if at % 3 == 0:
            world.mark([(at, "eu")], add=[(at, "us")])
    version = world.lake.current(T)
    assert len(manifests(version.io, version.metadata.current_snapshot())) <= 2 * MANY_MANIFESTS
    assert bag(version) == world.seen_by_pyiceberg() and version.rows == MANY_MANIFESTS + 5
    first = min(version.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    assert net(version.delta(first.snapshot_id)) == difference(
        bag(version), bag(version, first.snapshot_id)
    )
    table = world.foreign().load_table(("shop", "sales"))
    for _ in range(12):
        table.append(pa.table({"id": [1], "region": ["theirs"]}))
    before = world.lake.current(T)
    report = maintain(world.lake, retention=NOW)
    assert report.manifests_merged > 30 and report.cut_id is not None
    merged = world.lake.current(T)
    assert len(manifests(merged.io, merged.metadata.current_snapshot())) < 10
    assert bag(merged) == bag(before) == world.seen_by_pyiceberg()


def test_what_to_compact(world: World) -> None:
    world.create()
    world.append([(at, "eu") for at in range(100)])
    assert compaction(world.lake.current(T)) is None
    for at in range(25):
        world.append([(1000 + at, "us")])
    world.mark([(0, "eu")])
    plan = compaction(world.lake.current(T))
    assert plan is not None and "26 small files" in plan.reason and len(plan.reading.skip) == 1
    before = world.lake.current(T)
    with Stage(world.lake) as stage:
        kept = written(stage, T, keep=[row for _, _, row in positions(plan.reading)])
        stage.commit_rows(T, kept, compaction=True, replaced=plan.replaced)
        publish(stage, "compact")
    after = world.lake.current(T)
    assert bag(after) == bag(before) == world.seen_by_pyiceberg()
    assert after.delta(before.snapshot_id).empty
    assert (after.rows, after.marked, len(after.reading().files)) == (124, 0, 1)
    assert compaction(after) is None


def test_compacting_some_files(world: World) -> None:
    """Marks that also reach files that stay are kept; rows are still counted right."""
    world.create()
    for at in range(4):
        world.append([(at * 10 + n, "eu") for n in range(10)])
    world.mark([(0, "eu"), (10, "eu"), (20, "eu"), (30, "eu")])
    before = world.lake.current(T)
    chosen = before.state(before.snapshot_id).data[:2]
    part = before.reading()
    paths = tuple(each.data_file.file_path for each in chosen)
    with Stage(world.lake) as stage:
        rows = [row for path, _, row in positions(part) if path in paths]
        stage.commit_rows(T, written(stage, T, keep=rows), compaction=True, replaced=paths)
        publish(stage, "compact")
    after = world.lake.current(T)
    assert bag(after) == bag(before) == world.seen_by_pyiceberg()
    assert after.rows == 36 and after.delta(before.snapshot_id).empty
    first = min(after.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    assert net(after.delta(first.snapshot_id)) == difference(
        bag(after), bag(after, first.snapshot_id)
    )


def test_the_way_back_is_kept_when_short(world: World) -> None:
    world.create()
    start = world.append([(0, "eu")])
    for at in range(5):
        world.append([(at, "us")])
    report = maintain(world.lake, retention=NOW, needed={T: [start.snapshot_id or 0]})
    assert report.snapshots_expired == 0 and LONG_WAY > 5
    assert len(world.lake.current(T).delta(start.snapshot_id).plus) == 1

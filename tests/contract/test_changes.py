"""Deltas and readings: whatever happened to a table, before + delta == after."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from anabranch.errors import BaseExpired
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.model import Bound
from tests.contract.world import T, World, bag, difference, net, written

EU, US = "eu", "us"
ROWS = [(1, EU), (2, US), (2, US), (3, None)]
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])


def arrow(rows: list[tuple[int, str | None]]) -> pa.Table:
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA)


def check_all_deltas(world: World) -> None:
    version = world.lake.current(T)
    for since in [None, *version.snapshot_ids]:
        before = bag(version, since) if since is not None else {}
        assert net(version.delta(since)) == difference(bag(version), before), since


def test_append_mark_rewrite_replace_compact(world: World) -> None:
    world.create()
    world.append(ROWS)
    world.append([(4, EU)])
    world.mark([(2, US), (4, EU)])
    assert world.seen_by_pyiceberg() == bag(world.lake.current(T)) == {
        (1, EU): 1, (2, US): 1, (3, None): 1,
    }  # fmt: skip
    world.mark([(1, EU)], add=[(1, US)])
    world.rewrite([(3, None)], [(5, EU)])
    world.compact()
    world.replace([(7, EU), (5, EU)])
    check_all_deltas(world)
    assert world.seen_by_pyiceberg() == {(7, EU): 1, (5, EU): 1}
    assert world.lake.current(T).rows == 2


def test_a_compaction_costs_nothing_downstream(world: World) -> None:
    world.create()
    before = world.append(ROWS)
    world.mark([(2, US)])
    marked = world.lake.current(T)
    after = world.compact()
    assert after.delta(marked.snapshot_id).empty
    assert after.marked == 0 and after.rows == 3
    assert net(after.delta(before.snapshot_id)) == {(2, US): -1}


def test_changes_of_other_programs(world: World) -> None:
    world.create()
    start = world.append(ROWS)
    table = world.foreign().load_table(("shop", "sales"))
    table.append(arrow([(10, EU), (11, EU)]))
    after_append = world.lake.current(T)
    assert not after_append.ours and not after_append.hidden_complete
    assert after_append.delta(start.snapshot_id).minus == ()
    table.overwrite(arrow([(20, US)]))
    table.append(arrow([(21, US)]))
    table.delete("id = 20")
    world.append([(30, EU)])
    check_all_deltas(world)
    assert world.seen_by_pyiceberg() == {(21, US): 1, (30, EU): 1}


def test_marks_of_other_programs_are_kept(world: World) -> None:
    """A foreign delete of a whole file leaves our marks on others alone."""
    world.create()
    world.append(ROWS)
    world.mark([(1, EU)])
    world.append([(9, EU)])
    table = world.foreign().load_table(("shop", "sales"))
    table.delete("id = 9")
    check_all_deltas(world)
    assert world.seen_by_pyiceberg() == bag(world.lake.current(T))


def test_rollback(world: World) -> None:
    world.create()
    first = world.append(ROWS)
    world.append([(5, EU)])
    world.mark([(1, EU)])
    ahead = world.lake.current(T)
    table = world.foreign().load_table(("shop", "sales"))
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    back = world.lake.current(T)
    assert net(back.delta(ahead.snapshot_id)) == difference(bag(first), bag(ahead))
    world.append([(6, US)])
    world.mark([(2, US)])
    check_all_deltas(world)


def test_an_expired_base(world: World) -> None:
    world.create()
    version = world.append(ROWS)
    with pytest.raises(BaseExpired, match="snapshot 42 of shop.sales is gone"):
        version.delta(42)
    with pytest.raises(BaseExpired):
        version.reading(42)


def test_no_net_change_makes_no_snapshot(world: World) -> None:
    world.create()
    before = world.append(ROWS)
    with Stage(world.lake) as stage:
        files = written(stage, T, keep=ROWS)
        assert stage.commit_rows(T, files, rewrite=True).snapshot_id == before.snapshot_id
        assert stage.commit_rows(T, written(stage, T)).snapshot_id == before.snapshot_id
        publish(stage, "test")
    assert world.lake.current(T).location == before.location


def test_replacing_nothing_by_nothing(world: World) -> None:
    world.create()
    assert world.replace([]).snapshot_id is None
    world.append(ROWS)
    emptied = world.replace([])
    assert emptied.rows == 0 and emptied.reading().files == ()
    assert world.seen_by_pyiceberg() == {}
    assert world.append([(1, EU)]).rows == 1


def test_pruning_by_statistics(world: World) -> None:
    world.create()
    for at in range(5):
        world.append([(at * 10, EU), (at * 10 + 9, US)])
    version = world.lake.current(T)

    def files(*bounds: Bound) -> int:
        return len(version.reading(prune=bounds).files)

    assert files() == 5
    assert files(Bound("id", "=", (25,))) == 1
    assert files(Bound("ID", ">=", (30,))) == 2
    assert files(Bound("id", ">", (9,)), Bound("id", "<", (20,))) == 1
    assert files(Bound("id", "in", (5, 41))) == 2
    assert files(Bound("id", "null")) == 0
    assert files(Bound("region", "<", ("a",))) == 0
    assert files(Bound("id", "=", ("text",))) == 5  # not comparable: nothing is left out
    assert files(Bound("nothing", "=", (1,))) == 5


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("seed", range(4))
def test_random_histories(world: World, seed: int) -> None:
    """Any mixture of our writes and others', seen by any reader, from any base."""
    chance = random.Random(seed)
    world.create()
    version = world.append(ROWS)
    for _ in range(12):
        rows = list(bag(version).elements())
        some = chance.sample(rows, min(len(rows), chance.randint(0, 3)))
        new = [
            (chance.randint(0, 5), chance.choice([EU, US, None]))
            for _ in range(chance.randint(0, 3))
        ]
        table = world.foreign().load_table(("shop", "sales"))
        action = chance.randrange(8)
        if action == 0:
            world.append(new)
        elif action in (1, 2):
            world.mark(some, add=new)
        elif action == 3:
            world.rewrite(some, new)
        elif action == 4:
            world.compact()
        elif action == 5:
            table.append(arrow(new or [(0, EU)]))
        elif action == 6:
            table.delete(f"id = {chance.randint(0, 5)}")
        else:
            old = chance.choice([each.snapshot_id for each in table.metadata.snapshots])
            table.manage_snapshots().set_current_snapshot(snapshot_id=old).commit()
        version = world.lake.current(T)
        assert world.seen_by_pyiceberg() == bag(version)
    check_all_deltas(world)

"""The plans of the 22 queries, kept on DuckDB through windows of changes; no Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from anabranch.plan.nodes import WEIGHT
from benchmarks.tpch.changes import Append, Change, Window
from benchmarks.tpch.data import TABLES, generate
from benchmarks.tpch.queries import NUMBERS, query
from tests.oracle.duck import duck
from tests.oracle.kept import Kept, World

SCALE = 0.01
LARGE = ("orders", "lineitem", "partsupp")  # as at the scales that are measured
WINDOWS = (Window(0, 0.03), Window(1, others=0.1, nations=True), Window(2, 0.03, 0.03))
Files = dict[str, Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return generate(SCALE, tmp_path_factory.mktemp("tpch"))


@pytest.fixture
def world(files: Files) -> World:
    return filled(files)


@dataclass
class Story:
    """All queries kept over the same windows: what went wrong with which, and which changed."""

    wrong: dict[int, Exception] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)


@pytest.fixture(scope="module")
def story(files: Files) -> Story:
    world, told = filled(files), Story()
    tables = dict[int, Kept]()
    for number in NUMBERS:
        try:
            tables[number] = Kept(world, text(number))
        except Exception as error:
            told.wrong[number] = error
    for window in WINDOWS:
        world.begin()
        change(world, window.changes())
        changed = world.end()
        for number in tables.keys() - told.wrong.keys():
            before = tables[number].visible
            try:
                tables[number].refresh(changed)
            except Exception as error:
                told.wrong[number] = error
            if tables[number].visible != before:
                told.changed.add(number)
    return told


def text(number: int) -> str:
    """DuckDB's average of decimals is a floating-point number, Spark's is a decimal."""
    return re.sub(r"avg\((\w+)\)", r"(sum(\1) / count(\1))", query(number))


def filled(files: Files) -> World:
    world = World(TABLES, LARGE)
    for name, path in files.items():
        world.db.execute(f"INSERT INTO now.{name} FROM read_parquet('{path}')")
    return world


def change(world: World, changes: tuple[Change, ...]) -> None:
    for each in changes:
        if isinstance(each, Append):
            world.db.execute(f"INSERT INTO now.{each.table} {duck(each.query)}")
        else:
            world.db.execute(duck(each.text))


def count(world: World, query: str) -> int:
    found = world.db.execute(f"SELECT count(*) FROM ({query})").fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.slow  # test_tpch.py has the same queries, on Spark
@pytest.mark.parametrize("number", NUMBERS)
def test_kept_equals_recomputed(story: Story, number: int) -> None:
    if number in story.wrong:
        raise story.wrong[number]
    assert number in story.changed, "a table that never changes proves nothing"


@pytest.mark.extended
def test_a_window_is_as_large_as_it_says(world: World) -> None:
    orders = count(world, "FROM orders")
    world.begin()
    change(world, Window(3, 0.1, 0.1, nations=True).changes())
    assert {name.name for name in world.end()} == TABLES.keys() - {"region"}
    for weight in (1, -1):  # new and deleted are equally many; an update puts one and takes one
        rows = count(world, f"FROM main.orders_delta WHERE {WEIGHT} = {weight}")
        assert rows == pytest.approx(0.045 * orders, rel=0.2)


def test_new_orders_have_new_keys_and_every_item_an_order(world: World) -> None:
    for number in range(4):
        change(world, Window(number, 0.1).changes())
    repeated = "SELECT o_orderkey FROM orders GROUP BY o_orderkey HAVING count(*) > 1"
    orphans = "SELECT l_orderkey FROM lineitem ANTI JOIN orders ON o_orderkey = l_orderkey"
    assert count(world, repeated) == 0
    assert count(world, orphans) == 0


def test_a_window_beyond_the_last_order_is_refused() -> None:
    with pytest.raises(ValueError, match="no orders are left"):
        Window(10, 0.1)

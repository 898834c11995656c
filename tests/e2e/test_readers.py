"""Readers in other processes that look all the time, while a scheduler loop in a third one publishes.

These are the long forms; test_scheduler.py, test_refresh_groups.py and tests/contract have short ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.names import TableName
from anabranch.spark.session import Spark
from tests.contract.world import COLUMNS, World, written
from tests.e2e.graphs import ARTICLE, TOTALS, add, article, check
from tests.e2e.processes import Process, Reader, Sums
from tests.e2e.schedulers import SchedulerProcess

READERS = 3


def test_a_reader_can_tell_a_torn_cut_from_a_whole_one(tmp_path: Path) -> None:
    """Two tables that always hold the same sum, until somebody publishes one of them alone."""
    world = World(str(tmp_path / "catalog.db"), tmp_path / "warehouse")
    one, other = TableName.parse("s.one"), TableName.parse("s.other")
    reader = Reader(world.lake, [[("s.one", "id")], [("s.other", "id")]])

    def write(*names: TableName) -> None:
        with Stage(world.lake) as stage:
            for name in names:
                if not stage.exists(name):
                    stage.create(name, COLUMNS)
                stage.commit_rows(name, written(stage, name, add=[(1, "eu")]))
            publish(stage, "test")

    for names in [(one, other), (one, other), (one,)]:
        write(*names)
        reader.work()
        reader.work()
    world.close()
    assert reader.torn == [["3", "2"]]
    assert (reader.reads, len(reader.cuts)) == (6, 3)


@contextmanager
def watched(home: Path, sums: Sums) -> Iterator[tuple[SchedulerProcess, list[dict[str, Any]]]]:
    """A scheduler and some readers at work; what they saw is in the list afterwards."""
    seen: list[dict[str, Any]] = []
    with ExitStack() as stack:
        scheduler = stack.enter_context(SchedulerProcess(home))
        scheduler.ready()
        readers = [stack.enter_context(Process("reader", home, sums)) for _ in range(READERS)]
        yield scheduler, seen
        seen += [each.stop() for each in readers]


def whole(seen: list[dict[str, Any]], *, reads: int, versions: int) -> None:
    """Nobody saw anything torn, all looked often enough, and saw the world change."""
    assert [each["torn"] for each in seen] == [[]] * READERS
    assert sum(each["reads"] for each in seen) >= reads
    assert all(each["cuts"] >= versions for each in seen)


@pytest.fixture
def ab(tmp_path: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path, spark=spark.session) as opened:
        yield opened


@pytest.mark.slow
def test_the_totals_of_the_article_are_always_equal(tmp_path: Path, ab: Anabranch) -> None:
    article(ab, schedule="1ms")
    with watched(tmp_path, TOTALS) as (scheduler, seen):
        for at in range(20):
            add(ab, "shop.sales", [(at, ("eu", "us", "ap")[at % 3], at % 5, 10 * at + 1)])
            scheduler.published()
            if at % 10 == 9:
                ab.sql(f"DELETE FROM shop.sales WHERE id = {at - 3}")
                scheduler.published()
    whole(seen, reads=5000, versions=10)
    check(ab, ARTICLE)


BANK = {
    "bank.sum_a": "SELECT sum(x) AS x FROM bank.a",
    "bank.sum_b": "SELECT sum(x) AS x FROM bank.b",
    "bank.total": "SELECT x FROM bank.sum_a UNION ALL SELECT x FROM bank.sum_b",
}
MONEY = 1000


@pytest.mark.slow
def test_amounts_that_move_between_sources_are_never_seen_twice_or_not_at_all(
    tmp_path: Path, ab: Anabranch
) -> None:
    """Two updates in one transaction, again and again: the sum is the same in every table."""
    for source, x in (("bank.a", MONEY), ("bank.b", 0)):
        ab.sql(f"CREATE TABLE {source} (id BIGINT, x BIGINT)")
        add(ab, source, [(0, x)])
    ab.create_stream_tables(BANK, schedule="1ms")
    ab.create_refresh_group("bank", list(BANK))
    sums = [
        [("bank.a", "x"), ("bank.b", "x")],
        [("bank.sum_a", "x"), ("bank.sum_b", "x")],
        [("bank.total", "x")],
    ]
    with watched(tmp_path, sums) as (scheduler, seen):
        for at in range(10):
            with ab.transaction():
                ab.sql(f"UPDATE bank.a SET x = x - {at + 1}")
                ab.sql(f"UPDATE bank.b SET x = x + {at + 1}")
            scheduler.published()
    whole(seen, reads=3000, versions=5)
    assert {value for each in seen for value in each["values"]} == {str(MONEY)}
    check(ab, BANK)


PROJECT = {
    "anabranch.toml": 'name = "shop"',
    "models/db/raw/sales.sql": "CREATE TABLE sales (id BIGINT, amount BIGINT)",
    "models/db/one/a.sql": "CREATE STREAM TABLE a AS SELECT id, amount * 1 AS x FROM raw.sales",
    "models/db/two/b.sql": """
        CREATE STREAM TABLE b AS SELECT id, sum(amount) * 1 AS x FROM raw.sales GROUP BY id""",
    "models/db/two/c.sql": "CREATE STREAM TABLE c AS SELECT sum(x) AS x FROM one.a",
}
DEPLOYED = ("db.one.a", "db.two.b", "db.two.c")


@pytest.mark.slow
def test_no_reader_sees_two_deployments_at_once(tmp_path: Path, ab: Anabranch) -> None:
    """Every version of the project multiplies by another number, in all of its tables."""

    def edit(number: int) -> None:
        for name, text in PROJECT.items():
            place = tmp_path / "project" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("* 1", f"* {number}"))

    def deploy(number: int) -> None:
        edit(number)
        made = ab.stage(str(tmp_path / "project"))
        assert made is not None
        ab.promote(made)

    deploy(1)
    add(ab, "db.raw.sales", [(1, 10), (2, 5)])
    ab.refresh()
    sums = [[(name, "x")] for name in DEPLOYED]
    with ExitStack() as stack:
        readers = [stack.enter_context(Process("reader", tmp_path, sums)) for _ in range(READERS)]
        for number in range(2, 6):
            deploy(number)
            ab.rollback()
            deploy(number)
        seen = [each.stop() for each in readers]
    whole(seen, reads=5000, versions=5)
    values = {value for each in seen for value in each["values"]}
    assert values <= {str(15 * number) for number in range(1, 6)}
    check(ab, DEPLOYED)

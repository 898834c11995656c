"""Graphs of stream tables for the tests of groups and the scheduler, and ways to push them about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog import streams, tables
from anabranch.errors import Unreachable
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from anabranch.names import TableName
from anabranch.refresh import failures, staging
from tests.contract.world import written

BY_HAND = None
RARELY = "1h"  # due only when a test says so

# The article's example: both totals are the sum of all amounts.
ARTICLE = {
    "shop.revenue_by_region": """
        SELECT region, sum(amount) AS revenue, count(*) AS sale_count
        FROM shop.sales GROUP BY region""",
    "shop.revenue_by_product": """
        SELECT product_id, sum(amount) AS revenue, count(*) AS sale_count
        FROM shop.sales GROUP BY product_id""",
    "shop.exec_summary": """
        SELECT 'total' AS label,
               (SELECT sum(revenue) FROM shop.revenue_by_region) AS regional_total,
               (SELECT sum(revenue) FROM shop.revenue_by_product) AS product_total""",
}
TOTALS = [
    [("shop.revenue_by_region", "revenue")],
    [("shop.revenue_by_product", "revenue")],
    [("shop.exec_summary", "regional_total")],
    [("shop.exec_summary", "product_total")],
]


def article(ab: Anabranch, **options: Any) -> list[str]:
    """The names of the group, upstreams first."""
    ab.sql("CREATE TABLE shop.sales (id BIGINT, region STRING, product_id BIGINT, amount BIGINT)")
    add(ab, "shop.sales", [(1, "eu", 1, 10), (2, "us", 2, 5)])
    ab.create_stream_tables(ARTICLE, **{"schedule": RARELY, **options})
    return list(ARTICLE)


def add(ab: Anabranch, table: str, given: Iterable[tuple[Any, ...]]) -> None:
    """Rows into a source table, as another writer of Iceberg would add them: without Spark."""
    name = TableName.parse(table)
    with Stage(ab._runtime.lake) as stage:
        stage.commit_rows(name, written(stage, name, add=given))
        publish(stage, "test")


def add_to_all(ab: Anabranch, given: dict[str, list[tuple[Any, ...]]]) -> None:
    """Rows into several source tables in one transaction."""
    with Stage(ab._runtime.lake) as stage:
        for table, added in given.items():
            name = TableName.parse(table)
            stage.commit_rows(name, written(stage, name, add=added))
        publish(stage, "test")


# -- time ----------------------------------------------------------------------------------------


def overdue(ab: Anabranch, *names: str, hours: float = 2) -> None:
    """Let the tables look as if they were last refreshed long ago."""
    moment = tables.now() - timedelta(hours=hours)
    with ab._store.writing() as c:
        streams.touch(c, [TableName.parse(name) for name in names], moment)


def wait_is_over(ab: Anabranch, *names: str) -> None:
    """Let the time pass that failed tables have to wait before they are tried again."""
    with ab._store.writing() as c:
        for name in names:
            streams.change(c, TableName.parse(name), next_retry_at=tables.now())


# -- looking -------------------------------------------------------------------------------------


def pointers(ab: Anabranch, names: Iterable[str]) -> dict[str, str]:
    found = ab._runtime.lake.pointers()
    return {name: found[TableName.parse(name)] for name in names}


def ticked(ab: Anabranch, of: Iterable[str]) -> list[dict[str, Any]]:
    """What one tick did with groups that hold one of the tables."""
    wanted = set(of)
    return [each for each in ab.tick() if wanted.intersection(each["members"])]


def last(ab: Anabranch, name: str) -> dict[str, Any]:
    return ab.history(name, 1)[0]


def status(ab: Anabranch, name: str) -> dict[str, Any]:
    return next(row for row in ab.status() if row["name"] == name)


def epochs(ab: Anabranch, names: Iterable[str]) -> set[int]:
    wanted = set(names)
    return {row["epoch"] for row in ab.diamond_groups() if row["member"] in wanted}


def check(ab: Anabranch, names: Iterable[str]) -> None:
    """Every stream table equals its query."""
    for name in names:
        found = ab.verify(name)
        assert found["equal"], found


# -- faults --------------------------------------------------------------------------------------


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    """The refresh of the tables fails inside, as if their storage were out of reach."""
    real = staging.refresh_component

    def refresh(runtime: Any, tx: Any, seen: Any, part: Any, done: Any, **options: Any) -> Any:
        if not {*map(str, part.members)}.isdisjoint(names):
            raise Unreachable("the disk is gone")
        return real(runtime, tx, seen, part, done, **options)

    with monkeypatch.context() as patch:
        patch.setattr(staging, "refresh_component", refresh)
        yield


def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed tables may be tried again at once."""
    monkeypatch.setattr(failures, "delay", lambda errors, chance=None: 0.0)


@contextmanager
def meanwhile(
    ab: Anabranch, table: str, act: Callable[[], object], *, event: str
) -> Iterator[None]:
    """Do something once, at the moment when the table's refresh reaches the event."""
    before, done = ab.on_progress, list[bool]()

    def watch(happened: str, facts: Any) -> None:
        if happened == event and facts.get("table") == table and not done:
            done.append(True)
            act()

    ab.on_progress = watch
    try:
        yield
    finally:
        ab.on_progress = before
    assert done, f"{table} never came to {event}"

"""All orders in which two processes can meet at the catalog, pair by pair.

Exhaustive with one preemption: each actor is stopped before each of its transactions, the other one
runs as far as it gets, and the first goes on; that is the slow run, which also takes some of the orders
with two preemptions.  By default `ANABRANCH_INTERLEAVINGS` places are taken of each pair, other ones
for each; the mutations at the end go through all places until they are found.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, select

from anabranch.catalog import leases, read_leases, streams, tables
from anabranch.catalog.read_set import ReadSet
from anabranch.deploy.along import Along
from anabranch.names import TableName
from anabranch.runtime import Transaction
from tests.explore.interleave import Baton, Schedule, expected, schedules, switching
from tests.explore.shop import ACTS, ALLOWED, Shop, actors, check
from tests.standin.engine import installed

PAIRS = [
    pair
    for pair in itertools.combinations_with_replacement(ACTS, 2)
    if not {"promote", "rollback"} <= {*pair}  # one deployment is in one state
]
PAIRS += [(other, "redefine") for other in ("refresh", "tick", "alter", "expiry", "maintain")]
PAIRS += [(other, "churn") for other in ("read", "tick", "promote")]
PAIRS += [(other, "steal") for other in ("refresh", "alter", "drop", "rollback")]
PAIRS += [(other, "abort") for other in ("refresh", "tick", "promote", "expiry", "steal")]
PAIRS += [
    (other, status)
    for other in ("refresh", "tick", "alter", "promote", "rollback", "expiry")
    for status in ("suspend", "resume")
]
PLACES = int(os.environ.get("ANABRANCH_INTERLEAVINGS", "1"))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Shop]]:
    with installed():
        yield {
            promoted: Shop(tmp_path_factory.mktemp("shop"), promoted=promoted)
            for promoted in (False, True)
        }


class Explorer:
    def __init__(self, shops: dict[bool, Shop], patch: pytest.MonkeyPatch) -> None:
        self.shops, self.patch = shops, patch

    def run(self, pair: tuple[str, str], schedule: Schedule) -> list[int]:
        """One schedule, and what must hold after it; how many transactions each actor took."""
        shop = self.shops["rollback" in pair]
        shop.restore()
        baton = Baton(actors(shop, pair), schedule.first, schedule.preempt)
        unleased: list[str] = []
        try:
            with switching(self.patch, baton), watching(self.patch, unleased):
                baton.run()
            for actor in baton.actors:
                if not expected(actor.error, ALLOWED):
                    raise AssertionError(f"{actor.name}: {actor.error!r}") from actor.error
            assert not unleased, f"published without a lease: {unleased}"
            check(shop, pair)
        except Exception as error:
            raise AssertionError(f"{pair[0]} and {pair[1]}, {schedule}: {error}") from error
        return [actor.steps for actor in baton.actors]

    def all(self, pair: tuple[str, str], bound: int = 1, most: int | None = None) -> None:
        """Every schedule, or so many of them, spread over all."""
        _, *others = schedules(self.run(pair, Schedule(0, ())), bound)
        for schedule in others[:: max(1, len(others) // (most or len(others)))]:
            self.run(pair, schedule)


@contextmanager
def watching(patch: pytest.MonkeyPatch, unleased: list[str]) -> Iterator[None]:
    """Notes every stream table that somebody publishes who does not hold its lease just then."""
    mine = threading.local()
    insert, write = leases._insert, Transaction._write_rows

    def inserted(*given: Any) -> leases.Lease:
        taken = insert(*given)
        mine.tokens = {*getattr(mine, "tokens", ()), taken.token}
        return taken

    def written(tx: Transaction, c: Connection, cut_id: int | None) -> None:
        known = streams.tokens(c)
        write(tx, c, cut_id)
        held = {row.table_name: row.token for row in c.execute(select(tables.leases))}
        unleased.extend(
            str(name)
            for name in tx.stage.changes
            if name in known and held.get(str(name)) not in getattr(mine, "tokens", ())
        )

    with patch.context() as inside:
        inside.setattr(leases, "_insert", inserted)
        inside.setattr(Transaction, "_write_rows", written)
        yield


@pytest.fixture
def explorer(shops: dict[bool, Shop], monkeypatch: pytest.MonkeyPatch) -> Explorer:
    return Explorer(shops, monkeypatch)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_pairs(explorer: Explorer, pair: tuple[str, str]) -> None:
    number = PAIRS.index(pair)
    for at in range(PLACES):
        first, place = (number + at) % 2, 1 + (5 * number + at // 2) % 9
        explorer.run(pair, Schedule(first, (place,)))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_all_orders(explorer: Explorer, pair: tuple[str, str]) -> None:
    explorer.all(pair)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_preemptions(explorer: Explorer, pair: tuple[str, str]) -> None:
    explorer.all(pair, bound=2, most=40)


# -- each check is needed ------------------------------------------------------------------------


def finds(explorer: Explorer, pair: tuple[str, str], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        explorer.all(pair)


def test_definitions_are_compared(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ALTER that moves no pointer is lost to a refresh that had looked before."""
    check = ReadSet.check
    monkeypatch.setattr(ReadSet, "check", lambda self, c: check(ReadSet(leases=self.leases), c))
    finds(explorer, ("refresh", "redefine"), "db.x.e.*changed since its last refresh")


def test_leases_are_compared(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who was taken over publishes all the same."""
    monkeypatch.setattr(leases, "check", lambda c, lease: None)
    finds(explorer, ("refresh", "steal"), "published without a lease")
    finds(explorer, ("steal", "abort"), "published without a lease")


@pytest.mark.parametrize("other", ["promote", "rollback"])
def test_suspensions_are_read_in_the_publish(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """A SUSPEND that comes after the look is lost if only the look is asked."""

    def as_seen(along: Along, c: Connection, names: Iterable[TableName]) -> None:
        known = (along.before.streams.get(name) for name in names)
        along.stopped = tuple(each.name for each in known if each and each.status == "SUSPENDED")

    monkeypatch.setattr(Along, "keep_suspended", as_seen)
    finds(explorer, (other, "suspend"), "the suspension of b was lost")


def test_read_leases_are_kept(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep takes away what a reader is about to read."""
    monkeypatch.setattr(read_leases, "held_cuts", lambda c, now: ())
    finds(explorer, ("read", "churn"), "read and churn.*")

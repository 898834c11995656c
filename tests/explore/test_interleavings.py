"""All orders in which two or three processes can meet at the catalog.

The slow tests go through every trace of a pair (see `search`): all orders of transactions, of listing,
reading and deleting files, except those that differ only in the order of steps that commute; a pair
that takes more than `ANABRANCH_ORDERS` runs fails.  Of three actors they go through every trace that
needs at most one preemption.  By default every trace of the pairs that have few is tried, and one fixed
order of most others, stopped at another place for each; the mutations at the end search until found.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from anabranch.catalog import leases, read_leases
from anabranch.catalog.read_set import ReadSet
from anabranch.deploy.along import Along
from anabranch.names import TableName
from anabranch.refresh import record
from tests.explore.explorer import Acts, Broken, Explorer
from tests.explore.shop import ACTS
from tests.standin.engine import installed

PAIRS: list[Acts] = [*itertools.combinations_with_replacement(ACTS, 2)]
COMMON = len(PAIRS)
PAIRS += [(other, "redefine") for other in ("refresh", "tick", "alter", "expiry", "maintain")]
PAIRS += [(other, "churn") for other in ("read", "tick", "promote")]
PAIRS += [(other, "steal") for other in ("refresh", "alter", "drop", "rollback")]
PAIRS += [(other, "abort") for other in ("refresh", "tick", "promote", "expiry", "steal")]
# SUSPEND and RESUME take no lease: a long refresh keeps nobody from them.
STATUS: list[Acts] = [
    (other, status)
    for other in ("refresh", "tick", "alter", "promote", "rollback", "expiry", "maintain")
    for status in ("suspend", "resume")
]
PAIRS += STATUS
TRIPLES: list[Acts] = list(
    itertools.product(
        ("refresh", "tick"), ("alter", "promote", "rollback"), ("foreign", "maintain", "expiry")
    )
)
ORDERS = int(os.environ.get("ANABRANCH_ORDERS", "400"))
PLACES = int(os.environ.get("ANABRANCH_INTERLEAVINGS", "1"))


def quick(pairs: list[Acts]) -> Iterator[Any]:
    """Two of three by default."""
    for at, pair in enumerate(pairs):
        yield pytest.param(pair, marks=pytest.mark.slow) if at % 3 == 2 else pair


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    with installed(), pytest.MonkeyPatch.context() as patch:
        yield Explorer(tmp_path_factory.mktemp("shops"), patch)


@pytest.fixture
def explorer(explored: Explorer, monkeypatch: pytest.MonkeyPatch) -> Explorer:
    return explored


@pytest.mark.parametrize("pair", [*quick(PAIRS[:COMMON])], ids="-".join)
def test_pairs(explorer: Explorer, pair: Acts) -> None:
    number = PAIRS.index(pair)
    for at in range(PLACES):
        one, other = "ab" if (number + at) % 2 else "ba"
        place = 1 + (5 * number + at // 2) % 13
        explorer.run(pair, f"{one}{place} {other} {one}")


FEW = {("refresh", "suspend"), ("tick", "resume"), ("promote", "suspend"), ("alter", "resume")}


@pytest.mark.parametrize(
    "pair",
    [pair if pair in FEW else pytest.param(pair, marks=pytest.mark.slow) for pair in STATUS],
    ids="-".join,
)
def test_suspend_and_resume_need_no_lease(explorer: Explorer, pair: Acts) -> None:
    """They come after the look of the other, and before its publish."""
    number = STATUS.index(pair)
    explorer.run(pair, f"a{4 + 3 * number % 7} b a")


SHORT = {
    *itertools.product(("refresh", "tick"), ("drop", "foreign", "read")),
    ("alter", "read"),
}  # at most 23 orders each


@pytest.mark.timeout(36000)
@pytest.mark.parametrize(
    "pair",
    [pair if pair in SHORT else pytest.param(pair, marks=pytest.mark.slow) for pair in PAIRS],
    ids="-".join,
)
def test_all_orders(explorer: Explorer, pair: Acts) -> None:
    search = explorer.all(pair, most=ORDERS)
    print(f"{'-'.join(pair)}: {search}")
    assert search.over, f"more than {search}: set ANABRANCH_ORDERS higher than {ORDERS}"


@pytest.mark.parametrize("triple", TRIPLES[::7], ids="-".join)
def test_triples(explorer: Explorer, triple: Acts) -> None:
    """The first is stopped, the second as well, and the third runs through."""
    number = TRIPLES.index(triple)
    explorer.run(triple, f"a{1 + 5 * number % 13} b{1 + 7 * number % 17} c a b")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_all_orders_of_three(explorer: Explorer, triple: Acts) -> None:
    search = explorer.all(triple, bound=1)
    print(f"{'-'.join(triple)}: {search}")


# -- each check is needed ------------------------------------------------------------------------


Mutate = Callable[[pytest.MonkeyPatch], None]


def finds(explorer: Explorer, pair: Acts, what: str, mutate: Mutate) -> None:
    """With one preemption, or with two; and that order is harmless while the check is in force."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Broken, match=what) as found:
        mutate(patch)
        explorer.all(pair, bound=1)
        explorer.all(pair, bound=2)
    explorer.run(pair, found.value.order)


def test_definitions_are_compared(explorer: Explorer) -> None:
    """An ALTER that moves no pointer is lost to a refresh that had looked before."""
    check = ReadSet.check

    def mutate(patch: pytest.MonkeyPatch) -> None:
        def leases_only(self: ReadSet, c: Any) -> Any:
            return check(ReadSet(leases=self.leases, last=self.last), c)

        patch.setattr(ReadSet, "check", leases_only)

    finds(explorer, ("refresh", "redefine"), "db.x.e.*changed since its last refresh", mutate)


@pytest.mark.parametrize("pair", [("refresh", "steal"), ("steal", "abort")], ids="-".join)
def test_leases_are_compared(explorer: Explorer, pair: Acts) -> None:
    """Somebody who was taken over publishes all the same."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(leases, "check", lambda c, lease: None)
        patch.setattr(leases, "end", leases.give_back)

    finds(explorer, pair, "published without a lease", mutate)


@pytest.mark.extended
@pytest.mark.parametrize("other", ["promote", "rollback"])
def test_suspensions_are_read_in_the_publish(explorer: Explorer, other: str) -> None:
    """A SUSPEND that comes after the look is lost if only the look is asked."""

    def as_seen(along: Along, c: Connection, names: Iterable[TableName]) -> None:
        known = (along.before.streams.get(name) for name in names)
        along.stopped = tuple(each.name for each in known if each and each.status == "SUSPENDED")

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Along, "keep_suspended", as_seen)

    finds(explorer, (other, "suspend"), "the suspension of b was lost", mutate)


@pytest.mark.parametrize("other", ["refresh", pytest.param("alter", marks=pytest.mark.slow)])
def test_a_refresh_reads_in_its_publish_who_is_suspended(explorer: Explorer, other: str) -> None:
    """No lease keeps SUSPEND out: a refresh that goes by its look would take the table in again."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(record, "stays_suspended", lambda stream, outcome: False)

    finds(explorer, (other, "suspend"), "the suspension of b was lost", mutate)


def test_read_leases_are_kept(explorer: Explorer) -> None:
    """Upkeep takes away what a reader is about to read."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(read_leases, "held_cuts", lambda c, now: ())

    finds(explorer, ("read", "churn"), "read failed: FileMissing", mutate)

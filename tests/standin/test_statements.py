"""How often a refresh and a tick ask the catalog: every statement is a round trip to a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.statements import Counts, measured
from tests.standin.engine import connect, installed

# By case: SELECTs, other statements, transactions.
MOST = {
    "aggregate": (13, 15, 3),
    "diamond": (13, 15, 3),
    "idle": (5, 1, 2),
    "promote": (137, 73, 18),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Counts]]:
    with installed(), connect(tmp_path_factory.mktemp("statements") / "home") as ab:
        yield measured(ab)


@pytest.mark.parametrize("case", MOST)
def test_no_more_statements_than_are_needed(found: dict[str, Counts], case: str) -> None:
    counts, most = found[case], MOST[case]
    shown = "\n".join(counts.texts)
    assert 0 < counts.selects <= most[0], shown
    assert 0 < counts.others <= most[1], shown
    assert 0 < counts.transactions <= most[2], shown


def test_members_of_a_group_take_no_statements_of_their_own(found: dict[str, Counts]) -> None:
    """Three tables ask what one asks."""
    assert len(found["diamond"].texts) <= len(found["aggregate"].texts)

"""How often refreshes, ticks and deployments ask the catalog: every statement is a round trip to a
server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch.lake import attached
from benchmarks.statements import Counts, counted, measured
from tests.standin.engine import connect, installed

# By case: SELECTs, other statements, transactions.
MOST = {
    "aggregate": (13, 15, 3),
    "diamond": (13, 15, 3),
    "idle": (5, 1, 2),
    "promote": (39, 32, 6),
}


@pytest.fixture(scope="module", autouse=True)
def no_time_goes_by() -> Iterator[None]:
    """Every second it is asked once more whether somebody attached a catalog: as long as this takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attached, "AGAIN", float("inf"))
        yield


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


# Tables that a deployment swaps, and which of them a reader outside of the project moves along with.
SWAPS = {"one": (1, False), "six": (6, False), "one along": (1, True), "six along": (6, True)}
# Likewise for a promote and its roll-back.
MOST_OF_SWAPS = {
    "one": ((39, 32, 6), (47, 25, 6)),
    "six": ((39, 32, 6), (47, 25, 6)),
    "one along": ((96, 90, 18), (106, 75, 17)),
    "six along": ((96, 90, 18), (106, 75, 17)),
}


@pytest.mark.parametrize("case", SWAPS)
def test_a_swap_of_many_tables_takes_what_one_takes(tmp_path: Path, case: str) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        found = swapped(ab, tmp_path / "project", *SWAPS[case])
    for counts, most in zip(found, MOST_OF_SWAPS[case], strict=True):
        shown = "\n".join(counts.texts)
        assert 0 < counts.selects <= most[0], shown
        assert 0 < counts.others <= most[1], shown
        assert 0 < counts.transactions <= most[2], shown


def swapped(ab: anabranch.Anabranch, project: Path, tables: int, reader: bool) -> list[Counts]:
    """A promote and its roll-back, the third of a project of tables in two schemas."""
    for number in range(3):
        files = {
            "anabranch.toml": 'name = "many"',
            "models/many/m/t.sql": "CREATE TABLE t (k BIGINT, v BIGINT)",
        }
        for at in range(tables):
            query = f"SELECT k, v + {number} AS v FROM m.t"
            files[f"models/many/m{at % 2}/a{at}.sql"] = f"CREATE STREAM TABLE a{at} AS {query}"
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        made = ab.stage(str(project))
        assert made is not None
        with counted(ab) as promote:
            ab.promote(made)
        if reader and number == 0:
            ab.create_stream_table("mine.own", "SELECT k, sum(v) AS v FROM many.m0.a0 GROUP BY k")
    with counted(ab) as rollback:
        ab.rollback()
    return [promote, rollback]

"""Equality deletes and deletion vectors of other engines, read exactly as state and as delta."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from tests.standin.engine import connect, installed
from tests.standin.hand import Data, Hand, Row, imported
from tests.standin.random_commits import Commits, agrees
from tests.standin.theirs import Theirs

ID, AMOUNT = 1, 2
SUM = "SELECT COUNT(*) AS n, SUM(amount) AS s FROM prod.sales.orders"
SEEDS = int(os.environ.get("ANABRANCH_FOREIGN_SEEDS", "4"))


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    theirs = Theirs(tmp_path / "theirs")
    theirs.table()
    found = Hand(theirs, "orders", random.Random(1))
    found.append([row(1, 10), row(2, 20), row(3, 30)])
    return found


@pytest.fixture
def ab(tmp_path: Path, hand: Hand) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.attach("prod", "sql", **hand.theirs.properties)
        opened.create_stream_table("mart.rows", "SELECT * FROM prod.sales.orders", schedule=None)
        opened.create_stream_table("mart.sums", SUM, schedule=None)
        yield opened


def row(id_: int, amount: int | None) -> Row:
    return {ID: id_, AMOUNT: amount}


def check(ab: Anabranch, hand: Hand) -> None:
    """State and delta give what must be left."""
    ab.refresh()
    expected = Counter(hand.rows)
    assert Counter(ab.table("prod.sales.orders").collect()) == expected
    assert Counter(ab.table("mart.rows").collect()) == expected
    assert ab.verify("mart.sums")["equal"]


def test_equality_deletes_take_older_rows_only(ab: Anabranch, hand: Hand) -> None:
    hand.delete_keys((ID,), [row(1, None), row(2, None)], add=[row(1, 11)])
    check(ab, hand)
    assert Counter(ab.table("mart.rows").collect()) == Counter([(1, 11), (3, 30)])
    assert ab.history("mart.rows", 1)[0]["action"] == "DIFFERENTIAL"
    hand.append([row(2, 22)])  # younger than the delete of 2
    check(ab, hand)
    hand.rewrite(lambda file: True)
    check(ab, hand)
    assert ab.history("mart.rows", 1)[0]["rows_deleted"] in (0, None)


def test_null_equals_null_in_equality_deletes(ab: Anabranch, hand: Hand) -> None:
    hand.append([row(4, None), row(5, None), row(6, 60)])
    check(ab, hand)
    hand.delete_keys((AMOUNT,), [row(0, None)])
    check(ab, hand)
    assert Counter(r[0] for r in ab.table("mart.rows").collect()) == Counter([1, 2, 3, 6])
    hand.delete_keys((ID, AMOUNT), [row(6, 60), row(1, 99)])
    check(ab, hand)


def test_deletion_vectors_replace_each_other(ab: Anabranch, hand: Hand) -> None:
    hand.append([row(4, 40), row(5, 50)])
    check(ab, hand)
    hand.delete_by_vectors(lambda r: r[ID] in (1, 4))
    check(ab, hand)
    assert ab.history("mart.rows", 1)[0]["rows_deleted"] == 2
    hand.delete_by_vectors(lambda r: r[ID] == 2)
    check(ab, hand)
    assert ab.history("mart.rows", 1)[0]["rows_deleted"] == 1


def test_vectors_and_equality_deletes_together(ab: Anabranch, hand: Hand) -> None:
    hand.append([row(4, 40), row(5, 50)])
    hand.delete_places(lambda r: r[ID] == 1)
    check(ab, hand)
    hand.delete_keys((ID,), [row(1, None), row(4, None)])
    hand.delete_by_vectors(lambda r: r[ID] == 5)
    check(ab, hand)
    assert Counter(r[0] for r in ab.table("mart.rows").collect()) == Counter([2, 3])


def test_equality_deletes_of_a_column_that_was_dropped_later(ab: Anabranch, hand: Hand) -> None:
    ab.drop_stream_table("mart.sums")
    ab.drop_stream_table("mart.rows")
    hand.delete_keys((AMOUNT,), [row(0, 20)])

    def drop(table: Any) -> None:
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("amount")

    hand.change(drop)
    assert Counter(ab.table("prod.sales.orders").collect()) == Counter([(1,), (3,)])


def test_a_damaged_vector_is_named(ab: Anabranch, hand: Hand) -> None:
    hand.delete_by_vectors(lambda r: r[ID] == 1)
    (place,) = hand._folder().glob("*.puffin")
    data = bytearray(place.read_bytes())
    data[20] ^= 1
    place.write_bytes(data)
    with pytest.raises(Exception, match="a deletion vector is damaged: .*puffin"):
        ab.table("prod.sales.orders").collect()


def test_old_ages_survive_a_compaction(ab: Anabranch, hand: Hand) -> None:
    """A compaction may keep the age of its files, so that deletes that race with it still count."""
    hand.delete_keys((ID,), [row(1, None)])
    check(ab, hand)
    before = ab.history("mart.rows", 1)[0]["refresh_id"]

    def first(file: Data) -> bool:
        return file is hand.data[0]

    hand.rewrite(first, keep_age=True)
    check(ab, hand)
    line = ab.history("mart.rows", 1)[0]
    assert line["refresh_id"] == before or (not line["rows_inserted"] and not line["rows_deleted"])


def test_imported_files_are_read_by_name_and_partition(ab: Anabranch, hand: Hand) -> None:
    imported(hand.theirs, "old", [2023, 2024])
    ab.create_stream_table("mart.old", "SELECT * FROM prod.sales.old", schedule=None)
    wanted = Counter(
        [
            (2023, "a2023", 2023),
            (1, None, 2023),
            (2024, "a2024", 2024),
            (1, None, 2024),
            (7, "new", 2023),
        ]
    )
    assert Counter(ab.table("mart.old").collect()) == wanted
    assert ab.table("prod.sales.old").columns == ["id", "title", "year"]


@pytest.mark.parametrize(
    "seed",
    [pytest.param(each, marks=[pytest.mark.extended] if each else []) for each in range(SEEDS)],
)
def test_random_commits_equal_recompute(tmp_path: Path, seed: int) -> None:
    with installed(), connect(tmp_path / "home") as ab:
        commits = Commits.begin(ab, tmp_path, random.Random(seed))
        for _ in range(15 if seed else 6):
            commits.some()
            ab.refresh()
            agrees(ab, commits)

"""Columns that somebody reads: neither dropped nor renamed without being asked, and never in part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import Refused, UnknownName
from tests.standin.engine import connect, installed


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT, note STRING, free STRING)")
        opened.sql("CREATE TABLE s.u (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10, 'a', 'x'); INSERT INTO s.u VALUES (1, 5)")
        opened.create_stream_table("s.sums", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k")
        opened.sql("CREATE VIEW s.notes AS SELECT k, note FROM s.t")
        opened.create_stream_table("s.below", "SELECT k FROM s.notes")
        opened.create_stream_table("s.above", "SELECT v FROM s.sums")
        opened.sql("CREATE INDEX by_note ON s.t (note)")
        yield opened


def names(ab: Anabranch) -> set[str]:
    return {row["table"] for row in ab.tables()}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("DROP COLUMN v", "column v of s.t: read by stream table s.sums"),
        ("DROP COLUMN v RESTRICT", "stream table s.sums"),
        ("DROP COLUMN note", "read by stream table s.below, view s.notes, index by_note"),
        ("DROP COLUMNS (v, note)", "stream table s.sums, view s.notes"),
        ("RENAME COLUMN v TO w", "stream table s.sums"),
        ("RENAME COLUMN NOTE TO w", "view s.notes, index by_note"),
    ],
)
def test_it_is_refused_and_its_readers_are_named(ab: Anabranch, change: str, says: str) -> None:
    before, cuts = names(ab), len(ab.cuts())
    with pytest.raises(Refused) as caught:
        ab.sql(f"ALTER TABLE s.t {change}")
    assert says in caught.value.message
    assert ("CASCADE" in str(caught.value.hint)) == change.startswith("DROP")
    assert (names(ab), len(ab.cuts())) == (before, cuts)
    ab.refresh()


def test_what_nobody_reads_goes(ab: Anabranch) -> None:
    ab.sql("ALTER TABLE s.t RENAME COLUMN free TO other")
    ab.sql("ALTER TABLE s.t DROP COLUMN other")
    ab.sql("INSERT INTO s.t VALUES (2, 20, 'b')")
    ab.refresh()
    assert sorted(ab.table("s.sums").collect()) == [(1, 10), (2, 20)]


def test_every_column_is_read_by_a_star(ab: Anabranch) -> None:
    ab.create_stream_table("s.all", "SELECT * FROM s.t")
    with pytest.raises(Refused, match="read by stream table s.all"):
        ab.sql("ALTER TABLE s.t DROP COLUMN free")


def test_a_name_that_would_mean_another_table_is_not_taken_for_unread(ab: Anabranch) -> None:
    """Without s.t.v the subquery would still run, upon the outer s.u.v."""
    ab.create_stream_table(
        "s.tricky", "SELECT k FROM s.u WHERE EXISTS (SELECT 1 FROM s.t WHERE t.k = u.k AND v > 7)"
    )
    ab.drop_stream_table("s.sums", cascade=True)
    with pytest.raises(Refused, match="stream table s.tricky"):
        ab.sql("ALTER TABLE s.t DROP COLUMN v")


def test_cascade_drops_the_readers_and_those_who_read_them_in_one_cut(ab: Anabranch) -> None:
    cut = ab.cuts()[0]["cut_id"]
    done = ab.sql("ALTER TABLE s.t DROP COLUMN note CASCADE")
    assert done["dropped"] == "stream table s.below, view s.notes, index by_note"
    assert names(ab) == {"s.t", "s.u", "s.sums", "s.above"}
    assert [row["cut_id"] for row in ab.cuts() if row["cut_id"] > cut] == [cut + 1]
    with pytest.raises(UnknownName):
        ab.table("s.notes")
    done = ab.sql("ALTER TABLE s.t DROP COLUMN v CASCADE")
    assert done["dropped"] == "stream table s.above, stream table s.sums"
    assert names(ab) == {"s.t", "s.u"}
    assert ab.table("s.t").columns == ["k", "free"]


def test_cascade_takes_nothing_that_does_not_depend(ab: Anabranch) -> None:
    before = names(ab)
    assert "dropped" not in ab.sql("ALTER TABLE s.t DROP COLUMN free CASCADE")
    assert names(ab) == before


def test_cascade_stands_alone(ab: Anabranch) -> None:
    with pytest.raises(Refused, match="transaction"), ab.transaction():
        ab.sql("ALTER TABLE s.t DROP COLUMN v CASCADE")
    assert "s.sums" in names(ab)

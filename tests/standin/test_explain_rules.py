"""`explain` with rules, through the API and SQL, against the tables as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.refresh import sources
from tests.standin.engine import connect, installed

JOINED = "SELECT t.k, u.w FROM s.t, s.u WHERE t.k = u.k AND t.v > 1"


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path, fsync=False) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT, unused BIGINT)")
        opened.sql("CREATE TABLE s.u (k BIGINT, w BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 1, 0), (2, 20, 0)")
        opened.sql("INSERT INTO s.u VALUES (2, 3), (900, 4)")
        opened.create_stream_table("s.d", JOINED, schedule=None)
        yield opened


def test_rules_are_shown_if_asked_for(ab: Anabranch) -> None:
    assert "rules of the" not in ab.explain("s.d")
    text = ab.explain("s.d", rules=True)
    assert text.startswith(ab.explain("s.d"))
    query = text[text.index("rules of the query:") : text.index("rules of the delta:")]
    assert query.index("  filter_into_join:") < query.index("  prune_columns:")
    assert ab.sql("EXPLAIN STREAM TABLE s.d RULES") == text


def test_what_is_known_of_a_change_shows(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the keys of the rows that came are looked up in the other table."""
    monkeypatch.setattr(sources, "LARGE_ROWS", 1)
    ab.sql("INSERT INTO s.t VALUES (900, 9, 0)")
    text = ab.explain("s.d", rules=True)
    change = text[text.index("rules of the delta:") :]
    assert "  push_ranges:" in change and "where k in 900..900" in change


def test_a_query_that_has_no_plan_has_no_rules(ab: Anabranch) -> None:
    ab.create_stream_table("s.r", "SELECT k, uuid() AS id FROM s.t", schedule=None)
    assert ab.explain("s.r", rules=True) == ab.explain("s.r")

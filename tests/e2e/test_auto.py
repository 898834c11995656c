"""AUTO: which way each refresh goes, what it says, and who hears of it."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.refresh.definition import define
from tests.e2e.world import bag, rows

ROWS = 150_000


@pytest.fixture
def big(ab: Anabranch) -> Anabranch:
    """A source that is large enough to have a choice, and a table over all of it."""
    ab.sql("CREATE TABLE big.s (id BIGINT, x BIGINT)")
    ab.append("big.s", ab.spark.range(ROWS).selectExpr("id", "id AS x"))
    ab.create_stream_table("big.t", "SELECT id, x FROM big.s WHERE x >= 0", schedule=None)
    return ab


def refreshed(ab: Anabranch, name: str = "big.t") -> dict[str, Any]:
    ab.refresh(name)
    return ab.history(name)[0]


@pytest.mark.extended
def test_the_way_follows_the_change_and_says_so(
    big: Anabranch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="anabranch")
    first = big.history("big.t")[0]
    assert (first["action"], first["source_rows"]) == ("FULL", ROWS)
    assert first["predicted_ms"] > 0 and first["alternative_ms"] is None

    big.sql("UPDATE big.s SET x = x + 1")
    planned = big.explain("big.t")
    most = refreshed(big)
    assert most["action"] == "FULL" and most["delta_rows"] == 2 * ROWS
    assert most["reason"].startswith("in full: predicted ")
    assert most["reason"].endswith(" from 300,000 changed rows")
    assert f"next refresh: FULL, {most['reason']}" in planned
    assert 0 < most["predicted_ms"] < most["alternative_ms"]

    big.sql("UPDATE big.s SET x = 0 WHERE id < 3")
    few = refreshed(big)
    assert (few["action"], few["delta_rows"]) == ("DIFFERENTIAL", 6)
    assert few["reason"].startswith("6 changed rows: predicted ")
    assert few["predicted_ms"] is not None and few["alternative_ms"] is not None
    assert big.verify("big.t")["equal"]

    nothing = refreshed(big)
    assert nothing["action"] == "NO_DATA"
    measures = ("predicted_ms", "alternative_ms", "source_rows")
    assert [nothing[key] for key in measures] == [None, None, None]

    events = big.events("big.t")
    assert [each["kind"] for each in events] == ["MODE_CHANGED", "MODE_CHANGED"]
    assert events[0]["message"] == f"DIFFERENTIAL after FULL: {few['reason']}"
    assert events[1]["message"] == f"FULL after DIFFERENTIAL: {most['reason']}"
    assert bag(big.sql("SELECT table, kind, message FROM system.events")) == rows(
        *(("big.t", each["kind"], each["message"]) for each in events)
    )
    assert caplog.messages == [
        f"big.t: {each['message']} (MODE_CHANGED)" for each in reversed(events)
    ]
    seen = big.sql("SELECT predicted_ms, alternative_ms FROM system.refresh_history")
    assert (few["predicted_ms"], few["alternative_ms"]) in bag(seen)

    big.create_stream_table(
        "big.strict", "SELECT id FROM big.s", schedule=None, refresh_mode="DIFFERENTIAL"
    )
    big.set("full_refresh_threshold", 0.001)
    big.sql("DELETE FROM big.s WHERE id < 400")
    big.refresh()
    bounded, strict = (big.history(name)[0] for name in ("big.t", "big.strict"))
    assert bounded["action"] == "FULL" and bounded["alternative_ms"] is not None
    assert "above full_refresh_threshold" in bounded["reason"]
    assert strict["action"] == "DIFFERENTIAL" and strict["alternative_ms"] is None


def test_explain_names_what_to_change_and_rebuilding_is_an_event(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE a.s (id BIGINT, x INT)")
    ab.sql("INSERT INTO a.s VALUES (1, 1), (2, 2)")
    ab.create_stream_table("a.t", "SELECT id, x FROM a.s", schedule=None)
    assert ab.events() == []
    query = "SELECT id,\n       uuid() AS x\nFROM a.s"
    ab.alter_stream_table("a.t", query="SELECT id, cast(x AS STRING) AS x FROM a.s")
    ab.alter_stream_table("a.t", query=query)
    text = ab.explain("a.t")
    for part in [
        "next refresh: FULL, not incremental: NONDETERMINISTIC_FUNCTION",
        "NONDETERMINISTIC_FUNCTION at line 2, column 8: uuid",
        "  |        uuid() AS x\n    |        ^",
        "operator: non-deterministic function",
        "what to change: compute the value when the row is written",
        "predicted: in full ",
    ]:
        assert part in text, text
    newest, older = ab.events("a.t")
    assert newest["kind"] == older["kind"] == "REINITIALIZED"
    assert newest["message"].endswith("; not incremental: NONDETERMINISTIC_FUNCTION")
    assert "not incremental" not in older["message"]


def test_queries_are_understood_side_by_side(ab: Anabranch) -> None:
    """Members of a group are refreshed in threads of one Spark session."""
    ab.sql("CREATE TABLE s.a (k INT, v INT); CREATE TABLE s.b (k STRING, v DECIMAL(9,2))")
    world = ab._runtime.world()
    queries = [f"SELECT k, sum(v) + {at} AS t FROM s.{'ab'[at % 2]} GROUP BY k" for at in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: define(world, query), queries))
    assert [each.obstacles for each in found] == [()] * len(queries)
    types = [[column.type for column in each.columns] for each in found]
    assert types == [["int", "bigint"], ["string", "decimal(20,2)"]] * 12

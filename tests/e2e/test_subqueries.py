"""Correlated queries over rows that match nothing, and what Spark reads but we do not."""

from __future__ import annotations

import pytest

from anabranch import Anabranch


@pytest.fixture
def pairs(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE sub.a (id INT, k INT)")
    ab.sql("CREATE TABLE sub.b (id INT, k INT, w INT)")
    ab.sql("INSERT INTO sub.a VALUES (1, 1), (2, 2), (3, NULL)")
    ab.sql("INSERT INTO sub.b VALUES (1, 1, 5), (2, 1, 4)")
    return ab


def change(ab: Anabranch) -> None:
    with ab.transaction():
        ab.sql("INSERT INTO sub.b VALUES (3, 2, 9)")
        ab.sql("DELETE FROM sub.b WHERE k = 1")
        ab.sql("INSERT INTO sub.a VALUES (7, 1)")


@pytest.mark.extended
def test_values_over_no_rows(pairs: Anabranch) -> None:
    ab = pairs
    query = """
        SELECT id,
               (SELECT sort_array(collect_list(w)) FROM sub.b WHERE b.k = a.k) AS list,
               (SELECT approx_count_distinct(w) FROM sub.b WHERE b.k = a.k) AS about,
               (SELECT max(w) FROM sub.b WHERE b.k = a.k) AS most
        FROM sub.a"""
    ab.create_stream_table("sub.over_nothing", query, refresh_mode="DIFFERENTIAL")
    assert ab.verify("sub.over_nothing")["equal"]
    change(ab)
    ab.refresh("sub.over_nothing")
    assert ab.history("sub.over_nothing")[0]["action"] == "DIFFERENTIAL"
    assert ab.verify("sub.over_nothing")["equal"]


def test_what_only_spark_reads_is_recomputed(pairs: Anabranch) -> None:
    ab = pairs
    query = "SELECT id, n FROM sub.a, (SELECT * FROM VALUES 1, 2 AS few(n)) x"
    ab.create_stream_table("sub.nested", query)
    change(ab)
    ab.refresh("sub.nested")
    line = ab.history("sub.nested")[0]
    assert (line["action"], line["reason"]) == ("FULL", "not incremental: UNSUPPORTED_SYNTAX")
    assert ab.verify("sub.nested")["equal"]

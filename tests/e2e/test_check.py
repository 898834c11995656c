"""`check --deep` on real Spark: state that is wrong while the rows are still right."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.api import Anabranch
from anabranch.refresh.execute import table as jobs

QUERY = """SELECT g, COUNT(x) AS n, SUM(x) AS total, AVG(x) AS mean, MIN(y) AS least
FROM s.t GROUP BY g"""


@pytest.fixture
def filled(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE s.t (id BIGINT, g STRING, x DECIMAL(9,2), y DOUBLE)")
    ab.sql("INSERT INTO s.t VALUES (1, 'a', 1.5, 0.5), (2, 'a', 2.5, -0.5), (3, 'b', NULL, 7)")
    ab.sql("INSERT INTO s.t VALUES (4, 'b', 4.5, 2)")
    return ab


def test_state_that_followed_changes_is_right(filled: Anabranch) -> None:
    filled.create_stream_table("s.sums", QUERY, refresh_mode="DIFFERENTIAL")
    filled.create_stream_table("s.rows", "SELECT id, x FROM s.t WHERE y > 0")
    filled.sql("DELETE FROM s.t WHERE id IN (2, 4)")  # 'b' is left with nothing to sum up
    filled.sql("UPDATE s.t SET y = -1 WHERE id = 3")
    filled.refresh()
    assert filled.check(deep=True) == []


@pytest.mark.parametrize("query", [QUERY, "SELECT id, g FROM s.t"], ids=["state", "hash"])
@pytest.mark.extended
def test_wrong_state_is_found_and_rebuilt(
    filled: Anabranch, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    real = jobs.add_all

    def damaged(*given: Any, **named: Any) -> Any:
        rows = real(*given, **named)
        last = rows.columns[-1]
        return rows.withColumn(last, rows[last] + 1)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "add_all", damaged)
        filled.create_stream_table("s.kept", query)
    assert filled.verify("s.kept")["equal"]
    (found,) = filled.check(deep=True)
    assert (found["table"], found["problem"]) == ("s.kept", "DIFFERS")
    assert "hidden state" in found["detail"]
    (found,) = filled.check(deep=True, repair=True)
    assert found["repaired"] and filled.check(deep=True) == []

"""Comments in SQL: what other programs read, and that no refresh minds them."""

from __future__ import annotations

import pytest

from anabranch import Anabranch
from anabranch.errors import Refused, Unsupported
from tests.e2e.world import Outside, bag, rows


def said(outside: Outside, name: str) -> dict[str, str]:
    table = outside.table(name)
    fields = {each.name: each.doc for each in table.schema().fields if each.doc}
    about = table.properties.get("comment")
    return {"": about, **fields} if about else fields


def test_comments_are_icebergs_own(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE s.t (id BIGINT COMMENT 'counted', x BIGINT) COMMENT 'all of it'")
    assert said(outside, "s.t") == {"": "all of it", "id": "counted"}
    ab.sql("COMMENT ON COLUMN s.t.X IS 'in euro'; COMMENT ON TABLE s.t IS NULL")
    ab.sql("ALTER TABLE s.t ADD COLUMN note STRING COMMENT 'by hand'")
    ab.sql("ALTER TABLE s.t ADD COLUMN IF NOT EXISTS note STRING COMMENT 'another'")
    ab.sql("ALTER TABLE s.t DROP COLUMN IF EXISTS missing")
    assert said(outside, "s.t") == {"id": "counted", "x": "in euro", "note": "by hand"}
    shown = {row["column"]: row["comment"] for row in ab.sql("DESCRIBE s.t").collect()}
    assert shown == {"id": "counted", "x": "in euro", "note": "by hand"}
    ab.sql("CREATE TABLE s.copy COMMENT 'twice' AS SELECT 1 AS a")
    assert said(outside, "s.copy") == {"": "twice"}
    ab.sql("CREATE VIEW s.v AS SELECT id FROM s.t")
    with pytest.raises(Refused, match="is a view"):
        ab.sql("COMMENT ON VIEW s.v IS 'seen'")
    with pytest.raises(Unsupported, match="CREATE TEST belongs in the file of a project"):
        ab.sql("CREATE TEST t EXPECT NO ROWS")
    assert ab.sql("DESCRIBE s.v").first()["comment"] is None


def test_a_comment_is_no_change_of_rows(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE s.t (id BIGINT, x BIGINT); INSERT INTO s.t VALUES (1, 10)")
    ab.sql("CREATE STREAM TABLE s.sums AS SELECT id, sum(x) AS x FROM s.t GROUP BY id")
    ab.sql("CREATE STREAM TABLE s.top AS SELECT max(x) AS x FROM s.sums")
    ab.sql("COMMENT ON STREAM TABLE s.sums IS 'all of it'; COMMENT ON COLUMN s.t.x IS 'in euro'")
    jobs = ab.spark_actions
    assert {line["action"] for line in ab.refresh()} == {"NO_DATA"}
    assert ab.spark_actions == jobs
    ab.sql("INSERT INTO s.t VALUES (1, 5)")
    assert {line["action"] for line in ab.refresh()} == {"DIFFERENTIAL"}
    assert bag(ab.table("s.top")) == rows((15,))
    assert said(outside, "s.sums") == {"": "all of it"}
    assert ab.verify("s.sums")["equal"] and ab.verify("s.top")["equal"]

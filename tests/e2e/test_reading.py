"""Reading: one cut for many tables, old cuts, system views, verify, explain and the listings."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from pyiceberg.expressions import EqualTo

from anabranch import Anabranch
from anabranch.errors import InvalidValue, SqlSyntaxError, UnknownName, Unsupported
from tests.e2e.world import Outside, bag, nothing_changes, rows

STATUS = (
    "name kind status refresh_mode schedule populated frontier last_refresh_at staleness_seconds "
    "consecutive_errors group_id scc_id last_error"
)
HISTORY = (
    "refresh_id table cut_id action status reason rows_inserted rows_deleted delta_rows "
    "duration_ms epoch fixpoint_iterations tick_watermark initiated_by error"
)


@pytest.fixture
def bank(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE bank.a (id BIGINT, x DECIMAL(10,2))")
    ab.sql("CREATE TABLE bank.b (id BIGINT, x DECIMAL(10,2))")
    ab.sql("INSERT INTO bank.a VALUES (1, 100); INSERT INTO bank.b VALUES (1, 100)")
    ab.create_stream_tables(
        {
            "bank.sum_a": "SELECT sum(x) AS x FROM bank.a",
            "bank.sum_b": "SELECT sum(x) AS x FROM bank.b",
            "bank.sums": "SELECT x FROM bank.sum_a UNION ALL SELECT x FROM bank.sum_b",
        }
    )
    return ab


BOTH = "SELECT (SELECT sum(x) FROM bank.a), (SELECT sum(x) FROM bank.b), (SELECT sum(x) FROM bank.sums)"


def test_a_held_cut_does_not_move(bank: Anabranch) -> None:
    """While another thread moves money from a to b, every reader finds all of it."""
    failed: list[BaseException] = []

    def move() -> None:
        try:
            for _ in range(2):
                with bank.transaction():
                    bank.sql("UPDATE bank.a SET x = x - 10")
                    bank.sql("UPDATE bank.b SET x = x + 10")
                bank.refresh()
        except BaseException as error:
            failed.append(error)

    with bank.at() as first:
        mover = threading.Thread(target=move)
        mover.start()
        seen = set()
        while mover.is_alive():
            with bank.at() as world:
                a, b, sums = world.sql(BOTH).first()
                assert (a + b, sums) == (200, 200)
                seen.add((a, b))
                assert bag(world.table("bank.a")) == rows((1, a))
        mover.join()
        assert not failed
        assert tuple(first.sql(BOTH).first()) == (100, 100, 200)
        assert bag(first.table("bank.sum_a")) == rows((Decimal(100),))
    assert seen, "no reader came in while money was moved"
    assert seen <= {(100, 100), (90, 110), (80, 120)}
    assert tuple(bank.sql(BOTH).first()) == (80, 120, 200)


@pytest.mark.extended
def test_old_cuts_by_number(bank: Anabranch, outside: Outside) -> None:
    bank.sql("CREATE VIEW bank.v AS SELECT id FROM bank.a; CREATE VIEW bank.gone AS SELECT 1 AS o")
    old = bank.cuts()[0]["cut_id"]
    bank.sql("INSERT INTO bank.a VALUES (2, 1); CREATE TABLE bank.new (i INT); DROP TABLE bank.new")
    bank.sql("CREATE OR REPLACE VIEW bank.v AS SELECT x FROM bank.a; DROP VIEW bank.gone")
    bank.refresh()
    with bank.at(old) as world:
        assert world.cut_id == old
        assert bag(world.sql("SELECT v.id, o FROM bank.v JOIN bank.gone ON true")) == rows((1, 1))
        for text in (
            "INSERT INTO bank.a VALUES (3, 3)",
            "CREATE TABLE other (i INT)",
            "SHOW TABLES",
        ):
            with pytest.raises(SqlSyntaxError, match="expected a query"):
                world.sql(text)
        assert bag(world.table("bank.sum_a")) == rows((Decimal(100),))
        assert bag(world.sql("SELECT a.id FROM bank.a JOIN bank.sums ON true")) == rows((1,), (1,))
        with pytest.raises(UnknownName, match="bank.new"):
            world.table("bank.new")
    with bank.at(old + 2) as world:
        assert bag(world.table("bank.new")) == rows()
        assert bag(world.table("bank.a")).total() == 2
    with bank.at() as world:
        assert world.cut_id == bank.cuts()[0]["cut_id"]
        assert bank.table("bank.v").columns == world.table("BANK.V").columns == ["x"]
    with pytest.raises(UnknownName, match="no cut 9999"), bank.at(9999):
        pass
    for wrong in ("1", 1.0, True):
        with pytest.raises(InvalidValue, match="takes a whole number"), bank.at(wrong):
            pass
    bank.set("snapshot_retention", "0s")
    bank.maintain()
    with pytest.raises(InvalidValue, match=f"cut {old} has expired"), bank.at(old):
        pass
    assert bag(bank.table("bank.sum_a")) == rows((Decimal(101),))
    bank.sql("DELETE FROM bank.a WHERE id = 2")
    assert {line["action"] for line in bank.refresh()} == {"DIFFERENTIAL", "NO_DATA"}
    assert bank.verify("bank.sums")["equal"]


def test_listings_and_system_views(bank: Anabranch) -> None:
    bank.sql("INSERT INTO bank.a VALUES (3, 3)")
    bank.refresh("bank.sums")
    bank.refresh()
    status = {row["name"]: row for row in bank.status()}
    assert set(status) == {"bank.sum_a", "bank.sum_b", "bank.sums"}
    for row in status.values():
        assert set(STATUS.split()) <= set(row)
    assert status["bank.sums"]["frontier"].keys() == {"bank.a", "bank.b"}
    assert 0 <= status["bank.sums"]["staleness_seconds"] < 300
    history = bank.history("bank.sums")
    assert [line["action"] for line in history] == ["NO_DATA", "DIFFERENTIAL", "FULL"]
    assert [line["initiated_by"] for line in history] == ["manual", "manual", "create"]
    for line in history:
        assert set(HISTORY.split()) <= set(line)
    assert history[1]["delta_rows"] == 2
    assert history[1]["cut_id"] == bank.cuts()[0]["cut_id"]
    assert bank.history(limit=1)[0]["refresh_id"] == max(
        line["refresh_id"] for line in bank.history()
    )
    cuts = bank.cuts()
    assert {"cut_id", "published_at", "kind", "tables"} <= set(cuts[0])
    assert [cut["cut_id"] for cut in cuts] == list(range(len(cuts), 0, -1))
    settings = {row["name"]: row for row in bank.settings()}
    assert {"name", "value", "default", "meaning"} <= set(settings["tick_interval"])
    bank.sql("SET anabranch.full_refresh_threshold = 0.25")
    assert bank.sql("SET anabranch.full_refresh_threshold")[0]["value"] == "0.25"

    assert bag(bank.sql("SELECT name, status FROM system.stream_tables")) == rows(
        *((name, "ACTIVE") for name in status)
    )
    assert bag(
        bank.sql("SELECT value FROM system.settings WHERE name = 'full_refresh_threshold'")
    ) == (rows(("0.25",)))
    joined = bank.sql("""
        SELECT h.action, c.kind FROM system.refresh_history h JOIN system.cuts c USING (cut_id)
        JOIN system.dependencies d ON d.table = h.table AND d.upstream = 'bank.sum_b'
        ORDER BY h.refresh_id
    """)
    assert [tuple(row) for row in joined.collect()] == [
        ("FULL", "create stream table"), ("DIFFERENTIAL", "refresh")
    ]  # fmt: skip
    lists = bank.sql("SELECT explode(tables) FROM SYSTEM.Cuts WHERE kind = 'refresh'")
    assert bag(lists) == rows(("bank.sum_a",), ("bank.sums",))
    sources = bank.sql("SELECT explode(map_keys(frontier)) AS s, name FROM system.stream_tables")
    assert bag(sources.where("name = 'bank.sums'").select("s")) == rows(("bank.a",), ("bank.b",))
    origin = bank.sql("SELECT origin FROM system.settings WHERE name = 'full_refresh_threshold'")
    assert bag(origin) == rows(("SET",))
    with pytest.raises(UnknownName, match="system.cutz") as caught:
        bank.sql("SELECT * FROM system.cutz")
    assert "cuts" in str(caught.value)


@pytest.mark.extended
def test_verify_finds_what_is_wrong(bank: Anabranch, outside: Outside) -> None:
    bank.sql("INSERT INTO bank.a VALUES (1, 100), (2, 7)")
    bank.create_stream_table("bank.copy", "SELECT id, x FROM bank.a")
    told = bank.verify("bank.copy")
    stands = {each["name"]: each["cut_id"] for each in bank.status()}
    assert told == {
        "table": "bank.copy", "equal": True, "missing": [], "unexpected": [],
        "missing_rows": 0, "unexpected_rows": 0, "frontier": told["frontier"],
        "cut_id": stands["bank.copy"], "mixed_cuts": [], "why": None,
    }  # fmt: skip
    assert told["cut_id"] is not None
    table = outside.table("bank.copy")
    wrong = table.scan(row_filter=EqualTo("id", 2)).to_arrow()
    table.append(wrong)
    table.append(wrong)
    table.delete(EqualTo("id", 1))
    bank.table("bank.copy")  # what others committed becomes a cut before anything reads it
    with nothing_changes(bank, outside):
        found = bank.verify("bank.copy")
    assert found["equal"] is False
    assert found["missing"] == [{"row": {"id": 1, "x": Decimal("100.00")}, "count": 2}]
    assert found["unexpected"] == [{"row": {"id": 2, "x": Decimal("7.00")}, "count": 2}]
    assert (found["missing_rows"], found["unexpected_rows"]) == (2, 2)
    # verify looks at the frontier, not at what has happened since
    bank.sql("INSERT INTO bank.b VALUES (5, 5)")
    assert bank.verify("bank.sum_b")["equal"]
    bank.refresh()
    assert bank.verify("bank.copy")["equal"]
    with pytest.raises(UnknownName, match="no stream table bank.kopy"):
        bank.verify("bank.kopy")


def test_explain(bank: Anabranch) -> None:
    bank.sql("CREATE TABLE bank.names (id BIGINT, who STRING)")
    bank.create_stream_table(
        "bank.by_who",
        "SELECT who, sum(x) AS x, max(x) AS top FROM bank.a JOIN bank.names USING (id) GROUP BY who",
    )
    text = bank.explain("bank.by_who")
    for part in [
        "stream table bank.by_who (who string, x decimal(20,2), top decimal(10,2))",
        "refresh mode: AUTO",
        "reads: bank.a, bank.names",
        "incremental: yes",
        "_ab_n",
        "Spark SQL of the change",
        "bank.a@",
        "SELECT",
    ]:
        assert part in text, text
    bank.create_stream_table("bank.marked", "SELECT id, uuid() AS r FROM bank.a")
    text = bank.sql("EXPLAIN STREAM TABLE bank.marked")
    for part in [
        "incremental: no",
        "NONDETERMINISTIC_FUNCTION at line 1, column 12",
        "operator: non-deterministic function",
    ]:
        assert part in text, text


@pytest.mark.extended
def test_a_long_chain_of_ctes(ab: Anabranch) -> None:
    """Each level takes Spark's analyzer a round, and without a word from us it stops after 100."""
    ab.sql("CREATE TABLE chain.t (k BIGINT); INSERT INTO chain.t VALUES (1)")
    steps = [f"c{at} AS (SELECT k + 1 AS k FROM c{at - 1})" for at in range(1, 110)]
    query = f"WITH c0 AS (SELECT k FROM chain.t), {', '.join(steps)} SELECT k FROM c109"
    assert bag(ab.sql(query)) == rows((110,))
    ab._runtime.spark.session.conf.set("spark.sql.analyzer.maxIterations", "20")
    try:
        with pytest.raises(Unsupported, match="nested too deeply") as error:
            ab.sql(query)
    finally:
        ab._runtime.spark.session.conf.unset("spark.sql.analyzer.maxIterations")
    assert "stream table" in (error.value.hint or "")

"""What people do by hand around a deployment is seen by it, and outlives its roll-back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.deploy import promote
from anabranch.deploy.steps import Action
from anabranch.errors import DataError, PlanFailed, Refused, SparkLost, UserError
from anabranch.names import TableName
from anabranch.refresh import staging
from anabranch.refresh.execute import table
from tests import another_program
from tests.standin.engine import connect, installed
from tests.standin.test_deployments import (
    FILES,
    OUTSIDE,
    RENAMED,
    TWICE,
    Shop,
    drop_from_project,
    states,
)

pytestmark = pytest.mark.extended

X = "models/db/x/x.sql"
STREAM_X = "CREATE STREAM TABLE x AS SELECT k FROM raw.s"
TABLE_X = "CREATE TABLE x (k BIGINT)"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with installed(), connect(tmp_path / "home") as ab:
        yield Shop(tmp_path, ab)


def kinds(shop: Shop) -> list[str]:
    return [row["kind"] for row in shop.ab.events()]


def one(shop: Shop, name: str) -> dict[str, Any]:
    return next(row for row in shop.ab.status() if row["name"] == name)


# -- what nobody has deployed ------------------------------------------------------------------------


def test_a_stream_table_made_by_hand_is_read_as_it_is(shop: Shop) -> None:
    shop.ab.create_stream_table("db.x.x", "SELECT k FROM db.raw.s")
    shop.write(X, TABLE_X)
    shop.write("models/db/x/n.sql", "CREATE STREAM TABLE n AS SELECT COUNT(*) AS n FROM x")
    shop.deploy()
    assert shop.rows("db.x.x") == [(1,)] and shop.rows("db.x.n") == [(1,)]
    assert states(shop.ab)["db.x.x"] == "ACTIVE"
    assert shop.plan().empty
    drop_from_project(shop, X)
    drop_from_project(shop, "models/db/x/n.sql")
    shop.deploy()
    assert shop.rows("db.x.x") == [(1,)], "it is not the project's"


@pytest.mark.parametrize("query", ["SELECT v AS k, k AS l FROM db.raw.s", None])
def test_an_empty_source_replaces_nothing_made_by_hand(shop: Shop, query: str | None) -> None:
    if query is not None:
        shop.ab.create_stream_table("db.x.x", query)
    else:
        shop.ab.sql("CREATE VIEW db.x.x AS SELECT k FROM db.raw.s")
    shop.write(X, TABLE_X)
    for verb in (shop.plan, shop.stage):
        with pytest.raises(Refused, match=r"db\.x\.x is a .* that was made by hand") as refused:
            verb()
        kind = "VIEW" if query is None else "STREAM TABLE"
        assert f"DROP {kind} db.x.x" in (refused.value.hint or "")
    shop.ab.sql(f"DROP {kind} db.x.x")
    shop.deploy()
    assert shop.rows("db.x.x") == []


# -- a name is no identity ---------------------------------------------------------------------------


def replace_stream_by_source(shop: Shop) -> None:
    shop.write(X, STREAM_X)
    shop.deploy()
    shop.write(X, TABLE_X)
    shop.deploy()


def test_a_source_in_place_of_a_stream_table_keeps_its_rows(shop: Shop) -> None:
    replace_stream_by_source(shop)
    shop.ab.sql("INSERT INTO db.x.x VALUES (42)")
    with pytest.raises(
        Refused, match=r"db\.x\.x has been a source table since .* and holds rows"
    ) as no:
        shop.ab.rollback()
    assert shop.rows("db.x.x") == [(42,)]
    assert "DROP TABLE db.x.x" in (no.value.hint or "")
    shop.ab.sql("DROP TABLE db.x.x")
    shop.ab.rollback()
    assert shop.ab.verify("db.x.x")["equal"] and shop.rows("db.x.x") == [(1,)]


def test_an_empty_source_in_place_of_a_stream_table_goes(shop: Shop) -> None:
    replace_stream_by_source(shop)
    shop.ab.rollback()
    assert shop.rows("db.x.x") == [(1,)]


def test_a_source_made_again_is_another_one(shop: Shop) -> None:
    replace_stream_by_source(shop)
    shop.ab.sql("DROP TABLE db.x.x")
    shop.ab.sql("CREATE TABLE db.x.x (other STRING)")
    with pytest.raises(Refused, match=r"db\.x\.x was dropped and recreated by hand"):
        shop.ab.rollback()
    assert [each.name for each in shop.ab.table("db.x.x").schema] == ["other"]


def test_a_source_made_again_is_not_dropped_by_a_promote(shop: Shop) -> None:
    shop.write(X, TABLE_X)
    shop.deploy()
    drop_from_project(shop, X)
    made = shop.stage(drop_tables=True)
    shop.ab.sql("DROP TABLE db.x.x")
    shop.ab.sql("CREATE TABLE db.x.x (k BIGINT)")
    shop.ab.sql("INSERT INTO db.x.x VALUES (42)")
    with pytest.raises(Refused, match=r"db\.x\.x was dropped and recreated since"):
        shop.ab.promote(made)
    assert shop.rows("db.x.x") == [(42,)]


def test_a_view_comes_back_in_place_of_a_source(shop: Shop) -> None:
    shop.write(X, "CREATE VIEW x AS SELECT k FROM raw.s")
    shop.deploy()
    shop.write(X, TABLE_X)
    shop.deploy()
    shop.ab.rollback()
    assert sorted(shop.ab.table("db.x.x").collect()) == [(1,)]
    shop.write(X, "CREATE VIEW x AS SELECT k FROM raw.s")
    assert shop.plan().empty


@pytest.mark.parametrize(
    "made", ["CREATE TABLE db.X.X (k BIGINT)", "CREATE VIEW db.x.X AS SELECT 1"]
)
def test_a_name_that_differs_in_case_only_is_taken(shop: Shop, made: str) -> None:
    """Whether it was made before the plan, after staging or since the promote."""
    ab, taken = shop.ab, r"db\.[xX]\.X is there, and db\.x\.x differs from it in case only"
    other = " ".join(made.replace("CREATE", "DROP").split()[:3])
    shop.write(X, STREAM_X)
    ab.sql(made)
    (refused,) = shop.plan().as_dict()["refused"]
    assert "differs from it in case only" in refused["error"]
    with pytest.raises(Refused, match=taken):
        shop.stage()
    ab.sql(other)
    staged = shop.stage()
    ab.sql(made)
    with pytest.raises(Refused, match=taken):
        ab.promote(staged)
    ab.sql(other)
    ab.promote(staged)
    drop_from_project(shop, X)
    shop.deploy()
    ab.sql(made)
    with pytest.raises(Refused, match=taken):
        ab.rollback()
    ab.sql(other)
    ab.rollback()
    assert "db.x.x" in states(ab)


def test_a_name_may_change_in_case(shop: Shop) -> None:
    shop.write(X, STREAM_X)
    shop.deploy()
    drop_from_project(shop, X)
    shop.write("models/db/x/X.sql", STREAM_X.replace("TABLE x", "TABLE X"))
    shop.deploy()
    assert "db.x.X" in states(shop.ab) and "db.x.x" not in states(shop.ab)
    shop.ab.rollback()
    assert "db.x.x" in states(shop.ab) and "db.x.X" not in states(shop.ab)


def test_what_was_dropped_by_hand_comes_back(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    shop.ab.sql("DROP STREAM TABLE db.d.d")
    shop.ab.rollback()
    shop.check(1)


def test_a_column_dropped_by_hand_is_no_empty_plan(shop: Shop) -> None:
    shop.write("models/db/raw/s.sql", "CREATE TABLE s (k BIGINT, v BIGINT, x STRING)")
    shop.deploy()
    shop.ab.sql("ALTER TABLE db.raw.s ADD COLUMN own STRING")
    assert shop.plan().empty, "a column that somebody added is theirs"
    shop.ab.sql("ALTER TABLE db.raw.s DROP COLUMN own")
    shop.ab.sql("ALTER TABLE db.raw.s DROP COLUMN x")
    assert [str(key) for key in shop.plan().keys(Action.ALTER)] == ["db.raw.s"]
    shop.deploy()
    assert [each.name for each in shop.ab.table("db.raw.s").schema] == ["k", "v", "x"]
    assert shop.plan().empty


# -- options, comments and indexes -------------------------------------------------------------------


def test_options_set_by_hand_outlive_a_roll_back(shop: Shop) -> None:
    query = FILES["models/db/b/b.sql"]
    changed = query.replace("b AS", "b SCHEDULE '1h' REFRESH MODE FULL AS")
    shop.write("models/db/b/b.sql", changed)
    shop.deploy()
    shop.ab.alter_stream_table("db.b.b", schedule="5m")
    shop.ab.rollback()
    now = one(shop, "db.b.b")
    assert (now["schedule"], now["refresh_mode"]) == ("5m", "AUTO"), "only what nobody touched"
    assert "OPTIONS_KEPT" in kinds(shop)


def test_options_of_a_table_made_again_are_left_alone(shop: Shop) -> None:
    text = FILES["models/db/d/d.sql"]
    shop.write("models/db/d/d.sql", text.replace("d AS", "d SCHEDULE '1h' AS", 1))
    shop.deploy()
    query = one(shop, "db.d.d")["query"]
    shop.ab.drop_stream_table("db.d.d")
    shop.ab.create_stream_table("db.d.d", query, schedule="1h")
    shop.ab.rollback()
    assert one(shop, "db.d.d")["schedule"] == "1h"


def test_options_set_by_hand_outlive_the_query(shop: Shop) -> None:
    shop.edit(TWICE)
    shop.deploy()
    shop.ab.alter_stream_table("db.b.b", schedule="5m")
    shop.ab.rollback()
    assert one(shop, "db.b.b")["schedule"] == "5m"
    shop.check(1)


def test_comments_made_by_hand_outlive_a_roll_back(shop: Shop) -> None:
    text = FILES["models/db/b/b.sql"]
    said = "COMMENT ON STREAM TABLE b IS 'sums'; COMMENT ON COLUMN b.k IS 'key'"
    shop.write("models/db/b/b.sql", f"{text};\n{said}")
    shop.deploy()
    shop.ab.sql("COMMENT ON STREAM TABLE db.b.b IS 'by hand'")
    shop.ab.rollback()
    version = shop.ab._runtime.world().version(TableName.parse("db.b.b"))
    assert version.comments == {"": "by hand"}


# -- suspended and in error --------------------------------------------------------------------------


def test_a_promote_keeps_what_somebody_suspended(shop: Shop) -> None:
    shop.ab.suspend("db.b.b")
    shop.edit(TWICE)
    shop.deploy()
    assert states(shop.ab)["db.b.b"] == "SUSPENDED"
    shop.check(2)
    shop.ab.resume("db.b.b")
    shop.ab.refresh()
    shop.check(2)


def test_a_reader_suspended_by_hand_stays_so(shop: Shop) -> None:
    """The deployment suspended it, somebody mended and suspended it again: that is theirs."""
    ab = shop.ab
    ab.create_stream_table("mine.own", OUTSIDE)
    shop.edit(RENAMED)
    ab.promote(shop.stage(suspend_readers=True))
    ab.suspend("mine.own")
    ab.rollback()
    assert states(ab)["mine.own"] == "SUSPENDED"


TEXTS = {
    "models/db/raw/s.sql": "CREATE TABLE s (k BIGINT, v BIGINT, t STRING)",
    "models/db/c/c.sql": (
        "CREATE STREAM TABLE c AS SELECT k, SUM(CAST(t AS BIGINT)) AS v FROM raw.s GROUP BY k"
    ),
}


@pytest.fixture
def fallen(shop: Shop) -> Shop:
    """b was deployed anew; c, which stayed, is in error since a row that it cannot read."""
    ab = shop.ab
    for name, text in TEXTS.items():
        shop.write(name, text)
    shop.deploy()
    ab.sql("DELETE FROM db.raw.s")
    ab.sql("INSERT INTO db.raw.s VALUES (1, 5, '5')")
    ab.refresh()
    shop.edit(TWICE)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 2, '2')")
    ab.refresh()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1, 'one')")
    with pytest.raises(DataError):
        ab.refresh()
    assert states(ab)["db.c.c"] == "ERROR"
    return shop


def mend(shop: Shop) -> None:
    shop.ab.sql("UPDATE db.raw.s SET t = '1' WHERE t = 'one'")


def test_a_roll_back_says_who_cannot_follow_and_what_helps(fallen: Shop) -> None:
    ab = fallen.ab
    with pytest.raises(Refused, match=r"refresh db\.c\.c in one publish with db\.b\.b") as refused:
        ab.rollback()
    assert "one" in refused.value.message
    hint = refused.value.hint or ""
    (alone,) = [part for part in hint.split("; ") if "diamond_consistency" in part]
    ab.sql(alone.removeprefix("or ").partition(" ends the group")[0])
    ab.rollback()
    assert states(ab)["db.c.c"] == "ERROR"
    assert fallen.rows("db.b.b") == [(1, 5)]
    mend(fallen)
    ab.refresh()
    for name in ("db.b.b", "db.c.c", "db.d.d"):
        assert ab.verify(name)["equal"]


def test_a_roll_back_passes_once_the_rows_are_mended(fallen: Shop) -> None:
    mend(fallen)
    fallen.ab.rollback()
    fallen.check(1)
    assert {*states(fallen.ab).values()} == {"ACTIVE"}


@pytest.fixture
def reader_fell(shop: Shop) -> Shop:
    """b was deployed anew; a reader outside the project, in a group with it, is in error."""
    ab = shop.ab
    shop.write("models/db/raw/s.sql", TEXTS["models/db/raw/s.sql"])
    shop.deploy()
    ab.sql("UPDATE db.raw.s SET t = '5'")
    ab.refresh()
    query = (
        "SELECT b.k, b.v, SUM(CAST(s.t AS BIGINT)) AS n FROM db.b.b AS b "
        "JOIN db.raw.s AS s ON s.k = b.k GROUP BY b.k, b.v"
    )
    ab.create_stream_table("mine.own", query)
    shop.edit(TWICE)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1, 'one')")
    with pytest.raises(DataError):
        ab.refresh()
    assert states(ab)["mine.own"] == "ERROR"
    return shop


def test_a_roll_back_says_how_a_reader_in_error_is_mended(reader_fell: Shop) -> None:
    ab = reader_fell.ab
    with pytest.raises(Refused, match=r"mine\.own is outside .*cannot follow") as refused:
        ab.rollback()
    assert "fix the rows that it reads" in (refused.value.hint or "")
    assert "'one'" in refused.value.message
    assert ab.rollback(suspend_readers=True)["suspended"] == ["mine.own"]


def test_a_roll_back_tries_a_reader_in_error(reader_fell: Shop) -> None:
    """Its rows were mended, and nobody has refreshed it yet."""
    mend(reader_fell)
    reader_fell.ab.rollback()
    reader_fell.check(1, "mine.own")
    assert {*states(reader_fell.ab).values()} == {"ACTIVE"}


def test_a_roll_back_says_what_helps_where_our_plan_fails(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab = shop.ab
    ab.alter_stream_table("db.c.c", refresh_mode="DIFFERENTIAL")
    shop.edit(TWICE)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    ab.refresh()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 2)")
    real = table.incremental_job

    def incremental_job(runtime: Any, tx: Any, stream: Any, *rest: Any) -> Any:
        if str(stream.name) == "db.c.c":
            raise KeyError("_ab_v4")
        return real(runtime, tx, stream, *rest)

    monkeypatch.setattr(table, "incremental_job", incremental_job)
    with pytest.raises(PlanFailed):
        ab.refresh()
    assert states(ab)["db.c.c"] == "ERROR"
    with pytest.raises(Refused, match=r"refresh db\.c\.c in one publish with db\.b\.b") as refused:
        ab.rollback()
    hint = refused.value.hint or ""
    assert hint.startswith("REFRESH STREAM TABLE db.c.c FULL, or ")
    ab.sql("REFRESH STREAM TABLE db.c.c FULL")
    ab.rollback()
    shop.check(1)


def test_a_promote_says_who_cannot_follow(shop: Shop) -> None:
    """A table that only a declared group ties to the one that moves."""
    ab = shop.ab
    shop.write("models/db/raw/s.sql", TEXTS["models/db/raw/s.sql"])
    query = "SELECT SUM(CAST(t AS BIGINT)) AS n FROM raw.s"
    shop.write("models/db/e/e.sql", f"CREATE STREAM TABLE e AS {query}")
    shop.deploy()
    ab.create_refresh_group("pair", ["db.e.e", "db.b.b"])
    shop.edit(TWICE)
    made = shop.stage()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1, 'one')")
    with pytest.raises(DataError, match=r"db\.e\.e") as failed:
        ab.promote(made)
    assert f"promote {made} --no-refresh" in (failed.value.hint or "")
    ab.promote(made, refresh=False)
    shop.check(2, "db.e.e")
    mend(shop)
    ab.refresh()
    shop.check(2, "db.e.e")


PICKY = (
    "CREATE STREAM TABLE b AS SELECT k, SUM(CAST(CAST(v AS STRING) ||"
    " CASE WHEN v = 0 THEN 'x' ELSE '' END AS BIGINT)) AS v FROM raw.s GROUP BY k"
)


def stage_picky(shop: Shop, *, production_moves: bool) -> str:
    """A query is staged that cannot take a row which comes later."""
    shop.edit(PICKY)
    made = shop.stage()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 0)")
    if production_moves:
        shop.ab.refresh("db.c.c")
    return made


def hint_of(shop: Shop, made: str, **options: Any) -> str:
    with pytest.raises((DataError, Refused)) as failed:
        shop.ab.promote(made, **options)
    return failed.value.hint or ""


@pytest.mark.parametrize("options", [{}, {"refresh": False}], ids=["refresh", "as it is"])
@pytest.mark.parametrize("cure", ["mend", "abort"])
def test_what_a_promote_says_of_a_staged_query_helps(
    shop: Shop, options: dict[str, Any], cure: str
) -> None:
    made = stage_picky(shop, production_moves=True)
    hint = hint_of(shop, made, **options)
    assert "ALTER STREAM TABLE db.b" not in hint
    assert f"fix the rows that db.b.b reads, then `anabranch promote {made}`" in hint
    assert f"`anabranch abort {made}`, change db.b.b in the project and `anabranch stage`" in hint
    if cure == "mend":
        shop.ab.sql("DELETE FROM db.raw.s WHERE v = 0")
        shop.ab.promote(made)
        shop.check(1)
    else:
        shop.ab.abort(made)
        shop.edit(TWICE)
        shop.deploy()
        shop.check(2)


def test_a_promote_offers_what_was_staged_only_if_that_fits(shop: Shop) -> None:
    made = stage_picky(shop, production_moves=True)
    assert "--no-refresh" not in hint_of(shop, made)
    (alone,) = [
        part for part in hint_of(shop, made, refresh=False).split("; or ") if "none" in part
    ]
    statement, _, then = alone.partition(" ends the group, then ")
    assert then == f"`anabranch promote {made} --no-refresh`"
    shop.ab.sql(statement)
    shop.ab.promote(made, refresh=False)
    for name in ("db.b.b", "db.c.c", "db.d.d"):
        assert shop.ab.verify(name)["equal"]


def test_what_was_staged_is_offered_while_production_stands(shop: Shop) -> None:
    made = stage_picky(shop, production_moves=False)
    assert f"`anabranch promote {made} --no-refresh` promotes what was staged" in hint_of(
        shop, made
    )
    shop.ab.promote(made, refresh=False)
    shop.check(1)


def test_a_staged_table_that_is_late_is_refused_at_once(shop: Shop) -> None:
    """Nothing brings it up to date without a refresh: trying again would not help."""
    shop.edit(TWICE)
    made = shop.stage()
    shop.ab.sql("INSERT INTO db.raw.s VALUES (1, 7)")
    shop.ab.refresh("db.c.c")
    with pytest.raises(Refused, match=r"has not seen the newest db\.c\.c") as refused:
        shop.ab.promote(made, refresh=False)
    assert f"`anabranch promote {made}`" in (refused.value.hint or "")
    shop.ab.promote(made)
    shop.check(2)


def test_only_tables_that_can_leave_their_group_are_asked_to(shop: Shop) -> None:
    """A declared group holds its members whatever they say of diamonds."""
    shop.ab.create_refresh_group("all", ["db.b.b", "db.c.c", "db.d.d"])
    made = stage_picky(shop, production_moves=True)
    assert "diamond_consistency" not in hint_of(shop, made, refresh=False)


def test_a_suspended_member_that_must_move_is_named(shop: Shop) -> None:
    ab = shop.ab
    shop.edit(TWICE)
    shop.deploy()
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    ab.refresh()
    ab.suspend("db.c.c")
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")
    with pytest.raises(Refused, match=r"db\.c\.c .*it is suspended") as refused:
        ab.rollback()
    assert "ALTER STREAM TABLE db.c.c RESUME" in (refused.value.hint or "")
    ab.resume("db.c.c")
    ab.rollback()
    shop.check(1)


def test_a_lost_spark_is_not_the_readers_fault(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ab, real = shop.ab, staging.refresh_component
    ab.create_stream_table("mine.own", OUTSIDE)
    shop.edit(TWICE)
    made = shop.stage()

    def lost(runtime: Any, tx: Any, seen: Any, part: Any, *rest: Any, **how: Any) -> Any:
        if str(part.members[0]) == "mine.own":
            raise SparkLost("the Spark session ended")
        return real(runtime, tx, seen, part, *rest, **how)

    monkeypatch.setattr(staging, "refresh_component", lost)
    with pytest.raises(SparkLost):
        ab.promote(made, suspend_readers=True)
    assert states(ab)["mine.own"] == "ACTIVE"


# -- readers of sources, views, and what a plan says of them -----------------------------------------

NOTED = "CREATE TABLE s (k BIGINT, v BIGINT, note STRING)"
AMBIGUOUS = "SELECT note FROM db.raw.s AS s JOIN mine.notes AS n ON s.k = n.id"


def outcomes(shop: Shop) -> dict[str, str]:
    return {row["reader"]: row["outcome"] for row in shop.plan().as_dict()["readers"]}


def test_readers_of_an_altered_source_are_listed(shop: Shop) -> None:
    ab = shop.ab
    ab.sql("CREATE TABLE mine.notes (id BIGINT, note STRING)")
    ab.create_stream_table("mine.plain", "SELECT k FROM db.raw.s")
    ab.create_stream_table("mine.over", "SELECT COUNT(*) AS n FROM mine.plain")
    ab.create_stream_table("mine.noted", AMBIGUOUS)
    ab.sql("CREATE VIEW mine.seen AS SELECT k FROM db.raw.s")
    shop.write("models/db/raw/s.sql", NOTED)
    assert outcomes(shop) == {
        "mine.plain": "follows",
        "mine.over": "follows",
        "mine.noted": "fails",
        "mine.seen": "follows",
    }
    with pytest.raises(Refused, match=r"mine\.noted is outside the project"):
        shop.stage()
    made = shop.stage(suspend_readers=True)
    assert ab.promote(made)["suspended"] == ["mine.noted"]
    ab.refresh()
    assert ab.verify("mine.plain")["equal"] and ab.verify("mine.over")["equal"]


def test_a_reader_of_an_altered_source_made_after_staging_is_seen(shop: Shop) -> None:
    ab = shop.ab
    ab.sql("CREATE TABLE mine.notes (id BIGINT, note STRING)")
    shop.write("models/db/raw/s.sql", NOTED)
    made = shop.stage()
    ab.create_stream_table("mine.noted", AMBIGUOUS)
    with pytest.raises(Refused, match=r"mine\.noted is outside the project"):
        ab.promote(made)
    assert ab.promote(made, suspend_readers=True)["suspended"] == ["mine.noted"]


def test_a_plan_follows_columns_through_readers(shop: Shop) -> None:
    """mine.all gets the new columns, and so its own reader fails."""
    ab = shop.ab
    ab.create_stream_table("mine.all", "SELECT * FROM db.b.b")
    ab.create_stream_table("mine.top", "SELECT v FROM mine.all")
    ab.create_stream_table("mine.far", "SELECT COUNT(*) AS n FROM mine.top")
    shop.edit(RENAMED)
    assert outcomes(shop) == {"mine.all": "rebuilt", "mine.top": "fails", "mine.far": "waits"}
    made = shop.stage(suspend_readers=True)
    assert ab.promote(made)["suspended"] == ["mine.top"]
    assert shop.rows("mine.all") == [(1, 5)]


def test_a_view_that_would_break_is_refused(shop: Shop) -> None:
    ab = shop.ab
    ab.sql("CREATE VIEW mine.seen AS SELECT v FROM db.b.b")
    ab.sql("CREATE VIEW mine.through AS SELECT v FROM mine.seen")
    ab.sql("CREATE VIEW mine.rest AS SELECT * FROM db.b.b")
    shop.edit(RENAMED)
    assert outcomes(shop) == {
        "mine.seen": "fails",
        "mine.through": "fails",
        "mine.rest": "follows",
    }
    with pytest.raises(Refused, match=r"mine\.seen is outside the project") as refused:
        shop.stage()
    assert "let it break with --suspend-readers" in (refused.value.hint or "")
    made = shop.stage(suspend_readers=True)
    assert ab.promote(made)["broken_views"] == ["mine.seen", "mine.through"]
    assert [r["table"] for r in ab.events() if r["kind"] == "VIEW_BROKEN"] == [
        "mine.through",
        "mine.seen",
    ]
    shop.edit(TWICE)
    shop.write("models/db/d/d.sql", FILES["models/db/d/d.sql"])
    shop.deploy()  # and they work again
    assert sorted(ab.table("mine.through").collect()) == [(10,)]


def test_a_view_made_after_staging_is_seen_by_promote(shop: Shop) -> None:
    shop.edit(RENAMED)
    made = shop.stage()
    shop.ab.sql("CREATE VIEW mine.seen AS SELECT v FROM db.b.b")
    with pytest.raises(Refused, match=r"mine\.seen is outside the project"):
        shop.ab.promote(made)
    assert shop.rows("db.b.b") == [(1, 5)]
    shop.ab.promote(made, suspend_readers=True)


def test_a_roll_back_that_breaks_a_view_is_refused(shop: Shop) -> None:
    shop.edit(RENAMED)
    shop.deploy()
    shop.ab.sql("CREATE VIEW mine.seen AS SELECT w FROM db.b.b")
    with pytest.raises(Refused, match=r"mine\.seen is outside the project"):
        shop.ab.rollback()
    assert shop.ab.rollback(suspend_readers=True)["broken_views"] == ["mine.seen"]
    shop.check(1)


def test_a_view_that_is_broken_anyway_is_in_nobodys_way(shop: Shop) -> None:
    ab = shop.ab
    ab.sql("CREATE TABLE mine.t (id BIGINT)")
    ab.sql("CREATE VIEW mine.seen AS SELECT b.v FROM db.b.b AS b JOIN mine.t AS t ON b.k = t.id")
    another_program.drop(ab, "mine.t")
    shop.edit(RENAMED)
    assert outcomes(shop) == {"mine.seen": "broken"}
    shop.deploy()


def test_a_plan_says_what_stage_will_refuse(shop: Shop) -> None:
    ab = shop.ab
    shop.write(X, TABLE_X)
    shop.deploy()
    ab.create_stream_table("mine.own", OUTSIDE)
    drop_from_project(shop, X)
    shop.edit(RENAMED)
    shop.write("models/db/raw/s.sql", "CREATE TABLE s (k BIGINT, v INT)")
    plan = shop.plan()
    found = plan.as_dict()["refused"]
    assert [row["unless"] for row in found] == ["suspend_readers", "drop_tables", None]
    assert "mine.own" in found[0]["error"] and "db.x.x" in found[1]["error"]
    assert "stage will refuse this" in str(plan) and "db.x.x is a source table" in str(plan)
    agreed = {"suspend_readers": True, "drop_tables": True}
    with pytest.raises(Refused, match=r"mine\.own"):
        shop.stage()
    with pytest.raises(Refused, match=r"db\.x\.x is a source table"):
        shop.stage(suspend_readers=True)
    with pytest.raises(Exception, match="v") as refused:
        shop.stage(**agreed)
    assert str(refused.value).startswith(found[2]["error"])
    shop.write("models/db/raw/s.sql", FILES["models/db/raw/s.sql"])
    shop.stage(**agreed)


def test_a_suspension_during_a_refresh_that_fails_is_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab, real = shop.ab, staging.refresh_component
    ab.sql("INSERT INTO db.raw.s VALUES (1, 1)")

    def failing(runtime: Any, tx: Any, seen: Any, part: Any, *rest: Any, **how: Any) -> Any:
        if str(part.members[0]) == "db.c.c":
            ab.suspend("db.c.c")
            raise DataError("a row that does not fit")
        return real(runtime, tx, seen, part, *rest, **how)

    monkeypatch.setattr(staging, "refresh_component", failing)
    with pytest.raises(DataError):
        ab.refresh()
    assert states(ab)["db.c.c"] == "SUSPENDED"
    assert ab.history("db.c.c")[0]["error"] is not None


# -- what a plan takes back --------------------------------------------------------------------------


def indexes_of(shop: Shop) -> set[str]:
    return {row["index"] for row in shop.ab.indexes() if row["table"] == "db.b.b"}


def test_a_plan_says_what_becomes_of_what_was_set_by_hand(shop: Shop) -> None:
    ab = shop.ab
    ab.alter_stream_table("db.b.b", schedule="7s")
    ab.sql("CREATE INDEX q ON db.b.b (k)")
    assert shop.plan().empty
    shop.edit(TWICE)
    text = str(shop.plan())
    assert "set by hand" in text
    assert "schedule 7s becomes calculated, as the project says" in text
    assert "index q (k) stays as long as the table has its columns" in text
    assert {row["object"] for row in shop.plan().as_dict()["by_hand"]} == {"db.b.b"}
    shop.deploy()
    shop.check(2)
    assert one(shop, "db.b.b")["schedule"] == "calculated"
    assert indexes_of(shop) == {"q"}
    assert shop.rows("db.b.b__q") == shop.rows("db.b.b"), "the index was not built again"
    assert shop.plan().empty
    shop.ab.rollback()
    assert indexes_of(shop) == {"q"}
    assert shop.rows("db.b.b__q") == shop.rows("db.b.b")


def test_an_index_made_by_hand_goes_with_its_column(shop: Shop) -> None:
    shop.ab.sql("CREATE INDEX q ON db.b.b (v)")
    shop.ab.sql("CREATE INDEX p ON db.b.b (k)")
    shop.edit(RENAMED)
    shop.deploy()
    assert indexes_of(shop) == {"p"}


def test_an_index_made_by_hand_is_built_again_with_readers_that_move_along(shop: Shop) -> None:
    """A first publish, which shows who moves along, has built it already."""
    ab = shop.ab
    ab.sql("CREATE INDEX q ON db.b.b (k)")
    ab.create_stream_table("mine.own", OUTSIDE)
    ab.sql("CREATE INDEX p ON mine.own (k)")
    shop.edit(TWICE)
    shop.deploy()
    assert shop.rows("mine.own") == [(1, 10, 5)] == shop.rows("mine.own__p")
    assert indexes_of(shop) == {"q"}
    assert shop.rows("db.b.b__q") == shop.rows("db.b.b") == [(1, 10)]
    shop.check(2, "mine.own")


def test_an_index_made_in_the_last_moment_is_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look of a promote and its lease: the publish compares, and looks again."""
    real = promote.bring_up_to_date

    def meddle(*given: Any) -> Any:
        found = real(*given)
        monkeypatch.setattr(promote, "bring_up_to_date", real)
        shop.ab.sql("CREATE INDEX q ON db.b.b (k)")
        return found

    monkeypatch.setattr(promote, "bring_up_to_date", meddle)
    shop.edit(TWICE)
    shop.deploy()
    assert indexes_of(shop) == {"q"}
    assert shop.rows("db.b.b__q") == shop.rows("db.b.b") == [(1, 10)]


def test_an_index_made_by_hand_stays_on_a_table_that_stays(shop: Shop) -> None:
    shop.ab.sql("CREATE INDEX q ON db.b.b (k)")
    note = ";\nCOMMENT ON STREAM TABLE b IS 'sums';\nCREATE INDEX own ON b (v)"
    shop.write("models/db/b/b.sql", FILES["models/db/b/b.sql"] + note)
    shop.deploy()
    assert indexes_of(shop) == {"own", "q"}
    shop.write("models/db/b/b.sql", FILES["models/db/b/b.sql"])
    assert "index own" not in str(shop.plan()).partition("set by hand")[2]
    shop.deploy()
    assert indexes_of(shop) == {"q"}


# -- options ---------------------------------------------------------------------------------------


OPTIONS = [
    ("diamond_schedule_policy", "default", True),
    ("diamond_schedule_policy", "Slowest", True),
    ("diamond_schedule_policy", "soon", False),
    ("diamond_consistency", "ATOMIC", True),
    ("diamond_consistency", "often", False),
    ("initialize", "no", True),
    ("initialize", "perhaps", False),
    ("max_fixpoint_rows", "7", True),
    ("max_fixpoint_rows", "many", False),
    ("schedule", "1s", False),
    ("refresh_mode", "FULL", False),
    ("colour", "red", False),
]


def test_options_mean_the_same_in_statements_and_files(shop: Shop) -> None:
    for number, (option, value, right) in enumerate(OPTIONS):
        head = f"CREATE STREAM TABLE {{name}} WITH ({option} = '{value}') AS SELECT k FROM "
        shop.write(X, head.format(name="x") + "raw.s")
        statement = head.format(name=f"mine.x{number}") + "db.raw.s"
        for act in (shop.plan, lambda text=statement: shop.ab.sql(text)):
            if right:
                act()
            else:
                with pytest.raises(UserError):
                    act()
    shop.write(
        X, f"CREATE STREAM TABLE x WITH ({OPTIONS[0][0]} = 'default') AS SELECT k FROM raw.s"
    )
    shop.deploy()
    assert shop.plan().empty


def test_readers_of_staged_tables_are_not_broken_by_a_promote(shop: Shop) -> None:
    shop.edit(TWICE)
    staged = shop.stage()
    name = next(row["table"] for row in shop.ab.tables() if row["table"].endswith(f"__{staged}.b"))
    shop.ab.create_stream_table("mine.peek", f"SELECT * FROM {name}", schedule="1s")
    for verb in (shop.ab.promote, shop.ab.abort):
        with pytest.raises(Refused, match=r"mine\.peek reads .*, which would be dropped") as no:
            verb(staged)
        assert no.value.hint == "DROP STREAM TABLE mine.peek"
    shop.ab.sql("DROP STREAM TABLE mine.peek")
    shop.ab.promote(staged)
    shop.check(2)


def test_a_roll_back_says_who_reads_what_it_drops(shop: Shop) -> None:
    shop.ab.create_stream_table("mine.own", OUTSIDE)
    with pytest.raises(Refused, match=r"mine\.own reads .* made and its roll-back drops") as no:
        shop.ab.rollback()
    assert "or let it be suspended with --suspend-readers" in (no.value.hint or "")
    shop.ab.create_stream_table("mine.top", "SELECT COUNT(*) AS n FROM mine.own")
    done = shop.ab.rollback(suspend_readers=True)
    assert "mine.own" in done["suspended"] and one(shop, "mine.own")["status"] == "SUSPENDED"
    shop.ab.refresh()


def test_a_promote_suspends_readers_of_what_it_drops(shop: Shop) -> None:
    shop.write(X, STREAM_X)
    shop.deploy()
    shop.ab.create_stream_table("mine.own", "SELECT k FROM db.x.x")
    (shop.folder / "shop" / X).unlink()
    with pytest.raises(Refused, match=r"mine\.own .* cannot follow"):
        shop.stage()
    assert shop.ab.promote(shop.stage(suspend_readers=True))["suspended"] == ["mine.own"]
    assert one(shop, "mine.own")["status"] == "SUSPENDED"
    shop.ab.refresh()
    shop.check(1)
    shop.ab.rollback()
    shop.ab.refresh()
    assert one(shop, "mine.own")["status"] == "ACTIVE" and shop.ab.verify("mine.own")["equal"]

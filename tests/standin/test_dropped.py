"""Tables, views and columns that somebody reads: kept, or dropped with all their readers in one cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, Refused, SchemaError, UnknownName
from tests.standin.engine import connect, installed

EXTENDED = pytest.mark.extended  # one more of a kind


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT, note STRING)")
        opened.sql("CREATE TABLE s.u (k BIGINT, v BIGINT); INSERT INTO s.u VALUES (1, 5)")
        opened.sql("INSERT INTO s.t VALUES (1, 10, 'a'), (2, 20, 'b')")
        opened.sql("CREATE VIEW s.w AS SELECT k, v, note FROM s.t")
        opened.sql("CREATE VIEW s.over AS SELECT k, note FROM s.w")
        opened.create_stream_table("s.sums", "SELECT k, SUM(v) AS v FROM s.w GROUP BY k")
        opened.create_stream_table("s.below", "SELECT k FROM s.sums")
        opened.sql("CREATE VIEW s.last AS SELECT k, v FROM s.sums")
        yield opened


def names(ab: Anabranch) -> set[str]:
    return {row["table"] for row in ab.tables()}


def views(ab: Anabranch) -> set[str]:
    return set(map(str, ab._world().views))


def nothing_happened(ab: Anabranch, statement: str) -> AnabranchError:
    """Whatever a statement that is refused leaves: tables, views and cuts as they were."""
    before = names(ab), dict(ab._world().views), len(ab.cuts())
    with pytest.raises(AnabranchError) as caught:
        ab.sql(statement)
    assert (names(ab), dict(ab._world().views), len(ab.cuts())) == before
    assert {row["status"] for row in ab.status()} == {"ACTIVE"}
    assert all(row["action"] != "FAILED" for row in ab.refresh())
    for name in (*names(ab), *views(ab)):
        ab.table(name).collect()
    assert caught.value.hint
    return caught.value


# -- DROP ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("restrict", ["", pytest.param(" RESTRICT", marks=EXTENDED)])
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE s.t", "s.t is read by s.below, s.sums, view s.last, view s.over, view s.w"),
        ("DROP VIEW s.w", "s.w is read by s.below, s.sums, view s.last, view s.over"),
        ("DROP STREAM TABLE s.sums", "s.sums is read by s.below, view s.last"),
    ],
)
def test_what_is_read_is_not_dropped(
    ab: Anabranch, statement: str, says: str, restrict: str
) -> None:
    error = nothing_happened(ab, statement + restrict)
    assert type(error) is Refused and error.message == says
    assert "CASCADE" in str(error.hint)


def test_a_view_alone_keeps_what_it_reads(ab: Anabranch) -> None:
    """A reader that is no stream table counts as much as one."""
    ab.sql(
        "CREATE VIEW s.alone AS SELECT v FROM s.u; CREATE VIEW s.higher AS SELECT v FROM s.alone"
    )
    for statement in ("DROP TABLE s.u", "DROP VIEW s.alone", "DROP TABLE IF EXISTS s.u"):
        assert "view s.higher" in nothing_happened(ab, statement).message


@pytest.mark.parametrize(
    ("statement", "dropped", "left"),
    [
        (
            "DROP TABLE s.t CASCADE",
            "stream table s.below, stream table s.sums, view s.last, view s.over, view s.w",
            {"s.u"},
        ),
        (
            "DROP VIEW IF EXISTS s.w CASCADE",
            "stream table s.below, stream table s.sums, view s.last, view s.over",
            {"s.t", "s.u"},
        ),
        (
            "DROP STREAM TABLE s.sums CASCADE",
            "stream table s.below, view s.last",
            {"s.t", "s.u", "s.w", "s.over"},
        ),
        ("DROP VIEW s.last CASCADE", None, {"s.t", "s.u", "s.w", "s.over", "s.sums", "s.below"}),
    ],
)
def test_cascade_drops_readers_too_in_one_cut(
    ab: Anabranch, statement: str, dropped: str | None, left: set[str]
) -> None:
    cut = ab.cuts()[0]["cut_id"]
    done = ab.sql(statement)
    assert done.get("dropped") == dropped
    assert names(ab) | views(ab) == left
    assert len([row for row in ab.cuts() if row["cut_id"] > cut]) == (dropped is not None)
    for name in left:
        ab.table(name).collect()
    ab.refresh()


def test_cascade_stands_alone(ab: Anabranch) -> None:
    for statement in ("DROP TABLE s.t CASCADE", "DROP VIEW s.w CASCADE"):
        with pytest.raises(Refused, match="transaction"), ab.transaction():
            ab.sql(statement)
    with ab.transaction():
        ab.sql("DROP VIEW s.last; DROP VIEW s.over")
    assert views(ab) == {"s.w"}


def test_dropping_what_is_not_there(ab: Anabranch) -> None:
    assert "dropped" not in ab.sql("DROP TABLE IF EXISTS s.none CASCADE")
    assert "dropped" not in ab.sql("DROP VIEW IF EXISTS s.none CASCADE")
    with pytest.raises(UnknownName):
        ab.sql("DROP VIEW s.none CASCADE")
    with pytest.raises(Refused, match="is a view"):
        ab.sql("DROP TABLE s.w CASCADE")
    with pytest.raises(Refused, match="is a stream table"):
        ab.sql("DROP TABLE s.sums CASCADE")


# -- CREATE OR REPLACE VIEW ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT k, note FROM s.t", "s.w would lose v, and is read by stream table s.sums"),
        ("SELECT k, v FROM s.t", "s.w would lose note, and is read by view s.over"),
        (
            "SELECT k FROM s.t",
            "would lose v, note, and is read by stream table s.sums, view s.over",
        ),
        ("SELECT k, 'x' AS v, note FROM s.t", "s.w is read by stream table s.sums"),
    ],
    ids=["v", "note", "both", "type"],
)
def test_a_view_keeps_what_its_readers_use(ab: Anabranch, query: str, says: str) -> None:
    error = nothing_happened(ab, f"CREATE OR REPLACE VIEW s.w AS {query}")
    assert type(error) is Refused and says in error.message


def test_a_view_may_change_in_ways_that_its_readers_can_follow(ab: Anabranch) -> None:
    ab.sql("CREATE OR REPLACE VIEW s.w AS SELECT k, v + 1 AS v, note, 1 AS more FROM s.t")
    ab.refresh()
    assert sorted(ab.table("s.sums").collect()) == [(1, 11), (2, 21)]
    ab.sql("DROP VIEW s.over")
    ab.sql("CREATE OR REPLACE VIEW s.w AS SELECT k, v FROM s.t")
    ab.refresh()
    assert sorted(ab.table("s.sums").collect()) == [(1, 10), (2, 20)]


def test_stars_read_every_column_of_a_view(ab: Anabranch) -> None:
    ab.sql("DROP VIEW s.over")
    ab.create_stream_table("s.all", "SELECT * FROM s.w")
    error = nothing_happened(ab, "CREATE OR REPLACE VIEW s.w AS SELECT k, v FROM s.t")
    assert "stream table s.all" in error.message


def test_a_name_that_would_mean_another_table(ab: Anabranch) -> None:
    """Without s.w.v the subquery would still run, upon the outer s.u.v."""
    ab.sql("DROP STREAM TABLE s.sums CASCADE; DROP VIEW s.over")
    ab.create_stream_table(
        "s.tricky", "SELECT k FROM s.u WHERE EXISTS (SELECT 1 FROM s.w WHERE w.k = u.k AND v > 7)"
    )
    error = nothing_happened(ab, "CREATE OR REPLACE VIEW s.w AS SELECT k, note FROM s.t")
    assert "stream table s.tricky" in error.message


def test_a_strict_table_does_not_get_a_query_that_cannot_be_kept(ab: Anabranch) -> None:
    ab.create_stream_table("s.strict", "SELECT k FROM s.w", refresh_mode="DIFFERENTIAL")
    error = nothing_happened(
        ab, "CREATE OR REPLACE VIEW s.w AS SELECT k, v, note FROM s.t WHERE uuid() IS NOT NULL"
    )
    assert "read by stream table s.strict" in error.message and "s.sums" not in error.message


# -- CREATE OR REPLACE TABLE, ALTER COLUMN TYPE -------------------------------------------------


def test_a_table_made_again_keeps_what_views_use(ab: Anabranch) -> None:
    ab.sql("CREATE VIEW s.alone AS SELECT v FROM s.u")
    for statement in (
        "CREATE OR REPLACE TABLE s.u (k BIGINT)",
        "CREATE OR REPLACE TABLE s.u AS SELECT k FROM s.t",
    ):
        error = nothing_happened(ab, statement)
        assert "s.u would lose v, and is read by view s.alone" in error.message
    ab.sql("CREATE OR REPLACE TABLE s.u (v STRING, z BIGINT)")
    assert ab.table("s.alone").collect() == []


@pytest.mark.parametrize(
    "type_",
    ["INT", *(pytest.param(each, marks=EXTENDED) for each in ("STRING", "DOUBLE", "DECIMAL(9,2)"))],
)
def test_a_column_only_becomes_wider(ab: Anabranch, type_: str) -> None:
    nothing_happened(ab, f"ALTER TABLE s.t ALTER COLUMN v TYPE {type_}")


def test_readers_follow_a_wider_column(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.n (k INT); INSERT INTO s.n VALUES (1)")
    ab.create_stream_table("s.of_n", "SELECT k FROM s.n")
    ab.create_stream_table("s.of_of_n", "SELECT k FROM s.of_n")
    ab.sql("ALTER TABLE s.n ALTER COLUMN k TYPE BIGINT; INSERT INTO s.n VALUES (3000000000)")
    ab.refresh()
    assert sorted(ab.table("s.of_of_n").collect()) == [(1,), (3000000000,)]


# -- ALTER STREAM TABLE … AS, CREATE OR REPLACE STREAM TABLE ------------------------------------

ANOTHER = ["ALTER STREAM TABLE s.sums AS {}", "CREATE OR REPLACE STREAM TABLE s.sums AS {}"]
BOTH = pytest.mark.parametrize("verb", ANOTHER, ids=["alter", "replace"])
BY_VERB = pytest.mark.parametrize(
    "verb", [ANOTHER[0], pytest.param(ANOTHER[1], marks=EXTENDED)], ids=["alter", "replace"]
)


@BOTH
def test_another_query_is_refused_if_a_stream_table_could_not_follow(
    ab: Anabranch, verb: str
) -> None:
    error = nothing_happened(ab, verb.format("SELECT v AS total FROM s.w"))
    assert type(error) is SchemaError and "s.below" in error.message


@BY_VERB
def test_another_query_is_refused_if_a_view_could_not_follow(ab: Anabranch, verb: str) -> None:
    error = nothing_happened(ab, verb.format("SELECT k, COUNT(*) AS n FROM s.w GROUP BY k"))
    assert "s.sums would lose v, and is read by view s.last" in error.message


@BY_VERB
def test_views_below_readers_count_too(ab: Anabranch, verb: str) -> None:
    ab.sql("DROP VIEW s.last")
    ab.create_stream_table("s.star", "SELECT * FROM s.sums")
    ab.sql("CREATE VIEW s.far AS SELECT v FROM s.star")
    error = nothing_happened(ab, verb.format("SELECT k, COUNT(*) AS n FROM s.w GROUP BY k"))
    assert "s.star would lose v, and is read by view s.far" in error.message


@BOTH
def test_readers_follow_another_query(ab: Anabranch, verb: str) -> None:
    ab.sql("DROP VIEW s.last")
    ab.create_stream_table("s.star", "SELECT * FROM s.sums")
    ab.sql(verb.format("SELECT k + 1 AS k, COUNT(*) AS n FROM s.w GROUP BY k"))
    assert ab.table("s.star").columns == ["k", "n"]
    assert sorted(ab.table("s.star").collect()) == [(2, 1), (3, 1)]
    assert sorted(ab.table("s.below").collect()) == [(2,), (3,)]
    assert {row["status"] for row in ab.status()} == {"ACTIVE"}


@BY_VERB
def test_a_column_that_would_mean_another_table(ab: Anabranch, verb: str) -> None:
    ab.sql("DROP VIEW s.last; DROP STREAM TABLE s.below")
    ab.create_stream_table(
        "s.tricky",
        "SELECT k FROM s.u WHERE EXISTS (SELECT 1 FROM s.sums x WHERE x.k = u.k AND v > 7)",
    )
    error = nothing_happened(ab, verb.format("SELECT k FROM s.w GROUP BY k"))
    assert "stream table s.tricky" in error.message


def test_a_suspended_reader_stays_as_it_is(ab: Anabranch) -> None:
    ab.sql("DROP VIEW s.last")
    ab.suspend("s.below")
    ab.sql("ALTER STREAM TABLE s.sums AS SELECT v AS total FROM s.w")
    assert sorted(ab.table("s.below").collect()) == [(1,), (2,)]
    assert {row["name"]: row["status"] for row in ab.status()}["s.below"] == "SUSPENDED"


# -- renaming -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE s.t RENAME TO s.x", "ALTER VIEW s.w RENAME TO s.x"]
)
def test_tables_and_views_keep_their_names(ab: Anabranch, statement: str) -> None:
    nothing_happened(ab, statement)

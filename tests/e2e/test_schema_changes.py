"""Columns and views that change under stream tables: nothing happens, it is carried over, or refused.

All tests share one home; each has a schema of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType
from pyspark.sql import DataFrame

import anabranch
from anabranch import Anabranch
from anabranch.catalog import views as view_rows
from anabranch.errors import AnabranchError, NotIncremental, Refused, SchemaError, Unsupported
from anabranch.names import TableName, quote
from anabranch.refresh import run
from anabranch.refresh.observe import observe_now
from anabranch.refresh.staging import Staging
from anabranch.spark.session import Spark
from tests.another_program import alter
from tests.e2e.world import Outside, bag, refused, rows


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changes")


@pytest.fixture(scope="module")
def ab(home: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(home, spark=spark.session) as opened:
        yield opened


@pytest.fixture(scope="module")
def outside(ab: Anabranch, home: Path) -> Iterator[Outside]:
    found = Outside(home)
    yield found
    found.catalog.close()


def named(ab: Anabranch, schema: str) -> list[TableName]:
    every = [TableName.parse(row["name"]) for row in ab.status()]
    return [name for name in every if name.schema == schema]


def refreshed(ab: Anabranch, schema: str) -> dict[str, str]:
    """Refresh the stream tables of a schema: what was done to each, by its short name."""
    lines = run.refresh(ab._runtime, named(ab, schema))
    check(ab, schema)
    return {TableName.parse(line["table"]).name: line["action"] for line in lines}


def check(ab: Anabranch, schema: str) -> None:
    """Every stream table of the schema equals its query over the tables as they are: in one job."""
    streams = observe_now(ab._runtime).streams
    parts = []
    with ab.at() as world:
        for name in named(ab, schema):
            table, fresh = world.table(name), world.sql(streams[name].query)
            assert fresh.dtypes == table.dtypes
            for frame, weight in ((fresh, 1), (table, -1)):
                columns = ", ".join(quote(column) for column in table.columns)
                row = f"to_json(struct('{name}', {columns})) AS row"
                parts.append(frame.selectExpr(row, f"{weight} AS w"))
        with ab._runtime.spark.tuned(1):
            every = reduce(DataFrame.unionAll, parts)
            assert every.groupBy("row").sum("w").where("`sum(w)` <> 0").collect() == []
    found = ab.verify(str(name))  # the last one also at its frontier
    assert found["equal"], found


def reason(ab: Anabranch, name: str) -> str:
    return str(ab.history(name)[0]["reason"])


def fails(ab: Anabranch, name: str, error: type[AnabranchError], *words: str) -> None:
    """A refresh that is refused: history and status say why, and the data stays."""
    before, cut = bag(ab.table(name)), ab.cuts()[0]
    with pytest.raises(AnabranchError) as caught:
        ab.refresh(name)
    assert type(caught.value) is error, repr(caught.value)
    line, status = ab.history(name)[0], status_of(ab, name)
    assert (line["status"], status["status"]) == ("FAILED", "ERROR")
    for word in (name, *words):
        assert word in str(caught.value)
        assert word in line["error"]
        assert word in status["last_error"]
    assert bag(ab.table(name)) == before
    assert ab.cuts()[0] == cut


def status_of(ab: Anabranch, name: str) -> dict[str, Any]:
    return next(row for row in ab.status() if row["name"] == name)


@pytest.mark.extended
def test_columns_that_nobody_reads(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE un.t (first INT, id INT, g STRING, x INT, old STRING)")
    ab.sql("CREATE TABLE un.u (id INT, name STRING, old STRING)")
    ab.sql("INSERT INTO un.t VALUES (0, 1, 'a', 10, 'o'), (0, 2, 'b', 20, 'o')")
    ab.sql("INSERT INTO un.u VALUES (1, 'one', 'o'), (2, 'two', 'o')")
    ab.create_stream_tables(
        {
            "un.by_row": "SELECT id, x + 1 AS y FROM un.t WHERE x > 5",
            "un.sums": "SELECT g, sum(x) AS s FROM un.t GROUP BY g",
            "un.n": "SELECT count(*) AS n FROM un.t",
            "un.joined": "SELECT t.id, u.name FROM un.t JOIN un.u ON t.id = u.id",
            "un.pairs": "SELECT u.name FROM un.u, un.t",
        }
    )
    every = ("by_row", "sums", "n", "joined", "pairs")
    ab.sql("INSERT INTO un.t VALUES (0, 3, 'a', 30, 'before')")
    ab.sql("ALTER TABLE un.t ADD COLUMN extra INT; ALTER TABLE un.t DROP COLUMN old")
    ab.sql("ALTER TABLE un.u RENAME COLUMN old TO older; ALTER TABLE un.t DROP COLUMN first")
    ab.sql("INSERT INTO un.t VALUES (1, 'c', 4, 5); DELETE FROM un.t WHERE id = 2")
    assert refreshed(ab, "un") == dict.fromkeys(every, "DIFFERENTIAL")
    ab.sql("ALTER TABLE un.t ADD COLUMN old STRING; ALTER TABLE un.u DROP COLUMN older")
    assert refreshed(ab, "un") == dict.fromkeys(every, "NO_DATA")
    ab.sql("UPDATE un.t SET x = x + 100, old = 'new' WHERE id = 1")
    assert set(refreshed(ab, "un").values()) <= {"DIFFERENTIAL", "NO_DATA"}
    assert bag(ab.table("un.sums")) == rows(("a", 140), ("c", 104))


@pytest.mark.extended
def test_a_new_column_under_a_star_is_carried_over(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE st.t (id INT NOT NULL, g STRING)")
    ab.sql("CREATE TABLE st.none (id INT)")
    ab.sql("INSERT INTO st.t VALUES (1, 'a'), (2, 'b')")
    ab.create_stream_tables(
        {
            "st.whole": "SELECT * FROM st.t",
            "st.below": "SELECT *, id + 1 AS next FROM st.whole",
            "st.n": "SELECT count(*) AS n FROM st.whole",
            "st.nothing": "SELECT * FROM st.none",
        }
    )
    ab.create_stream_table("st.anew", "SELECT * FROM st.t", refresh_mode="FULL")
    cut = ab.cuts()[0]["cut_id"]
    ab.sql("ALTER TABLE st.t ADD COLUMN extra DECIMAL(5,1)")
    ab.sql("ALTER TABLE st.none ADD COLUMN more STRING")
    for name in ("st.whole", "st.below"):
        with pytest.raises(Refused, match=r"(?s)changed since its last refresh.*REFRESH"):
            ab.verify(name)
    ab.sql("INSERT INTO st.t VALUES (3, 'c', 1.5)")
    found = refreshed(ab, "st")
    anew = ("whole", "below", "nothing", "anew")
    assert [found[each] for each in anew] == ["REINITIALIZE"] * 4
    assert found["n"] == "DIFFERENTIAL"
    assert reason(ab, "st.whole") == "columns of st.t changed: extra decimal(5,1) was added"
    assert reason(ab, "st.below") == "columns of st.whole changed: extra decimal(5,1) was added"
    expected = rows((1, "a", None, 2), (2, "b", None, 3), (3, "c", Decimal("1.5"), 4))
    assert ab.table("st.below").columns == ["id", "g", "extra", "next"]
    assert bag(ab.table("st.below")) == outside.bag("st.below") == expected
    assert ab.table("st.nothing").columns == ["id", "more"]
    with ab.at(cut) as world:
        assert world.table("st.below").columns == ["id", "g", "next"]
        assert bag(world.table("st.whole")) == rows((1, "a"), (2, "b"))
    ab.sql("INSERT INTO st.t VALUES (4, 'd', 2); INSERT INTO st.none VALUES (1, 'x')")
    assert set(refreshed(ab, "st").values()) == {"DIFFERENTIAL", "FULL"}
    assert bag(ab.table("st.nothing")) == rows((1, "x"))


@pytest.mark.extended
def test_columns_that_go(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE go.t (id INT, x INT, g STRING)")
    ab.sql("INSERT INTO go.t VALUES (1, 10, 'a'), (2, 20, 'b')")
    ab.create_stream_table("go.sums", "SELECT g, sum(x) AS s FROM go.t GROUP BY g")
    ab.create_stream_table("go.whole", "SELECT * FROM go.t")
    alter(ab, "ALTER TABLE go.t RENAME COLUMN x TO price")
    ab.sql("INSERT INTO go.t VALUES (3, 30, 'a')")
    fails(ab, "go.sums", SchemaError, "no longer fits its sources", "x")
    fails(ab, "go.whole", SchemaError, "x int", "price int", "ALTER STREAM TABLE go.whole AS")
    with pytest.raises(SchemaError, match="no longer fits"):
        ab.verify("go.sums")
    alter(ab, "ALTER TABLE go.t RENAME COLUMN price TO x")
    assert refreshed(ab, "go") == {"sums": "DIFFERENTIAL", "whole": "DIFFERENTIAL"}
    status = status_of(ab, "go.sums")
    assert (status["status"], status["last_error"]) == ("ACTIVE", None)
    alter(ab, "ALTER TABLE go.t DROP COLUMN x")
    fails(ab, "go.sums", SchemaError, "x")
    fails(ab, "go.whole", SchemaError, "x int")
    ab.sql("ALTER STREAM TABLE go.sums AS SELECT g, sum(id) AS s FROM go.t GROUP BY g")
    ab.sql("ALTER STREAM TABLE go.whole AS SELECT * FROM go.t")
    assert ab.table("go.whole").columns == ["id", "g"]
    assert refreshed(ab, "go") == {"sums": "NO_DATA", "whole": "NO_DATA"}
    assert bag(ab.table("go.sums")) == rows(("a", 4), ("b", 2))


@pytest.mark.extended
def test_a_column_made_again_is_another_one(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE again.t (id INT, x INT)")
    ab.sql("INSERT INTO again.t VALUES (1, 10), (2, 20)")
    ab.create_stream_table("again.xs", "SELECT id, x FROM again.t WHERE x IS NULL OR x > 10")
    ab.create_stream_table("again.ids", "SELECT id FROM again.t")
    ab.sql("INSERT INTO again.t VALUES (3, 30)")
    alter(ab, "ALTER TABLE again.t DROP COLUMN x; ALTER TABLE again.t ADD COLUMN x INT")
    ab.sql("INSERT INTO again.t VALUES (4, 40)")
    assert refreshed(ab, "again") == {"xs": "REINITIALIZE", "ids": "DIFFERENTIAL"}
    assert reason(ab, "again.xs") == "columns of again.t changed: x was dropped, x int was added"
    expected = rows((1, None), (2, None), (3, None), (4, 40))
    assert bag(ab.table("again.xs")) == outside.bag("again.xs") == expected
    ab.sql("UPDATE again.t SET x = 11 WHERE id = 1; DELETE FROM again.t WHERE id = 2")
    assert refreshed(ab, "again")["xs"] == "DIFFERENTIAL"
    assert bag(ab.table("again.xs")) == rows((1, 11), (3, None), (4, 40))
    # names exchanged: the same names and types, other values
    alter(ab, "ALTER TABLE again.t RENAME COLUMN id TO a")
    alter(ab, "ALTER TABLE again.t RENAME COLUMN x TO id")
    alter(ab, "ALTER TABLE again.t RENAME COLUMN a TO x")
    assert refreshed(ab, "again") == {"xs": "REINITIALIZE", "ids": "REINITIALIZE"}
    assert bag(ab.table("again.ids")) == rows((11,), (None,), (40,))


@pytest.mark.extended
def test_names_that_come_to_mean_something_else(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE nat.l (k INT, v STRING); CREATE TABLE nat.r (k INT, w STRING)")
    ab.sql(
        "INSERT INTO nat.l VALUES (1, 'x'), (2, 'y'); INSERT INTO nat.r VALUES (1, 'x'), (2, 'z')"
    )
    ab.create_stream_table("nat.joined", "SELECT k, w FROM nat.l NATURAL JOIN nat.r")
    ab.create_stream_table("nat.alias", "SELECT k + 1 AS n, n * 2 AS m FROM nat.l")
    ab.create_stream_table("nat.sole", "SELECT v, w FROM nat.l JOIN nat.r ON l.k = r.k")
    ab.sql("ALTER TABLE nat.r ADD COLUMN v STRING; ALTER TABLE nat.l ADD COLUMN n INT")
    fails(ab, "nat.sole", SchemaError, "v")
    assert ab.refresh("nat.joined")[0]["action"] == "REINITIALIZE"
    assert "v string was added" in reason(ab, "nat.joined")
    assert bag(ab.table("nat.joined")) == rows()
    assert ab.refresh("nat.alias")[0]["action"] == "REINITIALIZE"
    assert bag(ab.table("nat.alias")) == rows((2, None), (3, None))
    ab.sql("UPDATE nat.r SET v = 'x'")
    ab.drop_stream_table("nat.sole")
    assert refreshed(ab, "nat") == {"joined": "DIFFERENTIAL", "alias": "NO_DATA"}
    assert bag(ab.table("nat.joined")) == rows((1, "x"))


WIDE = """
    ALTER TABLE wide.t ALTER COLUMN i TYPE BIGINT; ALTER TABLE wide.t ALTER COLUMN f TYPE DOUBLE;
    ALTER TABLE wide.t ALTER COLUMN d TYPE DECIMAL(12,2);
    ALTER TABLE wide.t ALTER COLUMN e TYPE DECIMAL(30,2)
"""


@pytest.mark.extended
def test_wider_types(ab: Anabranch, outside: Outside) -> None:
    """Old files hold the narrow type, new ones the wide one; both are read, also in one delta."""
    ab.sql("""
        CREATE TABLE wide.t
            (id INT, i INT, f FLOAT, d DECIMAL(5,2), e DECIMAL(12,2), l ARRAY<INT>)
    """)
    ab.sql("""
        INSERT INTO wide.t VALUES
        (1, 1, 0.5, 1.25, 10.5, array(1)), (2, 2147483647, 0.1, -999.99, -1, NULL),
        (3, NULL, NULL, NULL, NULL, NULL)
    """)
    ab.create_stream_tables(
        {
            "wide.whole": "SELECT * FROM wide.t",
            "wide.few": "SELECT id, i, f, d, e FROM wide.t WHERE i > 1 AND d < 5",
            "wide.sums": "SELECT sum(i) AS i, sum(d) AS d, max(e) AS e, min(f) AS f FROM wide.t",
            "wide.ids": "SELECT id FROM wide.t",
            "wide.below": "SELECT i, d, l FROM wide.whole",
        }
    )
    ab.sql("INSERT INTO wide.t VALUES (4, 4, 0.25, 4, 4, array(4))")
    ab.sql(WIDE)
    ab.sql("""
        INSERT INTO wide.t VALUES
        (5, 3000000000, 1e300, 1234567890.12, 123456789012345678901234567.89, array())
    """)
    found = refreshed(ab, "wide")
    assert found.pop("ids") == "DIFFERENTIAL"
    assert set(found.values()) == {"REINITIALIZE"}
    assert "i int is now bigint, f float is now double" in reason(ab, "wide.whole")
    types = dict(ab.table("wide.whole").dtypes)
    assert [types[each] for each in "ifde"] == [
        "bigint",
        "double",
        "decimal(12,2)",
        "decimal(30,2)",
    ]
    assert dict(ab.table("wide.below").dtypes)["i"] == "bigint"
    assert outside.bag("wide.below") == bag(ab.table("wide.below"))
    ids = [field.field_id for field in outside.table("wide.whole").schema().fields]
    assert ids == [1, 2, 3, 4, 5, 6], "a column that only became wider is the same column"
    ab.sql("UPDATE wide.t SET i = i + 1 WHERE id IN (2, 5); DELETE FROM wide.t WHERE d = 1.25")
    ab.sql("DELETE FROM wide.t WHERE i = 2147483648 AND d = -999.99")
    assert set(refreshed(ab, "wide").values()) == {"DIFFERENTIAL"}
    big = Decimal("123456789012345678901234567.89")
    assert bag(ab.table("wide.sums")) == rows((3000000005, Decimal("1234567894.12"), big, 0.25))
    assert bag(ab.sql("SELECT id FROM wide.t WHERE i > 3000000000")) == rows((5,))
    assert bag(ab.sql("SELECT id FROM wide.t WHERE i < 3000000000")) == rows((4,))


@pytest.mark.extended
def test_wider_types_inside_of_others(ab: Anabranch, outside: Outside) -> None:
    """By our own ALTER and by another writer's; a struct may get a field in this way."""
    ab.sql("""
        CREATE TABLE deep.t (id INT, l ARRAY<INT>, s STRUCT<a: INT, `b c`: DECIMAL(5,2)>,
            m MAP<STRING, FLOAT>, n ARRAY<STRUCT<x: INT>>)
    """)
    values = "array({0}), named_struct('a', {0}, 'b c', 1.25), map('k', 0.5f), array(struct({0}))"
    ab.sql(f"INSERT INTO deep.t VALUES (1, {values.format(1)}), (2, NULL, NULL, NULL, NULL)")
    ab.create_stream_tables(
        {
            "deep.whole": "SELECT * FROM deep.t",
            "deep.parts": "SELECT s.a, sum(e) AS e, max(n[0].x) AS x FROM deep.t "
            "LATERAL VIEW explode(l) AS e GROUP BY s.a",
            "deep.below": "SELECT id, l, s, m FROM deep.whole",
        }
    )
    ab.sql(f"INSERT INTO deep.t VALUES (3, {values.format(3)})")
    ab.sql("ALTER TABLE deep.t ALTER COLUMN l TYPE ARRAY<BIGINT>")
    ab.sql("ALTER TABLE deep.t ALTER COLUMN s TYPE STRUCT<a: BIGINT, `b c`: DECIMAL(12,2), d: INT>")
    with outside.table("deep.t").update_schema() as change:
        change.update_column(("m", "value"), field_type=DoubleType())
        change.update_column(("n", "element", "x"), field_type=LongType())
    big = "(4, array(3000000000), named_struct('a', 3000000000, 'b c', 1234567890.25, 'd', 4), "
    ab.sql(f"INSERT INTO deep.t VALUES {big} map('k', 1e300), array(struct(3000000000)))")
    assert set(refreshed(ab, "deep").values()) == {"REINITIALIZE"}
    assert dict(ab.table("deep.below").dtypes) == {
        "id": "int",
        "l": "array<bigint>",
        "s": "struct<a:bigint,b c:decimal(12,2),d:int>",
        "m": "map<string,double>",
    }
    assert [each.field_id for each in outside.table("deep.whole").schema().fields] == [
        1,
        2,
        3,
        4,
        5,
    ]
    ab.sql("DELETE FROM deep.t WHERE id = 1; UPDATE deep.t SET l = array(7) WHERE id = 4")
    assert set(refreshed(ab, "deep").values()) == {"DIFFERENTIAL"}
    assert all(ab.verify(f"deep.{name}")["equal"] for name in ("whole", "parts", "below"))
    assert bag(ab.table("deep.parts")) == rows((3, 3, 3), (3000000000, 7, 3000000000))
    with pytest.raises(Unsupported, match="cannot change from array<bigint> to array<int>"):
        ab.sql("ALTER TABLE deep.t ALTER COLUMN l TYPE ARRAY<INT>")


def replace_anyway(ab: Anabranch, view: str, query: str) -> None:
    """As an earlier version did, which did not ask who reads a view."""
    with ab._store.writing() as c:
        view_rows.remove(c, TableName.parse(view))
        view_rows.add(c, TableName.parse(view), query)


@pytest.mark.extended
def test_a_view_that_is_replaced(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE vi.t (id INT, x INT, g STRING); CREATE TABLE vi.other (id INT)")
    ab.sql("INSERT INTO vi.t VALUES (1, 10, 'a'), (2, 20, 'b'); INSERT INTO vi.other VALUES (7)")
    ab.sql("CREATE VIEW vi.base AS SELECT id, x FROM vi.t WHERE x > 5")
    ab.sql("CREATE VIEW vi.v AS SELECT id, x FROM vi.base")
    ab.create_stream_table("vi.st", "SELECT id, x FROM vi.v")
    ab.create_stream_table("vi.whole", "SELECT * FROM vi.v")
    ab.sql("""
        CREATE OR REPLACE VIEW vi.base AS -- layout, and one column more
        select  s.id, s.x, g
        from vi.t as s where (s.x > 5)
    """)
    assert refreshed(ab, "vi") == {"st": "NO_DATA", "whole": "NO_DATA"}
    ab.sql("CREATE OR REPLACE VIEW vi.base AS SELECT id, x, g FROM vi.t WHERE x > 15")
    assert refreshed(ab, "vi") == {"st": "REINITIALIZE", "whole": "REINITIALIZE"}
    assert reason(ab, "vi.st") == "view vi.base was replaced"
    assert bag(ab.table("vi.st")) == rows((2, 20))
    ab.sql("CREATE OR REPLACE VIEW vi.v AS SELECT id, nullif(x, 20) AS x, g FROM vi.base")
    assert refreshed(ab, "vi") == {"st": "REINITIALIZE", "whole": "REINITIALIZE"}
    assert bag(ab.table("vi.whole")) == rows((2, None, "b"))
    assert bag(ab.table("vi.st")) == rows((2, None))
    with pytest.raises(Refused, match="vi.v would lose x, g, .* stream table vi.st"):
        ab.sql("CREATE OR REPLACE VIEW vi.v AS SELECT id FROM vi.base")
    replace_anyway(ab, "vi.v", "SELECT id FROM vi.base")
    fails(ab, "vi.st", SchemaError, "no longer fits", "x")
    fails(ab, "vi.whole", SchemaError, "x int")
    ab.sql("CREATE OR REPLACE VIEW vi.v AS SELECT id, id + 1 AS x, 'c' AS g FROM vi.other")
    assert refreshed(ab, "vi") == {"st": "REINITIALIZE", "whole": "REINITIALIZE"}
    assert bag(ab.table("vi.st")) == rows((7, 8))
    ab.sql("INSERT INTO vi.other VALUES (8); INSERT INTO vi.t VALUES (9, 90, 'z')")
    assert refreshed(ab, "vi") == {"st": "DIFFERENTIAL", "whole": "DIFFERENTIAL"}
    for statement in ("DROP VIEW vi.v", "DROP TABLE vi.other"):
        with pytest.raises(Refused, match="is read by vi.st, vi.whole"):
            ab.sql(statement)


def test_a_view_that_changes_the_order_of_tables(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE ord.t (id INT)")
    ab.sql("INSERT INTO ord.t VALUES (1)")
    ab.sql("CREATE VIEW ord.v AS SELECT id FROM ord.t")
    ab.create_stream_table(
        "ord.a", "SELECT v.id, t.id AS same FROM ord.v JOIN ord.t ON v.id = t.id"
    )
    ab.create_stream_table("ord.b", "SELECT id FROM ord.t")
    ab.create_stream_table("ord.c", "SELECT id FROM ord.a")
    for below in ("ord.a", "ord.c"):
        with refused(ab, outside, Refused, "ord.v", "read itself"):
            ab.sql(f"CREATE OR REPLACE VIEW ord.v AS SELECT id FROM {below}")
    ab.sql("CREATE OR REPLACE VIEW ord.v AS SELECT id FROM ord.b")
    ab.sql("INSERT INTO ord.t VALUES (2)")
    assert refreshed(ab, "ord") == {"b": "DIFFERENTIAL", "a": "REINITIALIZE", "c": "DIFFERENTIAL"}
    assert bag(ab.table("ord.c")) == rows((1,), (2,))
    with pytest.raises(Refused, match="ord.b is read by ord.a"):
        ab.drop_stream_table("ord.b")


def test_a_view_that_is_replaced_during_a_refresh(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql("CREATE TABLE race.t (id INT)")
    ab.sql("CREATE VIEW race.v AS SELECT id FROM race.t")
    ab.create_stream_table("race.a", "SELECT id FROM race.v")
    ab.create_stream_table("race.z", "SELECT id + 10 AS id FROM race.t")
    ab.sql("INSERT INTO race.t VALUES (1)")
    stage, staged = Staging.run, []

    def stage_and_replace(staging: Staging, names: Sequence[TableName], *others: Any) -> None:
        stage(staging, names, *others)
        staged.append(names)
        if len(staged) == 1:
            ab.sql("CREATE OR REPLACE VIEW race.v AS SELECT id FROM race.z")

    monkeypatch.setattr(Staging, "run", stage_and_replace)
    ab.refresh("race.a")
    parts = [[name.name for name in part] for part in staged]
    assert parts == [["a"], ["z", "a"]], "computed anew, after the table that it reads now"
    assert bag(ab.table("race.a")) == rows((11,))
    assert refreshed(ab, "race") == {"a": "NO_DATA", "z": "NO_DATA"}


@pytest.mark.extended
def test_a_view_that_makes_a_table_hard_to_keep(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE hard.t (id INT)")
    ab.sql("INSERT INTO hard.t VALUES (1)")
    ab.sql("CREATE VIEW hard.v AS SELECT id FROM hard.t")
    ab.create_stream_table("hard.auto", "SELECT id FROM hard.v")
    ab.create_stream_table("hard.strict", "SELECT id FROM hard.v", refresh_mode="DIFFERENTIAL")
    with pytest.raises(Refused, match="hard.v is read by stream table hard.strict,"):
        ab.sql("CREATE OR REPLACE VIEW hard.v AS SELECT id FROM hard.t WHERE rand() >= 0")
    replace_anyway(ab, "hard.v", "SELECT id FROM hard.t WHERE rand() >= 0")
    fails(ab, "hard.strict", NotIncremental, "NONDETERMINISTIC_FUNCTION")
    ab.refresh("hard.auto")
    assert reason(ab, "hard.auto") == "view hard.v was replaced"
    ab.refresh("hard.auto")
    assert ab.history("hard.auto")[0]["action"] == "FULL", "it is never up to date"
    ab.sql("CREATE OR REPLACE VIEW hard.v AS SELECT id FROM hard.t")
    ab.refresh("hard.auto")
    assert refreshed(ab, "hard") == {"auto": "NO_DATA", "strict": "NO_DATA"}
    status = status_of(ab, "hard.strict")
    assert (status["status"], status["last_error"]) == ("ACTIVE", None)


@pytest.mark.extended
def test_other_programs_change_columns(ab: Anabranch, outside: Outside) -> None:
    ab.sql("CREATE TABLE py.t (id INT NOT NULL, x INT, s STRUCT<a: INT>, old STRING)")
    ab.sql("INSERT INTO py.t VALUES (1, 10, named_struct('a', 1), 'o')")
    ab.create_stream_table("py.ids", "SELECT id, s.a FROM py.t")
    ab.create_stream_table("py.whole", "SELECT id, x FROM py.t")
    ab.create_stream_table("py.star", "SELECT * EXCEPT (s) FROM py.t")
    with outside.table("py.t").update_schema() as update:
        update.add_column("more", StringType())
        update.update_column("x", LongType())
        update.update_column("id", required=False)
    ab.sql("INSERT INTO py.t VALUES (NULL, 3000000000, NULL, NULL, 'm')")
    assert refreshed(ab, "py") == {
        "ids": "DIFFERENTIAL",
        "whole": "REINITIALIZE",
        "star": "REINITIALIZE",
    }
    assert bag(ab.table("py.ids")) == rows((1, 1), (None, None))
    assert bag(ab.table("py.star")) == rows((1, 10, "o", None), (None, 3000000000, None, "m"))
    with outside.table("py.t").update_schema() as update:
        update.rename_column("id", "key")
    fails(ab, "py.ids", SchemaError, "id")
    with outside.table("py.t").update_schema() as update:
        update.rename_column("key", "id")
        update.add_column(("s", "b"), IntegerType())
    assert refreshed(ab, "py") == {"ids": "REINITIALIZE", "whole": "NO_DATA", "star": "NO_DATA"}
    # a stream table's own columns
    with outside.table("py.whole").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("x")
    assert refreshed(ab, "py")["whole"] == "REINITIALIZE"
    assert reason(ab, "py.whole") == "another program changed the columns of the table"
    assert bag(ab.table("py.whole")) == rows((1, 10), (None, 3000000000))
    outside.catalog.drop_table(("py", "t"))
    fails(ab, "py.ids", SchemaError, "py.ids reads py.t, which no longer exists")

"""A plan of ours that fails: AUTO recomputes and says so, DIFFERENTIAL says whose fault it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.delta import fixpoint
from anabranch.errors import DataError, InternalError, PlanFailed
from anabranch.refresh import component as refreshing
from anabranch.refresh.execute import fixpoint as component
from anabranch.refresh.execute import table as jobs
from anabranch.spark.errors import translated
from anabranch.spark.query import run_sql
from tests.e2e.graphs import overdue
from tests.e2e.world import bag, rows

Fail = Callable[..., Any]
JOB = (jobs.Job, "rows")


def parse_error(ab: Anabranch) -> None:
    run_sql(ab.spark, "SELECT sum of it FROM (SELEC 1")


def analysis_error(ab: Anabranch) -> None:
    run_sql(ab.spark, "SELECT _ab_v4 FROM range(3)")


def optimizer_error(ab: Anabranch) -> None:
    """Java's own exception, as Spark's optimizer throws it."""
    ab.spark._jvm.java.util.Optional.empty().get()  # type: ignore[union-attr]


def our_check(ab: Anabranch) -> None:
    raise InternalError("more equal rows are to be removed than are stored")


def our_code(ab: Anabranch) -> None:
    raise KeyError("_ab_v4")


def illegal_argument(ab: Anabranch) -> None:
    """What a function says inside a task to a value that the query never gives it."""
    with translated():
        run_sql(ab.spark, "SELECT size(sequence(9 + id, 1, 1)) FROM range(3)").collect()


FAULTS = [
    parse_error,
    analysis_error,
    optimizer_error,
    our_check,
    our_code,
    illegal_argument,
]


@pytest.fixture
def two(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE f.s (k STRING, v BIGINT)")
    ab.sql("INSERT INTO f.s VALUES ('a', 1), ('b', 4)")
    query = "SELECT k, sum(v) AS total FROM f.s GROUP BY k"
    ab.create_stream_table("f.auto", query, schedule=None)
    ab.create_stream_table("f.strict", query, refresh_mode="DIFFERENTIAL", schedule=None)
    return ab


def broken(ab: Anabranch, fault: Callable[[Anabranch], None]) -> Fail:
    def fail(*_: Any, **__: Any) -> Any:
        fault(ab)
        raise AssertionError("the fault was not met")

    return fail


@pytest.mark.extended
def test_the_plan_of_the_changes_fails(two: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, fault in enumerate(FAULTS):
        two.sql("INSERT INTO f.s VALUES ('a', 1)")
        with monkeypatch.context() as patch:
            # a decision reads no SQL of ours, so nothing of Spark's fails there
            place = (refreshing, "decision_inputs") if fault in (our_check, our_code) else JOB
            patch.setattr(*place, broken(two, fault))
            two.refresh("f.auto")
            with pytest.raises(PlanFailed) as caught:
                two.refresh("f.strict")
        line = two.history("f.auto")[0]
        assert (line["action"], line["status"]) == ("FULL", "COMPLETED"), fault
        assert line["reason"].startswith("the changes cannot be computed: "), fault
        assert "\n" not in line["reason"] and "\tat " not in line["reason"]
        assert bag(two.table("f.auto")) == rows(("a", 2 + at), ("b", 4))
        event = two.events("f.auto")[0]
        assert event["kind"] == "FALLBACK" and line["reason"] in event["message"]
        assert "fault of Anabranch" in str(caught.value), fault
        assert "REFRESH STREAM TABLE f.strict FULL" in str(caught.value)
        two.refresh("f.strict")  # nothing is wrong any more
        assert two.history("f.strict")[0]["action"] == "DIFFERENTIAL"
    assert two.verify("f.auto")["equal"] and two.verify("f.strict")["equal"]


def test_a_failed_plan_is_no_reason_to_try_again_or_suspend(
    two: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.alter_stream_table("f.strict", schedule="1s")
    two.set("max_consecutive_errors", 1)
    two.sql("INSERT INTO f.s VALUES ('a', 1)")
    with monkeypatch.context() as patch:
        patch.setattr(jobs.Job, "rows", broken(two, analysis_error))
        with pytest.raises(PlanFailed):
            two.refresh("f.strict")
        for _ in range(3):
            overdue(two, "f.strict")
            (done,) = [each for each in two.tick() if each["members"] == ["f.strict"]]
            assert done["outcome"] == "SKIPPED" and "not retried until" in done["reason"]
    strict = {row["name"]: row for row in two.status()}["f.strict"]
    assert (strict["status"], strict["consecutive_errors"]) == ("ERROR", 1)
    two.sql("INSERT INTO f.s VALUES ('a', 1)")  # a source changed
    overdue(two, "f.strict")
    assert {each["outcome"] for each in two.tick() if each["members"] == ["f.strict"]} == {
        "PUBLISHED"
    }


def test_our_plan_of_the_whole_query_fails(two: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query as it was written still gives the rows."""
    two.create_stream_table("f.rows", "SELECT k, v + 1 AS w FROM f.s", schedule=None)
    names = ("f.auto", "f.rows", "f.strict")
    with monkeypatch.context() as patch:
        patch.setattr(jobs.Scans, "run", broken(two, optimizer_error))
        two.sql("INSERT INTO f.s VALUES ('a', 1)")
        two.refresh("f.auto")
        assert "our plan of it failed" in two.history("f.auto")[0]["reason"]
        for name in names:
            two.refresh(name, full=True)
            assert two.history(name)[0]["reason"] == "asked for"
            assert two.events(name)[0]["kind"] == "FALLBACK"
    two.sql("INSERT INTO f.s VALUES ('a', 1)")
    for name in names:
        two.refresh(name)
        assert two.verify(name)["equal"]
    assert two.history("f.rows")[0]["action"] == "DIFFERENTIAL"  # its hashes need no plan
    assert two.history("f.auto")[0]["reason"] == "the stored rows lack the hidden columns"


def test_errors_of_the_data_stay_errors_of_the_data(two: Anabranch) -> None:
    two.create_stream_table("f.share", "SELECT k, 10 / v AS share FROM f.s", schedule=None)
    two.sql("INSERT INTO f.s VALUES ('a', 0)")
    with pytest.raises(DataError, match="Division by zero"):
        two.refresh("f.share")
    assert two.events("f.share") == []


BAD_VALUES = {
    "make_date(2020, CAST(v AS INT), 1)": "MonthOfYear",
    "element_at(array(1, 2, 3, 4), CAST(v AS INT))": "out of bounds",
    "size(sequence(1, v, 1))": "Illegal sequence boundaries",
    "format_string(IF(v < 0, '%y', '%d'), v)": "Conversion",
}


@pytest.mark.extended
def test_a_value_that_a_function_cannot_take(two: Anabranch) -> None:
    """Neither a fault of our plan nor one of the query, in either mode."""
    names = []
    for at, value in enumerate(BAD_VALUES):
        for mode in ("AUTO", "DIFFERENTIAL"):
            names.append((f"f.{mode.lower()}{at}", BAD_VALUES[value]))
            query = f"SELECT k, {value} AS x FROM f.s"
            two.create_stream_table(names[-1][0], query, refresh_mode=mode, schedule=None)
    two.sql("INSERT INTO f.s VALUES ('a', -77)")
    for name, message in names:
        with pytest.raises(DataError, match=message):
            two.refresh(name)
        assert two.events(name) == []


@pytest.mark.extended
def test_a_circle(ab: Anabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    ab.set("allow_circular", True)
    ab.sql("CREATE TABLE f.seed (id BIGINT)")
    ab.sql("INSERT INTO f.seed VALUES (1), (2)")
    queries = {"f.t": "SELECT id FROM f.seed UNION SELECT id FROM f.u", "f.u": "SELECT id FROM f.t"}
    ab.create_stream_tables(queries, schedule=None)
    real = component.follow

    def follow(*given: Any, **named: Any) -> fixpoint.Converged:
        real(*given, **named)  # some rounds are done already
        optimizer_error(ab)
        raise AssertionError

    monkeypatch.setattr(component, "follow", follow)
    ab.sql("INSERT INTO f.seed VALUES (3)")
    ab.sql("DELETE FROM f.seed WHERE id = 1")
    ab.refresh("f.t")
    line = ab.history("f.u")[0]
    assert line["action"] == "FULL" and "the changes cannot be computed" in line["reason"]
    assert {ab.events(name)[0]["kind"] for name in queries} == {"FALLBACK"}
    assert bag(ab.table("f.u")) == bag(ab.table("f.t")) == rows((2,), (3,))
    ab.alter_stream_table("f.u", refresh_mode="DIFFERENTIAL")
    ab.sql("INSERT INTO f.seed VALUES (4)")
    with pytest.raises(PlanFailed, match="fault of Anabranch"):
        ab.refresh("f.t")
    ab.refresh("f.u", full=True)
    assert ab.verify("f.t")["equal"] and ab.verify("f.u")["equal"]


@pytest.mark.extended
def test_a_circle_whose_plans_fail_is_computed_by_its_queries(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.set("allow_circular", True)
    ab.sql("CREATE TABLE f.e (a BIGINT, b STRING)")
    ab.sql("INSERT INTO f.e VALUES (1, '2'), (2, '3')")
    queries = {
        "f.t": "SELECT a, CAST(b AS BIGINT) AS b FROM f.e UNION SELECT t.a, u.b FROM f.t JOIN f.u "
        "ON t.b = u.a",
        "f.u": "SELECT a, b FROM f.t",
    }
    ab.create_stream_tables(queries, schedule=None)
    for each in ("from_empty", "follow"):
        monkeypatch.setattr(component, each, broken(ab, illegal_argument))
    ab.sql("INSERT INTO f.e VALUES (3, '4')")
    ab.refresh("f.t")
    line = ab.history("f.u")[0]
    assert line["action"] == "FULL" and "by the queries as they were written" in line["reason"]
    assert {ab.events(name)[0]["kind"] for name in queries} == {"FALLBACK"}
    assert bag(ab.table("f.u")) == rows((1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (1, 4))
    ab.alter_stream_table("f.u", refresh_mode="DIFFERENTIAL")
    ab.sql("DELETE FROM f.e WHERE a = 3")
    with pytest.raises(PlanFailed, match="fault of Anabranch"):
        ab.refresh("f.t")
    ab.sql("INSERT INTO f.e VALUES (5, 'six')")
    for mode in ("DIFFERENTIAL", "AUTO"):
        ab.alter_stream_table("f.u", refresh_mode=mode)
        with pytest.raises(DataError, match="six"):
            ab.refresh("f.t")
    monkeypatch.undo()
    ab.sql("DELETE FROM f.e WHERE a = 5")
    ab.refresh("f.t")
    assert ab.verify("f.t")["equal"] and ab.verify("f.u")["equal"]

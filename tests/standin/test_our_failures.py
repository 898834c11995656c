"""Whatever of our own code fails on the way from the changes: AUTO recomputes, and says why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import NotIncremental, PlanFailed
from anabranch.refresh import component, definition, editions
from anabranch.refresh.execute import table
from tests.e2e.graphs import status
from tests.standin.engine import connect, installed

QUERY = "SELECT k, SUM(v) AS v FROM s.t WHERE k IS NOT NULL GROUP BY k"
CYCLE = {
    "s.p": "SELECT k FROM s.t UNION SELECT k FROM s.q",
    "s.q": "SELECT k FROM s.p",
}
PACKAGE = Path(anabranch.__file__).parent
# Of each way about so many functions are made to fail.
FUNCTIONS = int(os.environ.get("ANABRANCH_FAILING_FUNCTIONS", "12"))
WAYS = ("refresh", "delta", "plan", "sql")
# What no refresh can do without, from changes or in full: who belongs together, the look, the publish.
SHARED = (
    "observe.py",
    "publish_sets.py",
    "run.py",
    "staging.py",
    "waiting.py",
    "record.py",
    "isolation.py",
    "parallel.py",
)


@pytest.fixture(params=["AUTO", "DIFFERENTIAL"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ab(tmp_path: Path, mode: str) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.set("allow_circular", True)
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10)")
        opened.create_stream_table("s.x", QUERY, refresh_mode=mode, schedule=None)
        opened.create_stream_tables(CYCLE, refresh_mode=mode, schedule=None)
        yield opened
    definition._cache.clear()


def boom(*_: Any, **__: Any) -> Any:
    raise KeyError("_ab_v4")


def expect(ab: Anabranch, mode: str, name: str) -> None:
    """A change comes, and our code fails on it."""
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    if mode == "DIFFERENTIAL":
        with pytest.raises(PlanFailed, match="_ab_v4") as failed:
            ab.refresh(name)
        assert not failed.value.retryable and failed.value.__cause__ is not None
        assert status(ab, name)["status"] == "ERROR"
        return
    ab.refresh(name)
    line = ab.history(name)[0]
    assert (line["action"], line["status"]) == ("FULL", "COMPLETED"), line
    assert "the changes cannot be computed: '_ab_v4'" in line["reason"]
    event = ab.events(name)[0]
    assert event["kind"] == "FALLBACK" and "_ab_v4" in event["message"]
    assert len(ab.table(name).collect()) == 2
    assert status(ab, name)["status"] == "ACTIVE" and ab.verify(name)["equal"]


def steps(quick: str, others: str) -> list[Any]:
    """The others too, if extended."""
    more = [pytest.param(each, marks=pytest.mark.extended) for each in others.split()]
    return [*quick.split(), *more]


@pytest.mark.parametrize(
    "step", steps("gather decide net_rows", "remember decision_inputs event_of")
)
def test_a_step_of_a_table(
    ab: Anabranch, mode: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(component, step, boom)
    expect(ab, mode, "s.x")


@pytest.mark.parametrize("step", steps("decision_inputs net_rows", "gather decide"))
def test_a_step_of_a_component(
    ab: Anabranch, mode: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(component, step, boom)
    expect(ab, mode, "s.p")


# -- each function, once ---------------------------------------------------------------------------


def of_ours(code: CodeType) -> str | None:
    """`refresh/component.py:planned`, for a function on the way."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_name.startswith("<"):
        return None
    inside = path.relative_to(PACKAGE)
    if inside.parts[0] not in WAYS or (inside.parts[0] == "refresh" and inside.name in SHARED):
        return None
    if inside.parts[:2] == ("sql", "analyze"):
        return None  # Spark's analyser has the last word, and a refresh goes on without this one
    return f"{inside}:{code.co_name}"


def is_analyzing(frame: FrameType | None) -> bool:
    """The analyzer shares functions with planning; a refresh goes on without it."""
    while frame is not None:
        if "/sql/analyze/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def called(act: Any) -> list[str]:
    """The functions that a refresh calls, between what it sees and what it publishes."""
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := of_ours(frame.f_code)) and not is_analyzing(frame):
            found[name] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return list(found)


def failing_once(wanted: str, act: Any) -> None:
    """The first call of a function raises; an error in a profiler ends the profiler."""

    def fail(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and of_ours(frame.f_code) == wanted and not is_analyzing(frame):
            raise KeyError("_ab_v4")

    before = sys.getprofile()
    sys.setprofile(fail)
    try:
        act()
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("name", ["s.x", "s.p"])
def test_every_function_on_the_way(ab: Anabranch, mode: str, name: str) -> None:
    """Planned again each time, so that planning is on the way as well."""

    def refresh() -> None:
        definition._cache.clear()
        ab.refresh(name)

    keys = iter(range(100, 1_000))

    def change() -> None:
        ab.sql(f"INSERT INTO s.t VALUES ({next(keys)}, 1)")

    change()
    refresh()
    change()
    functions = called(refresh)
    assert len(functions) > 50, functions
    wrong = []
    step = max(1, len(functions) // FUNCTIONS)
    for function in functions[len(name + mode) % step :: step]:
        change()
        said = ""
        try:
            failing_once(function, refresh)
        except (PlanFailed, NotIncremental) as error:
            said = type(error).__name__
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        line = ab.history(name)[0]
        told = (said, line["action"], line["status"], bool(line["reason"]))
        wanted = ("", "COMPLETED") if mode == "AUTO" else ("PlanFailed", "FAILED")
        refused = mode == "DIFFERENTIAL" and said == "NotIncremental"  # our planning failed
        if not refused and (said, line["status"]) != wanted:
            wrong.append((function, told))
        elif mode == "AUTO" and (problem := kept_quiet(ab, name)):
            wrong.append((function, problem))
        refresh()  # planned again as it should be
    assert not wrong, "\n".join(map(str, wrong))
    assert ab.verify(name)["equal"]


def kept_quiet(ab: Anabranch, name: str) -> str | None:
    """What is missing of: recomputed, with the reason, and an event."""
    line = ab.history(name)[0]
    if line["action"] not in ("FULL", "REINITIALIZE") or not line["reason"]:
        return str(line)
    first = ab.events(name)[0]
    if first["kind"] not in ("FALLBACK", "REINITIALIZED", "MODE_CHANGED"):
        return f"no event: {first}"
    return None


def test_a_member_of_a_cycle_that_cannot_be_planned(
    ab: Anabranch, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition, "lower", boom)
    definition._cache.clear()
    for key in (2, 3):
        ab.sql(f"INSERT INTO s.t VALUES ({key}, 20)")
        if mode == "DIFFERENTIAL":
            with pytest.raises(NotIncremental, match="NOT_PLANNED"):
                ab.refresh("s.p")
            continue
        ab.refresh("s.p")
        assert len(ab.table("s.q").collect()) == key
        assert ab.events("s.p")[0]["kind"] in ("FALLBACK", "REINITIALIZED")
    if mode == "AUTO":
        assert "NOT_PLANNED" in str(ab.explain("s.p"))


@pytest.mark.parametrize("mode", ["AUTO"], indirect=True)
def test_a_strict_member_is_not_recomputed_because_another_cannot_be_planned(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.alter_stream_table("s.q", refresh_mode="DIFFERENTIAL")
    lower = definition.lower

    def of_the_other(query: Any, *given: Any, **named: Any) -> Any:
        return boom() if CYCLE["s.p"] in str(query) else lower(query, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(definition, "lower", of_the_other)
        definition._cache.clear()
        ab.sql("INSERT INTO s.t VALUES (2, 20)")
        for _ in range(2):
            with pytest.raises(PlanFailed, match=r"s\.q cannot be refreshed from changes.*s\.p"):
                ab.refresh("s.q")
        assert [each["status"] for each in ab.history("s.q", 2)] == ["FAILED"] * 2
        ab.refresh("s.q", full=True)
        assert len(ab.table("s.q").collect()) == 2 and ab.verify("s.q")["equal"]
    definition._cache.clear()
    editions._unplanned.clear()
    ab.sql("INSERT INTO s.t VALUES (3, 30)")
    ab.refresh("s.q")
    assert ab.verify("s.q")["equal"]


MEMBERS = ["s.x", "s.p"]


def unplanned(ab: Anabranch, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change comes, and our planning fails; then it is as it should be."""
    with monkeypatch.context() as patch:
        patch.setattr(definition, "lower", boom)
        definition._cache.clear()
        ab.sql("INSERT INTO s.t VALUES (2, 20)")
        ab.refresh(name)
        assert ab.verify(name)["equal"]
        ab.sql("INSERT INTO s.t VALUES (3, 30)")
        assert ab.verify(name)["equal"]  # at its frontier
        ab.refresh(name)
    assert len(ab.table(name).collect()) == 3


@pytest.mark.parametrize("mode", ["AUTO"], indirect=True)
@pytest.mark.parametrize("name", MEMBERS)
def test_a_query_that_could_not_be_planned_is_looked_at_by_the_next_process(
    ab: Anabranch, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unplanned(ab, name, monkeypatch)
    assert ab.verify(name)["equal"]
    ab.refresh(name)
    assert ab.history(name)[0]["action"] == "NO_DATA"  # this process has looked
    editions._unplanned.clear()
    ab.refresh(name)
    assert ab.history(name)[0]["action"] == "REINITIALIZE"
    assert ab.verify(name)["equal"]
    ab.sql("INSERT INTO s.t VALUES (4, 40)")
    ab.refresh(name)
    assert ab.history(name)[0]["action"] == "DIFFERENTIAL"


@pytest.mark.parametrize("mode", ["AUTO"], indirect=True)
@pytest.mark.parametrize("name", MEMBERS)
def test_a_query_that_could_not_be_planned_is_planned_with_the_next_change(
    ab: Anabranch, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unplanned(ab, name, monkeypatch)
    ab.sql("INSERT INTO s.t VALUES (4, 40)")
    ab.refresh(name)
    assert ab.history(name)[0]["action"] == "REINITIALIZE"
    assert ab.verify(name)["equal"]


@pytest.mark.parametrize("name", MEMBERS)
def test_rows_of_a_plan_are_verified_when_planning_fails(
    ab: Anabranch, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    monkeypatch.setattr(definition, "lower", boom)
    definition._cache.clear()
    assert ab.verify(name)["equal"]


@pytest.mark.parametrize("mode", ["AUTO"], indirect=True)
def test_what_fails_in_full_is_not_computed_twice(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def full(*_: Any, compare: bool = True, **__: Any) -> Any:
        tried.append(compare)
        raise KeyError("_ab_v4")

    monkeypatch.setattr(table, "full_job", full)
    monkeypatch.setattr(table, "incremental_job", boom)
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    with pytest.raises(PlanFailed, match="_ab_v4"):
        ab.refresh("s.x")
    assert tried == [False, False]  # by our plan, and by the query as it was written

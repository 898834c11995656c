"""One policy of trying again, and one place of it."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch import errors, retry
from anabranch.errors import (
    AnabranchError,
    DataError,
    Fenced,
    OutcomeUnknown,
    PublishConflict,
    Retry,
    Unreachable,
)
from anabranch.model import Status
from anabranch.refresh import failures
from anabranch.refresh.failures import Failure
from anabranch.retry import ATTEMPTS, LONGEST_DELAY, attempts, delay, described, longest_pause
from tests.unit.scheduler.looks import NOW, name, state

ROOT = Path(__file__).parents[2]
CLASSES = {
    each.__name__: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, AnabranchError)
}


def test_delays_grow_to_a_bound() -> None:
    assert [delay(errors, 0) for errors in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert delay(1000, 0) == LONGEST_DELAY
    assert all(0.8 <= delay(1) <= 1 for _ in range(100))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(retry.random, "uniform", lambda low, high: high)
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=found.append))
    return found


def test_lost_races_are_tried_again_with_growing_pauses(pauses: list[float]) -> None:
    for attempt in attempts():
        with attempt:
            if attempt.number < 9:
                raise PublishConflict("another process was faster")
            break
    assert pauses == [longest_pause(number) for number in range(9)]
    assert pauses[:3] == [0.02, 0.04, 0.08] and pauses[-1] == 1.28


def test_the_last_of_them_is_raised(pauses: list[float]) -> None:
    tried = []
    with pytest.raises(PublishConflict):
        for attempt in attempts():
            with attempt:
                tried.append(attempt.number)
                raise PublishConflict("another process was faster")
    assert len(tried) == ATTEMPTS and len(pauses) == ATTEMPTS - 1


@pytest.mark.parametrize("error", [DataError("bad"), OutcomeUnknown("lost"), KeyError("x")])
def test_nothing_else_is_tried_at_once(error: Exception, pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        for attempt in attempts():
            with attempt:
                raise error
    assert pauses == []


def test_fewer_attempts_and_errors_that_do_not_say_that_others_caused_them(
    pauses: list[float],
) -> None:
    for error in (Unreachable("a file went away"), PublishConflict("another was faster")):
        tried = []
        with pytest.raises(type(error)):
            for attempt in attempts(3, also=(Unreachable,)):
                with attempt:
                    tried.append(attempt.number)
                    raise error
        assert tried == [0, 1, 2]
    assert len(pauses) == 4


def test_what_stays_so_until_somebody_acts_is_not_tried_again(pauses: list[float]) -> None:
    with pytest.raises(Fenced):
        for attempt in attempts(also=(Unreachable,)):
            with attempt:
                raise Fenced("a copy")
    assert pauses == []


# -- what is said is what is done ------------------------------------------------------------------


def documented() -> dict[str, str]:
    page = (ROOT / "docs/errors.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| \d \| (.+) \|$", page, re.MULTILINE)
    return dict(rows)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_page_says_what_is_written_down(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of an error, and what a failed refresh leaves in the catalog."""
    said = documented()[kind]
    error = CLASSES[kind]("failed")
    assert said == described(error.retry)
    monkeypatch.setattr(failures, "delay", lambda errors: delay(errors, 0))
    told = re.search(r"after (\d+) s, (\d+) s, (\d+) s … (\d+) s", said)
    times = [int(each) for each in told.groups()] if told else None
    for before, wait in enumerate(times[:3] if times else [None] * 3):
        look = state({"b": "a"}, b={"consecutive_errors": before})
        table = name("b")
        found = failures.after(look, look.streams[table], Failure(table, error, 5), 4, NOW)
        if wait is None:
            assert "changes" in said and found["next_retry_at"] is None and found["failed_mark"]
        else:
            assert found["next_retry_at"] == NOW + timedelta(seconds=wait)
            assert found["failed_mark"] is None
        assert found["status"] is Status.ERROR
    look = state({"b": "a"}, b={"consecutive_errors": 3})
    found = failures.after(look, look.streams[table], Failure(table, error, 5), 4, NOW)
    assert (found["status"] is Status.SUSPENDED) is ("suspended" in said)
    assert (error.retry is Retry.AT_ONCE) is (
        f"at once, with what is there now, up to {ATTEMPTS}" in said
    )
    if times:
        assert times[3] == LONGEST_DELAY


def test_no_other_loop_tries_again_after_a_lost_race() -> None:
    """Whoever catches a lost race in a loop goes by the attempts of the policy."""
    for path in sorted((ROOT / "anabranch").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for loop in ast.walk(tree):
            if not isinstance(loop, (ast.For, ast.While)) or not catches(loop):
                continue
            over = isinstance(loop, ast.For) and ast.unparse(loop.iter) == "attempts()"
            assert over, f"{path.name}, line {loop.lineno}: use retry.attempts()"


# Loops without a bound over what others change too, by function, and why they end.
ENDLESS = {
    "catalog/store.py _patiently": "after some seconds",
    "lake/publish.py _find_out": "after some seconds",
    "lake/avro.py _unpacked": "with the block",
    "lake/avro.py _long": "with the last byte of a number",
    "lake/attached.py _work": "with the list of calls",
    "lake/attached.py _innermost": "with the causes of an error",
    "runtime.py write": "each round observes a table that none before has observed",
    "deploy/along.py stage": "each round takes out a table that none before has taken out",
    "deploy/progress.py wait": "when the deployment ends, or the time that the caller gives",
    "serve/app.py _sweep": "with the server",
    "cli/shell.py run": "when the user leaves",
}
OVER_SHARED_STATE = [
    *("catalog", "lake", "refresh", "tables", "scheduler", "deploy", "serve", "spark", "verbs"),
    *("indexes", "project", "cli", "demo", "."),
]


def test_a_loop_without_a_bound_has_a_reason_to_end() -> None:
    found = set()
    for package in OVER_SHARED_STATE:
        for path in (ROOT / "anabranch" / package).glob("*.py"):
            for function in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                loops = [each for each in ast.walk(function) if isinstance(each, ast.While)]
                if any(ast.unparse(each.test) == "True" for each in loops):
                    place = path.relative_to(ROOT / "anabranch").as_posix()
                    found.add(f"{place} {function.name}")
    assert found == set(ENDLESS)


def test_nobody_else_counts_attempts() -> None:
    for path in sorted((ROOT / "anabranch").rglob("*.py")):
        counted = re.findall(r"range\(\w*(?:ATTEMPTS|TRIES|RETRIES)", path.read_text("utf-8"))
        assert not counted, f"{path.name}: use retry.attempts()"


def catches(loop: ast.For | ast.While) -> bool:
    handlers = [each for each in ast.walk(loop) if isinstance(each, ast.ExceptHandler)]
    return any(each.type and "PublishConflict" in ast.unparse(each.type) for each in handlers)

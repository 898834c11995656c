"""When a failed table is tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from anabranch.errors import (
    AnabranchError,
    DataError,
    InternalError,
    NotIncremental,
    PlanFailed,
    PublishConflict,
    RowsLost,
    SchemaError,
    Unreachable,
    UserError,
)
from anabranch.model import Status
from anabranch.refresh import failures
from anabranch.refresh.failures import Failure, after, mark
from tests.unit.scheduler.looks import NOW, name, state


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (DataError("division by zero"), True),
        (Unreachable("gone"), True),
        (InternalError("bug"), True),
        (PublishConflict("moved"), True),
        (RowsLost("fewer rows"), True),
        (PlanFailed("our plan"), False),
        (UserError("unknown"), False),
        (SchemaError("dropped"), False),
        (NotIncremental("never"), False),
    ],
)
def test_who_is_tried_again(error: AnabranchError, again: bool) -> None:
    """What an error says of itself is what is written down."""
    assert error.retryable is again
    look = state({"b": "a"}, b={"consecutive_errors": 2})
    table = name("b")
    found = after(look, look.streams[table], Failure(table, error, 5), 3, NOW)
    assert (found["next_retry_at"] is not None) is again
    assert (found["failed_mark"] is None) is again
    assert found["status"] is (Status.SUSPENDED if again else Status.ERROR)


def test_another_version_is_another_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    look = state({"b": "a"})
    before = mark(look, name("b"))
    monkeypatch.setattr(failures, "version", lambda: "a later one")
    assert mark(look, name("b")) != before


def test_what_is_written_down() -> None:
    look = state({"b": "a"}, b={"consecutive_errors": 1})
    table = name("b")
    stream = look.streams[table]
    lost = after(look, stream, Failure(table, Unreachable("gone"), 5), 3, NOW)
    assert (lost["status"], lost["consecutive_errors"], lost["failed_mark"]) == (
        Status.ERROR,
        2,
        None,
    )
    assert timedelta(seconds=1.6) <= lost["next_retry_at"] - NOW <= timedelta(seconds=2)
    final = after(look, stream, Failure(table, UserError("unknown"), 5), 1, NOW)
    assert (final["status"], final["next_retry_at"]) == (Status.ERROR, None)
    assert final["failed_mark"] == mark(look, table)


def test_the_limit_suspends_but_only_where_there_is_one() -> None:
    look = state({"b": "a"}, b={"consecutive_errors": 2})
    stream = look.streams[name("b")]
    failure = Failure(name("b"), DataError("division by zero"), 5)
    assert after(look, stream, failure, 3, NOW)["status"] is Status.SUSPENDED
    assert after(look, stream, failure, 4, NOW)["status"] is Status.ERROR
    assert after(look, stream, failure, None, NOW)["status"] is Status.ERROR


def test_a_circle_is_tried_again_when_a_source_of_any_member_changes() -> None:
    look = state({"a": "b x", "b": "a y", "c": "a"})
    moved = replace(look, pointers={**look.pointers, name("y"): "y-2"})
    assert mark(look, name("a")) != mark(moved, name("a"))
    assert mark(look, name("c")) == mark(moved, name("c"))

"""What every verb works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch import retry
from anabranch.errors import InvalidValue, PublishConflict
from anabranch.lake import foreign
from anabranch.retry import ATTEMPTS
from anabranch.runtime import Runtime
from anabranch.settings import Settings


def test_threads_follow_the_setting() -> None:
    nothing = cast(Any, None)
    runtime = Runtime(Settings().with_("parallelism", 1), nothing, nothing, nothing)
    assert runtime.workers.members is None and runtime.workers.coordinators is None
    runtime.settings = runtime.settings.with_("parallelism", 3)
    assert runtime.workers.size == 3 and runtime.workers.members is not None
    assert runtime.workers is runtime.workers


# -- holding a cut ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """As much of a world as a lease is about."""

    cut_id: int
    fresh: Any = None
    again: Any = None
    check_held: Any = None


@dataclass
class Forgetful:
    """Leases of cuts, the first of which upkeep has forgotten by the time they are asked for."""

    forgotten: int
    asked: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    @contextmanager
    def hold_cut(self, cut_id: int, seconds: float) -> Iterator[object]:
        self.asked.append(cut_id)
        if len(self.asked) <= self.forgotten:
            yield None
            return
        self.held.append(cut_id)
        try:
            yield object()
        finally:
            self.held.remove(cut_id)


def holding(monkeypatch: pytest.MonkeyPatch, forgotten: int) -> tuple[Runtime, Forgetful]:
    """A runtime in which each look finds a newer cut."""
    newest = iter(range(1, 1000))
    nothing = cast(Any, None)
    runtime = Runtime(Settings(), nothing, nothing, nothing)
    leases = Forgetful(forgotten)

    def look(cut: int | None = None) -> Shown:
        if cut is not None and leases.asked:
            raise InvalidValue(f"cut {cut} has expired")
        return Shown(next(newest) if cut is None else cut)

    monkeypatch.setitem(vars(runtime), "leases", leases)
    monkeypatch.setitem(vars(runtime), "world", look)
    monkeypatch.setattr(foreign, "observe_all", lambda lake: nullcontext())
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=lambda seconds: None))
    return runtime, leases


def test_the_newest_cut_is_held_although_upkeep_forgets_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime, leases = holding(monkeypatch, 3)
    with runtime.held() as world:
        assert (world.cut_id, leases.held) == (4, [4])
    assert leases.held == [] and leases.asked == [1, 2, 3, 4]


def test_nobody_tries_for_ever_to_hold_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, leases = holding(monkeypatch, 500)
    with (
        pytest.raises(PublishConflict, match=f"cut {ATTEMPTS} was forgotten"),
        runtime.held(),
    ):
        raise AssertionError("unreachable")
    assert len(leases.asked) == ATTEMPTS


def test_a_numbered_cut_that_was_forgotten_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, leases = holding(monkeypatch, 500)
    with pytest.raises(InvalidValue, match="cut 7 has expired"), runtime.held(7):
        raise AssertionError("unreachable")
    assert leases.asked == [7]


def test_a_lost_race_of_who_reads_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, leases = holding(monkeypatch, 0)
    with pytest.raises(PublishConflict, match="theirs"), runtime.held():
        raise PublishConflict("theirs")
    assert leases.asked == [1]

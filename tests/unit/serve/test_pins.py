"""Which cut a client of the server reads."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch import retry
from anabranch.catalog import cuts
from anabranch.errors import CutExpired, InvalidValue
from anabranch.retry import ATTEMPTS
from anabranch.serve import pins
from anabranch.serve.pins import Pins
from anabranch.serve.problems import Problem


class Forgetful:
    """A runtime whose upkeep is faster than the first leases, and the cuts that were asked for."""

    def __init__(self, forgotten: int) -> None:
        self.asked: list[int] = []
        self.forgotten = forgotten
        self.settings = SimpleNamespace(lease_time=1)
        self.leases = self
        self.lake = None
        self.store = SimpleNamespace(reading=lambda: nullcontext(self))

    def hold_cut(self, cut_id: int, seconds: float) -> Any:
        self.asked.append(cut_id)
        gone = len(self.asked) <= self.forgotten
        return nullcontext(None if gone else SimpleNamespace(cut_id=cut_id))


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look finds a newer cut, and nobody sleeps."""
    newest = iter(range(1, 1000))

    def check(c: object, cut_id: int) -> None:
        raise InvalidValue(f"cut {cut_id} has expired")

    monkeypatch.setattr(pins, "observed", lambda lake: nullcontext())
    monkeypatch.setattr(cuts, "current", lambda c: next(newest))
    monkeypatch.setattr(cuts, "check_recorded", check)
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=lambda seconds: None))


def test_the_newest_cut_is_one_that_could_be_held() -> None:
    runtime = Forgetful(3)
    assert Pins(cast(Any, runtime)).prefix("pinned") == "cut-4"
    assert runtime.asked == [1, 2, 3, 4]


def test_nobody_tries_for_ever_to_hold_the_newest_cut() -> None:
    runtime = Forgetful(500)
    with pytest.raises(Problem) as told:
        Pins(cast(Any, runtime)).prefix("pinned")
    assert told.value.status == 503 and f"cut {ATTEMPTS} has expired" in str(told.value)
    assert len(runtime.asked) == ATTEMPTS


def test_a_numbered_cut_that_has_expired_is_asked_for_once() -> None:
    runtime = Forgetful(500)
    with pytest.raises(CutExpired, match="cut 7 has expired"):
        Pins(cast(Any, runtime)).prefix("cut:7")
    assert runtime.asked == [7]

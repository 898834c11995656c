"""The one policy of trying again: who, how often, and after which pause.

Every class of error says in `errors` when work that it stopped is tried again:
- AT_ONCE: whoever does the work does it again with what is there now, up to `ATTEMPTS` times, after
  pauses that grow and are drawn by chance, so that rivals do not come in step.  A tick does not: the
  next tick does.  A refresh that still fails goes on as LATER.
- LATER: the scheduler tries the table again after `delay` seconds, each a little earlier by chance.
  After `max_consecutive_errors` the table is suspended.
- ON_CHANGE: when the table's query, anything it reads, or the version of Anabranch has changed.

    for attempt in attempts():
        with attempt:  # swallows what is tried at once, but for the last time
            return publish()
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from anabranch.errors import AnabranchError, Retry

ATTEMPTS = 20
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.28  # seconds, at most
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0  # seconds
JITTER = 0.2


def is_tried_at_once(error: BaseException | None) -> bool:
    return isinstance(error, AnabranchError) and error.retry is Retry.AT_ONCE


Errors = tuple[type[AnabranchError], ...]


@dataclass(frozen=True)
class Attempt:
    number: int  # from 0
    most: int = ATTEMPTS
    also: Errors = ()  # errors that others may have caused here, and that do not say so themselves

    @property
    def last(self) -> bool:
        return self.number == self.most - 1

    def swallows(self, error: BaseException | None) -> bool:
        if self.last or not isinstance(error, AnabranchError):
            return False
        return is_tried_at_once(error) or (error.retryable and isinstance(error, self.also))

    def pause(self) -> None:
        time.sleep(random.uniform(0, longest_pause(self.number)))

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not self.swallows(error):
            return False
        self.pause()
        return True


def attempts(most: int = ATTEMPTS, also: Errors = ()) -> Iterator[Attempt]:
    """The attempts of work that others may come between."""
    return (Attempt(number, most, also) for number in range(most))


def longest_pause(number: int) -> float:
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(number, 10)))


def delay(errors: int, chance: float | None = None) -> float:
    """Seconds to wait after so many failures in a row."""
    spread = random.uniform(-JITTER, 0) if chance is None else chance
    return float(min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(errors - 1, 10)) * (1 + spread))


def described(retry: Retry) -> str:
    """The policy in words, for people."""
    match retry:
        case Retry.AT_ONCE:
            return (
                f"at once, with what is there now, up to {ATTEMPTS} times; then after "
                f"{_delays()}; suspended after `max_consecutive_errors`"
            )
        case Retry.LATER:
            return f"after {_delays()}; suspended after `max_consecutive_errors`"
        case Retry.ON_CHANGE:
            return "when the query, a source or the version of Anabranch changes"


def _delays() -> str:
    first = ", ".join(f"{delay(errors, 0):g} s" for errors in (1, 2, 3))
    return f"{first} … {LONGEST_DELAY:g} s"

"""When a stream table is due: by hand, calculated from what reads it, every so often, or by cron."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from anabranch.durations import parse_duration, show_duration
from anabranch.errors import InvalidValue

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HINT = (
    "use a duration such as '2s', a cron text such as '*/5 * * * *' or '@hourly', or 'calculated'"
)

# [second] minute hour day-of-month month day-of-week
_FIELDS = (
    ("second", 0, 59),
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 7),
)
_NAMES = {
    "month": "jan feb mar apr may jun jul aug sep oct nov dec".split(),
    "day of week": "sun mon tue wed thu fri sat".split(),
}
_STEP = re.compile(r"(\*|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/(\d+))?\Z")


class ScheduleKind(str, Enum):
    BY_HAND = "by hand"
    CALCULATED = "calculated"
    EVERY = "every"
    CRON = "cron"


@dataclass(frozen=True)
class Schedule:
    """One of four kinds; `seconds` belongs to EVERY and `cron` to CRON."""

    kind: ScheduleKind
    seconds: float = 0.0
    cron: str = ""

    @classmethod
    def parse(cls, value: object) -> Schedule:
        if isinstance(value, Schedule):
            return value
        if value is None:
            return cls(ScheduleKind.BY_HAND)
        if not isinstance(value, str):
            return cls._every(value)
        text = " ".join(value.split())
        if text.lower() == "none":
            return cls(ScheduleKind.BY_HAND)
        if text.lower() == "calculated":
            return cls(ScheduleKind.CALCULATED)
        if text.startswith("@") or len(text.split()) >= 5:
            return cls(ScheduleKind.CRON, cron=check_cron(text))
        return cls._every(text)

    @classmethod
    def _every(cls, value: object) -> Schedule:
        try:
            seconds = parse_duration(value)
        except InvalidValue as error:
            raise InvalidValue(f"{value!r} is not a schedule: {error.message}", hint=HINT) from None
        if seconds == 0:
            raise InvalidValue(f"{value!r} is not a schedule: it never waits", hint=HINT)
        return cls(ScheduleKind.EVERY, seconds=seconds)

    @property
    def text(self) -> str | None:
        """As stored and shown; `parse(text)` gives the same schedule back."""
        if self.kind is ScheduleKind.BY_HAND:
            return None
        if self.kind is ScheduleKind.CALCULATED:
            return "calculated"
        return self.cron if self.kind is ScheduleKind.CRON else show_duration(self.seconds)

    def __str__(self) -> str:
        return self.text or "by hand"


def check_cron(text: str) -> str:
    """The text itself when it has the form of cron; raises what is wrong with it otherwise."""
    shorthand = text.lower()
    if shorthand.startswith("@"):
        if shorthand not in SHORTHANDS:
            raise InvalidValue(
                f"{text!r} is not a schedule", hint=f"known are {', '.join(SHORTHANDS)}"
            )
        return shorthand
    parts = text.lower().split()
    if len(parts) not in (5, 6):
        raise InvalidValue(
            f"cron text {text!r} has {len(parts)} fields",
            hint="write five: minute, hour, day of month, month, day of week; or six, seconds first",
        )
    for part, (name, low, high) in zip(parts, _FIELDS[-len(parts) :], strict=True):
        if not all(_fits(step, name, low, high) for step in part.split(",")):
            raise InvalidValue(
                f"cron text {text!r}: {part!r} is not a {name} between {low} and {high}", hint=HINT
            )
    return text


def _fits(step: str, name: str, low: int, high: int) -> bool:
    match = _STEP.match(step)
    if not match:
        return False
    first, last, every = match.groups()
    if every is not None and int(every) == 0:
        return False
    if first == "*" and last is not None:
        return False
    ends = [_number(end, name) for end in (first, last) if end not in (None, "*")]
    return all(end is not None and low <= end <= high for end in ends) and ends == sorted(
        ends, key=lambda end: end or 0
    )


def _number(text: str, name: str) -> int | None:
    names = _NAMES.get(name, [])
    if text in names:
        return names.index(text) + (1 if name == "month" else 0)
    return int(text) if text.isdigit() else None

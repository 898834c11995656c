"""When a stream table is due: by hand, calculated from what reads it, every so often, or by cron."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from cronsim import CronSim, CronSimError

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

_FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")


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

    def next_after(self, moment: datetime) -> datetime:
        """When a table that was refreshed at a moment is due again; cron texts mean UTC."""
        if self.kind is ScheduleKind.EVERY:
            return moment + timedelta(seconds=self.seconds)
        if self.kind is ScheduleKind.CRON:
            text = SHORTHANDS.get(self.cron, self.cron)
            return next(CronSim(text, moment.astimezone(timezone.utc)))
        return datetime.max.replace(tzinfo=timezone.utc)

    def __str__(self) -> str:
        return self.text or "by hand"


EVERY_TICK = Schedule(ScheduleKind.EVERY, seconds=0.0)  # of a calculated table nobody waits for


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
    try:
        CronSim(text, datetime(2000, 1, 1))
    except CronSimError as error:
        raise InvalidValue(f"cron text {text!r}: {_wrong(str(error), parts)}", hint=HINT) from None
    return text


def _wrong(said: str, parts: list[str]) -> str:
    """Which part is not what its place asks for: the library says `Bad day-of-month`."""
    name = said.removeprefix("Bad ").replace("-", " ")
    fields = _FIELDS[-len(parts) :]
    return f"{parts[fields.index(name)]!r} is not a {name}" if name in fields else said.lower()

"""Lengths of time as people write them: `2s`, `1h30m`, `500ms`, `7 days`."""

from __future__ import annotations

import re
from datetime import timedelta

from anabranch.errors import InvalidValue

UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_WORDS = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "milli", "millis", "millisecond", "milliseconds"),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words}
_PIECE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*,?")
LONGEST = 10_000 * UNITS["d"]
HINT = "write a number and a unit (w, d, h, m, s, ms), such as 90s, 1h30m or 7d"


def parse_duration(value: object) -> float:
    """Seconds; a bare number is taken as seconds, a text must name its units."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        seconds = _parse_text(value)
    else:
        raise InvalidValue(f"{value!r} is not a duration", hint=HINT)
    if not 0 <= seconds <= LONGEST:
        raise InvalidValue(f"{value!r} is not a duration between 0 and 10000 days", hint=HINT)
    return round(seconds, 3)


def _parse_text(text: str) -> float:
    seconds, at, used = 0.0, 0, set[str]()
    while match := _PIECE.match(text, at):
        number, word = match.groups()
        if not word:
            raise InvalidValue(f"{text!r} has no unit", hint=f"{number}s means {number} seconds")
        unit = None if word == "M" else _UNIT_OF.get(word.lower())  # M may mean months
        if unit is None:
            raise InvalidValue(f"{text!r} has an unknown unit {word!r}", hint=HINT)
        if unit in used:
            raise InvalidValue(f"{text!r} names the unit {unit!r} twice", hint=HINT)
        used.add(unit)
        seconds += float(number) * UNITS[unit]
        at = match.end()
    if at != len(text) or not used:
        raise InvalidValue(f"{text!r} is not a duration", hint=HINT)
    return seconds


def show_duration(seconds: float) -> str:
    """The shortest exact text: 5400 -> `1h30m`, 604800 -> `7d`."""
    rest, parts = round(seconds * 1000), list[str]()
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, round(UNITS[unit] * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"

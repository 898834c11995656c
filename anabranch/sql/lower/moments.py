"""Functions of the current time: within one refresh they all mean one moment.

The moment is written into the query in their place, so that its plan says what it was computed for:
another day is another query for one that names CURRENT_DATE, and every refresh is for NOW().
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.cache import cached
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class Moment:
    """A point in time, and the zone that says which day and hour it is."""

    at: datetime
    zone: str = "UTC"

    @classmethod
    def now(cls, zone: str) -> Moment:
        return cls(datetime.now(timezone.utc), zone)

    @classmethod
    def parse(cls, text: str) -> Moment:
        at, zone = text.split(" ", 1)
        return cls(datetime.fromisoformat(at), zone)

    def __str__(self) -> str:
        return f"{self.at.isoformat()} {self.zone}"

    @property
    def local(self) -> datetime:
        try:
            return self.at.astimezone(ZoneInfo(self.zone))
        except (ZoneInfoNotFoundError, ValueError):  # +02:00
            return self.at.astimezone(
                datetime.fromisoformat(f"2000-01-01T00:00:00{self.zone}").tzinfo
            )


def _day(moment: Moment) -> str:
    return f"DATE '{moment.local:%Y-%m-%d}'"


def _instant(moment: Moment) -> str:
    return f"TIMESTAMP '{moment.at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"


def _clock(moment: Moment) -> str:
    return f"TIMESTAMP_NTZ '{moment.local:%Y-%m-%d %H:%M:%S.%f}'"


def _seconds(moment: Moment) -> str:
    return f"{int(moment.at.timestamp())}L"


LITERALS: Mapping[str, Callable[[Moment], str]] = {
    "current_date": _day,
    "curdate": _day,
    "current_timestamp": _instant,
    "now": _instant,
    "localtimestamp": _clock,
    "unix_timestamp": _seconds,
}
_BARE = frozenset({"current_date", "current_timestamp"})  # Spark reads them without ()


def is_timely(text: str) -> bool:
    return bool(_calls(text))


def pinned(text: str, moment: Moment) -> str:
    """The text with every function of the current time replaced by its value at the moment."""
    for start, end, name in reversed(_calls(text)):
        text = text[:start] + LITERALS[name](moment) + text[end:]
    return text


@cached(1000)
def _calls(text: str) -> tuple[tuple[int, int, str], ...]:
    lower = text.lower()
    if not any(name in lower for name in LITERALS):
        return ()
    return tuple(_found(SourceText(text).tokens))


def _found(tokens: list[Token]) -> Iterator[tuple[int, int, str]]:
    for at, token in enumerate(tokens):
        name = token.text.lower()
        if name not in LITERALS or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        before = tokens[at - 1].text.upper() if at else ""
        after = [each.text for each in tokens[at + 1 : at + 3]]
        if before in (".", "AS") or after[:1] == ["."]:
            continue
        if after == ["(", ")"]:
            yield token.start, tokens[at + 2].end + 1, name
        elif name in _BARE and after[:1] != ["("]:
            yield token.start, token.end + 1, name

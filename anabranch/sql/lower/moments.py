"""Functions of the current time: within one refresh they all return the same moment.

The moment replaces them in the query, so that its plan says what it was computed for: with another day
a query with CURRENT_DATE is another query, and with NOW() every refresh has a query of its own.
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
    """A point in time, and the time zone for its day and hour."""

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
    for index, token in enumerate(tokens):
        name = token.text.lower()
        if name not in LITERALS or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        previous = tokens[index - 1].text.upper() if index else ""
        following = [next_token.text for next_token in tokens[index + 1 : index + 3]]
        if previous in (".", "AS") or following[:1] == ["."]:
            continue
        if following == ["(", ")"]:
            yield token.start, tokens[index + 2].end + 1, name
        elif name in _BARE and following[:1] != ["("]:
            yield token.start, token.end + 1, name

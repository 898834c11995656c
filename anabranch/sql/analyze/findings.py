"""What is wrong with a query, and where."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Finding:
    """Something wrong at an offset of the query's text."""

    start: int
    message: str
    hint: str | None = None
    unknown: bool = field(default=False, compare=False)  # there is nothing of that name

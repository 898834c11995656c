"""What is wrong with a query, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """Something wrong at an offset of the query's text."""

    start: int
    message: str
    hint: str | None = None

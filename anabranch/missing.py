"""Private parts of libraries that are not there, or not as they were: an event FALLBACK."""

from __future__ import annotations

from anabranch import noted as notes
from anabranch.noted import Note

FALLBACK = "FALLBACK"


def note(part: str, instead: str, error: BaseException) -> None:
    why = next(iter(str(error).splitlines()), "").strip()
    said = f"{part} cannot be used: {instead} ({type(error).__name__}: {why})"
    notes.note(Note(FALLBACK, said), part)


def waiting() -> dict[str, str]:
    """What is no event yet, by its part."""
    found = notes.waiting().items()
    return {part: each.message for (kind, part), each in found if kind == FALLBACK}


def noted() -> list[str]:
    """All that was said in this process."""
    return notes.said(FALLBACK)


def forget() -> None:
    """For tests."""
    notes.forget(FALLBACK)

"""Private parts of libraries that are not there, or not as they were: an event FALLBACK."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch import noted as notes
from anabranch.noted import Note

FALLBACK = "FALLBACK"
NOT_THERE: tuple[type[BaseException], ...] = (AttributeError, TypeError, ImportError)


@dataclass(frozen=True)
class Noting:
    """Note that a part is not there, and go on with what is done instead."""

    part: str
    instead: str

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or not self.is_missing(error):
            return False
        note(self.part, self.instead, error)
        return True

    def is_missing(self, error: BaseException) -> bool:
        return isinstance(error, NOT_THERE)


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

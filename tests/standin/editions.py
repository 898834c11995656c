"""Other editions of Anabranch in this process: other versions, and other plans for the same queries."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import edition
from anabranch.edition import Edition
from anabranch.refresh import definition, editions


def edition_is(patch: pytest.MonkeyPatch, version: str, code: str) -> Edition:
    """From here on this process is of that version."""
    found = Edition((version, "27", "4"), code)
    patch.setattr(edition, "current", lambda: found)
    editions._left.clear()
    return found


def other_plans(patch: pytest.MonkeyPatch, version: str, code: str) -> None:
    """The same, and it reads all queries in its own way."""
    edition_is(patch, version, code)
    definition._cache.clear()

    def fingerprint(*_: Any) -> str:
        return f"as {code} reads it"

    patch.setattr(definition, "fingerprint", fingerprint)

"""How far the rounds of a cycle or of a recursion may go: kept with its members, and the strictest of
them holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.catalog.streams import StreamTable
from anabranch.durations import show_duration
from anabranch.model import FixpointBound, FixpointBounds

BOUNDS = tuple(bound.value for bound in FixpointBound)


def bounds_of(streams: Iterable[StreamTable], settings: Mapping[str, Any]) -> FixpointBounds:
    """The strictest that a member says; where none says anything, the settings."""
    said = list(streams)

    def strictest(bound: FixpointBound) -> Any:
        own = [value for each in said if (value := getattr(each, bound.value)) is not None]
        return min(filter(None, own), default=0) if own else settings[bound.value]

    return FixpointBounds(
        *(
            strictest(bound)
            for bound in (FixpointBound.ROUNDS, FixpointBound.ROWS, FixpointBound.TIME)
        )
    )


def past(bound: FixpointBound, bounds: FixpointBounds) -> str:
    """The bound that was met, where the number of rounds does not tell it."""
    match bound:
        case FixpointBound.ROWS:
            return f" (max_fixpoint_rows is {bounds.rows:,})"
        case FixpointBound.TIME:
            return f" (max_fixpoint_time is {show_duration(bounds.seconds)})"
    return ""

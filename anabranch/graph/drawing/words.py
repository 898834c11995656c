"""How facts of a table are put in few words, the same in every drawing."""

from __future__ import annotations

from unicodedata import east_asian_width

from anabranch.graph.picture import Facts, PictureGroup, PictureTable

AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def age(seconds: float) -> str:
    """The largest unit alone: `12s old`, `3h old`."""
    for size, unit in AGES:
        if seconds >= size:
            return f"{int(seconds // size)}{unit} old"
    return "fresh"


def freshness(facts: Facts) -> str:
    return "never filled" if facts.staleness_seconds is None else age(facts.staleness_seconds)


def schedule(facts: Facts) -> str:
    return facts.schedule or "by hand"


def group_title(group: PictureGroup) -> str:
    declared = f" ({', '.join(group.declared)})" if group.declared else ""
    return f"group {group.number}{declared}"


def said(table: PictureTable) -> str:
    """One line under a table's name."""
    if table.facts is None:
        return table.kind
    return " · ".join((table.facts.status.lower(), schedule(table.facts), freshness(table.facts)))


def cells(text: str) -> int:
    """Columns on a terminal, or letters of a fixed width."""
    return sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def shortened(text: str, width: int) -> str:
    """The beginning and the end, which tell names apart, around an ellipsis."""
    if cells(text) <= width:
        return text
    head = (width - 1) // 2
    return text[:head] + "…" + text[len(text) - (width - 1 - head) :]

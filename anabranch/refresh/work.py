"""How many rows each way of a refresh would read: from plans and metadata, nothing is read for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from anabranch.delta.maintenance import ByGroups, ByRows, Combine, Maintenance, Replace
from anabranch.plan.nodes import Given, Node, Scan, Version
from anabranch.plan.walk import walk
from anabranch.refresh.cost import Work

if TYPE_CHECKING:
    from anabranch.refresh.definition import Definition
    from anabranch.refresh.sources import Sources


def in_full(definition: Definition, sources: Sources) -> Work:
    """Every scan of the query; a query that was not understood reads each source once."""
    if definition.kept is None:
        return Work(0, sources.rows)
    return Work(0, scanned([definition.kept.full], sources))


def from_changes(definition: Definition, sources: Sources, stored_rows: int) -> Work:
    """The delta, the stored rows it is laid upon, and what its plan reads of the sources again."""
    kept = definition.kept
    if kept is None or not sources.deltas:
        return Work(sources.delta_rows, stored_rows)
    if isinstance(kept, ByRows) and kept.monotone and sources.insert_only:
        stored_rows = 0  # the change is added as it is
    return Work(sources.delta_rows, stored_rows + scanned(plans(kept, sources), sources))


def plans(kept: Maintenance, sources: Sources) -> Iterator[Node]:
    """What is run to find the change of the stored rows."""
    changed = frozenset(sources.deltas)
    if isinstance(kept, ByRows):
        found = kept.delta(changed)
    elif isinstance(kept, Combine):
        found = kept.change(changed)
        if not sources.insert_only and any(state.deleted for state in kept.state):
            yield kept.rescan(_touched(kept))
    else:
        found = from_stored(kept, sources, kept.first.limit or 0) if kept.first else None
        if found is None:
            found = kept.touched(changed)
            if found is not None:
                yield kept.recompute(_touched(kept) if kept.keys else None)
    if found is not None:
        yield found


def from_stored(kept: Replace, sources: Sources, stored_rows: int) -> Node | None:
    """The first rows from those stored, where that takes reading less than all anew."""
    limit = kept.first.limit if kept.first else None
    whole = limit is not None and stored_rows < limit
    found = kept.from_stored(frozenset(sources.deltas), whole=whole)
    if found is None or scanned([found], sources) >= scanned([kept.recompute(None)], sources):
        return None
    return found


ROWS_PER_SCAN = 50_000  # planning and starting a scan takes as long as reading so many rows


def scanned(nodes: Iterable[Node], sources: Sources) -> int:
    """Rows that are read of the sources; a plan of many scans costs something without any rows.
    What is asked of a large table in several places is read in few looks."""
    scans = [scan for node in nodes for scan in _scans(sources.planned(node))]
    rows = sum(sources.rows_of(scan) for scan in scans if scan.version is not Version.DELTA)
    return rows + ROWS_PER_SCAN * max(len(scans) - 1, 0)


def _scans(plan: Node) -> list[Scan]:
    return [leaf for leaf in walk(plan) if isinstance(leaf, Scan)]


def _touched(kept: ByGroups) -> Given:
    return Given("keys", tuple(key.name for key in kept.keys))

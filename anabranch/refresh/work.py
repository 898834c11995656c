"""How many rows each way of a refresh would read: from plans and metadata, nothing is read for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from anabranch.delta.maintenance import ByGroups, ByRows, Combine, Replace
from anabranch.model import Columns
from anabranch.plan.nodes import Node, Parameter, Scan, Version
from anabranch.plan.statistics import NONE, Limits
from anabranch.plan.walk import walk
from anabranch.refresh.cost import Work
from anabranch.refresh.sources import Sources, plain

if TYPE_CHECKING:
    from anabranch.refresh.definition import Definition


def in_full(definition: Definition, sources: Sources) -> Work:
    """Every scan of the query; a query that was not understood reads each source once."""
    if definition.kept is None:
        return Work(0, sources.rows)
    return Work(0, scanned([(definition.kept.full, NONE)], sources))


def from_changes(definition: Definition, sources: Sources, stored_rows: int) -> Work:
    """The delta, the stored rows it is laid upon, and what its plan reads of the sources again."""
    kept = definition.kept
    if kept is None or not sources.deltas:
        return Work(sources.delta_rows, stored_rows)
    read = scanned(plans(definition, sources, stored_rows), sources)
    if isinstance(kept, ByRows) and kept.monotone and sources.insert_only:
        stored_rows = 0  # the change is added as it is
    return Work(sources.delta_rows, stored_rows + read)


Planned = tuple[Node, Limits]  # a plan, and what is known of the relation that is given to it


def plans(definition: Definition, sources: Sources, stored_rows: int) -> Iterator[Planned]:
    """What is run to find the change of the stored rows."""
    kept, changed = definition.kept, frozenset(sources.deltas)
    if isinstance(kept, ByRows):
        found = kept.delta(changed)
    elif isinstance(kept, Combine):
        found = kept.change(changed)
        lost = not sources.insert_only and any(state.deleted for state in kept.state)
        if found is not None and lost:
            yield kept.rescan(_touched(kept)), sources.ranges(found)
    else:
        assert isinstance(kept, Replace)
        found = from_stored(kept, definition.columns, sources, stored_rows)
        if found is None:
            found = kept.touched(changed)
            if found is not None:
                keys = _touched(kept) if kept.keys else None
                yield kept.recompute(keys), sources.ranges(found)
    if found is not None:
        yield found, NONE


def from_stored(kept: Replace, columns: Columns, sources: Sources, stored_rows: int) -> Node | None:
    """The first rows from those stored, where that takes reading less than all anew.  Equal rows are
    counted: their columns must be such that equal values are the same."""
    if kept.first is None or plain(columns) != {each.name for each in columns}:
        return None
    whole = stored_rows < (kept.first.limit or 0)
    found = kept.from_stored(frozenset(sources.deltas), complete=whole)
    if found is None:
        return None
    anew = scanned([(kept.recompute(None), NONE)], sources)
    return found if scanned([(found, NONE)], sources) < anew else None


ROWS_PER_SCAN = 50_000  # planning and starting a scan takes as long as reading so many rows


def scanned(planned: Iterable[Planned], sources: Sources) -> int:
    """Rows that are read of the sources; a plan of many scans costs something without any rows.
    What is asked of a large table in several places is read in few scans."""
    scans = [scan for node, limits in planned for scan in _scans(sources.planned(node, limits))]
    rows = sum(sources.rows_of(scan) for scan in scans if scan.version is not Version.DELTA)
    return rows + ROWS_PER_SCAN * max(len(scans) - 1, 0)


def _scans(plan: Node) -> list[Scan]:
    return [leaf for leaf in walk(plan) if isinstance(leaf, Scan)]


def _touched(kept: ByGroups) -> Parameter:
    return Parameter("keys", tuple(key.name for key in kept.keys))

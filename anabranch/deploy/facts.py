"""Two snapshots to facts.

A deleted object brings its schema and its readers from the old snapshot: its siblings and readers
become dirty, and a schema that loses its last object is dirty too.  It brings no cluster: nothing
has to be redone on a cluster because something has left it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from anabranch.deploy import rules
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.names import quote

Value = ObjectKey | str  # an object; a database, schema, index or cluster
Facts = dict[str, list[tuple[Value, ...]]]


class Change(str, Enum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


def changes(old: Snapshot, new: Snapshot) -> dict[ObjectKey, Change]:
    """Objects whose hash differs, sorted by name."""
    found: dict[ObjectKey, Change] = {}
    for key in sorted(old.objects.keys() | new.objects.keys()):
        before, after = old.objects.get(key), new.objects.get(key)
        if after is None:
            found[key] = Change.DELETED
        elif before is None:
            found[key] = Change.ADDED
        elif before.hash != after.hash:
            found[key] = Change.MODIFIED
    return found


def facts(old: Snapshot, new: Snapshot, changed: Iterable[ObjectKey]) -> Facts:
    """The base facts of the rules; `changed` may also be what somebody asks "what if" about."""
    deleted = [each for key, each in old.objects.items() if key not in new.objects]
    alive = list(new.objects.values())
    known = new.objects.keys() | old.objects.keys()
    gone = {each.key for each in deleted}
    return {
        rules.CHANGED: [(key,) for key in changed],
        rules.IN_SCHEMA: [(each.key, *each.key.place) for each in (*alive, *deleted)],
        rules.DEPENDS_ON: [
            *((each.key, parent) for each in alive for parent in each.reads if parent in known),
            *(
                (each.key, parent)
                for each in old.objects.values()
                for parent in each.reads & gone
                if each.key not in gone
            ),
        ],
        rules.USES_CLUSTER: [(each.key, each.cluster) for each in alive if each.cluster],
        rules.INDEX_USES_CLUSTER: [
            (each.key, index.name, index.cluster)
            for each in alive
            for index in each.indexes
            if index.cluster
        ],
    }


def other_rows(before: SnapshotObject | None, after: SnapshotObject | None) -> bool:
    """Does the definition alone give other rows?

    A cluster or an index does not.  Nor do other columns of a source table: it is altered in place,
    and stream tables whose query that touches follow by themselves.
    """
    if before is None or after is None or before.kind != after.kind:
        return True
    return after.kind != "table" and rows_form(before) != rows_form(after)


def rows_form(each: SnapshotObject) -> str:
    """The canonical form without the cluster."""
    if each.cluster is None:
        return each.canonical
    return each.canonical.replace(f" IN CLUSTER {quote(each.cluster)}", "", 1)

"""What a deployment does, step by step: `plan` prints this list, and stage and promote run it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from anabranch.catalog.deployment_state import PlannedStep
from anabranch.deploy.changeset import ChangeSet
from anabranch.deploy.facts import Change, rows_form
from anabranch.deploy.snapshot import ObjectKey, ObjectKind, SchemaKey, Snapshot, SnapshotObject
from anabranch.graph.components import components


class Action(str, Enum):
    """In the order of a deployment; stage does the first, promote the rest in one publish."""

    BUILD = "build"  # made in the staging schema, its rows computed from what is staged
    ALTER = "alter"  # a source table gets new columns, in place: it holds the user's data
    SWAP = "swap"  # what was built takes its place
    KEEP = "keep"  # dirty, but definition and inputs are the same: production's rows stay
    METADATA = "metadata"  # schedule, options, comments: no row changes
    DROP = "drop"  # the object goes
    END = "end"  # a schema has lost its last object


STAGED = (Action.BUILD,)


@dataclass(frozen=True)
class Step:
    """`rows` is how many rows a build is estimated to read."""

    action: Action
    key: ObjectKey | SchemaKey
    kind: ObjectKind | str
    why: str
    rows: int = 0

    @property
    def planned(self) -> PlannedStep:
        parts = tuple(self.key)
        return PlannedStep(self.action.value, str(self.key), parts, self.kind, self.why, self.rows)


def steps(
    old: Snapshot, new: Snapshot, found: ChangeSet, rows: Mapping[ObjectKey, int]
) -> tuple[Step, ...]:
    """The whole list, in order."""
    order = [key for key in in_order(new) if key in found.dirty | found.metadata]
    made = [step for key in order for step in _made(old, new.objects[key], found)]
    guess = _Guess(new, rows)
    made = [_estimated(step, guess) for step in made]
    gone = [key for key in reversed(in_order(old)) if key not in new.objects]
    dropped = [Step(Action.DROP, key, old.objects[key].kind, "it was deleted") for key in gone]
    left = {key.place for key in new.objects}
    ended = [
        Step(Action.END, place, "schema", "its last object was deleted")
        for place in sorted({key.place for key in gone} - left)
    ]
    rank = {action: at for at, action in enumerate(Action)}
    return tuple(sorted((*made, *dropped, *ended), key=lambda step: rank[step.action]))


def _made(old: Snapshot, each: SnapshotObject, found: ChangeSet) -> Iterable[Step]:
    key, kind = each.key, each.kind
    before = old.objects.get(key)
    if key in found.built:
        why = found.why_built(key)[-1]
        yield Step(Action.BUILD, key, kind, why)
        yield Step(Action.SWAP, key, kind, why)
    elif kind == "table" and key in found.changed and before and _reshaped(before, each):
        yield Step(Action.ALTER, key, kind, "its columns changed")
        yield Step(Action.KEEP, key, kind, "a source table keeps its rows")
    elif key in found.metadata or found.changed.get(key) is Change.MODIFIED:
        yield Step(Action.METADATA, key, kind, _only_metadata(before, each))
    elif key in found.dirty:
        yield Step(Action.KEEP, key, kind, found.why(key)[-1])


def _reshaped(before: SnapshotObject, after: SnapshotObject) -> bool:
    """Other columns; what somebody only asks about has none yet."""
    return before is after or rows_form(before) != rows_form(after)


def _only_metadata(before: SnapshotObject | None, after: SnapshotObject) -> str:
    assert before is not None
    parts = {
        "its cluster": before.cluster != after.cluster,
        "its indexes": before.indexes != after.indexes,
        "its options or comments": before.metadata != after.metadata,
    }
    return f"{' and '.join(part for part, differs in parts.items() if differs)} changed"


def _estimated(step: Step, guess: _Guess) -> Step:
    if step.action is not Action.BUILD or not isinstance(step.key, ObjectKey):
        return step
    read = guess.read_by(step.key) if step.kind == "stream table" else 0
    return Step(step.action, step.key, step.kind, step.why, read)


class _Guess:
    """Rows that objects hold: known ones, and for new ones no more than they read."""

    def __init__(self, snapshot: Snapshot, rows: Mapping[ObjectKey, int]) -> None:
        self.held = dict(rows)
        self.snapshot = snapshot
        for key in in_order(snapshot):
            if key not in rows:
                self.held[key] = self.read_by(key)

    def read_by(self, key: ObjectKey) -> int:
        return sum(self.held.get(parent, 0) for parent in self.snapshot.objects[key].reads)


def in_order(snapshot: Snapshot) -> list[ObjectKey]:
    """Every object after those it reads; members of a cycle stand side by side."""
    reads = {
        key: sorted(snapshot.objects[key].reads & snapshot.objects.keys())
        for key in sorted(snapshot.objects)
    }
    return [key for part in components(reads) for key in part.members]

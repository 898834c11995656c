"""The plan: what changed, what is dirty and why, and the steps that stage and promote will take."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.deployment_state import (
    Dirty,
    Planned,
    PlannedByHand,
    PlannedChange,
    PlannedRefusal,
)
from anabranch.deploy.changeset import ChangeSet, change_set, what_if
from anabranch.deploy.facts import Change
from anabranch.deploy.readers import Reader
from anabranch.deploy.select import chosen, merged
from anabranch.deploy.show import plan_text
from anabranch.deploy.snapshot import ObjectKey, Snapshot
from anabranch.deploy.steps import Action, Step, steps
from anabranch.errors import AnabranchError

NO_ROWS: Mapping[ObjectKey, int] = {}


@dataclass(frozen=True)
class Changed:
    """An object that was added, modified or deleted, with the difference of its SQL."""

    key: ObjectKey
    change: Change
    diff: str


@dataclass(frozen=True)
class Refusal:
    """`unless` is the option of stage by which somebody agrees; None: nobody can."""

    error: AnabranchError
    unless: str | None = None

    @property
    def planned(self) -> PlannedRefusal:
        return PlannedRefusal(self.error.message, self.error.hint, self.unless)

    def __str__(self) -> str:
        return (
            f"{self.error.message}\n    {self.error.hint}"
            if self.error.hint
            else self.error.message
        )


@dataclass(frozen=True)
class ByHand:
    """Something that somebody set on a table of the project, and what a promote makes of it."""

    key: ObjectKey
    what: str
    then: str

    @property
    def planned(self) -> PlannedByHand:
        return PlannedByHand(str(self.key), self.what, self.then)

    def __str__(self) -> str:
        return f"{self.what} {self.then}"


@dataclass(frozen=True)
class Plan:
    """From the deployed snapshot to the wanted one."""

    old: Snapshot
    new: Snapshot
    found: ChangeSet
    changed: tuple[Changed, ...]
    steps: tuple[Step, ...]
    clusters_changed: tuple[str, ...] = field(default=())
    readers: tuple[Reader, ...] = field(default=())  # outside of the project
    by_hand: tuple[ByHand, ...] = field(default=())
    refused: tuple[Refusal, ...] = field(default=())  # what stage will not do

    @property
    def empty(self) -> bool:
        return not self.steps and not self.clusters_changed

    @property
    def rows(self) -> int:
        return sum(step.rows for step in self.steps)

    def keys(self, *actions: Action) -> tuple[ObjectKey, ...]:
        """The objects of the steps of some actions, in their order."""
        return tuple(
            step.key
            for step in self.steps
            if step.action in actions and isinstance(step.key, ObjectKey)
        )

    def __str__(self) -> str:
        return plan_text(self)

    @property
    def planned(self) -> Planned:
        """All that it says, as the catalog keeps it with a deployment."""
        found = self.found
        return Planned(
            steps=tuple(step.planned for step in self.steps),
            clusters_changed=self.clusters_changed,
            empty=self.empty,
            changed=tuple(
                PlannedChange(str(each.key), each.change.value, each.diff) for each in self.changed
            ),
            dirty=tuple(
                Dirty(str(key), key not in found.propagating, found.why(key))
                for key in sorted(found.dirty)
            ),
            dirty_clusters=tuple(sorted(found.clusters)),
            dirty_schemas=tuple(str(place) for place in sorted(found.schemas)),
            metadata_only=tuple(str(key) for key in sorted(found.metadata)),
            readers=tuple(reader.planned for reader in self.readers),
            by_hand=tuple(each.planned for each in self.by_hand),
            refused=tuple(refusal.planned for refusal in self.refused),
            rows=self.rows,
        )

    def as_dict(self) -> dict[str, Any]:
        return self.planned.record()


def make_plan(
    old: Snapshot,
    new: Snapshot,
    *,
    select: Sequence[str] = (),
    rows: Mapping[ObjectKey, int] = NO_ROWS,
) -> Plan:
    """`select` takes only a part of the changes; the rest stays as it is deployed."""
    if select:
        new = merged(old, new, chosen((old, new), select))
    return _plan(old, new, change_set(old, new), rows)


def what_if_plan(
    new: Snapshot, keys: Collection[ObjectKey], *, rows: Mapping[ObjectKey, int] = NO_ROWS
) -> Plan:
    """As if these objects had been edited, and nothing else."""
    return _plan(new, new, what_if(new, keys), rows)


def _plan(old: Snapshot, new: Snapshot, found: ChangeSet, rows: Mapping[ObjectKey, int]) -> Plan:
    changed = tuple(
        Changed(key, change, _diff(old, new, key)) for key, change in sorted(found.changed.items())
    )
    clusters = tuple(
        name
        for name in sorted(old.clusters.keys() | new.clusters.keys())
        if old.clusters.get(name) != new.clusters.get(name)
    )
    return Plan(old, new, found, changed, steps(old, new, found, rows), clusters)


def _diff(old: Snapshot, new: Snapshot, key: ObjectKey) -> str:
    before, after = (
        each.sql.splitlines() if (each := snapshot.objects.get(key)) else []
        for snapshot in (old, new)
    )
    lines = difflib.unified_diff(before, after, "deployed", "project", lineterm="")
    return "\n".join(lines)

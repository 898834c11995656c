"""What people have set by hand on tables of a project: a plan says what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.catalog.deployment_state import Json
from anabranch.catalog.indexes import Index
from anabranch.deploy.build import declaration
from anabranch.deploy.indexes import Indexes
from anabranch.deploy.plan import ByHand, Plan
from anabranch.deploy.record import object_of
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.deploy.steps import Action
from anabranch.deploy.undo import OPTIONS
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.settings import Settings

Records = Mapping[ObjectKey, Json]


@dataclass(frozen=True)
class Production:
    """What the catalog says of tables besides their queries."""

    seen: CatalogState
    indexed: Indexes
    settings: Settings


def set_by_hand(now: Production, plan: Plan) -> Iterator[ByHand]:
    """Options and indexes that the project does not know, of all that the plan changes."""
    for key in sorted({*plan.keys(Action.SWAP, Action.METADATA, Action.ALTER, Action.DROP)}):
        before, after = plan.old.objects.get(key), plan.new.objects.get(key)
        if before is None:
            continue
        if after is not None and after.kind == "stream table":
            yield from _options(now, before, after)
        for index in unknown_indexes(now.indexed.get(key.table, ()), before, after):
            stays = after is not None and after.kind != "view"
            then = (
                "stays as long as the table has its columns"
                if stays
                else "is dropped with the table"
            )
            yield ByHand(key, f"index {index.name} ({', '.join(index.columns)})", then)


def _options(now: Production, before: SnapshotObject, after: SnapshotObject) -> Iterator[ByHand]:
    stream = now.seen.streams.get(after.key.table)
    if stream is None:
        return
    wanted = asdict(declaration(after, now.settings))
    for name in OPTIONS:
        said = before.options.get(name) != after.options.get(name) and bool(before.options)
        said = said or (name == "cluster" and before.cluster != after.cluster)
        if not said and getattr(stream, name) != wanted[name]:
            here, then = (_text(value) for value in (getattr(stream, name), wanted[name]))
            yield ByHand(after.key, f"{name} {here}", f"becomes {then}, as the project says")


def _text(value: Any) -> str:
    return "none" if value is None else str(getattr(value, "value", value))


def unknown_indexes(
    found: tuple[Index, ...], before: SnapshotObject | None, after: SnapshotObject | None
) -> list[Index]:
    """Indexes that neither what was deployed nor the project has."""
    known = {each.name for side in (before, after) if side is not None for each in side.indexes}
    return [each for each in found if each.name not in known]


def made_by_hand(
    records: Records, indexed: Indexes, snapshot: Snapshot
) -> Mapping[TableName, list[Index]]:
    """The indexes that a promote leaves on its tables, or builds again; `records` are those of what is
    deployed."""
    return {
        key.table: unknown_indexes(
            indexed.get(key.table, ()),
            object_of(key, records[key]) if key in records else None,
            each,
        )
        for key, each in snapshot.objects.items()
    }

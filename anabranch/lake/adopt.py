"""adopt: make a catalog the owner of the warehouse it is given, with an identity of its own.

For a copy or a restored catalog that shall go on by itself.  Files that name the place they were copied
or moved from are rewritten first; then, in one transaction, the catalog's rows change, and the mark
in the warehouse says who the owner is.  Whoever was it before finds another name there, and refuses.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import Connection

from anabranch.catalog import cuts, identity, snapshots
from anabranch.catalog.rows import change_values
from anabranch.catalog.snapshots import Record
from anabranch.errors import AnabranchError, Refused
from anabranch.lake import declared
from anabranch.lake.collect import files_of
from anabranch.lake.fence import RECOVER
from anabranch.lake.lake import Lake
from anabranch.lake.places import local_path
from anabranch.lake.publish import publish
from anabranch.lake.recorded import without
from anabranch.lake.relocate import Move, Relocation
from anabranch.lake.repair import table_folders
from anabranch.lake.stage import Stage
from anabranch.names import TableName


@dataclass(frozen=True)
class Adopted:
    """`files_rewritten`: those that named another place; `cuts_forgotten`: whose files are gone."""

    catalog: str
    warehouse: str
    moved_from: str | None
    files_rewritten: int
    cuts_forgotten: int


def adopt(lake: Lake, *, recovering: bool = False) -> Adopted:
    """Take the warehouse over; refused if the tables of the catalog are not in it.

    A catalog without tables refers to no file: upkeep would delete all that it took over.  So that is
    only for a recovery, which registers them.
    """
    lake.store.refuse_damaged()
    if not recovering and not lake.pointers() and table_folders(lake.warehouse):
        raise Refused(
            f"the catalog has no tables, and warehouse {lake.warehouse.location} is not empty: "
            "its files would be treated as garbage",
            hint=f"restore a backup of the catalog, or {RECOVER}",
        )
    former = lake.fence.former_location()
    move = Move(former, lake.warehouse.location) if former is not None else None
    _check_there(lake, move)
    with lake.store.reading() as c:
        records = list(snapshots.records(c))
    relocation = None
    if move is not None:
        relocation = relocate(lake, move, (record for _, record in records))
        records = [(table, relocation.value(record)) for table, record in records]
    moved = {
        name: move.path(location) if move is not None else location
        for name, location in lake.pointers().items()
    }
    broken = broken_snapshots(lake, moved)
    lost = _lost(lake, records)
    with lake.store.writing() as c:
        cuts.hold(c)
        _check_still(c, lake, moved, move)
        if relocation is not None:
            change_values(c, relocation.value)
        forgotten = cuts.forget(c, cuts.current(c)) if broken or lost else 0
        snapshots.forget(c, lost)
        lake.take_identity(identity.renew(c))
        lake.fence.write(cuts.current(c), replace=True)  # before the commit: rather nobody's
    _without_broken(lake, broken)
    if not recovering:  # it reads what the other catalog declared
        declared.save(lake)
    rewritten = relocation.rewritten if relocation is not None else 0
    return Adopted(
        lake.warehouse.catalog_uuid, lake.warehouse.location, former, rewritten, forgotten
    )


def relocate(
    lake: Lake, move: Move, records: Iterable[Record] = (), noted: set[str] | None = None
) -> Relocation:
    """Let the files of this warehouse name their own place; `records` are snapshots in rows.

    What is written is `noted` before.
    """
    warehouse = lake.warehouse
    written: list[str] = []

    def read(path: str) -> bytes:
        with warehouse.io.new_input(f"{move.new}/{path}").open() as stream:
            return stream.read()

    def write(path: str, data: bytes) -> None:
        if noted is not None:
            noted.add(f"{move.new}/{path}")
        replace_file(lake, f"{move.new}/{path}", data)
        written.append(f"{move.new}/{path}")

    relocation = Relocation(move, read, write)
    found = warehouse.listing(warehouse.location)
    relocation.run((path[len(warehouse.location) + 1 :] for path in found), records)
    warehouse.make_durable(written)
    return relocation


def replace_file(lake: Lake, location: str, data: bytes) -> None:
    """Whole or not at all; a copy made by hard links keeps what it has."""
    path = local_path(location)
    if path is None:
        with lake.warehouse.io.new_output(location).create(overwrite=True) as stream:
            stream.write(data)
        return
    aside = Path(f"{path}.{uuid.uuid4().hex}")
    aside.write_bytes(data)
    aside.replace(path)


def _check_there(lake: Lake, move: Move | None) -> None:
    """Every table of the catalog that lay in the warehouse must be found in it."""
    if move is None:
        return
    gone = [
        str(name)
        for name, location in sorted(lake.pointers().items())
        if (moved := move.path(location)) != location
        and not lake.warehouse.io.new_input(moved).exists()
    ]
    if gone:
        raise Refused(
            f"{gone[0]} and {len(gone) - 1} other tables of the catalog are not in warehouse "
            f"{lake.warehouse.location}"
            if len(gone) > 1
            else f"table {gone[0]} of the catalog is not in warehouse {lake.warehouse.location}",
            hint=f"copy the files from {move.old} first, or set warehouse to that place; "
            "`anabranch backup` and `anabranch restore` make a complete copy",
        )


def _check_still(
    c: Connection, lake: Lake, moved: Mapping[TableName, str], move: Move | None
) -> None:
    found = lake.pointers(c)
    now = {name: move.path(at) if move is not None else at for name, at in found.items()}
    if now != dict(moved):
        raise Refused(
            "another process wrote to this catalog while it was adopted",
            hint="stop it, and adopt again",
        )


def broken_snapshots(lake: Lake, pointers: Mapping[TableName, str]) -> dict[TableName, set[int]]:
    """Snapshots whose files are gone, as an older catalog may name some; refused for current ones."""
    there = set(lake.warehouse.listing(lake.warehouse.location))
    broken: dict[TableName, set[int]] = {}
    for name, location in pointers.items():
        version = lake.version(name, location)
        if not version.root.startswith(lake.warehouse.location + "/"):
            continue  # another program's, in a place of its own
        for snapshot_id in version.snapshot_ids:
            snapshot = version.snapshot(snapshot_id)
            assert snapshot is not None
            missing = _missing(lake, version.root, snapshot, there)
            if missing and snapshot_id == version.snapshot_id:
                raise Refused(
                    f"table {name} cannot be read: {missing} is missing",
                    hint="copy the warehouse again, or restore a backup with `anabranch restore`",
                )
            if missing:
                broken.setdefault(name, set()).add(snapshot_id)
    return broken


def _lost(lake: Lake, records: Iterable[tuple[str, Record]]) -> set[tuple[str, int]]:
    """Snapshots in rows whose files are gone, by table."""
    there = set(lake.warehouse.listing(lake.warehouse.location))
    lost = set()
    for table_uuid, record in records:
        snapshot = Snapshot.model_validate(record)
        root = snapshot.manifest_list.rpartition("/metadata/")[0]
        inside = root.startswith(lake.warehouse.location + "/")
        if inside and _missing(lake, root, snapshot, there):
            lost.add((table_uuid, snapshot.snapshot_id))
    return lost


def _missing(lake: Lake, root: str, snapshot: Snapshot, there: set[str]) -> str | None:
    try:
        named = list(files_of(lake.warehouse.io, root, snapshot, set()))
    except AnabranchError as error:
        return str(error.message)
    inside = (path for path in named if path.startswith(lake.warehouse.location + "/"))
    return next((path for path in inside if path not in there), None)


def _without_broken(lake: Lake, broken: Mapping[TableName, set[int]]) -> None:
    """Snapshots that cannot be read any more are no longer listed."""
    if not broken:
        return
    with Stage(lake) as stage:
        for name, gone in broken.items():
            stage.replace_metadata(name, without(stage.version(name).metadata, gone)[0])
        publish(stage, "adopt")

"""adopt: make a catalog the owner of the warehouse it is given, with an identity of its own.

For a copy or a restored catalog that shall go on by itself.  Files that name the place they were copied
or moved from are rewritten first; then, in one transaction, the catalog's rows change, and the mark
in the warehouse says who the owner is.  Whoever was it before finds another name there, and refuses.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table.update import RemoveSnapshotsUpdate, update_table_metadata
from sqlalchemy import Connection

from anabranch.catalog import cuts, identity
from anabranch.catalog.rows import change_values
from anabranch.errors import AnabranchError, Refused
from anabranch.lake.collect import files_of
from anabranch.lake.lake import Lake
from anabranch.lake.places import local_path
from anabranch.lake.publish import publish
from anabranch.lake.relocate import Move, Relocation
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.names import TableName


@dataclass(frozen=True)
class Adopted:
    """`files_rewritten`: those that named another place; `cuts_forgotten`: whose files are gone."""

    catalog: str
    warehouse: str
    moved_from: str | None
    files_rewritten: int
    cuts_forgotten: int


def adopt(lake: Lake) -> Adopted:
    """Take the warehouse over; refused if the tables of the catalog are not in it."""
    former = lake.fence.former_location()
    move = Move(former, lake.warehouse.location) if former is not None else None
    _check_there(lake, move)
    rewritten = relocate(lake, move) if move is not None else 0
    moved = {
        name: move.path(location) if move is not None else location
        for name, location in lake.pointers().items()
    }
    broken = broken_snapshots(lake, moved)
    with lake.store.writing() as c:
        cuts.hold(c)
        _check_still(c, lake, moved, move)
        if move is not None:
            change_values(c, move.value)
        forgotten = cuts.forget(c, cuts.current(c)) if broken else 0
        lake.take_identity(identity.renew(c))
        lake.fence.write(cuts.current(c), replace=True)  # before the commit: rather nobody's
    _without_broken(lake, broken)
    return Adopted(
        lake.warehouse.catalog_uuid, lake.warehouse.location, former, rewritten, forgotten
    )


def relocate(lake: Lake, move: Move) -> int:
    """Let the files of this warehouse name their own place; the number of files rewritten."""
    warehouse = lake.warehouse
    written: list[str] = []

    def read(path: str) -> bytes:
        with warehouse.io.new_input(f"{move.new}/{path}").open() as stream:
            return stream.read()

    def write(path: str, data: bytes) -> None:
        replace_file(lake, f"{move.new}/{path}", data)
        written.append(f"{move.new}/{path}")

    relocation = Relocation(move, read, write)
    found = warehouse.listing(warehouse.location)
    relocation.run(path[len(warehouse.location) + 1 :] for path in found)
    warehouse.make_durable(written)
    return relocation.rewritten


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
            "`anabranch backup` and `anabranch restore` make a copy that is whole",
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
            missing = _missing(lake, version, snapshot_id, there)
            if missing and snapshot_id == version.snapshot_id:
                raise Refused(
                    f"table {name} cannot be read: {missing} is missing",
                    hint="copy the warehouse again, or restore a backup with `anabranch restore`",
                )
            if missing:
                broken.setdefault(name, set()).add(snapshot_id)
    return broken


def _missing(lake: Lake, version: TableVersion, snapshot_id: int, there: set[str]) -> str | None:
    try:
        named = list(files_of(version, snapshot_id, set()))
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
            update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(gone)})
            metadata = stage.version(name).metadata
            stage.replace_metadata(name, update_table_metadata(metadata, (update,)))
        publish(stage, "adopt")

"""Recover: a catalog that is empty learns the tables of its warehouse again.

Metadata files tell columns, rows and history of a table.  They do not tell its query, schedule, groups,
indexes or views, nor that it was dropped: what was a stream table comes back as a source table.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from anabranch.catalog import cuts
from anabranch.errors import AnabranchError, Refused
from anabranch.lake.adopt import adopt
from anabranch.lake.damage import damages_of
from anabranch.lake.lake import Lake
from anabranch.lake.publish import publish
from anabranch.lake.repair import metadata_files, table_folders
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.names import TableName


@dataclass(frozen=True)
class Recovered:
    """`table` is None for a folder of which nothing can be registered; `detail` says why."""

    table: str | None
    folder: str
    metadata: str | None
    detail: str


def recover(lake: Lake) -> list[Recovered]:
    """Register the newest readable metadata file of every table, all in one publish."""
    if lake.pointers():
        raise Refused(
            "the catalog knows tables: it is not emptied",
            hint="anabranch check finds what is wrong; recover is for an empty catalog",
        )
    if rows := _as_recorded(lake):
        return rows
    folders = table_folders(lake.warehouse)
    newest: dict[TableName, TableVersion] = {}
    rows = []
    for folder in folders:
        name = _name(lake, folder)
        version = _readable(lake, name, folder) if name is not None else None
        if name is None or version is None:
            why = "no metadata file can be read" if name else "the folder's name is no table's name"
            rows.append(Recovered(None, folder, None, why))
        elif name in newest and _age(newest[name]) >= _age(version):
            rows.append(Recovered(None, folder, version.location, _older(name)))
        else:
            if name in newest:
                older = newest[name]
                rows.append(Recovered(None, older.root, older.location, _older(name)))
            newest[name] = version
    if newest:
        adopt(lake, recovering=True)
        _register(lake, newest)
    said = "registered; a query, schedule or index that it had is not known"
    found = [Recovered(str(n), v.root, v.location, said) for n, v in sorted(newest.items())]
    return [*found, *rows]


def _as_recorded(lake: Lake) -> list[Recovered]:
    """If only the rows of Iceberg are lost: every table as the newest cut had it, queries included."""
    with lake.store.reading() as c:
        known = cuts.newest(c)
    newest, rows = {}, []
    for name, location in sorted(known.items()):
        try:
            newest[name] = lake.version(name, location)
        except AnabranchError as error:
            rows.append(Recovered(None, location, None, f"{name}: {error.message}"))
    if newest:
        adopt(lake, recovering=True)
        _register(lake, newest)
    said = "registered as the newest cut had it"
    return [*(Recovered(str(n), v.root, v.location, said) for n, v in newest.items()), *rows]


def _register(lake: Lake, newest: dict[TableName, TableVersion]) -> None:
    with Stage(lake) as stage:
        for name, version in newest.items():
            stage.adopt(name, version.location)
        publish(stage, "recover")


def _name(lake: Lake, folder: str) -> TableName | None:
    """The folder of a table is named after it, with eight digits behind."""
    parts = folder[len(lake.warehouse.location) + 1 :].split("/")
    try:
        return TableName.parse(".".join([*parts[:-1], parts[-1].rpartition("-")[0] or parts[-1]]))
    except AnabranchError:
        return None


def _readable(lake: Lake, name: TableName, folder: str) -> TableVersion | None:
    """The newest by its time: after `adopt` a branch that was abandoned may have counted higher."""
    found = []
    for location in metadata_files(lake.warehouse, folder):
        with suppress(AnabranchError):
            found.append(lake.version(name, location))
    found.sort(key=_age, reverse=True)  # stable: of the same time the one that counts higher
    return next((each for each in found if not damages_of(lake, each)), None)


def _age(version: TableVersion) -> int:
    return int(version.metadata.last_updated_ms)


def _older(name: TableName) -> str:
    return f"an older table of the name {name}: left as it is"

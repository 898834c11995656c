"""Recover: a catalog that is empty learns the tables of its warehouse again.

Metadata files tell columns, rows and history of a table.  The file of declarations beside them tells
which are stream tables, with their queries and options, and views, groups, clusters and indexes.  What
the rows of a stream table follow nobody knows any more: it shows them as they are, and its next refresh
is in full; copies of indexes are made again.  A dropped table whose files are there still comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from anabranch.catalog import cuts
from anabranch.catalog import declared as declarations
from anabranch.catalog.declared import Declared
from anabranch.catalog.indexes import COPY_OF
from anabranch.errors import AnabranchError, Refused
from anabranch.lake.adopt import adopt
from anabranch.lake.damage import damages_of
from anabranch.lake.declared import names_in, read, save
from anabranch.lake.lake import Lake
from anabranch.lake.publish import publish
from anabranch.lake.repair import metadata_files, table_folders
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

SOURCE = "registered as a source table"
STREAM = "registered as a stream table: it shows the rows it had, and its next refresh is in full"
UNFILLED = "declared as a stream table; none of its rows can be read: its next refresh fills it"
UNKNOWN = "registered as a source table: no file records whether it had a query, schedule or index"
INDEX = "the copy of an index: anabranch check --repair recreates it"
LOST_INDEX = "the copy of an index of {0}: CREATE INDEX recreates it"


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
            "the catalog has tables: it is not overwritten",
            hint="anabranch check finds what is wrong; recover is for an empty catalog",
        )
    if rows := _as_recorded(lake):
        return rows
    declared = read(lake.warehouse)
    newest, rows = _newest(lake, names_in(declared))
    found = _sorted_out(newest, declared)
    if newest:
        adopt(lake, recovering=True)
        _register(lake, found.tables, declared)
        save(lake)
    return [*found.told, *rows]


def _newest(
    lake: Lake, known: Mapping[str, TableName]
) -> tuple[dict[TableName, TableVersion], list[Recovered]]:
    """The newest version of each name, by its folder if no file of ours tells; and what is left out."""
    newest: dict[TableName, TableVersion] = {}
    rows = []
    for folder in table_folders(lake.warehouse):
        name = known.get(folder[len(lake.warehouse.location) + 1 :]) or _name(lake, folder)
        version = _readable(lake, name, folder) if name is not None else None
        if name is None or version is None:
            why = (
                "no metadata file can be read" if name else "the folder's name is not a table name"
            )
            rows.append(Recovered(None, folder, None, why))
        elif name in newest and _age(newest[name]) >= _age(version):
            rows.append(Recovered(None, folder, version.location, _older(name)))
        else:
            if name in newest:
                older = newest[name]
                rows.append(Recovered(None, older.root, older.location, _older(name)))
            newest[name] = version
    return newest, rows


@dataclass(frozen=True)
class _Sorted:
    tables: Mapping[TableName, TableVersion]
    told: list[Recovered]


def _sorted_out(newest: Mapping[TableName, TableVersion], declared: Declared) -> _Sorted:
    """What becomes a table, and what is said of each folder."""
    streams, views = declarations.streams_in(declared), declarations.views_in(declared)
    taken = {str(each).lower(): each for each in (*views, *streams)}
    tables, copies, told = dict[TableName, TableVersion](), list[TableName](), list[Recovered]()
    for name, version in sorted(newest.items()):
        other = taken.get(str(name).lower(), name)
        if COPY_OF in version.metadata.properties:
            copies.append(name)
        elif other != name or name in views:
            said = f"a table that was dropped: its name is that of {other} now"
            told.append(Recovered(None, version.root, version.location, said))
        else:
            tables[name] = version
            said = STREAM if name in streams else SOURCE if declared else UNKNOWN
            told.append(Recovered(str(name), version.root, version.location, said))
    told += [Recovered(str(name), "", None, UNFILLED) for name in sorted(streams - {*tables})]
    by_id = {str(version.metadata.table_uuid): name for name, version in tables.items()}
    for name in copies:
        of = by_id.get(newest[name].metadata.properties[COPY_OF], "a table that is gone")
        said = INDEX if name in declarations.indexes_in(declared) else LOST_INDEX.format(of)
        told.append(Recovered(None, newest[name].root, newest[name].location, said))
    return _Sorted(tables, told)


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
    said = "registered as of the newest cut"
    return [*(Recovered(str(n), v.root, v.location, said) for n, v in newest.items()), *rows]


def _register(
    lake: Lake, newest: Mapping[TableName, TableVersion], declared: Declared | None = None
) -> None:
    def rows(c: Connection, cut_id: int | None) -> None:
        if declared is not None:
            declarations.put(c, declared, newest)

    with Stage(lake) as stage:
        for name, version in newest.items():
            stage.adopt(name, version.location)
        publish(stage, "recover", rows)


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
    return f"an older table named {name}: left as it is"

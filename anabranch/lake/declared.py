"""Declarations beside the tables: from this file `recover` knows the stream tables of a lost catalog.

The catalog is what counts.  The file is a copy of it, written after each transaction that changed a
declaration, and by upkeep should that not have come about; nobody reads it while there is a catalog.
"""

from __future__ import annotations

import json
from contextlib import suppress

from anabranch.catalog import cuts
from anabranch.catalog.declared import Declared, Row, dump
from anabranch.catalog.store import Connection
from anabranch.errors import AnabranchError
from anabranch.lake.lake import Lake
from anabranch.lake.places import MARKER, Warehouse
from anabranch.names import TableName

FILE = "anabranch-declared.json"
TABLES = "tables"


def keep(lake: Lake) -> None:
    """Write the file after every transaction that declares."""

    def written() -> None:
        with suppress(AnabranchError):  # what was declared stands, and upkeep writes the file
            save(lake)

    lake.store.on_declared = written


def save(lake: Lake) -> None:
    """Let the file say what the catalog does; a warehouse without tables gets none."""
    lake.fence.check()
    if lake.warehouse.take(MARKER) is None:
        return
    with lake.store.writing(durable=False) as c:
        cuts.hold(c)  # whoever comes later has read what is newer
        found = dump(c) | {TABLES: _folders(lake, c)}
        if lake.warehouse.take(FILE) != found:
            lake.warehouse.put(FILE, json.dumps(found, indent=1).encode(), replace=True)


def _folders(lake: Lake, c: Connection) -> list[Row]:
    """Names by the folders of their tables, which spell no name that is odd or long."""
    top, found = f"{lake.warehouse.location}/", lake.pointers(c).items()
    roots = {str(name): location.rpartition("/metadata/")[0] for name, location in found}
    return [
        {"name": name, "folder": root.removeprefix(top)}
        for name, root in sorted(roots.items())
        if root.startswith(top)
    ]


def read(warehouse: Warehouse) -> Declared:
    """What was declared; nothing if no file tells."""
    return warehouse.take(FILE) or {}


def names_in(declared: Declared) -> dict[str, TableName]:
    """The tables that there were, by their folders."""
    return {row["folder"]: TableName.parse(row["name"]) for row in declared.get(TABLES, ())}

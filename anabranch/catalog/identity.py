"""Which database a catalog lies in: a copy of all its rows, identity included, is another database."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select, text, update

from anabranch.catalog import tables
from anabranch.catalog.store import Store

_SERVER = "SELECT system_identifier FROM pg_control_system()"
_MAY_ASK = "SELECT has_function_privilege('pg_control_system()', 'execute')"
_PLACE = (
    "SELECT d.oid, CAST(CAST('ab_meta' AS regclass) AS oid) FROM pg_database d "
    "WHERE d.datname = current_database()"
)


@dataclass(frozen=True)
class Database:
    """`name` differs between copies; `file` also recognizes an SQLite file by another path."""

    name: str
    address: str  # for people
    file: str | None = None

    def is_same(self, name: str, file: str | None) -> bool:
        return self.name == name or (file is not None and self.file == file)


def database_of(store: Store) -> Database:
    if store.is_sqlite:
        path = Path(store.url.database or "")
        found = path.stat()
        return Database(os.path.realpath(path), store.shown, f"{found.st_dev}:{found.st_ino}")
    with store.reading() as c:
        asked = c.execute(text(_MAY_ASK)).scalar_one()
        server = c.execute(text(_SERVER)).scalar_one() if asked else "server"
        database, table = c.execute(text(_PLACE)).one()
    return Database(f"{server}/{database}/{table}", store.shown)


def catalog_uuid(c: Connection) -> str:
    return str(c.execute(select(tables.meta.c.catalog_uuid)).scalar_one())


def renew(c: Connection) -> str:
    """Give the catalog a new identity."""
    new = str(uuid.uuid4())
    c.execute(update(tables.meta).values(catalog_uuid=new))
    return new

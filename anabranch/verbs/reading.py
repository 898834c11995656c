"""Verbs that read tables: rows, names and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from anabranch.cut_view import CutView
from anabranch.errors import AnabranchError
from anabranch.listing import catalogs, status
from anabranch.model import Columns, TableKind
from anabranch.names import TableName
from anabranch.session import Session
from anabranch.spark.handed import handed_out
from anabranch.spark.rows import rows_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = {"table": "string", "kind": "string"}
DESCRIBED = {"column": "string", "type": "string", "nullable": "boolean", "comment": "string"}


def table(session: Session, name: str, where: str | None = None) -> DataFrame:
    return handed_out(session.world.table(name, where))


def query(session: Session, text: str) -> DataFrame:
    return handed_out(session.world.sql(text))


@contextmanager
def held(session: Session, cut: int | None = None) -> Iterator[CutView]:
    """One cut that stays readable until the end of the block."""
    with session.runtime.held(cut) as world:
        yield world


def tables(session: Session) -> list[dict[str, Any]]:
    """Every table, view and index, by name."""
    world = session.world
    streams = {row["name"]: row["status"] for row in status(session.store, session.settings)}
    copies = (str(index.copy) for each in world.indexes.values() for index in each)
    kinds = dict.fromkeys(copies, TableKind.INDEX.value)
    kinds |= {str(view): "view" for view in world.views}
    kinds |= dict.fromkeys(streams, TableKind.STREAM.value)
    source = TableKind.SOURCE.value
    foreign = (table for row in catalogs(session.store) for table in row["tables"])
    kinds |= dict.fromkeys(foreign, "foreign table")
    return [
        {"table": name, "kind": kinds.get(name, source), "status": streams.get(name)}
        for name in map(str, sorted(world.names()))
    ]


def columns(session: Session) -> dict[TableName, Columns]:
    """The columns of every table that can be read."""
    world, found = session.world, {}
    for name in sorted(world.pointers):
        with suppress(AnabranchError):  # another program may keep types that Spark lacks
            found[name] = world.version(name).columns
    return found


def show_tables(
    session: Session,
    schema: str | None = None,
    pattern: str | None = None,
    *,
    streams_only: bool = False,
) -> DataFrame:
    rows = [
        row
        for row in tables(session)
        if is_shown(TableName.parse(row["table"]), schema, pattern)
        if not streams_only or row["kind"] == "stream table"
    ]
    return rows_frame(session.runtime.spark.shared, rows, SHOWN)


def is_shown(name: TableName, schema: str | None, pattern: str | None) -> bool:
    if schema is not None and name.schema.lower() != schema.lower():
        return False
    return pattern is None or like(name.name, pattern)


def like(name: str, pattern: str) -> bool:
    """Spark's patterns: `*` stands for any letters, `|` parts choices; case does not count."""
    choices = (re.escape(each).replace(r"\*", ".*") for each in pattern.lower().split("|"))
    return any(re.fullmatch(each.strip(), name.lower()) for each in choices)


def describe(session: Session, name: TableName) -> DataFrame:
    """The columns of a table or view, and what is said of them."""
    world = session.world
    frame = world.table(str(name))
    found = world.find(name)
    stored = found is not None and found not in world.views
    said = world.version(found).comments if stored and found else {}
    rows = [
        {
            "column": field.name,
            "type": field.dataType.simpleString(),
            "nullable": field.nullable,
            "comment": said.get(field.name),
        }
        for field in frame.schema
    ]
    return rows_frame(session.runtime.spark.shared, rows, DESCRIBED)

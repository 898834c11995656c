"""The columns of a stream table, when those of its query have changed.

New columns and wider types are carried over.  A column that goes, gets another name or holds less is
refused: whoever reads the table counts on it.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.errors import SchemaError
from anabranch.lake.types import holds
from anabranch.model import Column, Columns
from anabranch.names import TableName, shown


def same_columns(stored: Columns, wanted: Columns) -> bool:
    return [(c.name, c.type) for c in stored] == [(c.name, c.type) for c in wanted]


def exactly(stored: Columns, wanted: Columns) -> bool:
    """The same, and NULL where it was."""
    return same_columns(stored, wanted) and [c.nullable for c in stored] == [
        c.nullable for c in wanted
    ]


def fitted(name: TableName, stored: Columns, wanted: Columns) -> Columns:
    """The columns that the table shall have for its query, or an error that says what is in the way."""
    if not carried(stored, wanted):
        have = ", ".join(f"{c.name} {c.type}" for c in stored)
        want = ", ".join(f"{c.name} {c.type}" for c in wanted)
        raise SchemaError(
            f"{name} has the columns ({have}) but its query now gives ({want})",
            hint=f"a source changed; ALTER STREAM TABLE {name} AS … takes the new columns over",
        )
    return relaxed(stored, wanted)


def relaxed(stored: Columns, wanted: Columns) -> Columns:
    """The wanted columns; one that could be NULL before still can, for the rows that are there."""
    nullable = {column.name for column in stored if column.nullable}
    return tuple(
        replace(column, nullable=column.nullable or column.name in nullable) for column in wanted
    )


def carried(stored: Columns, wanted: Columns) -> bool:
    """Whether every stored column is still there and holds at least what it held."""
    new = {column.name: column.type for column in wanted}
    return all(column.name in new and holds(column.type, new[column.name]) for column in stored)


def differences(old: Columns, new: Columns) -> list[str]:
    """What happened to the columns of a table, in words; fields are the same when their ids are."""
    before = {column.field_id: column for column in old}
    after = {column.field_id: column for column in new}
    gone = [
        f"{shown(column.name)} was dropped" for id_, column in before.items() if id_ not in after
    ]
    changed = [
        change for id_, column in after.items() if (change := _difference(before.get(id_), column))
    ]
    return [*gone, *changed]


def _difference(old: Column | None, new: Column) -> str | None:
    if old is None:
        return f"{shown(new.name)} {new.type} was added"
    if old.name != new.name:
        return f"{shown(old.name)} is now {shown(new.name)}"
    if old.type != new.type:
        return f"{shown(new.name)} {old.type} is now {new.type}"
    return None

"""Source tables hold the user's data: a deployment makes new ones and widens old ones, no more."""

from __future__ import annotations

from anabranch.deploy.snapshot import SnapshotObject
from anabranch.errors import Refused
from anabranch.lake.schemas import AddColumn, AllowNull, SchemaChange, WidenColumn
from anabranch.lake.types import to_iceberg, to_text
from anabranch.model import Column, Columns
from anabranch.names import shown
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateTable


def declared_columns(each: SnapshotObject) -> Columns:
    statement = parse_statement(each.sql)
    assert isinstance(statement, CreateTable)
    return tuple(Column(c.name, c.type, c.nullable) for c in statement.columns)


def changes(each: SnapshotObject, stored: Columns) -> list[SchemaChange]:
    """How a table becomes what is declared; what would lose or break rows is refused."""
    declared = {column.name.lower(): column for column in declared_columns(each)}
    existing = {column.name.lower(): column for column in stored}
    table = each.key.table
    for name, column in existing.items():
        if name not in declared:
            raise Refused(
                f"{table} has a column {shown(column.name)} that the project does not declare",
                hint=f"declare it, or ALTER TABLE {table} DROP COLUMN {shown(column.name)}",
            )
    needed: list[SchemaChange] = []
    for name, column in declared.items():
        if name not in existing:
            needed.append(AddColumn(column))
        else:
            needed += _changed(each, existing[name], column)
    return needed


def lacks(each: SnapshotObject, stored: Columns) -> bool:
    """Has somebody dropped a column that is declared?  Columns that are there besides are theirs."""
    there = {column.name.lower() for column in stored}
    return any(name.lower() not in there for name, _ in each.columns)


def _changed(each: SnapshotObject, before: Column, after: Column) -> list[SchemaChange]:
    needed: list[SchemaChange] = []
    if before.nullable and not after.nullable:
        raise Refused(
            f"column {shown(before.name)} of {each.key} may hold NULLs already",
            hint="declare it without NOT NULL",
        )
    if _type(before) != _type(after):
        needed.append(WidenColumn(before.name, after.type))
    if after.nullable and not before.nullable:
        needed.append(AllowNull(before.name))
    return needed


def _type(column: Column) -> str:
    return to_text(to_iceberg(column.type))

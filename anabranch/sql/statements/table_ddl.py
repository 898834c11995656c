"""CREATE, ALTER and DROP of tables and views."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anabranch.errors import InvalidValue, Unsupported
from anabranch.names import RESERVED_PREFIX, TableName, shown
from anabranch.sql.statements.column_types import read_type
from anabranch.sql.statements.records import (
    AddColumn,
    AlterTable,
    ColumnDef,
    CreateTable,
    CreateTableAs,
    CreateView,
    DropColumn,
    DropTable,
    DropView,
    RenameColumn,
    Statement,
    TableChange,
    WidenColumn,
)
from anabranch.sql.text.cursor import Cursor

FORMATS = ("ICEBERG", "PARQUET")  # the files are Parquet, the table is Iceberg
REFUSED_COLUMN_CLAUSES = (
    ("DEFAULT",), ("GENERATED",), ("PRIMARY", "KEY"), ("REFERENCES",), ("UNIQUE",), ("CHECK",),
    ("CONSTRAINT",), ("MASK",), ("COLLATE",),
)  # fmt: skip
REFUSED_TABLE_CLAUSES = (
    ("PARTITIONED", "BY"), ("CLUSTERED", "BY"), ("CLUSTER", "BY"), ("SORTED", "BY"),
    ("TBLPROPERTIES",), ("LOCATION",), ("OPTIONS",), ("STORED", "AS"), ("STORED", "BY"),
    ("ROW", "FORMAT"), ("DEFAULT", "COLLATION"), ("LIKE",), ("WITH",),
)  # fmt: skip
REFUSED_CONSTRAINTS = (("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE", "("), ("CHECK", "("))


def refuse(cursor: Cursor, clauses: Iterable[tuple[str, ...]], where: str) -> None:
    for clause in clauses:
        if cursor.at(*clause):
            name = " ".join(word for word in clause if word.isalpha())
            raise Unsupported(f"{name} is not supported in {where}")


def not_reserved(name: str) -> str:
    if name.lower().startswith(RESERVED_PREFIX):
        raise InvalidValue(
            f"column {shown(name)} may not start with {RESERVED_PREFIX}",
            hint="that prefix is reserved for columns of Anabranch itself",
        )
    return name


def no_repeats(names: Iterable[str]) -> None:
    """Column names differ in more than case, as in Spark."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidValue(f"column {shown(name)} appears twice")
        seen.add(name.lower())


def create_table(cursor: Cursor, or_replace: bool) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.table_name()
    columns = _columns(cursor) if cursor.at("(") else ()
    comment = _table_clauses(cursor)
    if cursor.at("AS") or cursor.at_any("SELECT", "WITH"):
        if columns:
            raise Unsupported(
                "CREATE TABLE … AS takes its columns from the query",
                hint="leave the column list out, or CREATE TABLE and then INSERT",
            )
        cursor.accept("AS")
        query = cursor.query()
        return CreateTableAs(name, query.text, if_not_exists, or_replace, comment, query.at)
    if not columns:
        raise cursor.error("the columns in brackets, or AS and a query")
    cursor.expect_end()
    return CreateTable(name, columns, if_not_exists, or_replace, comment)


def _columns(cursor: Cursor) -> tuple[ColumnDef, ...]:
    columns = cursor.bracketed(lambda: _column(cursor))
    no_repeats(column.name for column in columns)
    return columns


def _column(cursor: Cursor) -> ColumnDef:
    refuse(cursor, REFUSED_CONSTRAINTS, "CREATE TABLE")
    if cursor.at("CONSTRAINT") and any(
        cursor.peek(2).says(word) for word in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK")
    ):
        raise Unsupported("CONSTRAINT is not supported in CREATE TABLE")
    return read_column(cursor)


def read_column(cursor: Cursor) -> ColumnDef:
    name = not_reserved(cursor.identifier("a column's name"))
    if cursor.at("."):
        raise Unsupported(f"a field inside column {shown(name)} cannot be declared or changed")
    type_ = read_type(cursor)
    nullable, comment = True, None
    while not cursor.at_any(",", ")", "FIRST", "AFTER") and not cursor.ended():
        refuse(cursor, REFUSED_COLUMN_CLAUSES, f"the definition of column {shown(name)}")
        if nullable and cursor.accept("NOT", "NULL"):
            nullable = False
        elif comment is None and cursor.accept("COMMENT"):
            comment = cursor.string()
        else:
            raise cursor.error('NOT NULL, COMMENT, "," or ")"')
    return ColumnDef(name, type_, nullable, comment)


def _table_clauses(cursor: Cursor) -> str | None:
    """USING and COMMENT, in any order; everything else is refused by name."""
    comment: str | None = None
    while True:
        refuse(cursor, REFUSED_TABLE_CLAUSES[:-1], "CREATE TABLE")
        if cursor.accept("USING"):
            made_with = cursor.identifier("a format")
            if made_with.upper() not in FORMATS:
                raise Unsupported(
                    f"USING {made_with} is not supported", hint="leave it out, or USING iceberg"
                )
        elif cursor.accept("COMMENT"):
            comment = cursor.string()
        else:
            return comment


def drop_table(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name()
    cursor.accept("PURGE")  # dropped files go when nothing needs them any more, purge or not
    return DropTable(name, if_exists, cascade(cursor))


def cascade(cursor: Cursor) -> bool:
    """Whether what reads it goes too; nothing else may follow."""
    cascades = cursor.accept("CASCADE")
    if not cascades:
        cursor.accept("RESTRICT")
    cursor.expect_end()
    return cascades


def create_view(cursor: Cursor, or_replace: bool) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.table_name()
    columns = cursor.bracketed(lambda: _view_column(cursor)) if cursor.at("(") else None
    no_repeats(columns or ())
    comment = cursor.string() if cursor.accept("COMMENT") else None
    refuse(cursor, REFUSED_TABLE_CLAUSES, "CREATE VIEW")
    cursor.expect("AS")
    query = cursor.query()
    return CreateView(name, query.text, or_replace, if_not_exists, columns, comment, query.at)


def _view_column(cursor: Cursor) -> str:
    name = not_reserved(cursor.identifier("a column's name"))
    refuse(cursor, [("COMMENT",)], "the columns of CREATE VIEW")
    return name


def drop_view(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.table_name()
    return DropView(name, if_exists, cascade(cursor))


def alter_table(cursor: Cursor) -> Statement:
    name = cursor.table_name()
    verbs: dict[str, Callable[[Cursor, TableName], tuple[TableChange, ...]]] = {
        "ADD": _add, "DROP": _drop, "RENAME": _rename, "ALTER": _widen, "CHANGE": _widen,
    }  # fmt: skip
    for verb, read in verbs.items():
        if cursor.accept(verb):
            changes = read(cursor, name)
            with_readers = verb == "DROP" and cascade(cursor)
            cursor.expect_end()
            return AlterTable(name, changes, with_readers)
    raise Unsupported(
        f"ALTER TABLE … {cursor.token.text.upper()} is not supported",
        hint="possible: ADD COLUMN, DROP COLUMN, RENAME COLUMN a TO b, ALTER COLUMN a TYPE t",
    )


def _columns_word(cursor: Cursor, verb: str) -> None:
    if not (cursor.accept("COLUMN") or cursor.accept("COLUMNS")):
        raise Unsupported(
            f"ALTER TABLE … {verb} {cursor.token.text.upper()} is not supported",
            hint=f"possible: {verb} COLUMN",
        )


def _add(cursor: Cursor, table: TableName) -> tuple[TableChange, ...]:
    _columns_word(cursor, "ADD")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")

    def column() -> AddColumn:
        column = read_column(cursor)
        if not column.nullable:
            raise Unsupported(
                f"column {shown(column.name)} cannot be added as NOT NULL",
                hint="rows that are already there would have no value; leave NOT NULL out",
            )
        refuse(cursor, [("FIRST",), ("AFTER",)], "ALTER TABLE … ADD COLUMN")
        return AddColumn(column, if_not_exists)

    added = cursor.bracketed(column) if cursor.at("(") else cursor.listed(column)
    no_repeats(change.column.name for change in added)
    return added


def _drop(cursor: Cursor, table: TableName) -> tuple[TableChange, ...]:
    _columns_word(cursor, "DROP")
    if_exists = cursor.accept("IF", "EXISTS")

    def column() -> DropColumn:
        return DropColumn(_top_level(cursor), if_exists)

    return cursor.bracketed(column) if cursor.at("(") else cursor.listed(column)


def _rename(cursor: Cursor, table: TableName) -> tuple[TableChange, ...]:
    if cursor.at("TO"):
        raise Unsupported(f"table {table} cannot be renamed", hint="create another one from it")
    cursor.expect("COLUMN")
    old = _top_level(cursor)
    cursor.expect("TO")
    return (RenameColumn(old, not_reserved(_top_level(cursor))),)


def _widen(cursor: Cursor, table: TableName) -> tuple[TableChange, ...]:
    cursor.accept("COLUMN")
    name = _top_level(cursor)
    if not cursor.accept("TYPE"):
        raise Unsupported(
            f"ALTER COLUMN … {cursor.token.text.upper()} is not supported",
            hint="possible: ALTER COLUMN a TYPE t",
        )
    return (WidenColumn(name, read_type(cursor)),)


def _top_level(cursor: Cursor) -> str:
    parts = cursor.parts("a column's name")
    if len(parts) > 1:
        raise Unsupported(f"a field inside column {shown(parts[0])} cannot be changed")
    return parts[0]

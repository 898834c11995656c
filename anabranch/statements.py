"""SQL statements, each handed to the verb that does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anabranch.engine.rows import rows_frame
from anabranch.errors import Unsupported
from anabranch.lake import schemas
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.sources import tables, write
from anabranch.sources.write import Changed
from anabranch.sql import statement_records as s
from anabranch.sql.parse import split
from anabranch.sql.statements import parse_statement

if TYPE_CHECKING:
    from anabranch.api import Anabranch

Done = dict[str, Any]


def run(ab: Anabranch, text: str) -> Any:
    """All statements are parsed before the first runs."""
    parsed = [parse_statement(passage) for passage in split(text)]
    answer: Any = None
    for statement in parsed:
        answer = VERBS[type(statement)](ab, statement)
    return answer


def _query(ab: Anabranch, statement: s.Query) -> Any:
    return ab._world().sql(statement.text)


def _create_table(ab: Anabranch, statement: s.CreateTable) -> Done:
    tables.create_table(
        ab._runtime,
        statement.name,
        tuple(_column(each) for each in statement.columns),
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
    )
    return {"statement": "CREATE TABLE", "table": str(statement.name)}


def _create_table_as(ab: Anabranch, statement: s.CreateTableAs) -> Done:
    tables.create_table(
        ab._runtime,
        statement.name,
        (),
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
        query=statement.query,
    )
    return {"statement": "CREATE TABLE", "table": str(statement.name)}


def _column(given: s.ColumnDef) -> Column:
    return Column(given.name, given.type, given.nullable)


def _drop_table(ab: Anabranch, statement: s.DropTable) -> Done:
    tables.drop_table(ab._runtime, statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP TABLE", "table": str(statement.name)}


def _alter_table(ab: Anabranch, statement: s.AlterTable) -> Done:
    tables.alter_table(
        ab._runtime, statement.name, [_schema_change(each) for each in statement.changes]
    )
    return {"statement": "ALTER TABLE", "table": str(statement.name)}


def _schema_change(change: s.TableChange) -> schemas.SchemaChange:
    if isinstance(change, s.AddColumn):
        return schemas.AddColumn(_column(change.column))
    if isinstance(change, s.DropColumn):
        return schemas.DropColumn(change.name)
    if isinstance(change, s.RenameColumn):
        return schemas.RenameColumn(change.old, change.new)
    return schemas.WidenColumn(change.name, change.type)


def _written(verb: str, act: Callable[[Any, Any], Changed]) -> Callable[[Anabranch, Any], Done]:
    def do(ab: Anabranch, statement: Any) -> Done:
        changed = act(ab._runtime, statement)
        return {
            "statement": verb,
            "table": str(changed.table),
            "rows_inserted": changed.inserted,
            "rows_deleted": changed.deleted,
        }

    return do


def _create_view(ab: Anabranch, statement: s.CreateView) -> Done:
    tables.create_view(
        ab._runtime,
        statement.name,
        statement.query,
        columns=statement.columns,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "CREATE VIEW", "view": str(statement.name)}


def _drop_view(ab: Anabranch, statement: s.DropView) -> Done:
    tables.drop_view(ab._runtime, statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP VIEW", "view": str(statement.name)}


def _create_stream_table(ab: Anabranch, statement: s.CreateStreamTable) -> Done:
    if statement.cluster is not None:
        raise Unsupported("IN CLUSTER is not available yet", hint="leave it out")
    ab.create_stream_table(
        str(statement.name),
        statement.query,
        schedule=statement.schedule,
        refresh_mode=statement.refresh_mode.value,
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
        **_options(statement.options),
    )
    return {"statement": "CREATE STREAM TABLE", "table": str(statement.name)}


def _options(given: Any) -> dict[str, Any]:
    known = {"initialize", "diamond_consistency", "diamond_schedule_policy"}
    for name in given:
        if name not in known:
            raise Unsupported(f'there is no option "{name}"', hint=f"known: {', '.join(known)}")
    options = dict(given)
    if "initialize" in options:
        options["initialize"] = options["initialize"].lower() == "true"
    return options


def _alter_stream_table(ab: Anabranch, statement: s.AlterStreamTable) -> Done:
    change, name = statement.change, str(statement.name)
    if isinstance(change, s.SetSchedule):
        ab.alter_stream_table(name, schedule=change.schedule)
    elif isinstance(change, s.SetRefreshMode):
        ab.alter_stream_table(name, refresh_mode=change.refresh_mode)
    elif isinstance(change, s.SetQuery):
        ab.alter_stream_table(name, query=change.query)
    elif isinstance(change, s.SetOptions):
        ab.alter_stream_table(name, **_options(change.options))
    else:
        suspended = isinstance(change, s.Suspend)
        ab.alter_stream_table(name, status="SUSPENDED" if suspended else "ACTIVE")
    return {"statement": "ALTER STREAM TABLE", "table": name}


def _drop_stream_table(ab: Anabranch, statement: s.DropStreamTable) -> Done:
    ab.drop_stream_table(
        str(statement.name), cascade=statement.cascade, if_exists=statement.if_exists
    )
    return {"statement": "DROP STREAM TABLE", "table": str(statement.name)}


def _refresh(ab: Anabranch, statement: s.RefreshStreamTable) -> list[dict[str, Any]]:
    return ab.refresh(str(statement.name) if statement.name is not None else None)


def _explain(ab: Anabranch, statement: s.ExplainStreamTable) -> str:
    return ab.explain(str(statement.name))


def _set(ab: Anabranch, statement: s.Set) -> Any:
    if statement.name is None:
        return ab.settings()
    if statement.value is None:
        return [row for row in ab.settings() if row["name"] == statement.name]
    ab.set(statement.name, statement.value)
    return {"statement": "SET", "name": statement.name, "value": statement.value}


def _show_tables(ab: Anabranch, statement: s.ShowTables) -> Any:
    streams = {row["name"] for row in ab.status()}
    world = ab._world()
    rows = [
        {"table": str(name), "kind": _kind(name, str(name) in streams, name in world.views)}
        for name in sorted(world.names())
        if statement.schema is None or name.schema == statement.schema
        if not statement.streams_only or str(name) in streams
    ]
    return rows_frame(ab.spark, rows, {"table": "string", "kind": "string"})


def _kind(name: TableName, stream: bool, view: bool) -> str:
    return "stream table" if stream else "view" if view else "source table"


def _describe(ab: Anabranch, statement: s.Describe) -> Any:
    frame = ab._world().table(str(statement.name))
    rows = [
        {"column": field.name, "type": field.dataType.simpleString(), "nullable": field.nullable}
        for field in frame.schema
    ]
    return rows_frame(ab.spark, rows, {"column": "string", "type": "string", "nullable": "boolean"})


VERBS: dict[type[s.Statement], Callable[[Anabranch, Any], Any]] = {
    s.Query: _query,
    s.CreateTable: _create_table,
    s.CreateTableAs: _create_table_as,
    s.DropTable: _drop_table,
    s.AlterTable: _alter_table,
    s.Insert: _written("INSERT", write.insert),
    s.Update: _written("UPDATE", write.update),
    s.Delete: _written("DELETE", write.delete),
    s.Merge: _written("MERGE", write.merge),
    s.CreateView: _create_view,
    s.DropView: _drop_view,
    s.CreateStreamTable: _create_stream_table,
    s.AlterStreamTable: _alter_stream_table,
    s.DropStreamTable: _drop_stream_table,
    s.RefreshStreamTable: _refresh,
    s.ExplainStreamTable: _explain,
    s.Set: _set,
    s.ShowTables: _show_tables,
    s.Describe: _describe,
}

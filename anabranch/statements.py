"""SQL statements, each handed to the verb that does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anabranch import clusters
from anabranch.catalog.clusters import Cluster
from anabranch.errors import AnabranchError, InvalidValue, Refused, Unsupported
from anabranch.lake import schemas
from anabranch.lake.comments import TABLE
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.spark.handed import handed_out
from anabranch.spark.rows import rows_frame
from anabranch.sql.statements import records as s
from anabranch.sql.text.batches import batches
from anabranch.tables import catalogs, indexes
from anabranch.tables import dml as write
from anabranch.tables import source_tables as tables
from anabranch.tables.comments import comment_on
from anabranch.tables.dml import Changed
from anabranch.tables.drop import Kind, drop
from anabranch.tables.options import written_options

if TYPE_CHECKING:
    from anabranch.api import Anabranch

Done = dict[str, Any]


def run(ab: Anabranch, text: str) -> Any:
    """All statements are parsed before the first runs; the answer is that of the last.

    Each is a change of its own: an error says which of several stopped, and what stands.
    """
    answer: Any = None
    done, script = 0, batches(text)
    count = sum(len(batch.statements) for batch in script)
    for batch in script:
        first = batch.statements[0]
        try:
            if len(batch.statements) > 1:
                answer = _create_stream_tables(ab, batch.statements)
            else:
                answer = VERBS[type(first)](ab, first)
        except AnabranchError as error:
            if count > 1:
                where = _where(ab, done, len(batch.statements), count)
                error.hint = f"{error.hint}; {where}" if error.hint else where
            raise
        done += len(batch.statements)
    return answer


def _where(ab: Anabranch, done: int, size: int, count: int) -> str:
    """Where a script stopped, and what became of the rest."""
    which = f"statement {done + 1}" if size == 1 else f"statements {done + 1} to {done + size}"
    inside = " in the open transaction" if ab._runtime.transaction is not None else ""
    before = f"what came before it stands{inside}" if done else "nothing was done"
    after = ", and nothing after it was run" if done + size < count else ""
    return f"{which} of {count} failed: {before}{after}"


def _query(ab: Anabranch, statement: s.Query) -> Any:
    return handed_out(ab._world().sql(statement.text))


def _create_table(ab: Anabranch, statement: s.CreateTable) -> Done:
    tables.create_table(
        ab._runtime,
        statement.name,
        tuple(_column(each) for each in statement.columns),
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
        comments=statement.comments,
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
        comments={TABLE: statement.comment},
    )
    return {"statement": "CREATE TABLE", "table": str(statement.name)}


def _column(given: s.ColumnDef) -> Column:
    return Column(given.name, given.type, given.nullable)


def _drop_table(ab: Anabranch, statement: s.DropTable) -> Done:
    return _drop(ab, statement, Kind.TABLE)


def _alter_table(ab: Anabranch, statement: s.AlterTable) -> Done:
    changes = [_schema_change(each) for each in statement.changes]
    gone = tables.alter_table(ab._runtime, statement.name, changes, cascade=statement.cascade)
    done = {"statement": "ALTER TABLE", "table": str(statement.name)}
    return {**done, "dropped": str(gone)} if gone else done


def _schema_change(change: s.TableChange) -> schemas.SchemaChange:
    if isinstance(change, s.AddColumn):
        added = change.column
        return schemas.AddColumn(_column(added), added.comment, change.if_not_exists)
    if isinstance(change, s.DropColumn):
        return schemas.DropColumn(change.name, change.if_exists)
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
    return _drop(ab, statement, Kind.VIEW)


def _drop(ab: Anabranch, statement: Any, kind: Kind) -> Done:
    gone = drop(
        ab._runtime,
        statement.name,
        kind,
        cascade=statement.cascade,
        if_exists=statement.if_exists,
    )
    what = "view" if kind is Kind.VIEW else "table"
    done = {"statement": f"DROP {kind.value.upper()}", what: str(statement.name)}
    return {**done, "dropped": str(gone)} if gone else done


def _create_stream_table(ab: Anabranch, statement: s.CreateStreamTable) -> Done:
    ab.create_stream_table(
        str(statement.name),
        statement.query,
        schedule=statement.schedule,
        refresh_mode=statement.refresh_mode.value,
        cluster=statement.cluster,
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
        **written_options(statement.options),
    )
    return {"statement": "CREATE STREAM TABLE", "table": str(statement.name)}


def _create_stream_tables(ab: Anabranch, batch: Sequence[Any]) -> Done:
    there = {row["name"].lower() for row in ab.status()}
    wanted = [
        each for each in batch if not (each.if_not_exists and str(each.name).lower() in there)
    ]
    ab._create_together([_declaration(each) for each in wanted])
    names = [str(each.name) for each in wanted]
    return {"statement": "CREATE STREAM TABLE", "table": ", ".join(names)}


def _declaration(statement: s.CreateStreamTable) -> dict[str, Any]:
    return {
        "name": str(statement.name),
        "query": statement.query,
        "options": {
            "schedule": statement.schedule,
            "refresh_mode": statement.refresh_mode.value,
            "cluster": statement.cluster,
            **written_options(statement.options),
        },
    }


def _alter_stream_table(ab: Anabranch, statement: s.AlterStreamTable) -> Done:
    change, name = statement.change, str(statement.name)
    if isinstance(change, s.SetSchedule):
        ab.alter_stream_table(name, schedule=change.schedule)
    elif isinstance(change, s.SetRefreshMode):
        ab.alter_stream_table(name, refresh_mode=change.refresh_mode)
    elif isinstance(change, s.SetQuery):
        ab.alter_stream_table(name, query=change.query)
    elif isinstance(change, s.SetOptions):
        ab._alter(name, written_options(change.options))
    else:
        suspended = isinstance(change, s.Suspend)
        ab.alter_stream_table(name, status="SUSPENDED" if suspended else "ACTIVE")
    return {"statement": "ALTER STREAM TABLE", "table": name}


def _drop_stream_table(ab: Anabranch, statement: s.DropStreamTable) -> Done:
    return _drop(ab, statement, Kind.STREAM)


def _create_refresh_group(ab: Anabranch, statement: s.CreateRefreshGroup) -> Done:
    options: dict[str, Any] = dict(statement.options)
    if "snapshot_timeout_ms" in options:
        options["snapshot_timeout_ms"] = _whole(options["snapshot_timeout_ms"])
    ab.create_refresh_group(statement.name, [str(each) for each in statement.members], **options)
    return {"statement": "CREATE REFRESH GROUP", "group": statement.name}


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidValue(f"snapshot_timeout_ms {text!r} is not a number") from None


def _alter_refresh_group(ab: Anabranch, statement: s.AlterRefreshGroup) -> Done:
    options: dict[str, Any] = dict(statement.options)
    if "snapshot_timeout_ms" in options:
        options["snapshot_timeout_ms"] = _whole(options["snapshot_timeout_ms"])
    ab.alter_refresh_group(
        statement.name,
        add=[str(each) for each in statement.add],
        drop=[str(each) for each in statement.drop],
        **options,
    )
    return {"statement": "ALTER REFRESH GROUP", "group": statement.name}


def _drop_refresh_group(ab: Anabranch, statement: s.DropRefreshGroup) -> Done:
    ab.drop_refresh_group(statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP REFRESH GROUP", "group": statement.name}


def _refuse_in_transaction(ab: Anabranch, what: str) -> None:
    if ab._runtime.transaction is not None:
        raise Refused(f"{what} cannot stand inside a transaction", hint="do it before or after")


def _create_cluster(ab: Anabranch, statement: s.CreateCluster) -> Done:
    _refuse_in_transaction(ab, "CREATE CLUSTER")
    clusters.create(
        ab._store,
        Cluster(statement.name, statement.pool, statement.address, statement.settings),
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "CREATE CLUSTER", "cluster": statement.name}


def _drop_cluster(ab: Anabranch, statement: s.DropCluster) -> Done:
    _refuse_in_transaction(ab, "DROP CLUSTER")
    clusters.drop(ab._store, statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP CLUSTER", "cluster": statement.name}


def _attach(ab: Anabranch, statement: s.AttachCatalog) -> Done:
    _refuse_in_transaction(ab, "ATTACH CATALOG")
    catalogs.attach(
        ab._runtime,
        statement.name,
        statement.type,
        statement.properties,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "ATTACH CATALOG", "catalog": statement.name}


def _detach(ab: Anabranch, statement: s.DetachCatalog) -> Done:
    _refuse_in_transaction(ab, "DETACH CATALOG")
    catalogs.detach(ab._runtime, statement.name, if_exists=statement.if_exists)
    return {"statement": "DETACH CATALOG", "catalog": statement.name}


def _create_index(ab: Anabranch, statement: s.CreateIndex) -> Done:
    table = indexes.create_index(ab._runtime, statement)
    return {"statement": "CREATE INDEX", "index": statement.name, "table": str(table)}


def _drop_index(ab: Anabranch, statement: s.DropIndex) -> Done:
    table = indexes.drop_index(ab._runtime, statement)
    return {"statement": "DROP INDEX", "index": statement.name, "table": str(table)}


def _comment(ab: Anabranch, statement: s.Comment) -> Done:
    said = {statement.column or TABLE: statement.text}
    table = comment_on(ab._runtime, statement.table, said)
    return {"statement": "COMMENT", "table": str(table)}


def _create_test(ab: Anabranch, statement: s.CreateTest) -> Any:
    raise Unsupported(
        "CREATE TEST stands in the file of a project", hint="`anabranch test` runs it"
    )


def _refresh(ab: Anabranch, statement: s.RefreshStreamTable) -> list[dict[str, Any]]:
    name = str(statement.name) if statement.name is not None else None
    return ab.refresh(name, full=statement.full)


def _explain(ab: Anabranch, statement: s.ExplainStreamTable) -> str:
    return ab.explain(str(statement.name), rules=statement.rules)


def _set(ab: Anabranch, statement: s.Set) -> Any:
    if statement.name is None:
        return ab.settings()
    if statement.value is None:
        return [row for row in ab.settings() if row["name"] == statement.name]
    ab.set(statement.name, statement.value)
    return {"statement": "SET", "name": statement.name, "value": statement.value}


def _show_tables(ab: Anabranch, statement: s.ShowTables) -> Any:
    rows = [
        row
        for row in ab.tables()
        if is_shown(TableName.parse(row["table"]), statement)
        if not statement.streams_only or row["kind"] == "stream table"
    ]
    return rows_frame(ab.spark, rows, {"table": "string", "kind": "string"})


def is_shown(name: TableName, statement: s.ShowTables) -> bool:
    schema, pattern = statement.schema, statement.pattern
    if schema is not None and name.schema.lower() != schema.lower():
        return False
    return pattern is None or like(name.name, pattern)


def like(name: str, pattern: str) -> bool:
    """Spark's patterns: `*` stands for any letters, `|` parts choices; case does not count."""
    choices = (re.escape(each).replace(r"\*", ".*") for each in pattern.lower().split("|"))
    return any(re.fullmatch(each.strip(), name.lower()) for each in choices)


def _describe(ab: Anabranch, statement: s.Describe) -> Any:
    world = ab._world()
    frame = world.table(str(statement.name))
    found = world.find(statement.name)
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
    types = dict.fromkeys(("column", "type", "nullable", "comment"), "string")
    return rows_frame(ab.spark, rows, types | {"nullable": "boolean"})


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
    s.CreateRefreshGroup: _create_refresh_group,
    s.AlterRefreshGroup: _alter_refresh_group,
    s.DropRefreshGroup: _drop_refresh_group,
    s.CreateCluster: _create_cluster,
    s.DropCluster: _drop_cluster,
    s.AttachCatalog: _attach,
    s.DetachCatalog: _detach,
    s.CreateIndex: _create_index,
    s.DropIndex: _drop_index,
    s.Comment: _comment,
    s.CreateTest: _create_test,
    s.RefreshStreamTable: _refresh,
    s.ExplainStreamTable: _explain,
    s.Set: _set,
    s.ShowTables: _show_tables,
    s.Describe: _describe,
}

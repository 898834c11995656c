"""Anabranch in SQL: every statement is handed to the verb that does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anabranch.boundary import public
from anabranch.errors import AnabranchError, InvalidValue, UnknownName, Unsupported
from anabranch.session import Session
from anabranch.sql.batches import batches
from anabranch.sql.statements import records as s
from anabranch.tables.options import written_options
from anabranch.verbs import catalogs, listings, reading, source_tables, stream_tables
from anabranch.verbs.table import PROCEDURES

Done = dict[str, Any]
S = TypeVar("S", bound=s.Statement)


def run(session: Session, text: str) -> Any:
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
                answer = _create_stream_tables(session, batch.statements)
            else:
                answer = STATEMENTS[type(first)](session, first)
        except AnabranchError as error:
            if count > 1:
                where = _where(session, done, len(batch.statements), count)
                error.hint = f"{error.hint}; {where}" if error.hint else where
            raise
        done += len(batch.statements)
    return answer


def _where(session: Session, done: int, size: int, count: int) -> str:
    """Where a script stopped, and what became of the rest."""
    which = f"statement {done + 1}" if size == 1 else f"statements {done + 1} to {done + size}"
    inside = " in the open transaction" if session.runtime.transaction is not None else ""
    before = f"what came before it took effect{inside}" if done else "nothing was done"
    after = ", and nothing after it was run" if done + size < count else ""
    return f"{which} of {count} failed: {before}{after}"


# -- stream tables -------------------------------------------------------------------------------


def _options(statement: s.CreateStreamTable) -> stream_tables.Options:
    return {
        "schedule": statement.schedule,
        "refresh_mode": statement.refresh_mode.value,
        "cluster": statement.cluster,
        **written_options(statement.options),
    }


def _create_stream_table(session: Session, statement: s.CreateStreamTable) -> Done:
    name = str(statement.name)
    stream_tables.create_stream_table(
        session,
        name,
        statement.query,
        _options(statement),
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
    )
    return {"statement": "CREATE STREAM TABLE", "table": name}


def _create_stream_tables(session: Session, batch: Sequence[Any]) -> Done:
    """Those of a script that read each other."""
    there = {row["name"].lower() for row in listings.status(session)}
    wanted = [
        each for each in batch if not (each.if_not_exists and str(each.name).lower() in there)
    ]
    names = [str(each.name) for each in wanted]
    declared = [
        (name, each.query, _options(each)) for name, each in zip(names, wanted, strict=True)
    ]
    stream_tables.create_stream_tables(session, declared)
    return {"statement": "CREATE STREAM TABLE", "table": ", ".join(names)}


def _alter_stream_table(session: Session, statement: s.AlterStreamTable) -> Done:
    change, name = statement.change, str(statement.name)
    options: stream_tables.Options = {}
    query = status = None
    if isinstance(change, s.SetSchedule):
        options = {"schedule": change.schedule}
    elif isinstance(change, s.SetRefreshMode):
        options = {"refresh_mode": change.refresh_mode}
    elif isinstance(change, s.SetOptions):
        options = written_options(change.options)
    elif isinstance(change, s.SetQuery):
        query = change.query
    else:
        suspended = isinstance(change, s.Suspend)
        status = stream_tables.SUSPENDED if suspended else stream_tables.ACTIVE
    stream_tables.alter_stream_table(session, name, options, query=query, status=status)
    return {"statement": "ALTER STREAM TABLE", "table": name}


def _drop_stream_table(session: Session, statement: s.DropStreamTable) -> Done:
    name = str(statement.name)
    gone = stream_tables.drop_stream_table(
        session, name, statement.cascade, if_exists=statement.if_exists
    )
    done = {"statement": "DROP STREAM TABLE", "table": name}
    return {**done, "dropped": gone} if gone else done


def _refresh(session: Session, statement: s.RefreshStreamTable) -> list[dict[str, Any]]:
    name = str(statement.name) if statement.name is not None else None
    return stream_tables.refresh(session, name, full=statement.full)


def _explain(session: Session, statement: s.ExplainStreamTable) -> str:
    return stream_tables.explain(session, str(statement.name), rules=statement.rules)


# -- refresh groups ------------------------------------------------------------------------------


def _group_options(statement: s.CreateRefreshGroup | s.AlterRefreshGroup) -> dict[str, Any]:
    options: dict[str, Any] = dict(statement.options)
    if "snapshot_timeout_ms" in options:
        options["snapshot_timeout_ms"] = _whole(options["snapshot_timeout_ms"])
    return options


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidValue(f"snapshot_timeout_ms {text!r} is not a number") from None


def _create_refresh_group(session: Session, statement: s.CreateRefreshGroup) -> Done:
    members = [str(each) for each in statement.members]
    stream_tables.create_refresh_group(
        session, statement.name, members, **_group_options(statement)
    )
    return {"statement": "CREATE REFRESH GROUP", "group": statement.name}


def _alter_refresh_group(session: Session, statement: s.AlterRefreshGroup) -> Done:
    stream_tables.alter_refresh_group(
        session,
        statement.name,
        add=[str(each) for each in statement.add],
        drop=[str(each) for each in statement.drop],
        **_group_options(statement),
    )
    return {"statement": "ALTER REFRESH GROUP", "group": statement.name}


def _drop_refresh_group(session: Session, statement: s.DropRefreshGroup) -> Done:
    stream_tables.drop_refresh_group(session, statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP REFRESH GROUP", "group": statement.name}


# -- procedures ----------------------------------------------------------------------------------


def _call(session: Session, statement: s.Call) -> list[dict[str, Any]]:
    """A verb that SQL has no statement for; its answer as rows."""
    verb = PROCEDURES.get(statement.procedure)
    if verb is None:
        name = statement.procedure
        raise UnknownName(f"there is no procedure system.{name}", name=name, known=PROCEDURES)
    answer = public(verb.act())(session, *statement.given, **dict(statement.named))
    return list(answer) if isinstance(answer, list) else [dict(answer)]


# -- settings, names and tests -------------------------------------------------------------------


def _query(session: Session, statement: s.Query) -> Any:
    return reading.query(session, statement.text)


def _set(session: Session, statement: s.Set) -> Any:
    if statement.name is None:
        return listings.settings(session)
    if statement.value is None:
        return [row for row in listings.settings(session) if row["name"] == statement.name]
    listings.change_setting(session, statement.name, statement.value)
    return {"statement": "SET", "name": statement.name, "value": statement.value}


def _show_tables(session: Session, statement: s.ShowTables) -> Any:
    return reading.show_tables(
        session, statement.schema, statement.pattern, streams_only=statement.streams_only
    )


def _describe(session: Session, statement: s.Describe) -> Any:
    return reading.describe(session, statement.name)


def _create_test(session: Session, statement: s.CreateTest) -> Any:
    raise Unsupported(
        "CREATE TEST belongs in the file of a project", hint="`anabranch test` runs it"
    )


STATEMENTS: dict[type[s.Statement], Callable[[Session, Any], Any]] = {
    s.Query: _query,
    s.CreateTable: source_tables.create_table,
    s.CreateTableAs: source_tables.create_table_as,
    s.DropTable: source_tables.drop_table,
    s.AlterTable: source_tables.alter_table,
    s.Insert: source_tables.insert,
    s.Update: source_tables.update,
    s.Delete: source_tables.delete,
    s.Merge: source_tables.merge,
    s.CreateView: source_tables.create_view,
    s.DropView: source_tables.drop_view,
    s.CreateStreamTable: _create_stream_table,
    s.AlterStreamTable: _alter_stream_table,
    s.DropStreamTable: _drop_stream_table,
    s.CreateRefreshGroup: _create_refresh_group,
    s.AlterRefreshGroup: _alter_refresh_group,
    s.DropRefreshGroup: _drop_refresh_group,
    s.CreateCluster: source_tables.create_cluster,
    s.DropCluster: source_tables.drop_cluster,
    s.AttachCatalog: catalogs.attach_catalog,
    s.DetachCatalog: catalogs.detach_catalog,
    s.CreateIndex: source_tables.create_index,
    s.DropIndex: source_tables.drop_index,
    s.Comment: source_tables.comment,
    s.CreateTest: _create_test,
    s.RefreshStreamTable: _refresh,
    s.ExplainStreamTable: _explain,
    s.Call: _call,
    s.Set: _set,
    s.ShowTables: _show_tables,
    s.Describe: _describe,
}

"""Verbs for what stream tables read: source tables with their rows, views, indexes and clusters.

All but `append` take the record of an SQL statement, which is the only way to say them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from anabranch import clusters
from anabranch.catalog.clusters import Cluster
from anabranch.errors import Refused
from anabranch.lake import schemas
from anabranch.lake.comments import TABLE
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.runtime import IsolationLevel, Runtime
from anabranch.session import Session
from anabranch.sql.statements import records as s
from anabranch.tables import dml
from anabranch.tables import indexes as indexed
from anabranch.tables import source_tables as tables
from anabranch.tables.comments import comment_on
from anabranch.tables.drop import Kind, drop

Done = dict[str, Any]
S = TypeVar("S", bound=s.Statement)


def append(session: Session, name: str, data: Any) -> Done:
    changed = dml.append(session.runtime, TableName.parse(name), data)
    return {"table": str(changed.table), "rows_inserted": changed.inserted}


@contextmanager
def transaction(session: Session, isolation: str = "snapshot") -> Iterator[Session]:
    with session.runtime.open_transaction(IsolationLevel.parse(isolation)):
        yield session


# -- rows ----------------------------------------------------------------------------------------


def _writes(word: str, write: Callable[[Runtime, S], dml.Changed]) -> Callable[[Session, S], Done]:
    def act(session: Session, statement: S) -> Done:
        changed = write(session.runtime, statement)
        return {
            "statement": word,
            "table": str(changed.table),
            "rows_inserted": changed.inserted,
            "rows_deleted": changed.deleted,
        }

    return act


insert = _writes("INSERT", dml.insert)
update = _writes("UPDATE", dml.update)
delete = _writes("DELETE", dml.delete)
merge = _writes("MERGE", dml.merge)


# -- tables and views ----------------------------------------------------------------------------


def create_table(session: Session, statement: s.CreateTable) -> Done:
    tables.create_table(
        session.runtime,
        statement.name,
        tuple(_column(each) for each in statement.columns),
        if_not_exists=statement.if_not_exists,
        or_replace=statement.or_replace,
        comments=statement.comments,
    )
    return {"statement": "CREATE TABLE", "table": str(statement.name)}


def create_table_as(session: Session, statement: s.CreateTableAs) -> Done:
    tables.create_table(
        session.runtime,
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


def alter_table(session: Session, statement: s.AlterTable) -> Done:
    changes = [schema_change(each) for each in statement.changes]
    gone = tables.alter_table(session.runtime, statement.name, changes, cascade=statement.cascade)
    done = {"statement": "ALTER TABLE", "table": str(statement.name)}
    return {**done, "dropped": str(gone)} if gone else done


def schema_change(change: s.TableChange) -> schemas.SchemaChange:
    if isinstance(change, s.AddColumn):
        added = change.column
        return schemas.AddColumn(_column(added), added.comment, change.if_not_exists)
    if isinstance(change, s.DropColumn):
        return schemas.DropColumn(change.name, change.if_exists)
    if isinstance(change, s.RenameColumn):
        return schemas.RenameColumn(change.old, change.new)
    return schemas.WidenColumn(change.name, change.type)


def drop_table(session: Session, statement: s.DropTable) -> Done:
    return _drop(session, statement, Kind.TABLE)


def create_view(session: Session, statement: s.CreateView) -> Done:
    tables.create_view(
        session.runtime,
        statement.name,
        statement.query,
        columns=statement.columns,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "CREATE VIEW", "view": str(statement.name)}


def drop_view(session: Session, statement: s.DropView) -> Done:
    return _drop(session, statement, Kind.VIEW)


def _drop(session: Session, statement: s.DropTable | s.DropView, kind: Kind) -> Done:
    gone = drop(
        session.runtime,
        statement.name,
        kind,
        cascade=statement.cascade,
        if_exists=statement.if_exists,
    )
    what = "view" if kind is Kind.VIEW else "table"
    done = {"statement": f"DROP {kind.value.upper()}", what: str(statement.name)}
    return {**done, "dropped": str(gone)} if gone else done


def comment(session: Session, statement: s.Comment) -> Done:
    said = {statement.column or TABLE: statement.text}
    table = comment_on(session.runtime, statement.table, said)
    return {"statement": "COMMENT", "table": str(table)}


# -- indexes and clusters ------------------------------------------------------------------------


def create_index(session: Session, statement: s.CreateIndex) -> Done:
    table = indexed.create_index(session.runtime, statement)
    return {"statement": "CREATE INDEX", "index": statement.name, "table": str(table)}


def drop_index(session: Session, statement: s.DropIndex) -> Done:
    table = indexed.drop_index(session.runtime, statement)
    return {"statement": "DROP INDEX", "index": statement.name, "table": str(table)}


def create_cluster(session: Session, statement: s.CreateCluster) -> Done:
    _refuse_in_transaction(session, "CREATE CLUSTER")
    clusters.create(
        session.store,
        Cluster(statement.name, statement.pool, statement.address, statement.settings),
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "CREATE CLUSTER", "cluster": statement.name}


def drop_cluster(session: Session, statement: s.DropCluster) -> Done:
    _refuse_in_transaction(session, "DROP CLUSTER")
    clusters.drop(session.store, statement.name, if_exists=statement.if_exists)
    return {"statement": "DROP CLUSTER", "cluster": statement.name}


def _refuse_in_transaction(session: Session, what: str) -> None:
    if session.runtime.transaction is not None:
        raise Refused(f"{what} is not allowed inside a transaction", hint="do it before or after")

"""Rows of source tables: INSERT, UPDATE, DELETE, MERGE and append, one Spark job each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.catalog import streams
from anabranch.errors import Refused
from anabranch.lake.version import TableVersion
from anabranch.model import Bound, Written
from anabranch.names import TableName
from anabranch.refresh.decide import Layout, rewrites
from anabranch.runtime import Runtime, Transaction
from anabranch.spark import dml
from anabranch.spark.conform import conform
from anabranch.spark.convert import to_frame
from anabranch.spark.query import Inputs, run_sql, settled
from anabranch.spark.scan import Among, frame
from anabranch.spark.write import write
from anabranch.sql.lower.prune import bounds
from anabranch.sql.statements.records import Delete, Insert, Merge, MergeClause, Update
from anabranch.tables.indexes import refuse_copy
from anabranch.tables.reach import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Changed:
    """What a write did."""

    table: TableName
    inserted: int = 0
    deleted: int = 0


def insert(runtime: Runtime, statement: Insert) -> Changed:
    def act(tx: Transaction) -> Changed:
        name = writable(runtime, tx, statement.table)
        named = list(statement.columns) if statement.columns is not None else None
        with tx.world.judged(statement, name):
            rows = tx.world.sql(statement.query)
            return append_frame(runtime, tx, name, rows, columns=named, by_name=statement.by_name)

    return runtime.write("insert", act)


def append(runtime: Runtime, table: TableName, data: Any) -> Changed:
    """Rows of a Spark, pandas or Arrow table, matched by column name."""

    def act(tx: Transaction) -> Changed:
        name = writable(runtime, tx, table)
        rows = to_frame(runtime.spark.session, data, tx.world.version(name).columns)
        return append_frame(runtime, tx, name, rows, by_name=True)

    return runtime.write("append", act)


def append_frame(
    runtime: Runtime,
    tx: Transaction,
    name: TableName,
    rows: DataFrame,
    *,
    columns: Sequence[str] | None = None,
    by_name: bool = False,
) -> Changed:
    version = tx.world.version(name)
    fitted = conform(rows, version.columns, table=str(name), by_name=by_name, given=columns)
    written = write(fitted, tx.stage.directory(name), version.columns)
    tx.note_append(name, written)
    return commit(tx, name, written, rewrite=False)


def delete(runtime: Runtime, statement: Delete) -> Changed:
    def act(tx: Transaction) -> Changed:
        name = writable(runtime, tx, statement.table)
        version = read_version(tx, name)
        if statement.where is None:
            return clear(tx, name, version)
        alias = statement.alias or name.name
        with tx.world.judged(statement, name), Inputs(runtime.spark.session) as inputs:
            condition = _bound(tx, inputs, statement.where, name, alias)
            rewrite = is_small(runtime, version)
            prune = bounds(statement.where, version.columns, alias)
            target = _target(runtime, version, () if rewrite else prune)
            rows = dml.delete(target, version.columns, condition, alias=alias, rewrite=rewrite)
            return _write(runtime, tx, version, rows, rewrite)

    return runtime.write("delete", act)


def update(runtime: Runtime, statement: Update) -> Changed:
    def act(tx: Transaction) -> Changed:
        name = writable(runtime, tx, statement.table)
        version = read_version(tx, name)
        alias = statement.alias or name.name
        with tx.world.judged(statement, name), Inputs(runtime.spark.session) as inputs:
            where = statement.where
            condition = _bound(tx, inputs, where, name, alias) if where else None
            assignments = [
                (column, _bound(tx, inputs, value, name, alias))
                for column, value in statement.assignments
            ]
            rewrite = is_small(runtime, version)
            prune = bounds(where, version.columns, alias)
            target = _target(runtime, version, () if rewrite else prune)
            rows = dml.update(
                target,
                version.columns,
                assignments,
                condition,
                alias=alias,
                rewrite=rewrite,
                table=str(name),
            )
            return _write(runtime, tx, version, rows, rewrite)

    return runtime.write("update", act)


def merge(runtime: Runtime, statement: Merge) -> Changed:
    def act(tx: Transaction) -> Changed:
        name = writable(runtime, tx, statement.target)
        version = read_version(tx, name)
        alias = statement.target_alias or name.name
        named = statement.source_table
        source_alias = statement.source_alias or (named.name if named else "source")
        outer = {name: alias, **({named: source_alias} if named else {})}
        with tx.world.judged(statement, name), Inputs(runtime.spark.session) as inputs:

            def bound(text: str) -> str:
                return tx.world.bind(inputs, text, expression=True, outer=outer)

            text = tx.world.bind(inputs, statement.source)
            source = settled(run_sql(runtime.spark.session, text, labels=inputs.labels))
            on = bound(statement.on)
            rewrite = is_small(runtime, version)
            matches = {clause.match for clause in statement.clauses}
            whole = rewrite or "not_matched_by_source" in matches
            prune = () if whole else reach(version, source, statement.on, alias, source_alias)
            among = (
                None if whole else dml.met_by(source, on, alias=alias, source_alias=source_alias)
            )
            rows = dml.merge(
                _target(runtime, version, prune, among),
                version.columns,
                source,
                on,
                [_bound_clause(clause, bound) for clause in statement.clauses],
                alias=alias,
                source_alias=source_alias,
                rewrite=rewrite,
                table=str(name),
            )
            return _write(runtime, tx, version, rows, rewrite)

    return runtime.write("merge", act)


def _bound(tx: Transaction, inputs: Inputs, text: str, name: TableName, alias: str) -> str:
    """An expression over a target table, with the tables of its subqueries bound."""
    return tx.world.bind(inputs, text, expression=True, outer={name: alias})


def _bound_clause(clause: MergeClause, bound: Callable[[str], str]) -> MergeClause:
    return replace(
        clause,
        condition=bound(clause.condition) if clause.condition else None,
        assignments=tuple((column, bound(value)) for column, value in clause.assignments),
    )


def clear(tx: Transaction, name: TableName, version: TableVersion) -> Changed:
    """All rows go: the files are let go, none is read."""
    if not version.rows:
        return Changed(name)
    tx.stage.commit_rows(name, Written(), rewrite=False, replace_all=True)
    return Changed(name, deleted=version.rows)


def read_version(tx: Transaction, name: TableName) -> TableVersion:
    """A table whose rows decide what is written."""
    tx.world.read.note_rows(name)
    return tx.world.version(name)


def writable(runtime: Runtime, tx: Transaction, name: TableName) -> TableName:
    """The name of a source table that may be written."""
    table = tx.world.resolve(name)
    if table in tx.world.views:
        raise Refused(f"{table} is a view: it cannot be written", hint="write to its tables")
    with runtime.store.reading() as c:
        stream = streams.get(c, table)
    if stream is not None:
        raise Refused(
            f"{table} is a stream table: only its query fills it", hint="write to its sources"
        )
    refuse_copy(runtime, table)
    return table


def is_small(runtime: Runtime, version: TableVersion) -> bool:
    """Whether a change rewrites the table whole instead of marking rows."""
    return rewrites(
        Layout(version.rows, version.marked, len(version.reading().skip)),
        runtime.settings.small_table_rows,
    )


def _target(
    runtime: Runtime,
    version: TableVersion,
    prune: Sequence[Bound],
    among: Among | None = None,
) -> DataFrame:
    reading = version.reading(prune=prune)
    return frame(runtime.spark.session, reading, version.columns, positions=True, among=among)


def _write(
    runtime: Runtime, tx: Transaction, version: TableVersion, rows: DataFrame, rewrite: bool
) -> Changed:
    if not rewrite:
        # Few rows out of many tasks: adaptive execution gathers them into few files.
        rows = rows.hint("rebalance")
    with runtime.spark.tuned(version.rows, adaptive=not rewrite):
        files = 1 if rewrite else None
        written = write(rows, tx.stage.directory(version.name), version.columns, files=files)
    return commit(tx, version.name, written, rewrite=rewrite)


def commit(tx: Transaction, name: TableName, written: Written, *, rewrite: bool) -> Changed:
    before = tx.world.version(name)
    after = tx.stage.commit_rows(name, written, rewrite=rewrite)
    if after.snapshot_id == before.snapshot_id:
        return Changed(name)
    inserted, deleted = after.net_rows
    return Changed(name, inserted=inserted, deleted=deleted)

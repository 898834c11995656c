"""Indexes are kept in the publish that changes their table.

An index is an ordinary table that says of itself which version of its table it holds:

    current(index, table)  =  the table's uuid and snapshot are those that the index notes

It is read only where that is true, so an index that was left behind, by another program or another
version of Anabranch, is slow to use and never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from anabranch.catalog.clusters import Cluster, all_clusters
from anabranch.catalog.indexes import COPY_OF, Index, all_indexes
from anabranch.errors import BaseExpired, FileMissing, Refused
from anabranch.lake.stage import Stage
from anabranch.lake.version import TableVersion
from anabranch.model import FIRST_HIDDEN_ID, Columns, Delta
from anabranch.names import TableName, shown
from anabranch.spark.clusters import at_home
from anabranch.spark.identity import HASHES, hashable
from anabranch.spark.merge import add_all, apply_rows, stored_rows
from anabranch.spark.scan import delta_frame, frame
from anabranch.spark.session import Spark
from anabranch.spark.sorting import in_ranges
from anabranch.spark.write import write

UUID = COPY_OF  # properties of the copy: which table, and which version of it
SNAPSHOT = "anabranch.index.snapshot"
SORTED_BY = "anabranch.index.columns"
SMALL_ROWS = 100_000  # up to here the copy is sorted anew
ROWS_PER_FILE = 250_000
MUCH_CHANGED = 0.2


def current(copy: TableVersion, table: TableVersion, index: Index) -> bool:
    """Does the copy hold the rows of this very version of the table, sorted as the index says?"""
    same = all(copy.properties.get(key) == value for key, value in noted(table, index).items())
    return same and shape(copy.columns) == shape(table.columns)


def noted(table: TableVersion, index: Index) -> dict[str, str]:
    """What the copy says of itself."""
    return {
        UUID: str(table.metadata.table_uuid),
        SNAPSHOT: snapshot_text(table),
        SORTED_BY: json.dumps(index.columns),
    }


def snapshot_text(table: TableVersion) -> str:
    return "" if table.snapshot_id is None else str(table.snapshot_id)


def shape(columns: Columns) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def shape_of(stage: Stage, copy: TableName) -> list[tuple[str, str]] | None:
    """The columns of a copy; None if its metadata is gone or damaged, so that it is made again."""
    try:
        found = stage.version(copy)
        found.state(found.snapshot_id)
    except FileMissing:
        return None
    return shape(found.columns)


def bring(stage: Stage, spark: Spark, index: Index, cluster: Cluster | None = None) -> None:
    """Stage the copy as it must be for the table as it is staged."""
    table = stage.version(index.table)
    check_columns(index, table.columns)
    wanted = tuple(
        replace(column, field_id=0, nested={}, ambiguous=False) for column in table.columns
    )
    if stage.exists(index.copy) and shape_of(stage, index.copy) != shape(wanted):
        stage.drop(index.copy)
    if not stage.exists(index.copy):
        stage.create(index.copy, wanted)
    copy = stage.version(index.copy)
    if current(copy, table, index):
        return
    home = cluster or Cluster("")
    with at_home(spark, home.pool, home.address, home.settings) as chosen:
        delta = changes(copy, table, index)
        if delta is None:
            rebuild(stage, chosen, index, table)
        elif not delta.empty:
            try:
                update(stage, chosen, index, table, delta)
            except FileMissing:  # of the copy, or what tells the changes: all rows are in the table
                rebuild(stage, chosen, index, table)
    stage.set_properties(index.copy, noted(table, index))


def keep(
    stage: Stage,
    spark: Spark | None,
    declared: Mapping[TableName, tuple[Index, ...]],
    there: Mapping[TableName, tuple[Index, ...]] | None = None,
) -> dict[TableName, tuple[Index, ...]]:
    """Before a publish: the indexes of every table that it changes come along.

    `declared` are those that the work itself makes or drops, `there` those that the catalog has, where
    that is known; returned are the tables whose rows in the catalog change.  Without Spark the copies
    are left behind, as another program would: they are not read until they are brought along.
    """
    changed = {*stage.changes, *declared}
    if not changed or (there is not None and not declared and changed.isdisjoint(there)):
        return {}
    clusters: Mapping[str, Cluster] = {}
    if there is None or any(_somewhere(changed, {**there, **declared})):
        with stage.lake.store.reading() as c:
            there = all_indexes(c) if there is None else there
            if any(_somewhere(changed, {**there, **declared})):
                clusters = all_clusters(c)
    known = {**there, **declared}
    rows = dict(declared)
    for table in sorted({*stage.changes, *declared}):
        if not stage.exists(table):
            rows |= {table: ()} if table in known else {}
        wanted = rows.get(table, known.get(table, ()))
        for copy in sorted({each.copy for each in there.get(table, ())} - {w.copy for w in wanted}):
            if stage.exists(copy):
                stage.drop(copy)
        for index in wanted:
            if spark is None:
                check_columns(index, stage.version(table).columns)
                continue
            bring(stage, spark, index, clusters.get(index.cluster or ""))
    return rows


def _somewhere(
    changed: Collection[TableName], known: Mapping[TableName, tuple[Index, ...]]
) -> Iterator[str]:
    """The clusters that indexes of what changes are kept on."""
    return (
        each.cluster
        for table in changed
        for each in known.get(table, ())
        if each.cluster is not None
    )


def check_columns(index: Index, columns: Columns) -> None:
    known = [column.name.lower() for column in columns]
    for name in index.columns:
        if name.lower() not in known:
            raise Refused(
                f"index {shown(index.name)} of {index.table} needs its column {shown(name)}",
                hint=f"DROP INDEX {shown(index.name)} ON {index.table}",
            )


def changes(copy: TableVersion, table: TableVersion, index: Index) -> Delta | None:
    """What the copy lacks; None when it is cheaper, or the only way, to sort all rows anew."""
    wanted, since = noted(table, index), copy.properties.get(SNAPSHOT)
    if since is None or any(copy.properties.get(key) != wanted[key] for key in (UUID, SORTED_BY)):
        return None
    try:
        delta = table.delta(int(since) if since else None)
    except (BaseExpired, FileMissing):
        return None
    small = table.rows <= SMALL_ROWS and not delta.empty
    return None if small or delta.rows > MUCH_CHANGED * table.rows else delta


def hidden(columns: Columns) -> Columns:
    """The row hashes by which rows are found again."""
    own = HASHES if hashable(columns) else ()
    return tuple(replace(column, field_id=FIRST_HIDDEN_ID + at) for at, column in enumerate(own))


def rebuild(stage: Stage, spark: Spark, index: Index, table: TableVersion) -> None:
    columns = stage.version(index.copy).columns
    own = hidden(columns)
    files = max(1, -(-table.rows // ROWS_PER_FILE))
    with spark.tuned(table.rows):
        rows = frame(spark.session, table.reading(), table.columns)
        ordered = in_ranges(add_all(rows, columns, hashed=True), index.columns, files)
        written = write(ordered, stage.directory(index.copy), (*columns, *own))
    stage.commit_rows(index.copy, written, replace_all=True, hidden=own)


def update(stage: Stage, spark: Spark, index: Index, table: TableVersion, delta: Delta) -> None:
    copy = stage.version(index.copy)
    own = hidden(copy.columns)
    with spark.tuned(delta.rows):
        rows = apply_rows(
            stored_rows(spark.session, copy.reading(), (*copy.columns, *own)),
            delta_frame(spark.session, delta, table.columns),
            copy.columns,
            rewrite=False,
            insert_only=not delta.minus,
        )
        written = write(rows, stage.directory(index.copy), (*copy.columns, *own), files=1)
    stage.commit_rows(index.copy, written, hidden=own)

"""What the rounds found becomes one change of each member's table.

Rows that only came are in files already: those are the change.  Otherwise the difference between the
stored rows and the new ones is worked out once, so that whoever reads the table reads that and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.lake.commit import check_rows
from anabranch.lake.places import same_form
from anabranch.model import Columns, Reading, Written
from anabranch.names import TableName
from anabranch.refresh.execute.backend import Batch, Rows, paths
from anabranch.refresh.execute.table import ROWS_PER_FILE, reader, small
from anabranch.runtime import Runtime, Transaction
from anabranch.spark.merge import apply_rows
from anabranch.spark.rounds import BROADCAST_ROWS, change, present
from anabranch.spark.scan import frame
from anabranch.spark.write import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY_FILES = 16  # then they are put together


def stage_rows(
    runtime: Runtime,
    tx: Transaction,
    name: TableName,
    rows: Rows,
    summary: Mapping[str, str],
    *,
    afresh: bool,
) -> None:
    """`afresh`: the table becomes what was found, whatever it was."""
    if afresh or (rows.base and not rows.lost):
        written = added(runtime, tx, rows)
        tx.stage.commit_rows(name, written, replace_all=afresh, hidden=rows.hidden, summary=summary)
        discard(tx, rows, [*rows.lost, *rows.waste])
        return
    rewrite = small(runtime, rows.version)
    size = sum(batch.rows for batch in rows.added)
    size += rows.lost_rows if rows.base else rows.version.rows
    size += rows.version.rows if rewrite else 0
    with runtime.spark.tuned(max(size, 1)) as session:
        delta = apply_rows(
            reader(session, rows.version, rows.hidden),
            _delta(runtime, rows),
            rows.columns,
            rewrite=rewrite,
            broadcast=size <= BROADCAST_ROWS,
        )
        files = 1 if size <= ROWS_PER_FILE else None
        written = write(delta, rows.directory, rows.physical, files)
    tx.stage.commit_rows(name, written, rewrite=rewrite, hidden=rows.hidden, summary=summary)
    discard(tx, rows, [*rows.added, *rows.lost, *rows.waste])


def _delta(runtime: Runtime, rows: Rows) -> DataFrame:
    session = runtime.spark.session
    plus = frame(session, Reading(paths(rows.added)), rows.columns) if rows.added else None
    reading = rows.version.reading()
    if not rows.base:
        return change(plus, frame(session, reading, rows.columns), rows.columns)
    lost = frame(session, Reading(paths(rows.lost)), rows.columns)
    few = rows.lost_rows <= BROADCAST_ROWS
    gone = present(session, reading, lost, rows.columns, rows.hidden, few=few)
    return change(plus, gone, rows.columns)


def added(runtime: Runtime, tx: Transaction, rows: Rows) -> Written:
    """The files of what was found; many small ones are written again as few."""
    files, count = paths(rows.added), sum(batch.rows for batch in rows.added)
    if len(files) <= MANY_FILES:
        return Written(add=files, rows=count)
    columns: Columns = rows.physical
    with runtime.spark.tuned(count) as session:
        whole = frame(session, Reading(files), columns)
        if count <= ROWS_PER_FILE:
            whole = whole.repartition(1)
        written = write(whole, rows.directory, columns)
    check_rows(rows.version.name, count, written.rows)
    discard(tx, rows, rows.added)
    return written


def discard(tx: Transaction, rows: Rows, batches: list[Batch]) -> None:
    """Every write has a folder of its own, which goes with all that Spark left in it."""
    warehouse = tx.stage.lake.warehouse
    folders = {same_form(path, rows.version.root).rpartition("/")[0] for path in paths(batches)}
    for folder in folders:
        for path in warehouse.listing(folder):
            warehouse.delete(path, own=True)
        warehouse.delete_empty_folders(folder)

"""maintain: compact with Spark, then expire and collect in the lake, and shorten history."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from anabranch.catalog import events, history, leases, streams, tables
from anabranch.catalog.indexes import all_indexes
from anabranch.engine.scan import frame
from anabranch.engine.sorting import in_ranges
from anabranch.engine.write import write
from anabranch.errors import FileMissing
from anabranch.lake.collect import is_our_root
from anabranch.lake.upkeep import Compaction, compaction
from anabranch.lake.upkeep import maintain as maintain_lake
from anabranch.model import Written
from anabranch.names import TableName
from anabranch.runtime import Runtime, Transaction
from anabranch.sources.indexes import catch_up

BYTES_PER_FILE = 128 << 20


def maintain(runtime: Runtime) -> dict[str, Any]:
    """Tidy everything; tables stay readable all the time, and no row changes."""
    runtime.lake.fence.claim()
    compacted, damaged = [], []
    for name in sorted(runtime.lake.pointers()):
        try:
            compacted += [str(name)] if leased_compact(runtime, name) else []
        except FileMissing:  # the others are tidied all the same
            damaged.append(str(name))
    settings = runtime.settings
    with runtime.store.writing() as c:
        before = tables.now() - timedelta(seconds=settings.history_retention)
        forgotten = history.forget(c, before)
        events.forget(c, before)
        leases.forget(c)
        known = streams.all_streams(c)
    with runtime.leases.hold_free(known, settings.lease_time) as lease:
        report = maintain_lake(
            runtime.lake,
            retention=timedelta(seconds=settings.snapshot_retention),
            grace=timedelta(seconds=settings.orphan_grace),
            without={name for name in known if name not in lease.tables},
            check=lambda c, cut_id: leases.check(c, lease),
        )
    catch_up(runtime)
    return {
        "tables_compacted": compacted,
        "tables_damaged": damaged,
        "history_forgotten": forgotten,
        **asdict(report),
    }


def leased_compact(runtime: Runtime, name: TableName) -> bool:
    """Compact a table; a stream table only if nobody else writes it just now."""
    with runtime.store.reading() as c:
        is_stream = streams.get(c, name) is not None
    with runtime.leases.hold_free(
        [name] if is_stream else [], runtime.settings.lease_time
    ) as lease:
        if is_stream and not lease.tables:
            return False  # the next upkeep finds it

        def act(tx: Transaction) -> bool:
            tx.used.hold(lease)
            return compact(runtime, tx, name)

        return runtime.write("compact", act)


def compact(runtime: Runtime, tx: Transaction, name: TableName) -> bool:
    """Write small and much-marked files of a table anew; False when it is in good shape."""
    if tx.world.find(name) is None:
        return False
    version = tx.world.version(name)
    if not is_our_root(runtime.lake.warehouse.location, version.root):
        return False  # another program's table, and its to tidy
    plan = compaction(version)
    if plan is None:
        return False
    runtime.progress("compacting", {"table": str(name), "reason": plan.reason})
    keys = sorted_by(runtime, name)
    columns = (*version.columns, *version.hidden)
    rows = frame(runtime.spark.session, plan.reading, columns)
    with runtime.spark.tuned(max(plan.reading.rows, 2_000_000)):
        files = _files(plan)
        placed = in_ranges(rows, keys, files) if keys else rows.repartition(files)
        written = write(placed, tx.stage.directory(name), columns)
    placed_again = Written(keep=written.add, rows=written.rows)
    tx.stage.commit_rows(name, placed_again, compaction=True, replaced=plan.replaced)
    return True


def sorted_by(runtime: Runtime, name: TableName) -> tuple[str, ...]:
    """The columns by which the rows of an index are sorted; nothing for other tables."""
    with runtime.store.reading() as c:
        found = [index for each in all_indexes(c).values() for index in each]
    return next((index.columns for index in found if index.copy == name), ())


def _files(plan: Compaction) -> int:
    return max(1, -(-plan.reading.bytes // BYTES_PER_FILE))

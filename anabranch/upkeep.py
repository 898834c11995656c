"""maintain: compact with Spark, then expire and collect in the lake, and shorten history."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from anabranch.catalog import deployments, events, history, leases, rounds, streams, tables
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.retention import Retention
from anabranch.catalog.rounds import Round
from anabranch.errors import AnabranchError, FileMissing, FileUnreadable, Unsupported
from anabranch.lake.places import is_our_root
from anabranch.lake.publish import Rows
from anabranch.lake.upkeep import Compaction, Report, compaction
from anabranch.lake.upkeep import maintain as maintain_lake
from anabranch.model import Written
from anabranch.names import TableName
from anabranch.refresh.lineage import fill_in
from anabranch.runtime import Runtime, Transaction
from anabranch.settings import Settings
from anabranch.spark.scan import frame
from anabranch.spark.sorting import in_ranges
from anabranch.spark.write import write
from anabranch.tables.indexes import catch_up

BYTES_PER_FILE = 128 << 20


def maintain(runtime: Runtime) -> dict[str, Any]:
    """Tidy everything now; tables stay readable all the time, and no row changes."""
    runtime.store.refuse_damaged()
    runtime.lake.fence.claim()
    start = time.monotonic()
    compacted, failed = compact_tables(runtime, sorted(runtime.lake.pointers()))
    forgotten = forget_records(runtime)
    report = tidy(runtime)
    catch_up(runtime)
    fill_in(runtime)
    done = {
        "tables_compacted": compacted,
        "tables_damaged": [str(name) for name in failed],
        "history_forgotten": forgotten,
        **asdict(report),
    }
    keep_round(runtime, rounds.MAINTAIN, start, {**done, "errors": told(failed.items())})
    return done


def keep_round(
    runtime: Runtime, initiated_by: str, start: float, done: Mapping[str, Any]
) -> Round | None:
    """Note what a round did that began at `start`; nothing, if it found nothing to do."""
    spent = round(1000 * (time.monotonic() - start))
    found = Round.of(initiated_by, spent, done)
    if not found.did:
        return None
    with runtime.store.writing() as c:
        rounds.record(c, found)
    return found


def told(failed: Iterable[tuple[TableName | None, AnabranchError]]) -> tuple[str, ...]:
    """What could not be tidied, with the reason; None is everything."""
    return tuple(
        error.message if name is None or str(name) in error.message else f"{name}: {error.message}"
        for name, error in failed
    )


def compact_tables(
    runtime: Runtime,
    names: Sequence[TableName],
    most: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[list[str], dict[TableName, AnabranchError]]:
    """Compact those of some tables that need it; one that cannot be read is in nobody's way."""
    compacted: list[str] = []
    failed: dict[TableName, AnabranchError] = {}
    pointers = runtime.lake.pointers()
    for name in names:
        if stopped() or (most is not None and len(compacted) >= most):
            break
        try:
            if name not in pointers or not worth_compacting(runtime, name, pointers[name]):
                continue
            compacted += [str(name)] if leased_compact(runtime, name) else []
        except (FileMissing, FileUnreadable) as error:  # the others are tidied all the same
            failed[name] = error
    return compacted, failed


def worth_compacting(runtime: Runtime, name: TableName, location: str) -> bool:
    """Asked before a table is taken: most are in good shape."""
    version = runtime.lake.version(name, location)
    if not is_our_root(runtime.lake.warehouse.location, version.root):
        return False  # another program's table, and its to tidy
    try:
        return compaction(version) is not None
    except Unsupported:  # files that only another program reads
        return False


def forget_records(runtime: Runtime) -> int:
    """Shorten history, events, leases and old deployments; the lines of history that are gone."""
    kept = timedelta(seconds=runtime.settings.history_retention)
    with runtime.store.writing() as c:
        before = tables.now(c) - kept
        forgotten = history.forget(c, before)
        events.forget(c, before)
        rounds.forget(c, before)
        deployments.forget(c, before)
        leases.forget(c)
    return forgotten


def tidy(runtime: Runtime, *, collecting: bool = True) -> Report:
    """Forget old cuts, expire snapshots, merge manifests, and delete files that nothing needs."""
    settings = runtime.settings

    @contextmanager
    def hold(names: Collection[TableName]) -> Iterator[tuple[Collection[TableName], Rows]]:
        """Stream tables that somebody refreshes right now are left for another time."""
        with runtime.store.reading() as c:
            known = streams.all_streams(c)
        stored = [name for name in names if name in known]
        with runtime.leases.hold_free(stored, settings.lease_time) as lease:
            free = [name for name in names if name not in known or name in lease.tables]
            yield free, lambda c, cut_id: leases.check(c, lease)

    return maintain_lake(
        runtime.lake,
        retention=retention(settings),
        grace=timedelta(seconds=settings.orphan_grace),
        hold=hold,
        collecting=collecting,
    )


def retention(settings: Settings) -> Retention:
    return Retention(
        total=timedelta(seconds=settings.snapshot_retention),
        all_cuts=timedelta(seconds=settings.keep_all_cuts),
        by_minute=timedelta(seconds=settings.keep_minute_cuts),
    )


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

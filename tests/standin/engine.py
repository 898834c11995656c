"""A stand-in for Spark: DuckDB computes the rows, pyarrow writes them, everything else is real.

`installed()` puts it in place of the engine's functions; `connect(home)` opens a home with it.
Catalog, lake, publish, leases, groups, scheduler and deployments are the real ones, so that a refresh
takes milliseconds and a test may try thousands of orders of events.

    with installed():
        ab = connect(tmp_path / "home")
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.create_stream_table("s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k", schedule="1s")
        ab.tick()
        ab.table("s.d").collect()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anabranch
from anabranch.api import Anabranch
from anabranch.refresh import definition as definitions
from anabranch.refresh import verify as verifying
from anabranch.refresh.execute import table as jobs
from anabranch.refresh.execute.fixpoint import CycleWork
from anabranch.refresh.execute.recompute import Recompute
from anabranch.spark import compare, conform, convert, dml, query, rows, scan, sorting, write
from anabranch.spark import merge as merging
from anabranch.spark.write import actions
from tests.standin.dml import delete, merge, update
from tests.standin.files import (
    add_all,
    bag_difference,
    conformed,
    empty,
    evaluate,
    frame,
    in_ranges,
    no_state_difference,
    rows_frame,
    run_sql,
    settled,
    to_frame,
    write_frame,
)
from tests.standin.refreshes import (
    component_anew,
    cycle_follow,
    cycle_from_empty,
    cycle_stage,
    full_job,
    incremental_job,
)
from tests.standin.session import Frame, Session

REPLACED: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (scan.frame, frame),
    (scan.empty, empty),
    (query.run_sql, run_sql),
    (query.settled, settled),
    (convert.to_frame, to_frame),
    (rows.rows_frame, rows_frame),
    (sorting.in_ranges, in_ranges),
    (conform.conform, conformed),
    (write.write, write_frame),
    (write.evaluate, evaluate),
    (dml.delete, delete),
    (dml.update, update),
    (dml.merge, merge),
    (merging.add_all, add_all),
    (compare.bag_difference, bag_difference),
    (jobs.full_job, full_job),
    (jobs.incremental_job, incremental_job),
    (verifying.state_difference, no_state_difference),
)


METHODS: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (CycleWork, "follow", cycle_follow),
    (CycleWork, "from_empty", cycle_from_empty),
    (CycleWork, "by_queries", cycle_from_empty),
    (CycleWork, "stage", cycle_stage),
    (Recompute, "compute", component_anew),
)


@contextmanager
def installed() -> Iterator[None]:
    """Inside, every module of ours computes rows with the stand-in."""
    definitions._cache.clear()
    methods = [(kind, name, getattr(kind, name)) for kind, name, _ in METHODS]
    undo = [swap(real, other) for real, other in REPLACED]
    for kind, name, other in METHODS:
        setattr(kind, name, other)
    try:
        yield
    finally:
        for kind, name, real in methods:
            setattr(kind, name, real)
        for each in reversed(undo):
            each()
        definitions._cache.clear()


def swap(found: Any, other: Any) -> Callable[[], None]:
    """Every module of ours that has one gets the other; what takes that back.

    The other is a function made for this, which no place had before: one that stands for two could not
    be taken back.  Modules that are loaded meanwhile have it too.
    """

    def made(*given: Any, **named: Any) -> Any:
        return other(*given, **named)

    _put(found, made)
    return lambda: _put(made, found)


def _put(found: Any, other: Any) -> None:
    for name, module in list(sys.modules.items()):
        if name == "anabranch" or name.startswith("anabranch."):
            for attribute, value in list(vars(module).items()):
                if value is found:
                    setattr(module, attribute, other)


def connect(target: Any, **settings: Any) -> Anabranch:
    """A home whose rows the stand-in computes; one thread, so that runs can be repeated."""
    session = settings.pop("spark", None) or Session()
    return anabranch.connect(target, spark=session, **{"parallelism": 1, **settings})


__all__ = ["Frame", "Session", "actions", "connect", "frame", "installed", "swap"]

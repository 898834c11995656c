"""Put the parts together: catalog, lake and Spark of one home."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anabranch.listing as listing
from anabranch.catalog.store import Store
from anabranch.errors import UnknownName, Unreachable
from anabranch.lake import declared
from anabranch.lake.ground import weaknesses
from anabranch.lake.lake import Lake
from anabranch.refresh.indexes import keep_index
from anabranch.runtime import Runtime
from anabranch.settings import Settings
from anabranch.spark.rows import rows_frame
from anabranch.tables.catalogs import keep_attached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.spark.session import Spark

log = logging.getLogger("anabranch")


def open_runtime(
    settings: Settings,
    store: Store,
    spark: Spark,
    progress: Callable[[str, Mapping[str, Any]], None],
) -> Runtime:
    lake = Lake(store, settings.warehouse)
    lake.attached.seconds = settings.catalog_timeout
    _tell(lake)
    declared.keep(lake)
    runtime = Runtime(settings, store, lake, spark, progress, keep_index=keep_index)
    if settings.catalogs:
        keep_attached(runtime)

    def system(name: str) -> DataFrame:
        view, columns = name.lower(), listing.COLUMNS
        if view not in columns:
            raise UnknownName(f"there is no view system.{name}", name=name, known=columns)
        made = listing.SYSTEM_VIEWS.get(view)
        rows: Sequence[Mapping[str, Any]] = (
            made(store, runtime.settings) if made else runtime.settings.rows()
        )
        return rows_frame(spark.session, rows, columns[view])

    runtime.system = system
    return runtime


def _tell(lake: Lake) -> None:
    """Say at once that a copy will refuse to write, and what a power cut would take."""
    with suppress(Unreachable):  # whoever reads or writes is told
        if problem := lake.fence.problem():
            log.warning("%s", problem)
        for weakness in weaknesses(lake.store, lake.warehouse):
            log.warning("%s", weakness)

"""What an open Anabranch is: settings, a catalog, and Spark as soon as something needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.catalog.store import Store
from anabranch.errors import Refused
from anabranch.lazy import lazy
from anabranch.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch import clusters
    from anabranch import open as parts
    from anabranch.cut_view import CutView
    from anabranch.runtime import Runtime
    from anabranch.scheduler import tick as ticks
    from anabranch.spark import session as spark_session
else:
    clusters = lazy("anabranch.clusters")
    parts = lazy("anabranch.open")
    ticks = lazy("anabranch.scheduler.tick")
    spark_session = lazy("anabranch.spark.session")

Progress = Callable[[str, Mapping[str, Any]], None]


class Session:
    """Every verb is given one.  Its parts are made when something first needs them."""

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self._settings = settings
        self._given = spark
        self.on_progress: Progress | None = None

    @property
    def settings(self) -> Settings:
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._settings = settings
        if self.is_running:
            self.runtime.settings = settings

    @cached_property
    def store(self) -> Store:
        """The catalog's database; a home that is not there is made."""
        self._settings.create_home()
        return Store.open(self._settings.catalog, fsync=self._settings.fsync)

    @cached_property
    def spark(self) -> spark_session.Spark:
        """Spark, which starts when a job needs it; of a project's tests without any catalog."""
        spark = spark_session.Spark(self._settings, self._given)
        spark.on_start = self.progress
        spark.conf_at_start = self._pools
        return spark

    def _pools(self) -> dict[str, str]:
        """What clusters of the catalog ask of Spark's start, if one is open."""
        return clusters.pools_at_start(self.store) if "store" in self.__dict__ else {}

    @cached_property
    def runtime(self) -> Runtime:
        """Everything that needs Iceberg or Spark; listings do without."""
        return parts.open_runtime(self._settings, self.store, self.spark, self.progress)

    @cached_property
    def scheduler(self) -> ticks.Scheduler:
        """It remembers what it has said already."""
        return ticks.Scheduler(self.runtime)

    @property
    def is_running(self) -> bool:
        """Whether the runtime was needed so far."""
        return "runtime" in self.__dict__

    @property
    def world(self) -> CutView:
        """What is read now: the current cut, or the open transaction."""
        transaction = self.runtime.transaction
        return transaction.world if transaction is not None else self.runtime.world()

    def progress(self, event: str, facts: Mapping[str, Any]) -> None:
        """Tell whoever watches."""
        if self.on_progress is not None:
            self.on_progress(event, facts)

    def refuse_in_transaction(self, what: str, hint: str) -> None:
        if self.is_running and self.runtime.transaction is not None:
            raise Refused(f"{what} inside a transaction", hint=hint)

    def close(self) -> None:
        """Stop Spark if it was started here, and close the catalog."""
        if self.is_running:
            self.runtime.close()
        elif "spark" in self.__dict__:
            self.spark.stop()
        if "store" in self.__dict__:
            self.store.close()

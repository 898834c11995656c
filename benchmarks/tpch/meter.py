"""How many bytes Spark has read, from the executors page of its own REST interface."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import urlopen

from pyspark.sql import SparkSession

CONF = {
    "spark.conf.spark.ui.enabled": "true",
    "spark.conf.spark.ui.port": "0",
    # Ranges that Hadoop reads from a local disk in other threads are not counted.
    "spark.conf.spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}


class Meter:
    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"

    def bytes_read(self) -> int:
        """Input of all tasks so far; Spark books a task shortly after it has ended."""
        last = -1
        while (now := self._total()) != last:
            last = now
            time.sleep(0.05)
        return now

    def _total(self) -> int:
        return sum(int(each["totalInputBytes"]) for each in self._get("allexecutors"))

    def _get(self, page: str) -> list[dict[str, Any]]:
        with urlopen(f"{self._url}/{page}") as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

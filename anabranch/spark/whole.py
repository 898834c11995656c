"""Files that are read whole, one task each: there the rows of a task, counted, are positions.

Spark's own row numbers cost more than reading a column: it makes objects for every row.  Counting
is nearly free, but right only if nobody else reads a part of the file, or reads another file before
it.  So files are read in a session that never splits and never packs them, and the plan is asked
whether it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from anabranch.model import Reading
from anabranch.spark.private import reader_beside, tasks_of
from anabranch.spark.session import is_remote
from anabranch.spark.types import POSITION

# A task has its price: files shall have so many rows on average, and none more than its share.
ROWS_PER_TASK = 250_000
_COUNTED = (1 << 33) - 1  # the bits in which `monotonically_increasing_id` counts rows of a task
_ALONE = {
    "spark.sql.files.maxPartitionBytes": str(1 << 60),
    "spark.sql.files.openCostInBytes": str(1 << 60),  # no second file fits beside one
    "spark.sql.files.ignoreCorruptFiles": "false",  # a row that is left out would not be counted
}


def worth_counting(session: SparkSession, reading: Reading) -> bool:
    """Whether one task for each file is no burden and leaves no processor idle for long."""
    if not reading.files or reading.rows < ROWS_PER_TASK * len(reading.files):
        return False
    if is_remote(session):  # its plans cannot be asked
        return False
    return 0 < 2 * reading.longest * session.sparkContext.defaultParallelism <= reading.rows


def reader(session: SparkSession) -> DataFrameReader | None:
    """Reads every file by one task; None where a Spark cannot."""
    return reader_beside(session, _ALONE)


def is_whole(data: DataFrame, files: int) -> bool:
    """Whether every file has a task of its own.

    What splits files and what packs them is one limit, which each file fills: were it lower there
    would be more tasks than files, were it higher there would be fewer.
    """
    return tasks_of(data) == files


def counted(data: DataFrame, chosen: Sequence[SparkColumn]) -> DataFrame:
    """The chosen columns and `_ab_pos`."""
    count = F.monotonically_increasing_id().bitwiseAND(F.lit(_COUNTED))
    return data.select(*chosen).select("*", count.alias(POSITION.name))

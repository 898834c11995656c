"""One round of a fixed point within its bounds: none may fill the disk, or take for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.delta.fixpoint import Exploded, Meter
from anabranch.model import FixpointBound
from anabranch.names import TableName
from anabranch.spark.bounds import at_most, deadline, is_too_many

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def bounded(session: SparkSession, meter: Meter | None, member: TableName) -> Iterator[None]:
    """Inside, jobs end at the bounds of the meter, with `Exploded`."""
    with deadline(session, None if meter is None else meter.seconds_left) as over:
        try:
            yield
        except Exception as error:
            if over():
                raise Exploded(member, FixpointBound.TIME) from error
            if is_too_many(error):
                raise Exploded(member, FixpointBound.ROWS) from error
            raise


def within(rows: DataFrame, meter: Meter | None, existing: int = 0) -> DataFrame:
    """The rows, as far as the bound lets them come beside so many that are `existing`."""
    left = None if meter is None else meter.rows_left
    return rows if left is None else at_most(rows, existing + left + 1)

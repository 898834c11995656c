"""Parquet files by field id, with position deletes applied.

frame(files, skip, only) = { r ∈ files : (file, pos) ∉ skip  ∧  (file, pos) ∈ only if given }
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.engine.errors import translated
from anabranch.engine.paths import Paths, by_form
from anabranch.engine.types import FILE, POSITION, WEIGHT, struct
from anabranch.model import Column, Columns, Delta, Reading
from anabranch.names import quote

_READ_OPTIONS = {
    "__globPaths__": "false",  # a path is a path, also with [ ] or * in it
    "recursiveFileLookup": "true",  # folders named a=b are not partitions
}
_MARKS = (
    Column("file_path", "string", True, FILE.field_id),
    Column("pos", "bigint", True, POSITION.field_id),
)


def frame(
    session: SparkSession, reading: Reading, columns: Columns, *, positions: bool = False
) -> DataFrame:
    """The rows of a reading; `positions` adds where each row lies, as `_ab_file` and `_ab_pos`."""
    if not reading.files:
        return empty(session, (*columns, FILE, POSITION) if positions else columns)
    marks = [(reading.skip, "left_anti"), (reading.only, "left_semi")]
    used = [(paths, how) for paths, how in marks if paths]
    with translated():
        parts = [part(session, paths, columns, used, positions) for paths in by_form(reading.files)]
        return union(parts)


def delta_frame(session: SparkSession, delta: Delta, columns: Columns) -> DataFrame:
    """Every changed row with its weight, +1 or -1; a row may occur with both."""
    signed = [(merged(delta.plus), 1), (merged(delta.minus), -1)]
    parts = [
        frame(session, reading, columns).withColumn(WEIGHT.name, F.lit(weight).cast("bigint"))
        for readings, weight in signed
        for reading in readings
    ]
    return union(parts) if parts else empty(session, (*columns, WEIGHT))


def merged(readings: Sequence[Reading]) -> list[Reading]:
    """Readings without marks as one: a plan with fewer scans."""
    bare = [reading for reading in readings if not reading.skip and not reading.only]
    files = tuple(path for reading in bare for path in reading.files)
    whole = [Reading(files, rows=sum(reading.rows for reading in bare))] if files else []
    return whole + [reading for reading in readings if reading.skip or reading.only]


def part(
    session: SparkSession,
    paths: Paths,
    columns: Columns,
    marks: Sequence[tuple[tuple[str, ...], str]],
    positions: bool,
) -> DataFrame:
    data = read(session, paths.files, columns)
    if not marks and not positions:
        return data
    names = [quote(column.name) for column in columns]
    uri = F.col("_metadata.file_path")
    # Paths are compared as Spark has them if possible: that costs nothing per row.
    place = uri if paths.comparable else paths.listed(uri)
    rows = data.select(
        *names, place.alias("_ab_place"), F.col("_metadata.row_index").alias(POSITION.name)
    )
    for files, how in marks:
        rows = at_marks(session, rows, files, how, paths)
    if not positions:
        return rows.select(*names)
    place = F.col("_ab_place")
    listed = paths.listed(place) if paths.comparable else place
    return rows.select(*names, listed.alias(FILE.name), POSITION.name)


def at_marks(
    session: SparkSession, rows: DataFrame, files: Sequence[str], how: str, paths: Paths
) -> DataFrame:
    """Rows at (left_semi) or not at (left_anti) the places that delete files name.

    The only join key is a hash of path and position, because Spark is fast with one long; the
    places are compared, where hashes agree, in a form that Spark does not take for more keys.
    """
    path = F.col("file_path")
    marks = read(session, files, _MARKS).select(
        (paths.uri(path) if paths.comparable else path).alias("_ab_mark"),
        F.col("pos").alias("_ab_mark_pos"),
    )
    key = F.xxhash64("_ab_place", POSITION.name) == F.xxhash64("_ab_mark", "_ab_mark_pos")
    same_place = F.col("_ab_place").between(F.col("_ab_mark"), F.col("_ab_mark"))
    position = F.col(POSITION.name)
    same_row = position.between(F.col("_ab_mark_pos"), F.col("_ab_mark_pos"))
    return rows.join(marks, key & same_place & same_row, how)


def read(session: SparkSession, files: Sequence[str], columns: Columns) -> DataFrame:
    return session.read.options(**_READ_OPTIONS).schema(struct(columns)).parquet(*files)


def empty(session: SparkSession, columns: Columns) -> DataFrame:
    return session.createDataFrame([], struct(columns))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)

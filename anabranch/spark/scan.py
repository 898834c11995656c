"""Parquet files by field id, with position deletes applied.

frame(files, skip, only) = { r ∈ files : (file, pos) ∉ skip  ∧  (file, pos) ∈ only if given }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from anabranch.model import Column, Columns, Delta, Reading
from anabranch.names import quote
from anabranch.spark import whole
from anabranch.spark.errors import translated
from anabranch.spark.identity import cast
from anabranch.spark.paths import Paths, by_form
from anabranch.spark.tails import check_tails
from anabranch.spark.types import FILE, POSITION, WEIGHT, struct

READ_OPTIONS = {
    "__globPaths__": "false",  # a path is a path, also with [ ] or * in it
    "recursiveFileLookup": "true",  # folders named a=b are not partitions
    "parquet.page.verify-checksum.enabled": "true",
}
_MARKS = (
    Column("file_path", "string", True, FILE.field_id),
    Column("pos", "bigint", True, POSITION.field_id),
)


Among = Callable[[DataFrame], DataFrame]


def frame(
    session: SparkSession,
    reading: Reading,
    columns: Columns,
    *,
    positions: bool = False,
    among: Among | None = None,
) -> DataFrame:
    """The rows of a reading; `positions` adds where each row lies, as `_ab_file` and `_ab_pos`.

    `among` leaves out rows, before marks are looked up: that costs more than most filters.
    """
    if not reading.files:
        return empty(session, (*columns, FILE, POSITION) if positions else columns)
    check_tails(reading)
    marks = [(reading.skip, "left_anti"), (reading.only, "left_semi")]
    used = [(paths, how) for paths, how in marks if paths]
    # Filters are not pushed below a count: it serves those who look for rows by a join.
    counting = positions and among is not None and whole.worth_counting(session, reading)
    with translated():
        parts = [
            part(session, paths, columns, used, positions, among, counting)
            for paths in by_form(reading.files)
        ]
        if counting:  # a frame belongs to the session of its first part
            parts.insert(0, empty(session, (*columns, FILE, POSITION)))
        return union(parts)


def delta_frame(session: SparkSession, delta: Delta, columns: Columns) -> DataFrame:
    """Every changed row with its weight, +1 or -1; a row may occur with both."""
    signed = [(merged(delta.plus), 1), (merged(delta.minus), -1)]
    parts = [
        frame(session, reading, columns).selectExpr("*", cast(WEIGHT, str(weight)))
        for readings, weight in signed
        for reading in readings
    ]
    return union(parts) if parts else empty(session, (*columns, WEIGHT))


def merged(readings: Sequence[Reading]) -> list[Reading]:
    """Readings without marks as one: a plan with fewer scans."""
    bare = [reading for reading in readings if not reading.skip and not reading.only]
    files = tuple(path for reading in bare for path in reading.files)
    tails = {path: tail for reading in bare for path, tail in reading.tails.items()}
    rows = sum(reading.rows for reading in bare)
    whole = [Reading(files, rows=rows, tails=tails)] if files else []
    return whole + [reading for reading in readings if reading.skip or reading.only]


def part(
    session: SparkSession,
    paths: Paths,
    columns: Columns,
    marks: Sequence[tuple[tuple[str, ...], str]],
    positions: bool,
    among: Among | None,
    counting: bool,
) -> DataFrame:
    reader = whole.reader(session) if counting else session.read
    if reader is None:
        return part(session, paths, columns, marks, positions, among, counting=False)
    data = read(reader, paths.files, columns)
    if not marks and not positions:
        return data if among is None else among(data)
    if counting and not whole.is_whole(data, len(paths.files)):
        return part(session, paths, columns, marks, positions, among, counting=False)
    names = [quote(column.name) for column in columns]
    place_of = data.metadataColumn("_metadata")  # also when a column has that name
    wanted = {"file_path": "_ab_uri"}  # more than one, and Spark makes an object for every row
    if not counting:
        wanted["row_index"] = POSITION.name
    if marks and paths.easily_named and not counting:
        wanted["file_name"] = "_ab_name"
    fields = [place_of.getField(field).alias(name) for field, name in wanted.items()]
    chosen = [*map(F.col, names), *fields]
    rows = whole.counted(data, chosen) if counting else data.select(*chosen)
    if among is not None:
        rows = among(rows)
    if marks and "file_name" not in wanted:
        rows = rows.selectExpr("*", f"{last_part(paths.listed('_ab_uri'))} AS _ab_name")
    listed = paths.listed("_ab_uri")
    for files, how in marks:
        rows = at_marks(session, rows, files, how, listed)
    places = [f"{listed} AS {FILE.name}", POSITION.name] if positions else []
    return rows.selectExpr(*names, *places)


def at_marks(
    session: SparkSession, rows: DataFrame, files: Sequence[str], how: str, listed: str
) -> DataFrame:
    """Rows at (left_semi) or not at (left_anti) the places that delete files name.

    The only join key is one long, which Spark is fast with: a hash of file name and position,
    which are there as they are.  Where hashes agree, the places themselves are compared, in a form
    that Spark does not take for more keys.
    """
    marks = read(session.read, files, _MARKS).selectExpr(
        "file_path AS _ab_mark",
        f"{last_part('file_path')} AS _ab_mark_name",
        "pos AS _ab_mark_pos",
    )
    at = POSITION.name
    same = f"""xxhash64(_ab_name, {at}) = xxhash64(_ab_mark_name, _ab_mark_pos)
        AND {listed} BETWEEN _ab_mark AND _ab_mark
        AND {at} BETWEEN _ab_mark_pos AND _ab_mark_pos"""
    return rows.join(marks, F.expr(same), how)


def last_part(path: str) -> str:
    return f"substring_index({path}, '/', -1)"


def read(reader: DataFrameReader, files: Sequence[str], columns: Columns) -> DataFrame:
    """Columns by field id.

    Spark pushes filters down by name even so: a column whose name may mean another one in some
    file is read under a name that no file has.
    """
    asked = [
        replace(column, name=f"_ab_f{column.field_id}") if column.ambiguous else column
        for column in columns
    ]
    data = reader.options(**READ_OPTIONS).schema(struct(asked)).parquet(*files)
    if not any(column.ambiguous for column in columns):
        return data
    pairs = zip(asked, columns, strict=True)
    return data.selectExpr(*(f"{quote(old.name)} AS {quote(new.name)}" for old, new in pairs))


def empty(session: SparkSession, columns: Columns) -> DataFrame:
    """No rows.  Spark sees that from the text, and leaves out whatever is joined with them."""
    listed = (cast(column, "NULL") for column in columns)
    return session.sql(f"SELECT {', '.join(listed)} WHERE FALSE")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)

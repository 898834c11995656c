"""Parquet files by field id, with deletes applied.

frame(files, skip, only) = { r ∈ files : (file, pos) ∉ skip  ∧  (file, pos) ∈ only if given }

and the same for equality deletes, with the values of a row in place of its position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from anabranch.model import Column, Columns, Delta, KeyDeletes, Reading, Vector
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
KeyReadings = Sequence[tuple[Sequence[KeyDeletes], str]]


@dataclass(frozen=True)
class Deletes:
    """What a reading leaves out (left_anti), and what it is restricted to (left_semi)."""

    by_place: Sequence[tuple[Sequence[str], Sequence[Vector], str]]
    keys: KeyReadings
    ages: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, reading: Reading) -> Deletes:
        skip = (reading.skip, reading.skip_vectors, "left_anti")
        only = (reading.only, reading.only_vectors, "left_semi")
        by_keys = [(reading.skip_keys, "left_anti"), (reading.only_keys, "left_semi")]
        return cls(
            [each for each in (skip, only) if each[0] or each[1]],
            [each for each in by_keys if each[0]],
            reading.ages,
        )

    def __bool__(self) -> bool:
        return bool(self.by_place or self.keys)


@dataclass(frozen=True)
class Source:
    """Files of a reading that are read alike."""

    files: tuple[str, ...]
    deletes: Deletes
    names: Mapping[int, str] | None  # of columns in files without ids
    constants: Mapping[str, Mapping[int, str | None]]

    @classmethod
    def each(cls, reading: Reading) -> list[Source]:
        deletes, alike = Deletes.of(reading), dict[frozenset[tuple[int, str]] | None, list[str]]()
        for path in reading.files:
            known = reading.names.get(path)
            alike.setdefault(None if known is None else frozenset(known.items()), []).append(path)
        return [
            cls(tuple(files), deletes, None if key is None else dict(key), constants)
            for key, files in alike.items()
            for constants in [{p: reading.constants[p] for p in files if p in reading.constants}]
        ]


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
    # Filters are not pushed below a count: it serves those who look for rows by a join.
    counting = positions and among is not None and whole.worth_counting(session, reading)
    with translated():
        parts = [
            part(session, paths, columns, source, positions, among, counting)
            for source in Source.each(reading)
            for paths in by_form(source.files)
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
    bare = [reading for reading in readings if reading.bare]
    files = tuple(path for reading in bare for path in reading.files)
    tails = {path: tail for reading in bare for path, tail in reading.tails.items()}
    rows = sum(reading.rows for reading in bare)
    whole = [Reading(files, rows=rows, tails=tails)] if files else []
    return whole + [reading for reading in readings if not reading.bare]


def part(
    session: SparkSession,
    paths: Paths,
    columns: Columns,
    source: Source,
    positions: bool,
    among: Among | None,
    counting: bool,
) -> DataFrame:
    deletes = source.deletes
    keys = key_columns(deletes.keys, columns)
    asked = (*columns, *(each for each in keys.values() if each not in columns))
    reader = whole.reader(session) if counting else session.read
    if reader is None:
        return part(session, paths, columns, source, positions, among, counting=False)
    data = read(reader, paths.files, asked, source.names)
    if not deletes and not positions and not source.constants:
        return data if among is None else among(data)
    if counting and not whole.is_whole(data, len(paths.files)):
        return part(session, paths, columns, source, positions, among, counting=False)
    by_place = deletes.by_place
    names = [quote(column.name) for column in asked]
    place_of = data.metadataColumn("_metadata")  # also when a column has that name
    wanted = {"file_path": "_ab_uri"}  # more than one, and Spark makes an object for every row
    if not counting:
        wanted["row_index"] = POSITION.name
    if by_place and paths.easily_named and not counting:
        wanted["file_name"] = "_ab_name"
    fields = [place_of.getField(field).alias(name) for field, name in wanted.items()]
    chosen = [*map(F.col, names), *fields]
    rows = whole.counted(data, chosen) if counting else data.select(*chosen)
    if source.constants:
        rows = with_constants(session, rows, source.constants, asked, paths.listed("_ab_uri"))
    if among is not None:
        rows = among(rows)
    if by_place and "file_name" not in wanted:
        rows = rows.selectExpr("*", f"{last_part(paths.listed('_ab_uri'))} AS _ab_name")
    listed = paths.listed("_ab_uri")
    for files, vectors, how in by_place:
        rows = at_places(session, rows, files, vectors, how, listed)
    if deletes.keys:
        rows = with_keys(session, rows, deletes, keys, listed)
    places = [f"{listed} AS {FILE.name}", POSITION.name] if positions else []
    return rows.selectExpr(*(quote(column.name) for column in columns), *places)


def at_places(
    session: SparkSession,
    rows: DataFrame,
    files: Sequence[str],
    vectors: Sequence[Vector],
    how: str,
    listed: str,
) -> DataFrame:
    """Rows at (left_semi) or not at (left_anti) the places that delete files name.

    The only join key is one long, which Spark is fast with: a hash of file name and position,
    which are there as they are.  Where hashes agree, the places themselves are compared, in a form
    that Spark does not take for more keys.
    """
    named = [read(session.read, files, _MARKS)] if files else []
    if vectors:
        named.append(named_by(session, vectors))
    deleted = union(named).selectExpr(
        "file_path AS _ab_mark",
        f"{last_part('file_path')} AS _ab_mark_name",
        "pos AS _ab_mark_pos",
    )
    at = POSITION.name
    same = f"""xxhash64(_ab_name, {at}) = xxhash64(_ab_mark_name, _ab_mark_pos)
        AND {listed} BETWEEN _ab_mark AND _ab_mark
        AND {at} BETWEEN _ab_mark_pos AND _ab_mark_pos"""
    return rows.join(deleted, F.expr(same), how)


def named_by(session: SparkSession, vectors: Sequence[Vector]) -> DataFrame:
    """The places that deletion vectors name, as position delete files would."""
    columns: list[list[pa.Array]] = [[], []]
    for each in vectors:
        found = each.positions()
        columns[0].append(pa.repeat(pa.scalar(each.file, pa.string()), len(found)))
        columns[1].append(found)
    arrays = [pa.chunked_array(parts) for parts in columns]
    rows = pa.Table.from_arrays(arrays, names=[column.name for column in _MARKS])
    return session.createDataFrame(rows)


def key_columns(deletes: KeyReadings, columns: Columns) -> dict[int, Column]:
    """The columns that equality deletes look at, by id; also such as users do not see any more."""
    known = {column.field_id: column for column in columns}
    wanted = (column for some, _ in deletes for each in some for column in each.columns)
    return {
        column.field_id: known.get(column.field_id)
        or replace(column, name=f"_ab_k{column.field_id}", ambiguous=False)
        for column in wanted
    }


def with_keys(
    session: SparkSession,
    rows: DataFrame,
    deletes: Deletes,
    keys: Mapping[int, Column],
    listed: str,
) -> DataFrame:
    """Rows that equality deletes leave, or those that they take."""
    rows = aged(session, rows, deletes.ages, listed, "_ab_row")
    for some, how in deletes.keys:
        by_columns: dict[tuple[int, ...], list[KeyDeletes]] = {}
        for each in some:
            by_columns.setdefault(tuple(c.field_id for c in each.columns), []).append(each)
        for ids, group in by_columns.items():
            rows = rows.join(keys_of(session, group), F.expr(same_keys(ids, keys)), how)
    return rows


def same_keys(ids: Sequence[int], keys: Mapping[int, Column]) -> str:
    """NULL equals NULL here; only younger deletes count, of the whole table or the same partition."""
    equal = [f"{quote(keys[each].name)} <=> _ab_d{each}" for each in ids]
    newer = "_ab_key_age > _ab_row_age"
    inside = "(_ab_key_scope = '' OR _ab_key_scope = _ab_row_scope)"
    return " AND ".join((*equal, newer, inside))


def keys_of(session: SparkSession, deletes: Sequence[KeyDeletes]) -> DataFrame:
    """The values that delete files of the same columns list, with the age and scope of each file."""
    asked = tuple(
        replace(column, name=f"_ab_d{column.field_id}", ambiguous=False)
        for column in deletes[0].columns
    )
    ages = {each.path: (each.sequence, each.scope) for each in deletes}
    parts = []
    for paths in by_form(tuple(ages)):
        data = read(session.read, paths.files, asked)
        place = data.metadataColumn("_metadata").getField("file_path").alias("_ab_key_uri")
        rows = data.select(*(F.col(column.name) for column in asked), place)
        parts.append(aged(session, rows, ages, paths.listed("_ab_key_uri"), "_ab_key"))
    return union(parts)


def aged(
    session: SparkSession,
    rows: DataFrame,
    ages: Mapping[str, tuple[int, str]],
    listed: str,
    name: str,
) -> DataFrame:
    """Rows with the age and scope of their files, which are known of each."""
    known = [(path, age, scope) for path, (age, scope) in ages.items()]
    schema = f"{name}_file STRING, {name}_of BIGINT, {name}_scope STRING"
    table = F.broadcast(session.createDataFrame(known, schema))
    found = rows.join(table, F.expr(f"{listed} = {name}_file"), "left")
    missing = f"raise_error(concat('no age is known of ', {listed}))"
    return found.withColumn(f"{name}_age", F.expr(f"coalesce({name}_of, {missing})"))


def last_part(path: str) -> str:
    return f"substring_index({path}, '/', -1)"


def with_constants(
    session: SparkSession,
    rows: DataFrame,
    constants: Mapping[str, Mapping[int, str | None]],
    columns: Columns,
    listed: str,
) -> DataFrame:
    """Rows with the values that their files leave to the metadata: what a file lacks is NULL."""
    ids = sorted({each for known in constants.values() for each in known})
    there = {column.field_id: column for column in columns}
    known = [(path, *(found.get(each) for each in ids)) for path, found in constants.items()]
    schema = ", ".join(["_ab_const_file STRING", *(f"_ab_const{each} STRING" for each in ids)])
    table = F.broadcast(session.createDataFrame(known, schema))
    found = rows.join(table, F.expr(f"{listed} = _ab_const_file"), "left")
    for each in ids:
        if each in there:
            name, type_ = quote(there[each].name), there[each].type
            value = f"coalesce({name}, CAST(_ab_const{each} AS {type_}))"
            found = found.withColumn(there[each].name, F.expr(value))
    return found.drop("_ab_const_file", *(f"_ab_const{each}" for each in ids))


def read(
    reader: DataFrameReader,
    files: Sequence[str],
    columns: Columns,
    names: Mapping[int, str] | None = None,
) -> DataFrame:
    """Columns by field id; with `names` by what files without ids call them.

    Spark pushes filters down by name even so: a column whose name may mean another one in some
    file is read under a name that no file has.
    """
    if names is None:
        asked = [
            replace(column, name=f"_ab_f{column.field_id}") if column.ambiguous else column
            for column in columns
        ]
    else:
        unknown = {column.field_id: f"_ab_f{column.field_id}" for column in columns}
        asked = [
            replace(column, name={**unknown, **names}[column.field_id], field_id=0, nested={})
            for column in columns
        ]
    data = reader.options(**READ_OPTIONS).schema(struct(asked)).parquet(*files)
    if names is None and not any(column.ambiguous for column in columns):
        return data
    pairs = zip(asked, columns, strict=True)
    return data.selectExpr(*(f"{quote(old.name)} AS {quote(new.name)}" for old, new in pairs))


def empty(session: SparkSession, columns: Columns) -> DataFrame:
    """No rows.  Spark sees that from the text, and leaves out whatever is joined with them."""
    listed = (cast(column, "NULL") for column in columns)
    return session.sql(f"SELECT {', '.join(listed)} WHERE FALSE")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)

"""The engine's functions that read, write and compare rows."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import DataError, UserError
from anabranch.lake.places import local_path
from anabranch.model import Column, Columns, KeyDeletes, Op, Reading, Vector, Written
from anabranch.spark import compare, convert, write
from anabranch.spark.arrow import as_arrow
from anabranch.spark.tails import check_tails, damaged, missing
from anabranch.spark.types import FILE, POSITION
from anabranch.spark.write import OP, PHYSICAL
from tests.standin.session import Frame, Row, Session, arrow_of, table_of


def empty(session: Session, columns: Columns) -> Frame:
    return Frame(session, table_of([], columns))


def frame(
    session: Session,
    reading: Reading,
    columns: Columns,
    *,
    positions: bool = False,
    among: object = None,
) -> Frame:
    """The rows of a reading, by field id."""
    check_tails(reading)
    marked = {place for path in reading.skip for place in _marks(path)}
    marked |= {place for each in reading.skip_vectors for place in _named(each)}
    only = {place for path in reading.only for place in _marks(path)}
    only |= {place for each in reading.only_vectors for place in _named(each)}
    by_place = bool(reading.only or reading.only_vectors)
    wanted = (*columns, FILE, POSITION) if positions else columns
    parts = [table_of([], wanted)]
    for path in reading.files:
        part = _file(path, columns, reading.names.get(path))
        for field_id, value in reading.constants.get(path, {}).items():
            for at, column in enumerate(columns):
                if column.field_id == field_id:
                    filled = pa.array([value] * part.num_rows, pa.string())
                    part = part.set_column(at, column.name, filled.cast(arrow_of(column.type)))
        places = [(path, at) for at in range(part.num_rows)]
        kept = [place not in marked and (not by_place or place in only) for place in places]
        if reading.skip_keys or reading.only_keys:
            kept = _by_keys(reading, path, kept)
        if positions:
            part = part.append_column(FILE.name, pa.array([path] * len(places), pa.string()))
            part = part.append_column(POSITION.name, pa.array(range(len(places)), pa.int64()))
        parts.append(part if all(kept) else part.filter(pa.array(kept, pa.bool_())))
    return Frame(session, pa.concat_tables(parts))


def _named(vector: Vector) -> list[tuple[str, int]]:
    return [(vector.file, at) for at in vector.positions().to_pylist()]


def _by_keys(reading: Reading, path: str, kept: list[bool]) -> list[bool]:
    """Without the rows that equality deletes take, or those alone."""
    age, scope = reading.ages[path]

    def taken(some: Sequence[KeyDeletes]) -> list[bool]:
        found = [False] * len(kept)
        for each in some:
            if each.sequence <= age or each.scope not in ("", scope):
                continue
            columns = tuple(replace(c, name=str(c.field_id)) for c in each.columns)
            gone = {tuple(row.values()) for row in _file(each.path, columns).to_pylist()}
            rows = _file(path, columns).to_pylist()
            found = [at or tuple(row.values()) in gone for at, row in zip(found, rows, strict=True)]
        return found

    skipped, only = taken(reading.skip_keys), taken(reading.only_keys)
    return [
        keep and not skip and (not reading.only_keys or wanted)
        for keep, skip, wanted in zip(kept, skipped, only, strict=True)
    ]


@lru_cache(maxsize=2_000)
def _stored(path: str, modified: int) -> pa.Table:
    return pq.read_table(
        path, partitioning=None, use_threads=False, page_checksum_verification=True
    )


def _read(path: str) -> pa.Table:
    """The rows of a file, which never change; one that is gone is not found."""
    local = Path(str(local_path(re.sub("^file:/(?!/)", "file:///", path))))  # as Hadoop writes it
    try:
        return _stored(str(local), local.stat().st_mtime_ns)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise damaged(path, str(error)) from error


def _file(path: str, columns: Columns, names: Mapping[int, str] | None = None) -> pa.Table:
    data = _read(path)
    ids = {_id_of(field): at for at, field in enumerate(data.schema)}
    if names is not None:
        ids = {field_id: data.schema.get_field_index(name) for field_id, name in names.items()}
    found = [
        data.column(ids[column.field_id]).cast(arrow_of(column.type))
        if column.field_id in ids
        else pa.nulls(data.num_rows, arrow_of(column.type))
        for column in columns
    ]
    return pa.table(found, names=[column.name for column in columns])


def _id_of(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _marks(path: str) -> list[tuple[str, int]]:
    places = _read(path).select(["file_path", "pos"])
    return [(row["file_path"], row["pos"]) for row in places.to_pylist()]


def run_sql(session: Session, sql: str, labels: Mapping[str, str] | None = None) -> Frame:
    return session.sql(sql)


def settled(df: Frame) -> Frame:
    return df


def to_frame(session: Session, data: Any, columns: Columns) -> Frame:
    if isinstance(data, Frame):
        return data
    with convert.readable():
        found = as_arrow(data, columns)
        return Frame(session, pa.Table.from_pylist(convert.dicts(data)) if found is None else found)


def rows_frame(
    session: Session, given: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> Frame:
    names = tuple(Column(name, "string") for name in columns)
    texts = [tuple(None if row.get(n) is None else str(row[n]) for n in columns) for row in given]
    return Frame(session, table_of(texts, names))


def in_ranges(df: Frame, keys: Sequence[str], files: int) -> Frame:
    return df


def conformed(
    df: Frame,
    columns: Columns,
    *,
    by_name: bool = True,
    table: str = "the table",
    given: Sequence[str] | None = None,
) -> Frame:
    names = [column.name for column in columns]
    at = df.columns if by_name else list(given or names)
    if len(at) != len(df.columns) or not {*at} <= {*names}:
        raise UserError(f"table {table} takes {', '.join(names)}")
    found = {name: df.data.column(place) for place, name in enumerate(at)}
    try:
        arrays = [
            found[column.name].cast(arrow_of(column.type))
            if column.name in found
            else pa.nulls(df.count(), arrow_of(column.type))
            for column in columns
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # Spark's casts fail alike
        raise DataError(str(error)) from error
    return Frame(df.session, pa.table(arrays, names=names))


def write_frame(df: Frame, directory: str, columns: Columns, files: int | None = None) -> Written:
    """Files with the field ids of `columns`; hidden columns that the rows lack are NULL."""
    write._counted()
    directory = f"{directory.rstrip('/')}/{uuid.uuid4().hex[:8]}"
    there = df.columns
    ops = df.data.column(OP).to_pylist() if OP in there else [Op.ADD.value] * df.count()
    found: dict[str, tuple[str, ...]] = {}
    for op in Op:
        part = df.data.filter(pa.array([each == op.value for each in ops], pa.bool_()))
        if not part.num_rows:
            continue
        places = (FILE, POSITION) if op is Op.REMOVE else ()
        fields, arrays = [], []
        for column in (*columns, *places):
            type_ = arrow_of(column.type)
            arrays.append(
                part.column(column.name).cast(type_)
                if column.name in there
                else pa.nulls(part.num_rows, type_)
            )
            ids = {"PARQUET:field_id": str(column.field_id)}
            fields.append(pa.field(PHYSICAL.get(column.name, column.name), type_, metadata=ids))
        path = f"{directory}/{OP}={op.value}/part-{uuid.uuid4().hex[:8]}.parquet"
        local = Path(
            str(local_path(re.sub("^file:/(?!/)", "file:///", path)))
        )  # as Hadoop writes it
        local.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        pq.write_table(table, local, write_page_checksum=True)
        found[op.value] = (path,)
    return Written(**found, rows=df.count())


def evaluate(df: Frame, columns: Columns) -> None:
    """All rows are there already."""


def add_all(df: Frame, columns: Columns, *, hashed: bool) -> Frame:
    """Every row is new; nobody here looks at hashes."""
    return df


def no_state_difference(*_: object) -> tuple[compare.Surplus, compare.Surplus]:
    """The stand-in writes NULL into hidden columns and never reads them."""
    return compare.Surplus(0, []), compare.Surplus(0, [])


def bag_difference(
    expected: Frame, actual: Frame, columns: Columns, shown: int, *, computed: bool = True
) -> tuple[compare.Surplus, compare.Surplus]:
    """Python calls 0.0 and -0.0 equal, whatever is `computed`."""
    wanted, there = Counter(expected.collect()), Counter(actual.collect())
    names = [column.name for column in columns]

    def surplus(rows: Counter[Row]) -> compare.Surplus:
        listed = [
            {"row": dict(zip(names, row, strict=True)), "count": count}
            for row, count in rows.items()
        ]
        return compare.Surplus(sum(rows.values()), listed[:shown])

    return surplus(wanted - there), surplus(there - wanted)

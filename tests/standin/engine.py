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

An incremental refresh adds Q(sources now) - Q(sources before) to what is stored, which is what the
rules of the delta engine amount to.  Like them it goes wrong if the stored rows are not those of the
query over the sources before.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

import anabranch
from anabranch.api import Anabranch
from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import StreamTable
from anabranch.delta.fixpoint import Counts, NotSettled, Settled, Way
from anabranch.engine import (
    arrow,
    compare,
    conform,
    convert,
    dml,
    query,
    rows,
    scan,
    sorting,
    write,
)
from anabranch.engine import merge as merging
from anabranch.engine.types import FILE, POSITION, parse_type
from anabranch.engine.write import OP, PHYSICAL, actions
from anabranch.errors import DataError, InternalError, UserError
from anabranch.lake.places import local_path
from anabranch.lake.version import TableVersion
from anabranch.model import Column, Columns, FixpointBounds, Op, Reading, Written
from anabranch.names import TableName
from anabranch.refresh import definition as definitions
from anabranch.refresh import jobs
from anabranch.refresh.apply import summary as summary_of
from anabranch.refresh.choose import Choice
from anabranch.refresh.circles import Circle
from anabranch.refresh.component import run as component
from anabranch.refresh.component.anew import Anew
from anabranch.refresh.component.way import not_converged
from anabranch.refresh.definition import Definition
from anabranch.refresh.jobs import hidden_of
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime, Transaction
from tests.oracle.duck import duck

Row = tuple[Any, ...]
_PLACES = (FILE.name, POSITION.name)
_TEXTS: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "void",
}


class Frame:
    """Rows that are there already, with as much of a Spark frame as is asked of one."""

    def __init__(self, session: Session, data: pa.Table) -> None:
        self.session, self.data = session, data

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    @property
    def schema(self) -> T.StructType:
        return T.StructType(
            [
                T.StructField(each.name, parse_type(text_of(each.type)), True)
                for each in self.data.schema
            ]
        )

    def collect(self) -> list[Row]:
        columns = [column.to_pylist() for column in self.data.columns]
        return list(zip(*columns, strict=True)) if columns else []

    def count(self) -> int:
        return int(self.data.num_rows)

    def toArrow(self) -> pa.Table:
        return self.data

    def createOrReplaceTempView(self, name: str) -> None:
        self.session.bind(name.strip("`"), self.data)

    def same(self, *given: Any, **named: Any) -> Frame:
        return self

    hint = repartition = coalesce = localCheckpoint = same


class Session:
    """One DuckDB, with as much of a Spark session as is asked of one."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(config={"threads": 1})
        self._duck.execute("SET default_null_order = 'nulls_first'")
        self._lock = threading.RLock()
        self.conf = _Conf()
        self.catalog = self.sparkContext = self

    def sql(self, text: str) -> Frame:
        with self._lock, _translated():
            found = self._duck.sql(duck(text))
            if found is None:
                raise UserError(f"not a query: {text}")
            kinds = [str(kind) for kind in found.types]
            table = found.to_arrow_table()
        for at, kind in enumerate(kinds):
            if kind == "HUGEINT":  # Spark's sums of integers are bigint
                column = table.column(at).cast(pa.int64())
                table = table.set_column(at, table.column_names[at], column)
        return Frame(self, table)

    def bind(self, name: str, data: pa.Table) -> None:
        with self._lock:
            self._duck.register(name, data)

    def dropTempView(self, name: str) -> None:
        with self._lock:
            self._duck.unregister(name)

    def getLocalProperty(self, name: str) -> str | None:
        return None

    def setLocalProperty(self, name: str, value: str | None) -> None: ...

    def stop(self) -> None:
        self._duck.close()


class _Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (
        duckdb.ConversionException,
        duckdb.OutOfRangeException,
        duckdb.InvalidInputException,
    ) as e:
        raise DataError(str(e)) from e
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as e:
        raise UserError(str(e)) from e


def text_of(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _TEXTS[type_]


def arrow_of(text: str) -> pa.DataType:
    return arrow.arrow_type(parse_type(text))


# -- the engine's functions --------------------------------------------------------------------


def empty(session: Session, columns: Columns) -> Frame:
    return Frame(session, _table([], columns))


def frame(
    session: Session,
    reading: Reading,
    columns: Columns,
    *,
    positions: bool = False,
    among: object = None,
) -> Frame:
    """The rows of a reading, by field id."""
    marked = {place for path in reading.skip for place in _marks(path)}
    only = {place for path in reading.only for place in _marks(path)}
    wanted = (*columns, FILE, POSITION) if positions else columns
    parts = [_table([], wanted)]
    for path in reading.files:
        part = _file(path, columns)
        places = [(path, at) for at in range(part.num_rows)]
        kept = [place not in marked and (not reading.only or place in only) for place in places]
        if positions:
            part = part.append_column(FILE.name, pa.array([path] * len(places), pa.string()))
            part = part.append_column(POSITION.name, pa.array(range(len(places)), pa.int64()))
        parts.append(part if all(kept) else part.filter(pa.array(kept, pa.bool_())))
    return Frame(session, pa.concat_tables(parts))


@lru_cache(maxsize=2_000)
def _stored(path: str, modified: int) -> pa.Table:
    return pq.read_table(path, partitioning=None, use_threads=False)


def _read(path: str) -> pa.Table:
    """The rows of a file, which never change; one that is gone is not found."""
    local = Path(str(local_path(path)))
    return _stored(str(local), local.stat().st_mtime_ns)


def _file(path: str, columns: Columns) -> pa.Table:
    data = _read(path)
    ids = {_id_of(field): at for at, field in enumerate(data.schema)}
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


def _table(rows: Sequence[Row], columns: Columns) -> pa.Table:
    arrays = [
        pa.array([row[at] for row in rows], arrow_of(column.type))
        for at, column in enumerate(columns)
    ]
    return pa.table(arrays, names=[column.name for column in columns])


def run_sql(session: Session, sql: str, labels: Mapping[str, str] | None = None) -> Frame:
    return session.sql(sql)


def settled(df: Frame) -> Frame:
    return df


def to_frame(session: Session, data: Any, columns: Columns) -> Frame:
    if isinstance(data, Frame):
        return data
    return Frame(session, data if isinstance(data, pa.Table) else pa.Table.from_pandas(data))


def rows_frame(
    session: Session, given: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> Frame:
    names = tuple(Column(name, "string") for name in columns)
    texts = [tuple(None if row.get(n) is None else str(row[n]) for n in columns) for row in given]
    return Frame(session, _table(texts, names))


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
    arrays = [
        found[column.name].cast(arrow_of(column.type))
        if column.name in found
        else pa.nulls(df.count(), arrow_of(column.type))
        for column in columns
    ]
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
        local = Path(str(local_path(path)))
        local.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), local)
        found[op.value] = (path,)
    return Written(**found, rows=df.count())


def delete(
    target: Frame, columns: Columns, condition: str | None, *, alias: str, rewrite: bool
) -> Frame:
    return _changed(target, columns, {}, condition, alias, gone=True)


def update(
    target: Frame,
    columns: Columns,
    assignments: Sequence[tuple[str, str]],
    condition: str | None,
    *,
    alias: str,
    rewrite: bool,
    table: str = "the table",
) -> Frame:
    given = {name.lower(): value for name, value in assignments}
    return _changed(target, columns, given, condition, alias, gone=False)


def merge(
    target: Frame,
    columns: Columns,
    source: Frame,
    on: str,
    clauses: Sequence[dml.Clause],
    *,
    alias: str,
    source_alias: str,
    rewrite: bool,
    table: str = "the table",
) -> Frame:
    """MERGE with what is needed of it: no target row may meet two source rows."""
    names = {each: f"_ab_{uuid.uuid4().hex}" for each in ("target", "source")}
    target.createOrReplaceTempView(names["target"])
    source.createOrReplaceTempView(names["source"])
    old = ", ".join(f"{alias}.{each}" for each in (*(c.name for c in columns), *_PLACES))
    left, right = f"{names['target']} AS {alias}", f"{names['source']} AS {source_alias}"
    out: list[Row] = []

    def chosen(match: str, read: str) -> None:
        mine = [clause for clause in clauses if clause.match == match]
        at = " ".join(f"WHEN {c.condition or 'TRUE'} THEN {n}" for n, c in enumerate(mine))
        number = f"CASE {at} END" if mine else "NULL"
        before = "NULL" if match == "not_matched" else old
        values = [_assigned(c, columns, source.columns, alias, source_alias) for c in mine]
        after = "".join(f", {text}" for each in values for text in each)
        text = f"SELECT {before}, {number} AS n{after} FROM {read}"
        start = 0 if match == "not_matched" else len(columns) + 2
        for row in target.session.sql(text).collect():
            place = row[:start] or (None,) * (len(columns) + 2)
            number_met = row[max(start, 1)]
            new = row[max(start, 1) + 1 :]
            if number_met is None:
                if start:
                    out.append((*place[:-2], None, None, Op.KEEP.value))
                continue
            width = len(columns)
            given = new[number_met * width : (number_met + 1) * width]
            if start:
                out.append((*place, Op.REMOVE.value))
            if mine[number_met].action != "delete":
                out.append((*given, None, None, Op.ADD.value))

    try:
        chosen("matched", f"{left} JOIN {right} ON {on}")
        chosen("not_matched_by_source", f"{left} ANTI JOIN {right} ON {on}")
        chosen("not_matched", f"{right} ANTI JOIN {left} ON {on}")
    finally:
        for name in names.values():
            target.session.dropTempView(name)
    places = [row[len(columns) : -1] for row in out if row[-1] == Op.REMOVE.value]
    if len(places) != len({*places}):
        raise DataError(f"MERGE: rows of {table} meet more than one row of the source")
    return Frame(target.session, _table(out, (*columns, FILE, POSITION, Column(OP, "string"))))


def _assigned(
    clause: dml.Clause, columns: Columns, there: Sequence[str], alias: str, source_alias: str
) -> list[str]:
    """Every column's value after a clause of MERGE."""
    given = (
        {name.lower(): f"{source_alias}.{name}" for name in there}
        if clause.star
        else {name.lower(): value for name, value in clause.assignments}
    )
    kept = "NULL" if clause.match == "not_matched" else f"{alias}.{{}}"
    return [f"CAST({given.get(c.name.lower(), kept.format(c.name))} AS {c.type})" for c in columns]


def _changed(
    target: Frame,
    columns: Columns,
    given: Mapping[str, str],
    condition: str | None,
    alias: str,
    *,
    gone: bool,
) -> Frame:
    """The rows of a table, each with what becomes of it."""
    name = f"_ab_{uuid.uuid4().hex}"
    target.createOrReplaceTempView(name)
    new = ", ".join(
        f"CAST({given.get(c.name.lower(), f'{alias}.{c.name}')} AS {c.type}) AS n{at}"
        for at, c in enumerate(columns)
    )
    old = ", ".join(f"{alias}.{c.name}" for c in columns)
    met = f"COALESCE({condition}, FALSE)" if condition is not None else "TRUE"
    text = f"SELECT {old}, {', '.join(_PLACES)}, {new}, {met} AS met FROM {name} AS {alias}"
    try:
        found = target.session.sql(text).collect()
    finally:
        target.session.dropTempView(name)
    width = len(columns)
    out: list[Row] = []
    for row in found:
        before, after, met_it = row[:width], row[width + 2 : -1], row[-1]
        if not met_it or (not gone and before == after):
            out.append((*before, None, None, Op.KEEP.value))
            continue
        out.append((*row[: width + 2], Op.REMOVE.value))
        if not gone:
            out.append((*after, None, None, Op.ADD.value))
    return Frame(target.session, _table(out, (*columns, FILE, POSITION, Column(OP, "string"))))


def bag_difference(
    expected: Frame, actual: Frame, columns: Columns, shown: int
) -> tuple[compare.Surplus, compare.Surplus]:
    wanted, there = Counter(expected.collect()), Counter(actual.collect())
    names = [column.name for column in columns]

    def surplus(rows: Counter[Row]) -> compare.Surplus:
        listed = [
            {"row": dict(zip(names, row, strict=True)), "count": count}
            for row, count in rows.items()
        ]
        return compare.Surplus(sum(rows.values()), listed[:shown])

    return surplus(wanted - there), surplus(there - wanted)


# -- refreshes ---------------------------------------------------------------------------------


def full_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
    *,
    compare: bool = True,
) -> TableVersion:
    stored = tx.world.version(stream.name)
    hidden = hidden_of(stream, definition)
    rows = _result(tx, definition, sources, now=True)
    if compare and stream.populated and {*stored.hidden} >= {*hidden}:
        return _exchange(runtime, tx, stored, Counter(rows), hidden, summary)
    made = Frame(runtime.spark.session, _table(rows, stored.columns))
    written = write_frame(made, tx.stage.directory(stream.name), (*stored.columns, *hidden))
    return tx.stage.commit_rows(
        stream.name, written, replace_all=True, hidden=hidden, summary=summary
    )


def incremental_job(
    runtime: Runtime,
    tx: Transaction,
    stream: StreamTable,
    definition: Definition,
    sources: Sources,
    summary: Mapping[str, str],
) -> TableVersion:
    """stored + Q(now) - Q(before)."""
    stored = tx.world.version(stream.name)
    wanted = Counter(frame(runtime.spark.session, stored.reading(), stored.columns).collect())
    wanted.update(_result(tx, definition, sources, now=True))
    wanted.subtract(_result(tx, definition, sources, now=False))
    if any(count < 0 for count in wanted.values()):
        raise InternalError(f"{stream.name}: a row would be there less than no times")
    return _exchange(runtime, tx, stored, +wanted, definition.hidden, summary)


def _result(tx: Transaction, definition: Definition, sources: Sources, *, now: bool) -> list[Row]:
    world = tx.world

    def rows_of(name: TableName, looked_in: str | None) -> Any:
        version = sources.versions[name]
        snapshot = version.snapshot_id if now else sources.before[name]
        reading = version.reading(snapshot) if snapshot is not None else Reading(())
        return frame(world.spark.session, reading, version.columns)

    with query.Inputs(world.spark.session) as inputs:
        text = world.bind(inputs, definition.query, rows=rows_of)
        return run_sql(world.spark.session, text).collect()


def _exchange(
    runtime: Runtime,
    tx: Transaction,
    stored: TableVersion,
    wanted: Counter[Row],
    hidden: Columns,
    summary: Mapping[str, str],
) -> TableVersion:
    """The table with these rows: those that stay are kept, the others exchanged."""
    session, columns = runtime.spark.session, stored.columns
    missing, out = Counter(wanted), []
    for row in frame(session, stored.reading(), columns, positions=True).collect():
        values = row[: len(columns)]
        if missing[values] > 0:
            missing[values] -= 1
            out.append((*values, None, None, Op.KEEP.value))
        else:
            out.append((*row, Op.REMOVE.value))
    out += [(*row, None, None, Op.ADD.value) for row in missing.elements()]
    made = Frame(session, _table(out, (*columns, FILE, POSITION, Column(OP, "string"))))
    written = write_frame(made, tx.stage.directory(stored.name), (*columns, *hidden))
    return tx.stage.commit_rows(stored.name, written, rewrite=True, hidden=hidden, summary=summary)


def add_all(df: Frame, columns: Columns, *, hashed: bool) -> Frame:
    """Every row is new; nobody here looks at hashes."""
    return df


# -- tables that read each other ---------------------------------------------------------------


def component_run(self: component.Work) -> Settled | None:
    """The smallest tables that equal their queries over each other: upwards from what is stored if
    rows only came, as semi-naive rounds do, and from nothing otherwise."""
    if self.plan.way is None:
        return None
    empty_start = self.plan.way is not Way.INSERTS or self.plan.afresh
    session = self.runtime.spark.session
    stored = {name: each.version for name, each in self.rows.items()}
    found = {
        name: Counter[Row]()
        if empty_start
        else Counter(frame(session, version.reading(), version.columns).collect())
        for name, version in stored.items()
    }
    settled, rounds = _settled(self.bounds, list(found), found, partial(_member, self), self.watch)
    self.rows = settled  # type: ignore[assignment]  # what `component_stage` takes
    return Settled(Way.EMPTY if empty_start else self.plan.way, (), rounds)


def _settled(
    bounds: FixpointBounds,
    members: Sequence[TableName],
    found: Mapping[TableName, Counter[Row]],
    member: Callable[[TableName, Mapping[TableName, Counter[Row]]], Counter[Row]],
    watch: Callable[[Counts], None],
) -> tuple[Mapping[TableName, Counter[Row]], tuple[Counts, ...]]:
    rounds: list[Counts] = []
    while True:
        again = {name: member(name, found) for name in members}
        if again == found:
            return found, tuple(rounds)
        added = {name: sum((again[name] - found[name]).values()) for name in members}
        if len(rounds) >= bounds.rounds:
            raise not_converged(NotSettled(rounds), members, bounds)
        found = again
        rounds.append(added)
        watch(added)


def _member(work: component.Work, name: TableName, found: Mapping[TableName, Any]) -> Counter[Row]:
    world, session = work.tx.world, work.runtime.spark.session

    def rows_of(source: TableName, looked_in: str | None) -> Any:
        if source in found:
            return Frame(
                session, _table(list(found[source].elements()), world.version(source).columns)
            )
        version = work.sources.versions[source]
        return frame(session, version.reading(), version.columns)

    with query.Inputs(session) as inputs:
        text = world.bind(inputs, work.circle[name].definition.query, rows=rows_of)
        return Counter(run_sql(session, text).collect())


def component_anew(
    self: Anew, circle: Circle, inputs: query.Inputs, bound: Callable[[TableName], str]
) -> dict[TableName, Frame]:
    """For `verify`: from nothing, over the sources as they were."""
    world, session = self.world, self.runtime.spark.session

    def member(name: TableName, found: Mapping[TableName, Counter[Row]]) -> Counter[Row]:
        def rows_of(source: TableName, looked_in: str | None) -> Any:
            if source in found:
                rows = list(found[source].elements())
                return Frame(session, _table(rows, world.version(source).columns))
            return session.sql(f"SELECT * FROM {bound(source)}")

        with query.Inputs(session) as more:
            text = world.bind(more, self.seen.streams[name].query, rows=rows_of)
            return Counter(run_sql(session, text).collect())

    streams = [self.seen.streams[name] for name in circle]
    bounds = bounds_of(streams, self.runtime.settings)
    nothing: dict[TableName, Counter[Row]] = {name: Counter() for name in circle}
    found, _ = _settled(bounds, sorted(circle), nothing, member, lambda counts: None)
    return {
        name: Frame(session, _table(list(rows.elements()), world.version(name).columns))
        for name, rows in found.items()
    }


def component_stage(self: component.Work, settled: Settled, choice: Choice) -> None:
    for name, each in self.circle.items():
        told = summary_of(each.definition, self.sources, choice, self.stands_at)
        stored, hidden = self.tx.world.version(name), each.definition.hidden
        wanted: Counter[Row] = self.rows[name]  # type: ignore[assignment]
        if not self.plan.afresh:
            _exchange(self.runtime, self.tx, stored, wanted, hidden, told)
            continue
        made = Frame(self.runtime.spark.session, _table(list(wanted.elements()), stored.columns))
        written = write_frame(made, self.tx.stage.directory(name), (*stored.columns, *hidden))
        self.tx.stage.commit_rows(name, written, replace_all=True, hidden=hidden, summary=told)


# -- putting it in place -----------------------------------------------------------------------

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
    (dml.delete, delete),
    (dml.update, update),
    (dml.merge, merge),
    (merging.add_all, add_all),
    (compare.bag_difference, bag_difference),
    (jobs.full_job, full_job),
    (jobs.incremental_job, incremental_job),
)


METHODS: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (component.Work, "run", component_run),
    (component.Work, "stage", component_stage),
    (Anew, "compute", component_anew),
)


@contextmanager
def installed() -> Iterator[None]:
    """Inside, every module of ours computes rows with the stand-in."""
    definitions._cache.clear()
    methods = [(kind, name, getattr(kind, name)) for kind, name, _ in METHODS]
    for real, other in REPLACED:
        swap(real, other)
    for kind, name, other in METHODS:
        setattr(kind, name, other)
    try:
        yield
    finally:
        for kind, name, real in methods:
            setattr(kind, name, real)
        for real, other in REPLACED:
            swap(other, real)
        definitions._cache.clear()


def swap(found: Any, other: Any) -> None:
    """Every module of ours that has one gets the other."""
    for name, module in list(sys.modules.items()):
        if name == "anabranch" or name.startswith("anabranch."):
            for attribute, value in list(vars(module).items()):
                if value is found:
                    setattr(module, attribute, other)


def connect(target: Any, **settings: Any) -> Anabranch:
    """A home whose rows the stand-in computes; one thread, so that runs can be repeated."""
    session = settings.pop("spark", None) or Session()
    return anabranch.connect(target, spark=session, **{"parallelism": 1, **settings})


__all__ = ["Frame", "Session", "actions", "connect", "installed", "swap"]

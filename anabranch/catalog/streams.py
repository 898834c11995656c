"""Stream tables, what they depend on, what they last read, and their frontiers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    delete,
    insert,
    literal_column,
    null,
    select,
    union_all,
    update,
)

from anabranch import edition
from anabranch.catalog import cuts, tables
from anabranch.catalog.remembered import known, once, tell
from anabranch.catalog.tables import CHUNK
from anabranch.edition import Edition
from anabranch.model import RefreshMode, Status
from anabranch.names import TableName

MIXED_CUTS = (
    "mixed_cuts"  # an option: the cuts that a table mixes which opted out of standing at one
)
MONOTONE = "monotone"  # an option of members: False once a refresh found that they are not
# What everybody looks at; lineage is read by those who ask for it.
_STATE = [column for column in tables.stream_tables.c if column.name != "lineage"]
DECLARED = frozenset({"query", "refresh_mode", "diamond_consistency", "cluster"})


UNPLANNED = "-unplanned"  # in fingerprints: our own planning failed, and may not the next time
EDITIONS = 4  # that are remembered of those that have confirmed a fingerprint


@dataclass(frozen=True)
class Basis:
    """What rows are computed from: the token of the definition, what it meant, and which editions
    have confirmed that it means this to them."""

    token: str
    fingerprint: str | None = None
    editions: tuple[Edition, ...] = ()

    def __str__(self) -> str:
        return "/".join((self.token, self.fingerprint or "", ",".join(map(str, self.editions))))

    @classmethod
    def parse(cls, text: str | None) -> Basis:
        token, *rest = (text or "").split("/")
        if len(rest) != 2:  # none was noted, or by a catalog that knew no editions
            return cls(token)
        found = (Edition.parse(each) for each in rest[1].split(","))
        return cls(token, rest[0], tuple(each for each in found if each is not None))

    def confirms(self, stream: StreamTable) -> bool:
        """Whether it is about the definition and the fingerprint that the catalog has."""
        return self.token == stream.token and self.fingerprint == stream.fingerprint


def computed_from(definition: str | None, fingerprint: str, *known: Edition) -> str:
    """What to note of rows: this edition stands for them, and so do the `known` ones.

    Nobody stands for rows of a query that could not be planned: each process looks at them again.
    """
    if is_unplanned(fingerprint):
        return str(Basis(definition or "", fingerprint))
    editions = [*(each for each in known if each != edition.current()), edition.current()]
    return str(Basis(definition or "", fingerprint, tuple(editions[-EDITIONS:])))


def is_unplanned(fingerprint: str) -> bool:
    """Whether it tells the text of a query, because planning it failed by a fault of ours."""
    return UNPLANNED in fingerprint


def new_token() -> str:
    return uuid4().hex


@dataclass(frozen=True)
class StreamTable:
    """A stream table as declared, and where it stands."""

    name: TableName
    query: str
    fingerprint: str
    refresh_mode: RefreshMode = RefreshMode.AUTO
    schedule: str | None = None
    diamond_consistency: str = "atomic"
    diamond_schedule_policy: str = "default"
    status: Status = Status.INITIALIZING
    populated: bool = False
    consecutive_errors: int = 0
    last_error: str | None = None
    last_refresh_at: datetime | None = None
    created_at: datetime = field(default_factory=tables.now)
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    epoch: int | None = None  # of its group at its last publish
    next_retry_at: datetime | None = None  # a failed refresh is not tried again before
    failed_mark: str | None = None  # what it had read when it failed for good: see refresh.failures
    cluster: str | None = None  # where it is refreshed
    max_fixpoint_iterations: int | None = None  # bounds of its cycle; None: what the settings say
    max_fixpoint_rows: int | None = None
    max_fixpoint_time: float | None = None
    definition: str | None = field(default_factory=new_token)  # another one with each redefinition
    computed_from: str | None = None  # what the rows follow: see `Basis`
    cut_id: int | None = None  # the cut it stands at: it equals its query over all sources there
    data_at: datetime | None = None  # the newest commit of its sources there

    @property
    def token(self) -> str:
        """The definition; catalogs made before there were tokens have an empty one."""
        return self.definition or ""

    @property
    def basis(self) -> Basis:
        return Basis.parse(self.computed_from)

    @property
    def is_confirmed(self) -> bool:
        """Whether this edition has seen that the rows are computed from what is declared."""
        basis = self.basis
        return basis.confirms(self) and edition.current() in basis.editions

    @property
    def cuts(self) -> tuple[int, ...]:
        """The cut it stands at, or those that it mixes; none if that is not known."""
        one = () if self.cut_id is None else (self.cut_id,)
        return tuple(self.options.get(MIXED_CUTS, ())) or one


@dataclass(frozen=True)
class Input:
    """A source as it was last read; an empty table has no snapshot."""

    metadata_location: str | None
    snapshot_id: int | None


def add(c: Connection, streams: Iterable[StreamTable]) -> None:
    rows = [_row(asdict(stream) | {"name": stream.name}) for stream in streams]
    if rows:
        c.execute(insert(tables.stream_tables), rows)


def change(c: Connection, name: TableName, **values: Any) -> bool:
    """Set some fields; False when there is no such stream table.

    Whoever declares something else gives the table another token.  Its rows follow the new definition
    if the query is still the same.
    """
    unknown = values.keys() - {each.name for each in fields(StreamTable)}
    assert not unknown, unknown
    if values.keys() & DECLARED:
        values = {"definition": new_token(), **values}
        before = get(c, name)
        if before is not None and not values.keys() & {"query", "computed_from"}:
            token = values["definition"]
            values["computed_from"] = carried(before.computed_from, before.definition, token)
    statement = update(tables.stream_tables).where(tables.stream_tables.c.name == str(name))
    return c.execute(statement.values(**_row(values))).rowcount == 1


def change_all(c: Connection, found: Mapping[TableName, Mapping[str, Any]]) -> None:
    """Set the same fields of several tables, to values of their own; none that declares anything."""
    assert not any(DECLARED.intersection(values) for values in found.values())
    _set_all(c, found)


def declare(
    c: Connection,
    found: Mapping[TableName, Mapping[str, Any]],
    given: Mapping[str, str],
) -> None:
    """Set the same options of several tables, which keep their queries; their tokens are `given`."""
    there = all_streams(c)
    rows = {}
    for name, values in found.items():
        if (before := there.get(name)) is not None:
            token = given[str(name)]
            follows = carried(before.computed_from, before.definition, token)
            rows[name] = {**values, "definition": token, "computed_from": follows}
    _set_all(c, rows)


def _set_all(c: Connection, found: Mapping[TableName, Mapping[str, Any]]) -> None:
    if not found:
        return
    fields_set = tuple(next(iter(found.values())))
    table = tables.stream_tables
    own = update(table).where(table.c.name == bindparam("b_name"))
    statement = own.values(**{each: bindparam(f"b_{each}") for each in fields_set})
    rows = [
        {"b_name": str(name)} | {f"b_{each}": value for each, value in _row(dict(values)).items()}
        for name, values in found.items()
    ]
    c.execute(statement, rows)


def carried(known: str | None, before: str | None, after: str) -> str | None:
    """What the rows follow when the table gets another token and keeps its meaning."""
    own, slash, rest = (known or "").partition("/")
    return f"{after}/{rest}" if slash and own == (before or "") else known


def renamed(known: str | None, before: str, after: str) -> str | None:
    """What the rows follow when the same query has another fingerprint, because names in it changed:
    only this edition knows that."""
    basis = Basis.parse(known)
    return computed_from(basis.token, after) if basis.fingerprint == before else known


def renewed(row: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    """The row of a stream table with another token."""
    token = token or new_token()
    follows = carried(row["computed_from"], row["definition"], token)
    return row | {"definition": token, "computed_from": follows}


def among(c: Connection, names: Collection[TableName]) -> frozenset[TableName]:
    """Those of some tables that are stream tables."""
    if not names:
        return frozenset()
    shown = tables.stream_tables.c.name
    rows = c.execute(select(shown).where(shown.in_([str(name) for name in names])))
    return frozenset(TableName.parse(name) for name in rows.scalars())


def tokens(c: Connection) -> dict[TableName, str]:
    """The definition of every stream table."""
    rows = c.execute(select(tables.stream_tables.c.name, tables.stream_tables.c.definition))
    return {TableName.parse(row.name): row.definition or "" for row in rows}


def touch(c: Connection, names: Iterable[TableName], moment: datetime) -> None:
    """Note that the tables were refreshed just now, even if nothing had changed."""
    shown = [str(name) for name in names]
    for start in range(0, len(shown), CHUNK):
        chosen = tables.stream_tables.c.name.in_(shown[start : start + CHUNK])
        c.execute(update(tables.stream_tables).where(chosen).values(last_refresh_at=moment))


def note_cut(
    c: Connection,
    cut_id: int,
    frontiers: Mapping[TableName, Mapping[TableName, int | None]],
    known: Mapping[TableName, Mapping[TableName, int | None]] | None = None,
) -> None:
    """The tables, unchanged, stand at another cut, on these snapshots; `known`: see `set_frontiers`."""
    if not frontiers:
        return
    times = cuts.commit_times(c, cut_id, {each for read in frontiers.values() for each in read})
    statement = update(tables.stream_tables).where(
        tables.stream_tables.c.name == bindparam("b_name")
    )
    held = {
        name: max((times[each] for each in read if each in times), default=None)
        for name, read in frontiers.items()
    }
    rows = [{"b_name": str(name), "b_data": at} for name, at in held.items()]
    c.execute(statement.values(cut_id=cut_id, data_at=bindparam("b_data")), rows)
    set_frontiers(c, frontiers, known)


Standing = tuple[int | None, str, datetime | None]


def standing_of(stream: StreamTable) -> Standing:
    """The cut, the definition and the last refresh of a table: equal means nothing happened."""
    return stream.cut_id, stream.token, stream.last_refresh_at


def set_epochs(c: Connection, found: Mapping[TableName, int]) -> None:
    change_all(c, {name: {"epoch": epoch} for name, epoch in found.items()})


def remove(c: Connection, name: TableName) -> bool:
    """Forget a stream table with its dependencies, inputs and frontier; history stays."""
    for table in (tables.dependencies, tables.inputs, tables.frontiers):
        c.execute(delete(table).where(table.c.table_name == str(name)))
    statement = delete(tables.stream_tables).where(tables.stream_tables.c.name == str(name))
    return c.execute(statement).rowcount == 1


def get(c: Connection, name: TableName) -> StreamTable | None:
    if (every := known(c, all_streams)) is not None:
        return every.get(name)
    statement = select(*_STATE).where(tables.stream_tables.c.name == str(name))
    row = c.execute(statement).mappings().one_or_none()
    return None if row is None else _stream(row)


@once(tables.stream_tables)
def all_streams(c: Connection) -> dict[TableName, StreamTable]:
    rows = c.execute(select(*_STATE).order_by(tables.stream_tables.c.name))
    streams = [_stream(row) for row in rows.mappings()]
    return {stream.name: stream for stream in streams}


def set_dependencies(c: Connection, graph: Mapping[TableName, Iterable[TableName]]) -> None:
    """Replace the upstreams of the given tables."""
    _replace(c, tables.dependencies, graph, rows_of_dependencies(graph))


def rows_of_dependencies(graph: Mapping[TableName, Iterable[TableName]]) -> list[dict[str, Any]]:
    return [
        {"table_name": str(name), "upstream": str(upstream)}
        for name, upstreams in graph.items()
        for upstream in dict.fromkeys(upstreams)
    ]


@once(tables.dependencies)
def dependencies(c: Connection) -> dict[TableName, tuple[TableName, ...]]:
    if (whole := known(c, whole_graph)) is not None:
        return dict(whole.dependencies)
    found: dict[TableName, list[TableName]] = {}
    table = tables.dependencies
    for row in c.execute(select(table).order_by(table.c.table_name, table.c.upstream)):
        found.setdefault(TableName.parse(row.table_name), []).append(TableName.parse(row.upstream))
    return {name: tuple(upstreams) for name, upstreams in found.items()}


def set_inputs(
    c: Connection,
    read: Mapping[TableName, Mapping[TableName, Input]],
    known: Mapping[TableName, Mapping[TableName, Input]] | None = None,
) -> None:
    """Replace what the given tables have read; `known` is what the catalog has, if that was read."""
    _replace(c, tables.inputs, read, rows_of_inputs(read), known)


def rows_of_inputs(read: Mapping[TableName, Mapping[TableName, Input]]) -> list[dict[str, Any]]:
    return [
        {"table_name": str(name), "source": str(source), **asdict(each)}
        for name, sources in read.items()
        for source, each in sources.items()
    ]


def carry_inputs(c: Connection, source: TableName, before: str, after: str) -> None:
    """Whoever has read a table has read what only its metadata tells from it, too."""
    table = tables.inputs
    read = (table.c.source == str(source)) & (table.c.metadata_location == before)
    c.execute(update(table).where(read).values(metadata_location=after))


def inputs(
    c: Connection, names: Iterable[TableName] | None = None
) -> dict[TableName, dict[TableName, Input]]:
    """What stream tables have read: all of them, or the given ones."""
    found: dict[TableName, dict[TableName, Input]] = {}
    table = tables.inputs
    asked = [select(table)]
    if names is not None:
        shown = [str(name) for name in names]
        chunks = [shown[at : at + CHUNK] for at in range(0, len(shown), CHUNK)]
        asked = [select(table).where(table.c.table_name.in_(chunk)) for chunk in chunks]
    for row in (row for statement in asked for row in c.execute(statement)):
        source = TableName.parse(row.source)
        read = Input(row.metadata_location, row.snapshot_id)
        found.setdefault(TableName.parse(row.table_name), {})[source] = read
    return found


def set_frontiers(
    c: Connection,
    frontiers: Mapping[TableName, Mapping[TableName, int | None]],
    known: Mapping[TableName, Mapping[TableName, int | None]] | None = None,
) -> None:
    """Replace the frontiers of the given tables; `known` is what the catalog has, if that was read."""
    _replace(c, tables.frontiers, frontiers, rows_of_frontiers(frontiers), known)


def rows_of_frontiers(
    frontiers: Mapping[TableName, Mapping[TableName, int | None]],
) -> list[dict[str, Any]]:
    return [
        {"table_name": str(name), "source": str(source), "snapshot_id": snapshot}
        for name, sources in frontiers.items()
        for source, snapshot in sources.items()
    ]


@dataclass(frozen=True)
class Graph:
    """What stream tables depend on, what they last read, and their frontiers."""

    dependencies: Mapping[TableName, tuple[TableName, ...]]
    inputs: Mapping[TableName, Mapping[TableName, Input]]
    frontiers: Mapping[TableName, Mapping[TableName, int | None]]


_READS, _READ, _STANDS = range(3)


@once(tables.dependencies, tables.inputs, tables.frontiers)
def whole_graph(c: Connection) -> Graph:
    """All three in one SELECT."""
    return _graph(c, None)


def graph_of(c: Connection, read_by: Collection[TableName]) -> Graph:
    """The dependencies, and the rest of the given tables at least."""
    found = known(c, whole_graph)
    if found is None:
        found = _graph(c, read_by)
        tell(c, dependencies, dict(found.dependencies))
    return found


def _graph(c: Connection, read_by: Collection[TableName] | None) -> Graph:
    depends, read, stands = tables.dependencies.c, tables.inputs.c, tables.frontiers.c
    number: list[ColumnElement[int]] = [literal_column(str(each)) for each in range(3)]
    # The one with all columns comes first: PostgreSQL takes the types from it.
    inputs_of = select(
        number[_READ], read.table_name, read.source, read.metadata_location, read.snapshot_id
    )
    depend_on = select(number[_READS], depends.table_name, depends.upstream, null(), null())
    stand_on = select(number[_STANDS], stands.table_name, stands.source, null(), stands.snapshot_id)
    if read_by is not None and len(read_by) <= CHUNK:
        shown = [str(name) for name in read_by]
        inputs_of = inputs_of.where(read.table_name.in_(shown))
        stand_on = stand_on.where(stands.table_name.in_(shown))
    rows = c.execute(union_all(inputs_of, depend_on, stand_on))
    reads: dict[TableName, list[TableName]] = {}
    inputs: dict[TableName, dict[TableName, Input]] = {}
    frontiers: dict[TableName, dict[TableName, int | None]] = {}
    for kind, table, upstream, location, snapshot in rows:
        name, source = TableName.parse(table), TableName.parse(upstream)
        if kind == _READS:
            reads.setdefault(name, []).append(source)
        elif kind == _READ:
            inputs.setdefault(name, {})[source] = Input(location, snapshot)
        else:
            frontiers.setdefault(name, {})[source] = snapshot
    ordered = sorted(reads, key=str)
    return Graph({name: tuple(sorted(reads[name], key=str)) for name in ordered}, inputs, frontiers)


def frontiers(c: Connection) -> dict[TableName, dict[TableName, int | None]]:
    found: dict[TableName, dict[TableName, int | None]] = {}
    for row in c.execute(select(tables.frontiers)):
        source = TableName.parse(row.source)
        found.setdefault(TableName.parse(row.table_name), {})[source] = row.snapshot_id
    return found


def stands(c: Connection) -> set[int]:
    """The cuts that stream tables stand at."""
    found = select(tables.stream_tables.c.cut_id).distinct()
    return {cut_id for cut_id in c.execute(found).scalars() if cut_id is not None}


def needed_snapshots(c: Connection) -> dict[TableName, set[int]]:
    """Snapshots that some stream table still stands on: they must not expire."""
    found: dict[TableName, set[int]] = {}
    for table in (tables.inputs, tables.frontiers):
        for row in c.execute(select(table.c.source, table.c.snapshot_id).distinct()):
            if row.snapshot_id is not None:
                found.setdefault(TableName.parse(row.source), set()).add(row.snapshot_id)
    return found


def _replace(
    c: Connection,
    table: Table,
    names: Mapping[TableName, Iterable[TableName]],
    rows: list[dict[str, Any]],
    known: Mapping[TableName, Mapping[TableName, object]] | None = None,
) -> None:
    """Rows of the same keys as are known get other values; others take the place of those there."""
    if known is not None and all(set(known.get(n, ())) == set(each) for n, each in names.items()):
        _set_values(c, table, rows)
        return
    shown = [str(name) for name in names]
    for start in range(0, len(shown), CHUNK):
        c.execute(delete(table).where(table.c.table_name.in_(shown[start : start + CHUNK])))
    if rows:
        c.execute(insert(table), rows)


def _set_values(c: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    keys = ("table_name", "source")
    here = [table.c[key] == bindparam(f"b_{key}") for key in keys]
    others: dict[str, Any] = {key: bindparam(f"b_{key}") for key in rows[0] if key not in keys}
    statement = update(table).where(*here).values(**others)
    c.execute(statement, [{f"b_{key}": value for key, value in row.items()} for row in rows])


def _row(values: dict[str, Any]) -> dict[str, Any]:
    row = dict(values)
    if "name" in row:
        row["name"] = str(row["name"])
    for key in ("refresh_mode", "status"):
        if key in row:
            row[key] = row[key].value
    if "options" in row:
        row["options"] = dict(row["options"])
    return row


def _stream(row: Mapping[Any, Any]) -> StreamTable:
    values = {str(key): value for key, value in row.items()}
    values["name"] = TableName.parse(values["name"])
    values["refresh_mode"] = RefreshMode(values["refresh_mode"])
    values["status"] = Status(values["status"])
    return StreamTable(**values)

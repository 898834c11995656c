"""Cuts, and the table versions that each of them shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Table,
    Text,
    and_,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    true,
    tuple_,
    union_all,
    update,
)

from anabranch.cache import cached
from anabranch.catalog import foreign, tables, views
from anabranch.catalog.remembered import once, tell
from anabranch.catalog.tables import CHUNK
from anabranch.errors import InvalidValue, UnknownName
from anabranch.names import TableName

MANY_NAMES = 5_000


@dataclass(frozen=True)
class Version:
    """A table as a cut shows it; no location means that the cut dropped it.

    The location names the version.  Whether there is still a file of that name does not matter where
    the `shape` is known: it and the snapshot tell all that the file did.
    """

    name: TableName
    metadata_location: str | None
    snapshot_id: int | None = None
    table_uuid: str | None = None
    shape: str | None = None


@dataclass(frozen=True)
class Shown:
    """The newest recorded cut, and the commits of others that are part of no cut yet."""

    cut_id: int
    pointers: Mapping[TableName, str]
    committed: Mapping[TableName, datetime | None]  # None: not noted by an older Anabranch
    moved: Sequence[Version]
    foreign: frozenset[TableName] = frozenset()  # those of `pointers` that attached catalogs have


def current(c: Connection) -> int:
    """The newest cut; 0 when nothing was ever published.  Who only reads has asked at the start."""
    known: int | None = c.get_execution_options().get(tables.CUT)
    return _counter(c) if known is None else known


@once(tables.meta)
def _counter(c: Connection) -> int:
    return int(c.execute(select(tables.meta.c.cut)).scalar_one())


def advance(c: Connection) -> int:
    """The next cut id.  Locks the counter to the end of the transaction: publishes queue up."""
    counter = tables.meta.c.cut
    next_one = update(tables.meta).values(cut=counter + 1).returning(counter)
    cut_id = int(c.execute(next_one).scalar_one())
    tell(c, _counter, cut_id)
    return cut_id


def hold(c: Connection, *, seconds: float | None = None) -> None:
    """Wait in the same queue as publishes, without a cut: for changes of our own rows only."""
    if c.dialect.name == "sqlite":
        return  # a transaction that writes is alone from its beginning
    if seconds is not None:
        c.execute(text(f"SET LOCAL lock_timeout = {int(seconds * 1000)}"))
    tell(c, _counter, int(c.execute(select(tables.meta.c.cut).with_for_update()).scalar_one()))


def add(
    c: Connection,
    cut_id: int,
    kind: str,
    versions: Iterable[Version],
    stage_id: str | None = None,
) -> None:
    """Record a cut and what it changed; older versions of the same tables end with it."""
    views.note_versions(c, cut_id - 1)
    facts = {"published_at": _next_moment(c), "kind": kind, "stage_id": stage_id}
    made = insert(tables.cuts).values(cut_id=cut_id, **facts)
    moment = c.execute(made.returning(tables.cuts.c.published_at)).scalar_one()
    rows: list[dict[str, Any]] = [
        {
            "namespace": version.name.schema,
            "name": version.name.name,
            "cut_id": cut_id,
            "metadata_location": version.metadata_location,
            "snapshot_id": version.snapshot_id,
            "table_uuid": version.table_uuid,
            "shape": version.shape,
        }
        for version in versions
    ]
    if not rows:
        return
    table = tables.versions
    known = _end(c, cut_id, [(row["namespace"], row["name"]) for row in rows])
    for row in rows:  # upkeep and changed columns are no commit of rows
        snapshot, at = known.get((row["namespace"], row["name"]), (None, None))
        same = snapshot is not None and snapshot == row["snapshot_id"]
        row["committed_at"] = at if same and at is not None else moment
    c.execute(insert(table), rows)


def _end(
    c: Connection, cut_id: int, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[int | None, datetime | None]]:
    """The versions of tables end with a cut; their snapshots, and when those came."""
    table = tables.versions
    ended = update(table).values(until_cut=cut_id)
    found = [
        row
        for start in range(0, len(names), CHUNK)
        for row in c.execute(
            ended.where(
                table.c.until_cut.is_(None),
                tuple_(table.c.namespace, table.c.name).in_(sorted(names[start : start + CHUNK])),
            ).returning(table.c.namespace, table.c.name, table.c.snapshot_id, table.c.committed_at)
        )
    ]
    return {(space, name): (snapshot, at) for space, name, snapshot, at in found}


def _any_of(names: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    """Versions of these tables; of so many that a statement does not hold their names, all."""
    table = tables.versions
    few = len(names) <= MANY_NAMES
    return tuple_(table.c.namespace, table.c.name).in_(sorted(names)) if few else true()


def of_stage(c: Connection, stage_id: str) -> int | None:
    """The cut that a stage was published as."""
    table = tables.cuts
    statement = select(table.c.cut_id).where(table.c.stage_id == stage_id)
    return c.execute(statement).scalar_one_or_none()


def moved_by_others(c: Connection, catalog: str) -> list[Version]:
    """Pointers that differ from the newest known versions: other programs moved them."""
    rows = c.execute(_moved(catalog))  # one statement: asked before every read
    found = [(table_name(space, name), location) for space, name, location in rows]
    return [Version(name, location) for name, location in found if name is not None]


@cached(8)
def _moved(catalog: str) -> CompoundSelect[Any]:
    """Always the same for a catalog, and longer in the making than in the asking."""
    table, known = tables.iceberg_tables, tables.versions
    same = and_(
        known.c.namespace == table.c.table_namespace,
        known.c.name == table.c.table_name,
        known.c.until_cut.is_(None),
    )
    changed = (
        select(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
        .select_from(table.outerjoin(known, same))
        .where(_is_table(catalog))
        .where(known.c.metadata_location.is_distinct_from(table.c.metadata_location))
    )
    dropped = (
        select(known.c.namespace, known.c.name, null())
        .select_from(known.outerjoin(table, and_(same, _is_table(catalog))))
        .where(known.c.until_cut.is_(None), known.c.metadata_location.is_not(None))
        .where(table.c.table_name.is_(None), ~_is_foreign(known))
    )
    return union_all(changed, dropped)


def _is_foreign(known: Table) -> ColumnElement[bool]:
    """Whether Iceberg's rows of our catalog know nothing of the table of a version."""
    other = tables.foreign_tables
    same = and_(other.c.namespace == known.c.namespace, other.c.name == known.c.name)
    return select(other.c.name).where(same).correlate(known).exists()


def shown(c: Connection, catalog: str) -> Shown:
    """The same, with all that the newest recorded cut shows, in one SELECT."""
    pointers: dict[TableName, str] = {}
    committed: dict[TableName, datetime | None] = {}
    moved, cut_id = [], 0
    others = set()
    for space, name, recorded, pointer, at, is_foreign in c.execute(_shown(catalog)):
        if space is None:
            cut_id = int(pointer)
            continue
        named = table_name(space, name)
        if named is None:
            continue
        if recorded is not None:
            pointers[named], committed[named] = recorded, at
        if is_foreign:
            others.add(named)
        elif recorded != pointer:
            moved.append(Version(named, pointer))
    tell(c, newest, pointers)
    return Shown(cut_id, pointers, committed, moved, frozenset(others))


@cached(8)
def _shown(catalog: str) -> CompoundSelect[Any]:
    table, known = tables.iceberg_tables, tables.versions
    same = and_(
        known.c.namespace == table.c.table_namespace,
        known.c.name == table.c.table_name,
        known.c.until_cut.is_(None),
    )
    columns = (known.c.namespace, known.c.name, known.c.metadata_location)
    recorded = (
        select(*columns, table.c.metadata_location, known.c.committed_at, _is_foreign(known))
        .select_from(known.outerjoin(table, and_(same, _is_table(catalog))))
        .where(known.c.until_cut.is_(None))
    )
    others = (
        select(
            table.c.table_namespace,
            table.c.table_name,
            null(),
            table.c.metadata_location,
            null(),
            false(),
        )
        .select_from(table.outerjoin(known, same))
        .where(_is_table(catalog), known.c.name.is_(None))
    )
    # A row without a name tells the number of the cut: asking for it takes no statement of its own.
    number = select(null(), null(), null(), cast(tables.meta.c.cut, Text), null(), false())
    return union_all(recorded, others, number)


@once(tables.versions)
def newest(c: Connection) -> dict[TableName, str]:
    """The tables that the newest recorded cut shows, in one SELECT."""
    table = tables.versions
    statement = select(table.c.namespace, table.c.name, table.c.metadata_location).where(
        table.c.until_cut.is_(None), table.c.metadata_location.is_not(None)
    )
    return _named(c.execute(statement))


def pointers(c: Connection, catalog: str) -> dict[TableName, str]:
    """What the catalog points to now, in one SELECT: commits of others may belong to no cut yet."""
    table = tables.iceberg_tables
    statement = select(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
    statement = statement.where(_is_table(catalog), table.c.metadata_location.is_not(None))
    return _named(c.execute(statement))


def pointers_of(c: Connection, catalog: str, names: Collection[TableName]) -> dict[TableName, str]:
    """The same for some tables; of many, all are read.  Of foreign ones: what was observed last."""
    table = tables.iceberg_tables
    statement = select(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
    if len(names) <= MANY_NAMES:
        keys = sorted({(each.schema, each.name) for each in names})
        statement = statement.where(tuple_(table.c.table_namespace, table.c.table_name).in_(keys))
    statement = statement.where(_is_table(catalog), table.c.metadata_location.is_not(None))
    found = _named(c.execute(statement))
    return {**foreign.pointers(c, [each for each in names if each not in found]), **found}


def pointers_at(c: Connection, cut_id: int) -> dict[TableName, str]:
    """The tables that a recorded cut shows."""
    check_recorded(c, cut_id)
    table = tables.versions
    columns = (table.c.namespace, table.c.name, table.c.metadata_location)
    statement = select(*columns).where(*_shown_at(cut_id))
    return _named(c.execute(statement))


def check_recorded(c: Connection, cut_id: int) -> None:
    """Refuse a cut that was never made, or is forgotten."""
    if is_recorded(c, cut_id):
        return
    newest = current(c)
    if 0 < cut_id <= newest:
        raise InvalidValue(f"cut {cut_id} has expired", hint="see cuts() for those kept")
    raise UnknownName(f"there is no cut {cut_id}; the newest is {newest}")


def versions_at(c: Connection, cut_id: int) -> dict[TableName, Version]:
    """The versions that a recorded cut shows."""
    table = tables.versions
    columns = (table.c.namespace, table.c.name, table.c.metadata_location, table.c.snapshot_id)
    found = {}
    for space, name, location, snapshot in c.execute(select(*columns).where(*_shown_at(cut_id))):
        if named := table_name(space, name):
            found[named] = Version(named, location, snapshot)
    return found


def location_at(c: Connection, name: TableName, cut_id: int | None = None) -> str | None:
    """Where a recorded cut, or the newest, shows one table; None if it does not."""
    table = tables.versions
    shown = (table.c.until_cut.is_(None),) if cut_id is None else _shown_at(cut_id)
    statement = select(table.c.metadata_location).where(
        table.c.namespace == name.schema, table.c.name == name.name, *shown
    )
    return c.execute(statement).scalar_one_or_none()


def names_at(c: Connection, cut_id: int | None = None, schema: str | None = None) -> set[TableName]:
    """The tables that a recorded cut, or the newest, shows: all, or those of one namespace."""
    table = tables.versions
    shown: tuple[ColumnElement[bool], ...] = (
        table.c.until_cut.is_(None),
        table.c.metadata_location.is_not(None),
    )
    if cut_id is not None:
        shown = _shown_at(cut_id)
    statement = select(table.c.namespace, table.c.name).where(*shown)
    if schema is not None:
        statement = statement.where(table.c.namespace == schema)
    found = {table_name(space, name) for space, name in c.execute(statement)}
    return {name for name in found if name is not None}


def commit_times(
    c: Connection, cut_id: int | None = None, of: Collection[TableName] | None = None
) -> dict[TableName, datetime]:
    """When each table was last committed to, as of a cut or now; all tables, or those given.

    Catalogs made before versions had a time know it as long as their cut is recorded.
    """
    table, made = tables.versions, tables.cuts
    shown = (table.c.until_cut.is_(None),) if cut_id is None else _shown_at(cut_id)
    if of is not None:
        shown = (*shown, _any_of({(each.schema, each.name) for each in of}))
    statement = (
        select(
            table.c.namespace,
            table.c.name,
            func.coalesce(table.c.committed_at, made.c.published_at, type_=tables.Moment()),
        )
        .select_from(table.outerjoin(made, made.c.cut_id == table.c.cut_id))
        .where(*shown)
    )
    found = {table_name(space, name): at for space, name, at in c.execute(statement)}
    return {name: at for name, at in found.items() if name is not None and at is not None}


def last_changes(c: Connection) -> dict[TableName, int]:
    """The newest cut that changed each table."""
    table = tables.versions
    statement = select(table.c.namespace, table.c.name, table.c.cut_id)
    rows = c.execute(statement.where(table.c.until_cut.is_(None)))
    found = {table_name(space, name): cut_id for space, name, cut_id in rows}
    return {name: cut_id for name, cut_id in found.items() if name is not None}


def _shown_at(cut_id: int) -> tuple[ColumnElement[bool], ...]:
    table = tables.versions
    return (
        table.c.metadata_location.is_not(None),
        table.c.cut_id <= cut_id,
        or_(table.c.until_cut.is_(None), table.c.until_cut > cut_id),
    )


def listing(c: Connection, limit: int | None = None) -> list[dict[str, Any]]:
    """Newest first; `tables` are those that the cut changed."""
    statement = select(tables.cuts).order_by(tables.cuts.c.cut_id.desc())
    if limit is not None:
        statement = statement.limit(limit)
    found = [dict(row) for row in c.execute(statement).mappings()]
    for each in found:
        del each["stage_id"]
    if not found:
        return []
    table = tables.versions
    changed: dict[int, list[str]] = {}
    oldest = found[-1]["cut_id"]
    rows = c.execute(
        select(table.c.cut_id, table.c.namespace, table.c.name).where(table.c.cut_id >= oldest)
    )
    for cut_id, space, name in rows:
        if named := table_name(space, name):
            changed.setdefault(cut_id, []).append(str(named))
    return [{**cut, "tables": sorted(changed.get(cut["cut_id"], []))} for cut in found]


def needed(
    c: Connection, name: TableName, table_uuid: str, gone: Collection[int], *, only_held: bool
) -> str | None:
    """What still needs one of a table's snapshots, in words: a stream table, a reader, or any cut."""
    for table in (tables.frontiers, tables.inputs):
        reads = select(table.c.table_name).where(
            table.c.source == str(name), table.c.snapshot_id.in_(sorted(gone))
        )
        if (reader := c.execute(reads).scalars().first()) is not None:
            return f"{reader} depends on it"
    table = tables.versions
    shown = select(table.c.cut_id, table.c.until_cut).where(
        table.c.table_uuid == table_uuid, table.c.snapshot_id.in_(sorted(gone))
    )
    held = list(c.execute(select(tables.read_leases.c.cut_id).distinct()).scalars())
    for since, until in c.execute(shown):
        for cut_id in held:
            if since <= cut_id and (until is None or cut_id < until):
                return f"cut {cut_id} is being read"
        if not only_held:
            return f"cut {since} shows it"
    return None


def forget(c: Connection, keep_from: int, held: Collection[int] = ()) -> int:
    """Forget the cuts before `keep_from` (never the newest, nor a held one) and what only they show."""
    oldest = min(keep_from, current(c))
    before = select(tables.cuts.c.cut_id).where(tables.cuts.c.cut_id < oldest)
    return forget_some(c, {*c.execute(before).scalars()} - {*held})


def forget_some(c: Connection, gone: Collection[int]) -> int:
    """Forget cuts, and the versions of tables and views that no other cut shows."""
    some = sorted({*gone} - {current(c)})
    for start in range(0, len(some), CHUNK):
        chosen = tables.cuts.c.cut_id.in_(some[start : start + CHUNK])
        c.execute(delete(tables.cuts).where(chosen))
    for table in (tables.versions, tables.view_versions):
        c.execute(delete(table).where(table.c.until_cut.is_not(None), ~_shown_by_a_cut(table)))
    oldest = c.execute(select(func.min(tables.cuts.c.cut_id))).scalar_one_or_none() or 0
    dropped = tables.versions.c.metadata_location.is_(None)
    c.execute(delete(tables.versions).where(dropped, tables.versions.c.cut_id < oldest))
    views.forget_dropped(c, oldest)
    return len(some)


def _shown_by_a_cut(table: Table) -> ColumnElement[bool]:
    cut_id = tables.cuts.c.cut_id
    shown = select(cut_id).where(cut_id >= table.c.cut_id, cut_id < table.c.until_cut)
    return shown.correlate(table).exists()


def moments(c: Connection) -> list[tuple[int, datetime]]:
    """All recorded cuts and their times, the oldest first."""
    table = tables.cuts
    rows = c.execute(select(table.c.cut_id, table.c.published_at).order_by(table.c.cut_id))
    return [(cut_id, at) for cut_id, at in rows]


def last_shown(c: Connection, locations: Collection[str]) -> set[int]:
    """The newest cuts that show each of some versions."""
    table, newest = tables.versions, current(c)
    found: set[int] = set()
    chosen = sorted(locations)
    for start in range(0, len(chosen), CHUNK):
        here = table.c.metadata_location.in_(chosen[start : start + CHUNK])
        rows = c.execute(select(table.c.until_cut).where(here)).scalars()
        found |= {newest if until is None else until - 1 for until in rows}
    return found


def is_recorded(c: Connection, cut_id: int) -> bool:
    found = select(tables.cuts.c.cut_id).where(tables.cuts.c.cut_id == cut_id)
    return c.execute(found).first() is not None


def _next_moment(c: Connection) -> ColumnElement[datetime]:
    """The time of the next cut, which is never before the last one's: clocks of hosts disagree, and
    retention goes by these times."""
    at = tables.cuts.c.published_at
    now = literal(tables.now(c), tables.Moment())
    last = select(func.max(at)).scalar_subquery()
    return case((last > now, last), else_=now)


def locations_before(c: Connection, cut_id: int) -> set[str]:
    """The metadata files that recorded cuts before the given one show."""
    table = tables.versions
    statement = select(table.c.metadata_location).where(table.c.cut_id < cut_id)
    return {location for location in c.execute(statement).scalars() if location is not None}


def known_versions(c: Connection) -> list[Version]:
    """Every version that some recorded cut shows."""
    table = tables.versions
    columns = (table.c.metadata_location, table.c.snapshot_id, table.c.table_uuid, table.c.shape)
    statement = select(table.c.namespace, table.c.name, *columns)
    found = []
    for space, name, *facts in c.execute(statement.where(table.c.metadata_location.is_not(None))):
        if named := table_name(space, name):
            found.append(Version(named, *facts))
    return found


def table_name(namespace: str, name: str) -> TableName | None:
    """Iceberg's row as a name; None for what has too many levels to be ours."""
    try:
        return _table_name(namespace, name)
    except InvalidValue:
        return None


@cached(10_000)
def _table_name(namespace: str, name: str) -> TableName:
    return TableName(tuple(namespace.split(".")), name)


def _is_table(catalog: str) -> ColumnElement[bool]:
    table = tables.iceberg_tables
    is_table = or_(table.c.iceberg_type.is_(None), table.c.iceberg_type == tables.TABLE_TYPE)
    return and_(table.c.catalog_name == catalog, is_table)


def _named(rows: Iterable[Any]) -> dict[TableName, str]:
    found: Mapping[TableName | None, str] = {
        table_name(space, name): location for space, name, location in rows
    }
    return {name: location for name, location in found.items() if name is not None}

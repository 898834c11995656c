"""Publish: all changes of a stage become visible in one SQL transaction, or none does."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot
from sqlalchemy import Connection, bindparam, delete, tuple_, update
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite
from sqlalchemy.exc import IntegrityError

from anabranch import failpoints, noted
from anabranch.catalog import cuts, events, read_leases, snapshots, stages, tables
from anabranch.catalog.events import Event
from anabranch.catalog.tables import CHUNK
from anabranch.errors import (
    AnabranchError,
    InternalError,
    OutcomeUnknown,
    PublishConflict,
    Unreachable,
)
from anabranch.lake import recorded
from anabranch.lake.checksums import sealed
from anabranch.lake.lake import Lake
from anabranch.lake.observe import record
from anabranch.lake.places import LONGEST, is_our_root
from anabranch.lake.recorded import Facts, facts, with_few_snapshots
from anabranch.lake.stage import Stage, Staged
from anabranch.lake.version import TableVersion
from anabranch.names import TableName

PREVIOUS_METADATA = (
    10  # files that stay for readers of other engines that hold a pointer for a moment
)
THEIR_PREVIOUS_METADATA = 100  # of tables that other programs made: Iceberg's default
SUPERSEDED = 10  # files beyond that are deleted together, so many at a time
FIND_OUT_SECONDS = 60.0  # how long a catalog that was lost during a commit is waited for
FIND_OUT_PAUSE = 0.5
Rows = Callable[[Connection, int | None], None]
T = TypeVar("T")


def publish(stage: Stage, kind: str, rows: Rows | None = None, *, keep: bool = False) -> int | None:
    """Make a stage visible; return the new cut, or None if no table changed and so none was made.

    The cut's counter is advanced first, which makes publishes queue up: cuts follow each other
    without gaps in the order of commit.  Any pointer that is not where the stage found it means a
    lost race: PublishConflict, and what was staged is removed.  Commits of other programs that are
    found on the way become a cut before this one.  `rows` writes our own rows in the same transaction.
    With `keep` a lost race leaves the stage open, with its files, for another try.
    """
    if not stage.open:
        raise InternalError("this stage was already published or given up")
    committing, notes = False, noted.waiting()
    try:
        failpoints.hit(failpoints.STAGED)
        found = {name: _prepared(stage, each) for name, each in sorted(stage.changes.items())}
        changes = {name: each.staged for name, each in found.items()}
        for staged in changes.values():
            if staged.version is not None and not staged.written:
                _write_metadata(stage, staged.version)
        stage.make_durable()
        failpoints.hit(failpoints.METADATA_WRITTEN)
        with stage.lake.store.writing() as c:
            cut_id = _in_transaction(c, stage, found, kind)
            stage.lake.fence.check(c, cut_id)
            _write_again(stage, changes.values())
            if rows is not None:
                rows(c, cut_id)
            events.add(c, [Event(e.table, e.kind, e.message) for e in notes.values()])
            failpoints.hit(failpoints.IN_TRANSACTION)
            committing = True
    except IntegrityError as error:  # somebody wrote the same row of ours first
        stage.abort()
        raise _made_twice() from error
    except BaseException as error:
        if committing and isinstance(error, Exception):
            cut_id = _find_out(stage, bool(changes), error)
        else:
            if committing:
                stage.close()  # nobody knows whether the commit arrived: the files must stay
            if not (keep and isinstance(error, PublishConflict)):
                with suppress(AnabranchError, OSError):  # the first error is the one to tell
                    stage.abort()
            raise
    stage.close()
    noted.keep(notes)
    if cut_id is not None:
        with suppress(AnabranchError):  # published it is; the next one marks it
            stage.lake.fence.advance(cut_id)
    failpoints.hit(failpoints.PUBLISHED)
    for staged in changes.values():
        if staged.version is not None:
            stage.lake.remember(staged.version)
    with suppress(AnabranchError, OSError):  # published it is; upkeep finds the rest
        delete_metadata(stage.lake, [path for each in found.values() for path in each.superseded])
    return cut_id


def _find_out(stage: Stage, made_cut: bool, error: Exception) -> int | None:
    """The cut of a publish whose answer was lost; PublishConflict if it did not take place.

    The publish takes the stage's row away, and so does this: whoever finds the row is the only one.
    The counter of cuts is held meanwhile, as a publish does that may still be under way.
    """
    stage.close()
    give_up = time.monotonic() + FIND_OUT_SECONDS
    while True:
        try:
            with stage.lake.store.writing() as c:
                cuts.hold(c, seconds=FIND_OUT_SECONDS)
                cut_id = cuts.of_stage(c, stage.id)
                undone = cut_id is None and stages.remove(c, stage.id)
            break
        except Unreachable:
            if time.monotonic() > give_up:
                raise _unknown(stage) from error
        time.sleep(FIND_OUT_PAUSE)
    if undone:
        with suppress(AnabranchError, OSError):  # the collector would find them later anyway
            stage.remove_files()
        raise PublishConflict(
            "the catalog was lost before the commit: nothing was published", hint="run it again"
        ) from error
    if cut_id is None and made_cut:
        raise _unknown(stage) from error
    return cut_id


def _unknown(stage: Stage) -> OutcomeUnknown:
    tables = ", ".join(str(name) for name in sorted(stage.changes)) or "the catalog's own rows"
    return OutcomeUnknown(
        f"the catalog was lost during a commit, and whether it took place is unknown: {tables}",
        hint="check cuts() before you repeat it; no file was removed",
    )


def rehearse(stage: Stage, kind: str, rows: Rows, look: Callable[[Connection], T]) -> T:
    """What a look would show if the stage were published now; nothing is, and the stage stays open."""
    found: list[T] = []
    try:
        with stage.lake.store.writing() as c:
            changes = {name: Prepared(each) for name, each in stage.changes.items()}
            rows(c, _in_transaction(c, stage, changes, kind))
            found.append(look(c))
            raise _Rehearsed
    except _Rehearsed:
        return found[0]
    except IntegrityError as error:
        raise _made_twice() from error


class _Rehearsed(Exception):
    """Ends the transaction of a rehearsal without a commit."""


def _made_twice() -> PublishConflict:
    return PublishConflict(
        "another process created the same object at the same time", hint="run it again"
    )


def _in_transaction(
    c: Connection, stage: Stage, changes: Mapping[TableName, Prepared], kind: str
) -> int | None:
    cut_id = cuts.advance(c) if changes else None
    if cut_id is None:
        cuts.hold(c)
    if not stages.remove(c, stage.id):
        raise PublishConflict(
            "the staged work was taken for abandoned and deleted", hint="run it again"
        )
    catalog = stage.lake.catalog_name
    if cut_id is not None and (others := cuts.moved_by_others(c, catalog)):
        record(c, stage.lake, cut_id, others)
        cut_id = cuts.advance(c)
    _check_expected(c, stage, catalog)
    _swap(c, catalog, {name: each.staged for name, each in changes.items()})
    if cut_id is not None:
        known = {name: each.known for name, each in changes.items()}
        recorded.add(c, [each for each in known.values() if each is not None])
        own = [prepared.recorded(name, known[name]) for name, prepared in changes.items()]
        cuts.add(c, cut_id, kind, own, stage.id)
    return cut_id


def _swap(c: Connection, catalog: str, changes: Mapping[TableName, Staged]) -> None:
    """Compare and swap pointers."""
    gone = {name: staged.base for name, staged in changes.items() if staged.version is None}
    _remove_pointers(c, catalog, gone)
    moved: dict[TableName, tuple[str, str]] = {}
    for name, staged in changes.items():
        if staged.version is None:
            continue
        if staged.base is None:
            _make_namespace(c, catalog, name)
            _insert_pointer(c, catalog, name, staged.version.location)
        else:
            moved[name] = staged.base, staged.version.location
    _move_pointers(c, catalog, moved)


def _move_pointers(c: Connection, catalog: str, moved: Mapping[TableName, tuple[str, str]]) -> None:
    """All in one statement; only when one has not moved is it asked which."""
    if not moved:
        return
    table = tables.iceberg_tables
    was_there = (
        (table.c.catalog_name == catalog)
        & (table.c.table_namespace == bindparam("b_namespace"))
        & (table.c.table_name == bindparam("b_name"))
        & (table.c.metadata_location == bindparam("b_before"))
    )
    statement = update(table).where(was_there)
    statement = statement.values(
        metadata_location=bindparam("b_after"), previous_metadata_location=bindparam("b_previous")
    )
    rows = [
        {
            "b_namespace": name.schema,
            "b_name": name.name,
            "b_before": before,
            "b_previous": before,
            "b_after": after,
        }
        for name, (before, after) in sorted(moved.items())
    ]
    if c.execute(statement, rows).rowcount != len(rows):
        there = cuts.pointers_of(c, catalog, moved)
        raise conflict(next(n for n in sorted(moved) if there.get(n) != moved[n][1]))


def _remove_pointers(c: Connection, catalog: str, gone: Mapping[TableName, str | None]) -> None:
    """Likewise; the statement tells which were where they should be."""
    table, names = tables.iceberg_tables, sorted(gone)
    place = tuple_(table.c.table_namespace, table.c.table_name, table.c.metadata_location)
    told = (table.c.table_namespace, table.c.table_name)
    for start in range(0, len(names), CHUNK):
        some = names[start : start + CHUNK]
        here = place.in_([(name.schema, name.name, gone[name]) for name in some])
        statement = delete(table).where(table.c.catalog_name == catalog, here)
        removed = {(space, name) for space, name in c.execute(statement.returning(*told))}
        for name in some:
            if (name.schema, name.name) not in removed:
                raise conflict(name)


def _insert_pointer(c: Connection, catalog: str, name: TableName, location: str) -> None:
    insert = insert_sqlite if c.dialect.name == "sqlite" else insert_postgresql
    statement = insert(tables.iceberg_tables).values(
        catalog_name=catalog,
        table_namespace=name.schema,
        table_name=name.name,
        metadata_location=location,
        iceberg_type=tables.TABLE_TYPE,
    )
    # rowcount of an INSERT is not told by every driver
    made = statement.on_conflict_do_nothing().returning(tables.iceberg_tables.c.table_name)
    if not c.execute(made).all():
        raise conflict(name)


def _make_namespace(c: Connection, catalog: str, name: TableName) -> None:
    insert = insert_sqlite if c.dialect.name == "sqlite" else insert_postgresql
    statement = insert(tables.iceberg_namespaces).values(
        catalog_name=catalog,
        namespace=name.schema,
        property_key="exists",
        property_value="true",
    )
    c.execute(statement.on_conflict_do_nothing())


def _check_expected(c: Connection, stage: Stage, catalog: str) -> None:
    """Tables that were only read must still be where they were."""
    if not stage.expected:
        return
    found = cuts.pointers_of(c, catalog, stage.expected)
    for name, location in stage.expected.items():
        if found.get(name) != location:
            raise conflict(name)


def check_pointers(c: Connection, stage: Stage) -> None:
    """Refuse when a table that the stage changes or expects has moved: as the publish would."""
    bases = {name: staged.base for name, staged in stage.changes.items()}
    wanted = {**stage.expected, **bases}
    found = cuts.pointers_of(c, stage.lake.catalog_name, wanted)
    for name, location in wanted.items():
        if found.get(name) != location:
            raise conflict(name)


def conflict(name: TableName) -> PublishConflict:
    return PublishConflict(f"table {name} was changed by another process", hint="run it again")


@dataclass(frozen=True)
class Prepared:
    """A change ready to be published: what rows will tell of it, and which files it makes old."""

    staged: Staged
    facts: Facts | None = None
    superseded: tuple[str, ...] = ()

    @property
    def known(self) -> Facts | None:
        """None of a table that is dropped."""
        version = self.staged.version
        if version is None:
            return None
        return self.facts or facts(version.metadata, version.metadata.snapshots)

    def recorded(self, name: TableName, known: Facts | None) -> cuts.Version:
        version = self.staged.version
        if version is None or known is None:
            return cuts.Version(name, None)
        return known.version(version)


def _prepared(stage: Stage, staged: Staged) -> Prepared:
    """The version with few snapshots, and with the file before it in its metadata log."""
    version = staged.version
    if version is None or staged.written:
        return Prepared(staged)
    metadata, before = version.metadata, _before(stage, staged)
    known = {each.snapshot_id for each in before.snapshots} if before is not None else set[int]()
    new: list[Snapshot] = [each for each in metadata.snapshots if each.snapshot_id not in known]
    superseded: tuple[str, ...] = ()
    if before is not None and staged.base is not None:
        log = [*before.metadata_log, _log_entry(staged.base, before.last_updated_ms)]
        ours = is_our_root(stage.lake.warehouse.location, version.root)
        most, at_once = _previous(metadata, ours)
        if len(log) >= most + at_once:
            superseded = tuple(each.metadata_file for each in log[:-most]) if ours else ()
            log = log[-most:]
        metadata = metadata.model_copy(update={"metadata_log": log})
        if ours:
            metadata, unlisted = with_few_snapshots(metadata)
            new += [each for each in unlisted if each.snapshot_id in known]
    written = replace(staged, version=replace(version, metadata=metadata))
    return Prepared(written, facts(metadata, new), superseded)


def _previous(metadata: TableMetadata, ours: bool) -> tuple[int, int]:
    """How many older metadata files are kept, and how many beyond are deleted together."""
    told = metadata.properties.get("write.metadata.previous-versions-max", "")
    if told.isdecimal():
        return max(1, int(told)), 1
    return PREVIOUS_METADATA if ours else THEIR_PREVIOUS_METADATA, SUPERSEDED


def _before(stage: Stage, staged: Staged) -> TableMetadata | None:
    """The metadata that a version follows; None if the table is new, or was broken."""
    version = staged.version
    if version is None or staged.base is None:
        return None
    try:
        before = stage.lake.version(version.name, staged.base).metadata
    except AnabranchError:  # broken, and made again without it
        return None
    return before if before.table_uuid == version.metadata.table_uuid else None


def _log_entry(location: str, moment: int) -> MetadataLogEntry:
    return MetadataLogEntry.model_validate({"metadata-file": location, "timestamp-ms": moment})


def delete_metadata(lake: Lake, locations: Collection[str]) -> dict[str, bool]:
    """Delete metadata files that tell nothing which rows do not tell; whether each was there.

    No publish runs meanwhile: one that brings an older version back finds its file, or writes it.
    """
    if not locations:
        return {}
    with lake.store.writing(durable=False) as c:
        cuts.hold(c)
        if read_leases.all_files_held(c, tables.now(c)):
            return {}  # a backup is at work: upkeep finds them later
        gone = {*locations} - snapshots.only_by_file(c, locations)
        return {path: lake.warehouse.delete(path) for path in sorted(gone)}


def _write_again(stage: Stage, changes: Iterable[Staged]) -> None:
    """Files of older versions that come back, and of which only rows were left."""
    again = [each.version for each in changes if each.written and each.version is not None]
    missing = [
        version
        for version in again
        if not stage.lake.warehouse.io.new_input(version.location).exists()
    ]
    for version in missing:
        _write_metadata(stage, version)
    if missing:
        stage.lake.warehouse.make_durable(version.location for version in missing)


def _write_metadata(stage: Stage, version: TableVersion) -> None:
    if len(version.location) > LONGEST:
        raise InternalError(f"the path of {version.name} is too long: {version.location}")
    warehouse = stage.lake.warehouse
    try:
        # its name carries the stage's id: one that is there is ours, of a try that lost a race
        output = warehouse.io.new_output(version.location)
        with output.create(overwrite=True) as stream:
            stream.write(sealed(version.metadata, version.location))
    except OSError as error:
        raise warehouse.unreachable(error) from error

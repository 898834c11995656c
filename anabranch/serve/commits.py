"""Writes by Iceberg's REST protocol, each a publish of ours: staged, compared, one cut, all or nothing.

What a client built upon another version of a table is refused by its own requirements.  A publish that
another process got ahead of is tried again with what is there then, requirements first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetLocationUpdate

from anabranch.catalog import cuts, snapshots, streams
from anabranch.catalog.lineage import Record, lineage_of
from anabranch.catalog.read_set import readers_of
from anabranch.catalog.store import Connection
from anabranch.cut_view import CutView
from anabranch.errors import FileMissing, Refused
from anabranch.lake.manifests import entries, manifests
from anabranch.lake.places import local_path, location_of, table_root
from anabranch.lake.version import TableVersion
from anabranch.names import TableName, shown
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.serve.problems import bad_request, no_table, plain, taken
from anabranch.serve.updates import Commit, NewTable, applied, created
from anabranch.tables import drop as dropping
from anabranch.tables.indexes import check_source

KIND = "rest commit"
_STRIPES = 64
_locks = tuple(threading.Lock() for _ in range(_STRIPES))


def commit(
    runtime: Runtime, changes: Sequence[tuple[TableName, Commit]]
) -> dict[TableName, TableVersion]:
    """Publish the changes of some tables as one cut; the tables as they are then."""
    names = [name for name, _ in changes]
    if len({*names}) < len(names):
        raise bad_request("a transaction names a table twice: put its updates into one change")

    def act(tx: Transaction) -> None:
        for name, change in changes:
            _stage(runtime, tx, name, change)

    return published(runtime, names, act)


def create(runtime: Runtime, name: TableName, request: NewTable) -> TableVersion:
    def act(tx: Transaction) -> None:
        refuse_taken(tx.world, name)
        root = new_root(runtime, tx.world.pointers, name, request.location)
        check_new_name(tx, name)
        tx.stage.replace_metadata(name, created(request, root))

    return published(runtime, [name], act)[name]


def staged(runtime: Runtime, name: TableName, request: NewTable) -> TableMetadata:
    """What a table would be; a commit with `assert-create` makes it."""
    world = runtime.world()
    refuse_taken(world, name)
    return created(request, new_root(runtime, world.pointers, name, request.location))


def register(
    runtime: Runtime, name: TableName, location: str, *, overwrite: bool = False
) -> TableVersion:
    """A table that other programs have made: its metadata file is taken as it is."""

    def act(tx: Transaction) -> None:
        there = name in tx.world.pointers
        if there and overwrite:
            check_source(runtime, name)
        else:
            refuse_taken(tx.world, name)
            check_new_name(tx, name)
        others = {n: place for n, place in tx.world.pointers.items() if n != name}
        try:
            version = tx.stage.adopt(name, location)
        except FileMissing as error:
            raise bad_request(error.message) from None
        if (other := _shares(version.root, others)) is not None:
            raise bad_request(
                f"{location} belongs to table {other}: two tables must not share files"
            )

    return published(runtime, [name], act)[name]


def drop(runtime: Runtime, name: TableName) -> None:
    """Its files stay as long as a cut shows them; then upkeep deletes them."""

    def act(tx: Transaction) -> None:
        if name not in tx.world.pointers:
            raise no_table(name)
        dropping.drop_in(runtime, tx, name, dropping.Kind.TABLE)

    published(runtime, [name], act)


def rename(runtime: Runtime, name: TableName, new: TableName) -> None:
    def act(tx: Transaction) -> None:
        if name not in tx.world.pointers:
            raise no_table(name)
        check_source(runtime, name)
        refuse_rename(tx.world, name, new)
        check_new_name(tx, new)
        with runtime.store.reading() as c:
            reads = streams.dependencies(c)
        if readers := readers_of(name, reads):
            listed = ", ".join(str(reader) for reader in sorted(readers))
            raise Refused(f"{name} is read by {listed}", hint="drop those first")
        tx.used.readers[name] = frozenset()
        location = tx.world.pointers[name]
        tx.stage.adopt(new, location)
        tx.stage.drop(name)

    published(runtime, [name, new], act)


def published(
    runtime: Runtime, names: Collection[TableName], act: Callable[[Transaction], None]
) -> dict[TableName, TableVersion]:
    """Run a change and publish it; the tables that it left."""
    made: dict[TableName, str] = {}

    def whole(tx: Transaction) -> Transaction:
        tx.keep_index = None  # sorting takes Spark: upkeep brings them along
        act(tx)
        return tx

    with _one_at_a_time(names):
        tx = runtime.write(KIND, whole)
    for name in names:
        change = tx.stage.changes.get(name)
        if change is not None and change.version is not None:
            made[name] = change.version.location
        elif change is None and name in tx.stage.base:
            made[name] = tx.stage.base[name]  # nothing was to be changed
    return {name: runtime.lake.version(name, location) for name, location in made.items()}


@contextmanager
def _one_at_a_time(names: Collection[TableName]) -> Iterator[None]:
    """Commits of one server to one table queue up, instead of getting ahead of each other."""
    stripes = sorted({hash(name) % _STRIPES for name in names})
    with ExitStack() as held:
        for each in stripes:
            held.enter_context(_locks[each])
        yield


def _stage(runtime: Runtime, tx: Transaction, name: TableName, change: Commit) -> None:
    there = name in tx.world.pointers
    if there:
        check_source(runtime, name)
    elif tx.world.find(name) is not None:
        refuse_taken(tx.world, name)
    base = tx.stage.version(name).metadata if there else None
    metadata = applied(name, base, change.requirements, change.updates)
    if metadata == base:
        return
    location = metadata.location
    moves = any(isinstance(each, SetLocationUpdate) for each in change.updates)
    if base is None or (moves and location != base.location):
        others = {n: place for n, place in tx.world.pointers.items() if n != name}
        root = new_root(runtime, others, name, location)
        metadata = metadata.model_copy(update={"location": root})
    if base is None:
        check_new_name(tx, name)
    else:
        _refuse_lost_columns(runtime, tx, name, base, metadata)
        _expire(runtime, tx, name, base, change)
    version = tx.stage.replace_metadata(name, metadata)
    known = {each.snapshot_id for each in base.snapshots} if base is not None else set[int]()
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in known:
            tx.stage.take(_files(version, snapshot))


def _refuse_lost_columns(
    runtime: Runtime, tx: Transaction, name: TableName, base: TableMetadata, made: TableMetadata
) -> None:
    """A column that a stream table reads keeps its name, as ALTER TABLE of ours would have it."""
    kept = {each.field_id: each.name for each in made.schema().fields}
    lost = {each.name for each in base.schema().fields if kept.get(each.field_id) != each.name}
    if not lost:
        return
    with runtime.store.reading() as c:
        readers = tx.used.readers[name] = readers_of(name, streams.dependencies(c))
        known = lineage_of(c, readers)
    for reader, record in sorted(known.items()):
        read = lost if record is None else lost & _columns_read(record, name)
        if read:
            columns = ", ".join(shown(each) for each in sorted(read))
            raise Refused(
                f"{columns} of {name}: read by stream table {reader}",
                hint="change its query first, or add a column of the new name instead",
            )


def _columns_read(record: Record, name: TableName) -> set[str]:
    """The columns of a table that a stream table is computed from, or that decide about it."""
    flows = [record["decides"], *(pairs for _, *both in record["columns"] for pairs in both)]
    return {column for pairs in flows for table, column in pairs if table == str(name)}


def new_root(
    runtime: Runtime, others: Mapping[TableName, str], name: TableName, wanted: str | None
) -> str:
    """The folder of a new table: in the warehouse, and no other table's."""
    warehouse = runtime.lake.warehouse
    if wanted is None:
        return table_root(warehouse.location, name)
    root = location_of(wanted)
    if not root.startswith(f"{warehouse.location}/") or "/../" in f"{root}/":
        raise bad_request(
            f"location {wanted} is not in the warehouse {warehouse.location}: leave it out"
        )
    if (other := _shares(root, others)) is not None:
        raise bad_request(f"location {wanted} belongs to table {other}: leave it out")
    return root


def _shares(root: str, others: Mapping[TableName, str]) -> TableName | None:
    """A table whose folder is this one, lies in it, or holds it."""
    for name, pointer in others.items():
        other = pointer.rpartition("/metadata/")[0]
        if f"{root}/".startswith(f"{other}/") or f"{other}/".startswith(f"{root}/"):
            return name
    return None


def refuse_taken(world: CutView, name: TableName) -> None:
    """A table may not have a name that something has."""
    found = world.find(name)
    if found is None:
        return
    if found in world.views:
        raise taken(f"View with same name already exists: {plain(found)}")
    raise taken(f"Table already exists: {plain(found)}")


def refuse_rename(world: CutView, name: TableName, new: TableName) -> None:
    found = world.find(new)
    if found is not None:
        kind = "View" if found in world.views else "Table"
        raise taken(f"Cannot rename {plain(name)} to {plain(found)}. {kind} already exists")


# -- files of clients --------------------------------------------------------------------------


def _files(version: TableVersion, snapshot: Snapshot) -> list[str]:
    """What a client has written for a snapshot.

    A list of manifests that cannot be read is no snapshot: client and server see other warehouses.
    """
    paths = [snapshot.manifest_list]
    local = local_path(snapshot.manifest_list) is not None  # object stores keep what they have
    try:
        for manifest in manifests(version.io, snapshot):
            if local and manifest.added_snapshot_id == snapshot.snapshot_id:
                paths.append(manifest.manifest_path)
                paths += [each.data_file.file_path for each in entries(version.io, manifest)]
    except FileMissing as error:
        raise bad_request(
            f"{error.message}: the server must reach the files that a client writes"
        ) from None
    return paths


def _expire(
    runtime: Runtime, tx: Transaction, name: TableName, base: TableMetadata, change: Commit
) -> None:
    """A client that takes snapshots off the list deletes their files: refuse what somebody needs."""
    gone = {
        id_
        for each in change.updates
        if isinstance(each, RemoveSnapshotsUpdate)
        for id_ in each.snapshot_ids
    }
    if not gone:
        return
    table_uuid = str(base.table_uuid)
    lenient = runtime.settings.serve_expire_snapshots

    def rows(c: Connection, cut_id: int | None) -> None:
        needed = cuts.needed(c, name, table_uuid, gone, only_held=lenient)
        if needed is not None:
            raise Refused(
                f"{name}: {needed}, so its snapshot cannot be expired",
                hint="anabranch maintain expires what nothing needs, by snapshot_retention",
            )
        snapshots.forget(c, {(table_uuid, each) for each in gone})

    tx.later(rows)
    runtime.lake.forget_snapshots(table_uuid, gone)

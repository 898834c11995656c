"""A stage: the unit of work that one publish makes visible.

It is written down in the catalog before its first file, so that whoever collects garbage knows
which files are still being worked on.  Everything it writes carries its id.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    update_table_metadata,
)

from anabranch.catalog import cuts, events, stages
from anabranch.catalog.store import Connection
from anabranch.errors import (
    AlreadyExists,
    AnabranchError,
    FileMissing,
    InternalError,
    InvalidValue,
    PublishConflict,
    RowsLost,
)
from anabranch.lake.comments import Comments, commented
from anabranch.lake.commit import committed
from anabranch.lake.lake import Lake, no_such_table
from anabranch.lake.places import local_path, same_form, table_root
from anabranch.lake.schemas import (
    NAME_MAPPING,
    SchemaChange,
    altered,
    name_mapping,
    schema_of,
    with_columns,
)
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, Written
from anabranch.names import TableName

BEAT_SECONDS = 600.0
_NUMBERED = re.compile(r"/v?(\d+)[^/]*\.metadata\.json$")


@dataclass(frozen=True)
class Staged:
    """What becomes of one table: `base` is the pointer it must still have, None if it is new."""

    base: str | None
    version: TableVersion | None  # None: dropped
    written: bool = False  # the version is an older one, or another table's: its file is there


def check_kept(c: Connection, cut_id: int | None) -> None:
    """Work must not begin upon a cut that upkeep has forgotten since it was looked at: what the cut
    showed may expire, and nothing would keep it."""
    if cut_id:
        cuts.hold(c)  # upkeep must not forget the cut between the question and the answer
        if not cuts.is_recorded(c, cut_id):
            raise _forgotten(cut_id)


def _forgotten(cut_id: int | None) -> PublishConflict:
    return PublishConflict(f"cut {cut_id} was forgotten meanwhile", hint="run it again")


@contextmanager
def or_conflict(lake: Lake, cut_id: int | None, stage_id: str | None = None) -> Iterator[None]:
    """A file is missing because this process was given up for dead, and what it worked on collected:
    that is a lost race, and no lost file."""
    try:
        yield
    except FileMissing as error:
        with lake.store.reading() as c:
            collected = stage_id is not None and not stages.is_there(c, stage_id)
            forgotten = bool(cut_id) and not cuts.is_recorded(c, cut_id or 0)
        if collected or forgotten:
            raise PublishConflict(
                "this work took so long without a heartbeat that it was taken for abandoned",
                hint="run it again",
            ) from error
        raise


class Stage:
    """Changes to tables, invisible until published.

    `pointers` are the versions the work starts from (now, unless others are given), and `cut_id` the
    cut that shows them, which upkeep leaves readable.  Different tables may be worked on by different
    threads.  With `c` it begins in that transaction, of whoever has claimed the warehouse before.
    """

    def __init__(
        self,
        lake: Lake,
        pointers: Mapping[TableName, str] | None = None,
        cut_id: int | None = None,
        c: Connection | None = None,
    ) -> None:
        self.lake = lake
        self.id = uuid.uuid4().hex
        self.changes: dict[TableName, Staged] = {}
        self.expected: dict[TableName, str | None] = {}
        self.open = True
        if c is None:
            lake.fence.claim()
        with lake.store.writing(durable=False) if c is None else nullcontext(c) as writing:
            cuts.hold(writing)  # upkeep must not forget the cut meanwhile
            if not stages.add(writing, replace(stages.mine(self.id), cut_id=cut_id)):
                raise _forgotten(cut_id)
            self.base = dict(pointers if pointers is not None else lake.pointers(writing))
        self._lock = threading.RLock()
        self._roots: set[str] = set()
        self._fresh_roots: set[str] = set()
        self._given: set[str] = set()  # files that others have written for this stage
        lake.store.heartbeat.keep(self.id, BEAT_SECONDS, self._beat)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.abort()
        else:
            with suppress(AnabranchError, OSError):  # the first error is the one to tell
                self.abort()

    def exists(self, name: TableName) -> bool:
        staged = self.changes.get(name)
        return staged.version is not None if staged else name in self.base

    def version(self, name: TableName) -> TableVersion:
        """The table as this stage has made it, or as it was at the start."""
        staged = self.changes.get(name)
        if staged is not None and staged.version is not None:
            return staged.version
        if staged is not None or name not in self.base:
            raise no_such_table(name, self.base)
        return self.lake.version(name, self.base[name])

    def expect(self, name: TableName, location: str | None) -> None:
        """A table that is only read, but must not move before the publish; None: must not exist."""
        self.expected[name] = location

    def create(
        self,
        name: TableName,
        columns: Columns,
        properties: Mapping[str, str] | None = None,
    ) -> TableVersion:
        if self.exists(name):
            raise AlreadyExists(f"table {name} already exists")
        if any("." in part for part in name.namespace):
            raise InvalidValue(f"{name}: a schema's name may not hold a dot")
        root = table_root(self.lake.warehouse.location, name)
        metadata = new_table_metadata(
            schema_of(columns),
            UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            root,
            {"write.parquet.compression-codec": "zstd", **(properties or {})},
        )
        self._fresh_roots.add(root)
        return self._put(name, _with_mapping(metadata, ()))

    def drop(self, name: TableName) -> None:
        self.lake.attached.refuse_write(name)
        if not self.exists(name):
            raise no_such_table(name, self.base)
        with self._lock:
            if name in self.base:
                self.changes[name] = Staged(self.base[name], None)
            else:
                del self.changes[name]

    def directory(self, name: TableName) -> str:
        """Where the rows of a table shall be written."""
        self.lake.attached.refuse_write(name)
        root = self.version(name).root
        self._roots.add(root)
        return f"{root}/data/{self.id}"

    def commit_rows(
        self,
        name: TableName,
        written: Written,
        *,
        rewrite: bool = False,
        replace_all: bool = False,
        compaction: bool = False,
        replaced: Collection[str] | None = None,
        hidden: Columns | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> TableVersion:
        """A new snapshot of a table from written files.

        - plainly: `add` files are added, `remove` files mark rows as deleted;
        - `rewrite`: the table becomes `keep` + `add`, and `remove` only tells the delta;
        - `replace_all`: the table becomes `add`, and the delta is left to comparison;
        - `compaction`: `keep` holds the rows of the `replaced` files (all files unless given).
        Nothing added and nothing removed makes no snapshot.
        """
        if [rewrite, replace_all, compaction].count(True) > 1:
            raise InternalError("a commit is a rewrite, a replacement or a compaction, not two")
        how = "rewrite" if rewrite else "replace" if replace_all else "plain"
        version = self.version(name)
        self._roots.add(version.root)
        try:
            metadata = committed(
                version,
                self.id,
                written,
                how="compaction" if compaction else how,
                replaced=replaced,
                hidden=version.hidden if hidden is None else hidden,
                summary=summary or {},
            )
        except RowsLost as error:
            with self.lake.store.writing() as c:
                events.record(c, name, events.ROWS_LOST, f"rows lost and refused: {error.message}")
            raise
        if metadata is version.metadata:
            return version
        return self._put(
            name, _with_mapping(metadata, version.hidden if hidden is None else hidden)
        )

    def alter(self, name: TableName, changes: Iterable[SchemaChange]) -> TableVersion:
        version = self.version(name)
        metadata = altered(version.metadata, name, changes)
        if metadata is version.metadata:
            return version
        return self._put(name, _with_mapping(metadata, version.hidden))

    def comment(self, name: TableName, comments: Comments) -> TableVersion:
        """Say what a table and its columns are for."""
        version = self.version(name)
        metadata = commented(version.metadata, name, comments)
        return version if metadata is version.metadata else self._put(name, metadata)

    def set_columns(self, name: TableName, columns: Columns) -> TableVersion:
        """Other columns altogether, for a table that will be filled anew."""
        version = self.version(name)
        return self._put(
            name, _with_mapping(with_columns(version.metadata, columns), version.hidden)
        )

    def set_properties(self, name: TableName, values: Mapping[str, str | None]) -> TableVersion:
        """Set table properties; None takes one away."""
        return self._put(name, with_properties(self.version(name).metadata, values))

    def restart(self, pointers: Mapping[TableName, str], cut_id: int | None) -> None:
        """Begin again from other versions; what was written stays and may be used."""
        with self._lock:
            self._roots |= {each.version.root for each in self.changes.values() if each.version}
            self.changes.clear()
            self.expected.clear()
            self.base = dict(pointers)
        with self.lake.store.writing(durable=False) as c:
            check_kept(c, cut_id)
            stages.reads(c, self.id, cut_id)

    def rebase(self, name: TableName, location: str) -> None:
        """Begin again with one table, from another version."""
        with self._lock:
            if staged := self.changes.pop(name, None):
                self._roots |= {staged.version.root} if staged.version else set()
            self.base[name] = location

    def adopt(self, name: TableName, location: str) -> TableVersion:
        """The table becomes a version that some cut shows, whatever its name there.

        Its metadata file may be gone: the publish then writes it again.
        """
        version = self.lake.version(name, location)
        with self._lock:
            before = self.changes.get(name)
            base = before.base if before else self.base.get(name)
            self.changes[name] = Staged(base, version, written=True)
        return version

    def put_back(self, before: Mapping[TableName, Staged | None]) -> None:
        """Tables as they were staged before something failed; files that it wrote stay unused."""
        with self._lock:
            for name, staged in before.items():
                if staged is not None:
                    self.changes[name] = staged
                else:
                    self.changes.pop(name, None)

    def replace_metadata(self, name: TableName, metadata: TableMetadata) -> TableVersion:
        """For upkeep: the same table with other metadata."""
        return self._put(name, metadata)

    def abort(self) -> None:
        """Give up: remove what was written, forget the stage."""
        if not self.open:
            return
        self.close()
        try:
            self.remove_files()
        finally:
            with self.lake.store.writing(durable=False) as c:
                stages.remove(c, self.id)

    def close(self) -> None:
        self.open = False
        self.lake.store.heartbeat.drop(self.id)

    def remove_files(self) -> None:
        """Remove the files of this stage; the collector would find them later anyway."""
        warehouse = self.lake.warehouse
        for root, files in self._files().items():
            for path in files:
                warehouse.delete(path, own=True)
            warehouse.delete_empty_folders(
                root if root in self._fresh_roots else f"{root}/data/{self.id}"
            )

    def take(self, paths: Iterable[str]) -> None:
        """Files of this warehouse that a client has written: the publish makes them durable too."""
        warehouse = self.lake.warehouse
        placed = (same_form(path, warehouse.location) for path in paths)
        self._given |= {path for path in placed if warehouse.holds(path)}

    def make_durable(self) -> None:
        """All files of this stage are on the disk: what a publish names survives a power cut."""
        own = {path for found in self._files().values() for path in found}
        given = {path for path in self._given if Path(local_path(path) or "").is_file()}
        self.lake.warehouse.make_durable(own | given)

    def _files(self) -> dict[str, list[str]]:
        """What this stage wrote, by the folders of its tables: every file of it carries its id."""
        with self._lock:
            roots = {each.version.root for each in self.changes.values() if each.version}
            roots |= self._roots | self._fresh_roots
        return {
            root: [
                path
                for place in (f"{root}/data/{self.id}", f"{root}/metadata")
                for path in self.lake.warehouse.listing(place)
                if self.id in path.removeprefix(root) or root in self._fresh_roots
            ]
            for root in roots
        }

    def _put(self, name: TableName, metadata: TableMetadata) -> TableVersion:
        self.lake.attached.refuse_write(name)
        with self._lock:
            before = self.changes.get(name)
            base = before.base if before else self.base.get(name)
            fresh = base is None or not _same_table(self, name, base, metadata)
            number = 0 if fresh else _number(base or "") + 1
            place = f"{metadata.location.rstrip('/')}/metadata/{number:05d}-{self.id}.metadata.json"
            version = self.lake.made(name, place, metadata)
            self.changes[name] = Staged(base, version)
            return version

    def _beat(self, c: Connection) -> None:
        stages.beat(c, self.id, [str(name) for name in list(self.changes)])


def _same_table(stage: Stage, name: TableName, base: str, metadata: TableMetadata) -> bool:
    """A base that cannot be read is never the same: what is staged was made without it."""
    try:
        return stage.lake.version(name, base).metadata.table_uuid == metadata.table_uuid
    except AnabranchError:
        return False


def _number(location: str) -> int:
    match = _NUMBERED.search(location)
    return int(match.group(1)) if match else 0


def with_properties(metadata: TableMetadata, values: Mapping[str, str | None]) -> TableMetadata:
    new = {key: value for key, value in values.items() if value is not None}
    gone = [key for key, value in values.items() if value is None and key in metadata.properties]
    updates: list[SetPropertiesUpdate | RemovePropertiesUpdate] = []
    if new:
        updates.append(SetPropertiesUpdate(updates=new))
    if gone:
        updates.append(RemovePropertiesUpdate(removals=gone))
    return update_table_metadata(metadata, tuple(updates)) if updates else metadata


def _with_mapping(metadata: TableMetadata, hidden: Columns) -> TableMetadata:
    mapping = name_mapping(metadata, hidden)
    if mapping is None or metadata.properties.get(NAME_MAPPING) == mapping:
        return metadata
    return with_properties(metadata, {NAME_MAPPING: mapping})

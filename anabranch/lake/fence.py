"""The fence: which catalog a warehouse belongs to, where it lies, and how far that catalog is.

The mark `anabranch.json` in every warehouse names the catalog, its database and the place, and is
written durably, once.  It ends in the newest cut, which is overwritten in place after each publish,
without a sync: after a power cut it may be behind the catalog, which is harmless, but never ahead of
it.  Whoever finds another owner there, another place, or a cut that its catalog does not know, is a
copy: it may read, and must neither write nor delete until somebody says `adopt`.

An SQLite catalog on a network file system is for one machine at a time: their clocks differ, and SQLite
does not see what another machine writes.  Where one has begun work since this process opened the
catalog, this process writes nothing more.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection

from anabranch.catalog import cuts, stages
from anabranch.catalog.identity import Database, catalog_uuid, database_of
from anabranch.catalog.store import Store
from anabranch.errors import Fenced
from anabranch.lake.ground import is_on_network
from anabranch.lake.places import MARKER, Warehouse, local_path

CUT_DIGITS = 20
AGAIN_SECONDS = 10.0  # how often a mark in an object store is looked at, and advanced
ADOPT = "`anabranch adopt` makes it the owner of this warehouse, with an identity of its own"
RECOVER = "`anabranch recover --from-warehouse` registers the tables that are found in it"
_OUR_ROOT = re.compile(r"((?:/[^/]+)*?)((?:/[A-Za-z0-9_-]+){1,2}/[A-Za-z0-9_-]+-[0-9a-f]{8})")


@dataclass(frozen=True)
class Mark:
    """What `anabranch.json` says; an older Anabranch wrote the catalog only."""

    catalog: str
    location: str | None = None
    database: str | None = None
    address: str | None = None
    file: str | None = None
    cut: int = 0

    def text(self) -> bytes:
        """JSON whose last value, the cut, has a fixed width."""
        known = {key: value for key, value in vars(self).items() if value is not None}
        del known["cut"]
        return f'{json.dumps(known)[:-1]}, "cut": {self.cut:>{CUT_DIGITS}}}}'.encode()


class Fence:
    """Asks the marks before this process writes to a warehouse or deletes from it."""

    def __init__(self, store: Store, warehouse: Warehouse, catalog_name: str) -> None:
        self._store = store
        self._warehouse = warehouse
        self._catalog_name = catalog_name
        self._claimed = False
        self._asked_at = self._advanced_at = -AGAIN_SECONDS
        self._database: Database | None = None
        self._accepted: Mark | None = None
        self._others: dict[str, str] | None = None  # what other machines had begun; None: on a disk
        if is_on_network(store):
            with store.reading() as c:
                self._others = stages.of_other_machines(c)
        self._settle()

    def claim(self) -> None:
        """Before the first write of this process: check the marks, or write them."""
        if self._claimed:
            return
        mark = self._read()
        with self._store.reading() as c:
            self._refuse(mark, c)
            self._refuse_machines(c)
            known = cuts.current(c)
        if mark is None or mark.location is None:
            self.write(known, replace=mark is not None)
            if (mark := self._read()) is None:  # a power cut had emptied the file
                self.write(known, replace=True)
                mark = self._read()
            with self._store.reading() as c:  # two catalogs may have come at once
                self._refuse(mark, c)
        self.advance(known)
        self._claimed, self._asked_at = True, time.monotonic()

    def check(self, c: Connection | None = None, cut_id: int | None = None) -> None:
        """Before a publish or a deletion: is the warehouse still ours?

        `cut_id` is the cut about to be published: nobody can have marked it yet.  Object stores are
        asked every few seconds, unless something is to be deleted.
        """
        young = time.monotonic() - self._asked_at < AGAIN_SECONDS
        if c is not None and young and local_path(self._warehouse.location) is None:
            return
        mark = self._read()
        if c is not None:
            self._refuse(mark, c, cut_id)
            self._refuse_machines(c)
        else:
            with self._store.reading() as connection:
                self._refuse(mark, connection)
                self._refuse_machines(connection)
        self._asked_at = time.monotonic()

    def refuse_copies(self) -> None:
        """Before work that may end without a write; costs no query while the mark is as it was."""
        if local_path(self._warehouse.location) is not None:
            known = (mark := self._read()) is not None and replace(mark, cut=0) == self._accepted
        else:
            known = time.monotonic() - self._asked_at < AGAIN_SECONDS
        if not known:
            self.check()

    def advance(self, cut_id: int) -> None:
        """A cut was published."""
        now, path = time.monotonic(), local_path(self._warehouse.location)
        if path is None and now - self._advanced_at < AGAIN_SECONDS:
            return
        self._advanced_at = now
        mark = self._read()
        if mark is None or mark.catalog != self._warehouse.catalog_uuid or mark.cut >= cut_id:
            return
        if path is None:
            self._warehouse.put(MARKER, replace(mark, cut=cut_id).text(), replace=True)
        else:
            _overwrite_cut(Path(path) / MARKER, mark, cut_id)

    def problem(self) -> Fenced | None:
        """Why this catalog may not write, if so."""
        mark = self._read()
        with self._store.reading() as c:
            try:
                self._refuse(mark, c)
            except Fenced as error:
                return error
        return None

    def former_location(self) -> str | None:
        """Where the tables were when their paths were written; None when they lie here."""
        mark = self._read()
        written = mark.location if mark is not None else None
        if written is not None and not same_place(written, self._warehouse.location):
            return written
        with self._store.reading() as c:
            return self._elsewhere(c)

    def write(self, cut_id: int, *, replace: bool) -> None:
        """Say durably that the warehouse is this catalog's, and lies here."""
        found, here = self.database, self._warehouse
        owner = (found.name, found.address, found.file)
        mark = Mark(here.catalog_uuid, here.location, *owner, cut_id)
        here.put(MARKER, mark.text(), replace=replace)
        self._claimed = False

    @property
    def database(self) -> Database:
        if self._database is None:
            self._database = database_of(self._store)
        return self._database

    def _settle(self) -> None:
        """A local warehouse has many paths (links, mounts): use the one that its files hold."""
        here = self._warehouse.location
        if local_path(here) is None or not Path(local_path(here) or "").is_dir():
            return
        mark = self._read()
        if mark is not None and mark.location is None:
            with self._store.reading() as c:
                found = [place for root in self._roots(c) for place in places_of(root)]
            written = next((each for each in found if same_place(each, here)), here)
        else:
            written = mark.location if mark is not None and mark.location else here
        if same_place(written, here):
            self._warehouse.location = written

    def _refuse(self, mark: Mark | None, c: Connection, cut_id: int | None = None) -> None:
        here = self._warehouse
        if mark is not None and mark.catalog != here.catalog_uuid:
            # whoever adopted the warehouse through this very database is no stranger
            if here.catalog_uuid == self._store.catalog_uuid and mark.catalog == catalog_uuid(c):
                here.catalog_uuid = self._store.catalog_uuid = mark.catalog
            else:
                raise _belongs_to_another(
                    here.location, mark, empty=not cuts.pointers(c, self._catalog_name)
                )
        if mark is not None and mark.location is not None:
            if not same_place(mark.location, here.location):
                raise _moved(here.location, mark.location)
        elif (elsewhere := self._elsewhere(c)) is not None:
            raise _moved(here.location, elsewhere)
        database = mark.database if mark is not None else None
        if mark is not None and database and not self.database.is_same(database, mark.file):
            raise _copied_catalog(self.database, mark)
        known = cut_id - 1 if cut_id is not None else cuts.current(c)
        if mark is not None and mark.cut > known:
            raise _behind(self.database, known, mark.cut)
        self._accepted = replace(mark, cut=0) if mark is not None else None

    def _refuse_machines(self, c: Connection) -> None:
        """What was begun before this process opened the catalog may be left from an earlier boot."""
        if self._others is None:
            return
        begun = stages.of_other_machines(c)
        if new := begun.keys() - self._others.keys():
            raise Fenced(
                f"catalog {self.database.address} is on a network file system, and {begun[min(new)]} "
                "also writes to it: SQLite works for one machine at a time only",
                hint="stop one of the two; a PostgreSQL catalog serves any number of machines",
            )

    def _elsewhere(self, c: Connection) -> str | None:
        """Where the tables of ours lie, if none of them lies here."""
        roots, here = self._roots(c), self._warehouse.location
        if not roots or any(root.startswith(here + "/") for root in roots):
            return None
        places = [set(places_of(root)) for root in roots]
        if any(same_place(place, here) for each in places for place in each):
            return None
        common = set.intersection(*places) or places[0]
        return max(common, key=lambda each: (self._holds(each, roots), len(each)))

    def _holds(self, former: str, roots: list[str]) -> bool:
        """Whether the tables are found here if they lay in a certain place before."""
        moved = (self._warehouse.location + root.removeprefix(former) for root in roots)
        return any(self._warehouse.is_folder(root) for root in moved)

    def _roots(self, c: Connection) -> list[str]:
        """The folders of tables of ours, as the catalog's paths say."""
        pointers = cuts.pointers(c, self._catalog_name).values()
        roots = {pointer.rpartition("/metadata/")[0] for pointer in pointers}
        return sorted(root for root in roots if places_of(root))

    def _read(self) -> Mark | None:
        found = self._warehouse.take(MARKER)
        if found is None or not isinstance(found.get("catalog"), str):
            return None
        known = {key: value for key, value in found.items() if key in Mark.__annotations__}
        return Mark(**known)


def _overwrite_cut(path: Path, mark: Mark, cut_id: int) -> None:
    """The digits only: whatever a power cut leaves, the file is whole."""
    old, new = mark.text(), replace(mark, cut=cut_id).text()
    with suppress(OSError), path.open("r+b", buffering=0) as file:
        if file.read() == old:
            at = len(old) - CUT_DIGITS - 1
            file.seek(at)
            file.write(new[at:])


def places_of(root: str) -> list[str]:
    """The warehouses that a table's folder may have been made in: its schema has one or two levels."""
    parts = root.split("/")
    return [
        place
        for levels in (2, 3)
        if (place := "/".join(parts[:-levels]))
        and not place.endswith("/")
        and _OUR_ROOT.fullmatch(root[len(place) :])
    ]


def same_place(one: str, other: str) -> bool:
    """Whether two locations are one folder, by whatever path."""
    if one == other:
        return True
    first, second = local_path(one), local_path(other)
    if first is None or second is None:
        return _plain(one) == _plain(other)
    try:
        return Path(first).samefile(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def _plain(location: str) -> str:
    """Hadoop's other names for a scheme are the same store."""
    return re.sub(r"^s3[an]://", "s3://", location).rstrip("/")


def _belongs_to_another(location: str, mark: Mark, *, empty: bool) -> Fenced:
    owner = f", {mark.address}" if mark.address else ""
    said = f"warehouse {location} belongs to another catalog{owner}"
    if empty:
        return Fenced(
            f"{said}, and this catalog is empty",
            hint="use that catalog, or another folder; if its database was lost or emptied, restore "
            f"a backup of it, or {RECOVER}",
        )
    return Fenced(
        said,
        hint="use that catalog, or another folder; if its tables are this catalog's, and nobody "
        f"uses the other one any more, {ADOPT}",
    )


def _moved(location: str, former: str) -> Fenced:
    return Fenced(
        f"warehouse {location} was copied or moved from {former}: its files still name the other "
        "place, so it is read-only",
        hint=f"{ADOPT}, and makes its files name this place",
    )


def _copied_catalog(here: Database, mark: Mark) -> Fenced:
    return Fenced(
        f"catalog {here.address} is a copy: the warehouse {mark.location} belongs to "
        f"{mark.address}, so it is read-only",
        hint=f"use that catalog; if nobody uses it any more, {ADOPT}; for a second one, "
        "`anabranch backup` and `anabranch restore`",
    )


def _behind(here: Database, known: int, marked: int) -> Fenced:
    return Fenced(
        f"catalog {here.address} is at cut {known}, but its warehouse has seen cut {marked}: it was "
        "restored from an older copy, or another copy of it is in use, so it is read-only",
        hint=f"if this is the one to continue with, {ADOPT}; what the other has written since "
        "is then deleted",
    )

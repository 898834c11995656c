"""check: walk catalog and warehouse, say what is wrong and what mends it, and mend what is safe.

stream table, index   computed again from what they are made of: always safe
source table          nobody but its writers has the rows: it returns to an older version only if
                      somebody says so, and so does a pointer to an older metadata file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.catalog.indexes import Index, all_indexes
from anabranch.catalog.streams import needed_snapshots
from anabranch.errors import AnabranchError, Refused
from anabranch.lake import damage
from anabranch.lake.damage import Damage, damages
from anabranch.lake.repair import older_metadata, older_snapshot, table_folders, with_main_at
from anabranch.names import TableName, shown
from anabranch.refresh.look import Look, look_now
from anabranch.refresh.run import refresh
from anabranch.refresh.verify import verify
from anabranch.runtime import Runtime, Transaction

CATALOG, SOURCE, STREAM, INDEX = "catalog", "source table", "stream table", "index"
EMPTY = "EMPTY"  # the catalog knows no table of a warehouse that has some
NO_TABLE = "NO_TABLE"  # a stream table or index without its table
DIFFERS = "DIFFERS"  # a stream table that is not what its query gives


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and what mends it."""

    table: TableName | None
    kind: str
    problem: str
    path: str | None
    detail: str
    cure: str
    repaired: bool = False
    error: str | None = None  # why it could not be repaired

    def row(self) -> dict[str, Any]:
        return {**vars(self), "table": None if self.table is None else str(self.table)}


@dataclass
class Check:
    runtime: Runtime
    deep: bool = False
    seen: Look = field(init=False)
    indexes: Mapping[TableName, Index] = field(init=False)  # by the table that holds the copy
    needed: Mapping[TableName, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.look()

    def look(self) -> None:
        self.seen = look_now(self.runtime)
        with self.runtime.store.reading() as c:
            found = [index for each in all_indexes(c).values() for index in each]
            self.needed = needed_snapshots(c)
        self.indexes = {index.copy: index for index in found}

    def findings(self) -> list[Finding]:
        """Everything that is wrong, sources first."""
        found = [*self._catalog()]
        for name, location in sorted(self.seen.pointers.items()):
            found += self._table(name, location)
        broken = {each.table for each in found}
        if self.deep:
            found += [
                finding
                for name in self.seen.order()
                if name not in broken and (finding := self._against_query(name))
            ]
        order = {CATALOG: 0, SOURCE: 1, STREAM: 2, INDEX: 3}
        return sorted(found, key=lambda each: (order[each.kind], str(each.table), each.path or ""))

    def _catalog(self) -> Iterable[Finding]:
        pointers, warehouse = self.seen.pointers, self.runtime.lake.warehouse
        if not pointers and (roots := table_folders(warehouse)):
            detail = f"the catalog knows no table, but the warehouse has {len(roots)}"
            cure = "restore the catalog from a backup, or anabranch recover --from-warehouse"
            yield Finding(None, CATALOG, EMPTY, warehouse.location, detail, cure)
        for name, stream in sorted(self.seen.streams.items()):
            if name not in pointers and stream.populated:
                yield self._finding(name, Damage("", NO_TABLE, "its table is gone"))
        for copy in sorted(self.indexes):
            if copy not in pointers and self.indexes[copy].table in pointers:
                yield self._finding(copy, Damage("", NO_TABLE, "its sorted copy is gone"))

    def _table(self, name: TableName, location: str) -> list[Finding]:
        needed = self.needed.get(name, set()) if name not in self.indexes else set()
        found = damages(self.runtime.lake, name, location, needed, deep=self.deep)
        return [self._finding(name, each) for each in found]

    def _against_query(self, name: TableName) -> Finding | None:
        if not self.seen.streams[name].populated:
            return None
        try:
            why = verify(self.runtime, name)["why"]
        except Refused:  # its query changed since: the next refresh computes it again
            return None
        except AnabranchError as error:
            why = error.message
        return self._finding(name, Damage("", DIFFERS, why)) if why else None

    def _finding(self, name: TableName, each: Damage) -> Finding:
        kind = self.kind(name)
        return Finding(
            name, kind, each.problem, each.path or None, each.detail, self._cure(name, kind, each)
        )

    def kind(self, name: TableName) -> str:
        if name in self.indexes:
            return INDEX
        return STREAM if name in self.seen.streams else SOURCE

    def _cure(self, name: TableName, kind: str, each: Damage) -> str:
        if kind == STREAM:
            return f"--repair, or REFRESH STREAM TABLE {name} FULL"
        if kind == INDEX:
            index = self.indexes[name]
            return (
                f"--repair, or DROP INDEX {shown(index.name)} ON {index.table} and create it again"
            )
        if each.problem == damage.EXPIRED:
            return "--repair, or REFRESH ALL STREAM TABLES FULL: its readers are recomputed"
        if each.path == self.seen.pointers.get(name):
            return "restore the file from a backup, or --repair --previous-metadata"
        return "restore the file from a backup, or --repair --roll-back-sources"


def check(
    runtime: Runtime,
    *,
    repair: bool = False,
    deep: bool = False,
    roll_back_sources: bool = False,
    previous_metadata: bool = False,
) -> list[dict[str, Any]]:
    """One row for each thing that is wrong; `repaired` tells whether it no longer is."""
    if (roll_back_sources or previous_metadata) and not repair:
        raise Refused("nothing is changed without repair", hint="give repair as well")
    if runtime.transaction is not None:
        raise Refused("a check cannot run inside a transaction", hint="check after it")
    walk = Check(runtime, deep)
    found = walk.findings()
    if not repair or not found:
        return [each.row() for each in found]
    errors = Repair(walk, roll_back_sources, previous_metadata).run(found)
    walk.look()
    left = {(each.table, each.problem, each.path) for each in walk.findings()}
    rows = []
    for each in found:
        still = (each.table, each.problem, each.path) in left
        why = errors.get(each.table) if still else None
        rows.append(replace(each, repaired=not still, error=why).row())
    return rows


@dataclass
class Repair:
    """What is safe, and what somebody said: sources first, then what is made of them."""

    walk: Check
    roll_back_sources: bool
    previous_metadata: bool
    errors: dict[TableName | None, str] = field(default_factory=dict)

    def run(self, found: Sequence[Finding]) -> dict[TableName | None, str]:
        for name in self._named(found, SOURCE):
            self._try(name, lambda name=name: self._source(name))  # type: ignore[misc]
        rebuilt = self._named(found, STREAM)
        if rebuilt:
            self._try_each(rebuilt, lambda names: refresh(self.runtime, names, full=True))
        if rebuilt or self._named(found, SOURCE):
            self._try(None, lambda: refresh(self.runtime))
        for name in self._named(found, INDEX):
            self._try(name, lambda name=name: self._index(name))  # type: ignore[misc]
        return self.errors

    @property
    def runtime(self) -> Runtime:
        return self.walk.runtime

    def _named(self, found: Sequence[Finding], kind: str) -> list[TableName]:
        names = (each.table for each in found if each.kind == kind and each.table is not None)
        return list(dict.fromkeys(names))

    def _try(self, name: TableName | None, act: Callable[[], object]) -> bool:
        try:
            act()
        except AnabranchError as error:
            self.errors[name] = error.message
            return False
        return True

    def _try_each(self, names: list[TableName], act: Callable[[list[TableName]], object]) -> None:
        """Together, or if that fails one by one: a table that cannot be rebuilt is in nobody's way."""
        if len(names) > 1 and self._try(None, lambda: act(names)):
            return
        for name in names:
            self._try(name, lambda name=name: act([name]))  # type: ignore[misc]

    def _source(self, name: TableName) -> None:
        lake, location = self.runtime.lake, self.walk.seen.pointers[name]

        def act(tx: Transaction) -> None:
            try:
                version = tx.world.version(name)
            except AnabranchError:
                if not self.previous_metadata:
                    raise
                with self.runtime.store.reading() as c:
                    tx.stage.adopt(name, older_metadata(lake, c, name, location))
                return
            if not self.roll_back_sources:
                return
            chosen = older_snapshot(lake, version)
            if chosen is not None:
                tx.stage.replace_metadata(name, with_main_at(version.metadata, chosen))

        self.runtime.write("repair", act)

    def _index(self, copy: TableName) -> None:
        index = self.walk.indexes[copy]

        def act(tx: Transaction) -> None:
            if tx.stage.exists(copy):
                tx.stage.drop(copy)
            with self.runtime.store.reading() as c:
                tx.indexes[index.table] = all_indexes(c).get(index.table, ())
            tx.stage.expect(index.table, tx.world.pointers.get(index.table))

        self.runtime.write("repair", act)

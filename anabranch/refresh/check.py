"""check: walk catalog and warehouse, say what is wrong and what mends it, and mend what is safe.

stream table, index   computed again from what they are made of: always safe
source table          nobody but its writers has the rows: it returns to an older version only if
                      somebody says so, and so does a pointer to an older metadata file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch import cache
from anabranch.catalog.groups import Reads
from anabranch.catalog.indexes import Index, all_indexes
from anabranch.catalog.streams import needed_snapshots
from anabranch.errors import AnabranchError, CatalogDamaged, FileMissing, Kind, Refused
from anabranch.graph.order import closure
from anabranch.lake.damage import DAMAGED, UNREADABLE, Damage, damages
from anabranch.lake.ground import weaknesses
from anabranch.lake.repair import older_metadata, older_snapshot, table_folders, with_main_at
from anabranch.model import TableKind
from anabranch.names import TableName, shown
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.run import refresh
from anabranch.refresh.verify import verify
from anabranch.runtime import Runtime, Transaction

CATALOG = "catalog"
SOURCE, STREAM, INDEX = (kind.value for kind in TableKind)
EMPTY = "EMPTY"  # the catalog knows no table of a warehouse that has some
NOT_DURABLE = "NOT_DURABLE"  # what catalog or warehouse stand on may lose what was acknowledged
NO_TABLE = "NO_TABLE"  # a stream table or index without its table
LEFT_ALONE = "left alone without {}: the rows of a source table exist nowhere else"
ONLY_TABLES = "--repair repairs tables, not the catalog"
NOT_MENDED = "the repair finished, but the problem remains"
DIFFERS = "DIFFERS"  # a stream table, or its hidden state, that is not what its query gives
CANNOT_COMPARE = "CANNOT_COMPARE"  # a stream table whose query cannot be run


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
    current: bool = True  # False: the table itself can be read, but not all that its readers need

    def row(self) -> dict[str, Any]:
        shown = {name: value for name, value in vars(self).items() if name != "current"}
        return {**shown, "table": None if self.table is None else str(self.table)}


@dataclass
class Check:
    runtime: Runtime
    deep: bool = False
    state: CatalogState = field(init=False)
    indexes: Mapping[TableName, Index] = field(init=False)  # by the table that holds the copy
    needed: Mapping[TableName, set[int]] = field(init=False)
    damaged: Mapping[TableName, Sequence[Damage]] = field(init=False)

    def __post_init__(self) -> None:
        self.look()

    def look(self) -> None:
        cache.forget_files()
        self.state = observe_now(self.runtime)
        with self.runtime.store.reading() as c:
            found = [index for each in all_indexes(c).values() for index in each]
            self.needed = needed_snapshots(c)
        self.indexes = {index.copy: index for index in found}
        self.damaged = {}

    def findings(self) -> list[Finding]:
        """Everything that is wrong, sources first."""
        looked = {n: self._table(n, at) for n, at in sorted(self.state.pointers.items())}
        self.damaged = {name: damages for name, damages in looked.items() if damages}
        found = [*self._catalog()]
        for name in self.damaged:
            found += [self._finding(name, each) for each in self.damaged[name]]
        broken = {each.table for each in found}
        if self.deep:
            found += [
                finding
                for name in self.state.order()
                if name not in broken and (finding := self._against_query(name))
            ]
        order = {CATALOG: 0, SOURCE: 1, STREAM: 2, INDEX: 3}
        return sorted(found, key=lambda each: (order[each.kind], str(each.table), each.path or ""))

    def _catalog(self) -> Iterable[Finding]:
        pointers, warehouse = self.state.pointers, self.runtime.lake.warehouse
        if not pointers and (roots := table_folders(warehouse)):
            detail = f"the catalog knows no table, but the warehouse has {len(roots)}"
            cure = "restore the catalog from a backup, or anabranch recover --from-warehouse"
            yield Finding(None, CATALOG, EMPTY, warehouse.location, detail, cure)
        for each in weaknesses(self.runtime.store, warehouse):
            yield Finding(
                None, CATALOG, NOT_DURABLE, None, f"{each.where}: {each.detail}", each.cure
            )
        for name, stream in sorted(self.state.streams.items()):
            if name not in pointers and stream.populated:
                yield self._finding(name, Damage("", NO_TABLE, "its table is gone"))
        for copy in sorted(self.indexes):
            if copy not in pointers and self.indexes[copy].table in pointers:
                yield self._finding(copy, Damage("", NO_TABLE, "its sorted copy is gone"))

    def _table(self, name: TableName, location: str) -> list[Damage]:
        needed = self.needed.get(name, set()) if name not in self.indexes else set()
        return damages(self.runtime.lake, name, location, needed, deep=self.deep)

    def _against_query(self, name: TableName) -> Finding | None:
        if not self.state.streams[name].populated:
            return None
        try:
            why = verify(self.runtime, name, state=True)["why"]
        except Refused:  # its query changed since: the next refresh computes it again
            return None
        except AnabranchError as error:
            return self._incomparable(name, error)
        return self._finding(name, Damage("", DIFFERS, why)) if why else None

    def _incomparable(self, name: TableName, error: AnabranchError) -> Finding:
        """A query that cannot be run says nothing about the rows of its table."""
        read = sorted(closure([name], self._compared(name)) - {name})
        blamed = [each for each in read if self._is_gone(each) or each in self.damaged]
        why = ", ".join(self._state(each) for each in blamed) or error.message
        found = self._finding(name, Damage("", CANNOT_COMPARE, f"cannot be compared: {why}"))
        if blamed or isinstance(error, FileMissing):
            return found
        if error.kind in (Kind.USER, Kind.SCHEMA):
            return replace(found, cure=f"fix the rows that it reads, or {_another_query(name)}")
        return replace(found, cure=error.hint or "check again")

    def waits_for(self, name: TableName, problem: str) -> list[TableName]:
        """The sources without which a stream table cannot be computed, or compared."""
        reads = self._compared(name)
        if problem != CANNOT_COMPARE:  # an upstream that stays as it is needs nothing itself
            reads = self.state.reads
            stale = {*self.state.stale(self.state.order([name])), *self.damaged, name}
            stale |= {each for each in reads if each not in self.state.pointers}
            reads = {each: reads[each] for each in reads if each in stale}
        return [
            each
            for each in sorted(closure([name], reads))
            if self._is_gone(each) or (self.kind(each) == SOURCE and self._is_unreadable(each))
        ]

    def _compared(self, name: TableName) -> Reads:
        """What a comparison reads: down to the sources, and boundaries as they are."""
        kept = self.state.boundaries - {name}
        return {each: reads for each, reads in self.state.reads.items() if each not in kept}

    def _is_gone(self, name: TableName) -> bool:
        state = self.state
        return not (name in state.pointers or name in state.views or name in state.streams)

    def _is_unreadable(self, name: TableName) -> bool:
        return any(each.current for each in self.damaged.get(name, ()))

    def _state(self, name: TableName) -> str:
        return f"{name} is " + ("no longer there" if self._is_gone(name) else "damaged")

    def _finding(self, name: TableName, each: Damage) -> Finding:
        kind = self.kind(name)
        cure = self._cure(name, kind, each)
        return Finding(
            name, kind, each.problem, each.path or None, each.detail, cure, current=each.current
        )

    def kind(self, name: TableName) -> str:
        if name in self.indexes:
            return INDEX
        return STREAM if name in self.state.streams else SOURCE

    def _cure(self, name: TableName, kind: str, each: Damage) -> str:
        if each.problem == UNREADABLE:
            return "let this user read the file"
        if kind == STREAM:
            waits = self.waits_for(name, each.problem)
            if gone := ", ".join(str(each) for each in waits if self._is_gone(each)):
                return f"recreate {gone}, or {_another_query(name)}"
            if waits:
                return f"repair {', '.join(map(str, waits))} first, then --repair"
            return f"--repair, or REFRESH STREAM TABLE {name} FULL"
        if kind == INDEX:
            index = self.indexes[name]
            return f"--repair, or DROP INDEX {shown(index.name)} ON {index.table} and recreate it"
        if not each.current:
            return "--repair, or REFRESH ALL STREAM TABLES FULL: its readers are recomputed"
        if each.path == self.state.pointers.get(name):
            return "restore the file from a backup, or --repair --previous-metadata"
        return "restore the file from a backup, or --repair --roll-back-sources"


def _another_query(name: TableName) -> str:
    return f"ALTER STREAM TABLE {name} AS another query, or DROP STREAM TABLE {name}"


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
    try:
        runtime.store.refuse_damaged()
        return _checked(runtime, repair, deep, roll_back_sources, previous_metadata)
    except CatalogDamaged as error:
        return [damaged_catalog(error, repair=repair).row()]


def damaged_catalog(error: CatalogDamaged, *, repair: bool = False) -> Finding:
    """Nothing else is said: what a damaged catalog tells about tables may be wrong."""
    why = ONLY_TABLES if repair else None
    cure = error.hint or "restore the catalog from a backup"
    return Finding(None, CATALOG, DAMAGED, error.path, error.message, cure, error=why)


def _checked(
    runtime: Runtime, repair: bool, deep: bool, roll_back_sources: bool, previous_metadata: bool
) -> list[dict[str, Any]]:
    walk = Check(runtime, deep)
    found = walk.findings()
    if not repair or not found:
        return [each.row() for each in found]
    errors = Repair(walk, roll_back_sources, previous_metadata).run(found)
    walk.look()
    left = {(each.table, each.problem, each.path): each for each in walk.findings()}
    known = {(each.table, each.problem, each.path) for each in found}
    # what could not be compared before may prove to differ
    found += [each for key, each in left.items() if key not in known]
    rows = []
    for each in found:
        still = (each.table, each.problem, each.path) in left
        why = (errors.get(each.table) or errors.get(None) or NOT_MENDED) if still else None
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
        if any(each.kind == CATALOG for each in found):
            self.errors[None] = ONLY_TABLES
        for name in self._named([each for each in found if each.current], SOURCE):
            self._try(name, lambda name=name: self._source(name))  # type: ignore[misc]
        rebuilt = self._named([each for each in found if not self._waits(each)], STREAM)
        if rebuilt:
            self._try_each(rebuilt, lambda names: refresh(self.runtime, names, full=True))
        if rebuilt or self._named(found, SOURCE):
            self._try(None, lambda: refresh(self.runtime))
        for name in self._named(found, INDEX):
            self._try(name, lambda name=name: self._index(name))  # type: ignore[misc]
        return self.errors

    def _waits(self, each: Finding) -> bool:
        """Whether a table cannot be compared yet, and to compute it again would not help."""
        if each.table is None or each.problem != CANNOT_COMPARE:
            return False
        waits = self.walk.waits_for(each.table, each.problem)
        left = [n for n in waits if n in self.errors or n not in self.walk.state.pointers]
        if left:
            self.errors[each.table] = f"it waits for {', '.join(map(str, left))}"
        return bool(left)

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
            if isinstance(error, Refused) and error.hint:
                self.errors[name] += f": {error.hint}"
            return False
        return True

    def _try_each(self, names: list[TableName], act: Callable[[list[TableName]], object]) -> None:
        """Together, or if that fails one by one: a table that cannot be rebuilt is in nobody's way."""
        if len(names) > 1 and self._try(None, lambda: act(names)):
            return
        for name in names:
            self._try(name, lambda name=name: act([name]))  # type: ignore[misc]

    def _source(self, name: TableName) -> None:
        lake = self.runtime.lake

        def act(tx: Transaction) -> None:
            location = tx.world.pointers.get(name)
            if location is None:
                return  # dropped meanwhile
            try:
                version = lake.reread(name, location)  # the file, not what is remembered of it
            except FileMissing:
                if not self.previous_metadata:
                    raise Refused(LEFT_ALONE.format("--previous-metadata")) from None
                with self.runtime.store.reading() as c:
                    tx.stage.adopt(name, older_metadata(lake, c, name, location))
                return
            if not self.roll_back_sources:
                raise Refused(LEFT_ALONE.format("--roll-back-sources"))
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

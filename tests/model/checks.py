"""What must be true after every step and at every publish inside one.

Every visible table equals its query at its frontier; a frontier is one cut; groups are whole in every
cut; what a cut showed it shows as long as it is kept; an index holds the rows of its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.api import Anabranch
from anabranch.catalog import cuts
from anabranch.catalog.groups import grouped
from anabranch.catalog.indexes import all_indexes
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AnabranchError
from anabranch.graph.components import components
from anabranch.graph.order import closure
from anabranch.lake.indexes import current
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState, observe
from tests.model import plain
from tests.model.plain import Bag, Broken, Spec
from tests.standin.engine import Frame, Session, connect, frame

SOURCES = ("db.s.a1", "db.s.a2", "db.s.b")


class Wrong(AssertionError):
    """Something that must not be."""


@dataclass
class Checks:
    """A home that is looked at from outside, and what was seen there before."""

    folder: Path
    computed_from: dict[str, dict[str, Spec]] = field(default_factory=dict)
    stands: dict[str, int] = field(default_factory=dict)  # the cut at which a table was last seen
    rows: dict[int, Bag] = field(default_factory=dict)  # by snapshot, as long as the run
    shown: dict[int, dict[str, Bag]] = field(default_factory=dict)  # by cut, when it was new
    formed: dict[frozenset[str], dict[str, Any]] = field(default_factory=dict)
    opted_out: set[str] = field(default_factory=set)  # tables that were once allowed to mix cuts
    session: Session = field(default_factory=Session)

    def __post_init__(self) -> None:
        self.eye = self.opened()

    def opened(self) -> Anabranch:
        """One more process."""
        return connect(
            self.folder / "home",
            spark=self.session,
            snapshot_retention="100s",
            allow_circular=True,
            max_fixpoint_iterations=ROUNDS,
        )

    def look(self) -> CatalogState:
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            return observe(c, runtime.lake)

    def declared(self, seen: CatalogState) -> dict[str, Spec]:
        texts = {name: each.query for name, each in seen.streams.items()} | dict(seen.views)
        return {str(name): plain.spec_of(text) for name, text in texts.items()}

    def blocked(self, seen: CatalogState) -> set[TableName]:
        """Suspended tables and all that wait for one when somebody refreshes by hand.

        By a rule of the model's own: a group waits for a suspended member, and for a group above it of
        which it reads something that is out of date and that waits.  A table without a schedule may be
        out of date, but not without rows of its own.
        """
        late = set(seen.stale(seen.order()))
        home = {name: group.members for group in seen.groups for name in group.members}
        found: set[TableName] = set()

        def waits(name: TableName) -> bool:
            members = home[name]
            for member in members:
                above = set(seen.reads[member]).intersection(home).difference(members)
                by_hand = {each for each in above if seen.streams[each].schedule is None}
                sources = {each for each in by_hand if each in seen.boundaries}
                if any(seen.unfit(each) and each in found for each in sources):
                    return True
                if member not in seen.opted_out and late & found & above - sources:
                    return True
            return any(seen.streams[each].status is Status.SUSPENDED for each in members)

        for name in seen.order():
            if waits(name):
                found.update(home[name])
        return found

    def settled(self, seen: CatalogState) -> bool:
        """Whether no other program has written what nobody has looked at yet."""
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            return dict(runtime.lake.pointers(c)) == dict(seen.pointers)

    def rows_now(self, name: str, seen: CatalogState) -> Bag:
        return self.rows_in(name, seen.pointers)

    def rows_in(self, name: str, pointers: Mapping[TableName, str]) -> Bag:
        version = self.eye._runtime.lake.version(
            TableName.parse(name), pointers[TableName.parse(name)]
        )
        return self.at(name, version.snapshot_id, pointers)

    def at(self, name: str, snapshot: int | None, pointers: Mapping[TableName, str]) -> Bag:
        """The rows of a table at a snapshot."""
        if snapshot is None:
            return Counter()
        if snapshot not in self.rows:
            parsed = TableName.parse(name)
            version = self.eye._runtime.lake.version(parsed, pointers[parsed])
            self.rows[snapshot] = bag(
                frame(self.session, version.reading(snapshot), version.columns)
            )
        return self.rows[snapshot]

    def check(self) -> None:
        seen = self.look()
        declared = self.declared(seen)
        stale = {str(name) for name in seen.stale(seen.order())}
        self.opted_out |= {str(name) for name in seen.opted_out}
        for name in SOURCES:
            self.rows_now(name, seen)  # remembered for frontiers
        for parsed, stream in seen.streams.items():
            name = str(parsed)
            if not stream.populated:
                continue
            fresh = name not in stale and stream.status is Status.ACTIVE
            if fresh:
                self.check_fresh(name, seen, declared)
            self.check_frontier(name, seen, declared, only_declared=fresh)
            self.check_one_cut(name, seen)
        self.check_groups(seen, declared)
        self.check_indexes(seen)
        self.remember_cuts()

    def check_indexes(self, seen: CatalogState) -> None:
        """A copy that says of itself that it is up to date has the rows of its table."""
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            known = [index for each in all_indexes(c).values() for index in each]
        for index in known:
            table, copy = (
                runtime.lake.version(name, seen.pointers[name])
                for name in (index.table, index.copy)
            )
            if not current(copy, table, index):
                continue
            wanted = self.rows_now(str(index.table), seen)
            if (found := self.rows_now(str(index.copy), seen)) != wanted:
                raise Wrong(f"{index.copy} holds {show(found)}, its table {show(wanted)}")

    # -- cuts of the past

    def remember_cuts(self) -> None:
        """What every new cut shows."""
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            kept = [row["cut_id"] for row in cuts.listing(c)]
            new = {cut: runtime.lake.pointers_at(cut, c) for cut in kept if cut not in self.shown}
        for cut, pointers in new.items():
            names = [str(name) for name in pointers if "__" not in str(name)]
            self.shown[cut] = {name: self.rows_in(name, pointers) for name in names}

    def check_cuts(self, ab: Anabranch) -> None:
        """Every cut that is listed can be read, and shows what it showed when it was new."""
        self.remember_cuts()
        for cut in [row["cut_id"] for row in ab.cuts()]:
            try:
                with ab.at(cut) as world:
                    found = {name: bag(world.table(name)) for name in self.shown[cut]}
            except (AnabranchError, OSError) as error:
                raise Wrong(f"cut {cut} is listed and cannot be read: {error}") from error
            if found != self.shown[cut]:
                raise Wrong(f"cut {cut} shows {found}, and showed {self.shown[cut]}")

    # -- tables

    def check_fresh(self, name: str, seen: CatalogState, declared: Mapping[str, Spec]) -> None:
        """What is called up to date equals its query over the sources of this moment."""
        expected = self.evaluated(name, declared, lambda source: self.rows_now(source, seen))
        if (found := self.rows_now(name, seen)) != expected:
            raise Wrong(f"{name} is called up to date: {show(found)}, not {show(expected)}")

    def check_frontier(
        self, name: str, seen: CatalogState, declared: Mapping[str, Spec], *, only_declared: bool
    ) -> None:
        """Every table equals its query at its frontier, by the definitions it was computed from.

        Those are the ones declared when it was published; a table that was not published since keeps
        them, and none returns to older ones.
        """
        stream = seen.streams[TableName.parse(name)]
        if is_mixed(stream):
            return
        frontier = {str(s): snapshot for s, snapshot in seen.frontiers.get(stream.name, {}).items()}
        known = self.computed_from.get(name)
        published = (stream.cut_id or 0) > self.stands.get(name, 0)  # since the last look
        self.stands[name] = stream.cut_id or 0
        only_declared = only_declared or published or known is None
        candidates = [dict(declared), *([] if only_declared or known is None else [known])]
        found = self.rows_now(name, seen)
        expected = None
        for definitions in candidates:
            if name not in definitions:
                continue
            expected = self.evaluated(
                name,
                definitions,
                lambda source: self.at(source, frontier.get(source), seen.pointers),
                given=frontier,
            )
            if expected == found:
                self.computed_from[name] = definitions
                return
        raise Wrong(f"{name} at its frontier: {show(found)}, not {show(expected)}")

    def check_one_cut(self, name: str, seen: CatalogState) -> None:
        """The frontier of a table is what all its sources were in one and the same cut."""
        stream = seen.streams[TableName.parse(name)]
        if is_mixed(stream):
            above = {name, *(str(each) for each in closure([stream.name], seen.reads))}
            if not above & self.opted_out:
                raise Wrong(f"{name} mixes cuts, and nobody said that it may")
            return
        if stream.cut_id is None:
            raise Wrong(f"{name} stands at no cut")
        runtime = self.eye._runtime
        try:
            with runtime.store.reading() as c:
                shown = runtime.lake.pointers_at(stream.cut_id, c)
        except AnabranchError:
            return  # upkeep has forgotten it
        for source, snapshot in seen.frontiers.get(stream.name, {}).items():
            then = self.rows_in(str(source), shown)
            if (read := self.at(str(source), snapshot, seen.pointers)) != then:
                raise Wrong(
                    f"{name} stands at a cut in which {source} is not what it read: "
                    f"{show(read)}, not {show(then)}"
                )

    def evaluated(
        self,
        name: str,
        definitions: Mapping[str, Spec],
        rows_of: Callable[[str], Bag],
        given: Collection[str] = (),
    ) -> Bag | None:
        """A table from scratch; None where the data break a query on the way.

        Stream tables that are `given` are taken as they are: boundaries, which nobody refreshes.
        """

        parts = components({each: spec[1:] for each, spec in definitions.items()})
        cycles = {each: part.members for part in parts if part.cyclic for each in part.members}

        def table(each: str) -> Bag:
            if each not in definitions or (each in given and each != name):
                return rows_of(each)
            if each in cycles:
                return plain.fixed_point({m: definitions[m] for m in cycles[each]}, table)[each]
            return plain.computed(definitions[each], table)

        try:
            return table(name)
        except (Broken, KeyError):
            return None

    def check_groups(self, seen: CatalogState, declared: Mapping[str, Spec]) -> None:
        """In every cut a member of a group is its query over the other members in that cut."""
        known = grouped(seen.reads, seen.streams, seen.declared)
        groups = [group for group in known if len(group.members) > 1]
        wanted = {frozenset(str(name) for name in group.members) for group in groups}
        self.formed = {key: value for key, value in self.formed.items() if key in wanted}
        for members in wanted:
            torn = next(filter(None, (self.torn(n, members, seen) for n in sorted(members))), None)
            last = {n: seen.streams[TableName.parse(n)].last_refresh_at for n in members}
            if torn is None:
                self.formed[members] = {}  # together from now on
                continue
            # A group that somebody just declared comes together with its next refresh.
            formed = self.formed.setdefault(members, last)
            if all(formed.get(name) != last[name] for name in members):
                raise Wrong(torn)

    def torn(self, name: str, members: frozenset[str], seen: CatalogState) -> str | None:
        stream = seen.streams[TableName.parse(name)]
        definitions = self.computed_from.get(name)
        if not stream.populated or definitions is None or is_mixed(stream):
            return None
        frontier = {str(s): snapshot for s, snapshot in seen.frontiers.get(stream.name, {}).items()}
        spec = definitions[name]

        def rows_of(each: str) -> Bag:
            if each in members and seen.streams[TableName.parse(each)].populated:
                return self.rows_now(each, seen)
            if each in frontier:
                return self.at(each, frontier[each], seen.pointers)
            found = self.evaluated(
                each, definitions, lambda s: self.at(s, frontier.get(s), seen.pointers), frontier
            )
            return found if found is not None else Counter()

        try:
            expected = plain.computed(spec, rows_of)
        except Broken:
            return None
        found = self.rows_now(name, seen)
        if found == expected:
            return None
        return f"{name} in one cut with {sorted(members)}: {show(found)}, not {show(expected)}"


ROUNDS = 12  # of a fixed point; values in the model do not need more


def bag(rows: Frame) -> Bag:
    """The two columns that all tables have."""
    return Counter(Frame(rows.session, rows.data.select(["k", "v"])).collect())  # type: ignore[arg-type]


def is_mixed(stream: StreamTable) -> bool:
    """Whether somebody said that a table need not stand at one cut."""
    return bool(stream.options.get("mixed") or stream.options.get("mixed_cuts"))


def show(rows: Bag | None) -> str:
    return "nothing that can be computed" if rows is None else str(sorted(rows.elements(), key=str))

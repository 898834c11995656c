"""The whole system under steps of users, programs and accidents, checked against the plain model.

Catalog, lake, publish, leases, groups, scheduler and deployments are real; rows are computed by the
stand-in of tests/standin.  A step is a list of plain values, so that a run can be kept as JSON:

    ["insert", "db.s.a1", [[1, 10]]]        ["tick"]        ["refresh", "db.h.t0"]
    ["crash", "in_transaction", 1, step]    the process dies when `step` comes there for the first time
    ["meanwhile", "staged", 1, step, other] another process does `other` while `step` is there

After every step, and at every publish inside one, what can be seen must be what the model says.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from anabranch.api import Anabranch
from anabranch.catalog import tables
from anabranch.catalog.groups import grouped
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AnabranchError, InternalError, PublishConflict, Unreachable
from anabranch.graph.order import closure
from anabranch.lake import steps
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.look import Look, look
from tests.model import plain
from tests.model.plain import Bag, Broken, Sources, Spec
from tests.standin.engine import Frame, Session, connect, frame, installed, swap

SOURCES = ("db.s.a1", "db.s.a2", "db.s.b")
PROJECT = ("db.p.p0", "db.p.p1", "db.p.p2")
VIEWS = ("db.v.w0", "db.v.w1")
BY_HAND = ("db.h.t0", "db.h.t1", "db.h.t2", "db.h.t3")
ARROW = pa.schema([("k", pa.int64()), ("v", pa.int64())])
Step = Sequence[Any]


class Wrong(AssertionError):
    """Something that must not be."""


class Killed(BaseException):
    """The process is gone: nobody may catch this and go on."""


class Waits(BaseException):
    """A process that would wait for another one, which cannot go on before it ends."""


@dataclass
class Publishing:
    """What happens when a step comes to a point of a publish for the n-th time."""

    point: str
    number: int
    act: Callable[[], None]


@dataclass
class Held:
    """A cut that somebody holds, and what it showed."""

    by: Anabranch
    stack: ExitStack
    world: Any
    rows: dict[str, Bag]


@dataclass
class Machine:
    folder: Path
    clock: datetime = datetime(2030, 1, 1, tzinfo=timezone.utc)
    sources: Sources = field(default_factory=dict)
    computed_from: dict[str, dict[str, Spec]] = field(default_factory=dict)
    rows: dict[int, Bag] = field(default_factory=dict)  # by snapshot, as long as the run
    formed: dict[frozenset[str], dict[str, Any]] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    orphans: list[Held] = field(default_factory=list)  # of processes that are gone
    opted_out: set[str] = field(default_factory=set)  # tables that were once allowed to mix cuts
    fault: Publishing | None = None
    wrong: Wrong | None = None  # what was found at a publish inside a step
    nested: bool = False
    alone: bool = True  # nobody else is at work, and nothing fails
    checks: int = 0

    def __post_init__(self) -> None:
        self.session = Session()
        self.ab = self.opened()
        self.other = self.opened()
        self.eye = self.opened()
        self.outside = SqlCatalog("anabranch", uri=f"sqlite:///{self.folder / 'home/catalog.db'}")
        for name in SOURCES:
            self.ab.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
        self.sources = {name: Counter() for name in SOURCES}
        (self.folder / "shop").mkdir()
        (self.folder / "shop/anabranch.toml").write_text(TOML)
        for name in SOURCES:
            self.write(name, f"CREATE TABLE {name.split('.')[-1]} (k BIGINT, v BIGINT)")

    def opened(self) -> Anabranch:
        return connect(self.folder / "home", spark=self.session, snapshot_retention="100s")

    def close(self) -> None:
        for each in (*self.held, *self.orphans):
            with suppress(AnabranchError, Killed):
                each.stack.close()
        for ab in (self.ab, self.other, self.eye):
            ab._store.close()
        self.outside.close()
        self.session.stop()

    # -- time and faults -----------------------------------------------------------------------

    def now(self) -> datetime:
        self.clock += timedelta(microseconds=1)  # no two moments are one
        return self.clock

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            REAL_SLEEP(seconds)
        elif self.nested:
            raise Waits
        else:
            self.pass_time(max(seconds, 0.1))

    def pass_time(self, seconds: float) -> None:
        """Time goes on, and processes that live say so meanwhile."""
        while seconds > 0:
            self.clock += timedelta(seconds=min(seconds, SILENCE))
            seconds -= SILENCE
            for ab in (self.ab, self.other):
                if kept := list(ab._store.heartbeat._kept.values()):
                    with ab._store.writing() as c:
                        for each in kept:
                            each.beat(c)

    def at_step(self, point: str) -> None:
        if point == steps.PUBLISHED:
            try:
                self.check()
            except Wrong as error:  # raised here, the engine would take it for a fault of its own
                self.wrong = self.wrong or error
        fault = self.fault
        if fault is not None and fault.point == point and not self.nested:
            fault.number -= 1
            if fault.number == 0:
                self.fault = None
                fault.act()

    def kill(self) -> None:
        """From here on the process does nothing any more, not even tidy up."""

        def gone(*_: object, **__: object) -> Any:
            if threading.current_thread() is threading.main_thread():
                raise Killed
            raise Unreachable("the process is gone")

        self.orphans += [each for each in self.held if each.by is self.ab]
        self.held = [each for each in self.held if each.by is not self.ab]

        store, warehouse = self.ab._store, self.ab._runtime.lake.warehouse
        for thing, names in ((store, ("reading", "writing")), (warehouse, ("delete",))):
            for name in names:
                object.__setattr__(thing, name, gone)
        raise Killed

    # -- steps ---------------------------------------------------------------------------------

    def run(self, step: Step) -> str:
        """One step and all checks; what came of it, in a word."""
        before = self.sources
        self.alone = step[0] not in ("crash", "meanwhile")
        if step[0] == "crash":
            word, allowed = self.crash(step, before)
        elif step[0] == "meanwhile":
            word, allowed = self.meanwhile(step, before)
        else:
            word = self.attempt(self.ab, step)
            allowed = [plain.after(step, before) if word == "done" else before]
        self.fault = None
        if self.wrong is not None:
            raise self.wrong
        self.settle(allowed, step)
        self.check()
        return word

    def attempt(self, ab: Anabranch, step: Step, *, alone: bool = True) -> str:
        """Do a step; refusing is an answer, and so is a lost race if somebody else is at work."""
        try:
            getattr(self, f"do_{step[0]}")(ab, *step[1:])
        except (InternalError, Wrong):
            raise
        except PublishConflict as error:
            if alone:
                raise Wrong(f"{step} lost a race against nobody: {error}") from error
            return "lost"
        except AnabranchError as error:
            if step[0] in WRITES and alone:
                raise Wrong(f"{step}: {error}") from error
            return type(error).__name__
        return "done"

    def crash(self, step: Step, before: Sources) -> tuple[str, list[Sources]]:
        _, point, number, inner = step
        self.fault = Publishing(point, number, self.kill)
        try:
            word = self.attempt(self.ab, inner)
        except Killed:
            self.ab = self.opened()
            return "killed", [before, plain.after(inner, before)]
        return word, [plain.after(inner, before) if word == "done" else before]

    def meanwhile(self, step: Step, before: Sources) -> tuple[str, list[Sources]]:
        _, point, number, inner, other = step
        said: list[str] = []

        def act() -> None:
            self.nested = True
            try:
                said.append(self.attempt(self.other, other, alone=False))
            except Waits:
                said.append("waits")
            finally:
                self.nested = False

        self.fault = Publishing(point, number, act)
        word = self.attempt(self.ab, inner, alone=False)
        mine = inner if word == "done" else ["nothing"]
        theirs = other if said == ["done"] else ["nothing"]
        orders = (mine, theirs), (theirs, mine)
        allowed = [plain.after(second, plain.after(first, before)) for first, second in orders]
        return f"{word}/{said[0] if said else 'alone'}", allowed

    def settle(self, allowed: Sequence[Sources], step: Step) -> None:
        """The sources are what acknowledged writes made of them."""
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            pointers = runtime.lake.pointers(c)  # with commits of others that nobody has looked at
        found = {name: self.rows_in(name, pointers) for name in SOURCES}
        if found not in allowed:
            raise Wrong(f"sources after {step}: {found}, not {allowed}")
        self.sources = found

    # -- writes

    def do_nothing(self, ab: Anabranch) -> None: ...

    def do_insert(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        ab.append(name, arrow(rows))

    def do_update(self, ab: Anabranch, name: str, key: int, more: int) -> None:
        ab.sql(f"UPDATE {name} SET v = v + {more} WHERE k = {key}")

    def do_delete(self, ab: Anabranch, name: str, key: int) -> None:
        ab.sql(f"DELETE FROM {name} WHERE k = {key}")

    def do_transfer(self, ab: Anabranch, one: str, other: str, key: int, amount: int) -> None:
        with ab.transaction():
            ab.append(one, arrow([[key, -amount]]))
            ab.append(other, arrow([[key, amount]]))

    def do_foreign_append(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self.outside.load_table(tuple(name.split("."))).append(arrow(rows))

    def do_foreign_overwrite(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self.outside.load_table(tuple(name.split("."))).overwrite(arrow(rows))

    # -- stream tables

    def do_create(
        self, ab: Anabranch, name: str, spec: Spec, options: Mapping[str, Any] | None = None
    ) -> None:
        ab.create_stream_table(name, plain.text(spec), **(options or {}))

    def do_view(self, ab: Anabranch, name: str, spec: Spec) -> None:
        ab.sql(f"CREATE OR REPLACE VIEW {name} AS {plain.text(spec)}")

    def do_alter_query(self, ab: Anabranch, name: str, spec: Spec) -> None:
        ab.alter_stream_table(name, query=plain.text(spec))

    def do_alter(self, ab: Anabranch, name: str, options: Mapping[str, Any]) -> None:
        ab.alter_stream_table(name, **options)

    def do_drop(self, ab: Anabranch, name: str, cascade: bool = False) -> None:
        ab.drop_stream_table(name, cascade)

    def do_suspend(self, ab: Anabranch, name: str) -> None:
        ab.suspend(name)

    def do_resume(self, ab: Anabranch, name: str) -> None:
        ab.resume(name)

    def do_refresh(self, ab: Anabranch, name: str | None = None) -> None:
        predicted = self.predicted(ab, name) if self.alone and name else None
        ab.refresh(name)
        if not self.alone:
            return
        if predicted and (action := ab.history(name, 1)[0]["action"]) not in (predicted, "NO_DATA"):
            raise Wrong(f"explain said that {name} would be refreshed {predicted}, not {action}")
        seen = self.look()
        asked = seen.order([TableName.parse(name)]) if name else seen.order()
        blocked = self.blocked(seen)
        if late := [str(n) for n in seen.stale(asked) if n not in blocked]:
            raise Wrong(f"stale after a refresh: {late}")
        again = {line["table"]: line["action"] for line in ab.refresh(name)}
        if busy := {t: a for t, a in again.items() if a not in ("NO_DATA", "SKIP")}:
            raise Wrong(f"a second refresh found work: {busy}")

    def predicted(self, ab: Anabranch, name: str) -> str | None:
        """How explain says that a table will be refreshed, if nothing above it comes first."""
        seen, parsed = self.look(), TableName.parse(name)
        above = [each for each in seen.order([parsed]) if each != parsed]
        if parsed not in seen.streams or seen.stale(above):
            return None
        found = re.search(r"next refresh: ([A-Z_]+),", ab.explain(name))
        return found[1] if found else None

    def do_full(self, ab: Anabranch, name: str) -> None:
        ab.refresh(name, full=True)

    def do_tick(self, ab: Anabranch, seconds: float = 0) -> None:
        """A tick, some time after what happened before."""
        self.pass_time(seconds)
        blocked = [g["group_id"] for g in ab.groups() if g["blocked_by"]] if self.alone else []
        for found in ab.tick():
            if found["group_id"] in blocked and found["outcome"] != "SKIPPED":
                raise Wrong(f"groups() called it blocked, and a tick said {found}")

    def do_clock(self, ab: Anabranch, seconds: float) -> None:
        self.pass_time(seconds)

    def do_verify(self, ab: Anabranch) -> None:
        seen = self.look()
        stale = set(seen.stale(seen.order()))
        for name, stream in seen.streams.items():
            if not stream.populated:
                continue
            try:
                found = ab.verify(str(name))
            except InternalError:
                raise
            except AnabranchError as error:
                if name not in stale:
                    raise Wrong(f"{name} is up to date and cannot be verified: {error}") from error
                continue
            if not found["equal"]:
                raise Wrong(f"verify: {found}")

    # -- groups

    def do_group(
        self, ab: Anabranch, name: str, members: Sequence[str], isolation: str = "repeatable_read"
    ) -> None:
        ab.create_refresh_group(name, members, isolation)

    def do_drop_group(self, ab: Anabranch, name: str) -> None:
        ab.drop_refresh_group(name)

    # -- deployments

    def write(self, name: str, text: str | None) -> None:
        place = self.folder / "shop/models" / f"{name.replace('.', '/')}.sql"
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink(missing_ok=True)
        else:
            place.write_text(text)

    def do_edit(self, ab: Anabranch, name: str, spec: Spec | None) -> None:
        short = name.split(".")[-1]
        self.write(name, spec and f"CREATE STREAM TABLE {short} AS {plain.text(spec)}")

    def do_stage(self, ab: Anabranch) -> None:
        ab.stage(str(self.folder / "shop"))

    def do_promote(self, ab: Anabranch) -> None:
        chosen = [each["id"] for each in ab.deployments() if each["status"] == "STAGED"]
        if chosen:
            ab.promote(chosen[0])

    def do_deploy(self, ab: Anabranch) -> None:
        made = ab.stage(str(self.folder / "shop"))
        if made is not None:
            ab.promote(made)
        if self.alone and not (plan := ab.plan(str(self.folder / "shop"))).empty:
            raise Wrong(f"the plan after a deployment: {plan}")

    def do_rollback(self, ab: Anabranch) -> None:
        ab.rollback()

    def do_abort(self, ab: Anabranch) -> None:
        chosen = [each["id"] for each in ab.deployments() if each["status"] == "STAGED"]
        if chosen:
            ab.abort(chosen[0])

    # -- upkeep and readers

    def do_maintain(self, ab: Anabranch) -> None:
        ab.maintain()

    def do_hold(self, ab: Anabranch) -> None:
        stack = ExitStack()
        world = stack.enter_context(ab.at())
        rows = {str(n): bag(world.table(n)) for n in world.names() if "__" not in str(n)}
        self.held.append(Held(ab, stack, world, rows))

    def do_read_held(self, ab: Anabranch) -> None:
        for each in self.held:
            for name, rows in each.rows.items():
                try:
                    found = bag(each.world.table(name))
                except (AnabranchError, OSError) as error:
                    raise Wrong(f"{name} of a held cut is gone: {error}") from error
                if found != rows:
                    raise Wrong(f"{name} of a held cut: {show(found)}, not {show(rows)}")

    def do_release(self, ab: Anabranch) -> None:
        for each in self.held:
            each.stack.close()
        self.held.clear()

    # -- what must be true ---------------------------------------------------------------------

    def look(self) -> Look:
        runtime = self.eye._runtime
        with runtime.store.reading() as c:
            return look(c, runtime.lake)

    def declared(self, seen: Look) -> dict[str, Spec]:
        texts = {name: each.query for name, each in seen.streams.items()} | dict(seen.views)
        return {str(name): plain.spec_of(text) for name, text in texts.items()}

    def blocked(self, seen: Look) -> set[TableName]:
        from anabranch.refresh.run import blocked

        still = {n for n, each in seen.streams.items() if each.status is Status.SUSPENDED}
        return still | set(blocked(seen))

    def rows_now(self, name: str, seen: Look) -> Bag:
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
            read = frame(self.session, version.reading(snapshot), version.columns)
            self.rows[snapshot] = bag(read)
        return self.rows[snapshot]

    def check(self) -> None:
        self.checks += 1
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

    def check_fresh(self, name: str, seen: Look, declared: Mapping[str, Spec]) -> None:
        """What is called up to date equals its query over the sources of this moment."""
        expected = self.evaluated(name, declared, lambda source: self.rows_now(source, seen))
        if (found := self.rows_now(name, seen)) != expected:
            raise Wrong(f"{name} is called up to date: {show(found)}, not {show(expected)}")

    def check_frontier(
        self, name: str, seen: Look, declared: Mapping[str, Spec], *, only_declared: bool
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
        candidates = [dict(declared)] if only_declared or known is None else [dict(declared), known]
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

    def check_one_cut(self, name: str, seen: Look) -> None:
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

        def table(each: str) -> Bag:
            if each not in definitions or (each in given and each != name):
                return rows_of(each)
            return plain.computed(definitions[each], table)

        try:
            return table(name)
        except (Broken, KeyError):
            return None

    def check_groups(self, seen: Look, declared: Mapping[str, Spec]) -> None:
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

    def torn(self, name: str, members: frozenset[str], seen: Look) -> str | None:
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


SILENCE = 5  # seconds between two signs of life
TOML = 'name = "shop"\n'
WRITES = ("insert", "update", "delete", "transfer", "foreign_append", "foreign_overwrite")
REAL_SLEEP = time.sleep


def arrow(rows: Sequence[Sequence[Any]]) -> pa.Table:
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=ARROW)


def bag(rows: Frame) -> Bag:
    return Counter(rows.collect())  # type: ignore[arg-type]


def is_mixed(stream: StreamTable) -> bool:
    """Whether somebody said that a table need not stand at one cut."""
    return bool(stream.options.get("mixed") or stream.options.get("mixed_cuts"))


def show(rows: Bag | None) -> str:
    return "nothing that can be computed" if rows is None else str(sorted(rows.elements(), key=str))


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A home of its own, with time and faults in the hands of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Machine] = []
    start = datetime(2030, 1, 1, tzinfo=timezone.utc)
    now, real_now = (lambda: made[0].now() if made else start), tables.now
    at_step, real_step = (lambda point: made[0].at_step(point) if made else None), steps.at_step
    with installed():
        swap(real_now, now)
        swap(real_step, at_step)
        time.sleep = lambda seconds: made[0].sleep(seconds) if made else REAL_SLEEP(seconds)  # type: ignore[assignment]
        try:
            made.append(Machine(folder))
            yield made[0]
        finally:
            time.sleep = REAL_SLEEP
            swap(at_step, real_step)
            swap(now, real_now)
            if made:
                made[0].close()

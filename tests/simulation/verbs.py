"""What processes do: operations of the product, and the sources as they must be after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from anabranch import upkeep
from anabranch.backup import backup
from anabranch.catalog import cuts, tables, views
from anabranch.catalog.deployments import DeploymentStatus
from anabranch.catalog.migrations import FORMAT_VERSION
from anabranch.deploy.abort import abort
from anabranch.deploy.promote import promote
from anabranch.deploy.rollback import rollback
from anabranch.deploy.stage import stage
from anabranch.deploy.state import newest
from anabranch.errors import (
    AnabranchError,
    FileMissing,
    InternalError,
    OutcomeUnknown,
    PublishConflict,
    Refused,
    Unreachable,
)
from anabranch.lake import publish
from anabranch.lake.adopt import adopt
from anabranch.lake.archive import Archive
from anabranch.lake.restore import restore
from anabranch.names import TableName
from anabranch.refresh import run
from anabranch.refresh.check import check
from anabranch.runtime import IsolationLevel, Transaction, check_new_name
from anabranch.scheduler.tick import Scheduler
from anabranch.tables import stream_tables as declare
from anabranch.tables.drop import Kind, drop
from tests.simulation import light, projects
from tests.simulation.checks import BACKUPS, Checks
from tests.simulation.disk import TORN
from tests.simulation.plans import BY_HAND, QUERIES, THEIRS, Op
from tests.simulation.world import RETENTION, Process, Wrong

A, B = TableName.parse("s.a"), TableName.parse("s.b")
WRITES = ("insert", "delete", "transfer", "move", "claim", "foreign", "churn")
AWHILE = 1.5 * RETENTION


class Verbs(Checks):
    def perform(self, process: Process, op: Op) -> str:
        """Do it; refusing is an answer, and so is a lost race."""
        verb, *given = op
        effect: Callable[[Any], None] | None = None
        if verb in WRITES:
            effect = self.effect(op)
        try:
            said = getattr(self, f"do_{verb}")(process, *given)
        except (InternalError, FileMissing) as error:
            # the files of a former owner are nobody's by now
            if isinstance(error, FileMissing) and (self.adopted or self.world.disk.lossy):
                self.wrote(effect, certain=True, done=False)
                return f"{type(error).__name__}: {error.message}"
            raise Wrong(f"{op}: {type(error).__name__}: {error}") from error
        except (OutcomeUnknown, Unreachable) as error:
            known = verb != "foreign" and not isinstance(error, OutcomeUnknown)
            self.wrote(effect, certain=known, done=False)
            return type(error).__name__
        except AnabranchError as error:
            self.wrote(effect, certain=True, done=False)
            return f"{type(error).__name__}: {error.message}"
        except Wrong:
            raise
        except Exception as error:
            raise Wrong(f"{op}: {error!r}") from error
        except BaseException:  # killed
            self.wrote(effect, certain=False, done=False)
            raise
        self.wrote(effect, certain=True, done=said is not False)
        return "done" if said is not False else "nothing to do"

    # -- source tables -----------------------------------------------------------------------------

    def do_insert(self, process: Process, table: str, key: int) -> None:
        name = TableName.parse(table)

        def act(tx: Transaction) -> None:
            tx.stage.commit_rows(name, light.write_rows(tx, name, Counter([(key, 1)])))

        process.runtime.write("insert", act)

    def do_delete(self, process: Process, table: str, key: int) -> Any:
        name = TableName.parse(table)

        def act(tx: Transaction) -> bool:
            rows = light.rows_of(tx.world.version(name))
            left = Counter({row: n for row, n in rows.items() if row[0] != key})
            if left == rows:
                return False
            tx.stage.commit_rows(name, light.write_rows(tx, name, left), replace_all=True)
            return True

        return process.runtime.write("delete", act)

    def do_transfer(self, process: Process, key: int) -> None:
        """Rows are added to two tables, whatever is in them."""
        with process.runtime.open_transaction() as tx:
            for name, value in ((A, -10), (B, 10)):
                written = light.write_rows(tx, name, Counter([(key, value)]))
                tx.note_append(name, written)
                tx.stage.commit_rows(name, written)

    def do_move(self, process: Process, key: int) -> None:
        """Two tables are read and written: nobody may come between."""
        with process.runtime.open_transaction(IsolationLevel.SERIALIZABLE) as tx:
            for name, value in ((A, -10), (B, 10)):
                rows = light.rows_of(tx.world.version(name))
                tx.world.read.note_rows(name)
                rows[key, value] += 1
                tx.stage.commit_rows(name, light.write_rows(tx, name, rows), replace_all=True)

    def do_claim(self, process: Process, table: str, key: int) -> Any:
        """A row that one of two tables may have: both are read, one is written."""
        with process.runtime.open_transaction(IsolationLevel.SERIALIZABLE) as tx:
            for name in (A, B):
                tx.world.read.note_rows(name)
                if light.rows_of(tx.world.version(name))[key, 1]:
                    return False
            name = TableName.parse(table)
            tx.stage.commit_rows(name, light.write_rows(tx, name, Counter([(key, 1)])))
            return True

    def do_foreign(self, process: Process, table: str, key: int) -> Any:
        """Another program adds a row: a file, then a pointer, and nothing that we know of."""
        name, store = TableName.parse(table), process.runtime.store
        with store.reading() as c:
            before = cuts.pointers(c, "anabranch")[name]
        disk, stage_id, began = self.world.disk, f"foreign-{key}", self.world.time
        metadata = disk.read(before, "metadata file")
        data = f"{metadata.location}/data/{stage_id}.parquet"
        disk.write(data, ((key, 1),))
        try:
            files = (*light.files_at(disk, metadata.current_snapshot()), data)
        except FileMissing:
            if self.world.time - began < RETENTION:
                raise
            return False  # it took so long that what it began with is not kept any more
        made = light.with_files(disk, metadata, stage_id, files)
        made = light.replace(
            made, metadata_log=[*metadata.metadata_log, publish._log_entry(before, 0)]
        )
        place = f"{metadata.location}/metadata/{stage_id}.metadata.json"
        disk.write(place, made)
        disk.sync([path for path in disk.files if stage_id in path])
        table_ = tables.iceberg_tables
        with store.writing() as c:
            here = (table_.c.table_name == name.name) & (table_.c.metadata_location == before)
            return (
                c.execute(update(table_).where(here).values(metadata_location=place)).rowcount == 1
            )

    def do_theirs(self, process: Process, only: str, key: int) -> Any:
        """Another program adds rows to tables of its own catalog, to both in one moment."""
        world, disk = self.world, self.world.disk
        before = dict(world.theirs)
        after = dict(before)
        for name in [only] if only else THEIRS:
            metadata = disk.read(before[name], "metadata file")
            data = f"{metadata.location}/data/{key}.parquet"
            process.depth += 1  # what it writes before is no step that matters to anybody
            disk.write(data, ((key, 1),))
            files = (*light.files_at(disk, metadata.current_snapshot()), data)
            after[name] = f"{metadata.location}/metadata/{key}.metadata.json"
            disk.write(after[name], light.with_files(disk, metadata, f"theirs-{key}", files))
            disk.sync([path for path in disk.files if path.startswith(metadata.location)])
            process.depth -= 1
        world.step("commit", "theirs")
        if world.theirs != before:
            return False
        world.theirs = after
        world.moments.append(after)
        return True

    # -- stream tables -----------------------------------------------------------------------------

    def do_refresh(self, process: Process, name: str) -> None:
        run.refresh(process.runtime, [TableName.parse(name)] if name else None)

    def do_full(self, process: Process, name: str) -> None:
        run.refresh(process.runtime, [TableName.parse(name)], full=True)

    def do_tick(self, process: Process, seconds: float) -> None:
        if seconds:
            self.world.sleep(seconds)
        Scheduler(process.runtime).tick()

    def do_alter(self, process: Process, name: str, query: str) -> None:
        declare.alter(process.runtime, TableName.parse(name), {"query": query})

    def do_drop(self, process: Process, name: str) -> None:
        drop(process.runtime, TableName.parse(name), Kind.STREAM)

    def do_create(self, process: Process, name: str) -> None:
        schedule = None if name in BY_HAND else "1s"
        made = declare.Declaration(TableName.parse(name), QUERIES[name], schedule)
        declare.create(process.runtime, made)

    def do_suspend(self, process: Process, name: str) -> None:
        declare.set_status(process.runtime, TableName.parse(name), "SUSPENDED")
        declare.set_status(process.runtime, TableName.parse(name), "ACTIVE")

    # -- deployments -------------------------------------------------------------------------------

    def do_stage(self, process: Process, factor: int) -> Any:
        made = stage(process.runtime, projects.version(factor))
        if made is None:
            return False
        self.acknowledged[made] = "STAGED PROMOTED ROLLED_BACK ABORTED"
        return True

    def do_promote(self, process: Process) -> None:
        done = promote(process.runtime, self.deployment(process, DeploymentStatus.STAGED))
        self.ended(done["id"], "PROMOTED ROLLED_BACK")

    def do_rollback(self, process: Process) -> None:
        done = rollback(process.runtime, project=projects.NAME)
        self.ended(done["id"], "ROLLED_BACK")

    def do_abort(self, process: Process) -> None:
        done = abort(process.runtime, self.deployment(process, DeploymentStatus.STAGED))
        self.ended(done["id"], "ABORTED")

    def ended(self, deployment: str, allowed: str) -> None:
        """A deployment ends once; only an abort may be repeated, and removes what is left."""
        then, now = self.acknowledged.get(deployment, "STAGED").split()[0], allowed.split()[0]
        twice = then == now != "ABORTED"
        if twice or (then != "STAGED" and (then == "ABORTED") != (now == "ABORTED")):
            raise Wrong(f"deployment {deployment} was {then}, and became {now}")
        self.acknowledged[deployment] = allowed

    def deployment(self, process: Process, status: DeploymentStatus) -> str:
        with process.runtime.store.reading() as c:
            return newest(c, status).id

    # -- everything else ---------------------------------------------------------------------------

    def do_name(self, process: Process, kind: str, spelled: str) -> None:
        """A name is given away."""
        name = TableName.parse(spelled)

        def act(tx: Transaction) -> None:
            check_new_name(tx, name)
            if kind == "table":
                tx.stage.create(name, ())
            else:
                tx.later(lambda c, cut_id: views.add(c, name, "scale 1 s.a"))

        process.runtime.write("create", act)

    def do_hold(self, process: Process) -> None:
        """One cut, read table by table, twice."""
        with process.runtime.held() as world:
            cut = world.cut_id
            for _ in range(2):
                for name in sorted(world.pointers):
                    try:
                        world._check_held()
                    except Refused:
                        return  # it slept for too long, and is told so
                    try:
                        rows = light.rows_of(world.version(name))
                    except FileMissing as error:
                        try:
                            world._check_held()
                        except Refused:
                            return
                        raise Wrong(f"cut {cut} is held, and {name} cannot be read") from error
                    wanted = self.shown[cut].get(str(name))
                    if wanted is not None and rows != wanted:
                        raise Wrong(f"cut {cut} is held: {name} shows {rows}, not {wanted}")

    def do_maintain(self, process: Process, grace: float) -> None:
        process.runtime.settings = process.runtime.settings.with_("orphan_grace", f"{grace:g}s")
        upkeep.maintain(process.runtime)

    def do_churn(self, process: Process, table: str, key: int) -> None:
        """All rows of a table are written again, time goes by, as cuts tell it: they are written once
        more, and what is old is removed."""
        name = TableName.parse(table)

        def act(tx: Transaction, new: int) -> None:
            rows = light.rows_of(tx.world.version(name))
            rows[key, 1] += new
            tx.stage.commit_rows(name, light.write_rows(tx, name, +rows), replace_all=True)

        process.runtime.write("update", lambda tx: act(tx, 1))
        self.world.pass_time(AWHILE)
        with suppress(PublishConflict, Unreachable, OutcomeUnknown):
            process.runtime.write("update", lambda tx: act(tx, 0))
            upkeep.maintain(process.runtime)

    def do_backup(self, process: Process) -> None:
        try:
            backup(process.runtime, BACKUPS)
        except Unreachable as error:
            if {event.kind for event in self.world.plan.events} & {"lost", "pause", "jump"}:
                raise
            raise Wrong(f"a file that a backup needs is gone: {error}") from error
        self.check_backup()

    def do_lose(self, process: Process, way: str) -> None:
        """The disk loses a file of a stream table, or half of it."""
        disk = self.world.disk
        files = sorted(self.files_of_streams())
        if files:
            path = self.world.chance.choice(files)
            self.world.step("lose", path)
            if path in disk.files and way == "gone":
                del disk.files[path]
            elif path in disk.files:
                disk.put(path, TORN)

    def do_repair(self, process: Process) -> None:
        check(process.runtime, repair=True)

    def do_rot(self, process: Process) -> None:
        """A file of the backups is not what was written any more."""
        disk = self.world.disk
        files = sorted(path for path in disk.files if path.startswith(f"{BACKUPS}/"))
        chosen = [path for path in files if not path.endswith("anabranch-backup.json")]
        if chosen:
            path = self.world.chance.choice(chosen)
            self.world.step("rot", path)
            if path in disk.files:
                there = disk.files[path]
                content = b"rot" if isinstance(there.content, bytes) else ((13, 13),)
                disk.files[path] = replace(there, content=content)
                self.rotten = True

    def do_restore(self, process: Process, back: int) -> None:
        """The newest backup, or an older cut that it knows, in a place of its own."""
        self.restored += 1
        place, identity = f"file:///simulated/restored{self.restored}", f"restored{self.restored}"
        second = self.world.second
        second.begin_run()
        facts = {"catalog_uuid": identity, "format_version": FORMAT_VERSION, "cut": 0}
        second.connection.execute(
            tables.meta.insert().values(id=1, created_at=tables.now(), **facts)
        )
        archive = Archive(BACKUPS)
        records, _ = archive.records()
        cut = records[-1].cut - back if records and back else None
        try:
            restore(archive, self.world.store(second, identity), place, cut)
        except AnabranchError:
            self.check_nothing_is_left(place)
            raise
        shown = cut if cut is not None else archive.chosen(None)[0].cut
        self.check_restored(second.query, place, shown)
        runtime = self.world.opened(second, place, identity)
        run.refresh(runtime)
        self.check_refreshed(second.query)

    def do_adopt(self, process: Process) -> None:
        """A copy of the catalog takes the warehouse over, and goes on by itself."""
        self.world.second.copy(self.world.database)
        other = self.world.opened(self.world.second)
        self.world.step("open", "a copy of the catalog")
        adopt(other.lake)
        other.settings = other.settings.with_("orphan_grace", "0s")
        row = Counter([(99, 1)])
        other.write("insert", lambda tx: tx.stage.commit_rows(A, light.write_rows(tx, A, row)))
        upkeep.maintain(other)

    def do_copy(self, process: Process) -> None:
        """Somebody opens a copy of the catalog beside the same warehouse, and tidies it up."""
        self.world.second.copy(self.world.database)
        other = self.world.opened(self.world.second)
        self.world.step("open", "a copy of the catalog")
        other.settings = other.settings.with_("orphan_grace", "0s")
        for act in (
            lambda: other.write(
                "insert",
                lambda tx: tx.stage.commit_rows(A, light.write_rows(tx, A, Counter([(99, 1)]))),
            ),
            lambda: upkeep.maintain(other),
        ):
            try:
                act()
            except FileMissing:
                continue  # a copy has no right to anything
            except AnabranchError:
                continue

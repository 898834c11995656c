"""Running seeds: one, many, or one in its smallest form."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.catalog import foreign, migrations, tables
from anabranch.deploy.promote import promote
from anabranch.deploy.stage import stage
from anabranch.names import TableName
from anabranch.runtime import Runtime, Transaction
from anabranch.settings import Settings
from anabranch.tables import stream_tables as declare
from tests.simulation import install, light, projects, speakers
from tests.simulation.checks import PENDING, START
from tests.simulation.database import Database
from tests.simulation.plans import (
    BY_HAND,
    DEPLOYED,
    DEPLOYMENTS,
    QUERIES,
    STAGED,
    STREAMS,
    THEIRS,
    UNFILLED,
    Plan,
    plan_of,
)
from tests.simulation.verbs import Verbs
from tests.simulation.world import LEASE, RETENTION, Template, World

COLLECT = 500  # runs between two collections of garbage
WAY_OUT = 16  # every so-manieth seed ends with a refresh that must make everything right


@dataclass
class Failure:
    plan: Plan
    error: BaseException
    trace: list[str]

    def __str__(self) -> str:
        return "\n".join(
            [str(self.plan), "", *self.trace, "", f"{type(self.error).__name__}: {self.error}"]
        )


class Simulator:
    def __init__(self) -> None:
        install.installed()
        self.second = Database()
        self.settings = Settings.load(
            "/tmp/simulated",
            parallelism=1,
            lease_time=f"{LEASE:g}s",
            snapshot_retention=f"{RETENTION:g}s",
            orphan_grace="0s",
        )
        self.templates = {family: self._template(family) for family in STREAMS}
        self.steps = self.runs = 0
        gc.collect()
        gc.freeze()  # what is there now is there to the end
        gc.disable()

    def _template(self, family: str) -> Template:
        identity = "00000000-0000-0000-0000-000000000001"
        facts = {"format_version": migrations.FORMAT_VERSION, "cut": 0}
        template = Template(Database(), {}, identity)
        world = World(Plan(-1, family, (), (), ()), template, self.second, self.settings)
        world.time = 0.0
        light.number.begin(1)
        with install.simulate(world):
            row = tables.meta.insert().values(
                id=1, catalog_uuid=identity, created_at=tables.now(), **facts
            )
            template.database.connection.execute(row)
            runtime = world.opened(template.database)
            if family == "attached":
                self._attach(world, runtime)
            for table, rows in START.items():
                runtime.write("create", lambda tx, t=table, r=rows: self._source(tx, t, r))
            if family in DEPLOYMENTS:
                promote(runtime, str(stage(runtime, projects.version(DEPLOYED))))
            outside = [name for name in STREAMS[family] if name.startswith("s.")]
            for name in outside:
                schedule = None if name in BY_HAND else "1s"
                made = declare.Declaration(TableName.parse(name), QUERIES[name], schedule)
                declare.create(runtime, replace(made, initialize=name not in UNFILLED))
            if family in DEPLOYMENTS:
                deployment = str(stage(runtime, projects.version(STAGED)))
                if family == "promoted":
                    promote(runtime, deployment)
            for table, row in PENDING.items():  # not yet seen by the stream tables
                runtime.write("insert", lambda tx, t=table, r=row: self._append(tx, t, r))
        template.database.keep_run()
        for file in world.disk.files.values():
            file.synced = True
        return replace(template, files=world.disk.files, theirs=world.theirs)

    def _attach(self, world: World, runtime: Runtime) -> None:
        """Two tables of another program, in a catalog of its own."""
        for name, rows in zip(THEIRS, START.values(), strict=True):
            place = f"file:///simulated/theirs/{name}"
            metadata = light.new_metadata(place, name)
            world.disk.write(f"{place}/data/first.parquet", rows)
            files = [f"{place}/data/first.parquet"]
            world.theirs[name] = f"{place}/metadata/first.metadata.json"
            made = light.with_files(world.disk, metadata, "first", files)
            world.disk.write(world.theirs[name], made)
        with runtime.store.writing() as c:
            foreign.put(c, foreign.Catalog("prod", "rest", {}))

    def _source(self, tx: Transaction, table: str, rows: Sequence[tuple[int, int]]) -> None:
        tx.stage.create(TableName.parse(table), ())
        self._append(tx, table, *rows)

    def _append(self, tx: Transaction, table: str, *rows: tuple[int, int]) -> None:
        name = TableName.parse(table)
        tx.stage.commit_rows(name, light.write_rows(tx, name, Counter(rows)))

    def run(self, plan: Plan, trace: list[str] | None = None) -> BaseException | None:
        """What is wrong after a plan, if anything."""
        self.runs += 1
        if self.runs % COLLECT == 0:
            gc.collect()
        world = World(plan, self.templates[plan.family], self.second, self.settings, trace)
        with install.simulate(world):
            verbs = Verbs(world)
            world.on_commit, world.perform = verbs.look, verbs.perform
            world.on_beat, world.on_take = verbs.check_beats, verbs.check_turn
            try:
                world.run()
                verbs.finish(way_out=plan.seed % WAY_OUT == 0)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                return error
            finally:
                self.steps += world.total
                world.database.end_run()
                world.second.end_run()
        return None

    def quick(self, plan: Plan, trace: list[str] | None = None) -> BaseException | None:
        """The same, with the catalog's statements made without SQLAlchemy."""
        with speakers.fast_sql():
            return self.run(plan, trace)

    def seed(self, seed: int) -> BaseException | None:
        return self.run(plan_of(seed))

    def shrunk(self, plan: Plan) -> Plan:
        """The smallest plan that goes wrong, by leaving parts out while something does."""
        while True:
            smaller = next((each for each in plan.smaller() if self.run(each) is not None), None)
            if smaller is None:
                return plan
            plan = smaller

    def explained(self, seed: int) -> Failure | None:
        """A seed that goes wrong, in its smallest form, step by step."""
        plan = plan_of(seed)
        if self.run(plan) is None:
            return None
        plan = self.shrunk(plan)
        trace: list[str] = []
        error = self.run(plan, trace)
        assert error is not None, "the same plan went well"
        return Failure(plan, error, trace)

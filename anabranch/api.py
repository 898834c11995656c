"""The verbs of Anabranch, each a line or two; the work is done below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, Any

import anabranch.listing as listing
from anabranch.boundary import check_options, public, public_class
from anabranch.catalog.store import Store
from anabranch.errors import AnabranchError, Refused
from anabranch.model import RefreshMode
from anabranch.names import TableName
from anabranch.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from anabranch.deploy.plan import Plan
    from anabranch.graph.picture import Picture
    from anabranch.model import Columns
    from anabranch.runtime import Runtime
    from anabranch.scheduler.tick import Scheduler
    from anabranch.tables.stream_tables import Declaration
    from anabranch.world import World

UNSET: Any = object()
Value = Any  # of a setting


def _name(name: str | None) -> TableName | None:
    return None if name is None else TableName.parse(name)


def _query(sql: str) -> str:
    return str(sql).strip().rstrip(";")


Progress = Callable[[str, Mapping[str, Any]], None]


@public
def connect(
    target: str | os.PathLike[str] | Mapping[str, Any] | Settings | None = None,
    *,
    spark: SparkSession | None = None,
    **settings: Value,
) -> Anabranch:
    """Open a catalog and its warehouse.

    `target` is a folder (the default is `./.anabranch`), a catalog URL such as
    `postgresql://user@host/db`, the path of a settings file, or a dict of settings.  Keyword arguments
    are settings as well and win over the file and the environment.

    Spark starts at the first call that needs it.  `spark` hands over a session of yours: Anabranch
    computes in a session of its own beside it and leaves yours as it is.

    Use the result as a context manager, or call `close()` at the end.
    """
    loaded = target if isinstance(target, Settings) else Settings.load(target, **settings)
    if isinstance(target, Settings):
        for name, value in settings.items():
            loaded = loaded.with_(name, value)
    return Anabranch(loaded, spark)


@public
def restore(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | Mapping[str, Any] | Settings | None = None,
    *,
    cut: int | None = None,
    **settings: Value,
) -> dict[str, Any]:
    """Restore a backup into an empty catalog and warehouse; `target` is what `connect` takes.

    By default the newest backup in the folder; `cut` picks an older cut that a backup recorded.  A
    backup of a SQLite catalog can be restored to PostgreSQL and the other way round.  Returns what
    was restored and what could not be.
    """
    from anabranch.lake.archive import Archive
    from anabranch.lake.restore import restore as restored

    loaded = target if isinstance(target, Settings) else Settings.load(target, **settings)
    archive = Archive(os.fspath(source))
    archive.chosen(cut)  # refused before anything is made
    loaded.create_home()
    store = Store.open(loaded.catalog, fsync=loaded.fsync)
    try:
        return restored(archive, store, loaded.warehouse, cut)
    finally:
        store.close()


@public_class()
class Anabranch:
    """An open catalog: source tables, stream tables, and the cuts that show them together."""

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self._settings = settings
        self._given = spark
        self._on_progress: Progress | None = None
        settings.create_home()
        self._store = Store.open(settings.catalog, fsync=settings.fsync)

    def __enter__(self) -> Anabranch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark if it was started here, and close the catalog."""
        if "_runtime" in self.__dict__:
            self._runtime.close()
        self._store.close()

    @cached_property
    def _runtime(self) -> Runtime:
        """Everything that needs Iceberg or Spark; listings do without."""
        from anabranch.open import open_runtime

        return open_runtime(self._settings, self._store, self._given, self._progress)

    # -- progress and settings -----------------------------------------------------------------

    @property
    def on_progress(self) -> Progress | None:
        """A callable that is given an event and its facts while work goes on, or None."""
        return self._on_progress

    @on_progress.setter
    def on_progress(self, watcher: Progress | None) -> None:
        self._on_progress = watcher

    def _progress(self, event: str, facts: Mapping[str, Any]) -> None:
        if self._on_progress is not None:
            self._on_progress(event, facts)

    def set(self, name: str, value: Value) -> None:
        """Change a setting for this connection, as `SET anabranch.<name> = value` does."""
        self._settings = self._settings.with_(name, value)
        if "_runtime" in self.__dict__:
            self._runtime.settings = self._settings

    def settings(self) -> list[dict[str, Any]]:
        """The settings in force and where each value came from; secrets are hidden."""
        return list(self._settings.rows())

    @property
    def spark(self) -> SparkSession:
        """The Spark session you share with Anabranch: yours, or the one it started."""
        return self._runtime.spark.shared

    @property
    def spark_actions(self) -> int:
        """How many Spark write actions this connection has run."""
        return self._runtime.spark.jobs

    # -- reading -------------------------------------------------------------------------------

    def table(self, name: str, where: str | None = None) -> DataFrame:
        """A table or view as a DataFrame, at the current cut or as the open transaction has it.

        `where` is a condition in SQL; an index can answer it.
        """
        from anabranch.spark.handed import handed_out

        return handed_out(self._world().table(name, where))

    @contextmanager
    def at(self, cut: int | None = None) -> Iterator[World]:
        """Hold one cut and read any number of tables from it: the current one, or `cut`.

        `with ab.at() as world:` gives a `World`.  The cut stays readable until the end of the block,
        whatever expires meanwhile.
        """
        with self._runtime.held(cut) as world:
            yield world

    def _world(self) -> World:
        transaction = self._runtime.transaction
        return transaction.world if transaction is not None else self._runtime.world()

    def tables(self) -> list[dict[str, Any]]:
        """Every table, view and index, by name.  Starts no Spark."""
        world, streams = self._world(), {row["name"]: row["status"] for row in self.status()}
        foreign = [table for row in self.catalogs() for table in row["tables"]]
        kinds = {str(index.copy): "index" for each in world.indexes.values() for index in each}
        kinds |= {str(view): "view" for view in world.views} | dict.fromkeys(
            streams, "stream table"
        )
        kinds |= dict.fromkeys(foreign, "foreign table")
        return [
            {"table": name, "kind": kinds.get(name, "source table"), "status": streams.get(name)}
            for name in map(str, sorted(world.names()))
        ]

    def columns(self) -> dict[TableName, Columns]:
        """The columns of every table that can be read.  Starts no Spark."""
        world, found = self._world(), {}
        for name in sorted(world.pointers):
            with suppress(AnabranchError):  # another program may keep types that Spark lacks
                found[name] = world.version(name).columns
        return found

    # -- SQL and writes ------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run SQL statements, separated by `;`, and return the answer of the last one.

        A query gives a DataFrame, a refresh a list of dicts, another statement a dict that says what
        was done.
        """
        from anabranch.statements import run

        return run(self, text)

    def append(self, name: str, data: Any) -> dict[str, Any]:
        """Add rows to a source table: a Spark, pandas, Polars or Arrow table, or a list of dicts.

        Columns are matched by name; those left out become NULL.
        """
        from anabranch.tables import dml as write

        changed = write.append(self._runtime, TableName.parse(name), data)
        return {"table": str(changed.table), "rows_inserted": changed.inserted}

    @contextmanager
    def transaction(self, isolation: str = "snapshot") -> Iterator[Anabranch]:
        """Make several writes one cut; an exception in the block leaves nothing behind.

        Reads in the block show the cut at its start and the block's own writes.  With
        `isolation="serializable"` the publish is refused if anything that was read has changed since.
        """
        from anabranch.runtime import IsolationLevel

        with self._runtime.open_transaction(IsolationLevel.parse(isolation)):
            yield self

    # -- stream tables -------------------------------------------------------------------------

    def create_stream_table(
        self,
        name: str,
        query: str,
        *,
        schedule: str | float | timedelta | None = "calculated",
        refresh_mode: str = "AUTO",
        initialize: bool | str = True,
        diamond_consistency: str | None = None,
        diamond_schedule_policy: str | None = None,
        cluster: str | None = None,
        max_fixpoint_iterations: int | str | None = None,
        max_fixpoint_rows: int | str | None = None,
        max_fixpoint_time: str | float | timedelta | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> None:
        """Create a stream table from a query, and fill it unless `initialize` is false.

        - `schedule`: an interval (`"2s"`), a cron text, `"calculated"` (as often as its readers need),
          or None (only by hand).
        - `refresh_mode`: `"AUTO"`, `"DIFFERENTIAL"` (refuse what is not incremental) or `"FULL"`.
        - `diamond_consistency`, `diamond_schedule_policy`, `max_fixpoint_…`: options of this table in
          place of the settings of these names.
        - `cluster`: where Spark refreshes it.
        - `if_not_exists`, `or_replace`: what to do with a table of this name.
        """
        from anabranch.tables import stream_tables as declare

        options = {
            "schedule": schedule,
            "refresh_mode": refresh_mode,
            "initialize": initialize,
            "diamond_consistency": diamond_consistency,
            "diamond_schedule_policy": diamond_schedule_policy,
            "cluster": cluster,
            "max_fixpoint_iterations": max_fixpoint_iterations,
            "max_fixpoint_rows": max_fixpoint_rows,
            "max_fixpoint_time": max_fixpoint_time,
        }
        declared = self._declared(name, query, options)
        declare.create(self._runtime, declared, if_not_exists=if_not_exists, or_replace=or_replace)

    def create_stream_tables(self, queries: Mapping[str, str], **options: Any) -> None:
        """Create several stream tables, which may read each other: all of them or none.

        `queries` maps names to queries.  The options are those of `create_stream_table` and hold for
        each of them.
        """
        from anabranch.tables import stream_tables as declare

        check_options(Anabranch.create_stream_table, options)
        declared = [self._declared(name, query, options) for name, query in queries.items()]
        declare.create_all(self._runtime, declared)

    def _create_together(self, declarations: Sequence[dict[str, Any]]) -> None:
        """The stream tables of a script that read each other."""
        from anabranch.tables import stream_tables as declare

        declared = [
            self._declared(each["name"], each["query"], each["options"]) for each in declarations
        ]
        declare.create_all(self._runtime, declared)

    def _declared(self, name: str, query: str, options: Mapping[str, Any]) -> Declaration:
        from anabranch.clusters import known
        from anabranch.tables.options import with_defaults
        from anabranch.tables.stream_tables import Declaration

        said = with_defaults(options, self._settings)
        known(self._store, said.get("cluster"))
        return Declaration(TableName.parse(name), _query(query), **said)

    def alter_stream_table(
        self,
        name: str,
        *,
        schedule: str | float | timedelta | None = UNSET,
        refresh_mode: str | RefreshMode = UNSET,
        query: str = UNSET,
        diamond_consistency: str = UNSET,
        diamond_schedule_policy: str = UNSET,
        cluster: str | None = UNSET,
        max_fixpoint_iterations: int | str | None = UNSET,
        max_fixpoint_rows: int | str | None = UNSET,
        max_fixpoint_time: str | float | timedelta | None = UNSET,
        status: str = UNSET,
    ) -> None:
        """Change what is given and leave the rest.

        The arguments are those of `create_stream_table`.  A new `query` is computed beside the old
        rows and replaces them in one publish, together with the tables that read this one.  `status`
        is `"SUSPENDED"` or `"ACTIVE"`; see `suspend` and `resume`.
        """
        given = {
            "schedule": schedule,
            "refresh_mode": refresh_mode,
            "diamond_consistency": diamond_consistency,
            "diamond_schedule_policy": diamond_schedule_policy,
            "cluster": cluster,
            "max_fixpoint_iterations": max_fixpoint_iterations,
            "max_fixpoint_rows": max_fixpoint_rows,
            "max_fixpoint_time": max_fixpoint_time,
        }
        options = {option: value for option, value in given.items() if value is not UNSET}
        self._alter(name, options, query=query, status=status)

    def _alter(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        query: str = UNSET,
        status: str = UNSET,
    ) -> None:
        from anabranch.clusters import known
        from anabranch.tables import stream_tables as declare
        from anabranch.tables.options import read_options

        table = TableName.parse(name)
        changes = read_options(options, self._settings, altering=True)
        known(self._store, changes.get("cluster"))
        if query is not UNSET:
            changes["query"] = _query(query)
        if changes:
            declare.alter(self._runtime, table, changes)
        if status is not UNSET:
            declare.set_status(self._runtime, table, status)

    def drop_stream_table(
        self, name: str, cascade: bool = False, *, if_exists: bool = False
    ) -> None:
        """Drop a stream table; `cascade` also drops everything that reads it."""
        from anabranch.tables.drop import Kind, drop

        drop(
            self._runtime,
            TableName.parse(name),
            Kind.STREAM,
            cascade=cascade,
            if_exists=if_exists,
        )

    def refresh(self, name: str | None = None, *, full: bool = False) -> list[dict[str, Any]]:
        """Bring stream tables up to date now: one with its group and all it reads, or all of them.

        `full` recomputes the whole group from its sources, whatever is stored.  Returns one dict per
        table, with what `history()` shows of it.
        """
        from anabranch.refresh.run import refresh

        named = _name(name)
        return refresh(self._runtime, None if named is None else [named], full=full)

    def tick(self) -> list[dict[str, Any]]:
        """One pass of the scheduler: refresh every group that is due.

        Returns one dict per group: members, outcome (PUBLISHED, NO_DATA, SKIPPED or FAILED), reason
        and cut.
        """
        return self._scheduler.tick()

    def run(self, *, ticks: int | None = None, stop: Event | None = None) -> int:
        """Run the scheduler until `stop` is set, or for so many ticks; returns their number."""
        from anabranch.scheduler.loop import run

        return run(self._runtime, stop or Event(), ticks=ticks)

    @cached_property
    def _scheduler(self) -> Scheduler:
        from anabranch.scheduler.tick import Scheduler

        return Scheduler(self._runtime)

    def suspend(self, name: str) -> None:
        """Take a stream table, and thereby its group, out of all refreshes."""
        self.alter_stream_table(name, status="SUSPENDED")

    def resume(self, name: str) -> None:
        """Put a suspended or failed stream table, with its group, back into service."""
        self.alter_stream_table(name, status="ACTIVE")

    # -- groups --------------------------------------------------------------------------------

    def create_refresh_group(
        self,
        name: str,
        members: str | Sequence[str],
        isolation: str = "repeatable_read",
        snapshot_timeout_ms: int = 0,
    ) -> None:
        """Declare stream tables that have to move together although they form no diamond.

        `isolation` is `"repeatable_read"` (all members read one cut) or `"read_committed"`.
        `snapshot_timeout_ms` bounds how long a refresh holds on to its cut; 0 means for ever.
        """
        from anabranch.tables import refresh_groups as declared_groups

        listed = [members] if isinstance(members, str) else members
        parsed = [TableName.parse(each) for each in listed]
        declared_groups.create_refresh_group(
            self._runtime, name, parsed, isolation, snapshot_timeout_ms
        )

    def alter_refresh_group(
        self,
        name: str,
        *,
        add: str | Sequence[str] = (),
        drop: str | Sequence[str] = (),
        isolation: str | None = None,
        snapshot_timeout_ms: int | None = None,
    ) -> None:
        """Change members, isolation and timeout of a refresh group in one transaction."""
        from anabranch.tables import refresh_groups as declared_groups

        coming, going = (
            [TableName.parse(each) for each in ([given] if isinstance(given, str) else given)]
            for given in (add, drop)
        )
        declared_groups.alter_refresh_group(
            self._runtime,
            name,
            add=coming,
            drop=going,
            isolation=isolation,
            snapshot_timeout_ms=snapshot_timeout_ms,
        )

    def drop_refresh_group(self, name: str, *, if_exists: bool = False) -> None:
        """Dissolve a refresh group; its members stay."""
        from anabranch.tables import refresh_groups as declared_groups

        declared_groups.drop_refresh_group(self._runtime, name, if_exists=if_exists)

    def refresh_groups(self) -> list[dict[str, Any]]:
        """The refresh groups that were declared."""
        return listing.refresh_groups(self._store)

    def groups(self) -> list[dict[str, Any]]:
        """Every consistency group: why it is one, when it is due, and what holds it up."""
        return listing.groups(self._store, self._settings)

    def diamond_groups(self) -> list[dict[str, Any]]:
        """The members of every consistency group of more than one table."""
        return listing.diamond_groups(self._store, self._settings)

    def scc_status(self) -> list[dict[str, Any]]:
        """Cycles of stream tables, the bounds in force, and how they last reached a fixed point."""
        return listing.scc_status(self._store, self._settings)

    # -- deployments ---------------------------------------------------------------------------

    def plan(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        what_if: Sequence[str] = (),
    ) -> Plan:
        """What deploying a project would change, build, swap, keep and drop.  Starts no Spark.

        `select` takes only some of the changes; `what_if` plans as if objects had been edited.  The
        answer prints as text; `empty`, `steps`, `readers`, `refused` and `as_dict()` tell more.
        """
        from anabranch.deploy import verbs
        from anabranch.project import load

        loaded = load(project, profile)
        return verbs.plan(self._runtime, loaded, select=select, what_if=what_if)

    def stage(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        drop_tables: bool = False,
        drop_most: bool = False,
        suspend_readers: bool = False,
    ) -> str | None:
        """Build what a plan says beside production; returns the deployment's id, or None.

        `drop_tables` agrees to drop source tables that the project no longer has, `drop_most` to drop
        more than half of what is deployed, `suspend_readers` to suspend stream tables outside of the
        project that cannot follow.
        """
        from anabranch.deploy import verbs
        from anabranch.project import load

        return verbs.stage_project(
            self._runtime,
            load(project, profile),
            select=select,
            drop_tables=drop_tables,
            drop_most=drop_most,
            suspend_readers=suspend_readers,
        )

    def wait(self, deployment_id: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a deployment is staged, for `timeout` seconds at most; returns its progress."""
        from anabranch.deploy.progress import wait

        return wait(self._store, self._runtime.lake, deployment_id, timeout=timeout)

    def promote(
        self, deployment_id: str, *, refresh: bool = True, suspend_readers: bool = False
    ) -> dict[str, Any]:
        """Put a staged deployment in place, all of it in one publish.

        `refresh` brings the staged tables up to date first.  Stream tables outside of the project that
        read what moves are refreshed in the same publish; if one cannot follow, the promote is refused
        unless `suspend_readers` lets it be suspended.
        """
        from anabranch.deploy.promote import promote

        return promote(
            self._runtime, deployment_id, catch_up=refresh, suspend_readers=suspend_readers
        )

    def rollback(
        self,
        deployment_id: str | None = None,
        *,
        suspend_readers: bool = False,
        project: str | None = None,
    ) -> dict[str, Any]:
        """Return to the state before a deployment, in one publish.

        Without an id it is the newest deployment of `project` (a name), or of the only project.
        """
        from anabranch.deploy.rollback import rollback

        return rollback(
            self._runtime, deployment_id, suspend_readers=suspend_readers, project=project
        )

    def abort(self, deployment_id: str) -> dict[str, Any]:
        """Remove a deployment that was not promoted, and nothing else."""
        from anabranch.deploy.abort import abort

        return abort(self._runtime, deployment_id)

    def claim(
        self, former: str, project: str = ".", *, profile: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Make a project the owner of all that was deployed under its former name."""
        from anabranch.deploy import verbs
        from anabranch.project import load

        return verbs.claim(self._runtime, load(project, profile), former, dry_run=dry_run)

    def deployments(self) -> list[dict[str, Any]]:
        """All deployments, newest first."""
        from anabranch.deploy.listing import listing

        return listing(self._store)

    # -- looking -------------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """Every stream table: where it stands, when it was refreshed, and what holds it up."""
        return listing.status(self._store, self._settings)

    def history(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Refreshes of one table or of all, newest first; a dropped table keeps its history."""
        return listing.history(self._store, _name(name), limit)

    def events(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """What nobody would expect, newest first: a rebuilt table, a fallback, a suspension."""
        return listing.events(self._store, _name(name), limit)

    def attach(
        self,
        name: str,
        type: str,
        *,
        or_replace: bool = False,
        if_not_exists: bool = False,
        **properties: Value,
    ) -> None:
        """Attach a catalog of others, whose tables are read as `name.namespace.table`.

        `type` and `properties` are those of PyIceberg's `load_catalog`: `rest`, `sql`, `hive`, `glue`
        and so on, with `uri`, `warehouse` and what else the type needs.  A secret is a reference,
        `ENV('NAME')` or `FILE('path')`, that is followed when the catalog is asked; it is neither
        stored nor shown.
        """
        from anabranch.tables.catalogs import attach

        if self._runtime.transaction is not None:
            raise Refused("a catalog cannot be attached inside a transaction", hint="do it before")
        attach(
            self._runtime,
            name,
            type,
            properties,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
        )

    def detach(self, name: str, *, if_exists: bool = False) -> None:
        """Forget an attached catalog; refused while a stream table or view reads one of its tables."""
        from anabranch.tables.catalogs import detach

        if self._runtime.transaction is not None:
            raise Refused("a catalog cannot be detached inside a transaction", hint="do it after")
        detach(self._runtime, name, if_exists=if_exists)

    def catalogs(self) -> list[dict[str, Any]]:
        """The attached catalogs, their tables that are read, and what keeps one from being observed."""
        return listing.catalogs(self._store)

    def clusters(self) -> list[dict[str, Any]]:
        """The named Spark resources, and which stream tables and indexes use them."""
        return listing.clusters(self._store)

    def indexes(self) -> list[dict[str, Any]]:
        """The indexes: sorted copies of tables, each with the Iceberg table that holds it."""
        return listing.indexes(self._store)

    def cuts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What was published together, newest first."""
        return listing.cuts(self._store, limit)

    def dependency_tree(self, name: str) -> dict[str, Any]:
        """A table and, nested under `reads`, everything it reads, down to the sources."""
        return listing.dependency_tree(self._store, TableName.parse(name))

    def graph(self, name: str | None = None) -> Picture:
        """All tables and what they read, or only what one table reads and is read by.

        Returns a `Picture`: `tables`, `edges` (pairs of upstream and reader), `groups`, `components`,
        and `data()` for all of it as plain values.
        """
        return listing.graph(self._store, _name(name))

    def lineage(
        self, name: str, column: str | None = None, *, to_sources: bool = False
    ) -> list[dict[str, Any]]:
        """Where the columns of a stream table come from: one row per source column of each.

        `kind` is "computed" for an input of the value and "decides" for what only decides which rows
        there are.  `to_sources` goes through the stream tables that it reads, named in `via`, down to
        source tables.
        """
        from anabranch.refresh.lineage import lineage

        return lineage(self._runtime, TableName.parse(name), column, to_sources=to_sources)

    def explain(self, name: str, *, rules: bool = False) -> str:
        """How a stream table is maintained: plan, delta plan, Spark SQL, hidden columns.

        For a query that is not incremental, the operator, its place and the reason.  `rules` also
        shows the plan of the query and of its change after each rule of the optimizer.
        """
        from anabranch.refresh.explain import explain

        return explain(self._runtime, TableName.parse(name), rules=rules)

    def verify(self, name: str) -> dict[str, Any]:
        """Recompute a stream table's query at its frontier and compare, row by row with counts.

        Returns a dict: `equal`, `missing_rows` and `unexpected_rows` (counts), `missing` and
        `unexpected` (a few of these rows), `frontier`, `cut_id`, `mixed_cuts`, and `why` if it differs.
        """
        from anabranch.refresh.verify import verify

        return verify(self._runtime, TableName.parse(name))

    def recover(self) -> list[dict[str, Any]]:
        """Register the tables of a warehouse in a catalog that has lost them all.

        Stream tables, views, groups, clusters and indexes come back as `anabranch-declared.json` at
        the top of the warehouse tells.  A stream table shows the rows that it had, and its next
        refresh is in full.  Cuts, history and deployments are lost, and a dropped table whose files
        are there still comes back.
        """
        from anabranch.lake.recover import recover

        return [asdict(each) for each in recover(self._runtime.lake)]

    def check(
        self,
        repair: bool = False,
        deep: bool = False,
        *,
        roll_back_sources: bool = False,
        previous_metadata: bool = False,
    ) -> list[dict[str, Any]]:
        """Find missing and damaged files; an empty list means that all is well.

        Returns one dict per finding: `table`, `kind`, `problem`, `path`, `detail`, `cure`, `repaired`
        and `error`, the reason why something was not repaired.

        `deep` reads every file and compares stream tables with their queries.  `repair` rebuilds stream
        tables and indexes.  A source table returns to its newest readable snapshot only with
        `roll_back_sources`, and to an older metadata file only with `previous_metadata`: both lose what
        was written since.
        """
        from anabranch.refresh.check import check

        return check(
            self._runtime,
            repair=repair,
            deep=deep,
            roll_back_sources=roll_back_sources,
            previous_metadata=previous_metadata,
        )

    def maintain(self) -> dict[str, Any]:
        """Do all upkeep now: compact small files, expire old snapshots, delete orphaned files."""
        from anabranch.upkeep import maintain

        if self._runtime.transaction is not None:
            raise Refused("upkeep cannot run inside a transaction", hint="maintain after it")
        return maintain(self._runtime)

    def grants(self, prefix: str = "anabranch_", schema: str = "public") -> dict[str, list[str]]:
        """The SQL that creates the roles reader, writer, scheduler and owner on PostgreSQL."""
        from anabranch.catalog.grants import grants

        return grants(prefix, schema)

    def adopt(self) -> dict[str, Any]:
        """Make this catalog the owner of its warehouse.

        A home that was copied or moved, and a catalog that was restored from an older copy, refuse to
        write until this is called.
        """
        from anabranch.lake.adopt import adopt

        return asdict(adopt(self._runtime.lake))

    def backup(
        self, destination: str | os.PathLike[str], *, verify: bool = False
    ) -> dict[str, Any]:
        """Copy the catalog and every file it needs to a folder or URL; later only what is new.

        Writers may go on: the backup is of one cut.  `anabranch.restore` brings it back.  `verify`
        compares the files of earlier backups with their checksums and copies damaged ones again.
        """
        from anabranch.backup import backup

        if self._runtime.transaction is not None:
            raise Refused("a backup cannot run inside a transaction", hint="back up after it")
        return backup(self._runtime, os.fspath(destination), verify=verify)

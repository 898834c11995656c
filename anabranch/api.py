"""Anabranch in Python: every verb a method, with its arguments checked; the work is done below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, overload

from anabranch import verbs
from anabranch.boundary import check_options, public, public_class
from anabranch.lazy import lazy
from anabranch.model import RefreshMode
from anabranch.session import Progress, Session
from anabranch.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from anabranch import statements
    from anabranch.catalog.store import Store
    from anabranch.cut_view import CutView
    from anabranch.deploy.plan import Plan
    from anabranch.graph.picture import Picture
    from anabranch.model import Columns
    from anabranch.names import TableName
    from anabranch.runtime import Runtime
else:
    statements = lazy("anabranch.statements")

UNSET: Any = object()
Value = Any  # of a setting
Watcher = Callable[[Any], None]


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
    loaded = target if isinstance(target, Settings) else Settings.load(target, **settings)
    return verbs.upkeep.restore(source, loaded, cut)


@public_class()
class Anabranch:
    """An open catalog: source tables, stream tables, and the cuts that show them together."""

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self._session = Session(settings, spark)
        _ = self._session.store  # opened now, so that a catalog out of reach is told at once

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
        self._session.close()

    @property
    def _settings(self) -> Settings:
        return self._session.settings

    @property
    def _store(self) -> Store:
        return self._session.store

    @property
    def _runtime(self) -> Runtime:
        return self._session.runtime

    def _world(self) -> CutView:
        return self._session.world

    # -- progress and settings -----------------------------------------------------------------

    @property
    def on_progress(self) -> Progress | None:
        """A callable that is given an event and its facts while work goes on, or None."""
        return self._session.on_progress

    @on_progress.setter
    def on_progress(self, watcher: Progress | None) -> None:
        self._session.on_progress = watcher

    def set(self, name: str, value: Value) -> None:
        """Change a setting for this connection, as `SET anabranch.<name> = value` does."""
        verbs.listings.change_setting(self._session, name, value)

    def settings(self) -> list[dict[str, Any]]:
        """The settings in force and where each value came from; secrets are hidden."""
        return verbs.listings.settings(self._session)

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
        return verbs.reading.table(self._session, name, where)

    @contextmanager
    def at(self, cut: int | None = None) -> Iterator[CutView]:
        """Hold one cut and read any number of tables from it: the current one, or `cut`.

        `with ab.at() as world:` gives a `CutView`.  The cut stays readable until the end of the block,
        whatever expires meanwhile.  Inside a transaction the current one is that which it began with.
        """
        with verbs.reading.held(self._session, cut) as world:
            yield world

    def tables(self) -> list[dict[str, Any]]:
        """Every table, view and index, by name.  Starts no Spark."""
        return verbs.reading.tables(self._session)

    def columns(self) -> dict[TableName, Columns]:
        """The columns of every table that can be read.  Starts no Spark."""
        return verbs.reading.columns(self._session)

    # -- SQL and writes ------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run SQL statements, separated by `;`, and return the answer of the last one.

        A query gives a DataFrame, a refresh a list of dicts, another statement a dict that says what
        was done.
        """
        return statements.run(self._session, text)

    def append(self, name: str, data: Any) -> dict[str, Any]:
        """Add rows to a source table: a Spark, pandas, Polars or Arrow table, or a list of dicts.

        Columns are matched by name; those left out become NULL.
        """
        return verbs.source_tables.append(self._session, name, data)

    @contextmanager
    def transaction(self, isolation: str = "snapshot") -> Iterator[Anabranch]:
        """Make several writes one cut; an exception in the block leaves nothing behind.

        Reads in the block show the cut at its start and the block's own writes.  With
        `isolation="serializable"` the publish is refused if anything that was read has changed since:
        rows, columns, names that were looked up or listed, there or not.
        """
        with verbs.source_tables.transaction(self._session, isolation):
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
          or None (only on request).
        - `refresh_mode`: `"AUTO"`, `"DIFFERENTIAL"` (refuse what is not incremental) or `"FULL"`.
        - `diamond_consistency`, `diamond_schedule_policy`, `max_fixpoint_…`: options of this table in
          place of the settings of these names.
        - `cluster`: where Spark refreshes it.
        - `if_not_exists`, `or_replace`: what to do with a table of this name.
        """
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
        verbs.stream_tables.create_stream_table(
            self._session,
            name,
            query,
            options,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
        )

    def create_stream_tables(self, queries: Mapping[str, str], **options: Any) -> None:
        """Create several stream tables, which may read each other: all of them or none.

        `queries` maps names to queries.  The options are those of `create_stream_table` and hold for
        each of them.
        """
        check_options(Anabranch.create_stream_table, options)
        verbs.stream_tables.create_stream_tables(
            self._session, [(name, query, options) for name, query in queries.items()]
        )

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
        verbs.stream_tables.alter_stream_table(
            self._session,
            name,
            options,
            query=None if query is UNSET else query,
            status=None if status is UNSET else status,
        )

    def drop_stream_table(
        self, name: str, cascade: bool = False, *, if_exists: bool = False
    ) -> None:
        """Drop a stream table; `cascade` also drops everything that reads it."""
        verbs.stream_tables.drop_stream_table(self._session, name, cascade, if_exists=if_exists)

    def refresh(self, name: str | None = None, *, full: bool = False) -> list[dict[str, Any]]:
        """Bring stream tables up to date now: one with its group and all it reads, or all of them.

        `full` recomputes the whole group from its sources, whatever is stored.  Returns one dict per
        table, with what `history()` shows of it.
        """
        return verbs.stream_tables.refresh(self._session, name, full=full)

    def tick(self) -> list[dict[str, Any]]:
        """One pass of the scheduler: refresh every group that is due.

        Returns one dict per group: `group_id`, `members`, `outcome` (PUBLISHED, NO_DATA, SKIPPED or
        FAILED), `code` (why it was SKIPPED), `reason`, `cut_id`, `duration_ms` and `waits_for` (the
        table that holds it up).
        """
        return verbs.stream_tables.tick(self._session)

    def run(
        self,
        *,
        ticks: int | None = None,
        stop: Event | None = None,
        abandon: Event | None = None,
        watch: Watcher | None = None,
    ) -> int:
        """Run the scheduler until `stop` is set, or for that many ticks; returns how many it made.

        `abandon` also gives up what is under way; nothing of that is published.  `watch` is called
        after each tick with what `tick()` would return.
        """
        return verbs.stream_tables.run(
            self._session, ticks=ticks, stop=stop, abandon=abandon, watch=watch
        )

    def suspend(self, name: str) -> None:
        """Exclude a stream table, and with it its group, from all refreshes."""
        verbs.stream_tables.suspend(self._session, name)

    def resume(self, name: str) -> None:
        """Put a suspended or failed stream table, with its group, back into service."""
        verbs.stream_tables.resume(self._session, name)

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
        verbs.stream_tables.create_refresh_group(
            self._session, name, members, isolation, snapshot_timeout_ms
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
        verbs.stream_tables.alter_refresh_group(
            self._session,
            name,
            add=add,
            drop=drop,
            isolation=isolation,
            snapshot_timeout_ms=snapshot_timeout_ms,
        )

    def drop_refresh_group(self, name: str, *, if_exists: bool = False) -> None:
        """Dissolve a refresh group; its members stay."""
        verbs.stream_tables.drop_refresh_group(self._session, name, if_exists=if_exists)

    def refresh_groups(self) -> list[dict[str, Any]]:
        """The refresh groups that were declared."""
        return verbs.listings.refresh_groups(self._session)

    def groups(self) -> list[dict[str, Any]]:
        """Every consistency group: why it is one, when it is due, and what holds it up."""
        return verbs.listings.groups(self._session)

    def diamond_groups(self) -> list[dict[str, Any]]:
        """The members of every consistency group of more than one table."""
        return verbs.listings.diamond_groups(self._session)

    def scc_status(self) -> list[dict[str, Any]]:
        """Cycles of stream tables, the bounds in force, and how they last reached a fixed point."""
        return verbs.listings.scc_status(self._session)

    # -- deployments ---------------------------------------------------------------------------

    def compile(
        self, project: str = ".", *, profile: str | None = None, spark: bool = False
    ) -> dict[str, Any]:
        """Resolve all names, columns and types of a project, offline.

        Returns a dict: `problems`, each with its place, and if there are none `objects`.  `spark` also
        lets Spark's analyser confirm what cannot be known offline.  An object whose analysis failed by
        a fault of Anabranch says so in `analysis_failed`.
        """
        found = verbs.projects.compile_project(self._session, project, profile=profile, spark=spark)
        return found.as_dict()

    def test(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        junit: str | os.PathLike[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Run the unit tests of a project, or those that `select` names; returns one dict per test.

        `junit` names a file that the results are written to as JUnit XML.
        """
        found = verbs.projects.test_project(
            self._session, project, profile=profile, select=select, junit=junit
        )
        return found.rows()

    def lock(self, project: str = ".", *, profile: str | None = None) -> dict[str, Any]:
        """Write the columns of the foreign tables that a project reads to `external.lock.json`.

        `compile` checks queries against that file, `plan` and `stage` compare it with the tables.
        """
        return verbs.projects.lock(self._session, project, profile=profile)

    @overload
    def plan(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        what_if: Sequence[str] = (),
        why: None = None,
    ) -> Plan: ...
    @overload
    def plan(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        what_if: Sequence[str] = (),
        why: str,
    ) -> list[str]: ...
    def plan(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        what_if: Sequence[str] = (),
        why: str | None = None,
    ) -> Plan | list[str]:
        """What deploying a project would change, build, swap, keep and drop.  Starts no Spark.

        `select` takes only some of the changes; `what_if` plans as if objects had been edited.  The
        answer prints as text; `empty`, `steps`, `readers`, `refused` and `as_dict()` have the
        details.  With `why`, the name of an object, it is the chain of reasons why that one is dirty.
        """
        found = verbs.deployments.plan(
            self._session, project, profile=profile, select=select, what_if=what_if
        )
        return found if why is None else verbs.deployments.why(found, why)[1]

    @overload
    def stage(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        drop_tables: bool = False,
        drop_most: bool = False,
        suspend_readers: bool = False,
        dry_run: Literal[False] = False,
    ) -> str | None: ...
    @overload
    def stage(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        drop_tables: bool = False,
        drop_most: bool = False,
        suspend_readers: bool = False,
        dry_run: Literal[True],
    ) -> Plan: ...
    def stage(
        self,
        project: str = ".",
        *,
        profile: str | None = None,
        select: Sequence[str] = (),
        drop_tables: bool = False,
        drop_most: bool = False,
        suspend_readers: bool = False,
        dry_run: bool = False,
    ) -> Plan | str | None:
        """Build what a plan says beside production; returns the deployment's id, or None.

        `drop_tables` allows dropping source tables that the project no longer has, `drop_most` to drop
        more than half of what is deployed, `suspend_readers` to suspend stream tables outside the
        project that cannot follow.  With `dry_run` nothing is built: the answer is the plan, after
        the checks.
        """
        stage = verbs.deployments.stage_dry if dry_run else verbs.deployments.stage
        return stage(
            self._session,
            project,
            profile=profile,
            select=select,
            drop_tables=drop_tables,
            drop_most=drop_most,
            suspend_readers=suspend_readers,
        )

    def wait(
        self,
        deployment_id: str,
        timeout: float | None = None,
        *,
        watch: Watcher | None = None,
    ) -> dict[str, Any]:
        """Wait until a deployment is staged, for `timeout` seconds at most; returns its progress.

        `watch` is called with every look at the progress.
        """
        return verbs.deployments.wait(self._session, deployment_id, timeout, watch=watch)

    def promote(
        self,
        deployment_id: str,
        *,
        refresh: bool = True,
        suspend_readers: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Put a staged deployment in place, all of it in one publish.

        `refresh` brings the staged tables up to date first.  Stream tables outside the project that
        read what moves are refreshed in the same publish; if one cannot follow, the promote is refused
        unless `suspend_readers` lets it be suspended.  `dry_run` checks and returns the steps, and
        does nothing.
        """
        return verbs.deployments.promote(
            self._session,
            deployment_id,
            refresh=refresh,
            suspend_readers=suspend_readers,
            dry_run=dry_run,
        )

    def rollback(
        self,
        deployment_id: str | None = None,
        *,
        suspend_readers: bool = False,
        project: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Return to the state before a deployment, in one publish.

        Without an id it is the newest deployment of `project` (a name), or of the only project.
        `dry_run` checks and returns the steps, and does nothing.
        """
        return verbs.deployments.rollback(
            self._session,
            deployment_id,
            suspend_readers=suspend_readers,
            project=project,
            dry_run=dry_run,
        )

    def abort(self, deployment_id: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Remove a deployment that was not promoted, and nothing else; `dry_run` only says what."""
        return verbs.deployments.abort(self._session, deployment_id, dry_run=dry_run)

    def claim(
        self, former: str, project: str = ".", *, profile: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Make a project the owner of all that was deployed under its former name."""
        return verbs.deployments.claim(
            self._session, former, project, profile=profile, dry_run=dry_run
        )

    def deployments(self) -> list[dict[str, Any]]:
        """All deployments, newest first."""
        return verbs.listings.deployments(self._session)

    # -- looking -------------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """Every stream table: where it stands, when it was refreshed, and what holds it up."""
        return verbs.listings.status(self._session)

    def history(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Refreshes of one table or of all, newest first; a dropped table keeps its history."""
        return verbs.listings.history(self._session, name, limit)

    def events(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Notable events, newest first: rebuilt tables, fallbacks, suspensions and the like."""
        return verbs.listings.events(self._session, name, limit)

    def attach(
        self,
        name: str,
        type: str,
        *,
        or_replace: bool = False,
        if_not_exists: bool = False,
        **properties: Value,
    ) -> None:
        """Attach an external catalog, whose tables are read as `name.namespace.table`.

        `type` and `properties` are those of PyIceberg's `load_catalog`: `rest`, `sql`, `hive`, `glue`
        and so on, with `uri`, `warehouse` and what else the type needs.  A secret is a reference,
        `ENV('NAME')` or `FILE('path')`, that is followed when the catalog is asked; it is neither
        stored nor shown.
        """
        verbs.catalogs.attach(
            self._session,
            name,
            type,
            properties,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
        )

    def detach(self, name: str, *, if_exists: bool = False) -> None:
        """Detach a catalog; refused while a stream table or view reads one of its tables."""
        verbs.catalogs.detach(self._session, name, if_exists=if_exists)

    def catalogs(self) -> list[dict[str, Any]]:
        """The attached catalogs, their tables that are read, and what keeps one from being observed."""
        return verbs.listings.catalogs(self._session)

    def clusters(self) -> list[dict[str, Any]]:
        """The named Spark resources, and which stream tables and indexes use them."""
        return verbs.listings.clusters(self._session)

    def indexes(self) -> list[dict[str, Any]]:
        """The indexes: sorted copies of tables, each with the Iceberg table that holds it."""
        return verbs.listings.indexes(self._session)

    def cuts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What was published together, newest first."""
        return verbs.listings.cuts(self._session, limit)

    def dependency_tree(self, name: str) -> dict[str, Any]:
        """A table and, nested under `reads`, everything it reads, down to the sources."""
        return verbs.listings.dependency_tree(self._session, name)

    def graph(self, name: str | None = None) -> Picture:
        """All tables and what they read, or only what one table reads and is read by.

        Returns a `Picture`: `tables`, `edges` (pairs of upstream and reader), `groups`, `components`,
        and `data()` for all of it as plain values.
        """
        return verbs.listings.graph(self._session, name)

    def lineage(
        self, name: str, column: str | None = None, *, to_sources: bool = False
    ) -> list[dict[str, Any]]:
        """Where the columns of a stream table come from: one row per source column of each.

        `kind` is "computed" for an input of the value and "decides" for what only decides which rows
        there are.  `to_sources` goes through the stream tables that it reads, named in `via`, down to
        source tables.
        """
        return verbs.stream_tables.lineage(self._session, name, column, to_sources=to_sources)

    def explain(self, name: str, *, rules: bool = False) -> str:
        """How a stream table is maintained: plan, delta plan, Spark SQL, hidden columns.

        For a query that is not incremental, the operator, its place and the reason.  `rules` also
        shows the plan of the query and of its change after each rule of the optimizer.
        """
        return verbs.stream_tables.explain(self._session, name, rules=rules)

    def verify(self, name: str) -> dict[str, Any]:
        """Recompute a stream table's query at its frontier and compare, row by row with counts.

        Returns a dict: `equal`, `missing_rows` and `unexpected_rows` (counts), `missing` and
        `unexpected` (a few of these rows), `frontier`, `cut_id`, `mixed_cuts`, and `why` if it differs.
        """
        return verbs.stream_tables.verify(self._session, name)

    def recover(self) -> list[dict[str, Any]]:
        """Register the tables of a warehouse in a catalog that has lost all of them.

        Stream tables, views, groups, clusters and indexes come back as recorded in
        `anabranch-declared.json` at the top of the warehouse.  A stream table keeps its rows, and its
        next refresh is in full.  Cuts, history and deployments are lost, and a dropped table
        whose files still exist comes back.
        """
        return verbs.upkeep.recover(self._session)

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
        return verbs.upkeep.check(
            self._session,
            repair,
            deep,
            roll_back_sources=roll_back_sources,
            previous_metadata=previous_metadata,
        )

    def maintain(self) -> dict[str, Any]:
        """Do all upkeep now: compact small files, expire old snapshots, delete orphaned files."""
        return verbs.upkeep.maintain(self._session)

    def upkeep(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Rounds of upkeep that did something, newest first: the scheduler's, and `maintain`."""
        return verbs.listings.upkeep(self._session, limit)

    def grants(self, prefix: str = "anabranch_", schema: str = "public") -> dict[str, list[str]]:
        """The SQL that creates the roles reader, writer, scheduler and owner on PostgreSQL."""
        return verbs.listings.grants(self._session, prefix, schema)

    def adopt(self) -> dict[str, Any]:
        """Make this catalog the owner of its warehouse.

        A home that was copied or moved, and a catalog that was restored from an older copy, refuse to
        write until this is called.
        """
        return verbs.upkeep.adopt(self._session)

    def backup(
        self, destination: str | os.PathLike[str], *, verify: bool = False
    ) -> dict[str, Any]:
        """Copy the catalog and every file it needs to a folder or URL; later runs copy what is new.

        Writers may continue: the backup is of one cut.  `anabranch.restore` brings it back.  `verify`
        compares the files of earlier backups with their checksums and copies damaged ones again.
        """
        return verbs.upkeep.backup(self._session, destination, verify=verify)

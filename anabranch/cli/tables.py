"""Commands of tables, stream tables and groups: what there is, and what is declared of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from anabranch.cli.commands import AT_LEAST_1, REFUSED, command
from anabranch.cli.output import Output
from anabranch.cli.session import CliSession
from anabranch.errors import UnknownName
from anabranch.names import TableName

TABLE_COLUMNS = ("table", "kind", "status")
COLUMN_COLUMNS = ("table", "column", "type", "nullable")
INDEX_COLUMNS = ("index", "table", "columns", "cluster")
CLUSTER_COLUMNS = ("cluster", "pool", "address", "used_by")
SETTING_COLUMNS = ("name", "value", "origin")
TICK_COLUMNS = ("group_id", "members", "outcome", "cut_id", "duration_ms", "reason")
GROUP_COLUMNS = (
    "group_id", "kind", "members", "policy", "isolation", "next_due", "epoch", "cut_id",
    "lag_seconds", "blocked_reason",
)  # fmt: skip
DIAMOND_COLUMNS = ("group_id", "member", "is_convergence", "epoch", "schedule_policy")
CYCLE_COLUMNS = ("scc_id", "members", "last_iterations", "last_converged_at", "last_reason")
DECLARED_COLUMNS = ("group_name", "members", "isolation", "snapshot_timeout_ms", "created_at")

NONE = "none"  # how a schedule or cluster is taken away


@click.command()
@command
def tables(session: CliSession, out: Output) -> None:
    """List every table, view and index."""
    out.rows(session.ab.tables(), TABLE_COLUMNS, "no tables yet")


@click.command()
@click.argument("name", required=False)
@command
def columns(session: CliSession, out: Output, name: str | None) -> None:
    """List the columns of a table, or of all."""
    found = session.ab.columns()
    if name is not None:
        kept = TableName.parse(name).find_in(found)
        if kept is None:
            raise UnknownName(f"there is no table {name}", name=name, known=map(str, found))
        found = {kept: found[kept]}
    rows = [
        {"table": str(table), "column": each.name, "type": each.type, "nullable": each.nullable}
        for table, columns in found.items()
        for each in columns
    ]
    out.rows(rows, COLUMN_COLUMNS, "no tables yet")


@click.command()
@command
def indexes(session: CliSession, out: Output) -> None:
    """List the indexes: sorted copies of tables."""
    out.rows(session.ab.indexes(), INDEX_COLUMNS, "no indexes yet")


@click.command()
@command
def clusters(session: CliSession, out: Output) -> None:
    """List the clusters: named Spark resources, and what uses them."""
    out.rows(session.ab.clusters(), CLUSTER_COLUMNS, "no clusters yet")


@click.command()
@command
def settings(session: CliSession, out: Output) -> None:
    """List the settings in force and where each value comes from; secrets are hidden."""
    out.rows(session.ab.settings(), SETTING_COLUMNS, "no settings")


# -- stream tables -------------------------------------------------------------------------------


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What may be said of a stream table besides its query."""
    for option in reversed(
        (
            click.option("--schedule", metavar="TEXT", help="2s, a cron text, calculated or none."),
            click.option("--refresh-mode", metavar="MODE", help="AUTO, DIFFERENTIAL or FULL."),
            click.option("--cluster", metavar="NAME", help="Where Spark refreshes it."),
            click.option("--diamond-consistency", metavar="TEXT", help="atomic or none."),
            click.option("--diamond-schedule-policy", metavar="TEXT", help="fastest or slowest."),
            click.option("--max-fixpoint-iterations", type=AT_LEAST_1, help="Bound of a cycle."),
            click.option("--max-fixpoint-rows", type=int, help="Bound of a cycle."),
            click.option("--max-fixpoint-time", metavar="DURATION", help="Bound of a cycle."),
        )
    ):
        function = option(function)
    return function


def _said(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; `none` takes a schedule or cluster away."""
    found = {name: value for name, value in given.items() if value is not None}
    for name in ("schedule", "cluster"):
        if str(found.get(name, "")).lower() == NONE:
            found[name] = None
    return found


@click.command()
@click.argument("name")
@click.argument("query")
@_options
@click.option("--no-initialize", is_flag=True, help="Leave it empty until its first refresh.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if there is one.")
@click.option("--or-replace", is_flag=True, help="Give an existing one this query and options.")
@command
def create(
    session: CliSession,
    out: Output,
    name: str,
    query: str,
    no_initialize: bool,
    if_not_exists: bool,
    or_replace: bool,
    **given: Any,
) -> None:
    """Create the stream table NAME from the SQL of its QUERY, and fill it."""
    session.creates = True
    with session.progress.task("creating …"):
        session.ab.create_stream_table(
            name,
            query,
            initialize=not no_initialize,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
            **_said(given),
        )
    out.done({"statement": "CREATE STREAM TABLE", "table": name})


@click.command()
@click.argument("name")
@click.option("--query", metavar="SQL", help="Another query; its rows replace the old ones.")
@click.option("--status", metavar="STATUS", help="SUSPENDED or ACTIVE.")
@_options
@command
def alter(session: CliSession, out: Output, name: str, **given: Any) -> None:
    """Change the query or options of a stream table, and leave the rest."""
    with session.progress.task("altering …"):
        session.ab.alter_stream_table(name, **_said(given))
    out.done({"statement": "ALTER STREAM TABLE", "table": name})


@click.command()
@click.argument("name")
@click.option("--cascade", is_flag=True, help="Also drop everything that reads it.")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none.")
@command
def drop(session: CliSession, out: Output, name: str, cascade: bool, if_exists: bool) -> None:
    """Drop a stream table."""
    session.ab.drop_stream_table(name, cascade, if_exists=if_exists)
    out.done({"statement": "DROP STREAM TABLE", "table": name})


@click.command()
@click.argument("name")
@command
def suspend(session: CliSession, out: Output, name: str) -> None:
    """Exclude a stream table, and with it its group, from all refreshes."""
    session.ab.suspend(name)
    out.done({"statement": "SUSPEND", "table": name})


@click.command()
@click.argument("name")
@command
def resume(session: CliSession, out: Output, name: str) -> None:
    """Put a suspended or failed stream table, with its group, back into service."""
    session.ab.resume(name)
    out.done({"statement": "RESUME", "table": name})


@click.command()
@command
def tick(session: CliSession, out: Output) -> int:
    """Make one pass of the scheduler: refresh every group that is due.

    Exit code 2 if a group failed.
    """
    with session.progress.task("looking for changes …"):
        rows = session.ab.tick()
    out.rows(rows, TICK_COLUMNS, "no stream tables yet")
    return REFUSED if any(row["outcome"] == "FAILED" for row in rows) else 0


# -- groups --------------------------------------------------------------------------------------


@click.group(invoke_without_command=True)
@click.option("--diamonds", "which", flag_value="diamonds", help="Members of diamonds.")
@click.option("--cycles", "which", flag_value="cycles", help="Cycles and their fixed points.")
@click.option("--declared", "which", flag_value="declared", help="Refresh groups as declared.")
@click.option("--json", is_flag=True, help="Answer as JSON.")
@click.pass_context
def groups(context: click.Context, which: str | None, json: bool) -> None:
    """List the consistency groups: why each is one, when it is due, and what holds it up.

    Or declare refresh groups: stream tables that have to move together although they form no diamond.
    """
    if context.invoked_subcommand is None:
        session: CliSession = context.obj
        try:
            _list_groups(session, session.output(json), which)
        finally:
            session.close()


def _list_groups(session: CliSession, out: Output, which: str | None) -> None:
    if which == "diamonds":
        out.rows(session.ab.diamond_groups(), DIAMOND_COLUMNS, "no diamonds yet")
    elif which == "cycles":
        out.rows(session.ab.scc_status(), CYCLE_COLUMNS, "no cycles yet")
    elif which == "declared":
        out.rows(session.ab.refresh_groups(), DECLARED_COLUMNS, "no refresh groups yet")
    else:
        out.rows(session.ab.groups(), GROUP_COLUMNS, "no stream tables yet")


isolation = click.option("--isolation", help="repeatable_read or read_committed.")
snapshot_timeout = click.option(
    "--snapshot-timeout-ms", type=click.IntRange(min=0), help="How long a refresh holds its cut."
)


@groups.command("create")
@click.argument("name")
@click.argument("members", nargs=-1, required=True)
@isolation
@snapshot_timeout
@command
def create_group(
    session: CliSession, out: Output, name: str, members: tuple[str, ...], **given: Any
) -> None:
    """Declare the refresh group NAME of some stream tables."""
    session.ab.create_refresh_group(name, members, **_said(given))
    out.done({"statement": "CREATE REFRESH GROUP", "group": name})


@groups.command("alter")
@click.argument("name")
@click.option("--add", multiple=True, metavar="TABLE", help="Stream table to add.")
@click.option("--drop", multiple=True, metavar="TABLE", help="Member to remove.")
@isolation
@snapshot_timeout
@command
def alter_group(session: CliSession, out: Output, name: str, **given: Any) -> None:
    """Change members, isolation and time-out of a refresh group, all at once."""
    session.ab.alter_refresh_group(name, **_said(given))
    out.done({"statement": "ALTER REFRESH GROUP", "group": name})


@groups.command("drop")
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none.")
@command
def drop_group(session: CliSession, out: Output, name: str, if_exists: bool) -> None:
    """Dissolve a refresh group; its members stay."""
    session.ab.drop_refresh_group(name, if_exists=if_exists)
    out.done({"statement": "DROP REFRESH GROUP", "group": name})


TABLE_COMMANDS = (
    tables,
    columns,
    indexes,
    clusters,
    settings,
    create,
    alter,
    drop,
    suspend,
    resume,
    tick,
    groups,
)

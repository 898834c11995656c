"""The commands, thin: ask Anabranch, hand the answer to the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from anabranch.api import restore as restored
from anabranch.catalog.grants import ROLES
from anabranch.catalog.grants import grants as statements
from anabranch.cli.output import Output, listed
from anabranch.cli.session import CliSession
from anabranch.cli.statements import REFRESH_COLUMNS, Runner, text_of
from anabranch.cli.values import shown
from anabranch.errors import CatalogDamaged
from anabranch.lazy import lazy

if TYPE_CHECKING:
    from anabranch.cli import graph as drawings
    from anabranch.cli import prepare as archives
    from anabranch.cli import project as projects
    from anabranch.cli import run as scheduler
    from anabranch.cli import shell
    from anabranch.demo import show as stage
    from anabranch.refresh import check as checking
else:
    drawings = lazy("anabranch.cli.graph")
    archives = lazy("anabranch.cli.prepare")
    projects = lazy("anabranch.cli.project")
    scheduler = lazy("anabranch.cli.run")
    shell = lazy("anabranch.cli.shell")
    stage = lazy("anabranch.demo.show")
    checking = lazy("anabranch.refresh.check")


STATUS_COLUMNS = (
    "name", "status", "refresh_mode", "schedule", "last_refresh_at", "last_error",
)  # fmt: skip
VERIFY_COLUMNS = ("table", "equal", "missing_rows", "unexpected_rows")
EVENT_COLUMNS = ("at", "table", "kind", "message")
UPKEEP_COLUMNS = (
    *("started_at", "initiated_by", "seconds", "tables_compacted", "cuts_forgotten"),
    *("snapshots_expired", "files_deleted", "bytes_deleted", "errors"),
)
CHECK_COLUMNS = ("table", "kind", "problem", "path", "detail", "cure", "repaired", "error")
LINEAGE_COLUMNS = ("column", "source_table", "source_column", "kind", "via")
CUT_COLUMNS = ("cut_id", "published_at", "kind", "tables")

REFUSED = 2
AT_LEAST_1 = click.IntRange(min=1)


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command's function is given the session and an output chosen by --json."""

    @wraps(function)
    def run(session: CliSession, /, json: bool, **given: Any) -> Any:
        try:
            return function(session, session.output(json), **given)
        finally:
            session.close()

    return click.option("--json", is_flag=True, help="Answer as JSON.")(click.pass_obj(run))


def limited(default: int, meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--limit", default=default, show_default=True, type=AT_LEAST_1, help=meaning
    )


@click.command()
@click.argument("folder", default=".")
@click.option("--bare", is_flag=True, help="Leave the example project out.")
@command
def init(session: CliSession, out: Output, folder: str, bare: bool) -> None:
    """Start a project: anabranch.toml, the catalog and an example to change."""
    created = projects.create(session, folder, example=not bare)
    out.answer(created.text, created.data)


@click.command()
@click.argument("file", required=False)
@click.option("--revoke", is_flag=True, help="Stop trusting the file.")
@command
def trust(session: CliSession, out: Output, file: str | None, revoke: bool) -> None:
    """Trust a settings file, as it is now, to name servers and secrets; see docs/security.md."""
    text, data = projects.trust_file(file, revoke=revoke)
    out.answer(text, data)


@click.command()
@command
def status(session: CliSession, out: Output) -> None:
    """List the stream tables and where each stands."""
    out.rows(session.ab.status(), STATUS_COLUMNS, "no stream tables yet")


@click.command()
@click.argument("name", required=False)
@limited(50, "Entries to show, newest first.")
@command
def history(session: CliSession, out: Output, name: str | None, limit: int) -> None:
    """List the refreshes of a stream table, or of all, newest first."""
    out.rows(session.ab.history(name, limit), REFRESH_COLUMNS, "no refreshes yet")


@click.command()
@click.argument("name", required=False)
@limited(50, "Events to show, newest first.")
@command
def events(session: CliSession, out: Output, name: str | None, limit: int) -> None:
    """List events: fallbacks, rebuilt and suspended tables, and so on."""
    out.rows(session.ab.events(name, limit), EVENT_COLUMNS, "no events yet")


@click.command()
@limited(50, "Cuts to show, newest first.")
@command
def cuts(session: CliSession, out: Output, limit: int) -> None:
    """List the cuts: what was published together, newest first."""
    out.rows(session.ab.cuts(limit), CUT_COLUMNS, "nothing published yet")


@click.command()
@click.argument("name", required=False)
@click.option("--dot", "form", flag_value="dot", help="Print the graph as Graphviz (DOT).")
@click.option("--mermaid", "form", flag_value="mermaid", help="Print the graph as Mermaid.")
@click.option("--svg", metavar="[FILE]", is_flag=False, flag_value="-", help="Draw a picture.")
@command
def graph(
    session: CliSession, out: Output, name: str | None, form: str | None, svg: str | None
) -> None:
    """Draw the stream tables and what they read, or only the surroundings of one table.

    Sources are not indented; below each table are those that read it.
    """
    if svg and form:
        raise click.UsageError("give one of --dot, --mermaid and --svg")
    picture = session.ab.graph(name)
    if svg is not None and svg != drawings.STDOUT:
        drawings.write_svg(session, picture, svg)
    else:
        text = drawings.drawn(picture, "svg" if svg else form)
        out.answer(text or "no stream tables yet", picture.data())


@click.command()
@click.argument("name")
@click.option("--rules", is_flag=True, help="Also show the plans after each rule of the optimizer.")
@command
def explain(session: CliSession, out: Output, name: str, rules: bool) -> None:
    """Show how a stream table is maintained, and why not incrementally."""
    explained = session.ab.explain(name, rules=rules)
    out.answer(str(explained), explained)


@click.command()
@click.argument("name")
@click.argument("column", required=False)
@click.option("--to-sources", is_flag=True, help="Follow stream tables down to source tables.")
@command
def lineage(
    session: CliSession, out: Output, name: str, column: str | None, to_sources: bool
) -> None:
    """Show where the columns of a stream table come from, or one of them.

    "computed": the value is computed from the source column; "decides": that only decides which rows
    there are, as in WHERE, a join or GROUP BY.
    """
    rows = session.ab.lineage(name, column, to_sources=to_sources)
    shown = LINEAGE_COLUMNS if to_sources else LINEAGE_COLUMNS[:-1]
    out.rows(rows, shown, "no column comes from a table")


@click.command()
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="Recompute the whole group, whatever is stored.")
@command
def refresh(session: CliSession, out: Output, name: str | None, full: bool) -> None:
    """Bring a stream table and its group up to date, or all of them."""
    with session.progress.task("recomputing …" if full else "looking for changes …"):
        rows = session.ab.refresh(name, full=full)
    out.rows(rows, REFRESH_COLUMNS, "no stream tables yet")


@click.command()
@click.option("--ticks", type=AT_LEAST_1, help="Stop after this number of passes.")
@command
def run(session: CliSession, out: Output, ticks: int | None) -> None:
    """Run the scheduler: refresh what is due, until Ctrl-C or SIGTERM.

    The first signal lets the groups under way finish, a second abandons them; nothing is ever published
    in part.
    """
    scheduler.run_scheduler(session, out, ticks)


@click.command()
@click.argument("names", nargs=-1)
@command
def verify(session: CliSession, out: Output, names: tuple[str, ...]) -> int:
    """Compare stream tables with their queries, recomputed at their frontiers.

    Exit code 2 if a table differs.
    """
    with session.progress.task("verifying …"):
        found = [] if names else session.ab.status()
        filled = [row["name"] for row in found if row["populated"]]
        checks = [session.ab.verify(name) for name in names or filled]
    for row in found:
        if not row["populated"]:
            out.note(f"{row['name']} has not been filled yet")
    out.rows(checks, VERIFY_COLUMNS, "no stream tables yet")
    for kind, check in ((kind, check) for check in checks for kind in ("missing", "unexpected")):
        for row in check[kind]:
            out.note(f"{kind} in {check['table']}: {shown(row)}")
    return 0 if all(check["equal"] for check in checks) else REFUSED


@click.command()
@click.option(
    "--from-warehouse", is_flag=True, required=True, help="Recover from the files of the tables."
)
@command
def recover(session: CliSession, out: Output, from_warehouse: bool) -> int:
    """Register the tables of the warehouse in a catalog that has lost all of them.

    Stream tables, views, groups, clusters and indexes come back as recorded in anabranch-declared.json
    at the top of the warehouse. A stream table keeps its rows, and its next refresh is in full.
    Cuts, history and deployments are lost, and a dropped table whose files still exist comes back.
    Exit code 2 if the metadata of a table cannot be read.
    """
    session.creates = True
    found = session.ab.recover()
    out.rows(found, ("table", "folder", "detail"), "the warehouse has no tables")
    return REFUSED if any(row["metadata"] is None for row in found) else 0


@click.command()
@click.option(
    "--deep", is_flag=True, help="Read every file, and compare tables with their queries."
)
@click.option("--repair", is_flag=True, help="Rebuild damaged stream tables and indexes.")
@click.option(
    "--roll-back-sources",
    is_flag=True,
    help="With --repair: return damaged source tables to their newest readable snapshot.",
)
@click.option(
    "--previous-metadata",
    is_flag=True,
    help="With --repair: return source tables without metadata to an older metadata file.",
)
@command
def check(
    session: CliSession,
    out: Output,
    deep: bool,
    repair: bool,
    roll_back_sources: bool,
    previous_metadata: bool,
) -> int:
    """Find missing and damaged files, and say how to repair them.

    Exit code 2 if something is wrong and was not repaired.
    """
    try:
        with session.progress.task("checking …"):
            found = session.ab.check(
                repair,
                deep,
                roll_back_sources=roll_back_sources,
                previous_metadata=previous_metadata,
            )
    except CatalogDamaged as error:  # it could not even be opened
        found = [checking.damaged_catalog(error, repair=repair).row()]
    out.rows(found, CHECK_COLUMNS, "nothing is wrong")
    return 0 if all(row["repaired"] for row in found) else REFUSED


@click.command()
@command
def maintain(session: CliSession, out: Output) -> None:
    """Compact small files, expire old snapshots, delete orphaned files."""
    with session.progress.task("tidying …"):
        report = session.ab.maintain()
    done = {name.replace("_", " "): listed(one) for name, one in report.items() if one}
    lines = (f"{name}: {shown(one)}" for name, one in done.items())
    out.answer("\n".join(lines) or "nothing to do", report)


@click.command()
@limited(50, "Rounds to show, newest first.")
@command
def upkeep(session: CliSession, out: Output, limit: int) -> None:
    """List what upkeep did: the scheduler's rounds, and `maintain`, newest first."""
    rows = session.ab.upkeep(limit)
    for row in rows:
        row["seconds"] = row["duration_ms"] / 1000
    out.rows(rows, UPKEEP_COLUMNS, "no upkeep had anything to do yet")


@click.command()
@click.argument("destination")
@click.option(
    "--verify", is_flag=True, help="Read what was copied before, and copy damaged files again."
)
@command
def backup(session: CliSession, out: Output, destination: str, verify: bool) -> None:
    """Copy the catalog and its files to a folder or URL; later runs copy only what is new.

    Writers may continue meanwhile: the backup is of one cut.
    """
    with session.progress.task("copying …"):
        done = session.ab.backup(destination, verify=verify)
    text = f"cut {done['cut_id']}: {done['files_copied']} of {done['files']} files copied"
    out.answer(f"{text} to {done['destination']}", done)


@click.command()
@click.argument("source")
@click.option("--cut", type=AT_LEAST_1, help="The cut to restore [the newest backup].")
@command
def restore(session: CliSession, out: Output, source: str, cut: int | None) -> None:
    """Restore a backup into an empty place: --home, or --catalog and --warehouse."""
    with session.progress.task("restoring …"):
        done = restored(source, session.settings(), cut=cut)
    out.answer(f"cut {done['cut_id']}: {done['files']} files in {done['warehouse']}", done)


@click.command()
@command
def adopt(session: CliSession, out: Output) -> None:
    """Make this catalog the owner of its warehouse, after both were copied, moved or restored.

    A copy refuses to write, because its files belong to the original. This gives it an identity of its
    own and lets its files name the place where they are. If both share one warehouse, the original
    refuses to write from then on.
    """
    with session.progress.task("taking over …"):
        done = session.ab.adopt()
    out.answer(f"{done['warehouse']} belongs to this catalog now", done)


@click.command()
@click.argument("statements", nargs=-1)
@click.option("-f", "--file", type=click.File("r"), help="Read statements from a file.")
@limited(100, "Rows of a query to show.")
@command
def sql(
    session: CliSession, out: Output, statements: tuple[str, ...], file: Any, limit: int
) -> None:
    """Run SQL from the arguments, a file or stdin, or open a shell."""
    session.creates = True
    runner = Runner(session, out, limit)
    text = text_of(statements, file)
    if text is None:
        shell.Shell(runner).run()
    else:
        runner.run(text)


@click.command()
@click.pass_obj
def demo(session: CliSession) -> int:
    """Watch a diamond of stream tables follow its source, in .anabranch-demo."""
    return 0 if stage.Stage(session).play() else REFUSED


@click.command()
@click.option("--again", is_flag=True, help="Repeat it if it was done before.")
@command
def prepare(session: CliSession, out: Output, again: bool) -> None:
    """Halve the time Spark needs to start; takes a minute, once, and 200 MB."""
    with session.progress.task("archiving Spark's classes …"):
        path, made = archives.archive(again)
    text = f"Spark starts from {path}" if made else f"already done: {path}"
    out.answer(text, {"archive": str(path), "made": made})


@click.command()
@click.argument("role", required=False, type=click.Choice(ROLES))
@click.option("--prefix", default="anabranch_", show_default=True, help="Prefix of the role names.")
@click.option(
    "--schema", default="public", show_default=True, help="Schema of the catalog's tables."
)
@command
def grants(session: CliSession, out: Output, role: str | None, prefix: str, schema: str) -> None:
    """Print the SQL that creates the roles reader, writer, scheduler and owner on PostgreSQL.

    Run it with psql as a superuser, once the catalog is there; then GRANT the roles to users.
    """
    found = statements(prefix, schema)
    chosen = {role: found[role]} if role else found
    lines = [line for name, given in chosen.items() for line in (f"-- {name}", *given)]
    out.answer("\n".join(lines), chosen)


COMMANDS = (
    init,
    trust,
    demo,
    prepare,
    sql,
    status,
    graph,
    history,
    events,
    explain,
    lineage,
    refresh,
    run,
    verify,
    cuts,
    check,
    recover,
    maintain,
    upkeep,
    backup,
    restore,
    adopt,
    grants,
)

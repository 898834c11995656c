"""Commands of deployments: plan, stage, wait, promote, abort, rollback, deployments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch import verbs
from anabranch.cli.commands import REFUSED, command
from anabranch.cli.deploy_text import plan_text, progress_text, steps_text
from anabranch.cli.output import JsonOutput, Output
from anabranch.cli.projects import profile, project_folder
from anabranch.cli.session import CliSession
from anabranch.deploy.show import NOTHING
from anabranch.lazy import lazy
from anabranch.places import find_file
from anabranch.settings import FILE

if TYPE_CHECKING:
    from anabranch.project import project as projects
else:  # what only some commands need
    projects = lazy("anabranch.project.project")

DEPLOYMENT_COLUMNS = (
    "id", "project", "status", "created_by", "created_at", "finished_at", "cut_id", "schemas", "build",
)  # fmt: skip
OBJECT_COLUMNS = ("object", "kind", "staged_as", "state", "error")

select = click.option(
    "--select",
    multiple=True,
    metavar="NAME",
    help="Only these objects: name, *.name, +name with what it reads, name+ with its readers.",
)
drop_tables = click.option(
    "--drop-tables",
    is_flag=True,
    help="Allow deleted source tables to be dropped, with their rows.",
)
drop_most = click.option(
    "--drop-most",
    is_flag=True,
    help="Allow more than half of what the project has deployed to be dropped.",
)
suspend_readers = click.option(
    "--suspend-readers",
    is_flag=True,
    help="Suspend stream tables outside the project that cannot follow.",
)
dry_run = click.option("--dry-run", is_flag=True, help="Check and show, but do nothing.")


def opened(session: CliSession, folder: str, profile: str | None) -> projects.Project:
    """The project, and the session on the catalog that its settings name."""
    loaded = projects.load(folder, profile)
    session.project, session.profile = loaded.root / FILE, profile
    return loaded


@click.command()
@project_folder
@profile
@select
@click.option("--why", metavar="NAME", help="Show the chain of reasons why an object is dirty.")
@click.option(
    "--what-if", multiple=True, metavar="NAME", help="Plan as if these objects had been edited."
)
@command
def plan(
    session: CliSession,
    out: Output,
    project: str,
    profile: str | None,
    select: Sequence[str],
    why: str | None,
    what_if: Sequence[str],
) -> None:
    """Show what changed, what is dirty and why, and what a deployment would do."""
    if what_if and select:
        raise click.UsageError("give --select or --what-if, not both")
    loaded = opened(session, project, profile)
    found = verbs.deployments.plan(session.opened, loaded, select=select, what_if=what_if)
    if why is None:
        out.answer(plan_text(found), found.as_dict())
    else:
        key, reasons = verbs.deployments.why(found, why)
        out.answer("\n".join(reasons), {"object": str(key), "why": reasons})


@click.command()
@project_folder
@profile
@select
@drop_tables
@drop_most
@suspend_readers
@dry_run
@command
def stage(
    session: CliSession,
    out: Output,
    project: str,
    profile: str | None,
    select: Sequence[str],
    drop_tables: bool,
    drop_most: bool,
    suspend_readers: bool,
    dry_run: bool,
) -> None:
    """Build what is dirty beside production, and print the deployment's id."""
    loaded = opened(session, project, profile)
    chosen: dict[str, Any] = {
        "select": select,
        "drop_tables": drop_tables,
        "drop_most": drop_most,
        "suspend_readers": suspend_readers,
    }
    if dry_run:
        found = verbs.deployments.stage_dry(session.opened, loaded, **chosen)
        out.answer(plan_text(found), found.as_dict())
        return
    with session.progress.task("staging …"):
        made = verbs.deployments.stage(session.opened, loaded, **chosen)
    if made is None and not isinstance(out, JsonOutput):
        out.note(NOTHING)
        return
    if made is not None:
        out.note(f"staged; next: anabranch promote {made}")
    out.answer(made or "", {"id": made})


@click.command()
@click.argument("deployment", required=False)
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest time to wait.")
@command
def wait(session: CliSession, out: Output, deployment: str | None, timeout: float | None) -> int:
    """Wait until a deployment is built, and show its progress.

    Exit code 2 if it is not ready then.
    """
    with session.progress.task("waiting …"):
        found = session.ab.wait(
            deployment or verbs.deployments.open_id(session.opened),
            timeout,
            watch=lambda found: session.progress("waiting", {"text": progress_text(found)}),
        )
    if isinstance(out, JsonOutput):
        out.answer("", found)
    else:
        out.rows(found["objects"], OBJECT_COLUMNS, "nothing to build")
        out.note(progress_text(found))
    if found["stuck"]:
        out.note(f"its build has stopped; next: anabranch stage, or anabranch abort {found['id']}")
    return 0 if found["ready"] or found["status"] == "PROMOTED" else REFUSED


@click.command()
@click.argument("deployment", required=False)
@click.option("--no-refresh", is_flag=True, help="Do not refresh the staged tables first.")
@suspend_readers
@dry_run
@command
def promote(
    session: CliSession,
    out: Output,
    deployment: str | None,
    no_refresh: bool,
    suspend_readers: bool,
    dry_run: bool,
) -> None:
    """Put a staged deployment in place: all of it becomes visible in one publish."""
    with session.progress.task("promoting …"):
        done = session.ab.promote(
            deployment or verbs.deployments.staged_id(session.opened),
            refresh=not no_refresh,
            suspend_readers=suspend_readers,
            dry_run=dry_run,
        )
    if dry_run:
        out.answer(steps_text(done), done)
        return
    out.answer(f"promoted {done['id']} as cut {done['cut_id']}", done)
    tell_suspended(out, done)


def name_here() -> str | None:
    """The name of the project that somebody works in."""
    file = find_file(Path.cwd(), FILE)
    return projects.read_name(file) if file else None


def tell_suspended(out: Output, done: dict[str, Any]) -> None:
    for name in done["suspended"]:
        out.note(f"suspended {name}, which cannot follow: `anabranch events {name}` says why")
    for name in done["broken_views"]:
        out.note(f"view {name} no longer works: `anabranch events {name}` says why")


@click.command()
@click.argument("deployment", required=False)
@suspend_readers
@dry_run
@command
def rollback(
    session: CliSession,
    out: Output,
    deployment: str | None,
    suspend_readers: bool,
    dry_run: bool,
) -> None:
    """Return to the state before a deployment, in one publish.

    Without a DEPLOYMENT it is the newest one, of the project in the current folder if there is one.
    Only what has to match the restored tables is recomputed.
    """
    with session.progress.task("rolling back …"):
        done = session.ab.rollback(
            deployment, suspend_readers=suspend_readers, project=name_here(), dry_run=dry_run
        )
    if dry_run:
        out.answer(steps_text(done), done)
        return
    out.answer(f"rolled {done['id']} back as cut {done['cut_id']}", done)
    tell_suspended(out, done)


@click.command()
@click.argument("deployment")
@dry_run
@command
def abort(session: CliSession, out: Output, deployment: str, dry_run: bool) -> None:
    """Remove a deployment that was not promoted, and nothing else."""
    done = session.ab.abort(deployment, dry_run=dry_run)
    if dry_run:
        out.answer(steps_text(done), done)
        return
    out.answer(f"aborted {done['id']}", done)


@click.command()
@click.argument("former")
@project_folder
@profile
@dry_run
@command
def claim(
    session: CliSession, out: Output, former: str, project: str, profile: str | None, dry_run: bool
) -> None:
    """Take over all that was deployed under a project's FORMER name, or a folder's.

    Before projects had names, they were deployed under the name of their folder.
    """
    loaded = opened(session, project, profile)
    done = verbs.deployments.claim(session.opened, former, loaded, dry_run=dry_run)
    listed = "\n".join((*done["objects"], *(f"cluster {name}" for name in done["clusters"])))
    out.answer(listed, done)
    verb = "would now belong" if dry_run else "now belong"
    out.note(f"{len(done['objects'])} objects of {former} {verb} to {done['project']}")


@click.command()
@command
def deployments(session: CliSession, out: Output) -> None:
    """List the deployments, newest first."""
    out.rows(session.ab.deployments(), DEPLOYMENT_COLUMNS, "no deployments yet")


DEPLOY_COMMANDS = (plan, stage, wait, promote, abort, rollback, claim, deployments)

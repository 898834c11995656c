"""Commands over a project's files: compile and test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from anabranch import verbs
from anabranch.cli.commands import REFUSED, command
from anabranch.cli.output import JsonOutput, Output, counted
from anabranch.cli.session import CliSession
from anabranch.errors import EXIT_CODES, Kind
from anabranch.lazy import lazy
from anabranch.session import Session

if TYPE_CHECKING:
    from anabranch.project import junit as reports
    from anabranch.project import project as projects
    from anabranch.project.unit_tests import Result
    from anabranch.spark import session as sparks
else:
    projects = lazy("anabranch.project.project")
    reports = lazy("anabranch.project.junit")
    sparks = lazy("anabranch.spark.session")

TEST_COLUMNS = ("object", "test", "outcome", "seconds")
KINDS = (("table", "source table"), ("view", "view"), ("stream table", "stream table"))

profile = click.option("--profile", help="Profile of the project [dev].")
project_folder = click.option("--project", default=".", help="Folder of the project.")


@click.command("compile")
@project_folder
@profile
@click.option(
    "--spark", is_flag=True, help="Let Spark's analyser confirm what cannot be known offline."
)
@command
def compile_(
    session: CliSession, out: Output, project: str, profile: str | None, spark: bool
) -> int:
    """Resolve all names, columns and types of a project, and show every error.

    Exit code 3 if the analysis of an object fails by a fault of Anabranch, which is no error of the
    project.
    """
    loaded = projects.load(project, profile)
    waiting = session.progress.task("asking Spark …" if spark else "")
    with alone(session, loaded, spark=spark) as own, waiting:
        found = verbs.projects.compile_project(own, loaded, spark=spark)
    if found.problems and isinstance(out, JsonOutput):
        out.answer("", found.as_dict())
        return 1
    for note in found.notes:
        out.note(note)
    found.check()
    out.answer(summary(loaded, len(found.unjudged)), found.as_dict())
    if found.unjudged:
        out.note("hint: `anabranch compile --spark` lets Spark judge what could not be analyzed")
    return EXIT_CODES[Kind.INTERNAL] if found.unjudged else 0


@click.command()
@project_folder
@profile
@command
def lock(session: CliSession, out: Output, project: str, profile: str | None) -> None:
    """Write the columns of the foreign tables that a project reads to external.lock.json.

    Commit that file: compile checks queries against it, plan and stage compare it with the tables.
    """
    found = session.ab.lock(project, profile=profile)
    out.answer(f"locked {counted(len(found['tables']), 'foreign table')}", found)


def summary(project: projects.Project, unjudged: int = 0) -> str:
    """`compiled 3 source tables, 4 stream tables, 1 cluster, 2 indexes, 5 tests`."""
    models = project.files.models.values()
    kinds: list[str] = [model.kind for model in models]
    counts = [(kinds.count(kind), noun) for kind, noun in KINDS]
    counts.append((len(project.files.clusters), "cluster"))
    counts.append((sum(len(model.tests) for model in models), "test"))
    parts = [counted(number, noun) for number, noun in counts if number]
    indexes = sum(len(model.indexes) for model in models)
    parts += [counted(indexes, "index").replace("indexs", "indexes")] if indexes else []
    failed = f"; the analysis of {counted(unjudged, 'object')} failed" if unjudged else ""
    return f"compiled {', '.join(parts) or 'nothing'}{failed}"


@click.command()
@project_folder
@profile
@click.option(
    "--select", multiple=True, help="Object or object:test, * for any text; may be repeated."
)
@click.option("--junit", metavar="FILE", help="Also write the results as JUnit XML.")
@command
def test(
    session: CliSession,
    out: Output,
    project: str,
    profile: str | None,
    select: Sequence[str],
    junit: str | None,
) -> int:
    """Run the unit tests of a project: mock inputs, expected rows.

    Exit code 2 if a test fails.
    """
    loaded = projects.load(project, profile)
    with alone(session, loaded) as own, session.progress.task("testing …"):
        found = verbs.projects.test_project(own, loaded, select=select, junit=junit)
    out.rows(found.rows(), TEST_COLUMNS, "no tests yet: write CREATE TEST")
    if not isinstance(out, JsonOutput):
        explain(out, found.failed)
        if found.untested and not select:
            out.note(f"without a test: {', '.join(found.untested)}")
        if found.results:
            out.note(f"{counted(len(found.results), 'test')}, {len(found.failed)} failed")
    return REFUSED if found.failed else 0


def explain(out: Output, failed: Sequence[Result]) -> None:
    for result in failed:
        out.note(f"{result.place}: {result.key}: {result.test.name}")
        lines = [result.error] if result.error else reports.difference(result)
        out.note("".join(f"  {line}\n" for text in lines for line in text.splitlines()).rstrip())


@contextmanager
def alone(
    session: CliSession, project: projects.Project, *, spark: bool = True
) -> Iterator[Session]:
    """A session of the project's own settings, which opens no catalog; its Spark sees few rows."""
    own = Session(project.settings)
    own.on_progress = session.progress
    if spark:
        sparks.expect_little()
    try:
        yield own
    finally:
        own.close()


PROJECT_COMMANDS = (compile_, test, lock)

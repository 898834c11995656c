"""Commands over a project's files: compile and test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.commands import REFUSED, command
from anabranch.cli.output import JsonOutput, Output, counted
from anabranch.cli.session import CliSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from anabranch.project.compile import Compiled
    from anabranch.project.confirm import Confirmed
    from anabranch.project.project import Project
    from anabranch.project.unit_tests import Result

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
    """Resolve all names, columns and types of a project, and show every error."""
    from anabranch.project.confirm import confirm
    from anabranch.project.problems import refuse
    from anabranch.project.project import load

    loaded = load(project, profile)
    problems = list(loaded.compiled.problems)
    confirmed = None
    if spark and not problems:
        with session.progress.task("asking Spark …"), spark_of(session, loaded) as started:
            confirmed = confirm(loaded.compiled, started)
        problems += confirmed.problems
    if problems and isinstance(out, JsonOutput):
        out.answer("", {"problems": [each.row() for each in problems]})
        return 1
    refuse(problems)
    obstacles = confirmed.obstacles if confirmed else {}
    for key, found in obstacles.items():
        for each in found:
            out.note(f"{key} is recomputed when its sources change: {each}")
    rows = object_rows(loaded.compiled, confirmed)
    out.answer(summary(loaded), {"problems": [], "objects": rows})
    return 0


def object_rows(compiled: Compiled, confirmed: Confirmed | None) -> list[dict[str, Any]]:
    """Objects in order; columns as Spark gives them, else as far as they are known."""
    rows = []
    for key, each in compiled.objects.items():
        known = (confirmed.columns.get(key) if confirmed else None) or each.columns
        columns = (
            [{"name": one.name, "type": one.type and str(one.type)} for one in known]
            if known
            else None
        )
        reads = [str(read) for read in sorted(each.reads)]
        rows.append({"name": str(key), "kind": each.model.kind, "reads": reads, "columns": columns})
    return rows


def summary(project: Project) -> str:
    """`compiled 3 source tables, 4 stream tables, 1 cluster, 2 indexes, 5 tests`."""
    models = project.files.models.values()
    kinds = Counter[str](model.kind for model in models)
    counts = [(kinds[kind], noun) for kind, noun in KINDS if kinds[kind]]
    counts.append((len(project.files.clusters), "cluster"))
    counts.append((sum(len(model.tests) for model in models), "test"))
    parts = [counted(number, noun) for number, noun in counts if number]
    indexes = sum(len(model.indexes) for model in models)
    parts += [counted(indexes, "index").replace("indexs", "indexes")] if indexes else []
    return f"compiled {', '.join(parts) or 'nothing'}"


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
    from anabranch.project.confirm import confirm
    from anabranch.project.junit import junit as junit_text
    from anabranch.project.problems import refuse
    from anabranch.project.project import load
    from anabranch.project.unit_tests import PASSED, Runner, selected

    loaded = load(project, profile)
    compiled = loaded.check()
    tests = selected(compiled, select)
    results: list[Result] = []
    if tests:
        with session.progress.task("testing …"), spark_of(session, loaded) as started:
            confirmed = confirm(compiled, started, {each.key for each, _ in tests})
            refuse(confirmed.problems)
            results = list(Runner(compiled, started, confirmed.columns).run(tests))
    if junit:
        Path(junit).write_text(junit_text(results), encoding="utf-8")
    out.rows([result.row() for result in results], TEST_COLUMNS, "no tests yet: write CREATE TEST")
    failed = [result for result in results if result.outcome != PASSED]
    if not isinstance(out, JsonOutput):
        explain(out, failed)
        untested = [
            key.name
            for key, each in compiled.objects.items()
            if each.model.kind != "table" and not each.model.tests
        ]
        if untested and not select:
            out.note(f"without a test: {', '.join(untested)}")
        if results:
            out.note(f"{counted(len(results), 'test')}, {len(failed)} failed")
    return REFUSED if failed else 0


def explain(out: Output, failed: Sequence[Result]) -> None:
    from anabranch.project.junit import difference

    for result in failed:
        out.note(f"{result.place}: {result.key}: {result.test.name}")
        lines = [result.error] if result.error else difference(result)
        out.note("".join(f"  {line}\n" for text in lines for line in text.splitlines()).rstrip())


@contextmanager
def spark_of(session: CliSession, project: Project) -> Iterator[SparkSession]:
    """A Spark session of the project's own settings; no catalog is opened."""
    from anabranch.spark.session import Spark, expect_little

    expect_little()
    settings: Any = project.settings
    spark = Spark(settings)
    spark.on_start = session.progress
    try:
        with spark.tuned(1):
            yield spark.session
    finally:
        spark.stop()


PROJECT_COMMANDS = (compile_, test)

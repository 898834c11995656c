"""Verbs for the files of a project: compile and test it.  No catalog is opened for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.deploy.snapshot import ObjectKey
from anabranch.lazy import lazy
from anabranch.project.lock import LOCK, write_lock
from anabranch.project.problems import Problem, refuse
from anabranch.project.project import Project, load
from anabranch.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.project import confirm as confirming
    from anabranch.project import external, unit_tests
    from anabranch.project import junit as reports
else:  # only those that ask Spark load it
    confirming = lazy("anabranch.project.confirm")
    external = lazy("anabranch.project.external")
    reports = lazy("anabranch.project.junit")
    unit_tests = lazy("anabranch.project.unit_tests")

Place = str | os.PathLike[str] | Project  # a folder, or what was read from it


@dataclass(frozen=True)
class Compilation:
    """A project with all that is wrong with it, and what Spark said of it if it was asked."""

    project: Project
    problems: tuple[Problem, ...]
    confirmed: confirming.Confirmed | None = None

    def check(self) -> None:
        """Raise NotCompiled with every mistake if there is one."""
        refuse(self.problems)

    @property
    def unjudged(self) -> Mapping[ObjectKey, str]:
        """Objects whose analysis failed by a fault of ours, and that Spark was not asked about."""
        judged = self.confirmed.columns if self.confirmed else {}
        return {
            key: why for key, why in self.project.compiled.failures.items() if key not in judged
        }

    @property
    def notes(self) -> list[str]:
        """Whose analysis failed, and of each stream table that is not incremental, why."""
        obstacles = self.confirmed.obstacles if self.confirmed else {}
        failed = [f"{key}: {why}" for key, why in self.project.compiled.failures.items()]
        return failed + [
            f"{key} is recomputed when its sources change: {each}"
            for key, found in obstacles.items()
            for each in found
        ]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """In order; columns as Spark gives them, else as far as they are known."""
        rows = []
        for key, each in self.project.compiled.objects.items():
            known = (self.confirmed.columns.get(key) if self.confirmed else None) or each.columns
            columns = (
                [{"name": one.name, "type": one.type and str(one.type)} for one in known]
                if known
                else None
            )
            reads = [str(read) for read in sorted(each.reads)]
            kind = each.model.kind
            row = {"name": str(key), "kind": kind, "reads": reads, "columns": columns}
            failed = self.project.compiled.failures.get(key)
            rows.append(row | ({"analysis_failed": failed} if failed else {}))
        return rows

    def as_dict(self) -> dict[str, Any]:
        if self.problems:
            return {"problems": [each.row() for each in self.problems]}
        return {"problems": [], "objects": self.objects}


@dataclass(frozen=True)
class TestRun:
    """How the unit tests of a project ended, and what has none."""

    results: tuple[unit_tests.Result, ...]
    untested: tuple[str, ...]

    __test__ = False  # the name is no test of pytest

    @property
    def failed(self) -> list[unit_tests.Result]:
        return [each for each in self.results if each.outcome != unit_tests.PASSED]

    def rows(self) -> list[dict[str, Any]]:
        return [each.row() for each in self.results]


def loaded(project: Place, profile: str | None = None) -> Project:
    return project if isinstance(project, Project) else load(project, profile)


def compile_project(
    session: Session, project: Place = ".", *, profile: str | None = None, spark: bool = False
) -> Compilation:
    """Resolve all names, columns and types; with `spark` its analyser confirms what it can."""
    found = loaded(project, profile)
    problems = tuple(found.compiled.problems)
    if problems or not spark:
        return Compilation(found, problems)
    with _spark(session) as started:
        confirmed = confirming.confirm(found.compiled, started)
    return Compilation(found, tuple(confirmed.problems), confirmed)


def test_project(
    session: Session,
    project: Place = ".",
    *,
    profile: str | None = None,
    select: Sequence[str] = (),
    junit: str | os.PathLike[str] | None = None,
) -> TestRun:
    """Run the unit tests, or those that are selected; `junit` names a file for the results."""
    compiled = loaded(project, profile).check()
    tests = unit_tests.selected(compiled, select)
    results: tuple[unit_tests.Result, ...] = ()
    if tests:
        with _spark(session) as started:
            confirmed = confirming.confirm(compiled, started, {each.key for each, _ in tests})
            refuse(confirmed.problems)
            results = tuple(unit_tests.Runner(compiled, started, confirmed.columns).run(tests))
    if junit:
        Path(junit).write_text(reports.junit(results), encoding="utf-8")
    untested = [
        key.name
        for key, each in compiled.objects.items()
        if each.model.kind != "table" and not each.model.tests
    ]
    return TestRun(results, tuple(untested))


def lock(session: Session, project: Place = ".", *, profile: str | None = None) -> dict[str, Any]:
    """Write down the columns that the project's external tables have now."""
    found = loaded(project, profile)
    columns = external.external_columns(session.runtime, found.files)
    write_lock(found.root, columns)
    return {"file": str(found.root / LOCK), "tables": sorted(map(str, columns))}


@contextmanager
def _spark(session: Session) -> Iterator[SparkSession]:
    with session.spark.tuned(1):
        yield session.spark.session

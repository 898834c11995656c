"""Unit tests of a project: an object's query over mock rows, compared as bags by column name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import AnabranchError, UnknownName, UserError
from anabranch.model import Columns
from anabranch.project.compile import Compiled, CompiledObject, whole_query
from anabranch.project.records import UnitTest, fold
from anabranch.spark.compare import bag_difference
from anabranch.spark.mock import chosen, mocked, named, unknown_names
from anabranch.spark.query import Inputs, run_sql
from anabranch.spark.scan import empty
from anabranch.sql.analyze.tables import rebind
from anabranch.sql.lower.moments import Moment, is_timely, pinned
from anabranch.sql.statements.records import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Given = Mapping[ObjectKey, str]  # views of mock rows
SHOWN = 20  # differing rows that are named
PASSED, FAILED, ERROR = "passed", "failed", "error"


@dataclass(frozen=True)
class Result:
    """How a test ended; differing rows carry their multiplicity."""

    key: ObjectKey
    test: UnitTest
    outcome: str
    seconds: float
    missing: Sequence[Mapping[str, Any]] = field(default=(), hash=False)
    unexpected: Sequence[Mapping[str, Any]] = field(default=(), hash=False)
    missing_rows: int = 0
    unexpected_rows: int = 0
    error: str | None = None

    @property
    def place(self) -> str:
        found = self.test.at.problem("")
        return f"{found.file}:{found.line}"

    def row(self) -> dict[str, Any]:
        names = ("outcome", "missing", "unexpected", "missing_rows", "unexpected_rows", "error")
        return {
            "object": str(self.key),
            "test": self.test.name,
            "place": self.place,
            "seconds": round(self.seconds, 3),
            **{name: getattr(self, name) for name in names},
        }


def selected(compiled: Compiled, patterns: Sequence[str]) -> list[tuple[CompiledObject, UnitTest]]:
    """The tests whose object (`revenue`, `shop.report.*`) or own name (`revenue:adds_up`) matches."""
    known = [(each, test) for each in compiled.objects.values() for test in each.model.tests]
    for pattern in patterns:
        if not any(_matches(each.key, test, pattern) for each, test in known):
            names = [each.key.name for each, _ in known]
            raise UnknownName(f"no test is selected by {pattern!r}", name=pattern, known=names)
    if not patterns:
        return known
    return [
        (each, test)
        for each, test in known
        if any(_matches(each.key, test, pattern) for pattern in patterns)
    ]


def _matches(key: ObjectKey, test: UnitTest, pattern: str) -> bool:
    wanted = pattern.lower()
    names = [str(key), f"{key.schema}.{key.name}", key.name]
    return any(
        fnmatchcase(text.lower(), wanted)
        for name in names
        for text in (name, f"{name}:{test.name}")
    )


@dataclass(frozen=True)
class Runner:
    """Runs tests on one session; `columns` are those that Spark gives the objects."""

    compiled: Compiled
    session: SparkSession
    columns: Mapping[ObjectKey, Columns]

    def run(self, tests: Sequence[tuple[CompiledObject, UnitTest]]) -> Iterator[Result]:
        for found, test in tests:
            start = time.perf_counter()
            try:
                result = self.compare(found, test)
            except AnabranchError as error:
                result = {"outcome": ERROR, "error": str(error)}
            yield Result(found.key, test, seconds=time.perf_counter() - start, **result)

    def compare(self, found: CompiledObject, test: UnitTest) -> dict[str, Any]:
        columns = self.columns_of(found.key)
        with Inputs(self.session) as inputs:
            actual = self.query(inputs, found, self.given(inputs, test), test.statement.moment)
            wanted = self.expected(test.statement.expect, columns)
            compared = chosen(wanted.columns, columns)
            missing, unexpected = bag_difference(
                mocked(wanted, None, compared), actual, compared, SHOWN
            )
        failed = missing.total or unexpected.total
        return {
            "outcome": FAILED if failed else PASSED,
            "missing": missing.rows,
            "unexpected": unexpected.rows,
            "missing_rows": missing.total,
            "unexpected_rows": unexpected.total,
        }

    def given(self, inputs: Inputs, test: UnitTest) -> dict[ObjectKey, str]:
        """A view of mock rows for each input that the test gives."""
        return {
            key: inputs.add(
                mocked(run_sql(self.session, rows.query), rows.columns, self.columns_of(key)),
                str(key),
            )
            for table, rows in test.statement.given
            if (key := self.compiled.files.folded[fold(table.parts)])
        }

    def query(
        self, inputs: Inputs, found: CompiledObject, given: Given, moment: datetime | None
    ) -> DataFrame:
        names = {key.table: self.bound(inputs, key, given, moment) for key in found.reads}
        text = whole_query(found)
        if moment is not None and is_timely(text):
            text = pinned(text, Moment(moment))
        return run_sql(self.session, rebind(text, names), labels=inputs.labels)

    def bound(self, inputs: Inputs, key: ObjectKey, given: Given, moment: datetime | None) -> str:
        """Mock rows; else a view is its own query, and any other input has no rows."""
        if key in given:
            return given[key]
        found = self.compiled.objects[key]
        if found.model.kind == "view":
            return inputs.add(self.query(inputs, found, given, moment), str(key))
        return inputs.add(empty(self.session, self.columns_of(key)), str(key))

    def columns_of(self, key: ObjectKey) -> Columns:
        if key not in self.columns:
            raise UserError(
                f"the columns of {key} are not known", hint="`anabranch compile --spark` says why"
            )
        return self.columns[key]

    def expected(self, rows: Rows | None, columns: Columns) -> DataFrame:
        """The rows as written; columns that they do not name are not compared."""
        if rows is None:
            return empty(self.session, columns)
        wanted = named(run_sql(self.session, rows.query), rows.columns, columns)
        unknown_names(wanted.columns, columns)
        return wanted

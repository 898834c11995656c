"""The public way beside each private part of PySpark, where that is not there; without Spark."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException

from anabranch import missing
from anabranch.spark import private


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    missing.forget()
    yield
    missing.forget()


class Bare:
    """Something without private parts."""


class Session:
    read = Bare()


WITHOUT: dict[str, tuple[Callable[[], Any], Any]] = {
    "find_once": (lambda: private.find_once(Bare()), None),
    "lighten": (lambda: private.lighten(Bare()), None),
    "executors": (lambda: private.executors(SimpleNamespace(sparkContext=Bare())), frozenset()),
    "reader_beside": (lambda: private.reader_beside(Session(), {}), None),
    "tasks_of": (lambda: private.tasks_of(Bare()), None),  # type: ignore[arg-type]
    "write_of": (lambda: private.write_of(SimpleNamespace(sparkSession=Bare()), Bare(), "/x"), None),  # type: ignore[arg-type]
    "rows_written": (lambda: private.rows_written(Bare()), None),
    "is_deterministic": (lambda: private.is_deterministic(SimpleNamespace(_jdf=Bare())), False),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT)
def test_without_the_private_part(name: str) -> None:
    act, expected = WITHOUT[name]
    assert act() == expected
    (said,) = missing.waiting().values()
    assert "cannot be used" in said


def test_a_reader_that_takes_no_other_session() -> None:
    """Setting an attribute that nobody reads would number rows wrongly."""
    other = SimpleNamespace(conf=dict, read=Bare)
    session = SimpleNamespace(
        _jsparkSession=SimpleNamespace(cloneSession=lambda: other), read=Bare()
    )
    assert private.reader_beside(session, {}) is None
    assert "_jreader" in str(missing.waiting())


def test_a_connect_frame_is_no_classic_one() -> None:
    assert not private.is_classic(Bare())  # type: ignore[arg-type]
    assert private.is_deterministic(Bare()) is False  # type: ignore[arg-type]
    assert not missing.waiting()


def test_whether_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "SparkContext", Bare)
    monkeypatch.setattr(private.SparkSession, "getActiveSession", lambda: None)
    assert private.is_running() is False
    monkeypatch.setattr(private.SparkSession, "getActiveSession", Session)
    assert private.is_running() is True
    assert missing.waiting()


def test_java_goes_on_where_it_cannot_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "SparkContext", Bare)
    private.end_java(1)
    assert "left to end" in str(missing.waiting())


def test_rdds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pyspark.sql.session._monkey_patch_RDD")
    private.give_rdds_to(Session())  # type: ignore[arg-type]
    assert "_monkey_patch_RDD" in str(missing.waiting())


def test_errors_without_what_java_says() -> None:
    error = CapturedException.__new__(CapturedException)
    cause = ValueError("why")
    error.__cause__ = cause
    assert list(private.causes(error)) == [error, cause]
    assert private.stack_trace(error) == ""
    assert len(missing.waiting()) == 2
    missing.forget()
    assert private.stack_trace(cause) == "" and not missing.waiting()


def test_what_java_itself_says_is_passed_on() -> None:
    class Broken:
        @property
        def _jdf(self) -> None:
            raise Py4JNetworkError("gone")

    with pytest.raises(Py4JNetworkError):
        private.tasks_of(Broken())  # type: ignore[arg-type]
    assert not missing.waiting()


def test_every_function_is_tested() -> None:
    tree = ast.parse(Path(private.__file__).read_text())
    public = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    tested = Path(__file__).read_text()
    kept = {"remove", "session_beside"}  # called by or after those above, on the same session
    assert [
        name for name in public - kept if f"private.{name}(" not in tested and name[0] != "_"
    ] == []

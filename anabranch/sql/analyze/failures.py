"""An analysis that fails by a fault of ours: the statement goes on, and it is said.

Spark has the last word on every query that it can run, so that a bug of the analysis is no reason to
refuse one.  But it must not read as "nothing is wrong": the event ANALYSIS_FAILED says so, and
`anabranch compile` names the object.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.errors import SqlglotError

from anabranch.errors import AnabranchError, InternalError
from anabranch.names import TableName
from anabranch.noted import Note, note

ANALYSIS_FAILED = "ANALYSIS_FAILED"
log = logging.getLogger("anabranch")


def is_ours(error: Exception) -> bool:
    """Whether an analysis that ends so does by a fault of ours, and not of the query or the world."""
    if isinstance(error, AnabranchError):
        return isinstance(error, InternalError)
    return not isinstance(error, (SqlglotError, OSError, MemoryError))


def failure(error: Exception) -> str:
    """What is said of an analysis that failed by a fault of ours."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply to be analyzed"
    said = next(iter(str(error).splitlines()), "")
    return (
        "its analysis failed, which is a fault of Anabranch, not of the query: please report it with "
        f"the query ({type(error).__name__}: {said})"
    )


@dataclass(frozen=True)
class GoingOn:
    """Go on after an analysis that fails by a fault of ours, which is told, or that sqlglot cannot
    follow.  What is wrong with a query or the world is raised."""

    tell: Callable[[Exception], object]

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        if is_ours(error):
            self.tell(error)
            return True
        return isinstance(error, SqlglotError)


def spark_judges(what: str, table: TableName | None = None) -> GoingOn:
    """Without findings, but with an event; `table` is the stream table that has the query."""

    def tell(error: Exception) -> None:
        said = f"{what}: {failure(error)}; Spark judges it alone"
        note(Note(ANALYSIS_FAILED, said, table), f"{table} {_place(error)}")
        log.debug("%s", said, exc_info=error)

    return GoingOn(tell)


def _place(error: Exception) -> str:
    """Where in the code: one fault is said once, however many queries run into it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {last.filename}:{last.lineno}"

"""Frames that are handed out: what they read may be gone or damaged by the time they are run.

Such a frame stays what it is, plan and session and all; only its class becomes one below its own, of
which every method says in our words that a file is missing or damaged.  So do the frames that are
made of it, their writers and groups.  Whatever else Spark raises is passed on as it is.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from anabranch.cache import cached
from anabranch.errors import AnabranchError, FileMissing
from anabranch.spark.errors import translate
from anabranch.tracebacks import forget_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Check = Callable[[], None]  # raises if what is read is held no more

CHECK = "_anabranch_check"
# What is made of a frame and may run it, of a classic session or of one of Spark Connect.
PASSED_ON = frozenset(
    {
        "DataFrame",
        "DataFrameNaFunctions",
        "DataFrameStatFunctions",
        "DataFrameWriter",
        "DataFrameWriterV2",
        "GroupedData",
    }
)
SHOWN = frozenset({"__getitem__", "__repr__", "_repr_html_"})  # which may run a frame as well
LEFT = frozenset({"transform", "sparkSession", "sql_ctx"})  # what comes of them is somebody else's


def handed_out(frame: DataFrame, check: Check | None = None) -> DataFrame:
    """The frame itself, of which every action raises our errors.

    `check` tells of a frame whose files are missing whether they were held for it.
    """
    guarded: DataFrame = _guarded(frame, check)
    return guarded


def _guarded(made: Any, check: Check | None) -> Any:
    if isinstance(made, list):
        return [_guarded(each, check) for each in made]
    kind: Any = type(made)
    if _is_guarded(kind) or not _is_spark(kind):
        return made
    made.__class__ = _guarded_class(kind)
    setattr(made, CHECK, check)
    return made


def _is_guarded(kind: type) -> bool:
    return CHECK in vars(kind)


def _is_spark(kind: type) -> bool:
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ in PASSED_ON


@cached(200)
def _guarded_class(kind: type) -> type:
    """A class below `kind` that looks the same."""
    body: dict[str, Any] = {CHECK: None}
    for name in dir(kind):
        if name in LEFT or (name.startswith("_") and name not in SHOWN):
            continue
        found = inspect.getattr_static(kind, name)
        if inspect.isfunction(found):
            body[name] = _method(found)
        elif isinstance(found, property) and found.fget is not None:
            body[name] = property(_method(found.fget), found.fset, found.fdel, found.__doc__)
    same = {each: getattr(kind, each) for each in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (kind,), {**body, **same})


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(self: Any, *given: Any, **named: Any) -> Any:
        check = getattr(self, CHECK, None)
        with _told(check):
            made = function(self, *given, **named)
        return _rows(made, check) if isinstance(made, Iterator) else _guarded(made, check)

    return run


def _rows(made: Iterator[Any], check: Check | None) -> Iterator[Any]:
    """Of `toLocalIterator`: rows that are computed one after the other."""
    with _told(check):
        yield from made


@contextmanager
def _told(check: Check | None) -> Iterator[None]:
    before = sys.exc_info()[1]
    try:
        with _in_our_words(check):
            yield
    except AnabranchError as error:  # whoever asked the catalog was given its password
        forget_values(error, before)
        raise


@contextmanager
def _in_our_words(check: Check | None) -> Iterator[None]:
    try:
        yield
    except AnabranchError:
        raise
    except Exception as error:
        found = translate(error, {})
        if not isinstance(found, FileMissing):
            raise
        if check is not None:
            _ask(check, error)
        raise found from error


def _ask(check: Check, error: Exception) -> None:
    try:
        check()
    except AnabranchError as expired:
        raise expired from error

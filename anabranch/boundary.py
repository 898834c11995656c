"""The boundary that every public verb goes through: arguments are checked, foreign errors translated.

A verb's annotations are its contract.  `@public` reads them once: a text must be a text that UTF-8
can hold, a number one that fits into 64 bits, and so on.  What a verb raises is one of our errors,
whichever library ran into it.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from datetime import timedelta
from functools import wraps
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.errors import (
    AnabranchError,
    InternalError,
    InvalidValue,
    SqlSyntaxError,
    SystemFault,
    Unreachable,
    Unsupported,
    shortened,
)
from anabranch.lazy import lazy
from anabranch.names import TableName
from anabranch.redaction import remember_address
from anabranch.tracebacks import forget_values

if TYPE_CHECKING:
    from types import TracebackType

    from anabranch.spark import errors as spark_errors
else:
    spark_errors = lazy("anabranch.spark.errors")


C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

LARGEST = 2**63 - 1
REPORT = "this is a fault of Anabranch: please report it with the call that shows it"


def public_class(*names: str) -> Callable[[C], C]:
    """Put the boundary around the named methods of a class, or around all that are public."""

    def wrap(cls: C) -> C:
        for name, member in list(vars(cls).items()):
            if name.startswith("_") or (names and name not in names):
                continue
            if isinstance(member, property):
                setattr(cls, name, _property(member))
            elif inspect.isfunction(member):
                setattr(cls, name, public(member))
        return cls

    return wrap


def public(function: F) -> F:
    """A verb behind the boundary; errors of the caller's own `with` block pass as they are."""
    signature = inspect.signature(function)
    checks = {name: _check(each.annotation) for name, each in signature.parameters.items()}
    opens = hasattr(function, "__wrapped__") and inspect.isgeneratorfunction(function.__wrapped__)

    @wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        before = sys.exc_info()[1]
        try:
            with translated():
                _check_call(function.__name__, signature, checks, given, named)
                found = function(*given, **named)
            return _Guarded(found) if opens else found
        except BaseException as error:
            del given, named  # this frame is shown with the error
            forget_values(error, before)
            del before
            raise

    return run  # type: ignore[return-value]


def _property(found: property) -> property:
    return property(
        public(found.fget) if found.fget else None,
        public(found.fset) if found.fset else None,
        found.fdel,
        found.__doc__,
    )


class _Guarded(AbstractContextManager[Any], ContextDecorator):
    """A block behind the boundary: how it begins and how it ends."""

    def __init__(self, block: AbstractContextManager[Any]) -> None:
        self._block = block

    def __enter__(self) -> Any:
        before = sys.exc_info()[1]
        try:
            with translated():
                return self._block.__enter__()
        except BaseException as error:
            forget_values(error, before)
            del before
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            with translated(but=raised):
                return bool(self._block.__exit__(kind, raised, trace))
        except BaseException as error:
            if error is not raised:
                forget_values(error, raised)
            raise


# -- arguments -----------------------------------------------------------------------------------


def _check_call(
    verb: str,
    signature: inspect.Signature,
    checks: Mapping[str, Check],
    given: Sequence[Any],
    named: Mapping[str, Any],
) -> None:
    try:
        bound = signature.bind(*given, **named).arguments
    except TypeError as error:
        shape = _shape(signature)
        raise InvalidValue(f"{verb}(): {error}", hint=f"it is {verb}{shape}") from None
    for name, value in bound.items():
        parameter = signature.parameters[name]
        if value is parameter.default:
            continue
        if isinstance(value, (str, os.PathLike)):  # whoever fails may tell a part of it
            remember_address(str(value))
        if parameter.kind is parameter.VAR_KEYWORD:
            for key, each in value.items():
                if isinstance(each, (str, os.PathLike)):
                    remember_address(str(each))
                checks[name](f"{verb}(): {key}", each)
        else:
            checks[name](f"{verb}(): {name}", value)


def _shape(signature: inspect.Signature) -> str:
    """The arguments that a caller gives."""
    given = [each for each in signature.parameters.values() if each.name not in ("self", "session")]
    return str(signature.replace(parameters=given, return_annotation=signature.empty))


def check_options(verb: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Check options that are handed on to a verb; names that it does not have are left to it."""
    for name, parameter in inspect.signature(verb).parameters.items():
        if name in given and given[name] is not parameter.default:
            _check(parameter.annotation)(f"{verb.__name__}(): {name}", given[name])


Check = Callable[[str, Any], None]


def _check(annotation: object) -> Check:
    """The check of an annotation such as `str | None`; other annotations take anything."""
    choices = [each.strip() for each in str(annotation).split("|")]
    if not all(each in KINDS for each in choices):
        return _anything
    kinds = [KINDS[each] for each in choices]
    wanted = " or ".join(kind.name for kind in kinds)

    def check(what: str, value: Any) -> None:
        kind = next((each for each in kinds if each.takes(value)), None)
        if kind is None:
            raise InvalidValue(f"{what} is {shown(value)}", hint=f"it takes {wanted}")
        if problem := kind.problem(value):
            raise InvalidValue(f"{what} {problem}", hint=f"it takes {wanted}")

    return check


def _anything(what: str, value: Any) -> None:
    for kind in (KINDS["str"], KINDS["os.PathLike[str]"]):
        if kind.takes(value) and (problem := kind.problem(value)):
            raise InvalidValue(f"{what} {problem}")


class Kind:
    def __init__(
        self,
        name: str,
        takes: Callable[[Any], bool],
        problem: Callable[[Any], str | None] = lambda value: None,
    ) -> None:
        self.name, self.takes, self.problem = name, takes, problem


def _bad_text(value: object) -> str | None:
    text = str(value)
    if "\0" in text:
        return "holds a NUL character"
    if any("\ud800" <= letter <= "\udfff" for letter in text if letter > "\ud7ff"):
        return "holds half of a surrogate pair, which UTF-8 cannot encode"
    return None


def _bad_path(value: Any) -> str | None:
    text = os.fspath(value)
    if not isinstance(text, str):
        return "is a path in bytes"
    return _bad_text(text)


def _bad_number(value: float) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}"
    return None if abs(value) <= LARGEST else "is a number of more than 64 bits"


def _bad_texts(value: Any) -> str | None:
    wrong = next((each for each in value if not isinstance(each, (str, TableName))), None)
    if wrong is not None:
        return f"holds {shown(wrong)}"
    return next(filter(None, map(_bad_text, value)), None)


def _bad_pairs(value: Mapping[Any, Any]) -> str | None:
    return _bad_texts(list(value)) or _bad_texts(list(value.values()))


def _is_number(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


def _can_be_shown(value: Any) -> bool:
    """An error about a setting names its value; an object may fail to say what it is."""
    try:
        return bool(str(value) or True) and bool(repr(value))
    except Exception:
        return False


def _is_list(value: Any) -> bool:
    return isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))


KINDS = {
    "None": Kind("None", lambda value: value is None),
    "str": Kind("text", lambda value: isinstance(value, (str, TableName)), _bad_text),
    "bool": Kind("True or False", lambda value: isinstance(value, bool)),
    "int": Kind("a whole number", _is_number(int), _bad_number),
    "float": Kind("a number", _is_number(int, float), _bad_number),
    "Sequence[str]": Kind("a list of strings", _is_list, _bad_texts),
    "Mapping[str, str]": Kind(
        "texts by name", lambda value: isinstance(value, Mapping), _bad_pairs
    ),
    "os.PathLike[str]": Kind("a path", lambda value: isinstance(value, os.PathLike), _bad_path),
    "Mapping[str, Any]": Kind("settings by name", lambda value: isinstance(value, Mapping)),
    "Settings": Kind("settings", lambda value: isinstance(value, Mapping)),
    "SparkSession": Kind("a Spark session", lambda value: callable(getattr(value, "sql", None))),
    "TableName": Kind("the name of a table", lambda value: isinstance(value, TableName)),
    "Value": Kind("a text, a number, or a mapping of such", _can_be_shown),
    "timedelta": Kind("a timedelta", lambda value: isinstance(value, timedelta)),
    "RefreshMode": Kind("a refresh mode", lambda value: isinstance(value, str)),
    "Event": Kind("an event", lambda value: isinstance(value, Event)),
    "Progress": Kind("a function", callable),
    "Watcher": Kind("a function", callable),
}


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    try:
        return shortened(repr(value), 80)
    except Exception:
        return f"a {type(value).__name__}"


# -- errors --------------------------------------------------------------------------------------


@contextmanager
def translated(but: BaseException | None = None) -> Iterator[None]:
    """Inside, every exception becomes one of ours, but for one that is the caller's own."""
    try:
        yield
    except AnabranchError:
        raise
    except Exception as error:
        if error is but:
            raise
        raise translate(error) from error


def translate(error: Exception) -> AnabranchError:
    """The error of ours that says what another library, Python or Java ran into."""
    if isinstance(error, AnabranchError):
        return error
    if isinstance(error, RecursionError):
        return Unsupported(
            "this is nested too deeply", hint="split it with WITH, views or stream tables"
        )
    if isinstance(error, MemoryError):
        return SystemFault(
            "there is not enough memory", hint="give the process more memory, or do less at a time"
        )
    if isinstance(error, UnicodeError):
        return InvalidValue(f"a text cannot be encoded or decoded: {error.reason}")  # type: ignore[attr-defined]
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return InvalidValue("a path holds a NUL character")
    if isinstance(error, OverflowError):
        return InvalidValue(f"a number is out of range: {error}")
    if (found := spark_errors.translate(error, {})) is not None:
        return found
    if type(error).__module__.startswith("sqlglot."):
        return SqlSyntaxError("this cannot be read as SQL")
    if isinstance(error, OSError):
        path = f": {error.filename}" if error.filename else ""
        return Unreachable(
            f"{error.strerror or error}{path}", hint="check the path, its rights and the disk"
        )
    said = next(iter(str(error).strip().splitlines()), "")
    return InternalError(f"{type(error).__name__}: {said}", hint=REPORT)

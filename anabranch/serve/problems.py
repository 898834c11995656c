"""What goes wrong, as HTTP answers: the status, Iceberg's name for it, and our own message.

Iceberg's clients go by the status.  409 on a commit means "nothing changed, look again"; 500, 502 and
504 mean "nobody knows whether it took place"; 503 means "nothing was done, come back".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import ValidationError

from anabranch.errors import (
    AlreadyExists,
    AnabranchError,
    CutExpired,
    FileMissing,
    Kind,
    MissingRight,
    OutcomeUnknown,
    PublishConflict,
    UnknownName,
    Unsupported,
)
from anabranch.names import TableName


class Problem(Exception):
    """An answer that is an error; `name` is what Iceberg's own exceptions are called."""

    def __init__(self, status: int, name: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
        self.message = message
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}


def no_table(name: TableName) -> Problem:
    return Problem(404, "NoSuchTableException", f"Table does not exist: {plain(name)}")


def no_view(name: TableName) -> Problem:
    return Problem(404, "NoSuchViewException", f"View does not exist: {plain(name)}")


def no_namespace(namespace: Sequence[str]) -> Problem:
    shown = ".".join(namespace)
    return Problem(404, "NoSuchNamespaceException", f"Namespace does not exist: {shown}")


def taken(said: str) -> Problem:
    return Problem(409, "AlreadyExistsException", said)


def plain(name: TableName) -> str:
    """A name in messages that clients know from Iceberg's own servers: nothing is quoted."""
    return ".".join(name.parts)


def bad_request(message: str) -> Problem:
    return Problem(400, "BadRequestException", message)


@contextmanager
def of_the_request(said: str) -> Iterator[None]:
    """Inside, only the request decides what happens: whatever cannot be done with it is its fault.

    PyIceberg's models and updates raise errors of any class upon what they did not expect.
    """
    try:
        yield
    except (Problem, AnabranchError):
        raise
    except Exception as error:
        raise bad_request(f"{said}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(each) for each in first['loc'])}: {first['msg']}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    said = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {said}" if isinstance(error, _TELL_LITTLE) else said


_TELL_LITTLE = (LookupError, AttributeError, TypeError, StopIteration)


def forbidden(message: str) -> Problem:
    return Problem(403, "ForbiddenException", message)


def commit_failed(message: str) -> Problem:
    return Problem(409, "CommitFailedException", message)


def busy(message: str) -> Problem:
    return Problem(503, "ServiceUnavailableException", message, Retry_After="1")


def problem(error: AnabranchError) -> Problem:
    """The answer for an error of ours."""
    said = f"{error.message} ({error.hint})" if error.hint else error.message
    match error:
        case OutcomeUnknown():
            return Problem(500, "CommitStateUnknownException", said)
        case PublishConflict():
            return commit_failed(said)
        case CutExpired():  # never 404: a client would take the table for dropped
            return bad_request(said)
        case MissingRight():
            return forbidden(said)
        case AlreadyExists():
            return Problem(409, "AlreadyExistsException", said)
        case UnknownName():
            return Problem(404, "NotFoundException", said)
        case Unsupported():
            return Problem(406, "UnsupportedOperationException", said)
        case FileMissing():  # nothing was changed, and asking again does not bring the file back
            return Problem(503, "ServiceUnavailableException", said)
    match error.kind:
        case Kind.USER | Kind.SCHEMA:
            return bad_request(said)
        case Kind.REFUSED:
            return forbidden(said)
    return busy(said)

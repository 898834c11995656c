"""Everything that can go wrong, as one tree.

AnabranchError
├── UserError                 the caller can fix it: exit code 1
│   ├── SqlSyntaxError        text that does not parse (carries line and column)
│   ├── UnknownName           a table, column or setting that does not exist
│   ├── AlreadyExists         a name that is taken
│   ├── InvalidValue          a setting, duration, option or value of the wrong form
│   ├── Unsupported           a statement or type that Anabranch does not take
│   ├── NotCompiled           a project with errors (carries all of them)
│   └── DataError             the data broke a query: division by zero, failed cast, NULL in NOT NULL
├── SchemaError               a source changed so that a query no longer fits: exit code 1
├── Refused                   the request is clear but must not be done: exit code 2
│   ├── NotIncremental        DIFFERENTIAL asked for a query that is not incremental
│   ├── NotConverged          a cycle of stream tables found no fixed point (carries its members)
│   ├── CutExpired            a cut that was held with at() is no longer held, and its files may be gone
│   ├── BaseExpired           the snapshot a delta starts from is gone
│   ├── NewerEdition          a newer version computed the rows, and reads the query differently
│   └── MissingRight          the role that connects to PostgreSQL may not do this
├── SystemFault               the environment failed: exit code 3
│   ├── PublishConflict       another process published first
│   ├── SparkLost             the Spark session ended: start the process again
│   ├── RowsLost              files do not hold the rows that Spark produced: nothing was published
│   └── Unreachable           catalog or warehouse cannot be reached, or is not ours
│       ├── Fenced            a copy: another catalog, or a newer one, owns the warehouse: exit code 2
│       ├── CatalogDamaged    the catalog's file is damaged: nothing was written (carries its path)
│       ├── FileUnreadable    this user may not read a file (carries its path)
│       ├── FileMissing       a file of a table is gone, or Spark cannot reach it (carries its path)
│       │   └── FileDamaged   a file is not what was written: its checksum is wrong
│       └── OutcomeUnknown    the catalog was lost during a commit: look before you repeat
└── InternalError             a bug in Anabranch: the refresh stops, nothing is published
    └── PlanFailed            the plan that Anabranch made for a query cannot be run
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import Enum

from anabranch.redaction import hide


class Kind(Enum):
    """Who has to act; decides the exit code."""

    USER = "user"
    SCHEMA = "schema"
    REFUSED = "refused"
    SYSTEM = "system"
    INTERNAL = "internal"


class Retry(Enum):
    """When what an error stopped is tried again; `retry` says how."""

    AT_ONCE = "at once"
    LATER = "later"
    ON_CHANGE = "on change"


EXIT_CODES = {Kind.USER: 1, Kind.SCHEMA: 1, Kind.REFUSED: 2, Kind.SYSTEM: 3, Kind.INTERNAL: 3}


class AnabranchError(Exception):
    """A short message that names the thing, and a hint that offers the cure."""

    kind = Kind.INTERNAL
    retry = Retry.LATER
    table: str | None = None  # the stream table whose refresh failed

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = printable(hide(message))
        self.hint = printable(hide(hint)) if hint else hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.kind]

    @property
    def retryable(self) -> bool:
        """Whether trying again may help although nobody did anything."""
        return self.retry is not Retry.ON_CHANGE


class UserError(AnabranchError):
    kind = Kind.USER
    retry = Retry.ON_CHANGE


class SqlSyntaxError(UserError):
    """Text that does not parse; `line` and `column` count from 1."""

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.line = line
        self.column = column
        self.plain = message  # without the place
        if line is not None and column is not None:
            message = f"{message} (line {line}, column {column})\n{caret(text, line, column)}"
        super().__init__(message.rstrip(), hint=hint)


class UnknownName(UserError):
    """A name that does not exist; offers the nearest one that does."""

    def __init__(self, message: str, *, name: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message, hint=did_you_mean(name, known))


class AlreadyExists(UserError):
    pass


class InvalidValue(UserError):
    pass


class Unsupported(UserError):
    pass


class NotCompiled(UserError):
    """Every mistake of a project, each with its place."""

    def __init__(self, message: str, *, problems: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class DataError(UserError):
    retry = Retry.LATER  # whoever wrote the rows may mend them


class SchemaError(AnabranchError):
    kind = Kind.SCHEMA
    retry = Retry.ON_CHANGE


class Refused(AnabranchError):
    kind = Kind.REFUSED
    retry = Retry.ON_CHANGE
    not_monotone = False  # a member of a cycle may lose rows when others gain some


class NotIncremental(Refused):
    pass


class CutExpired(Refused):
    pass


class BaseExpired(Refused):
    pass


class NewerEdition(Refused):
    pass


class MissingRight(Refused):
    pass


class NotConverged(Refused):
    """A cycle of stream tables that still changed after its last round; `cure` is what to do about
    it, and `cure_at_creation` the same where there is no table yet to be altered."""

    def __init__(
        self,
        message: str,
        *,
        members: Sequence[object] = (),
        hint: str | None = None,
        cure: str | None = None,
        cure_at_creation: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.members = tuple(members)
        self.cure = cure or hint
        self.cure_at_creation = cure_at_creation or self.cure


class SystemFault(AnabranchError):
    kind = Kind.SYSTEM


class PublishConflict(SystemFault):
    retry = Retry.AT_ONCE


class SparkLost(SystemFault):
    pass


class RowsLost(SystemFault):
    pass


class Unreachable(SystemFault):
    pass


class Fenced(Unreachable):
    """A copy of a catalog or warehouse, or one that is behind: it may be read, not written."""

    kind = Kind.REFUSED
    retry = Retry.ON_CHANGE


class CatalogDamaged(Unreachable):
    """`path` is the catalog's file."""

    def __init__(self, message: str, *, hint: str | None = None, path: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class FileUnreadable(Unreachable):
    """A file that is there and may be whole; `path` is the file."""

    def __init__(self, message: str, *, hint: str | None = None, path: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class FileMissing(Unreachable):
    """`path` is the file, where it is known."""

    def __init__(self, message: str, *, hint: str | None = None, path: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class FileDamaged(FileMissing):
    pass


class OutcomeUnknown(Unreachable):
    """Whether a publish took place could not be found out; its files are kept."""


class InternalError(AnabranchError):
    kind = Kind.INTERNAL


class PlanFailed(InternalError):
    retry = Retry.ON_CHANGE  # the same plan fails in the same way
    in_full = False  # all rows were computed, and nothing that is stored was used


LONGEST = 4_000  # of a message: whoever passes a megabyte knows what it was
_CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def printable(text: str) -> str:
    """A text that any terminal and log can take: no control characters, no halves of pairs, and
    not longer than anyone would read."""
    return shortened(text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode(), LONGEST)


def shortened(text: str, longest: int) -> str:
    """The beginning of a long text, and how long it was."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The nearest known name as a hint, or nothing when none is near.

    The last part of a name counts first: what stands before it is only where to look.

    >>> did_you_mean("o.totl", ["o.toll_x", "c.total", "o.total"])
    'did you mean "o.total"?'
    """
    wanted = name.lower()
    near = [(likeness, each) for each in known if (likeness := _likeness(wanted, each.lower()))]
    if not near:
        return None
    return f'did you mean "{max(near, key=lambda each: each[0])[1]}"?'


NEAR = 0.6  # how like two names must be to be taken for each other


def _likeness(name: str, other: str) -> tuple[float, float] | None:
    """Of the last parts, then of the whole names; None where they are not alike."""
    last = _ratio(name.rpartition(".")[2], other.rpartition(".")[2])
    return (last, _ratio(name, other)) if last >= NEAR else None


def _ratio(one: str, two: str) -> float:
    most = 2 * min(len(one), len(two)) / max(len(one) + len(two), 1)
    if most < NEAR:  # a name of 100,000 letters is like no other, and takes seconds to compare
        return most
    return difflib.SequenceMatcher(None, two, one).ratio()


def caret(text: str, line: int, column: int) -> str:
    """The line of `text` with a caret under the column."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    return f"  {lines[line - 1]}\n  {' ' * (column - 1)}^"

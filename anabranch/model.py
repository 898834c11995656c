"""Small words used everywhere: columns, files to read, modes and actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Frontier = Mapping[str, int]  # base source (as shown) -> snapshot id

FIRST_HIDDEN_ID = 10001  # field ids of physical columns that are not in the Iceberg schema
FILE_PATH_ID = 2147483546  # Iceberg's reserved ids for position delete files
POSITION_ID = 2147483545


class RefreshMode(str, Enum):
    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"


class TableKind(str, Enum):
    """What a table is for.  Those that are maintained are kept by the same code, see
    `refresh.maintained`."""

    SOURCE = "source table"  # written by users
    STREAM = "stream table"  # the rows of a query
    INDEX = "index"  # the rows of a table, sorted


class Action(str, Enum):
    """What a refresh did."""

    NO_DATA = "NO_DATA"
    FULL = "FULL"
    DIFFERENTIAL = "DIFFERENTIAL"
    REINITIALIZE = "REINITIALIZE"
    SKIP = "SKIP"


class Status(str, Enum):
    """Where a stream table stands."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ERROR = "ERROR"


class WaitCode(str, Enum):
    """Why a tick left a group as it was."""

    BY_HAND = "BY_HAND"
    NOT_DUE = "NOT_DUE"
    SUSPENDED = "SUSPENDED"
    BACKING_OFF = "BACKING_OFF"
    AWAITING_CHANGE = "AWAITING_CHANGE"
    BUSY = "BUSY"
    BEHIND = "BEHIND"
    LOST_RACE = "LOST_RACE"
    STOPPED = "STOPPED"
    DROPPED = "DROPPED"
    NEWER_EDITION = "NEWER_EDITION"

    @property
    def is_news(self) -> bool:
        """Whether anybody has to hear of it: the others are how things should be."""
        return self not in (WaitCode.BY_HAND, WaitCode.NOT_DUE)


@dataclass(frozen=True)
class Column:
    """A column of a table; `type` is Spark's DDL text such as `decimal(12,2)`.

    `field_id` is the Iceberg id; 0 means "not given yet".  Ids of fields inside structs, lists and
    maps are in `nested`, keyed by dotted path below the column (`point.x`, `tags.element`).
    """

    name: str
    type: str
    nullable: bool = True
    field_id: int = 0
    nested: Mapping[str, int] = field(default_factory=dict, hash=False)
    ambiguous: bool = False  # files may hold another column under this name


Columns = tuple[Column, ...]


@dataclass(frozen=True)
class Vector:
    """A deletion vector: positions of one data file, in a part of a Puffin file."""

    path: str
    offset: int
    file: str
    positions: Callable[[], Any] = field(hash=False, compare=False, repr=False)  # an array


@dataclass(frozen=True)
class KeyDeletes:
    """An equality delete file: rows of older files with the values that it lists are deleted.

    Older: with a smaller sequence number.  A `scope` is a partition; "" means the whole table.
    """

    path: str
    columns: Columns
    sequence: int
    scope: str = ""


@dataclass(frozen=True)
class Reading:
    """Rows of some Parquet files: those that no `skip` deletes and, when an `only` is given, one of
    these does.

    `skip` and `only` are position delete files, `vectors` are deletion vectors, `keys` are equality
    deletes: what these delete depends on the `ages` of the files, their sequence numbers and scopes.
    There is no `only_keys` beside another `only`.  Files that others imported may lack field ids:
    `names` says what their columns are called, by field id; and they may leave a partition's value to
    the metadata: `constants`, as text, by field id.  `rows` is an upper bound known from metadata, and
    `longest` what the largest file has; 0 if that is not known.  `tails` are checksums by path.
    """

    files: tuple[str, ...]
    skip: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip_vectors: tuple[Vector, ...] = ()
    only_vectors: tuple[Vector, ...] = ()
    skip_keys: tuple[KeyDeletes, ...] = ()
    only_keys: tuple[KeyDeletes, ...] = ()
    ages: Mapping[str, tuple[int, str]] = field(default_factory=dict, hash=False, compare=False)
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict, hash=False, compare=False)
    constants: Mapping[str, Mapping[int, str | None]] = field(
        default_factory=dict, hash=False, compare=False
    )
    rows: int = 0
    bytes: int = 0
    longest: int = 0
    tails: Mapping[str, int] = field(default_factory=dict, hash=False, compare=False)

    @property
    def bare(self) -> bool:
        """Whether every row of the files belongs to it."""
        by_place = self.skip or self.only or self.skip_vectors or self.only_vectors
        by_key = self.skip_keys or self.only_keys
        return not (by_place or by_key or self.names or self.constants)


@dataclass(frozen=True)
class Delta:
    """What changed between two snapshots, as files: rows with weight +1 and rows with weight -1."""

    plus: tuple[Reading, ...] = ()
    minus: tuple[Reading, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.plus and not self.minus

    @property
    def rows(self) -> int:
        return sum(reading.rows for reading in (*self.plus, *self.minus))


class Op(str, Enum):
    """What a written row is for; names the folder its file lies in."""

    ADD = "add"  # new rows: files to register
    REMOVE = "remove"  # old rows with file path and position: the delta, and position deletes
    KEEP = "keep"  # unchanged rows of a table that is rewritten whole


@dataclass(frozen=True)
class Written:
    """The files one Spark job wrote, by what they are for, and how many rows it says it produced.

    Whoever commits the files compares: rows that are not in them are lost.
    """

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class Bound:
    """One simple condition that file statistics can judge: `column op value`."""

    column: str
    op: str  # one of = < <= > >= in null
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class RangeSet:
    """Where the values of a column lie: in one of some ranges, both ends included.

    Whole numbers; a date is its number of days since 1970.
    """

    kind: str  # integer or date
    ranges: tuple[tuple[int, int], ...]  # in order, none touches the next
    nulls: bool = False

    def __or__(self, other: RangeSet) -> RangeSet:
        ranges = joined((*self.ranges, *other.ranges))
        return RangeSet(self.kind, ranges, self.nulls or other.nulls)

    @property
    def head(self) -> str:
        """The ranges in a printed plan."""
        ranges = ", ".join(f"{low}..{high}" for low, high in self.ranges)
        return f"{ranges} or NULL" if self.nulls else ranges

    def share(self, low: int, high: int) -> float:
        """The part of the values from `low` to `high` that lies in the ranges."""
        common = ((max(low, start), min(high, end)) for start, end in self.ranges)
        return sum(end - start + 1 for start, end in common if start <= end) / (high - low + 1)


MOST_RANGES = 8


def joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same values in few ranges; where there are too many, the smallest gaps are closed."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    while len(found) > MOST_RANGES:
        at = min(range(1, len(found)), key=lambda i: found[i][0] - found[i - 1][1])
        found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
    return tuple(found)


ColumnRanges = tuple[tuple[str, RangeSet], ...]  # rows whose columns all lie in their spans


class FixpointBound(Enum):
    """What may end the rounds before they settle: the names of the settings."""

    ROUNDS = "max_fixpoint_iterations"
    ROWS = "max_fixpoint_rows"
    TIME = "max_fixpoint_time"


@dataclass(frozen=True)
class FixpointBounds:
    """How far the rounds of one refresh may go.  `rounds` holds in each direction, `rows` and `seconds`
    over both; 0 is no bound."""

    rounds: int
    rows: int = 0
    seconds: float = 0.0

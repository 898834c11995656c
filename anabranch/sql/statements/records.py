"""One frozen record for each statement.

Queries and expressions are exact slices of the user's text: what is sent to Spark is what was
written.  `query_at` is where the query starts in the whole text, so that a place inside the query
can be shown to the user as a place in what they typed (`query_at.shift(place)`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from anabranch.model import RefreshMode
from anabranch.names import TableName
from anabranch.sql.text.tokens import Place

START = Place(1, 1)
CALCULATED = "calculated"
Assignments = tuple[tuple[str, str], ...]  # (column, expression text)


class Statement:
    """Anything `parse_statement` returns."""


@dataclass(frozen=True)
class ColumnDef:
    """A declared column; `type` is Spark's lower-case DDL text."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class CreateTable(Statement):
    name: TableName
    columns: tuple[ColumnDef, ...]
    if_not_exists: bool = False
    or_replace: bool = False
    comment: str | None = None

    @property
    def comments(self) -> dict[str, str]:
        """By the name of the column; "" is the table itself."""
        comments = {"": self.comment, **{each.name: each.comment for each in self.columns}}
        return {name: text for name, text in comments.items() if text}


@dataclass(frozen=True)
class CreateTableAs(Statement):
    name: TableName
    query: str
    if_not_exists: bool = False
    or_replace: bool = False
    comment: str | None = None
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class DropTable(Statement):
    name: TableName
    if_exists: bool = False
    cascade: bool = False  # drop what reads it


@dataclass(frozen=True)
class AddColumn:
    column: ColumnDef
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumn:
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    old: str
    new: str


@dataclass(frozen=True)
class WidenColumn:
    name: str
    type: str


TableChange = AddColumn | DropColumn | RenameColumn | WidenColumn


@dataclass(frozen=True)
class AlterTable(Statement):
    name: TableName
    changes: tuple[TableChange, ...]
    cascade: bool = False  # drop what depends on a dropped column


@dataclass(frozen=True)
class Insert(Statement):
    """`columns` is None when the statement names none."""

    table: TableName
    query: str
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class Update(Statement):
    table: TableName
    assignments: Assignments
    alias: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class Delete(Statement):
    table: TableName
    alias: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class MergeClause:
    """`WHEN … THEN …`; `star` stands for `UPDATE SET *` and `INSERT *`."""

    match: Literal["matched", "not_matched", "not_matched_by_source"]
    action: Literal["update", "delete", "insert"]
    condition: str | None = None
    assignments: Assignments = ()
    star: bool = False


@dataclass(frozen=True)
class Merge(Statement):
    """`source` is always a query; `source_table` is set when the statement named a table."""

    target: TableName
    source: str
    on: str
    clauses: tuple[MergeClause, ...]
    target_alias: str | None = None
    source_table: TableName | None = None
    source_alias: str | None = None
    source_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class CreateView(Statement):
    name: TableName
    query: str
    or_replace: bool = False
    if_not_exists: bool = False
    columns: tuple[str, ...] | None = None
    comment: str | None = None
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class DropView(Statement):
    name: TableName
    if_exists: bool = False
    cascade: bool = False  # drop what reads it


@dataclass(frozen=True)
class CreateStreamTable(Statement):
    """`schedule` is a text such as `2s`, `calculated` (also when not given), or None: by hand."""

    name: TableName
    query: str
    schedule: str | None = CALCULATED
    refresh_mode: RefreshMode = RefreshMode.AUTO
    cluster: str | None = None
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    or_replace: bool = False
    if_not_exists: bool = False
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class SetSchedule:
    schedule: str | None


@dataclass(frozen=True)
class SetRefreshMode:
    refresh_mode: RefreshMode


@dataclass(frozen=True)
class SetQuery:
    query: str
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class SetOptions:
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True)
class Suspend:
    pass


@dataclass(frozen=True)
class Resume:
    pass


@dataclass(frozen=True)
class CreateRefreshGroup(Statement):
    name: str
    members: tuple[TableName, ...]
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class AlterRefreshGroup(Statement):
    """Everything that is said changes at once."""

    name: str
    add: tuple[TableName, ...] = ()
    drop: tuple[TableName, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class DropRefreshGroup(Statement):
    name: str
    if_exists: bool = False


StreamTableChange = SetSchedule | SetRefreshMode | SetQuery | SetOptions | Suspend | Resume


@dataclass(frozen=True)
class AlterStreamTable(Statement):
    name: TableName
    change: StreamTableChange


@dataclass(frozen=True)
class DropStreamTable(Statement):
    name: TableName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RefreshStreamTable(Statement):
    """No name: all of them; `full` recomputes, whatever is stored."""

    name: TableName | None = None
    full: bool = False


@dataclass(frozen=True)
class ExplainStreamTable(Statement):
    name: TableName
    rules: bool = False  # show the plans after each rule of the optimizer too


@dataclass(frozen=True)
class Set(Statement):
    """`SET anabranch.x = v`; `name` is `x`.  No value: show it; no name: show all."""

    name: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ShowTables(Statement):
    schema: str | None = None
    pattern: str | None = None
    streams_only: bool = False


@dataclass(frozen=True)
class Describe(Statement):
    name: TableName


@dataclass(frozen=True)
class CreateCluster(Statement):
    """A scheduler pool of the session at hand, or the address of a Spark Connect server."""

    name: str
    pool: str | None = None
    address: str | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropCluster(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class AttachCatalog(Statement):
    """A catalog of others, whose tables are read as `name.namespace.table`."""

    name: str
    type: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DetachCatalog(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class CreateIndex(Statement):
    """A copy of the table, sorted by some columns."""

    name: str
    table: TableName
    columns: tuple[str, ...]
    cluster: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropIndex(Statement):
    name: str
    table: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class Comment(Statement):
    """`COMMENT ON TABLE t IS '…'`, or on a column of it; None takes the comment away."""

    table: TableName
    text: str | None
    column: str | None = None


@dataclass(frozen=True)
class Rows:
    """Rows that a test gives or expects; without `columns` the query names them."""

    query: str
    columns: tuple[str, ...] | None = None
    query_at: Place = field(default=START, compare=False)


@dataclass(frozen=True)
class CreateTest(Statement):
    """What an object gives over mock inputs; `expect` is None when no row is expected.

    `moment` is what functions of the current time mean.
    """

    name: str
    table: TableName | None
    given: tuple[tuple[TableName, Rows], ...]
    expect: Rows | None
    moment: datetime | None = None
    at: Place = field(default=START, compare=False)


Value = str | int | float | bool | None  # an argument of a procedure


@dataclass(frozen=True)
class Call(Statement):
    """A procedure of the schema `system`; `named` are the arguments with a name."""

    procedure: str
    given: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class Query(Statement):
    text: str
    query_at: Place = field(default=START, compare=False)

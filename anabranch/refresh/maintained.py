"""Maintained tables: those whose rows follow from the rows of other tables.

    STREAM   the rows of a query
    INDEX    the rows of a table, in files that are ranges of its columns

Whatever its kind, a maintained table has a definition, and stored rows that follow it or do not.  What
changed is observed, `decide` says how the table is brought up to date, `execute` stages it, and one
publish shows it with what it follows from.  Another kind is another implementation of
`MaintainedTable`, and where it needs one, a rule of `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.model import Columns, FixpointBounds, RefreshMode, TableKind
from anabranch.names import TableName
from anabranch.refresh.decide import Reason

if TYPE_CHECKING:
    from anabranch.refresh.definition import Definition


class MaintainedTable(Protocol):
    """What a refresh has to know of a table that it keeps."""

    @property
    def kind(self) -> TableKind: ...

    @property
    def name(self) -> TableName: ...

    @property
    def definition(self) -> Definition: ...

    @property
    def mode(self) -> RefreshMode: ...

    @property
    def populated(self) -> bool: ...

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that its files are ranges of; empty where rows may lie anywhere."""

    @property
    def redefined(self) -> Reason | None:
        """Why its stored rows do not follow its definition as it is now."""

    @property
    def tampered(self) -> Reason | None:
        """Why its stored rows cannot be trusted."""

    def bounds(self, settings: Mapping[str, Any]) -> FixpointBounds:
        """How far recursions in its definition may go."""


def hidden_of(mode: RefreshMode, definition: Definition) -> Columns:
    """The hidden columns of its stored rows: a table that is always recomputed needs no state."""
    return () if mode is RefreshMode.FULL else definition.hidden

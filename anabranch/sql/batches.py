"""The statements of a script, and which of them run together.

Stream tables that read each other are made in one go: a CREATE STREAM TABLE may name one that a later
statement of the same script creates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateStreamTable, Statement
from anabranch.sql.text.parse import Passage, split


@dataclass(frozen=True)
class Batch:
    """One statement, or several stream tables that are made together; `text` is where they stand."""

    text: str
    statements: tuple[Statement, ...]


def batches(text: str) -> list[Batch]:
    """A script in the order it runs; all of it is parsed."""
    passages = split(text)
    waiting = [parse_statement(passage) for passage in passages]
    made: list[Batch] = []
    while waiting:
        size = max(1, len(created_together(waiting)))
        whole = Passage(text, passages[0].start, passages[size - 1].end)
        made.append(Batch(whole.text, tuple(waiting[:size])))
        del waiting[:size], passages[:size]
    return made


def created_together(statements: Sequence[Statement]) -> list[CreateStreamTable]:
    """The stream tables that a script begins with, up to the last one that an earlier one reads."""
    run: list[CreateStreamTable] = []
    for statement in statements:
        if not isinstance(statement, CreateStreamTable) or statement.or_replace:
            break
        run.append(statement)
    names = [str(each.name).lower() for each in run]
    end, at = 1, 0
    while at < min(end, len(run)):
        reads = {str(name).lower() for name in tables_of(run[at].query)}
        later = [place for place in range(at + 1, len(run)) if names[place] in reads]
        end, at = max([end, *(place + 1 for place in later)]), at + 1
    return run[:end]

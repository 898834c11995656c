"""The lock of external tables: what columns a project was compiled against.

A project reads tables of attached catalogs, and neither owns nor changes them.  What it was compiled
against stands in `external.lock.json`, which is committed with it, so that `compile` needs no catalog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from anabranch.errors import SqlSyntaxError
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.project.problems import Problem
from anabranch.project.records import Files, fold
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import Passage

LOCK = "external.lock.json"
Locked = Mapping[str, tuple[tuple[str, str], ...]]  # by the full name: columns and their types


def read_lock(root: Path) -> tuple[Locked, tuple[Problem, ...]]:
    """What is locked, and what is wrong with the file."""
    path = root / LOCK
    if not path.exists():
        return {}, ()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(TableName.parse(name)): tuple((str(c), str(t)) for c, t in columns.items())
            for name, columns in found["tables"].items()
        }, ()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}, (Problem(LOCK, 1, 1, "this is not a lock file", "`anabranch lock` rewrites it"),)


def write_lock(root: Path, columns: Mapping[TableName, Columns]) -> None:
    """In order, so that a difference shows what changed."""
    tables = {
        str(name): {column.name: column.type for column in found}
        for name, found in sorted(columns.items())
    }
    text = json.dumps({"tables": tables}, indent=2, ensure_ascii=False)
    (root / LOCK).write_text(text + "\n", encoding="utf-8")


def external_names(files: Files) -> set[TableName]:
    """The tables of attached catalogs that the queries of a project name."""
    found = set()
    for model in files.models.values():
        for each in model.references:
            cursor = Cursor(Passage(model.query, each.start, each.end))
            try:
                parts = cursor.parts("a table name")
            except SqlSyntaxError:
                continue  # `compile` says so
            if len(parts) == 3 and fold(parts) not in files.folded and parts[0] in files.catalogs:
                found.add(TableName.of(*parts))
    return found

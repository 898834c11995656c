"""What the names in a query mean: relative to the file's database and schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import SqlSyntaxError, did_you_mean
from anabranch.names import SYSTEM_SCHEMA, TableName, shown
from anabranch.project.problems import Problem
from anabranch.project.records import Files, Model, fold
from anabranch.sql.text.cursor import Cursor
from anabranch.sql.text.parse import Passage


@dataclass(frozen=True)
class Link:
    """One mention of an object in a query; without `key` it leads nowhere and says why."""

    name: TableName  # as the query has it
    start: int
    end: int
    key: ObjectKey | None = None
    problem: Problem | None = None
    external: tuple[tuple[str, str], ...] | None = None  # columns of a table of an attached catalog


def links(model: Model, files: Files) -> tuple[Link, ...]:
    """Every mention, resolved; objects whose files could not be read lead nowhere, in silence."""
    found = []
    for each in model.references:
        cursor = Cursor(Passage(model.query, each.start, each.end))
        try:
            parts = cursor.parts("a table name")
            cursor.expect_end()
        except SqlSyntaxError as error:
            wrong = model.query_problem(cursor.token.start, error.plain, error.hint)
            found.append(Link(each.name, each.start, each.end, problem=wrong))
            continue
        key = files.folded.get(fold(full(parts, model.home)))
        locked = files.external.get(str(TableName.of(*parts))) if len(parts) == 3 else None
        if key is None and locked is not None:
            found.append(Link(each.name, each.start, each.end, external=locked))
            continue
        problem = None if key else unknown(model, parts, each.start, files)
        known = key if key in files.models else None
        found.append(Link(each.name, each.start, each.end, known, problem))
    return tuple(found)


def full(parts: Sequence[str], home: Sequence[str]) -> tuple[str, ...]:
    """`orders` and `sales.orders` seen from a database and schema."""
    return (*home[: max(0, 3 - len(parts))], *parts)


def unknown(model: Model, parts: Sequence[str], start: int, files: Files) -> Problem:
    name = ".".join(map(shown, full(parts, model.home)))
    if parts[0].lower() == SYSTEM_SCHEMA and len(parts) == 2:
        return model.query_problem(
            start, f"{'.'.join(parts)} is not part of the project", "query it with `anabranch sql`"
        )
    if len(parts) == 3 and parts[0] in files.catalogs:
        return model.query_problem(
            start,
            f"the columns of {name} are not locked: catalog {shown(parts[0])} is attached",
            "`anabranch lock` writes them to external.lock.json",
        )
    known = {nearest_name(key, model.home, len(parts)): key for key in files.folded.values()}
    written = ".".join(map(shown, parts))
    elsewhere = [key for key in files.folded.values() if key.name.lower() == parts[-1].lower()]
    hint = did_you_mean(str(elsewhere[0]), [str(elsewhere[0])]) if elsewhere else None
    hint = hint or did_you_mean(written, known) or did_you_mean(name, map(str, known.values()))
    hint = hint or "every table a project reads has a file in models/"
    return model.query_problem(start, f"there is no table {name}", hint)


def nearest_name(key: ObjectKey, home: Sequence[str], length: int) -> str:
    """An object's name in as many parts as the query used, if that many reach it."""
    for parts in range(length, 4):
        if fold(key[: 3 - parts]) == fold(home[: 3 - parts]):
            return ".".join(map(shown, key[3 - parts :]))
    return str(key)


def qualified(query: str, found: Sequence[Link]) -> str:
    """The same text with every object by its full name."""
    for link in sorted(found, key=lambda link: link.start, reverse=True):
        if link.key is not None:
            query = query[: link.start] + str(link.key) + query[link.end :]
    return query

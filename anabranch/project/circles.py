"""The columns of stream tables that read each other: those of the branches that their circle starts
from, widened until all queries agree with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import UserError
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.project.records import fold
from anabranch.sql.lower.base_branches import base_branches

SETTLING = 10  # times that types may pass round a circle until they are settled
Known = Mapping[ObjectKey, Columns]
Analyse = Callable[[str, Known], Columns]  # the columns of a query over tables with known columns


def circle_columns(queries: Mapping[ObjectKey, str], analyse: Analyse) -> dict[ObjectKey, Columns]:
    known = _start(queries, analyse)
    for _ in range(SETTLING):
        found = {key: _nullable(analyse(query, known)) for key, query in queries.items()}
        if found == known:
            return known
        known = found
    raise UserError(
        f"the columns of {_listed(queries)} cannot be decided: they get wider each time round",
        hint="CAST them to the types that they shall have",
    )


def _start(queries: Mapping[ObjectKey, str], analyse: Analyse) -> dict[ObjectKey, Columns]:
    """First columns, from the branches that read only what is known."""
    known: dict[ObjectKey, Columns] = {}
    while waiting := {key: query for key, query in queries.items() if key not in known}:
        unknown = {fold(key) for key in waiting}

        def is_unknown(name: TableName, unknown: set[tuple[str, ...]] = unknown) -> bool:
            return fold(name.parts) in unknown

        for key, query in waiting.items():
            found = base_branches(query, is_unknown)
            if found is not None:
                known[key] = _named(analyse(found.text, known), found.names)
                break
        else:
            raise UserError(
                f"the columns of {_listed(waiting)} cannot be found: every branch of their "
                "queries reads the circle itself",
                hint="a circle starts from a UNION branch that reads something else",
            )
    return known


def _named(columns: Columns, names: tuple[str, ...]) -> Columns:
    if len(names) == len(columns):
        pairs = zip(columns, names, strict=True)
        columns = tuple(replace(column, name=name) for column, name in pairs)
    return _nullable(columns)


def _nullable(columns: Columns) -> Columns:
    return tuple(replace(column, nullable=True) for column in columns)


def _listed(keys: Mapping[ObjectKey, str]) -> str:
    return " and ".join(map(str, sorted(keys)))

"""The columns of tables that read each other: those of the branches that their cycle starts from,
widened until all queries agree with them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from anabranch.errors import InvalidValue, UserError
from anabranch.model import Columns
from anabranch.names import TableName, shown
from anabranch.sql.lower.base_branches import base_branches

SETTLING = 10  # times that types may pass round a cycle until they are settled
K = TypeVar("K", bound=Hashable)
K_ = TypeVar("K_", bound=Hashable, contravariant=True)


class Tables(Protocol[K_]):
    """Where queries are analysed over the columns that the tables of the cycle have so far."""

    def parts(self, key: K_) -> tuple[str, ...]:
        """The name by which queries read the table."""

    def columns(self, key: K_, query: str) -> Columns: ...

    def put(self, key: K_, columns: Columns) -> Columns:
        """From now on the table has these columns; as they are kept."""


def settle_columns(
    queries: Mapping[K, str], tables: Tables[K], stored: Mapping[K, Columns] | None = None
) -> dict[K, Columns]:
    """`stored` are the columns of tables that exist, for a cycle that starts from nothing else."""
    known = _start(queries, tables, stored or {})
    for _ in range(SETTLING):
        moved: list[str] = []
        for key, query in queries.items():
            wanted = _nullable(tables.columns(key, query))
            if _shape(wanted) != _shape(known[key]):
                moved.append(f"{shown(_differing(known[key], wanted))} of {key}")
                known[key] = tables.put(key, wanted)
        if not moved:
            return known
    raise InvalidValue(
        f"the columns of {_listed(queries)} cannot be decided: {moved[0]} gets wider each time "
        "round the cycle",
        hint="CAST it to the type that it should have",
    )


def _start(
    queries: Mapping[K, str], tables: Tables[K], stored: Mapping[K, Columns]
) -> dict[K, Columns]:
    """First columns, table by table, from the branches that read only what is known."""
    known: dict[K, Columns] = {}
    while waiting := {key: query for key, query in queries.items() if key not in known}:
        unknown = frozenset(_folded(tables.parts(key)) for key in waiting)

        def is_unknown(name: TableName, unknown: frozenset[tuple[str, ...]] = unknown) -> bool:
            return _folded(name.parts) in unknown

        for key, query in waiting.items():
            found = base_branches(query, is_unknown)
            if found is not None:
                columns = _named(tables.columns(key, found.text), found.names)
                known[key] = tables.put(key, _nullable(columns))
                break
        else:
            if exists := [key for key in waiting if key in stored]:
                known[exists[0]] = tables.put(exists[0], _nullable(stored[exists[0]]))
                continue
            raise UserError(
                f"the columns of {_listed(waiting)} cannot be found: every branch of their queries "
                "reads the cycle itself",
                hint="a cycle starts from a UNION branch that reads something else",
            )
    return known


def _named(columns: Columns, names: tuple[str, ...]) -> Columns:
    if len(names) != len(columns):
        return columns
    pairs = zip(columns, names, strict=True)
    return tuple(replace(column, name=name) for column, name in pairs)


def _nullable(columns: Columns) -> Columns:
    return tuple(replace(column, nullable=True) for column in columns)


def _shape(columns: Columns) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def _differing(before: Columns, after: Columns) -> str:
    pairs = zip(_shape(before), _shape(after), strict=False)
    return next((b[0] for a, b in pairs if a != b), "a column")


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _listed(keys: Iterable[object]) -> str:
    return " and ".join(sorted(map(str, keys)))

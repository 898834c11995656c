"""Staging schemas: the objects of a deployment beside production, and queries over them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.deploy.snapshot import ObjectKey, SchemaKey
from anabranch.names import TableName, quote
from anabranch.sql.analyze.tables import rebind, tables_of


@dataclass(frozen=True)
class Staging:
    """Names in the staging schemas of one deployment; `keys` are the objects that are there.

    `altered` are source tables that get other columns: views stand in for them.
    """

    deployment_id: str
    keys: frozenset[ObjectKey]
    altered: frozenset[ObjectKey] = frozenset()

    @property
    def suffix(self) -> str:
        return f"__{self.deployment_id}"

    def name(self, key: ObjectKey) -> TableName:
        """`db.shop.sales` is staged as `db.shop__1a2b3c4d.sales`."""
        return TableName((key.database, key.schema + self.suffix), key.name)

    def key(self, name: TableName) -> ObjectKey | None:
        """The object that stands under a staging name; the suffix goes once, and only at the end."""
        if len(name.namespace) != 2 or not name.namespace[1].endswith(self.suffix):
            return None
        database, schema = name.namespace
        return ObjectKey(database, schema[: -len(self.suffix)], name.name)

    def place(self, place: SchemaKey) -> tuple[str, str]:
        return place.database, place.schema + self.suffix

    @property
    def names(self) -> dict[TableName, TableName]:
        """Staging names with those of production."""
        return {self.name(key): key.table for key in sorted(self.keys)}

    @property
    def stand_ins(self) -> frozenset[TableName]:
        """The names of views that stand in for altered tables."""
        return frozenset(map(self.name, self.altered))

    def query(self, query: str) -> str:
        """The query over what is staged, and over production for the rest."""
        folded = {_fold(key): key for key in (*self.keys, *self.altered)}
        found: dict[TableName, TableName] = {}
        for name in tables_of(query):
            key = folded.get(_fold(name.parts))
            if key is not None:
                found[name] = self.name(key)
        return over(query, found)


def over(query: str, names: Mapping[TableName, TableName]) -> str:
    """The same query over other tables."""
    if not names:
        return query
    marks = {name: _unused(query, at) for at, name in enumerate(sorted(names))}
    text = rebind(query, marks)
    for name, mark in marks.items():
        text = text.replace(quote(mark), ".".join(map(quote, names[name].parts)))
    return text


def _unused(query: str, at: int) -> str:
    mark = f"_ab_other_{at}_"
    while mark in query:
        mark += "x"
    return mark


def _fold(parts: Collection[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)

"""What a query reads: its source tables, through views and past the names of CTEs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import UnknownName, UserError
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.sql.analyze.ctes import tables_in
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class Reach:
    """`texts` are the query and the views it reads, the query first."""

    texts: tuple[SourceText, ...]
    sources: frozenset[TableName]
    tables: Mapping[TableName, Columns]
    names: Mapping[tuple[str, ...], TableName]  # lower-cased parts → table or view

    @classmethod
    def of(
        cls,
        query: SourceText,
        tables: Mapping[TableName, Columns],
        views: Mapping[TableName, str],
    ) -> Reach:
        names = {_lower(name): name for name in (*tables, *views)}
        texts: dict[TableName | None, SourceText] = {None: query}
        sources: set[TableName] = set()

        def visit(source: SourceText, path: tuple[TableName, ...]) -> None:
            for reference in tables_in(source.tree):
                name = _named(reference, names)
                if name in path:
                    cycle = " → ".join(str(each) for each in (*path[path.index(name) :], name))
                    raise UserError(f"views read each other: {cycle}")
                if name not in views:
                    sources.add(name)
                else:
                    texts.setdefault(name, SourceText(views[name], name))
                    visit(texts[name], (*path, name))

        visit(query, ())
        return cls(tuple(texts.values()), frozenset(sources), tables, names)

    def named(self, table: exp.Table) -> TableName:
        return _named(table, self.names)

    def find(self, name: TableName) -> TableName | None:
        """A table or view under its own name."""
        return self.names.get(_lower(name))

    def view(self, name: TableName) -> SourceText | None:
        return next((text for text in self.texts if text.view == name), None)


def _lower(name: TableName) -> tuple[str, ...]:
    return tuple(part.lower() for part in name.parts)


def _named(table: exp.Table, names: Mapping[tuple[str, ...], TableName]) -> TableName:
    asked = TableName.of(*(part.name for part in table.parts))
    own = names.get(_lower(asked))
    if own is None:
        known = [str(name) for name in names.values()]
        raise UnknownName(f"table {asked} does not exist", name=str(asked), known=known)
    return own

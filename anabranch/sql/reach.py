"""What a query reads: its source tables, through views and past the names of CTEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from anabranch.errors import UnknownName, UserError
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Tree
from anabranch.sql.source_text import SourceText


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
            for reference in table_references(source.tree):
                name = _named(reference, names)
                if name in path:
                    circle = " → ".join(str(each) for each in (*path[path.index(name) :], name))
                    raise UserError(f"views read each other: {circle}")
                if name not in views:
                    sources.add(name)
                else:
                    texts.setdefault(name, SourceText(views[name], name))
                    visit(texts[name], (*path, name))

        visit(query, ())
        return cls(tuple(texts.values()), frozenset(sources), tables, names)

    def named(self, table: exp.Table) -> TableName:
        return _named(table, self.names)

    def view(self, name: TableName) -> SourceText | None:
        return next((text for text in self.texts if text.view == name), None)


def table_references(tree: Tree) -> Iterator[exp.Table]:
    """Every table that a query names, except where a CTE of that name is in scope."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not _is_cte(table):
            yield table


def _is_cte(table: exp.Table) -> bool:
    if table.args.get("db"):
        return False
    child: Tree = table
    inside: Tree | None = None  # the CTE that the table stands in, below the WITH being looked at
    while (parent := child.parent) is not None:
        if isinstance(child, exp.CTE):
            inside = child
        clause = parent.args.get("with_")
        if clause is not None:
            visible = clause.expressions
            if child is clause and not clause.args.get("recursive"):
                visible = visible[: next(i for i, cte in enumerate(visible) if cte is inside)]
            if any(cte.alias.lower() == table.name.lower() for cte in visible):
                return True
        child = parent
    return False


def _lower(name: TableName) -> tuple[str, ...]:
    return tuple(part.lower() for part in name.parts)


def _named(table: exp.Table, names: Mapping[tuple[str, ...], TableName]) -> TableName:
    asked = TableName.of(*(part.name for part in table.parts))
    found = names.get(_lower(asked))
    if found is None:
        known = [str(name) for name in names.values()]
        raise UnknownName(f"table {asked} does not exist", name=str(asked), known=known)
    return found

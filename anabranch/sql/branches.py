"""The part of a query that does not read some tables: what a circle of tables starts from.

SELECT … FROM edges UNION SELECT … FROM edges JOIN reach …      without reach: the first branch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM, Tree
from anabranch.sql.source_text import SourceText


@dataclass(frozen=True)
class Branches:
    """A query of the branches that stand by themselves, and the names of the whole query's columns
    where its first branch gives them."""

    text: str
    names: tuple[str, ...] = ()


def branches_without(query: str, is_unknown: Callable[[TableName], bool]) -> Branches | None:
    """None when every branch reads an unknown table."""
    tree = SourceText(query).tree
    found = _Reduction(is_unknown).query(tree.copy(), frozenset())
    return None if found is None else Branches(found.sql(dialect=VERBATIM), _names(tree))


def _names(tree: Tree) -> tuple[str, ...]:
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    if not isinstance(tree, exp.Select) or any(each.is_star for each in tree.expressions):
        return ()
    names = tuple(each.alias_or_name for each in tree.expressions)
    return names if all(names) else ()


@dataclass(frozen=True)
class _Reduction:
    is_unknown: Callable[[TableName], bool]

    def query(self, tree: Tree, hidden: frozenset[str]) -> Tree | None:
        """The query without its unknown branches; `hidden` are CTEs that have none left."""
        clause = tree.args.get("with_")
        if clause is not None:
            hidden = self.ctes(clause, hidden)
        kept = self.body(tree, hidden)
        if kept is not None and kept is not tree and clause is not None and clause.expressions:
            kept.set("with_", clause.copy())
        return kept

    def ctes(self, clause: exp.With, hidden: frozenset[str]) -> frozenset[str]:
        for cte in list(clause.expressions):
            kept = self.query(cte.this, hidden)
            if kept is None:
                hidden |= {cte.alias.lower()}
                cte.pop()
            elif kept is not cte.this:
                cte.set("this", kept)
        return hidden

    def body(self, tree: Tree, hidden: frozenset[str]) -> Tree | None:
        match tree:
            case exp.Subquery():
                kept = self.query(tree.this, hidden)
                if kept is not None and kept is not tree.this:
                    tree.set("this", kept)
                return None if kept is None else tree
            case exp.SetOperation():
                left, right = (self.query(each, hidden) for each in (tree.this, tree.expression))
                if left is not None and right is not None:
                    tree.set("this", left)
                    tree.set("expression", right)
                    return tree
                return left if left is not None or not isinstance(tree, exp.Union) else right
        if self.reads_unknown(tree, hidden) and isinstance(tree, exp.Select):
            for condition in ("where", "having", "qualify"):  # they have no say in the columns
                tree.set(condition, None)
        return None if self.reads_unknown(tree, hidden) else tree

    def reads_unknown(self, tree: Tree, hidden: frozenset[str]) -> bool:
        for table in tree.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                continue
            if not table.args.get("db") and table.name.lower() in hidden:
                return True
            if self.is_unknown(TableName.of(*(part.name for part in table.parts))):
                return True
        return False

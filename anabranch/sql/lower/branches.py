"""The part of a query that does not read some tables: what a circle of tables starts from.

SELECT … FROM edges UNION SELECT … FROM edges JOIN reach …      without reach: the first branch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM, Tree
from anabranch.sql.analyze.ctes import cte_of, mentions
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class Branches:
    """A query of the branches that stand by themselves, and the names of the whole query's columns
    where its first branch gives them."""

    text: str
    names: tuple[str, ...] = ()


def branches_without(query: str, is_unknown: Callable[[TableName], bool]) -> Branches | None:
    """None when every branch reads an unknown table."""
    tree = SourceText(query).tree
    copy = tree.copy()
    found = _Reduction.of(copy, is_unknown).query(copy)
    return None if found is None else Branches(found.sql(dialect=VERBATIM), _names(tree))


def _names(tree: Tree) -> tuple[str, ...]:
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    if not isinstance(tree, exp.Select) or any(each.is_star for each in tree.expressions):
        return ()
    names = tuple(each.alias_or_name for each in tree.expressions)
    return names if all(names) else ()


@dataclass
class _Reduction:
    """`means` tells of every name that is one of a CTE which: found before the tree is changed."""

    is_unknown: Callable[[TableName], bool]
    means: dict[int, exp.CTE]
    hidden: set[int] = field(default_factory=set)  # CTEs that have no branch left

    @classmethod
    def of(cls, tree: Tree, is_unknown: Callable[[TableName], bool]) -> _Reduction:
        found = ((id(table), cte_of(table)) for table in mentions(tree))
        return cls(is_unknown, {table: cte for table, cte in found if cte is not None})

    def query(self, tree: Tree) -> Tree | None:
        """The query without its unknown branches."""
        clause = tree.args.get("with_")
        if clause is not None:
            self.ctes(clause)
        kept = self.body(tree)
        if kept is not None and kept is not tree and clause is not None and clause.expressions:
            kept.set("with_", clause)
        return kept

    def ctes(self, clause: exp.With) -> None:
        for cte in list(clause.expressions):
            kept = self.query(cte.this)
            if kept is None:
                self.hidden.add(id(cte))
                cte.pop()
            elif kept is not cte.this:
                cte.set("this", kept)
        if not clause.expressions:
            clause.pop()

    def body(self, tree: Tree) -> Tree | None:
        match tree:
            case exp.Subquery():
                kept = self.query(tree.this)
                if kept is not None and kept is not tree.this:
                    tree.set("this", kept)
                return None if kept is None else tree
            case exp.SetOperation():
                left, right = (self.query(each) for each in (tree.this, tree.expression))
                if left is not None and right is not None:
                    tree.set("this", left)
                    tree.set("expression", right)
                    return tree
                return left if left is not None or not isinstance(tree, exp.Union) else right
        if self.reads_unknown(tree) and isinstance(tree, exp.Select):
            for condition in ("where", "having", "qualify"):  # they have no say in the columns
                tree.set(condition, None)
            self.derived(tree)
        return None if self.reads_unknown(tree) else tree

    def derived(self, select: exp.Select) -> None:
        """A derived table has the columns of those of its branches that stand by themselves."""
        joins = select.args.get("joins") or []
        for clause in (select.args.get("from_"), *joins):
            if clause is not None and isinstance(clause.this, exp.Subquery):
                self.body(clause.this)

    def reads_unknown(self, tree: Tree) -> bool:
        for table in mentions(tree):
            cte = self.means.get(id(table))
            if cte is not None:
                if id(cte) in self.hidden:
                    return True
            elif self.is_unknown(TableName.of(*(part.name for part in table.parts))):
                return True
        return False

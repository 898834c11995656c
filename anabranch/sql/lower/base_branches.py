"""Base branches: the part of a query that reads none of some tables; a cycle is created from it.

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
class BaseBranches:
    """A query of the base branches, and the column names of the original query if its first branch
    names them."""

    text: str
    names: tuple[str, ...] = ()


def base_branches(query: str, is_unknown: Callable[[TableName], bool]) -> BaseBranches | None:
    """The base branches; None if every branch reads an unknown table."""
    tree = SourceText(query).tree
    copy = tree.copy()
    reduced = _Reduction.of(copy, is_unknown).query(copy)
    return None if reduced is None else BaseBranches(reduced.sql(dialect=VERBATIM), _names(tree))


def _names(tree: Tree) -> tuple[str, ...]:
    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    if not isinstance(tree, exp.Select) or any(item.is_star for item in tree.expressions):
        return ()
    names = tuple(item.alias_or_name for item in tree.expressions)
    return names if all(names) else ()


@dataclass
class _Reduction:
    """`means` maps every reference to a CTE to that CTE; it is computed before the tree changes."""

    is_unknown: Callable[[TableName], bool]
    means: dict[int, exp.CTE]
    hidden: set[int] = field(default_factory=set)  # CTEs without base branches

    @classmethod
    def of(cls, tree: Tree, is_unknown: Callable[[TableName], bool]) -> _Reduction:
        references = ((id(table), cte_of(table)) for table in mentions(tree))
        return cls(is_unknown, {table: cte for table, cte in references if cte is not None})

    def query(self, tree: Tree) -> Tree | None:
        """The query without its unknown branches."""
        clause = tree.args.get("with_")
        if clause is not None:
            self.ctes(clause)
        reduced = self.body(tree)
        if (
            reduced is not None
            and reduced is not tree
            and clause is not None
            and clause.expressions
        ):
            reduced.set("with_", clause)
        return reduced

    def ctes(self, clause: exp.With) -> None:
        for cte in list(clause.expressions):
            reduced = self.query(cte.this)
            if reduced is None:
                self.hidden.add(id(cte))
                cte.pop()
            elif reduced is not cte.this:
                cte.set("this", reduced)
        if not clause.expressions:
            clause.pop()

    def body(self, tree: Tree) -> Tree | None:
        match tree:
            case exp.Subquery():
                reduced = self.query(tree.this)
                if reduced is not None and reduced is not tree.this:
                    tree.set("this", reduced)
                return None if reduced is None else tree
            case exp.SetOperation():
                left, right = (self.query(branch) for branch in (tree.this, tree.expression))
                if left is not None and right is not None:
                    tree.set("this", left)
                    tree.set("expression", right)
                    return tree
                return left if left is not None or not isinstance(tree, exp.Union) else right
        if self.reads_unknown(tree) and isinstance(tree, exp.Select):
            for condition in ("where", "having", "qualify"):  # they do not affect the columns
                tree.set(condition, None)
            self.derived(tree)
        return None if self.reads_unknown(tree) else tree

    def derived(self, select: exp.Select) -> None:
        """A derived table keeps the columns of its base branches."""
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

"""What a name in FROM means: a common table expression that is in scope there, or a table.

A CTE is seen by the CTEs behind it and by the query that its WITH stands before, at any depth, unless
one further in has the same name.  It does not see itself, unless WITH is RECURSIVE: in
`WITH products AS (SELECT * FROM products) …` the inner name is a table.  Names are compared without
case; a name with a schema is always a table.

Nothing else knows these scopes: the walk binds to each name what it means here, plans are made from
that, and what changes the text of a query asks here.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from anabranch.plan.exprs import Tree


def mentions(tree: Tree) -> Iterator[exp.Table]:
    """Every name in a FROM clause, of tables and of CTEs."""
    return (table for table in tree.find_all(exp.Table) if _is_name(table))


def tables_in(tree: Tree) -> Iterator[exp.Table]:
    """Every mention of a table."""
    return (table for table in mentions(tree) if cte_of(table) is None)


def is_recursive(cte: exp.CTE) -> bool:
    clause = cte.parent
    recursive = isinstance(clause, exp.With) and bool(clause.args.get("recursive"))
    return recursive and mentions_cte(cte.this, cte)


def mentions_cte(tree: Tree, cte: exp.CTE) -> bool:
    return any(cte_of(table) is cte for table in mentions(tree))


def cte_of(table: exp.Table) -> exp.CTE | None:
    """The CTE that a name means; None: a table."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
        return None
    wanted = table.name.lower()
    child: Tree = table
    inside: exp.CTE | None = None  # the CTE that the name stands in, of the WITH being looked at
    while (parent := child.parent) is not None:
        if isinstance(child, exp.CTE):
            inside = child
        clause = parent.args.get("with_")
        if isinstance(clause, exp.With):
            seen = _seen(clause, inside) if child is clause else clause.expressions
            meant = next((cte for cte in reversed(seen) if cte.alias.lower() == wanted), None)
            if meant is not None:
                return meant
        child = parent
    return None


def bare(tree: Tree) -> Tree:
    """A query without the parentheses around it."""
    clauses = ("alias", "with_", "limit", "order", "offset")
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(clause) for clause in clauses):
        tree = tree.this
    return tree


def _seen(clause: exp.With, inside: exp.CTE | None) -> list[exp.CTE]:
    """What a CTE sees of its own WITH: those before it, and itself if it may be recursive."""
    at = next(at for at, cte in enumerate(clause.expressions) if cte is inside)
    end = at + 1 if clause.args.get("recursive") else at
    return list(clause.expressions[:end])


def _is_name(table: exp.Table) -> bool:
    """Not a function, and not an alias that a hint names."""
    named = isinstance(table.this, (exp.Identifier, exp.Dot))
    return named and table.find_ancestor(exp.Hint) is None

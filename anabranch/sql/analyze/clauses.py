"""The clauses of one SELECT that hold expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import functions

CLAUSES = ("expressions", "where", "group", "having", "qualify", "order")


def time_windows(tree: exp.Select) -> list[str]:
    """The names of the time windows of a SELECT."""
    return list(
        dict.fromkeys(
            window_call.name.lower() for window_call in calls_in(tree, functions.TIME_WINDOWS)
        )
    )


def calls_in(
    tree: exp.Select, names: frozenset[str], clauses: Sequence[str] = CLAUSES
) -> Iterator[Tree]:
    """The calls in the clauses of one SELECT, not counting those in subqueries."""
    for clause in clauses:
        value = tree.args.get(clause)
        for root in value if isinstance(value, list) else [value]:
            if isinstance(root, exp.Expr):
                for descendant in root.walk(prune=lambda node: isinstance(node, exp.Query)):
                    if isinstance(descendant, exp.Anonymous) and descendant.name.lower() in names:
                        yield descendant

"""Aggregates: where none may stand, and columns that are neither grouped nor aggregated.

A column is told to be outside of GROUP BY only when no grouping expression mentions it: whether an
expression is the same as a grouping expression is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.obstacles import is_aggregate, is_windowed, name_of_call
from anabranch.sql.analyze.sight import Sight

_NEED_OVER = frozenset(
    "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split()
)


def inside(tree: Tree) -> Iterator[Tree]:
    """The parts of an expression, but not of a query in it."""
    return tree.walk(prune=lambda node: isinstance(node, exp.Query))


def calls_in_calls(node: exp.Anonymous) -> Iterator[tuple[Tree, str]]:
    """Aggregates and windows in the arguments of an aggregate; window functions without OVER."""
    name = node.name.lower()
    if name in _NEED_OVER and not is_windowed(node):
        yield node, f"{name} needs OVER (…)"
    if not is_aggregate(node):
        return
    for part in (part for argument in node.expressions for part in inside(argument)):
        if isinstance(part, exp.Window):
            yield part, f"{name} cannot aggregate a window function: put that in a subquery"
            return
        if isinstance(part, exp.Anonymous) and is_aggregate(part):
            yield part, f"{name} cannot aggregate {part.name.lower()}: put that in a subquery"
            return


def misplaced(
    clause: str, tree: Tree, sight: Sight | None
) -> Iterator[tuple[Tree, str, str | None]]:
    """Aggregates and windows where rows are chosen one by one.

    Inside a subquery an aggregate may be one of the query around it.
    """
    hint = "HAVING filters groups" if clause == "WHERE" else "compute it in a subquery"
    for node in inside(tree):
        if isinstance(node, exp.Window):
            yield (
                node,
                f"{clause} cannot use window functions",
                "compute it in a subquery, or use QUALIFY",
            )
            return
        if isinstance(node, exp.Anonymous) and is_aggregate(node):
            if sight is None or sight.outer is None or _is_own(node, sight):
                yield node, f"{clause} cannot use the aggregate {node.name.lower()}", hint
            return


def _is_own(call: Tree, sight: Sight) -> bool:
    columns = [part for part in inside(call) if isinstance(part, exp.Column)]
    return bool(columns) and all(
        sight.is_own([part.name for part in each.parts]) for each in columns
    )


def is_grouped(node: exp.Select) -> bool:
    trees = [*node.expressions, *_of(node, "having"), *_of(node, "order"), *_of(node, "qualify")]
    return bool(
        node.args.get("group")
        or node.args.get("having")
        or any(is_aggregate(part) for tree in trees for part in inside(tree))
    )


def _of(node: exp.Select, clause: str) -> list[Tree]:
    tree = node.args.get(clause)
    return [tree] if isinstance(tree, exp.Expr) else []


def loose_columns(tree: Tree) -> Iterator[exp.Column]:
    """The columns outside of aggregates.  A function that is not Spark's own may be one."""

    def stops(node: Tree) -> bool:
        unknown = isinstance(node, exp.Anonymous) and node.name.lower() not in functions.KNOWN
        grouping = name_of_call(node) in functions.GROUPING
        return unknown or grouping or isinstance(node, (exp.Query, exp.Hint)) or is_aggregate(node)

    for node in tree.walk(prune=stops):
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            yield node


def ungrouped(
    trees: Iterable[Tree], sight: Sight, keys: set[str], outputs: set[str]
) -> Iterator[exp.Column]:
    """Columns of FROM that no grouping expression mentions; a name of `outputs` means an output."""
    for tree in trees:
        for node in loose_columns(tree):
            parts = [part.name for part in node.parts]
            if len(parts) == 1 and parts[0].lower() in outputs:
                continue
            answer = sight.scope.look_up(parts)
            if answer is None or len(answer.columns) != 1:
                continue
            if any(each.qualified_only or each.known.broken for each in answer.fields):
                continue
            if answer.columns.isdisjoint(keys):
                yield node

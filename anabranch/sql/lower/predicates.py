"""Subqueries in expressions: each is extracted and replaced by a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.plan.exprs import (
    Tree,
    unwrapped,
)
from anabranch.sql.analyze.resolve import resolved
from anabranch.sql.text.source_text import SourceText


@dataclass
class Pending:
    """A subquery extracted from an expression, in which the column `name` stands for its value.

    `operands` are the left sides of IN; they become columns of the plan before it is applied.
    """

    name: str
    tree: Tree
    negated: bool = False
    operands: list[Tree] = field(default_factory=list)

    @property
    def query(self) -> Tree:
        match self.tree:
            case exp.Exists():
                query = unwrapped(self.tree.this)
            case exp.In():
                query = self.tree.args["query"]
            case exp.Binary():
                query = unwrapped(self.tree.expression.this)
            case _:
                query = self.tree
        while isinstance(query, exp.Subquery) and not query.args.get("with_"):
            query = unwrapped(query.this)
        return query


def is_subquery(node: Tree) -> bool:
    return (
        (isinstance(node, exp.Exists) and isinstance(unwrapped(node.this), exp.Query))
        or (isinstance(node, exp.In) and bool(node.args.get("query")))
        or isinstance(node, exp.Subquery)
        or is_quantified(node)
    )


def is_quantified(node: Tree) -> bool:
    """x > ALL (SELECT …)"""
    return (
        isinstance(node, exp.Predicate)
        and isinstance(node, exp.Binary)
        and isinstance(node.expression, (exp.Any, exp.All))
        and isinstance(unwrapped(node.expression.this), exp.Query)
    )


def has_quantified(query: str) -> bool:
    """Spark compares with ANY or ALL of a pattern's alternatives, but not of a query's rows."""
    return any(is_quantified(node) for node in SourceText(query).tree.walk())


def extract_subqueries(tree: Tree, fresh: Callable[[str], str]) -> tuple[Tree, list[Pending]]:
    """The expression with a column for every subquery, and the subqueries."""
    subqueries: list[Pending] = []

    def extract(node: Tree) -> Tree:
        inner = unwrapped(node.this) if isinstance(node, exp.Not) else node
        negated = inner is not node
        if not is_subquery(inner) or (negated and not isinstance(inner, exp.In)):
            return node
        subqueries.append(pending(inner, fresh("_ab_q"), negated=negated))
        return resolved(subqueries[-1].name)

    return tree.transform(extract), subqueries


def pending(node: Tree, name: str, *, negated: bool = False) -> Pending:
    operands: list[Tree] = []
    if isinstance(node, exp.In) or is_quantified(node):
        left = unwrapped(node.this)
        operands = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    return Pending(name, node, negated, operands)


def push_down_not(tree: Tree) -> Tree:
    """NOT pushed down to the subqueries, as Spark does: it then sees NOT IN as one predicate."""
    tree = unwrapped(tree)
    if isinstance(tree, (exp.And, exp.Or)):
        return type(tree)(
            this=_grouped(push_down_not(tree.this)),
            expression=_grouped(push_down_not(tree.expression)),
        )
    if not isinstance(tree, exp.Not) or not any(map(is_subquery, tree.walk())):
        return tree
    inner = unwrapped(tree.this)
    if isinstance(inner, exp.Not):
        return push_down_not(inner.this)
    if isinstance(inner, (exp.And, exp.Or)):
        other = exp.Or if isinstance(inner, exp.And) else exp.And
        sides = (push_down_not(exp.Not(this=side)) for side in (inner.this, inner.expression))
        left, right = (_grouped(side) for side in sides)
        return other(this=left, expression=right)
    return tree


def _grouped(tree: Tree) -> Tree:
    return exp.Paren(this=tree) if isinstance(tree, exp.Connector) else tree


def conditions(tree: Tree) -> Iterator[Tree]:
    """The conjuncts, with NOT pushed down."""
    tree = push_down_not(tree)
    if isinstance(tree, exp.And):
        yield from conditions(tree.this)
        yield from conditions(tree.expression)
    else:
        yield tree

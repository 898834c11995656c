"""WITH RECURSIVE r AS (first UNION ALL … FROM r …)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.delta.recursive import not_linear
from anabranch.plan.exprs import Tree, cast, column
from anabranch.plan.nodes import Again, Item, Node, Project, Recursive, UnionAll
from anabranch.sql.correlation import Lowering
from anabranch.sql.ctes import mentions_cte
from anabranch.sql.relation import Cte, Output, Relation, Stop, column_aliases


def recursion(lowering: Lowering, cte: Cte) -> Relation:
    """The relation that a recursive CTE stands for."""
    source, tree = cte.place.source, cte.tree
    branches = list(_branches(tree.this, cte))
    seeds = [each for each in branches if not mentions_cte(each, tree)]
    steps = [each for each in branches if mentions_cte(each, tree)]
    if not seeds:
        raise Stop(source.obstacle("RECURSION", tree, what="there is no branch to start from"))
    first = [lowering.query(each, cte.place) for each in seeds]
    outputs = tuple(map(Output, column_aliases(tree, first[0]))) or first[0].outputs
    columns = tuple(lowering.fresh("_ab_r") for _ in outputs)
    name = lowering.fresh("_ab_rec")
    seed = _united([_named(each.node, columns) for each in first])
    known = lowering.types(seed, [column(each) for each in columns])
    own = Relation(Again(name, columns), outputs)
    inside = replace(cte.place, ctes={**cte.place.ctes, tree.alias.lower(): own})
    lowering.stand_in(name, seed)
    parts = []
    for each in steps:
        node = _named(lowering.query(each, inside).node, columns)
        found = not_linear(node)
        if found is not None:
            word = type(found).__name__.lower()
            raise Stop(source.obstacle("RECURSION", each, what=f"it goes through a {word}"))
        types = lowering.types(node, [column(each) for each in columns])
        parts.append(_typed(node, types, known))
    return Relation(Recursive(name, seed, _united(parts)), outputs)


def _branches(tree: Tree, cte: Cte) -> Iterator[Tree]:
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, exp.Union):
        yield tree
    elif tree.args.get("distinct", True):
        raise Stop(cte.place.source.obstacle("RECURSION", tree.expression, "UNION", what="UNION"))
    else:
        yield from _branches(tree.this, cte)
        yield from _branches(tree.expression, cte)


def _united(parts: list[Node]) -> Node:
    return UnionAll(tuple(parts)) if len(parts) > 1 else parts[0]


def _named(node: Node, names: tuple[str, ...]) -> Node:
    pairs = zip(names, node.columns, strict=True)
    return Project(node, tuple(Item(name, column(inner)) for name, inner in pairs))


def _typed(node: Node, own: Sequence[str], wanted: Sequence[str]) -> Node:
    """A step has the types of the seed, as in Spark."""
    items = (
        Item(name, column(name) if mine == goal else cast(column(name), goal))
        for name, mine, goal in zip(node.columns, own, wanted, strict=True)
    )
    return Project(node, tuple(items))

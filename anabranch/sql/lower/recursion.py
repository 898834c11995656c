"""WITH RECURSIVE r AS (first UNION [ALL] … FROM r …)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.delta.closure import not_maintainable
from anabranch.delta.recursive import not_linear
from anabranch.errors import UserError
from anabranch.plan.exprs import Tree, cast, column
from anabranch.plan.grammar import RECURSION_LEVEL
from anabranch.plan.nodes import Item, Node, Project, Recursive, RecursiveRef, UnionAll
from anabranch.plan.walk import open_recursions
from anabranch.sql.analyze.ctes import mentions_cte, reads_itself
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.predicates import has_quantified
from anabranch.sql.lower.relation import Cte, Output, Relation, Stop, column_aliases, with_ctes
from anabranch.sql.text.source_text import SourceText
from anabranch.types import Type


def recursion(lowering: Lowering, cte: Cte) -> Relation:
    """The relation that a recursive CTE stands for."""
    known = lowering.recursions.get(id(cte.tree))
    if known is not None:
        return known
    found = _recursion(lowering, cte)
    if not open_recursions(found.node):
        lowering.recursions[id(cte.tree)] = found
    return found


def _recursion(lowering: Lowering, cte: Cte) -> Relation:
    source, tree, body = cte.place.source, cte.tree, _bare(cte.tree.this)
    place, distinct = with_ctes(body, cte.place), _is_distinct(tree)
    if level_of(tree) is not None:
        raise Stop(source.obstacle("RECURSION_LEVEL", tree))
    branches = list(_branches(body, cte, distinct=distinct))
    seeds = [each for each in branches if not mentions_cte(each, tree)]
    steps = [each for each in branches if mentions_cte(each, tree)]
    if not seeds:
        raise Stop(source.obstacle("RECURSION", tree, what="there is no branch to start from"))
    first = [lowering.query(each, place) for each in seeds]
    outputs = tuple(map(Output, column_aliases(tree, first[0]))) or first[0].outputs
    columns = tuple(lowering.fresh("_ab_r") for _ in outputs)
    name = lowering.fresh("_ab_rec")
    seed = _united(lowering.alike([_named(each.node, columns) for each in first]))
    known = lowering.types(seed, [column(each) for each in columns])
    own = Relation(RecursiveRef(name, columns), outputs)
    inside = replace(place, ctes={**place.ctes, tree.alias.lower(): own})
    while True:
        lowering.stand_in(name, seed)
        nodes = [_named(lowering.query(each, inside).node, columns) for each in steps]
        for each, node in zip(steps, nodes, strict=True):
            found = None if distinct else not_linear(node)
            if found is not None:
                word = type(found).__name__.lower()
                raise Stop(source.obstacle("RECURSION", each, what=f"it goes through a {word}"))
        types = [lowering.types(node, [column(each) for each in columns]) for node in nodes]
        # Spark judges UNION ALL itself
        wider = _wider(tree, outputs, types, known) if distinct else known
        if wider == known:
            break
        seed, known = _typed(seed, known, wider), wider  # what steps make of it may be wider, too
    parts = [_typed(node, mine, known) for node, mine in zip(nodes, types, strict=True)]
    made = Recursive(name, seed, _united(parts), distinct)
    why = not_maintainable(made) if distinct else None
    if why is not None:
        raise Stop(source.obstacle("RECURSION", steps[0], what=why))
    return Relation(made, outputs)


def keeps_rows_once(query: str) -> bool:
    """WITH RECURSIVE … UNION, which Spark refuses: it knows UNION ALL alone."""
    return any(
        clause.args.get("recursive")
        and any(reads_itself(cte) and _is_distinct(cte) for cte in clause.expressions)
        for clause in SourceText(query).tree.find_all(exp.With)
    )


def is_beyond_spark(query: str) -> bool:
    """Whether only our own plan can run the query."""
    return has_quantified(query) or keeps_rows_once(query)


def level_of(cte: exp.CTE) -> str | None:
    """The n of MAX RECURSION LEVEL n."""
    found = cte.args["alias"].args.get(RECURSION_LEVEL)
    return None if found is None else str(found.name)


def _is_distinct(cte: exp.CTE) -> bool:
    """The outermost UNION decides: below it rows are kept once whatever others say."""
    tree = _bare(cte.this)
    return isinstance(tree, exp.Union) and bool(tree.args.get("distinct", True))


def _branches(tree: Tree, cte: Cte, *, distinct: bool) -> Iterator[Tree]:
    """The branches of the recursion; what does not name it is one, whatever it is made of."""
    own = isinstance(tree, exp.Union) and (
        tree is _bare(cte.tree.this) or not tree.args.get("with_")
    )
    if not own or not mentions_cte(tree, cte.tree):
        yield tree
    elif tree.args.get("distinct", True) and not distinct:
        raise Stop(
            cte.place.source.obstacle(
                "RECURSION", tree.expression, "UNION", what="UNION inside of UNION ALL"
            )
        )
    else:
        yield from _branches(_bare(tree.this), cte, distinct=distinct)
        yield from _branches(_bare(tree.expression), cte, distinct=distinct)


def _bare(tree: Tree) -> Tree:
    plain = ("alias", "with_", "limit", "order", "offset")
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(each) for each in plain):
        tree = tree.this
    return tree


def _united(parts: list[Node]) -> Node:
    return UnionAll(tuple(parts)) if len(parts) > 1 else parts[0]


def _named(node: Node, names: tuple[str, ...]) -> Node:
    pairs = zip(names, node.columns, strict=True)
    return Project(node, tuple(Item(name, column(inner)) for name, inner in pairs))


def _wider(
    tree: exp.CTE, outputs: Sequence[Output], types: Sequence[Sequence[str]], known: Sequence[str]
) -> Sequence[str]:
    """The types of a recursion that holds every row of its steps, as they are.

    A cast that changes values would change the query.
    """
    found = list(known)
    for own in types:
        for at, (output, mine) in enumerate(zip(outputs, own, strict=True)):
            old, new = Type.parse(found[at]), Type.parse(mine)
            if old.fits(new):
                found[at] = mine
            elif not new.fits(old):
                raise UserError(
                    f"WITH RECURSIVE {tree.alias}: column {output.name} is of type {found[at]} in one "
                    f"branch, and {mine} in another",
                    hint=f"CAST one of them, such as CAST(… AS {found[at].upper()})",
                )
    return found


def _typed(node: Node, own: Sequence[str], wanted: Sequence[str]) -> Node:
    """A step has the types of the seed, as in Spark."""
    items = (
        Item(name, column(name) if mine == goal else cast(column(name), goal))
        for name, mine, goal in zip(node.columns, own, wanted, strict=True)
    )
    return Project(node, tuple(items))

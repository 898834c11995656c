"""WITH RECURSIVE r AS (seed UNION [ALL] … FROM r …)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from anabranch.delta.closure import not_maintainable
from anabranch.delta.recursive import not_linear
from anabranch.errors import UserError
from anabranch.plan.exprs import Tree, cast, column
from anabranch.plan.grammar import RECURSION_LEVEL
from anabranch.plan.nodes import Item, Node, Project, Recursive, RecursiveRef, UnionAll
from anabranch.plan.sameness import Sameness, sameness
from anabranch.plan.walk import open_recursions
from anabranch.sql.analyze.ctes import bare, is_recursive, mentions_cte
from anabranch.sql.analyze.resolve import Output
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.predicates import has_quantified
from anabranch.sql.lower.relation import Place, Relation, column_aliases
from anabranch.sql.obstacles import Stop
from anabranch.sql.text.source_text import SourceText
from anabranch.types import Type


def recursion(lowering: Lowering, cte: exp.CTE, source: SourceText) -> Relation:
    """The relation of a recursive CTE; within its own steps, a reference to it."""
    relation = lowering.recursions.get(id(cte))
    if relation is not None:
        return relation
    relation = _recursion(lowering, cte, source)
    if open_recursions(relation.node):
        del lowering.recursions[id(cte)]
    else:
        lowering.recursions[id(cte)] = relation
    return relation


def _recursion(lowering: Lowering, tree: exp.CTE, source: SourceText) -> Relation:
    body, place, distinct = bare(tree.this), Place(source), _is_distinct(tree)
    if level_of(tree) is not None:
        raise Stop(source.obstacle("RECURSION_LEVEL", tree))
    branches = list(_branches(body, tree, source, distinct=distinct))
    seeds = [branch for branch in branches if not mentions_cte(branch, tree)]
    steps = [branch for branch in branches if mentions_cte(branch, tree)]
    if not seeds:
        raise Stop(source.obstacle("RECURSION", tree, what="there is no branch to start from"))
    seed_relations = [lowering.query(branch, place) for branch in seeds]
    outputs = (
        tuple(map(Output, column_aliases(tree, seed_relations[0]))) or seed_relations[0].outputs
    )
    columns = tuple(lowering.fresh("_ab_r") for _ in outputs)
    name = lowering.fresh("_ab_rec")
    seed = _united(
        lowering.unified([_named(relation.node, columns) for relation in seed_relations])
    )
    column_types = lowering.types(seed, [column(name_) for name_ in columns])
    lowering.recursions[id(tree)] = Relation(RecursiveRef(name, columns), outputs)
    while True:
        lowering.stand_in(name, seed)
        nodes = [_named(lowering.query(step, place).node, columns) for step in steps]
        for step, node in zip(steps, nodes, strict=True):
            nonlinear = None if distinct else not_linear(node)
            if nonlinear is not None:
                word = type(nonlinear).__name__.lower()
                article = "an" if word[0] in "aeiou" else "a"
                what = f"it goes through {article} {word}"
                raise Stop(source.obstacle("RECURSION", step, what=what))
        types = [lowering.types(node, [column(name_) for name_ in columns]) for node in nodes]
        # for UNION ALL, Spark checks the types
        wider = _wider(tree, outputs, types, column_types) if distinct else column_types
        if wider == column_types:
            break
        seed, column_types = (
            _typed(seed, column_types, wider),
            wider,
        )  # with a wider seed, the steps may be wider too
    typed_steps = [
        _typed(node, own_types, column_types) for node, own_types in zip(nodes, types, strict=True)
    ]
    loose = any(sameness(each) is not Sameness.BYTES for each in column_types)
    result = Recursive(name, seed, _united(typed_steps), distinct, loose and not distinct)
    why = not_maintainable(result) if distinct else None
    if why is not None:
        raise Stop(source.obstacle("RECURSION", steps[0], what=why))
    return Relation(result, outputs)


def has_distinct_recursion(query: str) -> bool:
    """WITH RECURSIVE … UNION, which Spark refuses: it supports only UNION ALL."""
    return any(
        any(is_recursive(cte) and _is_distinct(cte) for cte in clause.expressions)
        for clause in SourceText(query).tree.find_all(exp.With)
    )


def is_beyond_spark(query: str) -> bool:
    """Whether Spark cannot run the query as written, but can run our plan of it."""
    return has_quantified(query) or has_distinct_recursion(query)


def level_of(cte: exp.CTE) -> str | None:
    """The n of MAX RECURSION LEVEL n."""
    level = cte.args["alias"].args.get(RECURSION_LEVEL)
    return None if level is None else str(level.name)


def _is_distinct(cte: exp.CTE) -> bool:
    """The outermost UNION decides: it removes duplicates, whatever is below it."""
    tree = bare(cte.this)
    return isinstance(tree, exp.Union) and bool(tree.args.get("distinct", True))


def _branches(tree: Tree, cte: exp.CTE, source: SourceText, *, distinct: bool) -> Iterator[Tree]:
    """The branches of the recursion; a query that does not refer to it is a single branch."""
    is_union = isinstance(tree, exp.Union) and (
        tree is bare(cte.this) or not tree.args.get("with_")
    )
    if not is_union or not mentions_cte(tree, cte):
        yield tree
    elif tree.args.get("distinct", True) and not distinct:
        inner = "UNION inside UNION ALL"
        raise Stop(source.obstacle("RECURSION", tree.expression, "UNION", what=inner))
    else:
        for side in (tree.this, tree.expression):
            yield from _branches(bare(side), cte, source, distinct=distinct)


def _united(branches: list[Node]) -> Node:
    return UnionAll(tuple(branches)) if len(branches) > 1 else branches[0]


def _named(node: Node, names: tuple[str, ...]) -> Node:
    pairs = zip(names, node.columns, strict=True)
    return Project(node, tuple(Item(name, column(inner)) for name, inner in pairs))


def _wider(
    tree: exp.CTE, outputs: Sequence[Output], types: Sequence[Sequence[str]], current: Sequence[str]
) -> Sequence[str]:
    """Types of the recursion that hold every row of its steps unchanged.

    A cast that changes values would change the query.
    """
    widest = list(current)
    for step_types in types:
        for position, (output, type_) in enumerate(zip(outputs, step_types, strict=True)):
            old, new = Type.parse(widest[position]), Type.parse(type_)
            if old.fits(new):
                widest[position] = type_
            elif not new.fits(old):
                raise UserError(
                    f"WITH RECURSIVE {tree.alias}: column {output.name} is of type "
                    f"{widest[position]} in one branch, and {type_} in another",
                    hint=f"CAST one of them, such as CAST(… AS {widest[position].upper()})",
                )
    return widest


def _typed(node: Node, types: Sequence[str], target_types: Sequence[str]) -> Node:
    """The node with the types of the recursion, as in Spark."""
    items = (
        Item(name, column(name) if own == target else cast(column(name), target))
        for name, own, target in zip(node.columns, types, target_types, strict=True)
    )
    return Project(node, tuple(items))

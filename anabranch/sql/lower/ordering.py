"""ORDER BY … LIMIT … OFFSET.

Ties are broken by all other columns, so that the limit never cuts arbitrarily: rows that still tie are
equal.  ORDER BY without LIMIT has no effect on what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, column, meaning, unwrapped
from anabranch.plan.nodes import Item, Node, Order, TopK
from anabranch.sql.analyze.resolve import FromColumns, Resolver, Selected, resolved
from anabranch.sql.lower.relation import Place, Relation, TypesOf
from anabranch.sql.lower.windows import check_orderable
from anabranch.sql.obstacles import Stop


@dataclass(frozen=True)
class Limit:
    rows: int | None
    skipped: int
    tree: Tree

    @property
    def leaves_one(self) -> bool:
        return not self.skipped and self.rows != 0


@dataclass(frozen=True)
class SortKey:
    """A key of ORDER BY: its expression, and the column that holds it."""

    tree: Tree
    descending: bool
    nulls_first: bool
    column: str = ""

    def among(self, items: Sequence[Item], place: Place) -> str:
        for item in items:
            if meaning(item.expr.tree) == meaning(self.tree):
                return item.name
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", self.tree, "ORDER"))


def limit_of(tree: Tree, place: Place) -> Limit | None:
    """None if there is no limit."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if isinstance(limit, exp.Fetch):
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", limit, "FETCH", what="FETCH"))
    if limit is not None and limit.expression.name.upper() == "ALL":
        limit = None
    if limit is None and offset is None:
        return None
    rows = _number(limit.expression, place) if limit is not None else None
    skipped = _number(offset.expression, place) if offset is not None else 0
    return Limit(rows, skipped, limit or offset or tree)


def _number(tree: Tree, place: Place) -> int:
    if isinstance(tree, exp.Literal) and tree.is_int:
        return int(tree.name)
    raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree, "LIMIT", "OFFSET"))


def sorted_by(
    tree: Tree,
    items: Sequence[Selected],
    resolver: Resolver,
    prepare: Callable[[Tree], Tree] = lambda tree: tree,
) -> list[SortKey]:
    """ORDER BY: ordinals, output names, then columns of FROM."""
    outputs: dict[str, list[Tree]] = {}
    for item in items:
        outputs.setdefault(item.output.name.lower(), [item.tree])
    over_outputs = replace(resolver, aliases={**resolver.aliases, **outputs})
    clause = tree.args.get("order")
    keys = []
    for ordered_expr in clause.expressions if clause is not None else ():
        inner = ordered_expr.this
        descending = bool(ordered_expr.args.get("desc"))
        nulls_first = bool(ordered_expr.args.get("nulls_first"))
        if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
            keys += [SortKey(item.tree.copy(), descending, nulls_first) for item in items]
            continue
        if isinstance(inner, exp.Literal) and inner.is_int:
            position = int(inner.name)
            if not 1 <= position <= len(items):
                raise UserError(f"ORDER BY {position} is not between 1 and {len(items)}")
            key = items[position - 1].tree.copy()
        else:
            key = unwrapped(over_outputs.resolve(prepare(inner)))
        keys.append(SortKey(key, descending, nulls_first))
    return keys


def top(
    node: Node,
    limit: Limit,
    order: Sequence[SortKey],
    ties: Sequence[str],
    place: Place,
    types: TypesOf,
) -> TopK:
    """`ties` are the columns that break ties."""
    if not order:
        raise Stop(place.source.obstacle("LIMIT_WITHOUT_ORDER", limit.tree, "LIMIT", "OFFSET"))
    tie_breakers = [name for name in ties if name not in {key.column for key in order}]
    check_orderable(tie_breakers, place, node, types, limit.tree)
    sort_order = [Order(column(key.column), key.descending, key.nulls_first) for key in order]
    sort_order += [Order(column(name)) for name in tie_breakers]
    carried = tuple(column(name) for name in place.carried)
    return TopK(node, tuple(sort_order), limit.rows, limit.skipped, carried)


def ordered(relation: Relation, tree: Tree, place: Place, types: TypesOf) -> Relation:
    """ORDER BY … LIMIT over a set operation or VALUES, which has only its output columns."""
    limit = limit_of(tree, place)
    if limit is None:
        return relation
    items = [
        Selected(output, resolved(name))
        for output, name in zip(relation.outputs, relation.columns, strict=True)
    ]
    order = [
        SortKey(key.tree, key.descending, key.nulls_first, Expr.of(key.tree).column or "")
        for key in sorted_by(tree, items, Resolver(place.source, FromColumns()))
    ]
    if any(not key.column for key in order):
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree, "ORDER"))
    node = top(relation.node, limit, order, relation.node.columns, place, types)
    return Relation(node, relation.outputs, relation.domain)

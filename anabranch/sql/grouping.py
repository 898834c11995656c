"""GROUP BY, HAVING and aggregate calls: SELECT list → Aggregate and what is computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, column_tree, meaning, unwrapped
from anabranch.plan.nodes import Aggregate, Call, Filter, Item, Node
from anabranch.sql import functions
from anabranch.sql.obstacles import is_aggregate, name_of_call
from anabranch.sql.relation import Names, Selected, Stop, TypesOf
from anabranch.sql.resolve import Resolver, resolve_having
from anabranch.sql.source_text import SourceText
from anabranch.sql.support import Obstacle

_LONGEST_NAME = 60
_ADD_UP_EXACTLY = ("tinyint", "smallint", "int", "bigint", "decimal")  # int: intervals too


def is_grouped(select: exp.Select, items: Sequence[Selected]) -> bool:
    return bool(
        select.args.get("group")
        or select.args.get("having")
        or any(is_aggregate(node) for item in items for node in item.tree.walk())
    )


@dataclass
class Grouping:
    """Collects the keys and the calls of one SELECT; both are found again by their meaning."""

    source: SourceText
    input: Node
    keys: dict[str, Item] = field(default_factory=dict)
    calls: dict[str, tuple[Call, Tree]] = field(default_factory=dict)
    names: Names = field(default_factory=Names)

    def add_key(self, tree: Tree) -> None:
        tree = unwrapped(tree)
        if meaning(tree) not in self.keys:
            expr = Expr.of(tree)
            name = self.names.fresh(expr.column or _short(str(expr), f"key{len(self.keys) + 1}"))
            self.keys[meaning(tree)] = Item(name, expr)

    def lift(self, tree: Tree) -> Tree:
        """An expression over input columns as one over the columns of the aggregate."""
        return tree.transform(self._lift)

    def _lift(self, node: Tree) -> Tree:
        found = self.keys.get(meaning(node))
        if found is not None:
            return column_tree(found.name)
        if is_aggregate(node):
            return column_tree(self._call(node).name)
        if isinstance(node, exp.Column):
            raise Stop(self.source.obstacle("GROUP_EXPRESSION", node, what=node.name))
        return node

    def _call(self, node: Tree) -> Call:
        known = self.calls.get(meaning(node))
        if known is None:
            expr = Expr.of(node)
            name = self.names.fresh(_short(str(expr), f"call{len(self.calls) + 1}"))
            known = self.calls[meaning(node)] = (_described(name, expr, node), node.copy())
        return known[0]

    def aggregate(self, types: TypesOf) -> Aggregate:
        """Asks for the types of all keys and arguments at once."""
        keys, calls = list(self.keys.values()), [call for call, _ in self.calls.values()]
        if not keys and not calls:  # SELECT 1 FROM t HAVING true
            calls = [Call("COUNT(*)", Expr("COUNT(*)"), "count")]
        asked = [key.expr for key in keys] + [call.arg for call in calls if call.arg]
        answers = iter(types(self.input, asked) if asked else ())
        typed_keys = tuple(replace(key, type=next(answers)) for key in keys)
        typed = tuple(_typed(call, next(answers)) if call.arg else call for call in calls)
        return Aggregate(self.input, typed_keys, typed)

    def inexact(self, aggregate: Aggregate) -> dict[Expr, Obstacle]:
        """Calls that may not stand below another operator, and where they stand in the text."""
        trees = {call.expr: tree for call, tree in self.calls.values()}
        return {
            call.expr: self.source.obstacle(
                "INEXACT_AGGREGATE", trees[call.expr], what=name_of_call(trees[call.expr]) or ""
            )
            for call in aggregate.calls
            if not call.exact
        }


def _short(text: str, otherwise: str) -> str:
    return text if len(text) <= _LONGEST_NAME else otherwise


def _described(name: str, expr: Expr, node: Tree) -> Call:
    """What kind of call it is."""
    function = name_of_call(node) or ""
    where = None
    if isinstance(node, exp.Filter):
        where, node = Expr.of(node.expression.this), node.this
    exact = function in functions.EXACT or function in functions.LISTING
    plain = isinstance(node, exp.Anonymous)
    args = list(node.expressions) if plain else []
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = args[0].expressions
    if not plain or len(args) != 1:
        first = Expr.of(args[0]) if args and function in functions.SUMS else None
        return Call(name, expr, "", first, where=where, exact=exact)
    arg = None if isinstance(args[0], exp.Star) else Expr.of(args[0])
    call = Call(name, expr, "", arg, where=where, exact=exact)
    if function == "count_if" and not distinct:
        both = Expr.of(exp.and_(args[0].copy(), where.tree.copy())) if where else arg
        return replace(call, function="count", arg=None, where=both)
    if function in ("min", "max") or (function in ("count", "sum", "avg", "mean") and not distinct):
        return replace(call, function="avg" if function == "mean" else function)
    return call


def _typed(call: Call, arg_type: str) -> Call:
    name = name_of_call(call.expr.tree)
    exact = call.exact or (name in functions.SUMS and arg_type.lower().startswith(_ADD_UP_EXACTLY))
    return replace(call, arg_type=arg_type, exact=exact)


def group_keys(select: exp.Select, resolver: Resolver, items: Sequence[Selected]) -> list[Tree]:
    """The expressions of GROUP BY: ordinals, columns of FROM, then aliases; ALL is everything plain."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        return [item.tree for item in items if not any(map(is_aggregate, item.tree.walk()))]
    keys: list[Tree] = []
    for tree in group.expressions:
        if isinstance(tree, exp.Tuple) and not tree.expressions:
            continue  # GROUP BY (): everything is one group
        keys.append(_ordinal(tree, items) or _by_name(resolver, items).resolve(tree))
    return keys


def _ordinal(tree: Tree, items: Sequence[Selected]) -> Tree | None:
    if not (isinstance(tree, exp.Literal) and tree.is_int):
        return None
    position = int(tree.name)
    if not 1 <= position <= len(items):
        raise UserError(f"GROUP BY {position} is not between 1 and {len(items)}")
    return items[position - 1].tree.copy()


def _by_name(resolver: Resolver, items: Sequence[Selected]) -> Resolver:
    aliases: dict[str, list[Tree]] = {}
    for item in items:
        aliases.setdefault(item.output.name.lower(), [item.tree])  # the first one, as Spark does
    return Resolver(resolver.source, resolver.scope, aliases)


def grouped(
    select: exp.Select, resolver: Resolver, items: Sequence[Selected], node: Node, types: TypesOf
) -> tuple[Node, list[Selected], dict[Expr, Obstacle]]:
    """Aggregate, filtered by HAVING; the SELECT list over it; the calls that are not exact."""
    grouping = Grouping(resolver.source, node)
    for key in group_keys(select, resolver, items):
        grouping.add_key(key)
    lifted = [replace(item, tree=grouping.lift(item.tree)) for item in items]
    having = select.args.get("having")
    condition = None
    if having is not None:
        resolved = resolve_having(resolver, having.this, grouping.keys)
        condition = Expr.of(grouping.lift(resolved))
    result = grouping.aggregate(types)
    node = Filter(result, condition) if condition else result
    return node, lifted, grouping.inexact(result)

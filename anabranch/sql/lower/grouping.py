"""GROUP BY, HAVING and aggregate calls: SELECT list → Aggregate and expressions over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column_tree, meaning, unwrapped
from anabranch.plan.nodes import Aggregate, Call, Item, Node
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.groups import Groups
from anabranch.sql.analyze.obstacles import is_aggregate, name_of_call
from anabranch.sql.analyze.resolve import Resolver, resolve_having, resolved
from anabranch.sql.lower.grouping_sets import expand
from anabranch.sql.lower.relation import Names, TypesOf
from anabranch.sql.obstacles import Obstacle, Stop
from anabranch.sql.text.source_text import SourceText

_LONGEST_NAME = 60


def is_grouped(select: exp.Select, trees: Iterable[Tree]) -> bool:
    return bool(
        select.args.get("group")
        or select.args.get("having")
        or any(is_aggregate(node) for tree in trees for node in tree.walk())
    )


@dataclass
class Grouping:
    """Collects the keys and calls of one SELECT, each identified by its meaning."""

    source: SourceText
    input: Node
    keys: dict[str, Item] = field(default_factory=dict)
    calls: dict[str, tuple[Call, Tree]] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    later: frozenset[str] = frozenset()  # columns that replace subqueries over the groups

    def add_key(self, tree: Tree) -> None:
        tree = unwrapped(tree)
        if meaning(tree) not in self.keys:
            expr = Expr.of(tree)
            name = self.names.fresh(
                expr.column or _short(expr.readable, f"key{len(self.keys) + 1}")
            )
            self.keys[meaning(tree)] = Item(name, expr)

    def lift(self, tree: Tree) -> Tree:
        """An expression over input columns as one over the columns of the aggregate."""
        return tree.transform(self._lift)

    def _lift(self, node: Tree) -> Tree:
        key = self.keys.get(meaning(node))
        if key is not None:
            return resolved(key.name)
        if is_aggregate(node):
            return resolved(self._call(node).name)
        if isinstance(node, exp.Column) and node.name not in self.later:
            raise Stop(self.source.obstacle("GROUP_EXPRESSION", node, what=node.name))
        return node

    def _call(self, node: Tree) -> Call:
        entry = self.calls.get(meaning(node))
        if entry is None:
            expr = Expr.of(node)
            name = self.names.fresh(_short(expr.readable, f"call{len(self.calls) + 1}"))
            entry = self.calls[meaning(node)] = (_aggregate_call(name, expr, node), node.copy())
        return entry[0]

    def aggregate(self, types: TypesOf) -> Aggregate:
        """The aggregate; the types of all keys and arguments are looked up at once."""
        keys, calls = list(self.keys.values()), [call for call, _ in self.calls.values()]
        if not keys and not calls:  # SELECT 1 FROM t HAVING true
            calls = [Call("COUNT(*)", Expr("COUNT(*)"), "count")]
        exprs = [key.expr for key in keys] + [call.arg for call in calls if call.arg]
        answers = iter(types(self.input, exprs) if exprs else ())
        typed_keys = tuple(replace(key, type=next(answers)) for key in keys)
        typed = tuple(_typed(call, next(answers)) if call.arg else call for call in calls)
        return Aggregate(self.input, typed_keys, typed)

    def inexact(self, aggregate: Aggregate) -> dict[Expr, Obstacle]:
        """Calls that may not stand below another operator, with their places in the text."""
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


def _aggregate_call(name: str, expr: Expr, node: Tree) -> Call:
    """The call with its function and argument, where they are simple."""
    function = name_of_call(node) or ""
    where = None
    if isinstance(node, exp.Filter):
        where, node = Expr.of(node.expression.this), node.this
    exact = function in functions.EXACT | functions.LISTING | functions.COLLECTING | {"mode"}
    simple = isinstance(node, exp.Anonymous)
    args = list(node.expressions) if simple else []
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        args = args[0].expressions
    if not simple or len(args) != 1:
        first = Expr.of(args[0]) if args and function in functions.SUMS else None
        return Call(name, expr, "", first, where=where, exact=exact)
    arg = None if isinstance(args[0], exp.Star) else Expr.of(args[0])
    call = Call(name, expr, "", arg, where=where, exact=exact)
    if function == "count_if" and not distinct:
        condition = Expr.of(exp.and_(args[0].copy(), where.tree.copy())) if where else arg
        return replace(call, function="count", arg=None, where=condition)
    if function in ("min", "max") or (function in ("count", "sum", "avg", "mean") and not distinct):
        return replace(call, function="avg" if function == "mean" else function)
    return call


def _typed(call: Call, arg_type: str) -> Call:
    name = name_of_call(call.expr.tree)
    exact = call.exact or (
        name in functions.SUMS and arg_type.lower().startswith(functions.ADD_UP_EXACTLY)
    )
    return replace(call, arg_type=arg_type, exact=exact)


@dataclass(frozen=True)
class Grouped:
    """The groups, and the expressions over them."""

    aggregate: Aggregate
    trees: list[Tree]
    having: Tree | None
    inexact: dict[Expr, Obstacle]
    keys: dict[str, str]  # column of the input → the key that is it
    absent: tuple[Expr, ...] | None  # the expressions over no rows, without GROUP BY


def grouped(
    select: exp.Select,
    resolver: Resolver,
    by: Groups,
    trees: Sequence[Tree],
    node: Node,
    types: TypesOf,
    *,
    carried: Sequence[str] = (),
    later: frozenset[str] = frozenset(),
) -> Grouped:
    """The aggregate, and `trees` and HAVING as expressions over it.

    Columns of `carried` are keys of every group; those of `later` stand for subqueries over the
    groups.
    """
    grouping = Grouping(resolver.source, node, later=later)
    having = select.args.get("having")
    condition = None
    if having is not None:
        condition = resolve_having(resolver, having.this)
    trees = list(trees)
    if by.plain:
        for key in by.keys:
            grouping.add_key(key)
    else:
        trees, condition = expand(grouping, by.keys, by.sets, trees, condition, types)
    for name in carried:
        grouping.add_key(column_tree(name))
    lifted = [grouping.lift(tree) for tree in trees]
    if condition is not None:
        condition = grouping.lift(condition)
    result = grouping.aggregate(types)
    one_group = by.plain and not by.keys
    if one_group and carried:
        _refuse_bitmaps(grouping)
    return Grouped(
        result,
        lifted,
        condition,
        grouping.inexact(result),
        {key.expr.column: key.name for key in result.keys if key.expr.column},
        tuple(_over_no_rows(tree, result) for tree in lifted) if one_group else None,
    )


def _refuse_bitmaps(grouping: Grouping) -> None:
    """A bitmap over no rows is not NULL but 4,096 zeros, which a correlated query would have to compute
    for every outer row without a group."""
    for _, tree in grouping.calls.values():
        if (name_of_call(tree) or "").startswith("bitmap_"):
            raise Stop(grouping.source.obstacle("CORRELATION", tree))


def _over_no_rows(tree: Tree, aggregate: Aggregate) -> Expr:
    """The value of an expression over a group without rows: counts are 0, collections are empty,
    everything else is NULL."""
    values = {call.name: _default(name_of_call(call.expr.tree) or "") for call in aggregate.calls}
    return Expr.of(tree).substitute(values)


def _default(function: str) -> Expr:
    if function in functions.COUNTING:
        return Expr("0")
    return Expr("ARRAY()" if function in functions.COLLECTING else "NULL")

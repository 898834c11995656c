"""Window calls: each expression with OVER becomes a column of the plan.

Calls with the same partitions share a node.  Where the order of tied rows would affect the result, the
order is extended by every column that the query uses: rows that still tie are equal, and it does not
matter which comes first.  Except with two orders: which result of the one is combined with which of
the other would be arbitrary.  So the second order is extended by the results of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column_tree, meaning
from anabranch.plan.nodes import Item, Node, Window
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.obstacles import name_of_call
from anabranch.sql.analyze.resolve import resolved
from anabranch.sql.lower.relation import Place, TypesOf
from anabranch.sql.obstacles import Obstacle, Stop
from anabranch.types import Type

_BY_POSITION = frozenset({"row_number", "ntile", "lag", "lead"})  # depend on the order of tied rows
_RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
_FIRST = frozenset({"first", "first_value"})
_LISTS = frozenset("array_agg collect_list collect_set collect_union mode max_by min_by".split())


def named_windows(tree: exp.Select) -> exp.Select:
    """OVER w, expanded."""
    specs = {spec.this.name.lower(): spec for spec in tree.args.get("windows") or ()}
    if not specs:
        return tree
    tree = tree.copy()
    tree.set("windows", None)
    for window in list(tree.find_all(exp.Window)):
        alias = window.args.get("alias")
        spec = specs.get(alias.name.lower()) if alias is not None else None
        if spec is not None:
            for clause in ("partition_by", "order", "spec"):
                value = spec.args.get(clause)
                copied = [tree.copy() for tree in value] if isinstance(value, list) else value
                window.set(clause, copied.copy() if isinstance(copied, exp.Expr) else copied)
            window.set("alias", None)
    return tree


def with_windows(
    node: Node,
    trees: Sequence[Tree],
    place: Place,
    fresh: Callable[[str], str],
    types: TypesOf,
) -> tuple[Node, list[Tree]]:
    """The rows with a column for every window call, and the expressions over these columns."""
    windows: dict[str, tuple[str, exp.Window]] = {}

    def replace(tree_: Tree) -> Tree:
        if not isinstance(tree_, exp.Window):
            return tree_
        key = meaning(tree_)
        if key not in windows:
            windows[key] = (fresh("_ab_win"), tree_)
        return resolved(windows[key][0])

    replaced = [tree.transform(replace) for tree in trees]
    if not windows:
        return node, list(trees)
    used = dict.fromkeys(
        column.name for tree in trees for column in tree.find_all(exp.Column)
    ) | dict.fromkeys(place.carried)
    ties = [name for name in used if name in node.columns]
    calls: list[_Call] = []
    for name, window in windows.values():
        ordered, by_position = _with_total_order(window, ties, place, node, types)
        carried = [column_tree(name_) for name_ in place.carried]
        partition = [*carried, *(ordered.args.get("partition_by") or ())]
        ordered.set("partition_by", [key.copy() for key in partition])
        order = _order(ordered) if by_position else None
        calls.append(_Call(name, ordered, tuple(map(Expr.of, partition)), order))
    return _computed(node, calls, place, types), replaced


@dataclass(frozen=True)
class _Call:
    name: str
    window: exp.Window
    partition: tuple[Expr, ...]
    order: str | None  # if the position of a row among its peers matters


def _computed(node: Node, calls: Sequence[_Call], place: Place, types: TypesOf) -> Node:
    """The rows with the calls as columns, position-dependent calls first."""
    results: list[str] = []
    pending = list(calls)
    while pending:
        first = next((call for call in pending if call.order is not None), pending[0])
        orders = (None, first.order)
        chosen = [
            call for call in pending if call.partition == first.partition and call.order in orders
        ]
        pending = [call for call in pending if call not in chosen]
        positional = [call for call in chosen if call.order is not None]
        for call in positional:
            check_orderable(results, place, node, types, call.window.this)
            _extend_order(call.window, results)
        items = tuple(Item(call.name, Expr.of(call.window)) for call in chosen)
        partition = first.partition
        node = Window(node, partition, items, tuple(types(node, partition) if partition else ()))
        results += [call.name for call in positional]
    return node


def _order(window: exp.Window) -> str:
    order = window.args.get("order")
    return Expr.of(order).text if order is not None else ""


def _extend_order(window: exp.Window, names: Sequence[str]) -> None:
    """Appends columns to the order."""
    for name in names:
        window.args["order"].append(
            "expressions", exp.Ordered(this=column_tree(name), nulls_first=True)
        )


def inexact_calls(node: Node, place: Place, types: TypesOf) -> dict[Expr, Obstacle]:
    """Window calls that add up floating-point numbers: below another operator their old results
    could not be retracted exactly."""
    inexact: dict[Expr, Obstacle] = {}
    while isinstance(node, Window):
        for item in node.calls:
            window = item.expr.tree
            name = name_of_call(window.this) or ""
            if name not in functions.SUMS | functions.INEXACT:
                continue
            args = [node for node in window.this.walk() if isinstance(node, exp.Anonymous)]
            arg = Expr.of(args[0].expressions[0]) if args and args[0].expressions else None
            exact = name in functions.SUMS and arg is not None
            if exact and arg is not None:
                exact = types(node.input, [arg])[0].lower().startswith(functions.ADD_UP_EXACTLY)
            if not exact:
                inexact[item.expr] = place.source.obstacle(
                    "INEXACT_AGGREGATE", window.this, what=name
                )
        node = node.input
    return inexact


def _with_total_order(
    window: exp.Window, ties: Sequence[str], place: Place, node: Node, types: TypesOf
) -> tuple[exp.Window, bool]:
    """The call with a deterministic order, and whether its result differs between equal rows."""
    window = window.copy()
    name = name_of_call(window.this) or ""
    order = window.args.get("order")
    if name in _RANKS:
        return window, False
    spec = window.args.get("spec")
    by_rows = spec is not None and str(spec.args.get("kind") or "").upper() == "ROWS"
    moving = by_rows and spec is not None and not _whole_partition(spec)
    chosen = name in functions.ORDER_DEPENDENT or name == "nth_value"
    if not (name in _BY_POSITION or moving or chosen):
        return window, False
    if order is None:
        if not chosen and not moving:
            return window, False
        raise Stop(place.source.obstacle("ORDER_DEPENDENT_WINDOW", window.this, what=name))
    if chosen and not by_rows and _is_ordered_by_argument(window):
        return window, False
    if chosen and not by_rows and name not in _FIRST:
        raise Stop(place.source.obstacle("ORDER_DEPENDENT_WINDOW", window.this, what=name))
    if name in _LISTS:
        raise Stop(place.source.obstacle("ORDER_DEPENDENT_WINDOW", window.this, what=name))
    check_orderable(ties, place, node, types, window.this)
    ordered = {meaning(key.this) for key in order.expressions}
    _extend_order(window, [name for name in ties if meaning(column_tree(name)) not in ordered])
    return window, True


def check_orderable(
    names: Sequence[str], place: Place, node: Node, types: TypesOf, where: Tree
) -> None:
    """Maps and variants cannot be ordered, so that rows that differ only in them remain tied."""
    exprs = [Expr.of(column_tree(name)) for name in names]
    for name, type_ in zip(names, types(node, exprs) if exprs else (), strict=True):
        if any(nested.name in ("map", "variant") for nested in Type.parse(type_).walk()):
            raise Stop(place.source.obstacle("TIES", where, what=name))


def _whole_partition(spec: Tree) -> bool:
    return (
        str(spec.args.get("start")).upper() == "UNBOUNDED"
        and str(spec.args.get("end")).upper() == "UNBOUNDED"
    )


def _is_ordered_by_argument(window: exp.Window) -> bool:
    """LAST(x) OVER (ORDER BY x): tied rows have the same x."""
    call = window.this
    while not isinstance(call, exp.Anonymous) and isinstance(call.this, exp.Expr):
        call = call.this
    args = getattr(call, "expressions", [])
    ordered = {meaning(key.this) for key in window.args["order"].expressions}
    return bool(args) and meaning(args[0]) in ordered

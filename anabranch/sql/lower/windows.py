"""Window calls: what stands OVER something becomes a column of the plan.

Calls over the same partitions share a node.  Where rows that tie would get an answer by chance, the
order goes on over every column that the query looks at: rows that still tie are equal, and it does
not show which of them comes first.  Unless two orders tell them apart: which answer of the one stands
beside which of the other would be chance.  So the second goes on over the answers of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column_tree, meaning
from anabranch.plan.nodes import Item, Node, Window
from anabranch.sql.analyze import functions
from anabranch.sql.lower.obstacles import name_of_call
from anabranch.sql.lower.relation import Place, Stop, TypesOf
from anabranch.sql.lower.resolve import resolved
from anabranch.sql.lower.support import Obstacle
from anabranch.types import Type

_BY_PLACE = frozenset({"row_number", "ntile", "lag", "lead"})  # depend on the order of tied rows
_RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
_FIRST = frozenset({"first", "first_value"})
_LISTS = frozenset("array_agg collect_list collect_set collect_union mode max_by min_by".split())


def named_windows(tree: exp.Select) -> exp.Select:
    """OVER w written out."""
    specs = {spec.this.name.lower(): spec for spec in tree.args.get("windows") or ()}
    if not specs:
        return tree
    tree = tree.copy()
    tree.set("windows", None)
    for window in list(tree.find_all(exp.Window)):
        alias = window.args.get("alias")
        spec = specs.get(alias.name.lower()) if alias is not None else None
        if spec is not None:
            for part in ("partition_by", "order", "spec"):
                given = spec.args.get(part)
                copied = [each.copy() for each in given] if isinstance(given, list) else given
                window.set(part, copied.copy() if isinstance(copied, exp.Expr) else copied)
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
    found: dict[str, tuple[str, exp.Window]] = {}

    def replace(part: Tree) -> Tree:
        if not isinstance(part, exp.Window):
            return part
        key = meaning(part)
        if key not in found:
            found[key] = (fresh("_ab_win"), part)
        return resolved(found[key][0])

    replaced = [tree.transform(replace) for tree in trees]
    if not found:
        return node, list(trees)
    looked_at = dict.fromkeys(
        each.name for tree in trees for each in tree.find_all(exp.Column)
    ) | dict.fromkeys(place.carried)
    ties = [name for name in looked_at if name in node.columns]
    calls: list[_Call] = []
    for name, window in found.values():
        whole, by_place = _settled(window, ties, place, node, types)
        carried = [column_tree(each) for each in place.carried]
        partition = [*carried, *(whole.args.get("partition_by") or ())]
        whole.set("partition_by", [part.copy() for part in partition])
        order = _order(whole) if by_place else None
        calls.append(_Call(name, whole, tuple(map(Expr.of, partition)), order))
    return _computed(node, calls, place, types), replaced


@dataclass(frozen=True)
class _Call:
    name: str
    window: exp.Window
    partition: tuple[Expr, ...]
    order: str | None  # if the place of a row among its equals shows


def _computed(node: Node, calls: Sequence[_Call], place: Place, types: TypesOf) -> Node:
    """The rows with the calls as columns, those with an order that shows first."""
    told: list[str] = []
    waiting = list(calls)
    while waiting:
        first = next((call for call in waiting if call.order is not None), waiting[0])
        alike = (None, first.order)
        chosen = [c for c in waiting if c.partition == first.partition and c.order in alike]
        waiting = [call for call in waiting if call not in chosen]
        placed = [call for call in chosen if call.order is not None]
        for call in placed:
            check_orderable(told, place, node, types, call.window.this)
            _go_on(call.window, told)
        items = tuple(Item(call.name, Expr.of(call.window)) for call in chosen)
        partition = first.partition
        node = Window(node, partition, items, tuple(types(node, partition) if partition else ()))
        told += [call.name for call in placed]
    return node


def _order(window: exp.Window) -> str:
    order = window.args.get("order")
    return Expr.of(order).text if order is not None else ""


def _go_on(window: exp.Window, names: Sequence[str]) -> None:
    """The order goes on over more columns."""
    for each in names:
        window.args["order"].append(
            "expressions", exp.Ordered(this=column_tree(each), nulls_first=True)
        )


def inexact_calls(node: Node, place: Place, types: TypesOf) -> dict[Expr, Obstacle]:
    """Window calls that add up floating-point numbers: below another operator their old results
    could not be taken back bit by bit."""
    found: dict[Expr, Obstacle] = {}
    while isinstance(node, Window):
        for item in node.calls:
            window = item.expr.tree
            name = name_of_call(window.this) or ""
            if name not in functions.SUMS | functions.INEXACT:
                continue
            args = [part for part in window.this.walk() if isinstance(part, exp.Anonymous)]
            arg = Expr.of(args[0].expressions[0]) if args and args[0].expressions else None
            exact = name in functions.SUMS and arg is not None
            if exact and arg is not None:
                exact = types(node.input, [arg])[0].lower().startswith(functions.ADD_UP_EXACTLY)
            if not exact:
                found[item.expr] = place.source.obstacle(
                    "INEXACT_AGGREGATE", window.this, what=name
                )
        node = node.input
    return found


def _settled(
    window: exp.Window, ties: Sequence[str], place: Place, node: Node, types: TypesOf
) -> tuple[exp.Window, bool]:
    """The call with an order that leaves nothing to chance, and whether it tells equal rows apart."""
    window = window.copy()
    name = name_of_call(window.this) or ""
    order = window.args.get("order")
    if name in _RANKS:
        return window, False
    spec = window.args.get("spec")
    by_rows = spec is not None and str(spec.args.get("kind") or "").upper() == "ROWS"
    moving = by_rows and spec is not None and not _whole_partition(spec)
    chosen = name in functions.ORDER_DEPENDENT or name == "nth_value"
    if not (name in _BY_PLACE or moving or chosen):
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
    ordered = {meaning(each.this) for each in order.expressions}
    _go_on(window, [each for each in ties if meaning(column_tree(each)) not in ordered])
    return window, True


def check_orderable(
    names: Sequence[str], place: Place, node: Node, types: TypesOf, where: Tree
) -> None:
    """Maps and variants have no order, so ties between rows that differ in them stay ties."""
    asked = [Expr.of(column_tree(name)) for name in names]
    for name, type_ in zip(names, types(node, asked) if asked else (), strict=True):
        if any(part.name in ("map", "variant") for part in Type.parse(type_).walk()):
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
    ordered = {meaning(each.this) for each in window.args["order"].expressions}
    return bool(args) and meaning(args[0]) in ordered

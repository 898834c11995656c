"""Asking for some keys only: a semi join moves towards the scans, where it saves reading.

(R ⋈ S) ⋉ K = (R ⋉ K) ⋈ (S ⋉ K)     when R has the keys, and S columns that must equal them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from anabranch.cache import cached
from anabranch.plan.exprs import Expr, column, conjuncts
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Item,
    Join,
    Match,
    Node,
    On,
    Outer,
    Project,
    Semi,
    Top,
    UnionAll,
    Windows,
)


@cached(5_000)
def semi(node: Node, keys: Node, on: On) -> Node:
    """The rows of `node` whose values are among the keys, filtered as low down as it goes."""
    match node:
        case Filter():
            return replace(node, input=semi(node.input, keys, on))
        case Project():
            return replace(node, input=semi(node.input, keys, _below(on, _exprs(node.items))))
        case UnionAll():
            return UnionAll(tuple(semi(part, keys, on) for part in node.parts))
        case Aggregate() if node.keys and _reads_only(on, names := _exprs(node.keys)):
            return replace(node, input=semi(node.input, keys, _below(on, names)))
        case Join():
            return _into_join(node, keys, on)
        case Outer() if not node.full and _reads_only(on, node.left.columns):
            return _into_left(node, keys, on)
        case Match() if _reads_only(on, node.left.columns):
            return _into_left(node, keys, on)
        case Generate() if _reads_only(on, node.input.columns):
            return replace(node, input=semi(node.input, keys, on))
        case Windows() | Top() if node.partition and _among(on, node.partition):
            return replace(node, input=semi(node.input, keys, on))
    return Semi(node, keys, on)


def _into_left(node: Outer | Match, keys: Node, on: On) -> Node:
    """A right row matters only to left rows that it equals."""
    right = _through_equality(node, node.right, on)
    return replace(
        node,
        left=semi(node.left, keys, on),
        right=semi(node.right, keys, right) if right else node.right,
    )


def _among(on: On, partition: Sequence[Expr]) -> bool:
    return all(expr in partition for expr, _ in on)


def _into_join(node: Join, keys: Node, on: On) -> Node:
    owners = [part for part in node.parts if _reads_only(on, part.columns)]
    if not owners:
        return Semi(node, keys, on)
    parts: list[Node] = []
    for part in node.parts:
        mine = on if part in owners else _through_equality(node, part, on)
        parts.append(semi(part, keys, mine) if mine else part)
    return node.with_inputs(parts)


def _through_equality(join: Join | Outer | Match, part: Node, on: On) -> On:
    """`on` in the words of another input, as far as the join condition makes them equal."""
    equal: dict[str, str] = {}
    for condition in conjuncts(join.condition):
        match condition.tree:
            case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
                for mine, other in ((left.name, right.name), (right.name, left.name)):
                    if mine in part.columns:
                        equal.setdefault(other, mine)
    pairs = ((equal.get(expr.column or ""), key) for expr, key in on)
    return tuple((column(name), key) for name, key in pairs if name is not None)


def _exprs(items: Sequence[Item]) -> dict[str, Expr]:
    return {item.name: item.expr for item in items}


def _below(on: On, exprs: Mapping[str, Expr]) -> On:
    return tuple((expr.substitute(exprs), key) for expr, key in on)


def _reads_only(on: On, names: Sequence[str] | Mapping[str, Expr]) -> bool:
    return all(expr.columns <= set(names) for expr, _ in on)

"""GROUPING SETS, ROLLUP and CUBE: one copy of the rows per set, then one aggregate.

γ over sets S₁ … Sₙ of R = γ_{keys, set}( R₁ ∪ … ∪ Rₙ )      Rᵢ: R with the keys outside Sᵢ NULL

The number of the set is a key too, so that a NULL that means "all" never equals one in the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from math import prod
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, cast, literal, meaning, unwrapped
from anabranch.plan.nodes import Item, Node, Project, UnionAll, same_columns
from anabranch.sql.lower.relation import TypesOf
from anabranch.sql.lower.resolve import resolved

MOST_SETS = 64  # CUBE of six keys
Key = Callable[[Tree], Tree]


class TooManySets(Exception):
    """CUBE of n keys has 2ⁿ sets."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} sets")


class Expanded(Protocol):
    """The aggregate under construction: its input and its keys by meaning."""

    input: Node
    keys: dict[str, Item]


def grouping_sets(group: exp.Group, key: Key) -> list[list[Tree]]:
    """Every combination of the sets of each element; an ordinary key is one set."""
    with_clause = {
        kind: group.args.get(kind) for kind in ("rollup", "cube") if group.args.get(kind)
    }
    plain = list(group.expressions)
    if with_clause:  # GROUP BY a, b WITH ROLLUP
        choices = [_sets_of(kind, [[key(tree)] for tree in plain]) for kind in with_clause]
    else:
        choices = [_element(tree, key) for tree in plain]
        for element in group.args.get("grouping_sets") or ():
            choices.append(_element(element, key))
    count = prod(map(len, choices))
    if count > MOST_SETS:
        raise TooManySets(count)
    return [[tree for keys in combination for tree in keys] for combination in product(*choices)]


def _element(tree: Tree, key: Key) -> list[list[Tree]]:
    match tree:
        case exp.Rollup() | exp.Cube():
            kind = "rollup" if isinstance(tree, exp.Rollup) else "cube"
            return _sets_of(kind, [_tuple(group_keys, key) for group_keys in tree.expressions])
        case exp.GroupingSets():
            return [keys for element in tree.expressions for keys in _nested(element, key)]
        case exp.Tuple() if not tree.expressions:
            return [[]]  # GROUP BY (): everything is one group
    return [_tuple(tree, key)]


def _nested(tree: Tree, key: Key) -> list[list[Tree]]:
    if isinstance(tree, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        return _element(tree, key)
    return [_tuple(tree, key)]


def _tuple(tree: Tree, key: Key) -> list[Tree]:
    if isinstance(tree, exp.Tuple):
        return [key(element) for element in tree.expressions]
    return [key(unwrapped(tree))]


def _sets_of(kind: str, elements: list[list[Tree]]) -> list[list[Tree]]:
    if kind == "cube" and 2 ** len(elements) > MOST_SETS:
        raise TooManySets(2 ** len(elements))
    if kind == "rollup":
        subsets = [elements[:size] for size in range(len(elements), -1, -1)]
    else:
        sizes = range(len(elements), -1, -1)
        subsets = [list(subset) for size in sizes for subset in combinations(elements, size)]
    return [[tree for keys in subset for tree in keys] for subset in subsets]


def expand(
    grouping: Expanded,
    keys: Sequence[Tree],
    sets: Sequence[Sequence[Tree]],
    trees: Sequence[Tree],
    having: Tree | None,
    types: TypesOf,
) -> tuple[list[Tree], Tree | None]:
    """Sets the input and keys of the aggregate; returns the expressions with GROUPING() as columns."""
    node = grouping.input
    exprs = [Expr.of(unwrapped(key)) for key in keys]
    types_ = types(node, exprs)
    members = [{meaning(tree) for tree in keys_of_set} for keys_of_set in sets]
    calls = _GroupingCalls([meaning(key) for key in keys], members)
    rewritten = [tree.transform(calls.replace) for tree in trees]
    condition = having.transform(calls.replace) if having is not None else None
    branches = []
    for number, own_keys in enumerate(members):
        items = [
            Item(
                f"_ab_e{i}", expr if meaning(key) in own_keys else cast(Expr("NULL"), type_), type_
            )
            for i, (key, expr, type_) in enumerate(zip(keys, exprs, types_, strict=True))
        ]
        items.append(Item("_ab_set", literal(number), "int"))
        items += [
            Item(name, cast(literal(values[number]), "bigint"))
            for name, values in calls.columns.items()
        ]
        branches.append(Project(node, (*same_columns(node), *items)))
    grouping.input = UnionAll(tuple(branches))
    for i, (key, type_) in enumerate(zip(keys, types_, strict=True)):
        grouping.keys[meaning(key)] = Item(f"_ab_e{i}", Expr.of(resolved(f"_ab_e{i}")), type_)
    for name in ("_ab_set", *calls.columns):
        grouping.keys[meaning(resolved(name))] = Item(name, Expr.of(resolved(name)))
    return rewritten, condition


class _GroupingCalls:
    """The GROUPING() and GROUPING_ID() calls of a query, each a column with a value per set."""

    def __init__(self, keys: list[str], members: Sequence[set[str]]) -> None:
        self.keys, self.members = keys, members
        self.columns: dict[str, tuple[int, ...]] = {}

    def replace(self, node: Tree) -> Tree:
        if not isinstance(node, exp.Anonymous):
            return node
        name = node.name.lower()
        if name not in ("grouping", "grouping_id", "grouping__id"):
            return node
        keys = [meaning(arg) for arg in node.expressions] or self.keys
        if any(key not in self.keys for key in keys):
            raise UserError(f"{name}() takes keys of GROUP BY only")
        values = tuple(self._bits(keys, own_keys) for own_keys in self.members)
        column = f"_ab_g{len(self.columns)}"
        column = next(
            (name_ for name_, known_values in self.columns.items() if known_values == values),
            column,
        )
        self.columns[column] = values
        value = resolved(column)
        kind = "tinyint" if name == "grouping" else "bigint"
        return exp.Cast(this=value, to=exp.DataType.build(kind))

    @staticmethod
    def _bits(keys: Sequence[str], own_keys: set[str]) -> int:
        """1 for a key that is not in the set, the first key highest."""
        return int("".join("0" if key in own_keys else "1" for key in keys), 2)

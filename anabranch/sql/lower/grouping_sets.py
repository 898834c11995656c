"""GROUPING SETS, ROLLUP and CUBE: the rows once for every set, then one aggregate.

γ over sets S₁ … Sₙ of R = γ_{keys, set}( R₁ ∪ … ∪ Rₙ )      Rᵢ: R with the keys outside Sᵢ NULL

The number of the set is a key too, so that a NULL that means "all" is never one of the data.
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
    """The aggregate being made: its input and its keys by meaning."""

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
        for listed in group.args.get("grouping_sets") or ():
            choices.append(_element(listed, key))
    count = prod(map(len, choices))
    if count > MOST_SETS:
        raise TooManySets(count)
    return [[tree for part in parts for tree in part] for parts in product(*choices)]


def _element(tree: Tree, key: Key) -> list[list[Tree]]:
    match tree:
        case exp.Rollup() | exp.Cube():
            kind = "rollup" if isinstance(tree, exp.Rollup) else "cube"
            return _sets_of(kind, [_tuple(each, key) for each in tree.expressions])
        case exp.GroupingSets():
            return [each for part in tree.expressions for each in _nested(part, key)]
        case exp.Tuple() if not tree.expressions:
            return [[]]  # GROUP BY (): everything is one group
    return [_tuple(tree, key)]


def _nested(tree: Tree, key: Key) -> list[list[Tree]]:
    if isinstance(tree, (exp.Rollup, exp.Cube, exp.GroupingSets)):
        return _element(tree, key)
    return [_tuple(tree, key)]


def _tuple(tree: Tree, key: Key) -> list[Tree]:
    if isinstance(tree, exp.Tuple):
        return [key(each) for each in tree.expressions]
    return [key(unwrapped(tree))]


def _sets_of(kind: str, parts: list[list[Tree]]) -> list[list[Tree]]:
    if kind == "cube" and 2 ** len(parts) > MOST_SETS:
        raise TooManySets(2 ** len(parts))
    if kind == "rollup":
        chosen = [parts[:size] for size in range(len(parts), -1, -1)]
    else:
        sizes = range(len(parts), -1, -1)
        chosen = [list(each) for size in sizes for each in combinations(parts, size)]
    return [[tree for part in each for tree in part] for each in chosen]


def expand(
    grouping: Expanded,
    keys: Sequence[Tree],
    sets: Sequence[Sequence[Tree]],
    trees: Sequence[Tree],
    having: Tree | None,
    types: TypesOf,
) -> tuple[list[Tree], Tree | None]:
    """Gives the aggregate its input and keys; the expressions come back with GROUPING() as columns."""
    node = grouping.input
    exprs = [Expr.of(unwrapped(key)) for key in keys]
    known = types(node, exprs)
    members = [{meaning(tree) for tree in each} for each in sets]
    asked = _Asked([meaning(key) for key in keys], members)
    rewritten = [tree.transform(asked.replace) for tree in trees]
    condition = having.transform(asked.replace) if having is not None else None
    branches = []
    for number, mine in enumerate(members):
        items = [
            Item(f"_ab_e{i}", expr if meaning(key) in mine else cast(Expr("NULL"), type_), type_)
            for i, (key, expr, type_) in enumerate(zip(keys, exprs, known, strict=True))
        ]
        items.append(Item("_ab_set", literal(number), "int"))
        items += [
            Item(name, cast(literal(values[number]), "bigint"))
            for name, values in asked.columns.items()
        ]
        branches.append(Project(node, (*same_columns(node), *items)))
    grouping.input = UnionAll(tuple(branches))
    for i, (key, type_) in enumerate(zip(keys, known, strict=True)):
        grouping.keys[meaning(key)] = Item(f"_ab_e{i}", Expr.of(resolved(f"_ab_e{i}")), type_)
    for name in ("_ab_set", *asked.columns):
        grouping.keys[meaning(resolved(name))] = Item(name, Expr.of(resolved(name)))
    return rewritten, condition


class _Asked:
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
        values = tuple(self._bits(keys, mine) for mine in self.members)
        column = f"_ab_g{len(self.columns)}"
        column = next((old for old, known in self.columns.items() if known == values), column)
        self.columns[column] = values
        found = resolved(column)
        kind = "tinyint" if name == "grouping" else "bigint"
        return exp.Cast(this=found, to=exp.DataType.build(kind))

    @staticmethod
    def _bits(keys: Sequence[str], mine: set[str]) -> int:
        """1 for a key that is not in the set, the first key highest."""
        return int("".join("0" if key in mine else "1" for key in keys), 2)

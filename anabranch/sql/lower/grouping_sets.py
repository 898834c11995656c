"""GROUPING SETS, ROLLUP and CUBE: one copy of the rows per set, then one aggregate.

γ over sets S₁ … Sₙ of R = γ_{keys, set}( R₁ ∪ … ∪ Rₙ )      Rᵢ: R with the keys outside Sᵢ NULL

The number of the set is a key too, so that a NULL that means "all" never equals one in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, cast, literal, meaning, unwrapped
from anabranch.plan.nodes import Item, Node, Project, UnionAll, same_columns
from anabranch.sql.analyze.resolve import resolved
from anabranch.sql.lower.relation import TypesOf


class Expanded(Protocol):
    """The aggregate under construction: its input and its keys by meaning."""

    input: Node
    keys: dict[str, Item]


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

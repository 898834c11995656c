"""GROUP BY as written: its keys, and the grouping sets of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Tree, meaning, unwrapped
from anabranch.sql.analyze.obstacles import is_aggregate
from anabranch.sql.analyze.resolve import Resolver, Selected
from anabranch.sql.obstacles import Stop

MOST_SETS = 64  # CUBE of six keys
Key = Callable[[Tree], Tree]


class TooManySets(Exception):
    """CUBE of n keys has 2ⁿ sets."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} sets")


@dataclass
class Groups:
    """GROUP BY as written: its keys, and grouping sets of them."""

    keys: list[Tree]
    sets: list[list[Tree]]

    @property
    def plain(self) -> bool:
        return len(self.sets) == 1


def groups(select: exp.Select, resolver: Resolver, items: Sequence[Selected]) -> Groups:
    """The expressions of GROUP BY: ordinals, input columns, aliases; ALL: items without aggregates."""
    group = select.args.get("group")
    if group is None:
        return Groups([], [[]])
    if group.args.get("all"):
        keys = [item.tree for item in items if not any(map(is_aggregate, item.tree.walk()))]
        return Groups(keys, [keys])
    aliased = _by_name(resolver, items)

    def key(tree: Tree) -> Tree:
        return _ordinal(tree, items) or aliased.resolve(tree.copy())

    try:
        sets = grouping_sets(group, key)
    except TooManySets as error:
        raise Stop(
            resolver.source.obstacle("GROUPING_SETS", group, "CUBE", "GROUP BY", what=str(error))
        ) from None
    unique = {meaning(tree): tree for set_ in sets for tree in set_}
    return Groups(list(unique.values()), sets)


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
    return replace(resolver, aliases=aliases)


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

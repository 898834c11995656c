"""Whether a query can contain values of types whose equality Anabranch may not rely on."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from anabranch.plan.exprs import Tree
from anabranch.plan.sameness import sameness
from anabranch.sql.analyze import functions


def may_have_other_types(trees: Iterable[Tree]) -> bool:
    """Whether a query contains anything of a type that no table can have.

    Only functions known to be Spark's own get here, so that the list of those is complete.
    """
    return any(_is_other(node) for tree in trees for node in tree.walk())


def _is_other(node: Tree) -> bool:
    match node:
        case exp.Collate():
            return True
        case exp.DataType():
            return not sameness(node.sql("spark")).makes_keys
        case exp.Anonymous():
            return node.name.lower() in functions.OTHER_TYPES
    return False

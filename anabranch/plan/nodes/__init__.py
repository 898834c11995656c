"""The nodes of a plan: frozen and checked when made, so that a wrong plan cannot be built.

Scan · OneRow · Parameter · RecursiveRef                 leaves
Filter · Project · Aggregate · Window · TopK · Generate  one input
Outer · SemiJoin · AntiJoin · MarkJoin · Difference      two inputs, used in different ways
KeyFilter                                                one input, and a relation of keys
ReducedScan                                              one input, and any number of key relations
Join · UnionAll                                          many inputs
Recursive                                                a seed, and a step that is iterated

Column names are unique inside a node; a node's expressions refer to columns of its inputs.  What the
rest of the engine needs to know of a node stands beside it, as traits (see base.py): a new operator is
its file, its delta rule, and one line where the rules are imported.
"""

from __future__ import annotations

from anabranch.plan.nodes.aggregate import Aggregate
from anabranch.plan.nodes.base import (
    WEIGHT,
    Call,
    Candidates,
    Clause,
    Item,
    Node,
    On,
    Order,
    Origin,
    OverOne,
    OverTwo,
    Sql,
    Version,
    items_of,
    passed_on,
    same_columns,
)
from anabranch.plan.nodes.existence import AntiJoin, ExistenceJoin, MarkJoin, SemiJoin
from anabranch.plan.nodes.filter import Filter
from anabranch.plan.nodes.generate import Generate
from anabranch.plan.nodes.join import Join
from anabranch.plan.nodes.keys import KeyFilter, ReducedScan
from anabranch.plan.nodes.leaves import OneRow, Parameter, Scan
from anabranch.plan.nodes.outer import Outer
from anabranch.plan.nodes.project import Project
from anabranch.plan.nodes.recursive import Difference, Recursive, RecursiveRef
from anabranch.plan.nodes.union_all import UnionAll
from anabranch.plan.nodes.window import TopK, Window

__all__ = [
    "WEIGHT",
    "Aggregate",
    "AntiJoin",
    "Call",
    "Candidates",
    "Clause",
    "Difference",
    "ExistenceJoin",
    "Filter",
    "Generate",
    "Item",
    "Join",
    "KeyFilter",
    "MarkJoin",
    "Node",
    "On",
    "OneRow",
    "Order",
    "Origin",
    "Outer",
    "OverOne",
    "OverTwo",
    "Parameter",
    "Project",
    "Recursive",
    "RecursiveRef",
    "ReducedScan",
    "Scan",
    "SemiJoin",
    "Sql",
    "TopK",
    "UnionAll",
    "Version",
    "Window",
    "items_of",
    "passed_on",
    "same_columns",
]

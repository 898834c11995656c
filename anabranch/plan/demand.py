"""Which columns an operator needs, and by which of its inputs it may lose rows.

A mark, the result of an EXISTS or IN, only ever turns from false to true when the subquery gains rows.
It may be read where only its truth matters: as a condition, below AND and OR.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp


class Operator(Enum):
    """Where a member of a cycle may not be read; the value is how users see it."""

    AGGREGATE = "below an aggregate"
    WINDOW = "below a window function"
    LIMIT = "below LIMIT"
    EXCEPT = "on the right side of EXCEPT"
    OUTER = "on the nullable side of an outer join"
    ABSENT = "inside NOT EXISTS or NOT IN"
    VALUE = "in EXISTS or IN inside an expression"
    OTHER = "below an operator that may lose rows when its input gains some"


@dataclass(frozen=True)
class Demand:
    """The columns that are needed: the values of some, of the others only whether they are true."""

    values: frozenset[str] = frozenset()
    truth: frozenset[str] = frozenset()

    def __or__(self, other: Demand) -> Demand:
        return Demand(self.values | other.values, self.truth | other.truth)


def truth_demand(tree: exp.Expr) -> Demand:
    """What an expression needs of its columns when only its truth matters.

    true(a AND b) = true(a) ∧ true(b)        true(CASE WHEN a THEN TRUE ELSE b END) = true(a) ∨ true(b)
    """
    match tree:
        case exp.Paren():
            return truth_demand(tree.this)
        case exp.And() | exp.Or():
            return truth_demand(tree.this) | truth_demand(tree.expression)
        case exp.Column():
            return Demand(truth=frozenset({tree.name}))
        case exp.Case(this=None) if (demand := _case_truth_demand(tree)) is not None:
            return demand
    return Demand(values=frozenset(node.name for node in tree.find_all(exp.Column)))


def _case_truth_demand(case: exp.Case) -> Demand | None:
    """CASE WHEN a THEN TRUE ELSE b END; a CASE that is never true needs nothing."""
    otherwise = case.args.get("default") or exp.null()
    values = [branch.args["true"] for branch in case.args["ifs"]]
    if all(map(_never_true, (*values, otherwise))):
        return Demand()
    if not all(isinstance(value, exp.Boolean) and value.this for value in values):
        return None
    demand = Demand() if _never_true(otherwise) else truth_demand(otherwise)
    for branch in case.args["ifs"]:
        demand |= truth_demand(branch.this)
    return demand


def _never_true(tree: exp.Expr) -> bool:
    tree = tree.this if isinstance(tree, (exp.Paren, exp.Cast)) else tree
    if isinstance(tree, exp.Case):
        demand = _case_truth_demand(tree)
        return demand is not None and demand == Demand()
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Boolean) and not tree.this)

"""What an operator asks of its columns, and by which inputs it may lose rows.

A mark, the answer of an EXISTS or IN, only ever turns true when the rows it asks for grow.  It may be
asked for where nothing else about it shows than that: as a condition, below AND and OR.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp


class Operator(Enum):
    """Where a member may not be read; the value is how people call it."""

    AGGREGATE = "below an aggregate"
    WINDOW = "below a window function"
    LIMIT = "below LIMIT"
    EXCEPT = "on the right side of EXCEPT"
    OUTER = "on the nullable side of an outer join"
    ABSENT = "inside NOT EXISTS or NOT IN"
    VALUE = "in EXISTS or IN inside of an expression"
    OTHER = "below an operator that more rows may take rows from"


@dataclass(frozen=True)
class Asked:
    """Columns by what is asked of them: `shown` their values, the others at most if they are true."""

    shown: frozenset[str] = frozenset()
    true: frozenset[str] = frozenset()

    def __or__(self, other: Asked) -> Asked:
        return Asked(self.shown | other.shown, self.true | other.true)


def if_true(tree: exp.Expr) -> Asked:
    """What an expression asks of its columns when all that matters is whether it is true.

    true(a AND b) = true(a) ∧ true(b)        true(CASE WHEN a THEN TRUE ELSE b END) = true(a) ∨ true(b)
    """
    match tree:
        case exp.Paren():
            return if_true(tree.this)
        case exp.And() | exp.Or():
            return if_true(tree.this) | if_true(tree.expression)
        case exp.Column():
            return Asked(true=frozenset({tree.name}))
        case exp.Case(this=None) if (found := _case_if_true(tree)) is not None:
            return found
    return Asked(shown=frozenset(part.name for part in tree.find_all(exp.Column)))


def _case_if_true(case: exp.Case) -> Asked | None:
    """CASE WHEN a THEN TRUE ELSE b END; a CASE that is never true asks for nothing."""
    otherwise = case.args.get("default") or exp.null()
    values = [each.args["true"] for each in case.args["ifs"]]
    if all(map(_never_true, (*values, otherwise))):
        return Asked()
    if not all(isinstance(value, exp.Boolean) and value.this for value in values):
        return None
    found = Asked() if _never_true(otherwise) else if_true(otherwise)
    for each in case.args["ifs"]:
        found |= if_true(each.this)
    return found


def _never_true(tree: exp.Expr) -> bool:
    tree = tree.this if isinstance(tree, (exp.Paren, exp.Cast)) else tree
    if isinstance(tree, exp.Case):
        found = _case_if_true(tree)
        return found is not None and found == Asked()
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Boolean) and not tree.this)

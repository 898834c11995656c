"""The name of an item of a SELECT list without AS."""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import functions


def implied_name(item: Tree) -> tuple[str, bool]:
    """The name, and whether it is surely Spark's: False for one that is made up of the expression."""
    match item:
        case exp.Column():
            return item.name, True
        case exp.Dot(expression=exp.Identifier()):
            return item.expression.name, False
        case exp.Anonymous() if item.name.lower() in functions.TIME_WINDOWS:
            return item.name.lower(), True
        case exp.Cast(this=exp.Column()) if len(item.this.parts) == 1:
            return item.this.name, True
    return item.sql("spark").lower(), False

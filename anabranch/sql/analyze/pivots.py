"""PIVOT and UNPIVOT: the columns that they pass on, and the names of those that they make."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze.bindings import Outputs, answering_fields
from anabranch.sql.analyze.scope import Scope


def outputs(pivot: exp.Pivot, scope: Scope) -> Outputs | None:
    """None: a form that only Spark knows.  The names in it are bound to columns of `scope`."""
    (in_list,) = pivot.args.get("fields") or (None,)
    if not isinstance(in_list, exp.In):
        return None
    if pivot.args.get("unpivot"):
        used = set(answering_fields(in_list))
        made = (in_list.this.name, *(tree.name for tree in parts(pivot.expressions[0])))
    else:
        used = {
            name for tree in (in_list.this, *pivot.expressions) for name in answering_fields(tree)
        }
        made = tuple(_made(pivot, in_list))
    passed = tuple(each for each in scope.star() if each.column not in used)
    return Outputs(scope.fields, passed, made)


def _made(pivot: exp.Pivot, in_list: exp.In) -> Iterator[str]:
    for value in in_list.expressions:
        label, _ = labelled(value)
        for expression in pivot.expressions:
            name = expression.alias or expression.sql("spark").lower()
            yield label if len(pivot.expressions) == 1 else f"{label}_{name}"


def parts(tree: Tree) -> list[Tree]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [unwrapped(tree)]


def labelled(value: Tree) -> tuple[str, Tree]:
    """The prefix of a value's output columns, and the value."""
    if isinstance(value, exp.PivotAlias):
        return value.args["alias"].name, value.this
    if isinstance(value, exp.Tuple):
        return f"{{{', '.join(_text(part) for part in value.expressions)}}}", value
    return _text(value), value


def _text(value: Tree) -> str:
    """A literal as Spark writes it in a column name: DATE '2024-01-31' without the quotes."""
    inner = value.this if isinstance(value, exp.Cast) else value
    return inner.name if isinstance(inner, exp.Literal) else value.sql("spark").lower()

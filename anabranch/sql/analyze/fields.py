"""STRUCT(a, t.b), (a, b), ARRAYS_ZIP(a, b): Spark names the fields after the written arguments, which
are not the column names of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.plan.exprs import Tree, identifier

_ROW = "_ab_e"


def field_name(tree: Tree) -> str | None:
    """The name that an argument gives its field; without one the field is named by its position."""
    match tree:
        case exp.Alias():
            return tree.alias
        case exp.Column():
            return tree.name
        case exp.Dot(expression=exp.Identifier()):
            return str(tree.expression.name)
        case exp.Bracket(expressions=[exp.Literal(is_string=True)]):
            return str(tree.expressions[0].name)
    return None


def struct(values: Sequence[tuple[str | None, Tree]]) -> exp.Anonymous:
    """STRUCT(value AS name, …)"""
    fields = [
        exp.alias_(value.copy(), name or f"col{position}", quoted=True)
        for position, (name, value) in enumerate(values, 1)
    ]
    return exp.Anonymous(this="STRUCT", expressions=fields)


def zipped(values: Sequence[tuple[str | None, Tree]]) -> Tree:
    """ARRAYS_ZIP with its fields renamed: an argument that is no column is named by its position."""
    if not any(name for name, _ in values):
        return exp.Anonymous(this="ARRAYS_ZIP", expressions=[value for _, value in values])
    arrays = [exp.Anonymous(this="COALESCE", expressions=[value]) for _, value in values]
    row = exp.Identifier(this=_ROW, quoted=False)
    fields = [
        (name or str(position), exp.Dot(this=row.copy(), expression=identifier(str(position))))
        for position, (name, _) in enumerate(values)
    ]
    renamed = exp.Lambda(this=struct(fields), expressions=[row])
    return exp.Anonymous(
        this="TRANSFORM",
        expressions=[exp.Anonymous(this="ARRAYS_ZIP", expressions=arrays), renamed],
    )

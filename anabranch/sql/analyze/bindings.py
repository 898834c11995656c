"""What the analysis finds out about the names of a query, kept beside the nodes of its tree.

Whoever makes a plan of the query reads it there, and resolves no name a second time.  Copies of a
tree keep what is bound to its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Tree
from anabranch.sql.analyze.scope import Answer, Field, Meaning, Using

_MEANING = "meaning"
_CTE = "cte"
_GENERATOR = "generator"


@dataclass(frozen=True)
class Outputs:
    """The columns before a PIVOT, those that it passes on, and the names of those that it makes."""

    before: tuple[Field, ...]
    passed: tuple[Field, ...]
    made: tuple[str, ...]


@dataclass(frozen=True)
class _Shared:
    """A value that the copies of a node share."""

    value: Any

    def __deepcopy__(self, memo: object) -> _Shared:
        return self


def _bind(node: Tree, value: object) -> None:
    node.meta[_MEANING] = _Shared(value)


def _bound(node: Tree) -> Any:
    shared = node.meta.get(_MEANING)
    return shared.value if shared is not None else None


def bind_column(node: exp.Column, meaning: Meaning | None) -> None:
    """Columns of the nearest FROM clause that knows the name, or an item of the SELECT list; None:
    nothing."""
    _bind(node, meaning)


def meaning_of(node: exp.Column) -> Meaning | None:
    meaning: Meaning | None = _bound(node)
    return meaning


def answer_of(node: exp.Column) -> Answer | None:
    """The columns of a FROM clause that a name means."""
    meaning = meaning_of(node)
    return meaning if isinstance(meaning, Answer) else None


def bind_fields(node: Tree, fields: tuple[Field, ...] | None) -> None:
    """Of a star, and of a FROM item: its columns."""
    _bind(node, fields)


def fields_of(node: Tree) -> tuple[Field, ...] | None:
    """None: nobody knows them without Spark."""
    fields: tuple[Field, ...] | None = _bound(node)
    return fields


def bind_cte(node: exp.Table, cte: exp.CTE | None) -> None:
    """None: the name is that of a table or view."""
    node.meta[_CTE] = _Shared(cte)


def bound_cte(node: exp.Table) -> exp.CTE | None:
    """The CTE itself, not a copy of it: two mentions of a name mean the same one."""
    shared = node.meta.get(_CTE)
    cte: exp.CTE | None = shared.value if shared is not None else None
    return cte


def bind_using(node: exp.Join, using: Using | UserError | None) -> None:
    _bind(node, using)


def using_of(node: exp.Join) -> Using | None:
    using: Using | UserError | None = _bound(node)
    if isinstance(using, UserError):
        raise using
    return using


def bind_outputs(node: exp.Pivot, outputs: Outputs | None) -> None:
    _bind(node, outputs)


def outputs_of(node: exp.Pivot) -> Outputs | None:
    outputs: Outputs | None = _bound(node)
    return outputs


def bind_names(call: Tree, names: tuple[str, ...] | None) -> None:
    """Of the columns that a generator makes."""
    _bind(call, names)


def generated_names(call: Tree) -> tuple[str, ...] | None:
    names: tuple[str, ...] | None = _bound(call)
    return names


def number_generator(call: Tree, number: int) -> int:
    """The number of a generator, which it keeps when the query is analyzed again."""
    return int(call.meta.setdefault(_GENERATOR, number))


def generator_number(call: Tree) -> int:
    return int(call.meta[_GENERATOR])


def answering_fields(tree: Tree) -> Iterator[str]:
    """The columns of FROM clauses, of the query or those around it, that the names in a tree mean."""
    for node in tree.find_all(exp.Column):
        answer = answer_of(node)
        if answer is not None:
            yield from answer.columns

"""What a query means, as one short text.

Equal fingerprints: the same columns, visible and hidden, computed in the same way from the same
columns of the same tables.  A plan says that without the columns nobody looks at, without layout,
comments and the texts of views.  A query that has no plan is taken by its text and reads every column.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import (
    Aggregate,
    Call,
    ExistenceJoin,
    Filter,
    Item,
    Join,
    Node,
    Outer,
    Project,
    Scan,
)

Names = frozenset[str]


def fingerprint(
    meaning: Any, columns: Columns, hidden: Columns, tables: Mapping[TableName, Columns]
) -> str:
    """`meaning` is a plan, or what `texts` gives."""
    facts = {
        "format": 2,  # as catalogs have it: `edition` notices other plans
        "meaning": Spelling(tables).plan(meaning) if isinstance(meaning, Node) else meaning,
        "columns": [(column.name, column.type) for column in columns],
        "hidden": [(column.name, column.type) for column in hidden],
    }
    text = json.dumps(facts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def texts(query: str, tables: Mapping[TableName, Columns], views: Mapping[TableName, str]) -> Any:
    """The meaning of a query that has no plan."""
    return {
        "query": query.strip(),
        "views": sorted((str(name), text.strip()) for name, text in views.items()),
        "tables": sorted(
            (str(name), [_column(column) for column in found]) for name, found in tables.items()
        ),
    }


@dataclass(frozen=True)
class Spelling:
    """Plans as lists and texts, their scans with the columns that somebody above looks at."""

    tables: Mapping[TableName, Columns]

    def plan(self, node: Node) -> Any:
        return self.node(node, frozenset(node.columns))

    def node(self, node: Node, needed: Names) -> Any:
        own = self.fields(node)
        match node:
            case Scan():
                known = {column.name: column for column in self.tables[node.table]}
                own["names"] = [_column(known[name]) for name in sorted(needed)]
            case Project():
                # A relation of which only the rows are counted passes some column on all the same;
                # and inside a plan the order of columns, as of those in a table, means nothing.
                kept = sorted((i for i in node.items if i.name in needed), key=lambda i: i.name)
                own["items"] = self.plain(kept)
                needed = _used(kept)
            case Filter() | Join() | Outer() | ExistenceJoin() | Aggregate():
                needed = frozenset[str]().union(*filter(None, node.uses(needed)))
            case _:
                needed = frozenset(name for part in node.inputs for name in part.columns)
        below = [self.node(part, needed & frozenset(part.columns)) for part in node.inputs]
        return [node.spelled or type(node).__name__, {**own, **node.facts}, below]

    def fields(self, part: Any) -> dict[str, Any]:
        """What is not as always, so that nothing changes where a new field is not used."""
        inputs = part.inputs if isinstance(part, Node) else ()
        found = {each.name: (getattr(part, each.name), each.default) for each in fields(part)}
        return {
            name: self.plain(value)
            for name, (value, usual) in found.items()
            if value != usual and value != inputs and not any(value is each for each in inputs)
        }

    def plain(self, value: Any) -> Any:
        match value:
            case Node():
                return self.plan(value)
            case Expr():
                return value.text
            case TableName():
                return str(value)
            case Enum():
                return value.value
            case list() | tuple():
                return [self.plain(each) for each in value]
            case frozenset():
                return sorted(self.plain(each) for each in value)
        return self.fields(value) if is_dataclass(value) else value


def _used(items: Iterable[Item | Call]) -> Names:
    return frozenset().union(*(item.expr.columns for item in items))


def _column(column: Column) -> Any:
    """A column dropped and made again under its name is another one."""
    return (column.name, column.field_id, column.type, sorted(column.nested.items()))

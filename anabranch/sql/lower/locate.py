"""Locates, in the text of a query, the operator that a table is read below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.demand import Operator
from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze.ctes import cte_of, mentions, tables_in
from anabranch.sql.analyze.obstacles import is_aggregate, mark_window_calls
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class LocatedOperator:
    """An operator in a text, by its offset."""

    operator: Operator
    source: SourceText
    start: int


def locate_operator(reach: Reach, table: TableName, operator: Operator) -> LocatedOperator:
    """The operator; the name of the table if it cannot be located.

    NOT IN is a value in the plan, because of NULLs, but not to the person who wrote it.
    """
    if operator is Operator.VALUE:
        absent = _locate(reach, table, Operator.ABSENT)
        if absent is not None:
            return absent
    return _locate(reach, table, operator) or _locate_name(reach, table, operator)


def _locate_name(reach: Reach, table: TableName, operator: Operator) -> LocatedOperator:
    readers = _reading_views(reach, table)
    for source in reach.texts:
        for reference in _references(source, reach, {table, *readers}):
            return LocatedOperator(operator, source, source.start(reference))
    return LocatedOperator(operator, reach.texts[0], 0)


def _locate(reach: Reach, table: TableName, operator: Operator) -> LocatedOperator | None:
    readers = _reading_views(reach, table)
    for source in reach.texts:
        mark_window_calls(source.tree)
        for reference in _references(source, reach, {table, *readers}):
            offset = _locate_above(source, reference, operator, source.start(reference))
            if offset is not None:
                return LocatedOperator(operator, source, offset)
    return None


def _reading_views(reach: Reach, table: TableName) -> set[TableName]:
    views: set[TableName] = set()
    while True:
        reading = {
            source.view
            for source in reach.texts
            if source.view is not None
            and any(
                _reads(reference, reach, {table, *views}) for reference in tables_in(source.tree)
            )
        }
        if reading <= views:
            return views
        views |= reading


def _reads(table: exp.Table, reach: Reach, names: set[TableName]) -> bool:
    name = TableName.of(*(part.name for part in table.parts))
    parts = tuple(part.lower() for part in name.parts)
    return reach.names.get(parts) in names


def _references(source: SourceText, reach: Reach, names: set[TableName]) -> Iterator[exp.Table]:
    """The references to the table by name or through a view, then those to CTEs that read it."""
    direct = [reference for reference in tables_in(source.tree) if _reads(reference, reach, names)]
    yield from direct
    cte_references = [
        (reference, cte)
        for reference in mentions(source.tree)
        if (cte := cte_of(reference)) is not None
    ]
    reading_ctes = {id(reference.find_ancestor(exp.CTE)) for reference in direct}
    for _ in cte_references:  # a CTE may be read by another
        reading_ctes |= {
            id(reference.find_ancestor(exp.CTE))
            for reference, cte in cte_references
            if id(cte) in reading_ctes
        }
    yield from (reference for reference, cte in cte_references if id(cte) in reading_ctes)


def _locate_above(
    source: SourceText, reference: exp.Table, operator: Operator, start: int
) -> int | None:
    child: Tree = reference
    while (parent := child.parent) is not None and not isinstance(child, exp.CTE):
        offset = _offset_of(source, parent, child, operator, start)
        if offset is not None:
            return offset
        child = parent
    return None


def _offset_of(
    source: SourceText, parent: Tree, child: Tree, operator: Operator, start: int
) -> int | None:
    match operator, parent:
        case Operator.AGGREGATE, exp.Select():
            return _aggregate_offset(source, parent, start)
        case Operator.WINDOW, exp.Select():
            windows = [call for tree in _select_list(parent) for call in tree.find_all(exp.Window)]
            return source.start(windows[0]) if windows else None
        case Operator.LIMIT, exp.Query() if parent.args.get("limit") or parent.args.get("offset"):
            return _next_keyword(source, start, "LIMIT", "OFFSET")
        case Operator.EXCEPT, exp.Except() if child is parent.expression:
            return source.keyword(source.start(child), ("EXCEPT", "MINUS"))
        case Operator.OUTER, exp.Join() if parent.side.upper() in ("LEFT", "FULL"):
            return source.keyword(source.start(parent.this), (parent.side.upper(),))
        case Operator.OUTER, exp.Select():
            return _outer_join_offset(source, parent, child)
        case Operator.ABSENT, exp.Not() if _is_membership(unwrapped(parent.this)):
            return _previous_keyword(source, start, "NOT")
        case Operator.ABSENT, exp.Join() if parent.kind.upper() == "ANTI":
            return source.keyword(source.start(parent.this), ("ANTI",))
        case Operator.VALUE, exp.Exists() | exp.In() | exp.Binary():
            return source.start(parent)
    return None


def _select_list(select: exp.Select) -> list[Tree]:
    qualify = select.args.get("qualify")
    return [*select.expressions, *([qualify] if qualify else [])]


def _aggregate_offset(source: SourceText, select: exp.Select, start: int) -> int | None:
    if select.args.get("group"):
        return _next_keyword(source, start, "GROUP")
    calls = [node for item in select.expressions for node in item.walk() if is_aggregate(node)]
    return source.start(calls[0]) if calls else None


def _outer_join_offset(source: SourceText, select: exp.Select, child: Tree) -> int | None:
    """RIGHT and FULL joins make the items before them nullable."""
    joins = select.args.get("joins") or []
    first = joins.index(child) + 1 if child in joins else 0
    for join in joins[first:]:
        if join.side.upper() in ("RIGHT", "FULL"):
            return source.keyword(source.start(join.this), (join.side.upper(),))
    return None


def _is_membership(tree: Tree) -> bool:
    return isinstance(tree, (exp.Exists, exp.In))


def _next_keyword(source: SourceText, start: int, *words: str) -> int | None:
    following = (token for token in source.tokens if token.start >= start)
    return next((token.start for token in following if token.text.upper().startswith(words)), None)


def _previous_keyword(source: SourceText, start: int, *words: str) -> int | None:
    preceding = (token for token in reversed(source.tokens) if token.start <= start)
    return next((token.start for token in preceding if token.text.upper().startswith(words)), None)

"""Where in a query's text the operator stands that a table is read below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.demand import Operator
from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze.ctes import cte_of, mentions, tables_in
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.lower.obstacles import is_aggregate, mark_window_calls
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class Below:
    """An operator in a text, by its offset."""

    operator: Operator
    source: SourceText
    start: int


def place_below(reach: Reach, table: TableName, operator: Operator) -> Below:
    """The operator; the table's name, if the operator is not found.

    NOT IN is a value to the plan, because of NULLs, and something else to people.
    """
    if operator is Operator.VALUE:
        absent = _found(reach, table, Operator.ABSENT)
        if absent is not None:
            return absent
    return _found(reach, table, operator) or _named(reach, table, operator)


def _named(reach: Reach, table: TableName, operator: Operator) -> Below:
    readers = _views_that_read(reach, table)
    for source in reach.texts:
        for reference in _references(source, reach, {table, *readers}):
            return Below(operator, source, source.start(reference))
    return Below(operator, reach.texts[0], 0)


def _found(reach: Reach, table: TableName, operator: Operator) -> Below | None:
    readers = _views_that_read(reach, table)
    for source in reach.texts:
        mark_window_calls(source.tree)
        for reference in _references(source, reach, {table, *readers}):
            at = _operator(source, reference, operator, source.start(reference))
            if at is not None:
                return Below(operator, source, at)
    return None


def _views_that_read(reach: Reach, table: TableName) -> set[TableName]:
    found: set[TableName] = set()
    while True:
        more = {
            source.view
            for source in reach.texts
            if source.view is not None
            and any(_reads(each, reach, {table, *found}) for each in tables_in(source.tree))
        }
        if more <= found:
            return found
        found |= more


def _reads(table: exp.Table, reach: Reach, wanted: set[TableName]) -> bool:
    asked = TableName.of(*(part.name for part in table.parts))
    parts = tuple(part.lower() for part in asked.parts)
    return reach.names.get(parts) in wanted


def _references(source: SourceText, reach: Reach, wanted: set[TableName]) -> Iterator[exp.Table]:
    """The table by its name or through a view, then the CTEs that read it."""
    direct = [each for each in tables_in(source.tree) if _reads(each, reach, wanted)]
    yield from direct
    every = [(each, cte) for each in mentions(source.tree) if (cte := cte_of(each)) is not None]
    inside = {id(each.find_ancestor(exp.CTE)) for each in direct}
    for _ in every:  # a CTE may be read by another
        inside |= {id(each.find_ancestor(exp.CTE)) for each, cte in every if id(cte) in inside}
    yield from (each for each, cte in every if id(cte) in inside)


def _operator(
    source: SourceText, reference: exp.Table, operator: Operator, start: int
) -> int | None:
    child: Tree = reference
    while (parent := child.parent) is not None and not isinstance(child, exp.CTE):
        at = _at(source, parent, child, operator, start)
        if at is not None:
            return at
        child = parent
    return None


def _at(
    source: SourceText, parent: Tree, child: Tree, operator: Operator, start: int
) -> int | None:
    match operator, parent:
        case Operator.AGGREGATE, exp.Select():
            return _aggregate(source, parent, start)
        case Operator.WINDOW, exp.Select():
            calls = [each for part in _own(parent) for each in part.find_all(exp.Window)]
            return source.start(calls[0]) if calls else None
        case Operator.LIMIT, exp.Query() if parent.args.get("limit") or parent.args.get("offset"):
            return _forwards(source, start, "LIMIT", "OFFSET")
        case Operator.EXCEPT, exp.Except() if child is parent.expression:
            return source.keyword(source.start(child), ("EXCEPT", "MINUS"))
        case Operator.OUTER, exp.Join() if parent.side.upper() in ("LEFT", "FULL"):
            return source.keyword(source.start(parent.this), (parent.side.upper(),))
        case Operator.OUTER, exp.Select():
            return _outer(source, parent, child)
        case Operator.ABSENT, exp.Not() if _judges(unwrapped(parent.this)):
            return _backwards(source, start, "NOT")
        case Operator.ABSENT, exp.Join() if parent.kind.upper() == "ANTI":
            return source.keyword(source.start(parent.this), ("ANTI",))
        case Operator.VALUE, exp.Exists() | exp.In() | exp.Binary():
            return source.start(parent)
    return None


def _own(select: exp.Select) -> list[Tree]:
    qualify = select.args.get("qualify")
    return [*select.expressions, *([qualify] if qualify else [])]


def _aggregate(source: SourceText, select: exp.Select, start: int) -> int | None:
    if select.args.get("group"):
        return _forwards(source, start, "GROUP")
    calls = [each for part in select.expressions for each in part.walk() if is_aggregate(each)]
    return source.start(calls[0]) if calls else None


def _outer(source: SourceText, select: exp.Select, child: Tree) -> int | None:
    """A RIGHT or FULL join makes what stands before it nullable."""
    joins = select.args.get("joins") or []
    at = joins.index(child) + 1 if child in joins else 0
    for join in joins[at:]:
        if join.side.upper() in ("RIGHT", "FULL"):
            return source.keyword(source.start(join.this), (join.side.upper(),))
    return None


def _judges(tree: Tree) -> bool:
    return isinstance(tree, (exp.Exists, exp.In))


def _forwards(source: SourceText, start: int, *words: str) -> int | None:
    later = (token for token in source.tokens if token.start >= start)
    return next((token.start for token in later if token.text.upper().startswith(words)), None)


def _backwards(source: SourceText, start: int, *words: str) -> int | None:
    before = (token for token in reversed(source.tokens) if token.start <= start)
    return next((token.start for token in before if token.text.upper().startswith(words)), None)

"""A failing case made small: fewer windows, statements, rows, and a simpler query.

Every step proposes smaller cases and takes the first that still fails in the same way, until none
does.  Orders are left whole, since a result that is not one bag proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from tests.oracle.cases import Case, judge
from tests.oracle.data import Window
from tests.oracle.duck import duck
from tests.oracle.kept import World

Fails = Callable[[Case], bool]
_STEPS = 1_500  # a bound on the work


def shrunk(world: World, case: Case) -> Case:
    kind = judge(world, case).kind
    return smallest(case, lambda smaller: judge(world, smaller).kind == kind)


def smallest(case: Case, fails: Fails) -> Case:
    left = _STEPS
    while left > 0:
        for smaller in _smaller(case):
            left -= 1
            if fails(smaller):
                case = smaller
                break
            if left <= 0:
                break
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    if case.start:
        yield replace(case, start=(), windows=(case.start, *case.windows))
    if case.noise:
        yield replace(case, noise=False)
    for position in range(len(case.windows)):
        yield replace(case, windows=_without(case.windows, position))
    for query in simpler(case.query):
        yield replace(case, query=query)
    for position, window in enumerate(case.windows):
        for fewer in _fewer(window):
            yield replace(case, windows=_with(case.windows, position, fewer))
    for fewer in _fewer(case.start):
        yield replace(case, start=fewer)


def _without(parts: tuple[Window, ...], position: int) -> tuple[Window, ...]:
    return parts[:position] + parts[position + 1 :]


def _with(parts: tuple[Window, ...], position: int, part: Window) -> tuple[Window, ...]:
    return (*parts[:position], part, *parts[position + 1 :])


def _fewer(window: Window) -> Iterator[Window]:
    """Without a statement, without a row, without a condition."""
    for position, statement in enumerate(window):
        before, after = window[:position], window[position + 1 :]
        yield before + after
        head, word, rows = statement.partition(" VALUES ")
        parts = re.findall(r"\([^)]*\)", rows)
        if word and len(parts) > 1:
            for gone in range(len(parts)):
                rest = ", ".join(parts[:gone] + parts[gone + 1 :])
                yield (*before, f"{head} VALUES {rest}", *after)
        if " WHERE " in statement:
            yield (*before, statement.split(" WHERE ")[0], *after)


def simpler(query: str) -> Iterator[str]:
    """Texts with one thing less."""
    tree = sqlglot.parse_one(query, read="spark")
    seen = {query}
    for change in _changes(tree):
        text = change.sql("spark")
        if text not in seen and _is_query(text):
            seen.add(text)
            yield text


def _is_query(text: str) -> bool:
    try:
        return isinstance(sqlglot.parse_one(text, read="spark"), exp.Query)
    except ParseError:
        return False


def _changes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """A copy of the tree for every small change; queries inside are tried as the whole first."""
    nodes = list(tree.walk())
    for node in nodes:
        if isinstance(node, exp.Query) and node is not tree and not isinstance(node, exp.Subquery):
            yield node.copy()
    for index, node in enumerate(nodes):
        if node.find_ancestor(exp.Order) or isinstance(node, exp.Order):
            continue
        for edit in _edits(node):
            copy = tree.copy()
            found = edit(list(copy.walk())[index])
            yield found if found is not None else copy


Edit = Callable[[exp.Expr], exp.Expr | None]
_OPTIONAL = ("where", "having", "qualify", "distinct", "group", "laterals", "with_", "windows")
_SIDES = (exp.Connector, exp.Add, exp.Sub, exp.Mul, exp.DPipe)  # of the kind of the whole
_LISTS = ("expressions", "joins", "laterals", "pivots")


def _edits(node: exp.Expr) -> Iterator[Edit]:
    """Ways to make one node smaller, as changes of its copy; one that returns a tree is the whole."""
    if isinstance(node, exp.Select):
        for name in _OPTIONAL:
            if node.args.get(name):
                yield _drop(name)
        if node.args.get("limit") or node.args.get("offset"):
            yield _drop("limit", "offset", "order")
    if isinstance(node, exp.SetOperation):
        yield _become("this")
        yield _become("expression")
    if isinstance(node, exp.Join) and node.side:
        yield _drop("side")
    if isinstance(node, (exp.Window, exp.Filter, exp.Not, exp.Paren, exp.Func)):
        yield _become("this")
    if isinstance(node, exp.Window) and node.args.get("partition_by"):
        yield _drop("partition_by")
    if isinstance(node, _SIDES):
        yield _become("this")
        yield _become("expression")
    for name in _LISTS:
        for position in range(len(node.args.get(name) or ())):
            if name != "expressions" or len(node.expressions) > 1:
                yield _remove(name, position)


def _drop(*names: str) -> Edit:
    def edit(node: exp.Expr) -> None:
        for name in names:
            node.set(name, None)

    return edit


def _become(name: str) -> Edit:
    """The node gives way to one of its parts."""

    def edit(node: exp.Expr) -> exp.Expr | None:
        part = node.args.get(name)
        if not isinstance(part, exp.Expr):
            return None
        if isinstance(part, exp.Subquery) and isinstance(node, exp.SetOperation):
            part = part.this
        if node.parent is None:
            return part.copy()
        node.replace(part.copy())
        return None

    return edit


def _remove(name: str, position: int) -> Edit:
    def edit(node: exp.Expr) -> None:
        node.set(name, [part for i, part in enumerate(node.args[name]) if i != position])

    return edit


def fixture(world: World, case: Case, title: str) -> str:
    """The case as a text of tests/fixtures/delta, with the rows that are right in the end."""
    windows = (case.start, *case.windows) if case.start else case.windows
    world.reset()
    lines = [f"--- {title}", case.query]
    for window in windows:
        lines += ["-- change", "; ".join(window)]
        for statement in window:
            world.db.execute(statement)
    rows = world.db.execute(duck(case.query)).fetchall()
    return "\n".join([*lines, *_expected(rows)]) + "\n"


def _expected(rows: list[tuple[object, ...]]) -> list[str]:
    if not rows:
        return ["-- expect nothing"]
    return ["-- expect", ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)]


def _literal(cell: object) -> str:
    if cell is None:
        return "NULL"
    return f"'{cell}'" if isinstance(cell, str) else str(cell)

"""Finds everything in a query's tree that prevents incremental maintenance."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from anabranch.plan.exprs import Tree, meaning, unwrapped
from anabranch.plan.sameness import Sameness, sameness
from anabranch.sql.analyze import functions
from anabranch.sql.obstacles import Obstacle, obstacle
from anabranch.sql.text.source_text import SourceText


def find_obstacles(source: SourceText) -> Iterator[Obstacle]:
    for token in source.tokens:
        if token.text == "|>":
            yield obstacle("PIPE_SYNTAX", *source.position(token.start), view=source.view)
            break
    for node in source.tree.walk():
        yield from _in_node(source, node)


def _in_node(source: SourceText, node: Tree) -> Iterator[Obstacle]:
    match node:
        case exp.Table():
            yield from _in_table(source, node)
        case exp.DataType() if node.this in (exp.DType.TIME, exp.DType.TIMETZ):
            # the SQL library writes TIME back as TIMESTAMP
            yield source.obstacle("UNSUPPORTED_SYNTAX", node, "TIME", what="TIME")
        case exp.DataType() if sameness(node.sql("spark")) is Sameness.OPEN:
            yield source.obstacle("COLLATION", node, what=node.sql("spark"))
        case exp.QueryTransform():
            yield source.obstacle("SCRIPT", node)
        case exp.CurrentDate() | exp.CurrentTimestamp():
            yield source.obstacle("TIME_DEPENDENT_FUNCTION", node, what=node.sql("spark"))
        case exp.CurrentUser() | exp.SessionUser() | exp.CurrentRole():
            yield source.obstacle("NONDETERMINISTIC_FUNCTION", node, what=node.sql("spark"))
        case exp.Anonymous() if not isinstance(node.parent, (exp.Table, exp.Hint)):
            yield from _in_function(source, node)


def _in_table(source: SourceText, node: exp.Table) -> Iterator[Obstacle]:
    if isinstance(node.this, exp.Func):
        yield source.obstacle("TABLE_FUNCTION", node.this, what=node.this.name)
    if node.args.get("version"):
        yield source.obstacle("TIME_TRAVEL", node)
    if node.args.get("sample"):
        yield source.obstacle("SAMPLE", node)


def _in_function(source: SourceText, node: exp.Anonymous) -> Iterator[Obstacle]:
    code = _code_of_function(node)
    if code:
        yield source.obstacle(code, node, what=node.name)


def _code_of_function(node: exp.Anonymous) -> str | None:
    name = node.name.lower()
    if isinstance(_outermost(node).parent, exp.Window):
        return None  # decided by its window
    if name in functions.LISTING and _orders_by_value(node):
        return None
    if name in functions.COLLECTING and _is_sorted(node):
        return None
    if name == "mode" and settles_ties(node):
        return None
    if name == "unix_timestamp" and not node.expressions:
        return "TIME_DEPENDENT_FUNCTION"
    for code, names in _CODES_OF_FUNCTIONS:
        if name in names:
            return code
    return None if name in _KNOWN else "UNKNOWN_FUNCTION"


_CODES_OF_FUNCTIONS = (
    ("TIME_DEPENDENT_FUNCTION", functions.TIME_DEPENDENT),
    ("NONDETERMINISTIC_FUNCTION", functions.NONDETERMINISTIC),
    ("ORDER_DEPENDENT_AGGREGATE", functions.ORDER_DEPENDENT),
    ("APPROXIMATE_AGGREGATE", functions.APPROXIMATE),
    ("UNSUPPORTED_SYNTAX", functions.OTHER_AGGREGATES),
    ("WINDOW", functions.WINDOW_ONLY),
)


_KNOWN = (
    functions.PLAIN
    | functions.AGGREGATES
    | functions.GROUPING
    | functions.GENERATORS
    | functions.TIME_WINDOWS
)


def _is_sorted(node: exp.Anonymous) -> bool:
    """SORT_ARRAY(COLLECT_LIST(x))"""
    outer = _outermost(node).parent
    return (
        isinstance(outer, exp.Anonymous)
        and outer.name.lower() in functions.SORTING
        and not any(isinstance(arg, exp.Lambda) for arg in outer.expressions)
    )


def settles_ties(node: Tree) -> bool:
    """MODE() WITHIN GROUP (ORDER BY x), MODE(x, TRUE): the first of tied values is returned."""
    node = node.this if isinstance(node, exp.WithinGroup) else node
    last = node.expressions[-1] if node.expressions else None
    if len(node.expressions) == 2:
        return isinstance(last, exp.Boolean) and bool(last.this)
    return isinstance(node.parent, exp.WithinGroup)


def _orders_by_value(node: exp.Anonymous) -> bool:
    """LISTAGG(x) WITHIN GROUP (ORDER BY x): equal values are interchangeable."""
    within = node.parent
    if not isinstance(within, exp.WithinGroup) or not node.expressions:
        return False
    listed = node.expressions[0]
    listed = listed.expressions[0] if isinstance(listed, exp.Distinct) else listed
    ordered = [meaning(key.this) for key in within.expression.expressions]
    return meaning(listed) in ordered


_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def _outermost(node: Tree) -> Tree:
    """The call with its FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node.parent, _WRAPPERS) and node.arg_key == "this":
        node = node.parent
    return node


def name_of_call(node: Tree) -> str | None:
    """The function of a call, with or without FILTER and the like."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    if isinstance(node, exp.Any) and not _is_quantifier(node):
        return "any"
    return node.name.lower() if isinstance(node, exp.Anonymous) else None


def _is_quantifier(node: exp.Any) -> bool:
    """> ANY (SELECT …), LIKE ANY ('a%', 'b%')"""
    patterns = isinstance(node.parent, (exp.Like, exp.ILike)) and node.arg_key == "expression"
    return patterns or isinstance(unwrapped(node.this), exp.Query)


_WINDOWED = "windowed"  # marks a call that has an OVER clause


def mark_window_calls(tree: Tree) -> None:
    """SUM(x) OVER (…) is no aggregate; SUM(x) inside RANK() OVER (ORDER BY SUM(x)) is one."""
    for window in tree.find_all(exp.Window):
        call = window.this
        call.meta[_WINDOWED] = True
        while isinstance(call, _WRAPPERS):
            call = call.this
            call.meta[_WINDOWED] = True


def is_windowed(call: Tree) -> bool:
    return _WINDOWED in call.meta


def is_aggregate(node: Tree) -> bool:
    return name_of_call(node) in functions.AGGREGATES and not is_windowed(node)

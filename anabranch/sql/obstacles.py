"""Finding everything in a query's tree that is not incremental."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from anabranch.plan.exprs import Tree, meaning, unwrapped
from anabranch.sql import functions
from anabranch.sql.source_text import SourceText
from anabranch.sql.support import Obstacle, obstacle

_FROM_ITEMS = (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Lateral)


def find_obstacles(source: SourceText) -> Iterator[Obstacle]:
    for token in source.tokens:
        if token.text == "|>":
            yield obstacle("PIPE_SYNTAX", *source.position(token.start), view=source.view)
            break
    for node in source.tree.walk():
        yield from _of(source, node)


def _of(source: SourceText, node: Tree) -> Iterator[Obstacle]:
    match node:
        case exp.Join():
            yield from _of_join(source, node)
        case exp.Lateral():
            yield source.obstacle("LATERAL", node, "LATERAL")
        case exp.Table():
            yield from _of_table(source, node)
        case exp.Exists():
            yield source.obstacle("SUBQUERY_PREDICATE", node, "EXISTS", what="EXISTS")
        case exp.In() if node.args.get("query"):
            yield source.obstacle("SUBQUERY_PREDICATE", node.args["query"], "IN", what="IN")
        case exp.Any() | exp.All() if isinstance(node.this, exp.Query):
            yield source.obstacle("SUBQUERY_PREDICATE", node, "ANY", "SOME", "ALL")
        case exp.Subquery() if _is_value(node):
            yield source.obstacle("SCALAR_SUBQUERY", node, "(")
        case exp.Window() if node.arg_key != "windows":
            yield source.obstacle("WINDOW", node.this, what=name_of_call(node.this) or "")
        case exp.Limit() | exp.Offset() | exp.Fetch() if node.expression.name.upper() != "ALL":
            yield source.obstacle("LIMIT", node, "LIMIT", "OFFSET", "FETCH")
        case exp.Intersect() | exp.Except():
            word = type(node).__name__.upper()
            yield source.obstacle("SET_OPERATION", node.expression, word, what=word)
        case exp.Union() if node.args.get("by_name"):
            yield source.obstacle("SET_OPERATION", node.expression, "UNION", what="UNION BY NAME")
        case exp.Group() if any(
            node.args.get(kind) for kind in ("rollup", "cube", "grouping_sets")
        ):
            yield source.obstacle("GROUPING_SETS", node, "GROUP")
        case exp.Rollup() | exp.Cube() | exp.GroupingSets() if node.expressions:
            yield source.obstacle("GROUPING_SETS", node, "ROLLUP", "CUBE", "GROUPING")
        case exp.With() if node.args.get("recursive"):
            yield source.obstacle("RECURSION", node, "RECURSIVE")
        case exp.DataType() if node.this in (exp.DType.TIME, exp.DType.TIMETZ):
            # the SQL library writes TIME back as TIMESTAMP
            yield source.obstacle("UNSUPPORTED_SYNTAX", node, "TIME", what="TIME")
        case exp.QueryTransform():
            yield source.obstacle("SCRIPT", node)
        case exp.CurrentDate() | exp.CurrentTimestamp():
            yield source.obstacle("TIME_DEPENDENT_FUNCTION", node, what=node.sql("spark"))
        case exp.CurrentUser() | exp.SessionUser() | exp.CurrentRole():
            yield source.obstacle("NONDETERMINISTIC_FUNCTION", node, what=node.sql("spark"))
        case exp.Anonymous() if not isinstance(node.parent, (exp.Table, exp.Hint)):
            yield from _of_function(source, node)


def _of_join(source: SourceText, node: exp.Join) -> Iterator[Obstacle]:
    side, kind = node.side.upper(), node.kind.upper()
    words = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
    if kind in ("SEMI", "ANTI"):
        yield source.obstacle("SEMI_JOIN", node.this, *words, what=f"{side} {kind} JOIN".strip())
    elif side:
        yield source.obstacle("OUTER_JOIN", node.this, *words, what=f"{side} JOIN")


def _of_table(source: SourceText, node: exp.Table) -> Iterator[Obstacle]:
    if isinstance(node.this, exp.Func):
        yield source.obstacle("TABLE_FUNCTION", node.this, what=node.this.name)
    if node.args.get("version"):
        yield source.obstacle("TIME_TRAVEL", node)
    if node.args.get("sample"):
        yield source.obstacle("SAMPLE", node)
    for pivot in node.args.get("pivots") or ():
        yield source.obstacle("PIVOT", pivot, "PIVOT", "UNPIVOT")


def _of_function(source: SourceText, node: exp.Anonymous) -> Iterator[Obstacle]:
    code = _code_of_function(node)
    if code:
        yield source.obstacle(code, node, what=node.name)


def _code_of_function(node: exp.Anonymous) -> str | None:
    name = node.name.lower()
    if isinstance(node.parent, exp.Window) or isinstance(_outermost(node).parent, exp.Window):
        return None  # the window itself is the obstacle
    if name in functions.LISTING and _lists_what_it_orders(node):
        return None
    if name == "unix_timestamp" and not node.expressions:
        return "TIME_DEPENDENT_FUNCTION"
    for code, names in _CODES_OF_FUNCTIONS:
        if name in names:
            return code
    return None if name in functions.PLAIN or name in functions.AGGREGATES else "UNKNOWN_FUNCTION"


_CODES_OF_FUNCTIONS = (
    ("TIME_DEPENDENT_FUNCTION", functions.TIME_DEPENDENT),
    ("NONDETERMINISTIC_FUNCTION", functions.NONDETERMINISTIC),
    ("ORDER_DEPENDENT_AGGREGATE", functions.ORDER_DEPENDENT),
    ("APPROXIMATE_AGGREGATE", functions.APPROXIMATE),
    ("UNSUPPORTED_SYNTAX", functions.OTHER_AGGREGATES),
    ("GROUPING_SETS", functions.GROUPING),
    ("GENERATOR", functions.GENERATORS),
    ("TIME_WINDOW", functions.TIME_WINDOWS),
    ("WINDOW", functions.WINDOW_ONLY),
)


def _lists_what_it_orders(node: exp.Anonymous) -> bool:
    """LISTAGG(x) WITHIN GROUP (ORDER BY x): equal values are interchangeable."""
    within = node.parent
    if not isinstance(within, exp.WithinGroup) or not node.expressions:
        return False
    listed = node.expressions[0]
    listed = listed.expressions[0] if isinstance(listed, exp.Distinct) else listed
    ordered = [meaning(part.this) for part in within.expression.expressions]
    return meaning(listed) in ordered


def _is_value(node: exp.Subquery) -> bool:
    """A subquery that stands where a value stands, and is not the right side of IN."""
    parent = node.parent
    while isinstance(parent, (exp.Subquery, exp.Paren)):
        parent = parent.parent
    return parent is not None and not isinstance(parent, (*_FROM_ITEMS, exp.In, exp.Any, exp.All))


_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def _outermost(node: Tree) -> Tree:
    """The call with its FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node.parent, _WRAPPERS) and node.arg_key == "this":
        node = node.parent
    return node


def name_of_call(node: Tree) -> str | None:
    """The function that a call, perhaps with FILTER and the like, is of."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    if isinstance(node, exp.Any) and not isinstance(unwrapped(node.this), exp.Query):
        return "any"
    return node.name.lower() if isinstance(node, exp.Anonymous) else None


def is_aggregate(node: Tree) -> bool:
    return name_of_call(node) in functions.AGGREGATES

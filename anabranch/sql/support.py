"""What is not kept up to date incrementally, and what to do about it: the one table.

A query with an obstacle is still right: it is recomputed in full, and `explain` says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.names import TableName


@dataclass(frozen=True)
class Code:
    """A reason why a query is not incremental."""

    operator: str
    meaning: str
    hint: str


@dataclass(frozen=True)
class Obstacle:
    """One reason at one place of the user's text; line and column count from 1."""

    code: str
    operator: str
    line: int
    column: int
    message: str
    hint: str
    view: TableName | None = None  # the place is in the text of this view

    def __str__(self) -> str:
        where = f"in view {self.view}, " if self.view else ""
        return f"{self.code} at {where}line {self.line}, column {self.column}: {self.message}"


_WHOLE = "use refresh mode FULL or AUTO"

CODES: dict[str, Code] = {
    "OUTER_JOIN": Code(
        "outer join",
        "LEFT, RIGHT and FULL joins are not incremental",
        "use an inner join if every row has a partner, or refresh mode FULL or AUTO",
    ),
    "SEMI_JOIN": Code(
        "semi or anti join",
        "SEMI and ANTI joins are not incremental",
        "join with SELECT DISTINCT keys",
    ),
    "SUBQUERY_PREDICATE": Code(
        "subquery in a condition",
        "EXISTS, IN, ANY and ALL with a subquery are not incremental",
        "join with a SELECT DISTINCT of the subquery's keys",
    ),
    "SCALAR_SUBQUERY": Code(
        "scalar subquery",
        "a subquery used as a value is not incremental",
        "join with the subquery instead",
    ),
    "WINDOW": Code("window function", "window functions are not incremental", _WHOLE),
    "LIMIT": Code("limit", "LIMIT and OFFSET are not incremental", _WHOLE),
    "SET_OPERATION": Code(
        "set operation", "INTERSECT and EXCEPT are not incremental", "use UNION, or a join"
    ),
    "GROUPING_SETS": Code(
        "grouping sets",
        "GROUPING SETS, ROLLUP and CUBE are not incremental",
        "write one stream table per set of keys, or UNION ALL of GROUP BYs",
    ),
    "NONDETERMINISTIC_FUNCTION": Code(
        "non-deterministic function",
        "the function may give another value for the same row",
        "compute the value when the row is written to its source table",
    ),
    "TIME_DEPENDENT_FUNCTION": Code(
        "function of the current time",
        "the value changes although no source does",
        "store the time in a column, or keep it in a one-row table that you update",
    ),
    "ORDER_DEPENDENT_AGGREGATE": Code(
        "order-dependent aggregate",
        "the result depends on the order in which rows happen to come",
        "use MIN or MAX, or LISTAGG(x) WITHIN GROUP (ORDER BY x)",
    ),
    "APPROXIMATE_AGGREGATE": Code(
        "approximate aggregate",
        "a sketch cannot forget rows, and two of them need not agree",
        "use the exact aggregate, such as COUNT(DISTINCT x)",
    ),
    "INEXACT_AGGREGATE": Code(
        "floating-point aggregate below another operator",
        "its last bits depend on the order of the rows, so the old result cannot be taken back exactly",
        "CAST the argument to DECIMAL, or make the aggregate a stream table of its own",
    ),
    "UNKNOWN_FUNCTION": Code(
        "unknown function",
        "the function is not Spark's own, so it may be an aggregate or not deterministic",
        "use Spark's own functions, or refresh mode FULL or AUTO",
    ),
    "GENERATOR": Code(
        "generator function", "functions that turn one row into many are not incremental", _WHOLE
    ),
    "TIME_WINDOW": Code(
        "time window", "window() and session_window() are not incremental", "group by date_trunc(…)"
    ),
    "TABLE_FUNCTION": Code("table function", "table functions are not incremental", _WHOLE),
    "LATERAL": Code("lateral join", "LATERAL is not incremental", _WHOLE),
    "PIVOT": Code(
        "pivot", "PIVOT and UNPIVOT are not incremental", "write SUM(x) FILTER (WHERE …) per column"
    ),
    "RECURSION": Code("recursion", "WITH RECURSIVE is not incremental", _WHOLE),
    "SAMPLE": Code("sample", "TABLESAMPLE reads other rows each time", _WHOLE),
    "TIME_TRAVEL": Code(
        "time travel", "VERSION AS OF and TIMESTAMP AS OF pin a table", "read the table as it is"
    ),
    "SCRIPT": Code("script", "TRANSFORM … USING runs a program of its own", _WHOLE),
    "PIPE_SYNTAX": Code("pipe syntax", "|> is not incremental", "write it as SELECT … FROM …"),
    "NO_COLUMN_NAME": Code(
        "column without a name",
        "a column that has no name of its own is referred to",
        "name it with AS in the inner query",
    ),
    "GROUP_EXPRESSION": Code(
        "expression over a group",
        "it cannot be told which GROUP BY expression is meant",
        "write the expression exactly as in GROUP BY",
    ),
    "UNSUPPORTED_SYNTAX": Code("syntax", "this form is not incremental", _WHOLE),
}


def obstacle(
    code: str, line: int, column: int, *, what: str = "", view: TableName | None = None
) -> Obstacle:
    """`what` is the user's own word for it, such as the name of the function."""
    entry = CODES[code]
    message = f"{what}: {entry.meaning}" if what else entry.meaning
    return Obstacle(code, entry.operator, line, column, message, entry.hint, view)

"""What cannot be maintained incrementally, and what to do about it: the one table.

The result of a query with an obstacle is right all the same: it is recomputed, and `explain` says why.
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
    """One reason, with its place in the user's text; line and column count from 1."""

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


_FULL = "use refresh mode FULL or AUTO"

CODES: dict[str, Code] = {
    "SUBQUERY_IN_JOIN": Code(
        "subquery in a join condition",
        "only EXISTS, IN and subqueries that use one side of the join are incremental in ON",
        "move it to WHERE, or join with a query in FROM; write NOT IN as NOT EXISTS",
    ),
    "SCALAR_SUBQUERY": Code(
        "scalar subquery", "a subquery used as a value has one column", "select one column"
    ),
    "CORRELATION": Code(
        "correlated subquery",
        "this form of correlated subquery is not incremental",
        "join with the subquery in FROM instead",
    ),
    "LIMIT_WITHOUT_ORDER": Code(
        "limit without order",
        "without ORDER BY any rows may be the first ones",
        "add ORDER BY to define which rows come first",
    ),
    "TIES": Code(
        "ties in an order",
        "rows that tie differ in a column that has no order, so which of them comes first is undefined",
        "leave out the column, or order by something that distinguishes the rows",
    ),
    "ORDER_DEPENDENT_WINDOW": Code(
        "order-dependent window function",
        "which of the rows that tie is taken is undefined",
        "use a ROWS frame, MIN or MAX, or order by the value itself",
    ),
    "WINDOW": Code("window function", "the function needs OVER (…)", "write OVER (ORDER BY …)"),
    "SET_OPERATION": Code(
        "set operation",
        "the sides of a UNION BY NAME must have the same columns",
        "name all columns on both sides",
    ),
    "GROUPING_SETS": Code(
        "grouping sets",
        "so many sets of keys are not incremental",
        "use fewer keys, or GROUPING SETS with the sets that are needed",
    ),
    "NONDETERMINISTIC_FUNCTION": Code(
        "non-deterministic function",
        "the function may return another value for the same row",
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
        "rows cannot be removed from a sketch, and two sketches need not agree",
        "use the exact aggregate, such as COUNT(DISTINCT x)",
    ),
    "INEXACT_AGGREGATE": Code(
        "floating-point aggregate below another operator",
        "its last bits depend on the order of the rows, so the old result cannot be taken back exactly",
        "CAST the argument to DECIMAL, or make the aggregate a stream table of its own",
    ),
    "COLLATION": Code(
        "collation",
        "values that a collation calls equal differ in their bytes, so which of them a group, a "
        "join or a set shows is undefined",
        "use LOWER(s) or TRIM(s) as the key instead; a comparison with COLLATE in WHERE is incremental",
    ),
    "NO_EQUALITY": Code(
        "value without equality",
        "values of this type cannot be compared, so rows with them cannot be located",
        "extract what is needed as a plain type, such as with variant_get(v, '$.a', 'int')",
    ),
    "UNKNOWN_FUNCTION": Code(
        "unknown function",
        "the function is not Spark's own, so it may be an aggregate or not deterministic",
        "use Spark's own functions, or refresh mode FULL or AUTO",
    ),
    "GENERATOR": Code(
        "generator function",
        "this form of a generator function is not incremental",
        "give it a FROM item of its own: LATERAL VIEW explode(…)",
    ),
    "TIME_WINDOW": Code(
        "time window",
        "this form of time window is not incremental",
        "use one window of fixed length in SELECT and GROUP BY; session_window() in GROUP BY",
    ),
    "TABLE_FUNCTION": Code("table function", "table functions are not incremental", _FULL),
    "PIVOT": Code(
        "pivot",
        "this form of PIVOT or UNPIVOT is not incremental",
        "write SUM(x) FILTER (WHERE …) per column",
    ),
    "RECURSION": Code(
        "recursion",
        "a recursion with UNION ALL is incremental if each branch refers to it once, in FROM or a "
        "join; one with UNION, if additional rows of it never remove any",
        "move aggregates, and with UNION ALL also DISTINCT, outer joins and subqueries, out of the "
        "recursion",
    ),
    "RECURSION_LEVEL": Code(
        "recursion",
        "MAX RECURSION LEVEL counts from the first row, which a change does not do",
        "leave it out, and set max_fixpoint_iterations",
    ),
    "SAMPLE": Code("sample", "TABLESAMPLE returns different rows each time", _FULL),
    "TIME_TRAVEL": Code(
        "time travel", "VERSION AS OF and TIMESTAMP AS OF pin a table", "read the table as it is"
    ),
    "SCRIPT": Code("script", "TRANSFORM … USING runs an external program", _FULL),
    "PIPE_SYNTAX": Code("pipe syntax", "|> is not incremental", "write it as SELECT … FROM …"),
    "NO_COLUMN_NAME": Code(
        "column without a name",
        "a column without a name is referred to",
        "name it with AS in the inner query",
    ),
    "GROUP_EXPRESSION": Code(
        "expression over a group",
        "it is unclear which GROUP BY expression is meant",
        "write the expression exactly as in GROUP BY",
    ),
    "NOT_PLANNED": Code(
        "query",
        "Anabranch fails to plan its changes, which is a fault of Anabranch, not of the query",
        "please report it with the query; it is recomputed in full meanwhile",
    ),
    "UNSUPPORTED_SYNTAX": Code("syntax", "this form is not incremental", _FULL),
}


def obstacle(
    code: str, line: int, column: int, *, what: str = "", view: TableName | None = None
) -> Obstacle:
    """`what` is what the user wrote, such as the name of the function."""
    entry = CODES[code]
    message = f"{what}: {entry.meaning}" if what else entry.meaning
    return Obstacle(code, entry.operator, line, column, message, entry.hint, view)


class Stop(Exception):
    """Raised for a query that cannot be maintained incrementally."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(str(obstacle))
        self.obstacle = obstacle

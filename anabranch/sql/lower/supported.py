"""What is maintained incrementally: the one table, with an example of each that the tests lower.

The examples are over a(id, k, v) and b(id, k, w).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Supported:
    """A part of SQL, how its delta is computed, and an example."""

    part: str
    how: str
    example: str


_ROWS = "row by row"
_KEYS = "for the join keys that changed"
_GROUPS = "for the groups that changed"
_PARTITIONS = "for the partitions that changed"

SUPPORTED = (
    Supported("filter, expressions", _ROWS, "SELECT id, v + 1 AS n FROM a WHERE v > 2"),
    Supported("inner and cross joins, self joins", "each side's change joined with the others",
              "SELECT a.id, b.w FROM a JOIN b ON a.k = b.k AND a.v < b.w"),
    Supported("`LEFT`, `RIGHT`, `FULL` joins, `USING`, `NATURAL`", _KEYS,
              "SELECT k, a.v, b.w FROM a FULL JOIN b USING (k)"),
    Supported("`LEFT SEMI`, `LEFT ANTI` joins", _KEYS,
              "SELECT a.id FROM a LEFT ANTI JOIN b ON a.k = b.k"),
    Supported("`EXISTS`, `IN`, `NOT EXISTS`, `NOT IN`, also under `OR`, in `SELECT` and `ON`", _KEYS,
              "SELECT id FROM a WHERE v > 2 OR k NOT IN (SELECT k FROM b)"),
    Supported("`> ANY`, `> ALL` of a query", _KEYS,
              "SELECT id FROM a WHERE v > ALL (SELECT w FROM b WHERE b.k = a.k)"),
    Supported("scalar and correlated subqueries", _KEYS,
              "SELECT id, (SELECT max(w) FROM b WHERE b.k = a.k) AS m FROM a"),
    Supported("`LATERAL` queries", _KEYS,
              "SELECT a.id, x.w FROM a, LATERAL (SELECT w FROM b WHERE b.k = a.k) x"),
    Supported("`GROUP BY` with `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`", "from partial results",
              "SELECT k, sum(v) AS s, count(*) AS n FROM a GROUP BY k"),
    Supported("all other aggregates, `DISTINCT`, `FILTER`, ordered ones, `HAVING`", _GROUPS,
              "SELECT k, count(DISTINCT v) AS n, median(v) AS m FROM a GROUP BY k HAVING max(v) > 1"),
    Supported("`window`, `window_time`, `session_window` of times", "as `GROUP BY`",
              "SELECT window.start, count(*) AS n FROM a GROUP BY window(v, '1 hour', '5 minutes')"),
    Supported("`GROUPING SETS`, `ROLLUP`, `CUBE`, `GROUPING()`", "as `GROUP BY`, once per set",
              "SELECT k, v, grouping(k) AS all_k, count(*) AS n FROM a GROUP BY ROLLUP (k, v)"),
    Supported("`DISTINCT`, `UNION`, `INTERSECT`, `EXCEPT`, also `ALL`", "for the rows that changed",
              "SELECT k FROM a EXCEPT ALL SELECT k FROM b"),
    Supported("`UNION ALL`, `VALUES`", _ROWS, "SELECT k FROM a UNION ALL SELECT k FROM b"),
    Supported("window functions with any frame, `QUALIFY`", _PARTITIONS,
              "SELECT k, v FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) <= 2"),
    Supported("`ORDER BY … LIMIT` by output columns",
              "from the stored rows and the change; recomputed when too few of them are left",
              "SELECT k, v FROM a ORDER BY v DESC LIMIT 3"),
    Supported("other `LIMIT` and `OFFSET`", "recomputed, only the difference is written",
              "SELECT k FROM a ORDER BY v DESC LIMIT 3 OFFSET 1"),
    Supported("`explode`, `inline`, `stack` …, `LATERAL VIEW`", _ROWS,
              "SELECT id, e FROM a LATERAL VIEW explode(array(k, v)) t AS e"),
    Supported("`PIVOT`, `UNPIVOT`", "as `GROUP BY`, as `UNION ALL`",
              "SELECT * FROM a PIVOT (sum(id), count(*) FOR (k, v) IN ((1, 2) AS p, (3, 4) AS q))"),
    Supported("`WITH`, views, queries in `FROM`", "a part used twice is computed once",
              "WITH s AS (SELECT k, sum(v) AS n FROM a GROUP BY k)"
              " SELECT p.k FROM s p JOIN s q ON p.n = q.k"),
    Supported("`WITH RECURSIVE … UNION`", "by rounds from the rows before, which are the stored ones "
              "where the recursion is the whole query, and else are computed first",
              "WITH RECURSIVE r(n) AS (SELECT k FROM a UNION"
              " SELECT b.w FROM r JOIN b ON r.n = b.k) SELECT n FROM r"),
    Supported("`WITH RECURSIVE … UNION ALL`", "a recursion over the change of what it starts from; the "
              "difference of before and after where the tables it goes through change",
              "WITH RECURSIVE r(n) AS (SELECT k FROM a UNION ALL"
              " SELECT b.w FROM r JOIN b ON r.n = b.k) SELECT n FROM r"),
)  # fmt: skip

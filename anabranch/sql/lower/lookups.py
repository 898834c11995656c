"""Look-ups: the predicates of a query on single columns of one table, known before anything is read.

For a query `SELECT … FROM t WHERE c` over one table, only rows that satisfy `c` matter.  A table that
is read twice, or joined, has no bounds: other rows of it may matter as well.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.model import Bound, Columns
from anabranch.names import TableName, quote
from anabranch.sql.analyze.tables import references
from anabranch.sql.lower.prune import tree_bounds
from anabranch.sql.text.parse import parse_query

_OTHER_CLAUSES = ("joins", "laterals", "with_", "pivots", "sample", "match")


def filtered(table: TableName, condition: str) -> str:
    """The rows of a table that satisfy a condition."""
    return f"SELECT * FROM {'.'.join(map(quote, table.parts))} WHERE {condition}"


def looked_up(query: str) -> TableName | None:
    """The table that the query looks up, as written."""
    try:
        tables = references(query)
    except AnabranchError:
        return None
    return tables[0].name if len(tables) == 1 and _condition(query) is not None else None


def lookup_bounds(query: str, columns: Columns) -> tuple[Bound, ...]:
    """The bounds that `WHERE` puts on the columns of the table that the query looks up."""
    lookup = _condition(query)
    if lookup is None:
        return ()
    table, where = lookup
    return tree_bounds(where, query, columns, table.alias_or_name)


def _condition(query: str) -> tuple[exp.Table, exp.Expr] | None:
    tree: exp.Expr = parse_query(query)
    if not isinstance(tree, exp.Select) or any(tree.args.get(clause) for clause in _OTHER_CLAUSES):
        return None
    from_, where = tree.args.get("from_"), tree.args.get("where")
    table = from_.this if from_ is not None else None
    if where is None or not isinstance(table, exp.Table):
        return None
    if not isinstance(table.this, exp.Identifier) or any(
        table.args.get(clause) for clause in _OTHER_CLAUSES
    ):
        return None
    alias = table.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        return None
    return table, where.this

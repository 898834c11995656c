"""Spark's SQL as DuckDB's.  Most of it is the same but for a few words; sqlglot knows the rest, at ten
times the cost, so that of a plan only the expressions that need it are given to it."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from anabranch.plan.exprs import VERBATIM, Expr, Tree, Written
from anabranch.plan.nodes import Generate, Node, Parameter, Scan, Version
from anabranch.sql.render import NameOf, Rendering, to_sql

# Words of Spark that DuckDB spells or means otherwise.
_TRANSLATED = re.compile(
    r"\b(array|count_if|cube|explode|grouping sets|ignore|lateral|listagg|pivot|posexplode|rollup)\b",
    re.IGNORECASE,
)
_SPELLED = {
    "`": '"',
    "<=>": "IS NOT DISTINCT FROM",
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
}
_WORDS = re.compile("|".join(map(re.escape, _SPELLED)))
_PLACES = re.compile(r'"(main|now|was)\.')
_NOWHERE = "SELECT 1 FROM x"


def plan_text(node: Node, name_of: NameOf) -> str:
    """A plan as DuckDB's SQL; names of relations say their schema."""
    text = _spelled(to_sql(node, name_of, hints=False, rendering=_Rendering))
    return _PLACES.sub(r'\1."', text)


def place(leaf: Scan | Parameter) -> str:
    """The table that stands for a leaf, in one of the schemas of a world."""
    if isinstance(leaf, Parameter):
        return f"main.{leaf.name}"
    if leaf.version is Version.DELTA:
        return f"main.{leaf.table.name}_delta"
    return f"{'was' if leaf.version is Version.BEFORE else 'now'}.{leaf.table.name}"


@lru_cache(maxsize=2_000)
def duck(query: str) -> str:
    if not _TRANSLATED.search(query):
        return _spelled(query)
    tree = sqlglot.parse_one(query, read="spark")
    return tree.transform(_as_duck, copy=False).sql(_Duck, copy=False)


def _spelled(query: str) -> str:
    return _WORDS.sub(lambda found: _SPELLED[found[0]], query)


class _Rendering(Rendering):
    def written(self, expr: Expr) -> Tree:
        return Written(this=duck(expr.text))

    def lateral(self, node: Generate) -> Tree:
        view = super().lateral(node).sql(dialect=VERBATIM, copy=False)
        return Written(this=duck(f"{_NOWHERE} {view}").removeprefix(_NOWHERE))


class _Duck(DuckDB):
    NULL_ORDERING = "nulls_are_small"  # what the world sets


def _as_duck(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.CountIf):  # of no rows: 0, not NULL
        return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))
    if isinstance(node, exp.Select) and _has_grouping_sets(node):  # no rows make no total
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
        return node.having(some, copy=False)
    if isinstance(node, exp.Lateral) and node.args.get("outer"):
        array = node.this.this
        some = exp.GT(this=exp.ArraySize(this=array.copy()), expression=exp.Literal.number(0))
        nothing = exp.Array(expressions=[exp.Null()])
        node.this.set("this", exp.Case(ifs=[exp.If(this=some, true=array.copy())], default=nothing))
        node.set("outer", None)
    return node


def _has_grouping_sets(node: exp.Select) -> bool:
    group = node.args.get("group")
    return group is not None and any(
        isinstance(part, (exp.Rollup, exp.Cube, exp.GroupingSets)) for part in group.expressions
    )

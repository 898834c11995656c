"""`analyze`: all that can be said of a query without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.sql.analyze.columns import Column, Columns, Flow, Ref, Relation
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.walk import Tables, Walk
from anabranch.sql.lower.obstacles import mark_window_calls
from anabranch.sql.text.source_text import SourceText

__all__ = ["Analysis", "Column", "Columns", "Finding", "Flow", "Ref", "Relation", "analyze"]


@dataclass(frozen=True)
class Analysis:
    """`relation` has the columns of the query and what decides about its rows, `findings` all that is
    surely wrong with it, in the order of the text."""

    relation: Relation
    findings: tuple[Finding, ...] = ()

    @property
    def columns(self) -> Columns:
        return self.relation.columns


def analyze(query: str, tables: Tables) -> Analysis:
    """`tables` says what is known of a table: its columns, or all of a view's query."""
    source = SourceText(query)
    mark_window_calls(source.tree)
    walk = Walk(source, tables)
    try:
        relation = walk.query(source.tree, {}, None)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return Analysis(Relation(None))  # sqlglot stumbles over what Spark may well take
    return Analysis(relation, tuple(sorted(set(walk.findings))))

"""`analyze`: all that can be said of a query without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.names import TableName
from anabranch.sql.analyze.columns import Column, Columns, Flow, Ref, Relation
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.obstacles import mark_window_calls
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.analyze.types import type_or_none
from anabranch.sql.analyze.walk import Tables, Walk
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
    """`tables` says what is known of a table: its columns, or all of a view's query.

    Whatever fails in it is raised: `failures` says what becomes of that.
    """
    source = SourceText(query)
    mark_window_calls(source.tree)
    walk = Walk(source, tables)
    relation = walk.query(source.tree, None)
    return Analysis(relation, tuple(sorted(set(walk.findings))))


Generators = Mapping[tuple[TableName | None, int], tuple[str, ...]]


def bind_texts(reach: Reach, generators: Generators) -> None:
    """Bind every name in a query, and in the views that it reads, to what it means.

    `generators` are the columns of those whose types only Spark can tell, by view and number.
    """
    relations: dict[TableName, Relation] = {}

    def bind(text: SourceText) -> Relation:
        mark_window_calls(text.tree)
        named = {number: names for (view, number), names in generators.items() if view == text.view}
        return Walk(text, relation, generators=named).query(text.tree, None)

    def relation(name: TableName) -> Relation:
        own = reach.find(name)
        if own is None:
            return Relation(None)
        if own not in relations:
            view = reach.view(own)
            relations[own] = Relation(_columns(reach, own)) if view is None else bind(view)
        return relations[own]

    bind(reach.texts[0])


def _columns(reach: Reach, name: TableName) -> Columns:
    return tuple(Column(each.name, type_or_none(each.type)) for each in reach.tables[name])

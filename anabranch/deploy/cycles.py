"""Cycles that a deployment or a roll-back closes through tables outside of the project.

`compile` and `stage` see what the project defines.  Only with the readers of others does it show that a
table would read itself: that is refused as ALTER STREAM TABLE … AS refuses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from anabranch.catalog.deployment_state import Undo
from anabranch.catalog.groups import Reads
from anabranch.deploy.build import view_query
from anabranch.deploy.outside import Columns, columns_after, is_staged, reads_of
from anabranch.deploy.snapshot import ObjectKey, Snapshot
from anabranch.errors import AnabranchError, Refused
from anabranch.names import TableName
from anabranch.plan.monotone import not_monotone
from anabranch.project.compile import stored_columns
from anabranch.refresh.cycles import (
    Members,
    check_allowed,
    cyclic_components,
    not_monotone_in,
    path,
)
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime
from anabranch.settings import Settings
from anabranch.sql.analyze.failures import spark_judges
from anabranch.sql.lower.query import Lowered
from anabranch.sql.offline import offline_lowered


@dataclass(frozen=True)
class Queries:
    """The stream tables and views at one moment; `names` are all tables and views there are."""

    streams: Mapping[TableName, str]
    views: Mapping[TableName, str]
    names: frozenset[TableName]

    @classmethod
    def of(cls, seen: CatalogState, staged: tuple[str, ...] = ()) -> Queries:
        return cls(
            {n: each.query for n, each in seen.streams.items() if not is_staged(n, staged)},
            {n: text for n, text in seen.views.items() if not is_staged(n, staged)},
            frozenset({*seen.pointers, *seen.views}),
        )

    def with_changes(
        self,
        moved: Collection[TableName],
        streams: Mapping[TableName, str],
        views: Mapping[TableName, str],
        there: Collection[TableName],
    ) -> Queries:
        """`moved` are the names that become something else, or nothing."""
        return Queries(
            {n: text for n, text in self.streams.items() if n not in moved} | {**streams},
            {n: text for n, text in self.views.items() if n not in moved} | {**views},
            (self.names - {*moved}) | {*there},
        )

    @cached_property
    def reads(self) -> Reads:
        """What each of them names: views stand in a cycle under their own names."""
        return {n: _named(text, self.names) for n, text in {**self.views, **self.streams}.items()}

    def closed(self, before: Queries, moved: Collection[TableName]) -> list[Members]:
        """Cycles that what moved is in, with others: those of the project alone stage has checked."""
        if self == before:
            return []
        inside = frozenset(moved)
        return [
            each for each in cyclic_components(self.reads) if each & inside and not each <= inside
        ]

    def check_allowed(
        self, settings: Settings, before: Queries, found: Collection[Members]
    ) -> None:
        if found and not settings.allow_circular:
            known = cyclic_components(before.reads)
            check_allowed(settings, self.reads, [each for each in found if each not in known])


def _named(query: str, names: Collection[TableName]) -> tuple[TableName, ...]:
    try:
        return reads_of(query, names)
    except AnabranchError:  # it is broken already
        return ()


def after_deployment(
    before: Queries, new: Snapshot, swapped: Collection[ObjectKey], dropped: Collection[ObjectKey]
) -> Queries:
    objects = [new.objects[key] for key in swapped]
    return before.with_changes(
        {key.table for key in (*swapped, *dropped)},
        {each.key.table: each.query for each in objects if each.kind == "stream table"},
        {each.key.table: view_query(each) for each in objects if each.kind == "view"},
        {each.key.table for each in objects},
    )


def after_rollback(before: Queries, undo: Undo) -> Queries:
    places = undo.pointers
    streams, views = undo.streams, undo.views
    there = {*streams, *views, *(name for name, at in places.items() if at)}
    return before.with_changes({*places, *views}, streams, views, there)


@dataclass(frozen=True)
class Moving:
    """The objects that a deployment puts in place, drops, and alters."""

    swapped: Collection[ObjectKey]
    dropped: Collection[ObjectKey]
    altered: Collection[ObjectKey]


def deployed_cycles(
    runtime: Runtime, seen: CatalogState, new: Snapshot, moving: Moving, staged: tuple[str, ...]
) -> Iterator[AnabranchError]:
    """What can be told of a deployment without Spark; promote looks again, with Spark."""
    before = Queries.of(seen, staged)
    after = after_deployment(before, new, moving.swapped, moving.dropped)
    moved = (*moving.swapped, *moving.dropped)
    found = after.closed(before, {key.table for key in moved})
    try:
        after.check_allowed(runtime.settings, before, found)
    except Refused as error:
        yield error
        return
    if found:
        columns = columns_after(runtime, seen, new, moved, moving.altered)
        for component in found:
            members = sorted(component & after.streams.keys())
            wrong = (_not_monotone(columns, after, name, component) for name in members)
            yield from islice(filter(None, wrong), 1)


def check_rollback(
    settings: Settings, seen: CatalogState, undo: Undo, staged: tuple[str, ...]
) -> None:
    """The same of a roll-back, for who only asks; the roll-back looks at what it has put back."""
    before = Queries.of(seen, staged)
    after = after_rollback(before, undo)
    found = after.closed(before, {*undo.pointers})
    after.check_allowed(settings, before, found)


def _not_monotone(
    columns: Columns, after: Queries, name: TableName, component: Members
) -> Refused | None:
    query = after.streams[name]
    below: set[TableName] = set()
    waiting = [*after.reads[name]]
    while waiting:
        each = waiting.pop()
        if each not in below:
            below.add(each)
            waiting += after.reads[each] if each in after.views else ()
    views = {each: after.views[each] for each in below & after.views.keys()}
    given = columns.given(query)
    tables = {each: stored_columns(columns.of(each)) for each in below - views.keys()}
    found: Lowered | None = None
    with spark_judges("its query", name):
        found = offline_lowered(query, None if given is None else len(given), tables, views)
    if found is None or found.plan is None:
        return None
    for broken in not_monotone(found.plan, component):
        return with_path(
            not_monotone_in(name, query, views, tables, broken), after.reads, component
        )
    return None


def with_path(error: Refused, reads: Reads, component: Members) -> Refused:
    """The same for who did not write the whole cycle: which way it goes, and what can be done."""
    error.message = f"{error.message}\nthe cycle is closed here: {path(reads, component)}"
    error.hint = f"{error.hint}; or let one of the others in the cycle read something else"
    return error

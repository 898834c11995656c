"""The tables of a component as they are understood now: what each query means, and whether the stored
rows follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.streams import Input, StreamTable, is_unplanned
from anabranch.cut_view import CutView
from anabranch.delta.maintenance import ByRows
from anabranch.delta.member import Member
from anabranch.errors import AnabranchError, BaseExpired, SchemaError
from anabranch.lake.version import TableVersion
from anabranch.model import Columns, FixpointBounds, RefreshMode, TableKind
from anabranch.names import TableName
from anabranch.refresh.columns import differences, exactly, fitted, relaxed, same_columns
from anabranch.refresh.cycles import check_member, define_again, define_component
from anabranch.refresh.decide import Code, Reason
from anabranch.refresh.definition import Definition, check_mode, understood
from anabranch.refresh.editions import refuse_newer
from anabranch.refresh.maintained import hidden_of
from anabranch.refresh.observe import CatalogState, view_mark
from anabranch.refresh.rebuild import (
    make_room,
    readable_columns,
    refuse_to_break_readers,
    unreadable,
)
from anabranch.runtime import Transaction
from anabranch.spark.identity import hidden_hashes
from anabranch.sql.lower.moments import Moment

MARK = "-circle"  # of fingerprints: rows of a member are kept in another way than those of others
RESHAPED = Reason(Code.REDEFINED, "another program changed the columns of the table")
Known = Mapping[TableName, Input]  # what a table has read


@dataclass(frozen=True)
class MemberTable:
    """A table of a component, and why its stored rows do not follow its query as it is now.

    `rule` is what it does in a round of a fixed point: None for a table alone, and where our own
    planning of the query failed.  `replaced`: why nothing of what was stored could be kept.
    """

    stream: StreamTable
    definition: Definition
    rule: Member | None = None
    redefined: Reason | None = None
    tampered: Reason | None = None
    replaced: str | None = None

    kind: ClassVar[TableKind] = TableKind.STREAM
    order: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> TableName:
        return self.stream.name

    @property
    def mode(self) -> RefreshMode:
        return self.stream.refresh_mode

    @property
    def populated(self) -> bool:
        return self.stream.populated

    def bounds(self, settings: Mapping[str, Any]) -> FixpointBounds:
        return bounds_of([self.stream], settings)


Members = Mapping[TableName, MemberTable]


def understand(
    tx: Transaction,
    state: CatalogState,
    streams: Sequence[StreamTable],
    *,
    cyclic: bool,
    full: bool,
) -> Members:
    """All members; their tables get the columns of their queries, as far as they can be kept.

    `full`: the stored rows do not matter, so no column of them has to be kept.
    """
    columns = readable_columns(tx, [each.name for each in streams]) if full else {}
    if cyclic:
        found = _cycle(tx, state, streams, full=full)
    else:
        (stream,) = streams
        found = {stream.name: _table(tx, state, stream, full=full)}
    refuse_to_break_readers(tx, state, columns, set(found))
    return found


# -- a table alone -------------------------------------------------------------------------------


def _table(tx: Transaction, state: CatalogState, stream: StreamTable, *, full: bool) -> MemberTable:
    name = stream.name
    definition = understood(tx.world, name, stream.query)
    if full:
        return MemberTable(stream, definition, replaced=make_room(tx, name, definition.columns))
    check_mode(name, stream.refresh_mode, definition)
    if not tx.stage.exists(name):  # dropped by another program
        tx.stage.create(name, definition.columns)
    known = state.inputs.get(name, {})
    why = redefined(tx.world, stream, definition, known)
    if fit(tx, name, definition.columns, full=False):
        why = why or RESHAPED
    return MemberTable(
        stream,
        definition,
        redefined=why,
        tampered=tampered(
            tx.world.version(name), hidden_of(stream.refresh_mode, definition), known.get(name)
        ),
    )


def fit(tx: Transaction, name: TableName, columns: Columns, *, full: bool) -> bool:
    """Give the table its columns; whether they are other ones than before."""
    if not tx.stage.exists(name):  # dropped by another program
        tx.stage.create(name, columns)
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, columns) if full else fitted(name, stored, columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)
    return not same_columns(stored, wanted)


# -- a cycle --------------------------------------------------------------------------------------


def _cycle(
    tx: Transaction, state: CatalogState, streams: Sequence[StreamTable], *, full: bool
) -> Members:
    broken = replace_broken(tx, streams) if full else {}
    names = frozenset(stream.name for stream in streams)
    queries = {each.name: each.query for each in streams}
    wanted = (None if full else _as_stored(tx, queries)) or define_again(tx, queries)
    moved = {name for name, each in wanted.items() if fit(tx, name, each.columns, full=full)}
    definitions = {each.name: member_definition(tx.world, each, names) for each in streams}
    _refuse_other_views(tx, state, streams, definitions)
    members = {
        stream.name: MemberTable(
            stream,
            definitions[stream.name],
            rule_of(stream.name, definitions[stream.name], names),
            replaced=broken.get(stream.name),
        )
        for stream in streams
    }
    if full:
        return members
    return {
        name: _compared(tx, state, each, reshaped=name in moved) for name, each in members.items()
    }


def _compared(
    tx: Transaction, state: CatalogState, member: MemberTable, *, reshaped: bool
) -> MemberTable:
    """The member, with why its stored rows do not follow its query."""
    if not member.stream.populated:
        return member
    definition, known = member.definition, state.inputs.get(member.name, {})
    why = redefined(tx.world, member.stream, definition, known)
    touched = tampered(tx.world.version(member.name), definition.hidden, known.get(member.name))
    if why is None and touched is None and reshaped:
        why = RESHAPED
    return replace(member, redefined=why, tampered=touched)


def replace_broken(tx: Transaction, streams: Sequence[StreamTable]) -> dict[TableName, str]:
    """Members of which nothing can be read start again, all of them together; why."""
    broken = {each.name: why for each in streams if (why := unreadable(tx, each.name))}
    if broken:
        for each in streams:
            if tx.stage.exists(each.name):
                tx.stage.drop(each.name)
        define_component(tx, {each.name: each.query for each in streams})
    return broken


def as_member(definition: Definition) -> Definition:
    """The definition of a member: kept by rows, whatever stands at its root."""
    hidden = hidden_hashes(definition.columns)
    plan, why = definition.plan, "a member of a cycle gains and loses rows"
    kept = None if plan is None else ByRows(plan, why, hidden)
    return replace(definition, kept=kept, hidden=hidden, fingerprint=definition.fingerprint + MARK)


def member_definition(
    world: CutView,
    stream: StreamTable,
    component: frozenset[TableName],
    moment: Moment | None = None,
) -> Definition:
    definition = understood(world, stream.name, stream.query, moment)
    # That a query may be in a cycle which cannot be planned now was found out before.
    if stream.refresh_mode is not RefreshMode.AUTO or not is_unplanned(definition.fingerprint):
        check_member(world, stream.name, stream.refresh_mode, definition, component)
    return as_member(definition)


def member_definition_leniently(
    world: CutView,
    stream: StreamTable,
    component: frozenset[TableName],
    moment: Moment | None = None,
) -> Definition:
    """The same for who only looks: there a query that cannot be planned does in any refresh mode."""
    definition = understood(world, stream.name, stream.query, moment)
    if is_unplanned(definition.fingerprint):
        return as_member(definition)
    return member_definition(world, stream, component, moment)


def rule_of(
    name: TableName, definition: Definition, component: frozenset[TableName]
) -> Member | None:
    return None if definition.plan is None else Member(name, definition.plan, component)


def _refuse_other_views(
    tx: Transaction,
    state: CatalogState,
    streams: Sequence[StreamTable],
    definitions: Mapping[TableName, Definition],
) -> None:
    """With another view a query is another one: whether it may be in a cycle only its plan tells."""
    for stream in streams:
        definition = definitions[stream.name]
        known = state.inputs.get(stream.name, {})
        if definition.plan is None and views_replaced(tx.world, definition, known):
            check_member(
                tx.world, stream.name, stream.refresh_mode, definition, frozenset(definitions)
            )


def _as_stored(
    tx: Transaction, queries: Mapping[TableName, str]
) -> dict[TableName, Definition] | None:
    """The definitions over the columns that are stored, where those are what the queries give."""
    try:
        found = {name: understood(tx.world, name, query) for name, query in queries.items()}
    except SchemaError:  # they may not fit each other only because a source has changed
        return None
    same = all(
        same_columns(tx.world.version(name).columns, each.columns) for name, each in found.items()
    )
    return found if same else None


# -- whether the stored rows follow the query -----------------------------------------------------


def redefined(
    world: CutView, stream: StreamTable, definition: Definition, known: Known
) -> Reason | None:
    if stream.fingerprint == definition.fingerprint and definition.sources <= known.keys():
        return None
    if definition.moment is None:
        refuse_newer(stream)
    causes = changed_below(world, definition, known)
    if not causes and definition.moment is not None:
        return Reason(Code.TIME_PASSED, f"the current time is now {definition.moment}")
    unknown = "the query, or how it is read or stored, changed"
    return Reason(Code.REDEFINED, "; ".join(causes) or unknown)


def changed_below(world: CutView, definition: Definition, known: Known) -> list[str]:
    """What is not as it was of what the query reads."""
    return [*views_replaced(world, definition, known), *_columns(world, definition, known)]


def views_replaced(world: CutView, definition: Definition, known: Known) -> list[str]:
    return [
        f"view {view} was replaced"
        for view in sorted(definition.views & known.keys())
        if known[view].metadata_location != view_mark(world.views[view])
    ]


def _columns(world: CutView, definition: Definition, known: Known) -> list[str]:
    causes = []
    for name in sorted(definition.sources & known.keys()):
        location = known[name].metadata_location
        with suppress(AnabranchError):  # old metadata may be gone, and the reason is only told
            if location is not None:
                old = world.lake.version(name, location).columns
                found = ", ".join(differences(old, world.version(name).columns))
                causes += [f"columns of {name} changed: {found}"] if found else []
    return causes


def tampered(stored: TableVersion, hidden: Columns, own: Input | None) -> Reason | None:
    """Whether somebody else wrote to the stream table since our last refresh."""
    why = None
    if not stored.ours or not same_rows(stored, own):
        why = "another program wrote to the table"
    elif hidden and not stored.hidden_complete:
        why = "files of another program lack the hidden columns"
    elif stored.snapshot_id is not None and not {*stored.hidden} >= {*hidden}:
        why = "the stored rows lack the hidden columns"
    return None if why is None else Reason(Code.TAMPERED, why)


def same_rows(stored: TableVersion, own: Input | None) -> bool:
    """Whether nothing but upkeep happened since; a rollback shows an older snapshot of ours."""
    if own is None or own.snapshot_id == stored.snapshot_id:
        return True
    try:
        return stored.delta(own.snapshot_id).empty
    except BaseExpired:
        return False

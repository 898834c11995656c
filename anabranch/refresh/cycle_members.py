"""The members of a component as they are understood now: definitions, rules, and why to start anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.catalog.streams import StreamTable, is_unplanned
from anabranch.delta.maintenance import ByRows
from anabranch.delta.member import Member
from anabranch.errors import SchemaError
from anabranch.model import FIRST_HIDDEN_ID, Columns, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.columns import exactly, fitted, relaxed, same_columns
from anabranch.refresh.cycles import check_member, define_again, define_component
from anabranch.refresh.definition import Definition, understood
from anabranch.refresh.inputs import tampered
from anabranch.refresh.observe import CatalogState
from anabranch.refresh.rebuild import unreadable
from anabranch.refresh.redefined import redefined, views_replaced
from anabranch.runtime import Transaction
from anabranch.spark.identity import HASHES, hashable
from anabranch.sql.lower.moments import Moment
from anabranch.world import World

MARK = "-circle"  # of fingerprints: rows of a member are kept in another way than those of others


@dataclass(frozen=True)
class CycleMember:
    """A member, and why its stored rows do not follow its query as it is now.

    `member` is None where our own planning of the query failed: then the rounds of the component run
    the queries as they were written.
    """

    stream: StreamTable
    definition: Definition
    member: Member | None
    why: str | None = None


def as_member(definition: Definition) -> Definition:
    """The definition of a member: kept by rows, whatever stands at its root."""
    fits = hashable(definition.columns)
    hidden: Columns = tuple(
        replace(column, field_id=FIRST_HIDDEN_ID + at)
        for at, column in enumerate(HASHES if fits else ())
    )
    plan, why = definition.plan, "a member of a circle gains and loses rows"
    kept = None if plan is None else ByRows(plan, why, hidden)
    return replace(definition, kept=kept, hidden=hidden, fingerprint=definition.fingerprint + MARK)


def member_definition(
    world: World, stream: StreamTable, circle: frozenset[TableName], moment: Moment | None = None
) -> Definition:
    definition = understood(world, stream.name, stream.query, moment)
    # That a query may be in a circle which cannot be planned now was found out before.
    if stream.refresh_mode is not RefreshMode.AUTO or not is_unplanned(definition.fingerprint):
        check_member(world, stream.name, stream.refresh_mode, definition, circle)
    return as_member(definition)


def member_definition_leniently(
    world: World, stream: StreamTable, circle: frozenset[TableName], moment: Moment | None = None
) -> Definition:
    """The same for who only looks: there a query that cannot be planned does in any refresh mode."""
    definition = understood(world, stream.name, stream.query, moment)
    if is_unplanned(definition.fingerprint):
        return as_member(definition)
    return member_definition(world, stream, circle, moment)


def understand(
    tx: Transaction, state: CatalogState, members: Sequence[StreamTable], *, full: bool = False
) -> Mapping[TableName, CycleMember]:
    """All members; their tables get the columns of their queries, as far as they can be kept.

    `full`: the stored rows do not matter, so no column of them has to be kept.
    """
    circle = frozenset(stream.name for stream in members)
    queries = {each.name: each.query for each in members}
    wanted = (None if full else _as_stored(tx, queries)) or define_again(tx, queries)
    moved = [fit(tx, name, found.columns, full=full) for name, found in wanted.items()]
    reshaped = {name: "another program changed the columns of the table" for name in moved if name}
    definitions = {each.name: member_definition(tx.world, each, circle) for each in members}
    _refuse_other_views(tx, state, members, definitions)
    return {
        stream.name: CycleMember(
            stream,
            definitions[stream.name],
            rule(stream.name, definitions[stream.name], circle),
            None
            if full
            else _why(tx, state, stream, definitions[stream.name]) or reshaped.get(stream.name),
        )
        for stream in members
    }


def _refuse_other_views(
    tx: Transaction,
    state: CatalogState,
    members: Sequence[StreamTable],
    definitions: Mapping[TableName, Definition],
) -> None:
    """With another view a query is another one: whether it may be in a circle only its plan tells."""
    for stream in members:
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


def rule(name: TableName, definition: Definition, circle: frozenset[TableName]) -> Member | None:
    return None if definition.plan is None else Member(name, definition.plan, circle)


def replace_broken(tx: Transaction, members: Sequence[StreamTable]) -> dict[TableName, str]:
    """Members of which nothing can be read start again, all of them together; why."""
    broken = {each.name: why for each in members if (why := unreadable(tx, each.name))}
    if broken:
        for each in members:
            if tx.stage.exists(each.name):
                tx.stage.drop(each.name)
        define_component(tx, {each.name: each.query for each in members})
    return broken


def fit(tx: Transaction, name: TableName, columns: Columns, *, full: bool) -> TableName | None:
    """Give the table its columns; its name when they are other ones than before."""
    if not tx.stage.exists(name):  # dropped by another program
        tx.stage.create(name, columns)
    stored = tx.world.version(name).columns
    wanted = relaxed(stored, columns) if full else fitted(name, stored, columns)
    if not exactly(stored, wanted):
        tx.stage.set_columns(name, wanted)
    return None if same_columns(stored, wanted) else name


def _why(
    tx: Transaction, state: CatalogState, stream: StreamTable, definition: Definition
) -> str | None:
    if not stream.populated:
        return None
    known = state.inputs.get(stream.name, {})
    return redefined(tx.world, stream, definition, known) or tampered(
        tx.world.version(stream.name), definition.hidden, known.get(stream.name)
    )

"""Refresh groups as declarations: create, alter and drop, and what is said when tables meet them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.catalog import cuts, events, refresh_groups
from anabranch.catalog.events import Event
from anabranch.catalog.groups import Group, Reads, grouped
from anabranch.catalog.read_set import ReadSet, tokens_of
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AlreadyExists, InvalidValue, Refused, UnknownName
from anabranch.graph.notices import closed_diamonds, left_out, member_conflicts
from anabranch.graph.order import Cycle, closure, topological
from anabranch.graph.policies import Isolation
from anabranch.names import TableName, shown
from anabranch.refresh.observe import CatalogState, observe, observe_now
from anabranch.runtime import Runtime, Transaction


def create_refresh_group(
    runtime: Runtime,
    name: str,
    members: Sequence[TableName],
    isolation: str,
    snapshot_timeout_ms: int,
) -> None:
    """Declare that tables move together; checked against all other groups."""
    if not name.strip():
        raise InvalidValue("a refresh group needs a name")
    check_timeout(snapshot_timeout_ms)
    level = read_isolation(isolation)

    def act(tx: Transaction) -> None:
        seen = observe_now(runtime)
        group = RefreshGroup(name, known(seen, members), level.value, snapshot_timeout_ms)
        check(seen, group)
        read = ReadSet(tokens_of(seen.streams, seen.streams))  # groups wait by what tables read
        tx.used.add(read)
        tx.later(lambda c, _: add(c, group))
        tx.later(lambda c, _: events.add(c, joiners(seen, group)))

    runtime.write("create refresh group", act)


def check_timeout(snapshot_timeout_ms: int) -> None:
    if isinstance(snapshot_timeout_ms, bool) or not isinstance(snapshot_timeout_ms, int):
        raise InvalidValue(f"snapshot_timeout_ms {snapshot_timeout_ms!r} is not a whole number")
    if snapshot_timeout_ms < 0:
        raise InvalidValue(
            f"snapshot_timeout_ms {snapshot_timeout_ms} is negative", hint="0 means no limit"
        )


def alter_refresh_group(
    runtime: Runtime,
    name: str,
    *,
    add: Sequence[TableName] = (),
    drop: Sequence[TableName] = (),
    isolation: str | None = None,
    snapshot_timeout_ms: int | None = None,
) -> None:
    """Change members, isolation and time-out at once: read, checked and written in one transaction."""
    if not add and not drop and isolation is None and snapshot_timeout_ms is None:
        raise InvalidValue(
            f"nothing to change is given for refresh group {name}",
            hint="ADD, DROP, SET ISOLATION or SET SNAPSHOT TIMEOUT",
        )
    if snapshot_timeout_ms is not None:
        check_timeout(snapshot_timeout_ms)
    level = None if isolation is None else read_isolation(isolation).value
    with runtime.store.writing() as c:
        cuts.hold(c)  # in PostgreSQL others write beside it
        seen = observe(c, runtime.lake)
        group = declared(seen, name)
        group = replace(group, members=other_members(seen, group, add, drop))
        if level is not None:
            group = replace(group, isolation=level)
        if snapshot_timeout_ms is not None:
            group = replace(group, snapshot_timeout_ms=snapshot_timeout_ms)
        others = {each: one for each, one in seen.declared.items() if each != group.name}
        refuse_conflicts(group, others)
        refuse_cycles(seen, group)
        refresh_groups.change(c, group)
        events.add(c, joiners(seen, group))


def declared(seen: CatalogState, name: str) -> RefreshGroup:
    found = refresh_groups.find(name, seen.declared)
    if found is None:
        raise UnknownName(f"there is no refresh group {name}", name=name, known=seen.declared)
    return seen.declared[found]


def other_members(
    seen: CatalogState, group: RefreshGroup, add: Sequence[TableName], drop: Sequence[TableName]
) -> tuple[TableName, ...]:
    """The members after some came and some went."""
    coming = [stream(seen, each) for each in add]
    going = [each.find_in(group.members) for each in drop]
    for given, found in zip(drop, going, strict=True):
        if found is None:
            raise UnknownName(
                f"{given} is not a member of refresh group {group.name}",
                name=str(given),
                known=[str(each) for each in group.members],
            )
        if found in coming:
            raise InvalidValue(f"{found} cannot be added and dropped at once")
    left = [each for each in group.members if each not in going]
    members = tuple(dict.fromkeys([*left, *coming]))
    if len(members) < 2:
        raise InvalidValue(
            f"refresh group {group.name} would have fewer than two stream tables",
            hint=f"DROP REFRESH GROUP {shown(group.name)}",
        )
    return members


def add(c: Connection, group: RefreshGroup) -> None:
    """Checked again where nobody can come between."""
    others = refresh_groups.all_groups(c)
    refuse_name(group, others)
    refuse_conflicts(group, others)
    refresh_groups.add(c, group)


def read_isolation(text: str) -> Isolation:
    try:
        return Isolation(text.strip().lower().replace(" ", "_"))
    except ValueError:
        raise InvalidValue(
            f"{text!r} is not an isolation level", hint="use repeatable_read or read_committed"
        ) from None


def known(seen: CatalogState, members: Sequence[TableName]) -> tuple[TableName, ...]:
    """The members as they are kept, each once."""
    different = tuple(dict.fromkeys(stream(seen, member) for member in members))
    if len(different) < 2:
        raise InvalidValue("a refresh group needs at least two stream tables")
    return different


def stream(seen: CatalogState, name: TableName) -> TableName:
    """A stream table's name as it is kept."""
    found = name.find_in(seen.streams)
    if found is None and (other := name.find_in({*seen.pointers, *seen.views})) is not None:
        what = "a view" if other in seen.views else "a source table"
        raise InvalidValue(
            f"{other} is {what}, and a refresh group holds stream tables",
            hint="leave it out: what the members read is read at one cut anyway",
        )
    if found is None:
        raise UnknownName(
            f"there is no stream table {name}",
            name=str(name),
            known=[str(each) for each in seen.streams],
        )
    return found


def check(seen: CatalogState, group: RefreshGroup) -> None:
    refuse_name(group, seen.declared)
    refuse_conflicts(group, seen.declared)
    refuse_cycles(seen, group)


def refuse_name(group: RefreshGroup, others: Iterable[str]) -> None:
    if (there := refresh_groups.find(group.name, others)) is not None:
        raise AlreadyExists(f"refresh group {there} already exists", hint="choose another name")


def refuse_conflicts(group: RefreshGroup, others: Mapping[str, RefreshGroup]) -> None:
    held = {name: each.members for name, each in others.items()}
    for other, common in member_conflicts(group.members, held).items():
        raise Refused(
            f"{common[0]} is a member of refresh group {other}",
            hint=f"DROP REFRESH GROUP {shown(other)}, or name all members in one group",
        )


def refuse_cycles(seen: CatalogState, group: RefreshGroup) -> None:
    """Groups must have an order: none may wait for one that waits for it."""
    groups = {**seen.declared, group.name: group}
    home = {name: each.name for each in groups.values() for name in each.members}
    waits: dict[str, set[str]] = {name: set() for name in groups}
    for name, owner in home.items():
        above = closure([name], seen.reads) - {name}
        waits[owner] |= {home[each] for each in above if each in home} - {owner}
    try:
        topological(waits)
    except Cycle as cycle:
        raise Refused(
            f"refresh groups would wait for each other: {cycle}",
            hint="put their members into one group",
        ) from cycle


def drop_refresh_group(runtime: Runtime, name: str, *, if_exists: bool = False) -> None:
    with runtime.store.writing() as c:
        cuts.hold(c)
        names = list(refresh_groups.all_groups(c))
        found = refresh_groups.find(name, names)
        if found is not None:
            refresh_groups.remove(c, found)
        elif not if_exists:
            raise UnknownName(f"there is no refresh group {name}", name=name, known=names)


def leave_groups(c: Connection, name: TableName) -> None:
    """A dropped table leaves its group; one member alone is no group."""
    for group in refresh_groups.leave(c, name):
        said = f"refresh group {group.name} ended: {name} was dropped and one member is left"
        events.record(c, None, events.GROUP_ENDED, said)


def notices(seen: CatalogState, made: Mapping[TableName, StreamTable], after: Reads) -> list[Event]:
    """What to say about tables that were made or got another query."""
    known = {**seen.streams, **made}
    alone = {name for name, each in known.items() if each.diamond_consistency == "none"}
    moving = Moving(after, grouped(after, known, seen.declared), seen.declared)
    found: dict[Event, None] = {}
    for name in made:
        for diamond in closed_diamonds(name, seen.reads, after):
            if alone.intersection((diamond.convergence, *diamond.branches)):
                continue
            said = f"{diamond}; they will be published together"
            found[Event(diamond.convergence, events.DIAMOND, said)] = None
        found |= dict.fromkeys(moving.left_out(name))
    return list(found)


def joiners(seen: CatalogState, group: RefreshGroup) -> list[Event]:
    """What to say about tables that join members of a group that was declared or altered: of those of
    which nobody has been told."""
    after = {**seen.declared, group.name: group}
    before, now = (
        Moving(seen.reads, grouped(seen.reads, seen.streams, each), each)
        for each in (seen.declared, after)
    )
    return [
        each
        for name in seen.order()
        for each in now.left_out(name)
        if each not in before.left_out(name)
    ]


@dataclass(frozen=True)
class Moving:
    """What moves together, by declaration or because of a diamond."""

    reads: Reads
    groups: Sequence[Group]
    declared: Mapping[str, RefreshGroup]

    def left_out(self, name: TableName) -> list[Event]:
        """The notices for a table that joins members of groups, unless it moves with them anyway."""
        known = {each.name: each.members for each in self.declared.values()}
        together = next((each.members for each in self.groups if name in each.members), (name,))
        hint = "add it to the group if it must show one version of both"
        return [
            Event(name, events.LEFT_OUT, f"{each}; {hint}")
            for each in left_out(name, self.reads, known)
            if not set(each.members).issubset(together)
        ]

"""Refresh groups are declared beside projects: a table that a deployment takes away leaves its group,
and comes back to it with the roll-back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from anabranch.catalog import refresh_groups, streams
from anabranch.catalog.deployment_state import LeftGroup
from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.store import Connection
from anabranch.names import TableName
from anabranch.tables.refresh_groups import leave_groups


def leave(c: Connection, names: Collection[TableName]) -> list[LeftGroup]:
    """Take tables out of their groups; what `rejoin` needs to put them back."""
    before = refresh_groups.all_groups(c)
    for name in names:
        leave_groups(c, name)
    after = refresh_groups.all_groups(c)
    return [
        LeftGroup(
            group.name,
            group.members,
            group.isolation,
            group.snapshot_timeout_ms,
            tuple(each for each in group.members if each in names),
            group.name not in after,
        )
        for group in before.values()
        if not set(names).isdisjoint(group.members)
    ]


def rejoin(c: Connection, left: Iterable[LeftGroup]) -> None:
    """A group that somebody dropped since, or that a table found elsewhere, is left as it is."""
    known = streams.all_streams(c)
    for record in left:
        groups = refresh_groups.all_groups(c)
        now = groups.pop(record.name, None)
        if now is None and not record.ended:
            continue
        elsewhere = {name for group in groups.values() for name in group.members}
        coming = record.members if now is None else record.left
        wanted = [*(now.members if now else ()), *coming]
        members = [
            name for name in dict.fromkeys(wanted) if name in known and name not in elsewhere
        ]
        if len(members) >= 2:
            refresh_groups.remove(c, record.name)
            refresh_groups.add(c, _group(record, now, tuple(members)))


def _group(
    record: LeftGroup, now: RefreshGroup | None, members: tuple[TableName, ...]
) -> RefreshGroup:
    if now is not None:
        return replace(now, members=members)
    return RefreshGroup(record.name, members, record.isolation, record.snapshot_timeout_ms)

"""Which consistency groups wait, and for whom: one rule for ticks, refreshes by hand and listings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from anabranch.catalog.groups import Group
from anabranch.model import Status, WaitCode
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState

NOT_DUE = "not due"


@dataclass(frozen=True)
class Wait:
    """Why a group is left alone, and for which table, if it is one's fault."""

    code: WaitCode
    reason: str
    by: TableName | None = None

    @classmethod
    def until_due(cls, late: TableName | None = None) -> Wait:
        reason = NOT_DUE if late is None else f"{NOT_DUE}: waits for {late}"
        return cls(WaitCode.NOT_DUE, reason, late)

    def passed_on(self) -> Wait:
        """The same for a group that reads this one."""
        return Wait(self.code, f"waits for {self.by}: {self.reason}", self.by)


@dataclass(frozen=True)
class Waiting:
    """A group waits for its own members, as it is published whole, and for what it reads and does not
    stand at the cut; a table above that stands there is in nobody's way, suspended or not.

    Here for refreshes by hand, which wait for suspended tables only: they bring boundaries along, and
    try again what failed.  `recomputed`: somebody asked for these in full, suspended or not.
    """

    state: CatalogState
    recomputed: frozenset[TableName] = field(default=frozenset(), kw_only=True)

    @cached_property
    def groups(self) -> list[Group]:
        return self.state.groups

    @cached_property
    def home(self) -> Mapping[TableName, Group]:
        return {name: group for group in self.groups for name in group.members}

    @cached_property
    def lagging(self) -> frozenset[TableName]:
        """Tables that do not stand at the cut of the state."""
        state = self.state
        order = [name for name in state.order() if name not in state.boundaries]
        return frozenset(state.lagging(order))

    def all_held_up(self, groups: Iterable[Group]) -> dict[Group, Wait]:
        """Those of some groups that are held up."""
        return {group: wait for group in groups if (wait := self.held_up(group)) is not None}

    def held_up(self, group: Group) -> Wait | None:
        """Whom a group has to wait for: a member, or a table that it reads."""
        if found := self.of_members(group):
            return found
        above = (self.of_needed(each) for each in self.needs(group))
        return next((wait for wait in above if wait is not None), None)

    def of_members(self, group: Group) -> Wait | None:
        """Who of a group cannot be refreshed, or reads what nobody may read."""
        for name in group.members:
            if found := self.hindrance(name):
                return Wait(*found, name)
        return None

    def of_needed(self, above: Group) -> Wait | None:
        """The same of a group that has to be brought to the cut before another one."""
        found = self.of_members(above)
        return found and found.passed_on()

    def hindrance(self, name: TableName) -> tuple[WaitCode, str] | None:
        if self.state.streams[name].status is not Status.SUSPENDED or name in self.recomputed:
            return None
        return WaitCode.SUSPENDED, f"{name} is suspended"

    def needs(self, group: Group) -> list[Group]:
        """Groups that must be brought to the cut before this one, upstreams first; whole groups."""
        found: dict[Group, None] = {}
        waiting = [group]
        while waiting:
            for name in self.needed(waiting.pop().members):
                above = self.home[name]
                if above is not group and above not in found:
                    found[above] = None
                    waiting.append(above)
        return [each for each in self.groups if each in found] if found else []

    def needed(self, names: tuple[TableName, ...]) -> list[TableName]:
        """Tables above some that have to move before them."""
        return [*self.behind(names), *self.unfit(names)]

    def behind(self, names: tuple[TableName, ...]) -> list[TableName]:
        if not self.lagging:
            return []
        return [name for name in self.state.needed(names) if name in self.lagging]

    def unfit(self, names: tuple[TableName, ...]) -> list[TableName]:
        """Boundaries that nobody may take as they are."""
        state = self.state
        read = {each for name in names for each in state.reads.get(name, ())}
        return [each for each in sorted(read & state.boundaries) if state.unfit(each)]

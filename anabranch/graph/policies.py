"""When a consistency group is due, and how it reads: the strictest word of those who have a say."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from anabranch.graph.groups import ConsistencyGroup
from anabranch.graph.order import T


class DiamondConsistency(str, Enum):
    """Whether the members of a diamond are published together or each for itself."""

    NONE = "none"
    ATOMIC = "atomic"

    def __str__(self) -> str:
        return self.value


class SchedulePolicy(str, Enum):
    """A group is due when any member is due (fastest), or when all are (slowest).

    What it reads and is behind is brought along (fastest), or waited for until it is due (slowest).
    """

    FASTEST = "fastest"
    SLOWEST = "slowest"

    def __str__(self) -> str:
        return self.value

    def stricter(self, other: SchedulePolicy) -> SchedulePolicy:
        return max(self, other, key=list(SchedulePolicy).index)


class Isolation(str, Enum):
    """What the members of a refresh group read: each what is there, or all one and the same cut."""

    READ_COMMITTED = "read_committed"
    REPEATABLE_READ = "repeatable_read"

    def __str__(self) -> str:
        return self.value

    def stricter(self, other: Isolation) -> Isolation:
        return max(self, other, key=list(Isolation).index)


DEFAULT = "default"  # of a table that says nothing: whatever the setting says at run time


def said_policy(text: str) -> SchedulePolicy | None:
    """The policy that a table declares for itself."""
    return None if text == DEFAULT else SchedulePolicy(text)


def group_policy(
    group: ConsistencyGroup[T],
    policies: Mapping[T, SchedulePolicy | None],
    default: SchedulePolicy = SchedulePolicy.FASTEST,
) -> SchedulePolicy:
    """The strictest policy of the convergence points; other members have no say.

    A table that is a group of its own speaks for itself.  Who says nothing means the default, as does
    a group without a convergence point.
    """
    voters = group.members if group.is_singleton else group.convergence_points
    said = [policies.get(each) or default for each in voters]
    return _strictest(said) if said else default


def _strictest(policies: list[SchedulePolicy]) -> SchedulePolicy:
    strictest = policies[0]
    for policy in policies:
        strictest = strictest.stricter(policy)
    return strictest


def group_isolation(group: ConsistencyGroup[T], declared: Mapping[str, Isolation]) -> Isolation:
    """The strictest isolation of the refresh groups in it; found diamonds alone ask for nothing."""
    strictest = Isolation.READ_COMMITTED
    for name in group.declared:
        strictest = strictest.stricter(declared[name])
    return strictest


def is_group_due(group: ConsistencyGroup[T], policy: SchedulePolicy, due: Mapping[T, bool]) -> bool:
    """any(due) or all(due), over the members that `due` speaks of: those with a schedule.

    A table without a schedule is never waited for; it comes along.  A cyclic component is due as a
    whole as soon as one of its members is, whatever the policy: if one is stale, all may be.
    """
    said = [[due[name] for name in part.members if name in due] for part in group.components]
    votes = [any(each) for each in said if each]
    return any(votes) if policy is SchedulePolicy.FASTEST else bool(votes) and all(votes)

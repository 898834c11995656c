"""A tick: one pass of the scheduler over all consistency groups."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from anabranch.catalog import events, history
from anabranch.catalog.groups import Group
from anabranch.errors import Refused, SparkLost
from anabranch.graph.order import reads_among
from anabranch.graph.policies import SchedulePolicy
from anabranch.model import WaitCode
from anabranch.refresh.observe import CatalogState, observe_everything
from anabranch.refresh.parallel import side_by_side
from anabranch.refresh.publish_sets import PublishSet, RefreshRun, Result, Verdict
from anabranch.refresh.record import SCHEDULER, Trigger
from anabranch.refresh.waiting import Wait
from anabranch.runtime import Runtime
from anabranch.scheduler.due import Agenda


def never() -> bool:
    return False


class Scheduler:
    """Refreshes what is due, and remembers what it has said so as not to say it every second."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._said: dict[object, str] = {}  # by group: why it waits, as written into history
        self._late: set[object] = set()

    def tick(
        self, stopped: Callable[[], bool] = never, abandoned: Callable[[], bool] = never
    ) -> list[dict[str, Any]]:
        """One dict per group; `stopped` begins no more groups, `abandoned` publishes none."""
        runtime = self.runtime
        if runtime.transaction is not None:
            raise Refused("a tick cannot run inside a transaction", hint="tick after it")
        runtime.lake.fence.refuse_copies()
        state = observe_everything(runtime)
        settings = runtime.settings
        pinned = settings.tick_watermark_enabled
        run = RefreshRun(
            runtime,
            Trigger(SCHEDULER, state.cut_id if pinned else None),
            patient=False,
            state=state,
            executor=runtime.workers.members,
            abandoned=abandoned,
            most_errors=settings.max_consecutive_errors,
        )
        agenda = self._agenda(state)
        found: dict[Group, Result] = {}
        for group, wait in agenda.plan.waits.items():
            found[group] = waiting(PublishSet((group,)), wait)
        self._refresh(run, agenda, found, stopped)
        self._report(run, agenda, found)
        for result in found.values():
            if result.failure is not None and isinstance(result.failure.error, SparkLost):
                raise result.failure.error
        return [shown(group, found[group]) for group in agenda.groups]

    def _agenda(self, state: CatalogState) -> Agenda:
        policy = SchedulePolicy(self.runtime.settings.diamond_schedule_policy)
        return Agenda(state, state.moment, policy)

    def _refresh(
        self,
        run: RefreshRun,
        agenda: Agenda,
        found: dict[Group, Result],
        stopped: Callable[[], bool],
    ) -> None:
        plan = agenda.plan
        names = [name for group in plan.work for name in group.members]
        stale = set(run.state.stale(names)) if agenda.something_to_do else set()
        idle = [group for group in plan.work if not stale.intersection(group.members)]
        self._idle(run, idle, found)
        busy = [group for group in plan.work if group not in found]

        def refresh(group: Group) -> bool:
            publish_set = PublishSet((group,), pulled=group in plan.pulled)
            if stopped():
                found[group] = Result.skipped(publish_set, WaitCode.STOPPED, "stopped")
            elif run.trigger.watermark is None:
                found[group] = self._at_own_cut(run, publish_set)
            else:
                found[group] = run.refresh(publish_set)
            return True

        coordinators = self.runtime.workers.coordinators
        side_by_side(busy, reads_among(busy, run.state.reads), refresh, coordinators)

    def _at_own_cut(self, run: RefreshRun, publish_set: PublishSet) -> Result:
        """Without a watermark a group looks for itself, and brings what it reads to its own cut."""
        state = observe_everything(self.runtime)
        own = replace(run, state=state, ahead=frozenset(), stuck={}, _lock=threading.Lock())
        agenda = self._agenda(state)
        group = agenda.home.get(publish_set.members[0])
        if group is None:  # dropped meanwhile
            return Result.skipped(publish_set, WaitCode.DROPPED, "dropped")
        if wait := agenda.held_up(group):
            return waiting(publish_set, wait)
        return own.refresh(replace(publish_set, groups=(*agenda.needs(group), group)))

    def _idle(self, run: RefreshRun, groups: Iterable[Group], found: dict[Group, Result]) -> None:
        """Nothing changed: one statement for all, and one line of history until something does."""
        idle = {
            group: Result(PublishSet((group,)), Verdict.NO_DATA, "no change in the sources")
            for group in groups
        }
        found |= idle
        news = [group for group in idle if self._said.get(group.id) != Verdict.NO_DATA.value]
        run.idle([name for group in news for name in group.members])
        others = [group for group in idle if self._said.get(group.id) == Verdict.NO_DATA.value]
        run.idle([name for group in others for name in group.members], say=False)

    def _report(self, run: RefreshRun, agenda: Agenda, found: dict[Group, Result]) -> None:
        """What is new: groups that wait for another reason than before, or are too slow."""
        records, notes = [], []
        for group, result in found.items():
            if result.verdict is Verdict.NO_DATA:
                self._said[group.id] = Verdict.NO_DATA.value
                continue
            reason = result.reason or ""
            waits = result.code is not None and result.code.is_news
            said = news(result)
            if waits and self._said.get(group.id) != said:
                records += [run.trigger.skipped(name, reason) for name in group.members]
                if result.waits_for is not None and result.waits_for not in group.members:
                    notes.append(events.Event(group.id, events.WAITING, reason))
            if waits or result.verdict is not Verdict.SKIPPED:
                self._said[group.id] = said
            notes += self._lateness(agenda, group, result)
        if records or notes:
            with self.runtime.store.writing() as c:
                history.add(c, records)
                events.add(c, notes)

    def _lateness(self, agenda: Agenda, group: Group, result: Result) -> list[events.Event]:
        """A group that takes longer than its schedule: said once, until it is in time again."""
        interval = agenda.interval(group)
        if interval is None or result.verdict is not Verdict.PUBLISHED:
            return []
        if result.duration_ms <= interval * 1000:
            self._late.discard(group.id)
            return []
        if group.id in self._late:
            return []
        self._late.add(group.id)
        said = (
            f"behind schedule: a refresh took {result.duration_ms / 1000:.1f} s, "
            f"and one is due every {interval:g} s"
        )
        return [events.Event(group.id, events.BEHIND, said)]


def waiting(publish_set: PublishSet, wait: Wait) -> Result:
    return Result.skipped(publish_set, wait.code, wait.reason, wait.by)


def news(result: Result) -> str:
    """What there is to say, without what changes all the time: a countdown is not news."""
    if result.waits_for is not None:
        return f"waits for {result.waits_for}"
    return result.code.value if result.code is not None else result.verdict.value


def shown(group: Group, result: Result) -> dict[str, Any]:
    return {
        "group_id": str(group.id),
        "members": [str(name) for name in group.members],
        "outcome": result.verdict.value,
        "code": result.code.value if result.code is not None else None,
        "reason": result.reason,
        "cut_id": result.cut_id,
        "duration_ms": result.duration_ms,
        "waits_for": str(result.waits_for) if result.waits_for is not None else None,
    }

"""Bugs put back, one at a time: what the simulation must notice.

Each is a bug that the product had once, or a check of the product that is left out.  `seed` is one
that goes wrong with it; all of them go well without.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from anabranch.catalog import (
    cuts,
    deployments,
    groups,
    leases,
    read_leases,
    read_set,
    stages,
    streams,
    tables,
)
from anabranch.catalog.deployments import DeploymentStatus
from anabranch.catalog.groups import Group
from anabranch.catalog.heartbeat import Heartbeat
from anabranch.catalog.read_set import ReadSet
from anabranch.catalog.retention import Retention
from anabranch.catalog.store import Store
from anabranch.cut_view import CutView
from anabranch.deploy import abort, along, conflicts
from anabranch.errors import PublishConflict
from anabranch.lake import archive, collect, publish
from anabranch.lake import upkeep as lake_upkeep
from anabranch.lake.fence import Fence
from anabranch.lake.stage import Stage
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Transaction
from anabranch.scheduler.due import Agenda
from anabranch.tables import stream_tables as declare
from tests.simulation.disk import LocalFiles
from tests.simulation.plans import directed
from tests.standin.engine import swap

Change = tuple[
    Any, Any
]  # a function wherever it is used, or (owner, attribute); and what replaces it


@dataclass(frozen=True)
class Mutation:
    what: str
    changes: tuple[Change, ...]
    seed: int

    @contextmanager
    def applied(self) -> Iterator[None]:
        undo: list[Callable[[], None]] = []
        for found, other in self.changes:
            if isinstance(found, tuple):
                owner, name = found
                before = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
                setattr(owner, name, other)
                undo.append(lambda o=owner, n=name, b=before: setattr(o, n, b))  # type: ignore[misc]
            else:
                undo.append(swap(found, other))
        try:
            yield
        finally:
            for each in reversed(undo):
                each()


def nothing(*_: object, **__: object) -> None: ...


def nobody(*_: object, **__: object) -> list[Any]:
    return []


def without(part: str) -> Callable[..., None]:
    """A publish does not compare one part of what it was computed from."""
    real = ReadSet.check

    def check(self: ReadSet, c: Any) -> None:
        real(replace(self, **{part: type(getattr(self, part))()}), c)

    return check


def compares_nothing(self: ReadSet, c: Any) -> None:
    for token, lease in self.leases.items():
        (leases.end if token in self.last else leases.check)(c, lease)


_SWAP, _GROUPED, _EXPIRED = publish._swap, groups.grouped, Retention.expired
_SHOWN = cuts.shown
_STAGES, _VERSION, _REMOVE = lake_upkeep._stages, CutView.version, stages.remove
_MOVE = deployments.move
_ALONE, _ALONG = Store._alone, along.Along.stage


def swaps_anyway(c: Any, catalog: str, changes: Any) -> None:
    now = cuts.pointers(c, catalog)
    moved = {
        name: staged if staged.base is None else replace(staged, base=now.get(name))
        for name, staged in changes.items()
    }
    _SWAP(c, catalog, moved)


def everyone_alone(*given: Any) -> list[Group]:
    return [Group((part,)) for group in _GROUPED(*given) for part in group.components]


def published_again(*_: object) -> None:
    raise PublishConflict("the connection broke, so nothing was published", hint="run it again")


def takes_it_for_done(stage: Stage, made_cut: bool, error: Exception) -> int:
    stage.close()
    return 1


def starts_too_late(self: Retention, recorded: Any, now: Any, held: Any = ()) -> set[int]:
    """Only cuts after a moment are kept, not the one that was shown then."""
    newest, last = recorded[-1]
    shown = [cut_id for cut_id, at in recorded if at <= min(now, last) - self.total]
    return _EXPIRED(self, recorded, now, held) | ({*shown[-1:]} - {newest, *held})


def cuts_of_nobody(c: Any, now: Any) -> Any:
    living, dead = _STAGES(c, now)
    return [replace(each, cut_id=None) for each in living], dead


def reads_the_newest(self: CutView, name: Any) -> Any:
    if self.check_held is None:
        return _VERSION(self, name)
    return self.lake.current(name)


def lives_again(c: Any, stage_id: str) -> bool:
    _REMOVE(c, stage_id)
    return True


def never_synced(self: Store, *, durable: bool) -> Any:
    return _ALONE(self, durable=False)


def pointers_as_they_are(c: Any) -> Any:
    return cuts.pointers(c, "anabranch")


def shows_them_as_they_are(c: Any, catalog: str) -> cuts.Shown:
    found = _SHOWN(c, catalog)
    return replace(found, pointers=cuts.pointers(c, catalog), moved=[])


def dies_of_an_error(self: Heartbeat, due: Any) -> bool:
    """An error that nobody thought of ends the thread, and with it every lease."""
    with self._writing() as c:
        for each in due:
            each.beat(c)
    return True


def always(*_: object) -> bool:
    return True


def moves_anyway(c: Any, id_: str, before: Any, after: Any, **values: Any) -> bool:
    return _MOVE(c, id_, tuple(DeploymentStatus), after, **values)


def alone_back(self: along.Along) -> None:
    if self.kind != "rollback":
        _ALONG(self)


_STAGES_OF = SimpleNamespace(**{**vars(stages), "all_stages": nobody})
_NO_GRACE = {**(lake_upkeep.maintain.__kwdefaults__ or {}), "foreign_grace": timedelta(0)}

MUTATIONS: dict[str, Mutation] = {
    "definitions": Mutation(
        "a publish does not compare definitions and inputs",
        (((ReadSet, "check"), compares_nothing),),
        431,
    ),
    "lease-check": Mutation(
        "a publish does not look whether it still has its lease",
        ((leases.check, nothing), (leases.end, leases.give_back)),
        800,
    ),
    "lease-taken": Mutation(
        "a lease keeps nobody out, nor does a publish look whether it has one",
        ((leases._busy, nothing), (leases.check, nothing), (leases.end, leases.give_back)),
        75,
    ),
    "read-leases": Mutation(
        "upkeep does not know of held cuts", ((read_leases.held_cuts, nobody),), 946
    ),
    "cuts-of-stages": Mutation(
        "upkeep forgets the cut that a refresh reads",
        ((lake_upkeep._stages, cuts_of_nobody),),
        90,
    ),
    "one-cut": Mutation(
        "a reader looks each table up when it reads it",
        (((CutView, "version"), reads_the_newest),),
        59,
    ),
    "rebase": Mutation(
        "a pointer is moved wherever it stands", ((publish._swap, swaps_anyway),), 7
    ),
    "observed": Mutation(
        "commits of others are read before they are part of a cut",
        (
            (cuts.newest, pointers_as_they_are),
            (cuts.moved_by_others, nobody),
            (cuts.shown, shows_them_as_they_are),
        ),
        55,
    ),
    "half-a-group": Mutation(
        "tables of a diamond are published one by one", ((groups.grouped, everyone_alone),), 3
    ),
    "upstreams": Mutation(
        "what a table reads is not brought to its cut",
        (((Agenda, "needs"), nobody), ((CatalogState, "behind"), nobody)),
        49,
    ),
    "boundaries": Mutation(
        "a tick refreshes tables that are refreshed by hand",
        (((CatalogState, "boundaries"), frozenset()),),
        84,
    ),
    "fsync": Mutation(
        "files are not synced before a publish", (((Stage, "make_durable"), nothing),), 2
    ),
    "synchronous": Mutation(
        "SQLite does not sync the commit of a publish", (((Store, "_alone"), never_synced),), 2
    ),
    "fence": Mutation(
        "a copy of the catalog may write and delete", (((Fence, "_refuse"), nothing),), 6
    ),
    "stages": Mutation(
        "upkeep deletes files of work under way", (((collect, "stages"), _STAGES_OF),), 5
    ),
    "dead-stages": Mutation(
        "work that was given up for dead, and collected, is published",
        ((stages.remove, lives_again),),
        98,
    ),
    "young-files": Mutation(
        "upkeep deletes young files of other programs",
        (((lake_upkeep.maintain, "__kwdefaults__"), _NO_GRACE),),
        45,
    ),
    "needed-snapshots": Mutation(
        "upkeep expires snapshots that stream tables stand on",
        ((streams.needed_snapshots, lambda c: {}),),
        5,
    ),
    "backups": Mutation(
        "upkeep deletes files that a backup is about to copy",
        ((read_leases.all_files_held, nothing),),
        247,
    ),
    "clocks": Mutation(
        "the time of a cut is the host's, also if it is before the last one's",
        ((cuts._next_moment, tables.now),),
        27,
    ),
    "retention": Mutation(
        "upkeep forgets the cut that was shown when the retention begins",
        (((Retention, "expired"), starts_too_late),),
        5,
    ),
    "lost-answer": Mutation(
        "a commit whose answer is lost is taken for undone",
        ((publish._find_out, published_again),),
        22,
    ),
    "lost-commit": Mutation(
        "a commit whose answer is lost is taken for done",
        ((publish._find_out, takes_it_for_done),),
        125,
    ),
    "swapped-readers": Mutation(
        "what reads a table that a deployment swaps is not refreshed with it",
        ((along.needing, lambda *_, **__: frozenset()),),
        38,
    ),
    "names": Mutation("a name is given away twice", ((read_set._check_names, nothing),), 53),
    "boot-clock": Mutation(
        "ages go by the clock on the wall, which somebody sets",
        ((tables._clock, nothing),),
        44,
    ),
    "heartbeat": Mutation(
        "a thread that says that the process lives dies of an error",
        (((Heartbeat, "_beat"), dies_of_an_error),),
        90,
    ),
    "deployment-leases": Mutation(
        "the lease of a deployment is not renewed", ((deployments.renew, nothing),), 94
    ),
    "two-backups": Mutation(
        "a backup copies a file straight into its place",
        (((LocalFiles, "type_name"), "remote"),),
        143,
    ),
    "ended-readers": Mutation(
        "a reader is not told that its cut was given up", ((read_leases.holds, always),), 8157
    ),
    "write-skew": Mutation(
        "a serializable transaction does not compare what it has read",
        (((Transaction, "expect_what_was_read"), nothing),),
        87,
    ),
    "queue": Mutation(
        "a lease is taken past those who wait for it", ((leases._waited_for, nothing),), 38
    ),
    "rollback": Mutation(
        "a roll-back refreshes nothing along", (((along.Along, "stage"), alone_back),), 38
    ),
    "by-hand": Mutation(
        "a roll-back does not look for what was altered since",
        ((conflicts.check_left, nothing),),
        38,
    ),
    "base": Mutation(
        "a promote does not look for what was altered since it was staged",
        ((conflicts.check_base, nothing),),
        238,
    ),
    "status": Mutation(
        "a deployment ends in whatever status it is", ((deployments.move, moves_anyway),), 2039
    ),
    "tokens": Mutation(
        "a publish does not compare definitions",
        (((ReadSet, "check"), without("definitions")),),
        431,
    ),
    "abort": Mutation("an abort leaves what was staged", ((abort.staged_names, nobody),), 136),
    "lineage": Mutation(
        "lineage is written apart from the definition", (((declare, "set_lineage"), nothing),), 36
    ),
    "backups-unsynced": Mutation(
        "a backup does not sync what it copies", (((archive, "sync_each"), nothing),), 93
    ),
}


def line(name: str, seed: int | None = None) -> str:
    """A line of the table: in the README with the seed that is noted."""
    mutation = MUTATIONS[name]
    at = mutation.seed if seed is None else seed
    scene = "set" if directed(at, random.Random(at)) is not None else "by chance"
    return f"| {name} | {mutation.what} | {at + 1} | {scene} |"

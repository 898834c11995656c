"""Observation: where the tables of attached catalogs were at one moment, recorded as a cut.

Catalogs have no moment in common.  So all pointers are collected, again and again, until two
collections agree: between them lies a moment at which every table was where both say it was.  What
was recorded the last time counts as a collection, so that where nothing moved one is enough.

A table that moves all the time would keep the others from ever agreeing.  If it is the only one, it is
asked alone between two collections of the others, which then agree at that moment.

From there on a foreign table is like any other: cuts show it, frontiers name its snapshots, and its
snapshots can be read as long as its owner keeps them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection

from anabranch.catalog import cuts, events, foreign, streams, tables
from anabranch.catalog.cuts import Version
from anabranch.catalog.events import Event
from anabranch.catalog.foreign import Catalog, ForeignTable
from anabranch.errors import (
    AnabranchError,
    MissingRight,
    PublishConflict,
    UnknownName,
)
from anabranch.lake import recorded
from anabranch.lake.attached import (
    Attached,
    Pointer,
    SideBySide,
    ask,
    said,
    silent_error,
    unreadable_error,
)
from anabranch.lake.lake import Lake
from anabranch.lake.observe import OBSERVED, forget_expired, last_steps, record
from anabranch.lake.recorded import Facts, facts
from anabranch.lake.version import TableVersion
from anabranch.names import TableName, shown

ROUNDS = 10  # collections after which tables that never agree are left as they were recorded
USED = timedelta(hours=1)  # how exactly it is noted when a table was last asked for

Pointers = Mapping[TableName, str | None]


@dataclass
class Observation:
    """What an observation found; `answers` hold no table that has a problem."""

    answers: dict[TableName, Pointer] = field(default_factory=dict)
    problems: dict[TableName, str] = field(default_factory=dict)  # of single tables
    silent: dict[str, str] = field(default_factory=dict)  # catalogs, and why
    asked: set[str] = field(default_factory=set)  # catalogs
    unsettled: tuple[TableName, ...] = ()
    cut_id: int | None = None

    def problem_of(self, name: TableName) -> AnabranchError | None:
        """Why a table that somebody asks for cannot be told where it is."""
        catalog = foreign.catalog_of(name) or ""
        if catalog in self.silent:
            return silent_error(catalog, self.silent[catalog])
        if name in self.problems:
            return unreadable_error(name, self.problems[name])
        return None


def in_use(lake: Lake) -> set[TableName]:
    """The foreign tables that stream tables read, or that somebody asked for lately."""
    with lake.store.reading() as c:
        known = foreign.all_tables(c)
        if not known:
            return set()
        now = tables.now(c)
        read = {
            name for upstreams in streams.whole_graph(c).dependencies.values() for name in upstreams
        }
        return {
            name
            for name, each in known.items()
            if name in read or foreign.recently(each.used_at, now)
        }


def observe_all(lake: Lake, *, asked_for: bool = False) -> Observation:
    """Observe what is in use; nothing is asked where nothing foreign is."""
    names = in_use(lake)
    return observe(lake, names, asked_for=asked_for) if names else Observation()


def observe(lake: Lake, names: Collection[TableName], *, asked_for: bool = False) -> Observation:
    """Find out where some foreign tables are, and record what moved as a cut.

    `asked_for`: somebody waits for these tables; otherwise catalogs that were silent rest a while.
    """
    attached = lake.attached.read()
    seen = Observation()
    wanted: dict[Attached, set[TableName]] = {}
    for name in names:
        source = attached.get(foreign.catalog_of(name) or "")
        if source is None:
            continue
        if not asked_for and time.monotonic() < source.rest_until:
            seen.silent[source.catalog.name] = source.catalog.problem or "it did not answer"
            continue
        wanted.setdefault(source, set()).add(name)
    if not wanted:
        return seen
    seen.asked = {each.catalog.name for each in wanted}
    for left in reversed(range(ROUNDS)):
        before = _recorded(lake, wanted)
        _settle(lake, wanted, before, seen)
        moved = _loaded(lake, seen, before)
        if _record(lake, seen, moved, before, asked_for, patient=left > 0):
            break
    for each in wanted:
        (each.failed if each.catalog.name in seen.silent else each.answered)()
    return seen


@dataclass(frozen=True)
class _Before:
    """What was recorded before an observation, and at which cut."""

    pointers: Pointers
    known: Mapping[TableName, ForeignTable]
    catalogs: Mapping[str, Catalog]
    cut_id: int


def _recorded(lake: Lake, wanted: Mapping[Attached, Collection[TableName]]) -> _Before:
    with lake.store.reading() as c:
        known = foreign.all_tables(c)
        pointers = {
            name: known[name].metadata_location if name in known else None
            for some in wanted.values()
            for name in some
        }
        return _Before(pointers, known, foreign.all_catalogs(c), cuts.current(c))


def _settle(
    lake: Lake,
    wanted: Mapping[Attached, Collection[TableName]],
    before: _Before,
    seen: Observation,
) -> None:
    """Collect until two collections agree; `seen` gets what both say."""
    last: Pointers = before.pointers
    alone: TableName | None = None
    for _ in range(ROUNDS):
        middle = _collect(lake, _only(wanted, alone), last) if alone is not None else None
        now = _collect(lake, wanted, last)
        differing = [name for name in now.places if now.places[name] != last.get(name)]
        if alone is not None and middle is not None and differing in ([], [alone]):
            now.answers.update(middle.answers)
            differing = []
        if not differing:
            seen.answers, seen.problems = now.answers, now.problems
            seen.silent |= now.silent
            seen.unsettled = ()
            return
        alone = differing[0] if len(differing) == 1 else None
        last = now.places
        seen.unsettled = tuple(sorted(differing))
    seen.answers, seen.problems, seen.silent = {}, now.problems, {**seen.silent, **now.silent}


@dataclass
class _Collected:
    answers: dict[TableName, Pointer]
    problems: dict[TableName, str]
    silent: dict[str, str]
    places: dict[TableName, str | None]  # of tables with a problem: where they were last


def _collect(
    lake: Lake, wanted: Mapping[Attached, Collection[TableName]], last: Pointers
) -> _Collected:
    found, silent = ask(wanted, lake.attached.seconds)
    answers = {name: each for name, each in found.items() if isinstance(each, Pointer)}
    problems = {name: each for name, each in found.items() if isinstance(each, str)}
    places = {name: last.get(name) for some in wanted.values() for name in some}
    return _Collected(
        answers, problems, silent, places | {name: each.location for name, each in answers.items()}
    )


def _only(
    wanted: Mapping[Attached, Collection[TableName]], name: TableName
) -> dict[Attached, Collection[TableName]]:
    return {each: [name] for each, some in wanted.items() if name in some}


@dataclass(frozen=True)
class _Moved:
    version: Version
    facts: Facts | None
    now: TableVersion | None
    before: TableVersion | None


def _loaded(lake: Lake, seen: Observation, before: _Before) -> dict[TableName, _Moved]:
    """The tables that are elsewhere now, with their metadata; what cannot be read has a problem."""
    moved: dict[TableName, _Moved] = {}
    for name, pointer in seen.answers.items():
        location, was = pointer.location, before.pointers[name]
        if location == was:
            continue
        old = _version(lake, name, was)
        if location is None:
            moved[name] = _Moved(Version(name, None), None, None, old)
            continue
        try:
            now = _read(lake, name, pointer, location)
            known = facts(now.metadata, last_steps(now))
            moved[name] = _Moved(known.version(now), known, now, old)
        except (AnabranchError, ValueError, OSError) as error:
            message = error.message if isinstance(error, AnabranchError) else str(error)
            seen.problems[name] = message.splitlines()[0] if message else type(error).__name__
    return moved


def _read(lake: Lake, name: TableName, pointer: Pointer, location: str) -> TableVersion:
    attached = lake.attached.of(name)
    if attached is not None:
        attached.told(name, pointer)
    if pointer.load is None:
        return lake.version(name, location)
    version = lake.made(name, location, pointer.load())
    lake.remember(version)
    return version


def _version(lake: Lake, name: TableName, location: str | None) -> TableVersion | None:
    if location is None:
        return None
    try:
        return lake.version(name, location)
    except (AnabranchError, ValueError):
        return None


def _record(
    lake: Lake,
    seen: Observation,
    moved: Mapping[TableName, _Moved],
    before: _Before,
    asked_for: bool,
    *,
    patient: bool,
) -> bool:
    """Record what moved; False if somebody else recorded meanwhile, or published.

    What is published all the time does not hold it up for ever: it is only unknown then whether a
    program that wrote both here and there did this or that first.
    """
    news = list(_news(seen, moved, before))
    rows = _rows(seen, moved, before, asked_for)
    if not (moved or news or rows):
        return True
    try:
        with lake.store.writing() as c:
            cuts.hold(c)
            if foreign.pointers(c, before.pointers) != _there(before.pointers):
                return False
            if moved and patient and cuts.current(c) != before.cut_id:
                return False
            if moved:
                seen.cut_id = _make_cut(c, lake, moved)
            foreign.note(c, rows)
            foreign.note_problems(c, _problems(seen, before))
            events.add(c, news)
    except MissingRight:  # a reader sees the newest cut that others have recorded
        pass
    return True


def _there(pointers: Pointers) -> dict[TableName, str]:
    return {name: location for name, location in pointers.items() if location is not None}


def _make_cut(c: Connection, lake: Lake, moved: Mapping[TableName, _Moved]) -> int:
    cut_id = cuts.advance(c)
    if others := cuts.moved_by_others(c, lake.catalog_name):
        record(c, lake, cut_id, others)
        cut_id = cuts.advance(c)
    recorded.add(c, [each.facts for each in moved.values() if each.facts is not None])
    cuts.add(c, cut_id, OBSERVED, [each.version for each in moved.values()])
    for each in moved.values():
        if each.before is not None and each.now is not None:
            forget_expired(c, lake, each.before, each.now)
    return cut_id


def _rows(
    seen: Observation, moved: Mapping[TableName, _Moved], before: _Before, asked_for: bool
) -> list[ForeignTable]:
    """The rows of foreign tables that are not as they were."""
    now = tables.now()
    rows = []
    for name, was in before.pointers.items():
        known = before.known.get(name)
        if name in moved:
            location = moved[name].version.metadata_location
        elif known is None:
            continue  # it never was, or could not be read: nothing is known of it
        else:
            location = was
        problem = seen.problems.get(name)
        if known is not None and foreign.catalog_of(name) in seen.silent:
            problem = known.problem
        used = now if known is None else known.used_at
        if asked_for and now - used > USED:
            used = now
        row = ForeignTable(name, location, used, problem)
        if row != known:
            rows.append(row)
    return rows


def _problems(seen: Observation, before: _Before) -> dict[str, str | None]:
    """Catalogs that are silent now and were not, or the other way round."""
    return {
        name: seen.silent.get(name)
        for name in seen.asked
        if name in before.catalogs and before.catalogs[name].problem != seen.silent.get(name)
    }


# -- what is said of it ------------------------------------------------------------------------


def _news(seen: Observation, moved: Mapping[TableName, _Moved], before: _Before) -> Iterable[Event]:
    for catalog, problem in _problems(seen, before).items():
        was = before.catalogs[catalog].problem
        if problem is None:
            yield Event(None, events.CATALOG_BACK, f"catalog {shown(catalog)} answers again")
        elif was is None:
            text = f"catalog {shown(catalog)} cannot be observed: {problem}"
            yield Event(None, events.CATALOG_SILENT, f"{text}; its tables stay as they were")
    for name, why in seen.problems.items():
        known = before.known.get(name)
        if known is not None and known.problem is None:
            text = f"cannot be observed: {why}; it stays as it was"
            yield Event(name, events.FOREIGN_UNREADABLE, text)
    if seen.unsettled:
        names = ", ".join(map(str, seen.unsettled))
        yield Event(
            None,
            events.UNSETTLED,
            f"{names} moved during each of {ROUNDS} collections: foreign tables stay as they were "
            "until they can be seen at one moment",
        )
    for name, each in moved.items():
        yield from _news_of(name, each)


def _news_of(name: TableName, moved: _Moved) -> Iterable[Event]:
    before, now = moved.before, moved.now
    if now is None:
        yield Event(name, events.FOREIGN_GONE, "its catalog no longer has it")
        return
    if before is None:
        return
    if before.metadata.table_uuid != now.metadata.table_uuid:
        text = "another table took its name: what reads it is recomputed"
        yield Event(name, events.FOREIGN_REPLACED, text)
    elif before.metadata.schema() != now.metadata.schema():
        old = {each.field_id: each for each in before.metadata.schema().fields}
        new = {each.field_id: each for each in now.metadata.schema().fields}
        changed = sorted(
            {each.name for id_, each in new.items() if old.get(id_) != each}
            | {each.name for id_, each in old.items() if id_ not in new}
        )
        yield Event(name, events.FOREIGN_COLUMNS, f"its columns changed: {', '.join(changed)}")


# -- what people ask for -----------------------------------------------------------------------


def require(lake: Lake, names: Iterable[TableName]) -> None:
    """Observe tables that somebody asks for; an error for the first that cannot be read.

    A table that was observed before stays readable as it was, if its catalog is silent now.
    """
    wanted = sorted(set(names))
    seen = observe(lake, wanted, asked_for=True)
    with lake.store.reading() as c:
        known = foreign.pointers(c, wanted)
    for name in wanted:
        problem = seen.problem_of(name)
        if name not in known:
            raise problem or _unknown(lake, name)


def confirm(lake: Lake, names: Iterable[TableName]) -> None:
    """Record where foreign tables are by now; an error if that cannot be told of one of them."""
    wanted = sorted(name for name in names if lake.attached.of(name) is not None)
    if not wanted:
        return
    seen = observe(lake, wanted, asked_for=True)
    for name in wanted:
        if (problem := seen.problem_of(name)) is not None:
            raise problem
        if name in seen.unsettled:
            raise PublishConflict(
                f"table {name} is being changed by another process", hint="run it again"
            )


def _unknown(lake: Lake, name: TableName) -> UnknownName:
    attached = lake.attached.of(name)
    there: list[str] = []
    if attached is not None:
        there = [str(each) for each in listed(attached, name.namespace[1])]
    return UnknownName(f"there is no table {name}", name=str(name), known=there)


def listed(attached: Attached, namespace: str) -> list[TableName]:
    """The tables that a catalog has in a namespace; none where it does not say."""
    try:
        found = attached.iceberg().list_tables((namespace,))
        return [TableName((attached.catalog.name, *each[:-1]), each[-1]) for each in found]
    except Exception:  # whatever a library raises: the list is only for a hint
        return []


def connect(attached: Attached, lake: Lake) -> None:
    """Refuse a catalog that does not answer at all: a wrong address is found when it is attached."""

    def reach() -> list[tuple[str, ...]]:
        return attached.iceberg().list_namespaces()

    done: dict[str, object] = {**SideBySide([("", reach)]).run(lake.attached.seconds)}
    if "" not in done:
        raise silent_error(
            attached.catalog.name, f"it does not answer within {lake.attached.seconds:g} s"
        )
    if isinstance(answer := done[""], Exception):
        raise silent_error(attached.catalog.name, said(answer)) from None

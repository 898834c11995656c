"""The product with time, identity, files and rows of the simulation in place of its own."""

from __future__ import annotations

import contextlib
import random
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anabranch.api  # everything is imported before anything is replaced
import anabranch.backup
from anabranch import cut_view, retry, upkeep
from anabranch.catalog import (
    boot,
    events,
    heartbeat,
    history,
    leases,
    stages,
    streams,
    tables,
)
from anabranch.catalog.identity import Database as Identity
from anabranch.deploy import along, canonical, outside, staging, state
from anabranch.lake import (
    archive,
    collect,
    fence,
    holdings,
    lake,
    manifests,
    observe,
    places,
    publish,
    recorded,
    stage,
    version,
)
from anabranch.lake import upkeep as lake_upkeep
from anabranch.lake.changes import net_rows
from anabranch.refresh import members
from anabranch.refresh import staging as refresh_staging
from anabranch.refresh.component import Outcome
from anabranch.tables import stream_tables as declare
from tests.simulation import light
from tests.simulation.database import SimulatedThread, Turn
from tests.simulation.disk import DiskWarehouse, File, local
from tests.simulation.world import Clock, World, Wrong
from tests.standin.engine import swap

__all__ = ["anabranch", "installed", "simulate"]

_ACTIVE: list[World] = []


def active() -> World:
    return _ACTIVE[-1]


@contextlib.contextmanager
def simulate(world: World) -> Iterator[World]:
    """Inside, this is the world that the product lives in."""
    version._states._values.clear()
    retry.random = random.Random(world.plan.seed)  # type: ignore[assignment]
    _ACTIVE.append(world)
    try:
        world.start()
        yield world
    finally:
        _ACTIVE.pop()


CLOCK: Any = SimpleNamespace(now=lambda zone: active().now())  # for `datetime` in a module


def insert_lease(*given: Any) -> leases.Lease:
    """Notes who took which lease."""
    taken = _INSERT(*given)
    active().current.tokens.add(taken.token)
    return taken


def take_lease(
    c: Any, names: Any, seconds: float, waiting: leases.Waiting | None = None
) -> leases.Lease | Any:
    """Notes whose turn it was; raised here, the product would take it for a fault of its own."""
    names = tuple(names)
    taken = _TAKE(c, names, seconds, waiting)
    world = active()
    if isinstance(taken, leases.Lease) and world.wrong is None:
        try:
            world.on_take(names, waiting)
        except Wrong as error:
            world.wrong = error
    return taken


def overwrite_cut(path: Path, mark: fence.Mark, cut_id: int) -> None:
    """In place, without a sync."""
    found = active().disk.files.get(f"file://{path}")
    if found is not None and found.content == mark.text():
        content = fence.replace(mark, cut=cut_id).text()
        active().disk.files[f"file://{path}"] = File(content, found.mtime, found.synced)


def sync(paths: Any, top: str) -> None:
    active().disk.sync(local(paths))


def sync_copy(paths: Any) -> None:
    """Part of the copying, no step of its own."""
    for path in paths:
        active().disk.files[path].synced = True


def warehouse(location: str, catalog_uuid: str, *, fsync: bool = True) -> DiskWarehouse:
    """Of a lake, or where a backup lies."""
    return DiskWarehouse(str(location), catalog_uuid, active().disk)


def refresh_component(*given: Any, **named: Any) -> list[Outcome]:
    """The product computes all rows again after a fault of its own: here none is passed over."""
    try:
        return light.refresh_component(*given, **named)
    except Exception as error:
        if refresh_staging.is_ours(error):
            world = active()
            world.wrong = world.wrong or error
        raise


class Serial:
    """As many threads as the simulation has."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None: ...

    map = staticmethod(map)


class Plain:
    """Metadata is kept as it is."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def decode(self) -> Any:
        return self.content


def read_metadata(io: Any, location: str, what: str = "metadata file") -> Any:
    return io.disk.read(location, what)


_INSERT, _TAKE = leases._insert, leases.take
_INSTALLED: list[bool] = []


def installed() -> None:
    """Once for a Python process, which does nothing else."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    timer: Any = Clock(active)
    uuid.uuid4 = lambda: active().uuid4()  # type: ignore[assignment]
    for module in [each for name, each in sys.modules.items() if name.startswith("anabranch.")]:
        if vars(module).get("time") is time:
            module.time = timer  # type: ignore[attr-defined]
    boot.boot = lambda: active().boot()  # type: ignore[assignment]
    boot.since_boot = lambda: active().since_boot()
    vars(boot)["wall"] = lambda: None  # where it is asked: it has nothing to compare with
    heartbeat.threading = SimpleNamespace(Thread=SimulatedThread, Condition=Turn)  # type: ignore[assignment]
    for module in (tables, cut_view):
        module.datetime = CLOCK
    swaps: list[tuple[Any, Any]] = [
        (streams.uuid4, lambda: active().uuid4()),
        (stages.host, lambda: active().host()),
        (history.last_runs_of, lambda *_: {}),  # no refresh chooses by its costs
        (stages.process_start, lambda pid: active().process_start(pid)),
        (fence.database_of, lambda store: Identity(store.name, store.name)),
        (fence._overwrite_cut, overwrite_cut),
        (leases._insert, insert_lease),
        (leases.take, take_lease),
        (places.sync, sync),
        (manifests.manifests, light.manifests),
        (manifests.live_entries, light.live_entries),
        (refresh_staging.refresh_component, refresh_component),
        (declare.define, light.define),
        (declare.tables_of, light.sources_of),
        (members.understood, light.understood),
        (net_rows, light.uncounted),
    ]
    swaps += [  # what deployments ask of SQL, and of whom they belong to
        (staging.over, light.over),
        (canonical.canonical_query, str),
        (outside.outside_readers, lambda *_: ()),
        (outside.readers_after_rollback, lambda *_: ()),
        (state.row_counts, lambda *_: {}),
        (state.who, lambda: "somebody"),
    ]
    for real, other in swaps:
        swap(real, other)
    stages.os = SimpleNamespace(getpid=lambda: active().getpid())  # type: ignore[assignment]
    lake.Warehouse = archive.Warehouse = warehouse  # type: ignore[assignment, misc]
    holdings.damaged_files = lambda *_: []  # data files are values, and have no pages
    archive.sync_each = sync_copy
    archive.ThreadPoolExecutor = Serial  # type: ignore[assignment, misc]
    fence.Fence._settle = lambda self: None  # type: ignore[method-assign]  # there is one path
    stage.committed = light.committed
    stage._with_mapping = lambda metadata, hidden: metadata
    stage.new_table_metadata = lambda *given: light.new_metadata(given[3], active().uuid4().hex)
    stage.schema_of = lambda columns: ()
    publish.sealed = lambda metadata, location: metadata
    lake.read_bytes = read_metadata
    lake.unsealed = lambda data, location: Plain(data)
    lake.TableMetadataUtil = SimpleNamespace(parse_raw=lambda metadata: metadata)
    recorded.TableMetadataUtil = light.Metadata
    for module in (lake, collect, holdings):
        module.Snapshot = light.Snapshot
    # few, so that what is kept in rows alone comes about in a short run
    recorded.LISTED, recorded.LONG_WAY = 2, 1
    publish.PREVIOUS_METADATA = publish.SUPERSEDED = 1
    lake_upkeep.LONG_WAY = observe.LONG_WAY = recorded.LONG_WAY
    version.TableVersion.columns = property(lambda self: ())  # type: ignore[assignment]
    events.event = SimpleNamespace(listen=lambda *_, **__: None)  # nobody listens
    upkeep.leased_compact = lambda *_: False
    upkeep.catch_up = lambda *_: None
    for name in ("fit_columns", "fit_readers"):
        for module in (declare, along):
            setattr(module, name, lambda *_: None)
    along.check_mode = lambda *_: None
    version.TableVersion.comments = property(lambda self: {})  # type: ignore[assignment]
    stage.commented = lambda metadata, *_: metadata
    for name in ("check_circle", "definition_notices", "notices"):
        setattr(declare, name, lambda *_: [])

"""Leases: one process at a time refreshes a table, and none keeps others out for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from anabranch.catalog import leases, tables
from anabranch.catalog.leases import Lease
from anabranch.catalog.store import Store
from anabranch.errors import PublishConflict
from anabranch.leases import Leases
from anabranch.names import TableName
from tests.contract.world import World

A, B, C = (TableName.parse(f"s.{each}") for each in "abc")


def take(store: Store, *names: TableName, seconds: float = 60) -> Lease | TableName:
    with store.writing() as c:
        return leases.take(c, names, seconds)


def elsewhere(store: Store) -> None:
    """Every lease belongs to a process of another machine."""
    with store.writing() as c:
        c.execute(update(tables.leases).values(host="another machine"))


def test_a_table_has_one_holder(world: World) -> None:
    first = take(world.store, A, B)
    assert isinstance(first, Lease) and first.tables == (A, B)
    assert take(world.store, B, C) == B
    assert isinstance(take(world.store, C), Lease), "what was refused left nothing behind"
    with world.store.writing() as c:
        leases.give_back(c, first)
    assert isinstance(take(world.store, A, B), Lease)


def test_a_lease_ends_with_its_time_unless_it_is_renewed(world: World) -> None:
    held = take(world.store, A, seconds=-1)
    assert isinstance(held, Lease)
    elsewhere(world.store)
    with world.store.writing() as c:
        leases.renew(c, [held.token], 60)
    assert take(world.store, A) == A
    with world.store.writing() as c:
        leases.renew(c, [held.token], -1)
    assert isinstance(take(world.store, A), Lease)


def test_who_was_taken_over_cannot_publish(world: World) -> None:
    late = take(world.store, A, B, seconds=-1)
    assert isinstance(late, Lease)
    with world.store.writing() as c:
        leases.check(c, late)  # nobody came: the work is still its own
    assert isinstance(take(world.store, B), Lease)
    with world.store.writing() as c, pytest.raises(PublishConflict, match="took over the refresh"):
        leases.check(c, late)


def test_a_dead_process_of_this_machine_holds_nothing(world: World) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    assert isinstance(take(world.store, A), Lease)
    assert take(world.store, A) == A
    with world.store.writing() as c:
        c.execute(update(tables.leases).values(pid=dead.pid, process_start="1"))
    assert isinstance(take(world.store, A), Lease)


def test_of_many_at_once_one_gets_it(world: World) -> None:
    found: list[Lease | TableName] = []
    start = threading.Barrier(6)

    def race() -> None:
        start.wait()
        found.append(take(world.store, C, A, B))

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(each) for each in found].count(Lease) == 1


def test_old_leases_are_forgotten(world: World) -> None:
    assert isinstance(take(world.store, A, seconds=-timedelta(days=2).total_seconds()), Lease)
    assert isinstance(take(world.store, B), Lease)
    with world.store.writing() as c:
        assert leases.forget(c) == 1


def test_who_had_to_wait_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, first = Leases(world.store), take(world.store, A)
    assert isinstance(first, Lease)
    with ours.hold([A, B], 60, wait=False) as refused:
        assert refused == A
    asked = ours._take

    def ask_and_let_go(*names: Any) -> Lease | TableName:
        found = asked(*names)
        with world.store.writing() as c:
            leases.give_back(c, first)
        return found

    monkeypatch.setattr(ours, "_take", ask_and_let_go)
    with ours.hold([A, B], 60, wait=True) as lease:
        assert isinstance(lease, Lease) and lease.waited
    with ours.hold([A], 60, wait=True) as lease:
        assert isinstance(lease, Lease) and not lease.waited

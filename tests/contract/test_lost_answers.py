"""The connection is cut while a publish commits: its outcome is found out, nothing is done twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy.engine import Connection as SqlConnection
from sqlalchemy.exc import OperationalError

from anabranch.catalog import cuts, stages
from anabranch.errors import OutcomeUnknown, PublishConflict, Unreachable
from anabranch.lake import publish as publishing
from anabranch.lake.publish import publish
from anabranch.lake.stage import Stage
from tests.contract.test_publish import files, open_stages
from tests.contract.world import T, World, bag, written


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "FIND_OUT_PAUSE", 0.01)


@contextmanager
def failing_commit(
    monkeypatch: pytest.MonkeyPatch, *, before: bool, times: int = 1
) -> Iterator[list[int]]:
    """Commits fail: `before` they are done, or after."""
    real, failed = SqlConnection.commit, [0]

    def commit(self: SqlConnection) -> None:
        failed[0] += 1
        if failed[0] <= times:
            if not before:
                real(self)
            raise OperationalError("COMMIT", {}, Exception("server closed the connection"))
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(SqlConnection, "commit", commit)
        yield failed


def staged(world: World) -> Stage:
    stage = Stage(world.lake)
    stage.commit_rows(T, written(stage, T, add=[(1, "eu")]))
    return stage


def newest(world: World) -> int:
    with world.store.reading() as c:
        return cuts.current(c)


def test_a_commit_that_arrived_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create()
    stage = staged(world)
    with failing_commit(monkeypatch, before=False):
        cut = publish(stage, "test")
    assert cut == newest(world) and not open_stages(world)
    assert bag(world.lake.current(T)) == {(1, "eu"): 1}


def test_a_commit_that_did_not_arrive_is_a_conflict(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create()
    before, cut = files(world), newest(world)
    stage = staged(world)
    with (
        failing_commit(monkeypatch, before=True),
        pytest.raises(PublishConflict, match="nothing was published"),
    ):
        publish(stage, "test")
    assert newest(world) == cut and not open_stages(world)
    assert files(world) == before, "what was staged is gone"


@pytest.mark.parametrize("before", [True, False])
def test_what_cannot_be_known_is_said_and_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    world.create()
    monkeypatch.setattr(publishing, "FIND_OUT_SECONDS", 0.05)
    stage = staged(world)
    with (
        failing_commit(monkeypatch, before=before, times=10**6),
        pytest.raises(OutcomeUnknown, match="unknown: shop.sales"),
    ):
        publish(stage, "test")
    assert any(stage.id in path for path in files(world)), "the files may be needed"


def test_rows_alone_are_found_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written_rows: list[int | None] = []
    stage = Stage(world.lake)
    with failing_commit(monkeypatch, before=False):
        assert publish(stage, "test", lambda c, cut_id: written_rows.append(cut_id)) is None
    assert written_rows == [None] and not open_stages(world)


class Proxy:
    """A way to the server that can be cut once a message has gone through."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.cut_after: Callable[[bytes], bool] = lambda data: False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._sockets:
            hang_up(each)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.server)
            self._sockets += [here, there]
            for way in ((here, there, True), (there, here, False)):
                self._threads.append(threading.Thread(target=self._pump, args=way, daemon=True))
                self._threads[-1].start()

    def _pump(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        try:
            while data := source.recv(65536):
                cut = up and self.cut_after(data)
                if cut:  # the client hears nothing more; the server gets the message
                    source.shutdown(socket.SHUT_RDWR)
                target.sendall(data)
                if cut:
                    target.shutdown(socket.SHUT_WR)
                    return
        except OSError:
            pass
        finally:
            for each in (source, target):
                hang_up(each)


def hang_up(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def test_a_real_connection_cut_after_commit_was_sent(postgres_url: str, tmp_path: Path) -> None:
    import uuid

    import psycopg

    schema = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    asked: dict[str, Any] = parse_qs(urlsplit(postgres_url).query)
    proxy = Proxy(f"{asked['host'][0]}/.s.PGSQL.{asked['port'][0]}")
    world = World(
        f"postgresql://anabranch@127.0.0.1:{proxy.port}/postgres?sslmode=disable"
        f"&options=-csearch_path%3D{schema}",
        tmp_path / "warehouse",
    )
    try:
        world.create()
        stage = staged(world)
        ready, done = threading.Event(), []

        def once(data: bytes) -> bool:
            if ready.is_set() and b"COMMIT" in data and not done:
                done.append(data)
                return True
            return False

        proxy.cut_after = once
        cut = publish(stage, "test", lambda c, cut_id: ready.set())
        assert done, "the connection was not cut"
        assert cut == newest(world) == 2 and not open_stages(world)
        assert bag(world.lake.current(T)) == {(1, "eu"): 1}
    finally:
        world.close()
        proxy.close()


def test_a_publish_that_is_unreachable_before_it_commits_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create()
    before = files(world)
    stage = staged(world)

    def lost(c: Any, stage_id: str) -> bool:
        raise OperationalError("DELETE", {}, Exception("server closed the connection"))

    with monkeypatch.context() as patch, pytest.raises(Unreachable):
        patch.setattr(stages, "remove", lost)
        publish(stage, "test")
    with world.store.writing() as c:
        stages.remove(c, stage.id)
    assert files(world) == before

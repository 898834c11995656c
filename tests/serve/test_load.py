"""Many clients of a server in a process of its own: every commit that was acknowledged is there."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog

COMMITS = int(os.environ.get("ANABRANCH_LOAD_COMMITS", "10000"))
CLIENTS, TABLES = 64, 50


def anabranch(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "anabranch", "--home", str(home), *words]


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str]]:
    """The address and a token of a server that the command line started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    subprocess.run(anabranch(home, "init", "--bare", str(home.parent)), check=True)
    made = subprocess.run(
        anabranch(home, "token", "create", "--role", "admin"),
        check=True, text=True, capture_output=True,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    running = subprocess.Popen(anabranch(home, "serve", "--port", str(port)))
    try:
        for _ in range(600):
            try:
                requests.get(f"{address}/healthz", timeout=5).raise_for_status()
                break
            except requests.ConnectionError:
                assert running.poll() is None, "the server has ended"
                time.sleep(0.1)
        yield address, made.stdout.strip()
    finally:
        running.terminate()
        assert running.wait(60) == 0


class Client(threading.Thread):
    """Counts up in the summary of a table's snapshots: a lost update would be counted twice."""

    def __init__(self, number: int, address: str, token: str, left: list[int]) -> None:
        super().__init__()
        self.random = random.Random(number)
        self.http = requests.Session()
        self.http.headers["Authorization"] = f"Bearer {token}"
        self.root = f"{address}/iceberg/v1/latest/namespaces/load/tables"
        self.left = left
        self.said: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.seconds: list[float] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while True:
            try:
                self.left.pop()
            except IndexError:
                return
            table = self.random.randrange(TABLES)
            started = time.monotonic()
            while not self.count_up(table):
                if self.wrong:
                    return
            self.seconds.append(time.monotonic() - started)
            self.done[table] += 1

    def count_up(self, table: int) -> bool:
        path = f"{self.root}/t{table}"
        metadata = self.http.get(f"{path}?snapshots=refs", timeout=300).json()["metadata"]
        said = self.http.post(path, json=next_commit(metadata), timeout=300)
        self.said[said.status_code] += 1
        if said.status_code not in (200, 409, 503):
            self.wrong.append(said.text)
        return said.status_code == 200


def next_commit(metadata: dict[str, Any]) -> dict[str, Any]:
    current = metadata.get("current-snapshot-id")
    (before,) = [each for each in metadata["snapshots"] if each["snapshot-id"] == current]
    new = random.getrandbits(62)
    snapshot = {
        "snapshot-id": new,
        "parent-snapshot-id": current,
        "sequence-number": before["sequence-number"] + 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": before["manifest-list"],
        "summary": {"operation": "append", "n": str(int(before["summary"].get("n", 0)) + 1)},
        "schema-id": 0,
    }
    needs = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": new}
    return {
        "requirements": [needs],
        "updates": [{"action": "add-snapshot", "snapshot": snapshot}, ref],
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_commit_of_many_clients_is_lost(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as (address, token):
        prepare(address, token)
        left = list(range(COMMITS))
        clients = [Client(number, address, token, left) for number in range(CLIENTS)]
        started = time.monotonic()
        for each in clients:
            each.start()
        for each in clients:
            each.join()
        took = time.monotonic() - started
        said, done = Counter[int](), Counter[int]()
        for each in clients:
            assert not each.wrong, each.wrong
            said += each.said
            done += each.done
        seconds = sorted(one for each in clients for one in each.seconds)
        print(
            f"{COMMITS} commits by {CLIENTS} clients to {TABLES} tables in {took:.0f} s, answers: "
            f"{dict(said)}; until done p50 {seconds[len(seconds) // 2]:.2f} s, "
            f"p99 {seconds[len(seconds) * 99 // 100]:.2f} s"
        )
        assert said[200] == COMMITS == done.total()
        assert counted(address, token) == {f"t{table}": done[table] for table in range(TABLES)}


def prepare(address: str, token: str) -> None:
    """Tables with a first snapshot, whose list of manifests all later ones share."""
    catalog = RestCatalog("load", uri=f"{address}/iceberg", token=token)
    catalog.create_namespace("load")
    rows = pa.table({"x": pa.array([1], pa.int64())})
    for number in range(TABLES):
        catalog.create_table(f"load.t{number}", rows.schema).append(rows)


def counted(address: str, token: str) -> dict[str, int]:
    catalog = RestCatalog("load", uri=f"{address}/iceberg", token=token, warehouse="pinned")
    found = {}
    for _, name in catalog.list_tables("load"):
        snapshot = catalog.load_table(("load", name)).current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        found[name] = int(snapshot.summary.additional_properties.get("n", 0))
    return found

"""Two tables of a diamond, read by an unmodified client while groups publish."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from anabranch import Anabranch
from tests.serve.running import Served

READS = int(os.environ.get("ANABRANCH_TEARING_READS", "1500"))
PAIRS_BY_PIN = 10


@pytest.fixture
def diamond(ab: Anabranch) -> Anabranch:
    ab.sql("CREATE TABLE s.t (v BIGINT)")
    ab.sql("INSERT INTO s.t VALUES (1)")
    ab.create_stream_table("s.left", "SELECT SUM(v) AS v FROM s.t")
    ab.create_stream_table("s.right", "SELECT SUM(v) AS v FROM s.t")
    ab.create_stream_table("s.both", "SELECT l.v FROM s.left l JOIN s.right r ON l.v = r.v")
    return ab


def total(catalog: RestCatalog, name: str) -> Any:
    (row,) = catalog.load_table(name).scan().to_arrow().to_pylist()
    return row["v"]


def publish(ab: Anabranch) -> None:
    ab.sql("INSERT INTO s.t VALUES (1)")
    ab.refresh()


def test_a_publish_between_two_reads_tears_latest_and_no_pin(
    diamond: Anabranch, here: Served
) -> None:
    latest, pinned = here.catalog("latest"), here.catalog("pinned")
    before = [total(catalog, "s.left") for catalog in (latest, pinned)]
    publish(diamond)
    after = [total(catalog, "s.right") for catalog in (latest, pinned)]
    assert before == [1, 1] and after == [2, 1]
    again = here.catalog("pinned")
    assert total(again, "s.left") == total(again, "s.right") == 2


@contextmanager
def publishing(ab: Anabranch) -> Iterator[list[int]]:
    """Publishes go on inside; how many there were."""
    over, count = threading.Event(), [0]

    def run() -> None:
        while not over.is_set():
            publish(ab)
            count[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


@pytest.mark.extended
def test_thousands_of_reads(diamond: Anabranch, here: Served) -> None:
    torn, seen = {"latest": 0, "pinned": 0}, set()
    with publishing(diamond) as published:
        for _ in range(READS // PAIRS_BY_PIN // 2):
            pinned, latest = here.catalog("pinned"), here.catalog("latest")
            for _ in range(PAIRS_BY_PIN):
                for name, catalog in (("pinned", pinned), ("latest", latest)):
                    pair = total(catalog, "s.left"), total(catalog, "s.right")
                    torn[name] += pair[0] != pair[1]
                    seen.add(pair[0])
    print(f"{READS} pairs, {published[0]} publishes, {len(seen)} states, torn: {torn}")
    assert torn["pinned"] == 0
    assert torn["latest"] > 0 and len(seen) > 10, "nothing was put to the test"

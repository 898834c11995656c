"""Runs of actors in the shop: one given order, or all orders that can differ."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from anabranch.catalog import leases, streams, tables
from anabranch.errors import AnabranchError
from anabranch.runtime import Transaction
from tests.explore.accesses import Event, Recorder
from tests.explore.interleave import Choose, Conductor, Stuck, expected, switching
from tests.explore.search import Search
from tests.explore.shop import ALLOWED, Shop, actors, check, kind_of

Acts = tuple[str, ...]


class Broken(AssertionError):
    """Something that must hold does not, after `order`."""

    def __init__(self, acts: Acts, order: str, error: Exception) -> None:
        super().__init__(f"{' and '.join(acts)}, {order}: {error}")
        self.order = order


class Order:
    """`a5 b a`: five events of the first actor, the second as far as it gets, then the first."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = (re.fullmatch(r"([a-z])(\d*)", part) for part in text.split())
        self.blocks = [(ord(m[1]) - ord("a"), int(m[2] or 10**9)) for m in found if m]

    def choose(self, ready: Sequence[int]) -> int:
        while self.blocks:
            actor, count = self.blocks[0]
            if count and actor in ready:
                self.blocks[0] = actor, count - 1
                return actor
            self.blocks.pop(0)
        return ready[0]

    def note(self, event: Event) -> None: ...


def order_of(events: Sequence[Event]) -> str:
    blocks = itertools.groupby(event.actor for event in events)
    return " ".join(f"{chr(ord('a') + actor)}{len(list(found))}" for actor, found in blocks)


class Explorer:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.shops: dict[str, Shop] = {}

    def shop(self, acts: Acts) -> Shop:
        kind = kind_of(acts)
        if kind not in self.shops:
            (self.folder / kind).mkdir()
            self.shops[kind] = Shop(self.folder / kind, kind)
        return self.shops[kind]

    def run(self, acts: Acts, text: str) -> list[Event]:
        """One order, and what must hold after it."""
        order = Order(text)
        with self._explained(acts, events := []):
            self._run(acts, order.choose, order, events)
            check(self.shop(acts), acts)
        return events

    def all(self, acts: Acts, bound: int | None = None, most: int | None = None) -> Search:
        """Every order that can differ, or so many of them."""
        search = Search(bound)
        while True:
            with self._explained(acts, events := []):
                whole = self._run(acts, search.choose, search, events)
                if search.end(events, whole):
                    check(self.shop(acts), acts)
            if not search.advance() or search.runs == most:
                return search

    def _run(self, acts: Acts, choose: Choose, noting: Any, events: list[Event]) -> bool:
        shop = self.shop(acts)
        shop.restore()
        recorder = Recorder(shop.home / "catalog.db")
        conductor = Conductor(actors(shop, acts), recorder, choose, noting.note)
        conductor.events = events
        unleased: list[str] = []
        try:
            with switching(self.patch, conductor), watching(self.patch, unleased):
                whole = conductor.run()
        finally:
            recorder.close()
        for actor in conductor.actors:
            if not expected(actor.error, ALLOWED):
                raise AssertionError(f"{actor.name} failed: {actor.error!r}") from actor.error
        assert not unleased, f"published without a lease: {unleased}"
        return whole

    @contextmanager
    def _explained(self, acts: Acts, events: list[Event]) -> Iterator[None]:
        try:
            yield
        except (AssertionError, AnabranchError, Stuck) as error:
            raise Broken(acts, order_of(events), error) from error


@contextmanager
def watching(patch: pytest.MonkeyPatch, unleased: list[str]) -> Iterator[None]:
    """Notes every stream table that somebody publishes who does not hold its lease just then."""
    mine = threading.local()
    insert, write = leases._insert, Transaction._write_rows

    def inserted(*given: Any) -> leases.Lease:
        taken = insert(*given)
        mine.tokens = {*getattr(mine, "tokens", ()), taken.token}
        return taken

    def written(tx: Transaction, c: Connection, cut_id: int | None) -> None:
        published = [str(name) for name in tx.stage.changes if name in streams.tokens(c)]
        # read as any transaction reads: without the product's own question the order still matters;
        # and before the rows are written, since the last publish under a lease gives it back
        rows = c.execute(select(tables.leases).where(tables.leases.c.table_name.in_(published)))
        held = {row.table_name: row.token for row in rows}
        write(tx, c, cut_id)
        tokens = getattr(mine, "tokens", ())
        unleased.extend(name for name in published if held.get(name) not in tokens)

    with patch.context() as inside:
        inside.setattr(leases, "_insert", inserted)
        inside.setattr(Transaction, "_write_rows", written)
        yield

"""Random commits of other engines, and what stream tables over them must show."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from anabranch import Anabranch
from tests.standin.hand import Hand, Row
from tests.standin.theirs import Theirs

ID, AMOUNT = 1, 2
KEYS = 6  # few, so that deletes hit and rows repeat
STREAMS = {
    "mart.rows": "SELECT id, amount FROM prod.sales.orders",
    "mart.sums": "SELECT id, COUNT(*) AS n, SUM(amount) AS s FROM prod.sales.orders GROUP BY id",
    "mart.joined": "SELECT o.id, o.amount, x.amount AS other FROM prod.sales.orders o "
    "JOIN prod.sales.others x ON x.id = o.id WHERE o.amount > 2",
}


@dataclass
class Commits:
    """Two tables of others and what happens to them."""

    chance: random.Random
    tables: list[Hand]
    said: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, ab: Anabranch, folder: Path, chance: random.Random) -> Commits:
        theirs = Theirs(folder / "theirs")
        made = cls(chance, [])
        for name in ("orders", "others"):
            theirs.table(name)
            made.tables.append(Hand(theirs, name, chance))
            made.tables[-1].append(made._rows(4))
        ab.attach("prod", "sql", **theirs.properties)
        for name, query in STREAMS.items():
            ab.create_stream_table(name, query, schedule=None)
        return made

    def some(self) -> None:
        """One to three commits."""
        for _ in range(self.chance.randint(1, 3)):
            hand = self.chance.choice(self.tables)
            act = self.chance.choice(ACTS)
            self.said.append(f"{hand.name} {act.__name__}")
            act(self, hand)

    def _rows(self, count: int) -> list[Row]:
        return [self._row() for _ in range(count)]

    def _row(self) -> Row:
        return {
            ID: self.chance.choice([None, *range(KEYS)]),
            AMOUNT: self.chance.choice([None, 1, 2, 3, 4, 5]),
        }

    def append(self, hand: Hand) -> None:
        hand.append(self._rows(self.chance.randint(1, 5)))

    def upsert(self, hand: Hand) -> None:
        keys = self.chance.choice([(ID,), (AMOUNT,), (ID, AMOUNT)])
        rows = self._rows(self.chance.randint(1, 3))
        hand.delete_keys(keys, rows, add=rows if self.chance.random() < 0.7 else ())

    def places(self, hand: Hand) -> None:
        if any(each.blob for each in hand.deletions):
            return self.vectors(hand)  # version 3 adds no position deletes
        key = self.chance.randrange(KEYS)
        hand.delete_places(lambda row: row.get(ID) == key)
        return None

    def vectors(self, hand: Hand) -> None:
        amount = self.chance.randint(1, 5)
        hand.delete_by_vectors(lambda row: row.get(AMOUNT) == amount)

    def rewrite(self, hand: Hand) -> None:
        chosen = {f.path for f in hand.data if self.chance.random() < 0.5}
        hand.rewrite(lambda file: file.path in chosen, keep_age=self.chance.random() < 0.3)

    def add_column(self, hand: Hand) -> None:
        name = f"c{self.chance.getrandbits(40):x}"

        def add(table: Any) -> None:
            with table.update_schema() as update:
                update.add_column(name, self.chance.choice([StringType(), LongType()]))

        hand.change(add)

    def partition(self, hand: Hand) -> None:
        """By the key, or not at all."""

        def evolve(table: Any) -> None:
            with table.update_spec() as update:
                if table.spec().is_unpartitioned():
                    update.add_field("id", IdentityTransform(), f"p{self.chance.getrandbits(40):x}")
                else:
                    update.remove_field(table.spec().fields[0].name)

        hand.change(evolve)


ACTS = (
    Commits.append,
    Commits.append,
    Commits.upsert,
    Commits.upsert,
    Commits.places,
    Commits.vectors,
    Commits.rewrite,
    Commits.add_column,
    Commits.partition,
)


def agrees(ab: Anabranch, commits: Commits) -> None:
    """Tables and stream tables hold the rows that are left, by the book and by recomputation."""
    orders, others = (Counter((row[0], row[1]) for row in hand.rows) for hand in commits.tables)
    said = commits.said
    assert _bag(ab.sql("SELECT id, amount FROM prod.sales.orders")) == orders, said
    assert _bag(ab.sql("SELECT id, amount FROM prod.sales.others")) == others, said
    assert _bag(ab.table("mart.rows")) == orders, said
    for name in STREAMS:
        assert ab.verify(name)["equal"], (name, said)


def _bag(found: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in found.collect())

"""What one refresh asks of the catalog, and how much of our code it walks through: counts, no times.

    python -m benchmarks.statements [--home DIR] [--show]

Four cases, each after two rounds to warm up: a refresh by hand of one small aggregate after one
INSERT, a tick over a diamond (a source, two tables that read it, one that joins them) after one INSERT,
a tick that finds nothing to do, and a promote of a project (a source, a view, a stream table) of which
one query has changed.  `--show` prints the statements as well, `--out` writes the counts to a file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import event, update

import anabranch
from anabranch.catalog import tables

OURS = str(Path(anabranch.__file__).parent)
SELECT = re.compile(r"\s*(SELECT|WITH|VALUES)\b", re.IGNORECASE)
NO_STATEMENT = re.compile(r"\s*(BEGIN|PRAGMA|SAVEPOINT|COMMIT|SET)\b", re.IGNORECASE)
WARM_UP = 2


@dataclass
class Counts:
    """A transaction that only asks counts as one; many rows in one INSERT are one statement."""

    transactions: int = 0
    texts: list[str] = field(default_factory=list)
    code: set[CodeType] = field(default_factory=set)

    @property
    def selects(self) -> int:
        return sum(bool(SELECT.match(text)) for text in self.texts)

    @property
    def others(self) -> int:
        return len(self.texts) - self.selects

    @property
    def functions(self) -> int:
        return len(self.code)

    @property
    def files(self) -> int:
        return len({each.co_filename for each in self.code})

    @property
    def numbers(self) -> dict[str, int]:
        return {
            "SELECTs": self.selects,
            "other statements": self.others,
            "transactions": self.transactions,
            "functions": self.functions,
            "files": self.files,
        }


class Profile:
    """Which of our functions are called, in all threads that begin after this one was made."""

    def __init__(self) -> None:
        self.counts: Counts | None = None
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def note(self, frame: FrameType, what: str, _: object) -> None:
        if what == "call" and self.counts is not None:
            code = frame.f_code
            if code.co_filename.startswith(OURS) and not code.co_name.startswith("<"):
                self.counts.code.add(code)

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # takes it away


@contextmanager
def counted(ab: anabranch.Anabranch, profile: Profile | None = None) -> Iterator[Counts]:
    """What happens inside, on all threads."""
    counts = Counts()
    engine = ab._runtime.store.engine

    def begin(_: Any) -> None:
        counts.transactions += 1

    def execute(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not NO_STATEMENT.match(statement):
            counts.texts.append(statement)

    event.listen(engine, "begin", begin)
    event.listen(engine, "before_cursor_execute", execute)
    if profile is not None:
        profile.counts = counts
    try:
        yield counts
    finally:
        if profile is not None:
            profile.counts = None
        event.remove(engine, "begin", begin)
        event.remove(engine, "before_cursor_execute", execute)


def aggregate(ab: anabranch.Anabranch) -> Callable[[int], Callable[[], object]]:
    """One small aggregate, refreshed by hand."""
    ab.sql("CREATE TABLE one.sales (region STRING, amount BIGINT)")
    ab.sql("INSERT INTO one.sales VALUES ('eu', 1), ('us', 2)")
    query = "SELECT region, sum(amount) AS total FROM one.sales GROUP BY region"
    ab.create_stream_table("one.totals", query, schedule=None)

    def begin(number: int) -> Callable[[], object]:
        ab.sql(f"INSERT INTO one.sales VALUES ('eu', {number})")
        return lambda: ab.refresh("one.totals")

    return begin


def diamond(ab: anabranch.Anabranch) -> Callable[[int], Callable[[], object]]:
    """s → b, c → d, brought up to date by a tick."""
    ab.sql("CREATE TABLE dia.s (k BIGINT, v BIGINT)")
    ab.sql("INSERT INTO dia.s VALUES (1, 1), (2, 2)")
    ab.create_stream_tables(
        {
            "dia.b": "SELECT k, sum(v) AS v FROM dia.s GROUP BY k",
            "dia.c": "SELECT k, v FROM dia.s WHERE v > 0",
            "dia.d": "SELECT b.k, b.v, c.v AS w FROM dia.b AS b JOIN dia.c AS c ON b.k = c.k",
        },
        schedule="1s",
    )

    def begin(number: int) -> Callable[[], object]:
        ab.sql(f"INSERT INTO dia.s VALUES (1, {number})")
        _make_due(ab)
        return ab.tick

    return begin


def idle(ab: anabranch.Anabranch) -> Callable[[int], Callable[[], object]]:
    """A tick over the same, with nothing new."""

    def begin(_: int) -> Callable[[], object]:
        _make_due(ab)
        return ab.tick

    return begin


def promote(ab: anabranch.Anabranch) -> Callable[[int], Callable[[], object]]:
    """The swap of one staged table; staging it is not counted."""
    project = Path(tempfile.mkdtemp(prefix="anabranch-project-"))
    sources = {
        "anabranch.toml": 'name = "pro"',
        "models/pro/m/t.sql": "CREATE TABLE t (k BIGINT, v BIGINT)",
        "models/pro/m/w.sql": "CREATE VIEW w AS SELECT k, v FROM t WHERE v > 0",
    }

    def begin(number: int) -> Callable[[], object]:
        query = f"SELECT k, sum(v) AS v FROM w WHERE k <> {number} GROUP BY k"
        model = {"models/pro/m/totals.sql": f"CREATE STREAM TABLE totals AS {query}"}
        for name, text in {**sources, **model}.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        made = ab.stage(str(project))
        assert made is not None
        return lambda: ab.promote(made)

    return begin


def _make_due(ab: anabranch.Anabranch) -> None:
    """As if the schedule's time had passed: nobody waits for it here."""
    with ab._runtime.store.writing() as c:
        c.execute(update(tables.stream_tables).values(last_refresh_at=None))


CASES = (aggregate, diamond, idle, promote)


def measured(ab: anabranch.Anabranch, profile: Profile | None = None) -> dict[str, Counts]:
    """The counts of every case."""
    found = {}
    for case in CASES:
        begin = case(ab)
        for number in range(WARM_UP):
            begin(number)()
        act = begin(WARM_UP)
        with counted(ab, profile) as counts:
            act()
        found[case.__name__] = counts
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", help="of a catalog; a new one in a temporary folder if not given")
    parser.add_argument("--show", action="store_true", help="print the statements as well")
    parser.add_argument("--out", help="write the counts to a JSON file")
    given = parser.parse_args()
    profile = Profile()
    with tempfile.TemporaryDirectory(prefix="anabranch-statements-") as folder:
        ab = anabranch.connect(given.home or folder)
        found = measured(ab, profile)
        ab.close()
    profile.close()
    shown = Table("case", *Counts().numbers)
    for name, counts in found.items():
        shown.add_row(name, *map(str, counts.numbers.values()))
    Console().print(shown)
    if given.out:
        numbers = {name: counts.numbers for name, counts in found.items()}
        Path(given.out).write_text(json.dumps(numbers, indent=1) + "\n")
    if given.show:
        for name, counts in found.items():
            print(f"\n-- {name}")
            for text in counts.texts:
                print(" ".join(text.split())[:200])


if __name__ == "__main__":
    main()

"""The demo on stage: rounds as tables, totals that agree, and what to try next."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from anabranch.cli.session import CliSession
from anabranch.demo.home import FOLDER, fresh, program, shown
from anabranch.demo.story import FIRST_ROWS, PICTURE, QUERIES, ROUNDS, SUMMARY, Round, set_up
from anabranch.spark.session import expect_little

WIDTH = 88
STYLES = {"DIFFERENTIAL": "green", "NO_DATA": "dim", "FULL": "yellow", "REINITIALIZE": "yellow"}

READ = (
    "from pyiceberg.catalog.sql import SqlCatalog; "
    "print(SqlCatalog('anabranch', uri='{catalog}').load_table('{table}').scan().to_arrow())"
)


class Stage:
    def __init__(self, session: CliSession) -> None:
        self.session = session
        self.console = Console(highlight=False, emoji=False)
        if not self.console.is_terminal or self.console.width > WIDTH:
            self.console.width = WIDTH
        self.agree = True

    def play(self) -> bool:
        """Whether every total agreed and every table equals its query."""
        expect_little()
        home = fresh(Path(self.session.home or FOLDER).absolute())
        self.session.home, self.session.catalog = str(home), None
        self._open()
        with self.session.progress.task("creating tables …"):
            set_up(self.session.ab)
        for number, each in enumerate(ROUNDS, 1):
            self._round(number, each)
        equal = self._verify()
        self._close(home)
        return equal and self.agree

    def _open(self) -> None:
        text = Text(
            f"A source of {FIRST_ROWS:,} sales, two stream tables over it, and one over both.\n"
            "Each is a SQL query whose result is an Iceberg table, kept from changes alone.\n\n"
        )
        text.append(PICTURE, style="cyan")
        self.console.print(Panel(text, title="Anabranch", border_style="cyan", padding=(1, 2)))

    def _round(self, number: int, each: Round) -> None:
        ab = self.session.ab
        before = {name: _newest(ab.history(name)) for name in QUERIES}
        with self.session.progress.task(f"{each.title} …"):
            each.change(ab)
            started = time.perf_counter()
            ab.refresh()
            seconds = time.perf_counter() - started
        after = {name: _newest(ab.history(name)) for name in QUERIES}
        self.console.print(Text(f"\nRound {number}: {each.title}", style="bold"))
        self.console.print(_table(before, after))
        self.console.print(self._totals(seconds))

    def _totals(self, seconds: float) -> Text:
        """Both totals, read from one cut."""
        with self.session.ab.at() as world:
            row = world.table(SUMMARY).collect()[0]
        cut = self.session.ab.cuts()[0]["cut_id"]
        same = row["regional_total"] == row["product_total"]
        self.agree = self.agree and same
        text = Text("  refreshed and published in ")
        text.append(f"{seconds:.2f} s", style="bold").append(f", cut {cut}:  ")
        text.append(f"{row['regional_total']:,} {'=' if same else '≠'} {row['product_total']:,}")
        return text.append("  ✓" if same else "  ✗", style="bold green" if same else "bold red")

    def _verify(self) -> bool:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in ("table", "equal", "missing rows", "unexpected rows"):
            table.add_column(name, justify="right" if " " in name else "left")
        with self.session.progress.task("verifying …"):
            checks = [self.session.ab.verify(name) for name in QUERIES]
        for check in checks:
            sign = Text("✓", style="bold green") if check["equal"] else Text("✗", style="bold red")
            counts = (str(check[key]) for key in ("missing_rows", "unexpected_rows"))
            table.add_row(check["table"], sign, *counts)
        proof = "\nProof: each table against its query, recomputed in full at its frontier"
        self.console.print(Text(proof, style="bold"))
        self.console.print(table)
        return all(check["equal"] for check in checks)

    def _close(self, home: Path) -> None:
        command = f"{program('anabranch')} --home {shlex.quote(shown(home))}"
        catalog = f"sqlite:///{home / 'catalog.db'}"
        text = Text("The tables are plain Iceberg in ")
        text.append(f"{shown(home)}/warehouse", style="cyan").append(". Try:")
        self.console.print(Panel(text, border_style="cyan"))
        for line in (
            f"{command} status",
            f"{command} history {SUMMARY}",
            f"{command} explain shop.revenue_by_region",
            f"{command} sql 'SELECT * FROM {SUMMARY}'",
            f"{command} sql",
            f'{program("python")} -c "{READ.format(catalog=catalog, table=SUMMARY)}"',
        ):
            self.console.print(Text("  " + line), soft_wrap=True)


def _newest(history: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return history[0] if history else None


def _table(
    before: Mapping[str, Mapping[str, Any] | None], after: Mapping[str, Mapping[str, Any] | None]
) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("table", "refresh", "rows in", "rows out", "ms"):
        table.add_column(name, justify="left" if name in ("table", "refresh") else "right")
    for name, entry in after.items():
        if entry is None or entry == before[name]:
            table.add_row(name, Text("nothing to do", style="dim"), "0", "0", "-")
            continue
        action = str(entry["action"])
        table.add_row(
            name,
            Text(action, style=STYLES.get(action, "")),
            str(entry["rows_inserted"]),
            str(entry["rows_deleted"]),
            str(entry["duration_ms"]),
        )
    return table

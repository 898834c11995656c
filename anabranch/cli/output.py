"""The only place that writes: the answer to stdout, everything else to stderr.

Commands say what they have found; an Output puts it as text for people or as JSON for programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import click

from anabranch.cli.values import NUMBERS, dumps, is_number, shown
from anabranch.errors import AnabranchError
from anabranch.lazy import lazy

if TYPE_CHECKING:
    from rich import box, text
    from rich import console as consoles
    from rich import table as tables
else:
    box = lazy("rich.box")
    consoles = lazy("rich.console")
    tables = lazy("rich.table")
    text = lazy("rich.text")


Row = Mapping[str, Any]


class Output(Protocol):
    verbose: bool

    def rows(self, rows: Sequence[Row], columns: Sequence[str], empty: str) -> None:
        """A listing; `columns` are those people want to see if they hold anything, JSON has all."""

    def result(
        self, names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], cut: bool
    ) -> None:
        """The rows of a query; `cut` says that there are more."""

    def answer(self, text: str, data: object) -> None:
        """One thing: as text, or the data behind it."""

    def done(self, facts: Row) -> None:
        """A statement that gives no rows has been run."""

    def note(self, text: str) -> None:
        """Something worth knowing that is not the answer."""


class Notes:
    """What both kinds of output share: stderr."""

    def __init__(self, verbose: bool = False) -> None:
        self.verbose = verbose

    def note(self, text: str) -> None:
        click.echo(text, err=True)


class JsonOutput(Notes):
    """One JSON value per line for queries, one array for listings."""

    def rows(self, rows: Sequence[Row], columns: Sequence[str], empty: str) -> None:
        self.answer("", list(rows))

    def result(
        self, names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], cut: bool
    ) -> None:
        for row in rows:
            click.echo(dumps(dict(zip(distinct(names), row, strict=True))))
        if cut:
            self.note(cut_note(len(rows)))

    def answer(self, text: str, data: object) -> None:
        click.echo(dumps(data))

    def done(self, facts: Row) -> None:
        click.echo(dumps(facts))


class TextOutput(Notes):
    """Aligned tables, coloured on a terminal."""

    def rows(self, rows: Sequence[Row], columns: Sequence[str], empty: str) -> None:
        if not rows:
            self.note(empty)
            return
        columns = [name for name in columns if any(row.get(name) is not None for row in rows)]
        cells = [[listed(row.get(name)) for name in columns] for row in rows]
        right = [
            all(is_number(row[at]) or row[at] is None for row in cells)
            for at in range(len(columns))
        ]
        self._table([name.replace("_", " ") for name in columns], right, cells, null="-")

    def result(
        self, names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]], cut: bool
    ) -> None:
        self._table(names, [is_number_type(one) for one in types], rows, null="NULL")
        self.note(cut_note(len(rows)) if cut else f"({counted(len(rows), 'row')})")

    def answer(self, text: str, data: object) -> None:
        click.echo(text)

    def done(self, facts: Row) -> None:
        rows = [
            f"{counted(number, 'row')} {name.removeprefix('rows_')}"
            for name, number in facts.items()
            if name.startswith("rows_") and number
        ]
        words = [str(value) for name, value in facts.items() if not name.startswith("rows_")]
        changes = any(name.startswith("rows_") for name in facts)
        self.note(" ".join(words) + (f": {', '.join(rows) or 'no rows'}" if changes else ""))

    def _table(
        self,
        names: Sequence[str],
        right: Sequence[bool],
        rows: Sequence[Sequence[Any]],
        null: str,
    ) -> None:
        def cell(value: object) -> text.Text:
            return text.Text(shown(value).replace("\n", "\\n"))

        table = tables.Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold"
        )
        for name, to_the_right in zip(names, right, strict=True):
            justify: Literal["left", "right"] = "right" if to_the_right else "left"
            table.add_column(text.Text(name), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(
                *(text.Text(null, style="dim") if one is None else cell(one) for one in row)
            )
        console = consoles.Console(file=sys.stdout, highlight=False, emoji=False)
        if not console.is_terminal:  # a pipe has no width: nothing is folded
            console.width = 100_000
        console.print(table, crop=False)


def is_number_type(spark_type: str) -> bool:
    return spark_type.split("(")[0] in NUMBERS


def distinct(names: Sequence[str]) -> list[str]:
    """`id`, `id_2`: a JSON object cannot hold two columns of one name."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return found


def listed(value: object) -> object:
    """A cell of a listing: names side by side, times as the clock on the wall shows them."""
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return ", ".join(map(shown, value)) if isinstance(value, (list, tuple)) else value


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cut_note(shown_rows: int) -> str:
    return f"({counted(shown_rows, 'row')} shown; there are more: use --limit)"


def error_text(error: AnabranchError) -> str:
    """`error: …` and `hint: …`, red and dim on a terminal."""
    text = coloured("error: ", fg="red", bold=True) + error.message
    return text + (coloured("\nhint: ", fg="cyan") + error.hint if error.hint else "")


def coloured(text: str, **how: Any) -> str:
    """In colour, unless somebody asked all programs for none; `echo` takes colours off for files."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **how)

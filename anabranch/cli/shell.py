"""The interactive shell: multi-line SQL until `;`, history, completion, and a few `\\` commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import has_completions
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from anabranch.cli.output import error_text
from anabranch.cli.statements import REFRESH_COLUMNS, Runner
from anabranch.errors import AnabranchError, InternalError, SqlSyntaxError, UnknownName
from anabranch.names import TableName
from anabranch.places import create_file
from anabranch.sql.text.tokens import Sort, tokenize

KEYWORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT RIGHT FULL INNER CROSS ON USING UNION ALL
DISTINCT WITH AS AND OR NOT IN EXISTS IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END CAST COUNT SUM
AVG MIN MAX INSERT INTO VALUES UPDATE SET DELETE MERGE MATCHED CREATE ALTER DROP REFRESH EXPLAIN
DESCRIBE SHOW TABLE TABLES VIEW STREAM CLUSTER INDEX SCHEDULE CALCULATED MODE AUTO DIFFERENTIAL REPLACE
IF CASCADE SUSPEND RESUME BIGINT INT STRING DOUBLE DECIMAL BOOLEAN DATE TIMESTAMP
""".split()

HELP = r"""
SQL ends with ; and may span lines.
  \d          list the tables
  \d NAME     show the columns of a table
  \s NAME     show how a stream table is maintained
  \r [NAME]   refresh a stream table, or all
  \h          this help
  \q          leave (also Ctrl-D); Ctrl-C drops the line or stops the statement
""".strip()


LEAVE = (r"\q", "exit", "quit", "exit;", "quit;")


def complete(text: str) -> bool:
    """Whether Enter should run the text instead of starting another line."""
    if not text.strip() or text.lstrip().startswith("\\") or text.strip() in LEAVE:
        return True
    try:
        tokens = [token for token in tokenize(text) if token.sort is not Sort.END]
    except SqlSyntaxError:  # a string or comment is still open
        return False
    return bool(tokens) and tokens[-1].says(";")


class SqlCompleter(Completer):
    """Keywords, tables and columns; the names are read once per statement."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.names: list[str] | None = None

    def known(self) -> list[str]:
        if self.names is None:
            try:
                tables = self.runner.session.ab.columns()
            except AnabranchError:
                tables = {}
            columns = {column.name for each in tables.values() for column in each}
            self.names = sorted(str(name) for name in tables) + sorted(columns)
        return self.names

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        word = (
            document.get_word_before_cursor(pattern=None, WORD=True).split("(")[-1].split(",")[-1]
        )
        if not word:
            return
        lower = word.isalpha() and word.islower()
        words = [key.lower() if lower else key for key in KEYWORDS]
        for candidate in (*self.known(), *words):
            if candidate.lower().startswith(word.lower()):
                yield Completion(candidate, start_position=-len(word))


class Shell:
    def __init__(self, runner: Runner, **streams: Any) -> None:
        self.runner = runner
        self.completer = SqlCompleter(runner)
        self.prompt: PromptSession[str] = PromptSession(
            history=_history(Path(runner.session.settings().home)),
            completer=self.completer,
            complete_while_typing=False,
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, line, wrapped: "…".rjust(width - 1) + " ",
            **streams,
        )

    def run(self) -> None:
        """Read and run until the end; an error ends the statement, not the shell."""
        self.runner.session.note(
            r"Anabranch SQL. Statements end with ; — \h for help, \q to leave."
        )
        while True:
            try:
                text = self.prompt.prompt("anabranch> ").strip()
                if text in LEAVE:
                    return
                self.one(text)
            except EOFError:
                return
            except KeyboardInterrupt:
                continue

    def one(self, text: str) -> None:
        self.completer.names = None
        try:
            if text.startswith("\\"):
                self.meta(*text.rstrip(";").split(maxsplit=1))
            elif text:
                self.runner.run(text)
        except AnabranchError as error:
            click.echo(error_text(error), err=True)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
        except Exception as error:
            if self.runner.out.verbose:
                raise
            unexpected = InternalError(f"{type(error).__name__}: {error}")
            click.echo(error_text(unexpected), err=True)

    def meta(self, word: str, name: str = "") -> None:
        ab, out = self.runner.session.ab, self.runner.out
        if word in (r"\d", r"\dt") and not name:
            out.rows(ab.tables(), ("table", "kind", "status"), "no tables yet")
        elif word == r"\d":
            out.rows(self.columns_of(name), ("column", "type"), "no columns")
        elif word == r"\s" and name:
            out.answer(str(ab.explain(name)), ab.explain(name))
        elif word == r"\r":
            out.rows(ab.refresh(name or None), REFRESH_COLUMNS, "no stream tables yet")
        else:
            click.echo(HELP, err=True)

    def columns_of(self, text: str) -> list[dict[str, str]]:
        name, tables = TableName.parse(text), self.runner.session.ab.columns()
        known = {str(one).lower(): columns for one, columns in tables.items()}
        if str(name).lower() not in known:
            raise UnknownName(f"there is no table {name}", name=str(name), known=map(str, tables))
        return [{"column": one.name, "type": one.type} for one in known[str(name).lower()]]


def _history(home: Path) -> History:
    if not home.is_dir():
        return InMemoryHistory()
    file = home / "sql_history"
    create_file(file)
    return FileHistory(str(file))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys

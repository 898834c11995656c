"""Writes the generated pages of docs/ from the code: settings, commands, errors, Python, diagrams.

`python tools/docs.py` writes them; `python tools/docs.py --check` says which are out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from inspect import getattr_static
from pathlib import Path
from typing import Any

import click

import anabranch
from anabranch import Anabranch, errors, listing
from anabranch.api import UNSET
from anabranch.cli.main import cli
from anabranch.cut_view import CutView
from anabranch.retry import described
from anabranch.settings import FILE, TABLE, Settings
from anabranch.sql.lower.supported import SUPPORTED
from anabranch.sql.obstacles import CODES
from anabranch.verbs.table import SECTIONS as TABLE_OF_VERBS
from anabranch.verbs.table import VERBS, Absent, Verb

sys.path.insert(0, str(Path(__file__).resolve().parent))
import diagrams

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- written by `make docs`; edit the code, not this page -->\n"


def settings_page() -> str:
    rows = "\n".join(
        f"| `{each.name}` | {each.kind.name} | {_code(each.default)} | {each.meaning} "
        f"| {'no' if each.fixed else 'yes'} |"
        for each in TABLE.values()
    )
    return f"""{NOTE}
# Settings

The value of a setting comes from the first of these that has it:

1. an argument of the call, such as `create_stream_table(…, diamond_consistency="none")`;
2. `SET anabranch.<name> = <value>`, until the connection ends;
3. an argument of `connect()` or an option of the command line;
4. the environment: `ANABRANCH_` and the name in capitals, with `_` for `.`, such as
   `ANABRANCH_SPARK_MASTER`;
5. the file `{FILE}` in the current folder or the nearest folder above it that has one;
6. the default.

`SELECT * FROM system.settings` and `ab.settings()` list the values in force and where each comes from.

| name | type | default | meaning | `SET` |
|---|---|---|---|---|
{rows}

Durations are written `500ms`, `2s`, `1h30m`, `7d` or `2w`. Fractions are between 0 and 1.

## Where the tables are

`anabranch.connect()` uses the folder `{Settings().home}` of the current folder: a SQLite catalog
`catalog.db` and a `warehouse` for data files. `connect("path")` uses another folder,
`connect("postgresql://user:password@host/database", warehouse="/data/warehouse")` a shared catalog,
`connect("path/to/settings.toml")` another settings file and `connect({{"parallelism": 2}})` the
given settings. The first place that has `home` or `catalog` decides both: a folder passed to
`connect` overrides a `catalog` in the file. A connection string of keywords (`host=… password=…`) is
refused, since it would name a file; a file or folder whose own name is like that is written `./name`.

## The file

```toml
catalog = "postgresql://etl@db.example/lake"
warehouse = "s3://lake/warehouse"
snapshot_retention = "14d"

[spark]
master = "local[4]"

[spark.conf]
"spark.driver.memory" = "4g"
```

Relative paths in the file are relative to the file. `anabranch init` writes a file with all
settings, explained.
"""


def _code(default: str) -> str:
    return default if " " in default or default == "none" else f"`{default}`"


def cli_page() -> str:
    asked = {"max_content_width": 90, "terminal_width": 90}
    context = click.Context(cli, info_name="anabranch", **{**cli.context_settings, **asked})
    parts = [
        NOTE,
        "# Command line",
        "The answer goes to stdout, everything else to stderr. Listings take `--json`.",
        "Exit codes: 0 done, 1 user error, 2 refused or a failed check, 3 system failure, "
        "130 interrupted.",
        f"```text\n{cli.get_help(context)}\n```",
    ]
    parts += commands_of(cli, context, "## anabranch")
    return "\n\n".join(parts) + "\n"


def commands_of(group: click.Group, context: click.Context, heading: str) -> Iterator[str]:
    """The help of every command, those below another one after it."""
    for name, command in group.commands.items():
        inner = click.Context(command, info_name=name, parent=context, terminal_width=90)
        yield f"{heading} {name}\n\n```text\n{command.get_help(inner)}\n```"
        if isinstance(command, click.Group):
            yield from commands_of(command, inner, f"#{heading} {name}")


def errors_page() -> str:
    tree = (errors.__doc__ or "").strip().split("\n\n", 1)[1]
    rows = "\n".join(
        f"| `{name}` | {kind.kind.value} | {errors.EXIT_CODES[kind.kind]} | {described(kind.retry)} |"
        for name, kind in error_classes().items()
    )
    return f"""{NOTE}
# Errors

Every error that Anabranch raises is an `AnabranchError` from `anabranch.errors`. It has a short
`message` that names the object, often a `hint` with the cure, and an `exit_code` for the command line.

```text
{tree}
```

| error | kind | exit code | a refresh is tried again |
|---|---|---|---|
{rows}

Whatever the error, what was visible before stays visible: a write, refresh or group that fails
publishes nothing. [Troubleshooting](operations.md#troubleshooting) goes from symptoms to cures.
"""


def support_page() -> str:
    rows = "\n".join(
        f"| `{name}` | {code.operator} | {_cell(code.meaning)} | {_cell(code.hint)} |"
        for name, code in CODES.items()
    )
    kept = "\n".join(
        f"| {each.part} | {each.how} | `{_cell(each.example)}` |" for each in SUPPORTED
    )
    return f"""{NOTE}
# What is incremental

These parts of SQL, nested in any way, are maintained from the delta of their sources:

| part | how its change is found | example |
|---|---|---|
{kept}

Rows that tie in the `ORDER BY` of a window or a limit are ordered by all columns the query
reads, so that nothing is left to chance. `ORDER BY` without `LIMIT` has no effect on what is stored.
`current_date`, `now()` and the like mean one moment per refresh, which the snapshot's summary records;
when they mean something else than last time, the table is recomputed.

## What is recomputed

A query with one of the following parts gives the right result, too. With refresh mode `AUTO` it is
recomputed when a source changes, and `explain` and the history say why; with `DIFFERENTIAL` it is
refused at creation.

| reason | operator | meaning | what to do |
|---|---|---|---|
{rows}
"""


# Listings whose rows a system view shows as well.
VIEWS = {
    "lineage": "lineage",
    **{
        str(verb.python): verb.sql.rpartition(".")[2]
        for verb in VERBS
        if isinstance(verb.sql, str) and verb.sql.startswith("SELECT * FROM system.")
        if verb.name not in ("graph", "dependency_tree")
    },
}


def sections() -> dict[str, list[str]]:
    """The methods by section of the table of verbs; what is no verb comes last."""
    public = [name for name in vars(Anabranch) if not name.startswith("_")]
    found = {
        title: [
            name for name in dict.fromkeys(str(verb.python) for verb in verbs) if name in public
        ]
        for title, verbs in TABLE_OF_VERBS.items()
    }
    placed = {name for names in found.values() for name in names}
    return {**found, "Connection": [name for name in public if name not in placed]}


def verbs_page() -> str:
    parts = [
        NOTE,
        "# Verbs",
        "Everything that Anabranch does is a verb, and Python, SQL and the command line are three ways "
        "to say it. Every option of a command is an argument of the method and the other way round. "
        "`ab` is what `anabranch.connect()` returns; see [Python](reference.md), [SQL](sql.md) and "
        "[Command line](cli.md) for the details.",
        "`CALL system.name(value, …, name => value)` calls a verb that SQL has no statement for. The "
        "arguments are those of the method, and the answer is rows.",
        "The role is the first that may on PostgreSQL: reader, writer, scheduler, owner, each with the "
        "rights of those before it. A verb that changes something may still find nothing to do.",
    ]
    for title, verbs in TABLE_OF_VERBS.items():
        rows = "\n".join(
            f"| {verb.name.replace('_', ' ')} | {_method(verb)} | {_said(verb.sql, '')} "
            f"| {_said(verb.cli, 'anabranch ')} | {verb.role.value} "
            f"| {'changes' if verb.changes else 'reads'} |"
            for verb in verbs
        )
        head = "| verb | Python | SQL | command line | role | |\n|---|---|---|---|---|---|"
        parts.append(f"## {title}\n\n{head}\n{rows}")
    return "\n\n".join(parts) + "\n"


def _method(verb: Verb) -> str:
    if isinstance(verb.python, Absent):
        return _said(verb.python, "")
    return f"`{verb.python}`" if "." in verb.python else f"`ab.{verb.python}`"


def _said(said: str | Absent, before: str) -> str:
    return f"none: {said.why}" if isinstance(said, Absent) else f"`{before}{_cell(said)}`"


def reference_page() -> str:
    parts = [
        NOTE,
        "# Python",
        "Everything is a method of the object that `anabranch.connect()` returns, called `ab` here. "
        "Listings return a list of dicts. Every error is an `AnabranchError`, see "
        "[Errors](errors.md). None of the listings starts Spark.",
        "```python\nimport anabranch\n\nwith anabranch.connect() as ab:\n    print(ab.status())\n```",
        "## Opening a catalog",
        _entry("anabranch.", "connect", anabranch.connect),
        _entry("anabranch.", "restore", anabranch.restore),
    ]
    for title, names in sections().items():
        parts.append(f"## {title}")
        parts += [_entry("ab.", name, getattr_static(Anabranch, name)) for name in names]
    parts.append("## A held cut")
    parts.append("`with ab.at() as world:` gives a cut that all reads of the block share.")
    parts += [_entry("world.", name, getattr_static(CutView, name)) for name in ("table", "sql")]
    return "\n\n".join(parts) + "\n"


def _entry(owner: str, name: str, member: Any) -> str:
    """Heading, signature and docstring of a function, method or property."""
    told = inspect.getdoc(member) or ""
    if isinstance(member, property):
        signature = f"{owner}{name}"
    else:
        found = inspect.signature(member)
        given = [each for each in found.parameters.values() if each.name != "self"]
        signature = _wrapped(f"{owner}{name}", [str(each) for each in _marked(given)])
    columns = ""
    if owner == "ab." and name in VIEWS:
        named = ", ".join(f"`{column}`" for column in listing.COLUMNS[VIEWS[name]])
        columns = f"\n\nColumns, also of `system.{VIEWS[name]}`: {named}."
    text = re.sub(r"(?<=\.)  (?=\S)", " ", told)
    return f"### {owner}{name}\n\n```text\n{signature}\n```\n\n{text}{columns}"


def _marked(given: Sequence[inspect.Parameter]) -> Iterator[str]:
    """Parameters as they are written, with the `*` before those that are named only."""
    named = False
    for each in given:
        if each.kind is each.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        default = "" if each.default is each.empty else f"={_default(each.default)}"
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        yield f"{stars}{each.name}{default}"


def _default(value: Any) -> str:
    return "…" if value is UNSET else repr(value)


def _wrapped(name: str, arguments: list[str]) -> str:
    short = f"{name}({', '.join(arguments)})"
    if len(short) <= 96:
        return short
    filled = textwrap.wrap(", ".join(arguments), 92, break_long_words=False)
    return "\n".join([f"{name}(", *(f"    {line}" for line in filled), ")"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def error_classes() -> dict[str, type[errors.AnabranchError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.AnabranchError)
    }


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "support.md": support_page,
    "reference.md": reference_page,
    "verbs.md": verbs_page,
    **{f"images/{name}": draw for name, draw in diagrams.DIAGRAMS.items()},
}


def stale() -> list[str]:
    """The pages whose text is not what the code says now."""
    return [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != page()
    ]


def main() -> int:
    names = stale()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/{name} is out of date: run `make docs`" for name in names))
        return 1 if names else 0
    for name in names:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

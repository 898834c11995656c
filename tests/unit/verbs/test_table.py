"""One door: Python, SQL and the command line have every verb, with every argument."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import anabranch
from anabranch import Anabranch, listing
from anabranch.catalog.grants import ROLES
from anabranch.cli.main import cli
from anabranch.errors import AnabranchError, InvalidValue, UnknownName
from anabranch.sql.batches import batches
from anabranch.sql.statements.records import Call, CreateTest, Insert, Query
from anabranch.statements import STATEMENTS
from anabranch.verbs.table import BY_SQL, PROCEDURES, SECTIONS, VERBS, Absent, Role, Verb

# Of Python and the command line alone: no verbs, but what a connection or a shell is.
CONNECTION = {"spark", "spark_actions", "on_progress", "close", BY_SQL}
SHELL = {"init", "trust", "demo", "prepare", BY_SQL, "serve", "token"}
NOT_ON_THE_LINE = {  # arguments that a shell has no word for
    "run": {"stop", "abandon", "watch"},  # signals, and a line for each group
    "wait": {"watch"},  # a spinner
    "rollback": {"project"},  # of the current folder
    "restore": {"target", "settings"},  # --home, --catalog and --warehouse
}
OTHERWISE = {  # commands that ask for a file, a format or a page of what Python returns
    "graph": {"form", "svg"},
    "events": {"limit"},
    "cuts": {"limit"},
    "groups": {"which"},
    "columns": {"name"},
    "verify": {"names"},
    "grants": {"role"},
    "recover": {"from_warehouse"},
}
RENAMED = {"deployment": "deployment_id", "no_refresh": "refresh", "no_initialize": "initialize"}


def every(what: str) -> list[Any]:
    said = [(verb, getattr(verb, what)) for verb in VERBS]
    return [pytest.param(verb, one, id=verb.name) for verb, one in said if isinstance(one, str)]


def method(name: str) -> Any:
    owner, _, rest = name.rpartition(".")
    return inspect.getattr_static(anabranch if owner else Anabranch, rest)


def command(words: str) -> click.Command:
    found: click.Command = cli
    for word in words.split():
        if not word.startswith("--"):
            assert isinstance(found, click.Group)
            found = found.commands[word]
    return found


def arguments(function: Any, *without: str) -> set[str]:
    return {*inspect.signature(function).parameters} - {"self", "session", *without}


def test_names_are_said_once() -> None:
    names = [verb.name for verb in VERBS]
    assert len(names) == len(set(names))
    assert [role.value for role in Role] == list(ROLES)
    assert all(SECTIONS.values())


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_what_cannot_be_said_has_a_reason(verb: Verb) -> None:
    assert callable(verb.act())
    missing = [one for one in (verb.python, verb.sql, verb.cli) if isinstance(one, Absent)]
    assert len(missing) < 3 and all(len(one.why) > 15 for one in missing)


# -- Python --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "said"), every("python"))
def test_python_has_the_verb_with_its_arguments(verb: Verb, said: str) -> None:
    if said != BY_SQL:
        spread = {"options", "queries", "settings"}  # said one by one
        missing = arguments(verb.act(), *spread, "agreed") - arguments(method(said))
        assert not missing


def test_python_has_no_other_verbs() -> None:
    public = {name for name in vars(Anabranch) if not name.startswith("_")}
    assert public - CONNECTION == {verb.python for verb in VERBS} - {BY_SQL, "anabranch.restore"}


# -- SQL -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "said"), every("sql"))
def test_sql_has_the_verb(verb: Verb, said: str) -> None:
    for batch in batches(said):
        for statement in batch.statements:
            assert type(statement) in STATEMENTS
            if isinstance(statement, Call):
                assert PROCEDURES[statement.procedure] is verb
                names = [name for name, _ in statement.named]
                inspect.signature(verb.act()).bind(None, *statement.given, **dict.fromkeys(names))
            if isinstance(statement, Query) and " system." in said:
                assert said.rpartition(".")[2] in listing.COLUMNS


def test_sql_has_no_other_verbs() -> None:
    said = [verb.sql for verb in VERBS if isinstance(verb.sql, str)]
    kinds = {type(each) for text in said for batch in batches(text) for each in batch.statements}
    assert STATEMENTS.keys() - kinds == {CreateTest}
    assert Insert in kinds
    shown = {text.rpartition(".")[2] for text in said if " system." in text and "CALL" not in text}
    assert listing.COLUMNS.keys() - shown == {"lineage"}, "which is also a procedure"


# -- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "said"), every("cli"))
def test_the_command_line_has_the_verb_with_its_arguments(verb: Verb, said: str) -> None:
    found = command(said)
    if said == BY_SQL or not isinstance(verb.python, str):
        return
    flags = [word.removeprefix("--") for word in said.split() if word.startswith("--")]
    secondary = {each.flag_value for each in found.params if isinstance(each, click.Option)}
    assert all(flag in secondary for flag in flags)
    if flags or verb.name == "dependency_tree":
        return
    given = {RENAMED.get(str(each.name), str(each.name)) for each in found.params} - {"json"}
    known = arguments(method(verb.python))
    assert given - known == OTHERWISE.get(found.name or "", set()) - known
    assert known - given == NOT_ON_THE_LINE.get(said, set()) | (
        {"name"} if said == "verify" else set()
    )


def every_command() -> Iterator[str]:
    for name, found in cli.commands.items():
        yield name
        if isinstance(found, click.Group):
            yield from (f"{name} {below}" for below in found.commands)


def test_the_command_line_has_no_other_verbs() -> None:
    said = {verb.cli.partition(" --")[0] for verb in VERBS if isinstance(verb.cli, str)}
    assert {name for name in every_command() if name.split()[0] not in SHELL} == said - {BY_SQL}


# -- procedures ----------------------------------------------------------------------------------


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with anabranch.connect(tmp_path) as opened:
        yield opened
        assert not opened._session.is_running or not opened._runtime.spark.started


def test_a_procedure_answers_with_rows(ab: Anabranch) -> None:
    (row,) = ab.sql("CALL system.grants(prefix => 'x_')")
    assert row == ab.grants("x_")
    assert ab.sql("call SYSTEM.Tick()") == []
    assert ab.sql("CALL system.check(deep => FALSE)") == ab.check()


WRONG: list[tuple[str, type[AnabranchError], str]] = [
    ("CALL system.maintian()", UnknownName, 'mean "maintain"'),
    ("CALL system.run()", UnknownName, "no procedure system.run"),
    ("CALL other.check()", AnabranchError, "CALL system.name"),
    ("CALL system.check(1)", InvalidValue, "repair is 1"),
    ("CALL system.check(deep => TRUE, deep => TRUE)", AnabranchError, "given twice"),
    ("CALL system.check(deep => TRUE, TRUE)", AnabranchError, "come first"),
    ("CALL system.check(depth => TRUE)", InvalidValue, "it is check(repair"),
    ("CALL system.verify()", InvalidValue, "it is verify(name"),
    ("CALL system.verify(name)", AnabranchError, "expected a value"),
    ("CALL system.verify('x'", AnabranchError, "found end of text"),
    ("CALL system.verify('no.table')", UnknownName, "no.table"),
    ("CALL system.wait('x', -1.5)", UnknownName, "no deployment x"),
]


@pytest.mark.parametrize(("text", "error", "says"), WRONG, ids=[text for text, _, _ in WRONG])
def test_a_wrong_call(ab: Anabranch, text: str, error: type[AnabranchError], says: str) -> None:
    with pytest.raises(error) as caught:
        ab.sql(text)
    assert says in str(caught.value)

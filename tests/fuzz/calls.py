"""Calls of everything public: verbs of the API, statements, command lines, files of a project."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import click
import pyarrow as pa

import anabranch
from anabranch import Anabranch
from anabranch.cli.main import cli, run
from tests.fuzz.home import SPARK
from tests.fuzz.statements import statement
from tests.fuzz.values import anything, mutated, text
from tests.standin import engine

# Arguments that work, so that a hostile one is met by a call that is otherwise right.
RIGHT: dict[str, Sequence[Any]] = {
    "name": ("s.d", "s.e", "s.t", "s.nothing", "g"),
    "query": ("SELECT k FROM s.t", "SELECT k, count(*) AS n FROM s.t GROUP BY k"),
    "queries": ({"s.x": "SELECT k FROM s.t", "s.y": "SELECT k FROM s.x"},),
    "text": ("SELECT * FROM s.t",),
    "data": (pa.table({"k": [7], "v": ["x"]}), pa.table({"k": ["x"]}), pa.table({"z": [1]})),
    "members": (["s.d", "s.e"], ["s.d"], []),
    "add": (["s.e"],),
    "drop": (["s.d"],),
    "schedule": ("2s", None, "calculated"),
    "refresh_mode": ("AUTO", "FULL", "DIFFERENTIAL"),
    "isolation": ("repeatable_read", "read_committed", "snapshot", "serializable"),
    "status": ("SUSPENDED", "ACTIVE"),
    "cut": (None, 1, 2, 10**6),
    "limit": (None, 1, 5),
    "value": ("5", 5, True),
    "project": ("project", ".", "nowhere"),
    "destination": ("backup", "abc://x"),
    "deployment_id": ("x", "0" * 32),
    "former": ("x", "folder"),
    "where": (None, "k = 1"),
    "ticks": (1,),
    "stop": (),
}
LEFT_OUT = frozenset({"close", "spark", "spark_actions", "on_progress"})
HEAVY = frozenset({"maintain", "backup", "check", "adopt", "stage"})
OF_SETTINGS = (
    "tick_interval",
    "parallelism",
    "lease_time",
    "fsync",
    "warehouse",
    "catalog",
    "spark.conf",
    "spark.master",
    "profile",
    "home",
    "allow_circular",
    "snapshot_retention",
    "nothing",
)


@dataclass
class Call:
    """What was called, and whether an error must leave the catalog as it was."""

    name: str
    act: Callable[[Anabranch], Any]
    given: Any
    atomic: bool = True
    is_command: bool = False  # its answer is an exit code

    def __str__(self) -> str:
        try:
            return f"{self.name} {self.given!r}"[:300]
        except Exception:
            return f"{self.name} (arguments without a repr)"


def verbs() -> dict[str, inspect.Signature]:
    """Every public verb of a connection; none can be forgotten."""
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(Anabranch, inspect.isfunction)
        if not name.startswith("_") and name not in LEFT_OUT
    }


VERBS = verbs()


def argument(rng: random.Random, name: str, *, hostile: bool) -> Any:
    right = RIGHT.get(name, (True, False, "x", None))
    return anything(rng) if hostile or not right else rng.choice(right)


def api_call(rng: random.Random) -> Call:
    name = rng.choice(list(VERBS))
    if name in HEAVY and rng.random() < 0.8:
        name = rng.choice(list(VERBS))
    given: dict[str, Any] = {}
    required = 0
    for each in list(VERBS[name].parameters.values())[1:]:
        if each.kind is each.VAR_KEYWORD:
            if rng.random() < 0.4:
                given[rng.choice((*RIGHT, "initialize", "cluster", "bogus"))] = anything(rng)
            continue
        required += each.default is each.empty
        if each.default is each.empty or rng.random() < 0.4:
            given[each.name] = argument(rng, each.name, hostile=rng.random() < 0.5)
    if rng.random() < 0.03:
        given["bogus"] = 1
    if rng.random() < 0.03 and given:
        del given[rng.choice(list(given))]
    bounded(name, given)
    opens = name in ("at", "transaction")

    def act(ab: Anabranch) -> Any:
        if not opens:
            return getattr(ab, name)(**given)
        with getattr(ab, name)(**given) as world:
            return world.table(argument(rng, "name", hostile=rng.random() < 0.5))

    return Call(name, act, given, atomic=name != "refresh")  # groups are published one by one


def bounded(name: str, given: dict[str, Any]) -> None:
    """Calls that would rightly go on for ever are kept short."""
    if name == "run":
        given["stop"] = Event()
        given["stop"].set()
        if given.get("ticks") is None or isinstance(given.get("ticks"), int):
            given["ticks"] = 1
    if name == "wait":
        given["timeout"] = given.get("timeout", 0)


def sql_call(rng: random.Random) -> Call:
    given = statement(rng)
    return Call("sql", lambda ab: ab.sql(given), given, atomic=is_atomic(given))


def is_atomic(text: str) -> bool:
    """Of several statements, or groups to refresh, those before the one that fails stand."""
    return not any(each in text.lower() for each in (";", "refresh", "tick", "maintain"))


def world_call(rng: random.Random) -> Call:
    given = statement(rng) if rng.random() < 0.5 else anything(rng)
    where = rng.choice((None, "k = 1", anything(rng)))

    def act(ab: Anabranch) -> Any:
        with ab.at() as world:
            return world.sql(given) if where is None else world.table(given, where)

    return Call("world", act, (given, where))


def connect_call(rng: random.Random) -> Call:
    target = rng.choice((None, "other", anything(rng)))
    settings = {rng.choice(OF_SETTINGS): anything(rng) for _ in range(rng.randrange(3))}

    def act(ab: Anabranch) -> Any:
        if rng.random() < 0.2:
            return anabranch.restore(target, "restored", **settings)  # type: ignore[arg-type]
        return engine.connect(target, **{"spark": SPARK, **settings}).close()

    return Call("connect", act, (target, settings))


def project_call(rng: random.Random) -> Call:
    """Files of a project, in any encoding."""
    sql, toml = statement(rng), 'name = "shop"\n'
    spoil = rng.randrange(4)
    files = {"project/models/shop/sales/x.sql": sql, "project/anabranch.toml": toml}
    if spoil == 0:
        files["project/anabranch.toml"] = mutated(
            rng, toml + f'\n[profiles.dev]\nx = "{text(rng)}"'
        )
    if spoil == 1:
        files["project/models/shop/sales/y.sql"] = text(rng)
    encoding = rng.choice(("utf-8", "latin-1", "utf-16", "utf-8-sig"))
    errors = "surrogatepass" if encoding.startswith("utf") else "replace"

    def act(ab: Anabranch) -> Any:
        for path, found in files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(found.encode(encoding, errors))
        if rng.random() < 0.1:
            return ab.claim("x", "project")
        return ab.stage("project") if rng.random() < 0.3 else ab.plan("project")

    return Call("project", act, (files, encoding))


SILENT = frozenset({"demo", "prepare", "serve"})  # they start Spark, or do not end


def cli_call(rng: random.Random) -> Call:
    name = rng.choice([each for each in cli.commands if each not in SILENT])
    words = [name]
    for each in cli.commands[name].params:
        words += option(rng, each)
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), text(rng))
    if name == "run":
        words = [name, "--ticks", rng.choice(("1", text(rng)))]
    if name == "wait":
        words += ["--timeout", "0"]
    if name == "init":
        words += ["--bare"]
    call = Call("cli", lambda ab: None, words, is_command=True, atomic=is_atomic(" ".join(words)))

    def act(ab: Anabranch) -> Any:
        return run(["--home", str(ab._settings.home), *words])

    call.act = act
    return call


def option(rng: random.Random, each: click.Parameter) -> list[str]:
    if isinstance(each, click.Argument):
        if not each.required and rng.random() < 0.3:
            return []
        right = statement(rng) if each.name == "statements" else "s.d"
        return [right if rng.random() < 0.5 else text(rng)]
    if rng.random() < 0.6:
        return []
    flag = each.opts[-1]
    if getattr(each, "is_flag", False):
        return [flag]
    return [flag, rng.choice(("1", "project", text(rng)))]


KINDS: Mapping[Callable[[random.Random], Call], int] = {
    api_call: 45,
    sql_call: 38,
    world_call: 5,
    connect_call: 4,
    project_call: 3,
    cli_call: 5,
}


def call(rng: random.Random) -> Call:
    return rng.choices(list(KINDS), list(KINDS.values()))[0](rng)

"""Deployments without Spark: real catalog, lake and publishes; only the rows are made up.

A build writes one row that says which query it is of.  Also what the processes of the tests do: run
as `python -m tests.contract.deploying <job> <url> <warehouse> <arguments>`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from anabranch.catalog import streams
from anabranch.catalog.store import Connection
from anabranch.catalog.streams import Input, StreamTable, computed_from
from anabranch.cut_view import CutView
from anabranch.deploy import build, production, promote
from anabranch.deploy.abort import abort
from anabranch.deploy.canonical import canonical, object_hash
from anabranch.deploy.promote import promote as put
from anabranch.deploy.rollback import rollback
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.deploy.stage import stage
from anabranch.deploy.state import DesiredState
from anabranch.model import Column, Status
from anabranch.names import TableName
from anabranch.refresh.definition import Definition
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime, Transaction
from anabranch.settings import Settings
from anabranch.spark.session import Spark
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import CreateStreamTable, CreateTable
from anabranch.tables.stream_tables import Declaration
from tests.contract.world import World, bag, written

RESULT = (Column("id", "bigint"), Column("region", "string"))
SALES = "CREATE TABLE sales (id BIGINT, region STRING)"


def key(text: str) -> ObjectKey:
    return ObjectKey("db", *text.split("."))


def project(**queries: str) -> DesiredState:
    """Stream tables by name, `mart__total` for mart.total, beside one source table raw.sales."""
    objects = [thing(key("raw.sales"), SALES)]
    for name, query in queries.items():
        objects.append(thing(key(name.replace("__", ".")), f"CREATE STREAM TABLE t AS {query}"))
    return DesiredState("shop", Snapshot({each.key: each for each in objects}))


def thing(named: ObjectKey, sql: str) -> SnapshotObject:
    statement = parse_statement(sql)
    assert isinstance(statement, (CreateTable, CreateStreamTable))
    query = statement.query if isinstance(statement, CreateStreamTable) else ""
    return SnapshotObject(
        key=named,
        kind="stream table" if query else "table",
        hash=object_hash(canonical(statement)),
        canonical=canonical(statement),
        reads=frozenset(ObjectKey(*name.parts) for name in tables_of(query))
        if query
        else frozenset(),
        options={"schedule": None, "refresh_mode": "AUTO"} if query else {},
        sql=sql,
        query=query,
    )


def version(number: int) -> DesiredState:
    """A project of three schemas; only the numbers in the queries differ."""
    return project(
        clean__sales=f"SELECT id, region FROM db.raw.sales WHERE id > {number}",
        mart__regions=f"SELECT {number} AS id, region FROM db.clean.sales",
        mart__total="SELECT id, region FROM db.mart.regions",
        other__copy="SELECT id, region FROM db.raw.sales",
    )


MOVING = (key("clean.sales"), key("mart.regions"), key("mart.total"))


def runtime_of(world: World) -> Runtime:
    return Runtime(Settings(), world.store, world.lake, cast(Spark, None))


def create_all(runtime: Runtime, declared: Sequence[Declaration]) -> None:
    """As `declare.create_all`, without computing anything."""

    def act(tx: Transaction) -> None:
        made: dict[TableName, StreamTable] = {}
        reads: dict[TableName, tuple[TableName, ...]] = {}
        for each in declared:
            tx.stage.create(each.name, RESULT)
            row = (len(each.query), each.query)
            tx.stage.commit_rows(each.name, written(tx.stage, each.name, add=[row]))
            reads[each.name] = tuple(sorted(tables_of(each.query)))
            stream = StreamTable(
                each.name,
                each.query,
                f"of {each.query}",
                schedule=each.schedule,
                diamond_consistency=each.diamond_consistency,
                status=Status.ACTIVE,
                populated=True,
            )
            made[each.name] = replace(
                stream, computed_from=computed_from(stream.definition, stream.fingerprint)
            )

        def rows(c: Connection, cut_id: int | None) -> None:
            streams.add(c, made.values())
            streams.set_dependencies(c, reads)
            streams.set_inputs(c, {name: _inputs(tx, name, reads[name]) for name in made})
            streams.set_frontiers(c, {name: {TableName.parse("db.raw.sales"): 1} for name in made})

        tx.later(rows)

    runtime.write("create stream table", act)


def _inputs(tx: Transaction, name: TableName, reads: Sequence[TableName]) -> dict[TableName, Input]:
    found = {each: tx.world.version(each) for each in (name, *reads)}
    return {each: Input(read.location, read.snapshot_id) for each, read in found.items()}


def defined(world: CutView, stream: StreamTable, component: object = None) -> Definition:
    return cast(Definition, SimpleNamespace(fingerprint=f"of {stream.query}"))


def refresh_upon(
    runtime: Runtime, state: CatalogState, names: Sequence[TableName], initiated_by: str
) -> tuple[list[Any], CatalogState]:
    return [], state


def without_spark(patch: Any) -> None:
    """Put the made-up parts in place; `patch(owner, name, value)` sets an attribute."""
    patch(build.declare, "create_all", create_all)
    patch(production, "defined", defined)
    patch(promote, "refresh_upon", refresh_upon)


@dataclass(frozen=True)
class Seen:
    """What a reader sees of production in one look."""

    rows: Mapping[str, str]
    queries: Mapping[str, str]

    @property
    def numbers(self) -> set[str]:
        """The versions of the project that rows and definitions of moving objects come from."""
        regions = (self.rows.get("db.mart.regions", ""), self.queries.get("db.mart.regions", ""))
        return {text.split(" AS ")[0].removeprefix("SELECT ") for text in regions}


def look(world: World) -> Seen:
    with world.store.reading() as c:
        pointers, known = world.lake.pointers(c), streams.all_streams(c)
    rows = {}
    for each in MOVING:
        if each.table in pointers:
            found = bag(world.lake.version(each.table, pointers[each.table]))
            rows[str(each)] = ", ".join(str(row[1]) for row in found)
    return Seen(
        rows, {str(name): each.query for name, each in known.items() if "__" not in str(name)}
    )


def whole(world: World) -> tuple[str, ...]:
    """What one transaction shows of the moving tables: their places and their definitions."""
    with world.store.reading() as c:
        pointers, known = world.lake.pointers(c), streams.all_streams(c)
    places = [pointers[each.table] for each in MOVING]
    return (*places, *(known[each.table].query for each in MOVING))


def torn(world: World, seen: tuple[str, ...]) -> str | None:
    """All must be of one deployment: folders, rows and definitions."""
    places, queries = seen[: len(MOVING)], seen[len(MOVING) :]
    marks = {at.split("/warehouse/db/")[1].split("/")[0].split("__")[-1] for at in places}
    versions = [world.lake.version(each.table, at) for each, at in zip(MOVING, places, strict=True)]
    rows = [str(next(iter(bag(each)))[1]) for each in versions]
    first, second = ({text[at] for text in (rows, queries)} for at in (0, 1))
    one = {text.rpartition(" ")[2] for text in first}
    other = {text.split()[1] for text in second}
    return None if len(marks) == len(one | other) == 1 else f"torn: {seen} {rows}"


def reader(world: World, looks: str, states: str) -> str:
    """Look until enough was seen: so many looks, so many states of production."""
    count, known = 0, set[tuple[str, ...]]()
    while count < int(looks) or len(known) < int(states):
        seen = whole(world)
        if seen not in known and (found := torn(world, seen)):
            return found
        count, known = count + 1, known | {seen}
    return "ok"


def do(world: World, verb: str, *arguments: str) -> str:
    """One command; the environment says at which step to die."""
    runtime = runtime_of(world)
    if verb == "stage":
        return str(stage(runtime, version(int(arguments[0])), drop_tables=True))
    act = {"promote": put, "rollback": rollback, "abort": abort}[verb]
    return str(act(runtime, *arguments)["status"])


if __name__ == "__main__":
    without_spark(setattr)
    opened = World(sys.argv[2], Path(sys.argv[3]))
    jobs = {"reader": reader, "do": do}
    print(jobs[sys.argv[1]](opened, *sys.argv[4:]))
    opened.close()

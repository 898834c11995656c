"""Roles on PostgreSQL: what each may do works, what it may not names the right that is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, delete, insert, select, text
from sqlalchemy.engine import make_url

from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.catalog.grants import ROLES, grants
from anabranch.errors import MissingRight, Refused
from anabranch.sql.batches import batches
from anabranch.sql.statements.records import Statement
from anabranch.verbs.table import VERBS
from tests.standin.damage import break_table, forget, roots
from tests.standin.engine import connect, installed
from tests.standin.theirs import Theirs

Act = Callable[[Anabranch], Any]
FILES = {
    "anabranch.toml": 'name = "shop"',
    "models/db/raw/s.sql": "CREATE TABLE s (k BIGINT, v BIGINT)",
    "models/db/b/b.sql": "CREATE STREAM TABLE b AS SELECT k, SUM(v) AS v FROM raw.s GROUP BY k",
}
OTHER = FILES | {"anabranch.toml": 'name = "till"'}
EDITED = {"models/db/b/b.sql": FILES["models/db/b/b.sql"].replace("SUM(v)", "MAX(v)")}


@dataclass(frozen=True)
class Rule:
    """The first role that may, what it is, and the verbs and statements that it stands for."""

    least: str
    what: str
    act: Act
    covers: str = ""


def listings(ab: Anabranch) -> None:
    ab.status(), ab.history(), ab.cuts(), ab.groups(), ab.deployments(), ab.graph(), ab.events()
    ab.upkeep()
    ab.tables(), ab.columns(), ab.settings(), ab.refresh_groups(), ab.diamond_groups()
    ab.scc_status(), ab.clusters(), ab.indexes(), ab.dependency_tree("s.d"), ab.explain("s.d")
    ab.catalogs(), ab.lineage("s.d"), ab.grants(), ab.set("parallelism", 2)


def asked(ab: Anabranch) -> None:
    statements = ("SHOW TABLES", "DESCRIBE s.t", "SET anabranch.parallelism = 2")
    for statement in (*statements, "EXPLAIN STREAM TABLE s.d"):
        ab.sql(statement)


def held(ab: Anabranch) -> None:
    with ab.at() as world:
        assert world.table("s.t").count() == world.sql("SELECT k FROM s.t").count()


def written(ab: Anabranch) -> None:
    with ab.transaction():
        ab.append("s.t", pa.table({"k": [2], "v": [20]}))
        ab.sql("UPDATE s.t SET v = v + 1 WHERE k = 2")


def merged(ab: Anabranch) -> None:
    ab.sql(
        "MERGE INTO s.t USING (SELECT 7 AS k, 1 AS v) AS n ON t.k = n.k"
        " WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)"
    )


def altered(ab: Anabranch) -> None:
    ab.sql(f"ALTER TABLE s.t ADD COLUMN w{uuid4().hex[:8]} BIGINT")


def refused(act: Act) -> Act:
    """It is refused as things are, but for no right."""

    def tried(ab: Anabranch) -> None:
        with pytest.raises(Refused):
            act(ab)

    return tried


def attached(ab: Anabranch) -> None:
    """A catalog of others, which is there for everybody."""
    theirs = Theirs(Path(mkdtemp(dir=place(ab, ""))))
    ab.attach("theirs", "sql", **theirs.properties)
    ab.detach("theirs")


def newest(ab: Anabranch, status: str) -> str:
    return next(row["id"] for row in ab.deployments() if row["status"] == status)


def place(ab: Anabranch, name: str = "shop") -> str:
    return str(Path(str(ab._settings.warehouse)).parent / name)


def repaired(ab: Anabranch) -> None:
    """An index that lost its rows is made again."""
    found = [
        path
        for root in roots(Path(place(ab, "")), "s.t__i")
        for path in root.glob("data/**/*.parquet")
    ]
    for path in found:
        path.rename(path.with_suffix(".gone"))
    forget()
    problems = ab.check(repair=True, deep=True)
    assert problems
    errors = [row["error"] for row in problems if row["error"]]
    if errors:
        for path in found:
            path.with_suffix(".gone").rename(path)
        forget()
        raise MissingRight(errors[0])


def aborted(ab: Anabranch) -> None:
    ab.abort(newest(ab, "STAGED"))


def maintained(ab: Anabranch) -> None:
    """Among others, deployments that ended long ago are forgotten, and how to undo old ones."""
    ab.maintain()
    assert "f" * 32 not in [row["id"] for row in ab.deployments()]
    with ab._store.reading() as c:
        assert c.execute(select(tables.deployments.c.undo).where(IS_OLD)).scalar_one() is None


IS_OLD = tables.deployments.c.id == "e" * 32
ACTS = [
    Rule(
        "reader", "list", listings,
        "status history cuts groups deployments graph events upkeep tables columns settings "
        "refresh_groups diamond_groups scc_status catalogs clusters indexes dependency_tree explain "
        "lineage grants set",
    ),
    Rule("reader", "ask", asked, "ShowTables Describe Set ExplainStreamTable"),
    Rule("reader", "read", lambda ab: ab.table("s.d").collect(), "table"),
    Rule("reader", "hold a cut", held, "at"),
    Rule("reader", "query a view", lambda ab: ab.sql("SELECT * FROM s.w").collect(), "sql Query"),
    Rule("reader", "lock", lambda ab: ab.lock(place(ab)), "lock"),
    Rule("reader", "verify", lambda ab: ab.verify("s.d"), "verify"),
    Rule("reader", "check", lambda ab: ab.check(deep=True), "check"),
    Rule("reader", "call", lambda ab: ab.sql("CALL system.verify('s.d')"), "Call"),
    Rule("reader", "compile", lambda ab: ab.compile(place(ab)), "compile"),
    Rule("reader", "test", lambda ab: ab.test(place(ab)), "test"),
    Rule("reader", "plan", lambda ab: ab.plan(place(ab)), "plan"),
    Rule("reader", "wait", lambda ab: ab.wait(newest(ab, "STAGED"), timeout=1), "wait"),
    Rule("reader", "back up", lambda ab: ab.backup(place(ab, f"backup-{uuid4()}")), "backup"),
    Rule("reader", "recover", refused(lambda ab: ab.recover()), "recover"),
    Rule("writer", "insert", lambda ab: ab.sql("INSERT INTO s.t (k, v) VALUES (3, 30)"), "Insert"),
    Rule("writer", "update", lambda ab: ab.sql("UPDATE s.t SET v = 9 WHERE k = 3"), "Update"),
    Rule("writer", "delete", lambda ab: ab.sql("DELETE FROM s.t WHERE k = 3"), "Delete"),
    Rule("writer", "merge", merged, "Merge"),
    Rule("writer", "transaction", written, "transaction append"),
    Rule("scheduler", "refresh", lambda ab: ab.refresh("s.d", full=True), "refresh"),
    Rule("scheduler", "refresh in SQL",
        lambda ab: ab.sql("REFRESH STREAM TABLE s.d"),
        "RefreshStreamTable"),
    Rule("scheduler", "tick", lambda ab: ab.tick(), "tick"),
    Rule("scheduler", "run", lambda ab: ab.run(ticks=1), "run"),
    Rule("scheduler", "maintain", maintained, "maintain"),
    Rule("writer", "repair an index", repaired),
    Rule("scheduler", "suspend", lambda ab: ab.suspend("s.d"), "suspend"),
    Rule("scheduler", "resume", lambda ab: ab.resume("s.d"), "resume"),
    Rule("owner", "drop table", lambda ab: ab.sql("DROP TABLE s.x"), "DropTable"),
    Rule("owner", "create table", lambda ab: ab.sql("CREATE TABLE s.z (k BIGINT)"), "CreateTable"),
    Rule("owner", "create table of a query",
        lambda ab: ab.sql("CREATE TABLE s.zz AS SELECT k FROM s.t"),
        "CreateTableAs"),
    Rule("writer", "alter table", altered, "AlterTable"),
    Rule("scheduler", "comment",
        lambda ab: ab.sql(f"COMMENT ON TABLE s.t IS '{uuid4().hex}'"),
        "Comment"),
    Rule("owner", "drop stream table",
        lambda ab: ab.drop_stream_table("s.y"),
        "drop_stream_table DropStreamTable"),
    Rule("owner", "create stream table",
        lambda ab: ab.create_stream_table("s.n", "SELECT k FROM s.t"),
        "create_stream_table CreateStreamTable"),
    Rule("owner", "create stream tables",
        lambda ab: ab.create_stream_tables({"s.n1": "SELECT k FROM s.t"}),
        "create_stream_tables"),
    Rule("owner", "alter stream table",
        lambda ab: ab.alter_stream_table("s.d", query="SELECT k FROM s.t"),
        "alter_stream_table AlterStreamTable"),
    Rule("owner", "drop view", lambda ab: ab.sql("DROP VIEW s.w"), "DropView"),
    Rule("owner", "create view",
        lambda ab: ab.sql("CREATE VIEW s.v AS SELECT k FROM s.t"),
        "CreateView"),
    Rule("owner", "alter group",
        lambda ab: ab.alter_refresh_group("g", isolation="read_committed"),
        "alter_refresh_group AlterRefreshGroup"),
    Rule("owner", "drop group",
        lambda ab: ab.drop_refresh_group("g"),
        "drop_refresh_group DropRefreshGroup"),
    Rule("owner", "create group",
        lambda ab: ab.create_refresh_group("h", ["s.p", "s.q"]),
        "create_refresh_group CreateRefreshGroup"),
    Rule("owner", "drop index", lambda ab: ab.sql("DROP INDEX i ON s.t"), "DropIndex"),
    Rule("owner", "create index", lambda ab: ab.sql("CREATE INDEX j ON s.t (k)"), "CreateIndex"),
    Rule("owner", "attach", attached, "attach AttachCatalog detach DetachCatalog"),
    Rule("owner", "drop cluster", lambda ab: ab.sql("DROP CLUSTER c"), "DropCluster"),
    Rule("owner", "create cluster",
        lambda ab: ab.sql("CREATE CLUSTER d POOL 'p'"),
        "CreateCluster"),
    Rule("owner", "promote", lambda ab: ab.promote(newest(ab, "STAGED")), "promote"),
    Rule("owner", "roll back", lambda ab: ab.rollback(project="shop"), "rollback"),
    Rule("owner", "stage", lambda ab: ab.stage(place(ab, "edited")), "stage"),
    Rule("owner", "abort", aborted, "abort"),
    Rule("owner", "claim", lambda ab: ab.claim("former", place(ab, "till")), "claim"),
    Rule("scheduler", "adopt", lambda ab: ab.adopt(), "adopt"),
]  # fmt: skip
# No verbs of the catalog: what a connection is, and what only the tests of a project run.
NOT_RUN = {"close", "on_progress", "spark", "spark_actions", "CreateTest"}


def test_every_verb_has_a_rule() -> None:
    """A new verb or statement must say which role may use it."""
    verbs = {name for name in vars(Anabranch) if not name.startswith("_")}
    kinds = {each.__name__ for each in Statement.__subclasses__()}
    covered = {name for rule in ACTS for name in rule.covers.split()}
    assert covered == (verbs | kinds) - NOT_RUN


def test_the_table_of_verbs_says_the_roles() -> None:
    least = {name: rule.least for rule in ACTS for name in rule.covers.split()}
    for verb in VERBS:
        name = verb.python
        if name == "sql":  # what is said in SQL only
            assert isinstance(verb.sql, str)
            name = type(batches(verb.sql)[0].statements[0]).__name__
        if name != "anabranch.restore":
            assert verb.role.value == least[str(name)], verb.name


@pytest.fixture(scope="module")
def places(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[str, Path]]]:
    """A catalog with the roles, and an address for a user of each."""
    server = make_url(postgres_url).set(drivername="postgresql+psycopg")
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as c:
        c.execute(text("CREATE DATABASE roles"))
    database = server.set(database="roles")
    folder = tmp_path_factory.mktemp("roles") / "warehouse"
    for name, files in {"shop": FILES, "edited": FILES | EDITED, "till": OTHER}.items():
        for file, content in files.items():
            (folder.parent / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder.parent / name / file).write_text(content)
    shown = database.set(drivername="postgresql").render_as_string(hide_password=False)
    with installed(), connect({"catalog": shown, "warehouse": str(folder)}) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT); INSERT INTO s.t VALUES (1, 10)")
        ab.create_stream_table("s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k", schedule="1s")
        ab.create_stream_table("s.e", "SELECT k FROM s.t", schedule=None)
        ab.sql("CREATE VIEW s.w AS SELECT k FROM s.t; CREATE TABLE s.x (k BIGINT)")
        ab.create_stream_table("s.y", "SELECT k FROM s.t", schedule=None)
        ab.create_refresh_group("g", ["s.d", "s.e"])
        ab.create_stream_tables({"s.p": "SELECT k FROM s.t", "s.q": "SELECT k FROM s.t"})
        ab.sql("CREATE INDEX i ON s.t (k); CREATE CLUSTER c POOL 'p'")
        shop = folder.parent / "shop"
        ab.promote(str(ab.stage(str(shop))))
        ab.sql("INSERT INTO db.raw.s VALUES (1, 5)")
        ab.stage(place(ab, "edited"))
    inside = create_engine(database, isolation_level="AUTOCOMMIT")
    with inside.connect() as c:
        for role, statements in grants().items():
            for statement in statements:
                c.execute(text(statement))
            c.execute(text(f"CREATE USER a_{role} IN ROLE anabranch_{role}"))
    inside.dispose()
    yield {
        role: (
            database.set(drivername="postgresql", username=f"a_{role}").render_as_string(
                hide_password=False
            ),
            folder,
        )
        for role in ROLES
    }
    with admin.connect() as c:
        c.execute(text("DROP DATABASE roles WITH (FORCE)"))
        for role in reversed(ROLES):
            c.execute(text(f"DROP USER a_{role}"))
            c.execute(text(f"DROP ROLE anabranch_{role}"))
    admin.dispose()


@pytest.fixture
def aged(postgres_url: str, places: dict[str, tuple[str, Path]]) -> None:
    """What time and disks do: deployments that are over, one that cannot be undone, a lost index."""
    database = make_url(postgres_url).set(drivername="postgresql+psycopg", database="roles")
    engine = create_engine(database)
    table = tables.deployments
    with engine.begin() as c:
        c.execute(delete(table).where(table.c.id.in_(["e" * 32, "f" * 32])))
        found = (
            c.execute(select(table).where(table.c.status == "PROMOTED").limit(1)).mappings().first()
        )
        old = dict(found or c.execute(select(table).limit(1)).mappings().one())
        long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
        old |= {"created_at": long_ago, "finished_at": long_ago, "project": "old"}
        c.execute(insert(table).values(**old | {"id": "f" * 32, "status": "ABORTED", "undo": None}))
        undo = {**(old["undo"] or {}), "pointers": {"s.t": "/nowhere"}, "rows": {}}
        moved = {"id": "e" * 32, "status": "PROMOTED", "undo": undo}
        c.execute(insert(table).values(**old | moved))
        there = dict(c.execute(select(tables.deployed).limit(1)).mappings().one())
        c.execute(delete(tables.deployed).where(tables.deployed.c.project == "former"))
        there |= {"schema_name": "old", "project": "former", "deployment_id": "e" * 32}
        c.execute(insert(tables.deployed).values(**there))
    engine.dispose()


@pytest.mark.parametrize(
    "kind",
    [
        "metadata",
        pytest.param("lists", marks=pytest.mark.extended),
        pytest.param("manifests", marks=pytest.mark.extended),
        "data",
    ],
)
def test_a_writer_writes_whatever_has_become_of_an_index(
    places: dict[str, tuple[str, Path]], kind: str
) -> None:
    catalog, warehouse = places["writer"]
    break_table(warehouse.parent, "s.t__i", kind, "gone")
    with installed(), connect({"catalog": catalog, "warehouse": str(warehouse)}) as ab:
        ab.sql("INSERT INTO s.t (k, v) VALUES (4, 40)")
        assert ab.sql("SELECT v FROM s.t WHERE k = 4").collect()
        ab.sql("DELETE FROM s.t WHERE k = 4")


HELD = text(
    "SELECT t.name, r.name FROM unnest(CAST(:tables AS text[])) AS t(name), "
    "unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r(name) "
    "WHERE has_table_privilege(:role, t.name, r.name) OR (r.name <> 'DELETE' "
    "AND has_any_column_privilege(:role, t.name, r.name))"
)


def test_each_role_has_what_the_one_before_has(
    postgres_url: str, places: dict[str, tuple[str, Path]]
) -> None:
    """So what a role may, those above it may too: each act is tried at its border only."""
    database = make_url(postgres_url).set(drivername="postgresql+psycopg", database="roles")
    engine, every = create_engine(database), sorted(tables.metadata.tables)
    found = []
    with engine.connect() as c:
        for role in ROLES:
            rows = c.execute(HELD, {"role": f"anabranch_{role}", "tables": every})
            found.append({tuple(row) for row in rows})
        for lower, upper in (("reader", "writer"), ("writer", "scheduler")):
            names = {"upper": f"anabranch_{upper}", "lower": f"anabranch_{lower}"}
            assert c.execute(text("SELECT pg_has_role(:upper, :lower, 'USAGE')"), names).scalar()
    engine.dispose()
    assert all(less < more for less, more in pairwise(found))
    assert len(found[-1]) == 4 * len(every)


def border(role: str) -> list[Rule]:
    """What it is the first to be allowed, and what only the next one is."""
    at = ROLES.index(role)
    return [rule for rule in ACTS if rule.least in ROLES[at : at + 2]]


@pytest.mark.extended
@pytest.mark.usefixtures("aged")
@pytest.mark.parametrize("role", ROLES)
def test_a_role_beyond_its_border(places: dict[str, tuple[str, Path]], role: str) -> None:
    """All other acts; the first of the two tests, since the owner drops what these need."""
    known = border(role)
    wrong = mistaken(places[role], role, [rule for rule in ACTS if rule not in known])
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("aged")
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_its_work_and_no_more(places: dict[str, tuple[str, Path]], role: str) -> None:
    wrong = mistaken(places[role], role, border(role))
    assert not wrong, "\n".join(wrong)


def mistaken(place: tuple[str, Path], role: str, rules: list[Rule]) -> list[str]:
    """What is allowed and should not be, or the other way round."""
    catalog, warehouse = place
    wrong = []
    with installed(), connect({"catalog": catalog, "warehouse": str(warehouse)}) as ab:
        for rule in rules:
            least, what, act = rule.least, rule.what, rule.act
            allowed = ROLES.index(role) >= ROLES.index(least)
            cuts = ab.cuts()
            try:
                act(ab)
                if not allowed:
                    wrong.append(f"{what}: {role} may, though only {least} should")
            except MissingRight as error:
                if allowed:
                    wrong.append(f"{what}: {error}")
                elif not names_what_is_missing(error, role, least):
                    wrong.append(f"{what}: does not name the right and a role with it: {error}")
                if ab.cuts() != cuts:
                    wrong.append(f"{what}: something was published")
            except Exception as error:
                wrong.append(f"{what}: {type(error).__name__}: {error}")
    return wrong


def names_what_is_missing(error: MissingRight, role: str, least: str) -> bool:
    """The right, and the first role that has it: above this one, not above what is needed."""
    found = re.search(r"the role (\w+) has that right", str(error))
    if found is None or not re.search(r"lacks \w+ on table \w+", str(error)):
        return False
    return ROLES.index(role) < ROLES.index(found[1]) <= ROLES.index(least)

"""Roles on PostgreSQL: what each may do works, what it may not names the right that is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from anabranch import Anabranch
from anabranch.catalog.grants import ROLES, grants
from anabranch.errors import MissingRight
from tests.standin.engine import connect, installed

Act = Callable[[Anabranch], Any]


def listings(ab: Anabranch) -> None:
    ab.status(), ab.history(), ab.cuts(), ab.groups(), ab.deployments(), ab.graph(), ab.events()


def held(ab: Anabranch) -> None:
    with ab.at() as world:
        assert world.table("s.t").count() == world.sql("SELECT k FROM s.t").count()


def written(ab: Anabranch) -> None:
    with ab.transaction():
        ab.append("s.t", pa.table({"k": [2], "v": [20]}))
        ab.sql("UPDATE s.t SET v = v + 1 WHERE k = 2")


ACTS: list[tuple[str, str, Act]] = [  # the first role that may, and what
    ("reader", "list", listings),
    ("reader", "read", lambda ab: ab.table("s.d").collect()),
    ("reader", "hold a cut", held),
    ("reader", "query a view", lambda ab: ab.sql("SELECT * FROM s.w").collect()),
    ("reader", "verify", lambda ab: ab.verify("s.d")),
    ("writer", "insert", lambda ab: ab.sql("INSERT INTO s.t VALUES (3, 30)")),
    ("writer", "delete", lambda ab: ab.sql("DELETE FROM s.t WHERE k = 3")),
    ("writer", "transaction", written),
    ("scheduler", "refresh", lambda ab: ab.refresh("s.d", full=True)),
    ("scheduler", "tick", lambda ab: ab.tick()),
    ("scheduler", "maintain", lambda ab: ab.maintain()),
    ("scheduler", "resume", lambda ab: ab.resume("s.d")),
    ("owner", "drop table", lambda ab: ab.sql("DROP TABLE s.x")),
    ("owner", "create table", lambda ab: ab.sql("CREATE TABLE s.z (k BIGINT)")),
    ("owner", "drop stream table", lambda ab: ab.drop_stream_table("s.y")),
    ("owner", "create stream table", lambda ab: ab.create_stream_table("s.n", "SELECT k FROM s.t")),
    (
        "owner",
        "alter stream table",
        lambda ab: ab.alter_stream_table("s.d", query="SELECT k FROM s.t"),
    ),
    ("owner", "drop view", lambda ab: ab.sql("DROP VIEW s.w")),
    ("owner", "create view", lambda ab: ab.sql("CREATE VIEW s.v AS SELECT k FROM s.t")),
    ("owner", "drop group", lambda ab: ab.drop_refresh_group("g")),
    ("owner", "create group", lambda ab: ab.create_refresh_group("h", ["s.p", "s.q"])),
    ("owner", "drop index", lambda ab: ab.sql("DROP INDEX i ON s.t")),
    ("owner", "create index", lambda ab: ab.sql("CREATE INDEX j ON s.t (k)")),
    ("owner", "drop cluster", lambda ab: ab.sql("DROP CLUSTER c")),
    ("owner", "create cluster", lambda ab: ab.sql("CREATE CLUSTER d POOL 'p'")),
]


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
    folder = tmp_path_factory.mktemp("roles")
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


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_its_work_and_no_more(places: dict[str, tuple[str, Path]], role: str) -> None:
    catalog, warehouse = places[role]
    wrong = []
    with installed(), connect({"catalog": catalog, "warehouse": str(warehouse)}) as ab:
        for least, what, act in ACTS:
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
    assert not wrong, "\n".join(wrong)


def names_what_is_missing(error: MissingRight, role: str, least: str) -> bool:
    """The right, and the first role that has it: above this one, not above what is needed."""
    found = re.search(r"the role (\w+) has that right", str(error.hint))
    if found is None or not re.search(r"lacks \w+ on table \w+", error.message):
        return False
    return ROLES.index(role) < ROLES.index(found[1]) <= ROLES.index(least)

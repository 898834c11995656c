"""The table of verbs: what each is called in Python, SQL and on the command line, and who may use it.

A test checks it against the three: each has every verb, or the reason stands here why it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any


class Role(str, Enum):
    """The roles on PostgreSQL, each with the rights of those before it."""

    READER = "reader"
    WRITER = "writer"
    SCHEDULER = "scheduler"
    OWNER = "owner"


@dataclass(frozen=True)
class Absent:
    """Why a verb cannot be said here."""

    why: str


@dataclass(frozen=True)
class Verb:
    """`python` and `cli` are names of a method and a command, `sql` is an example of the statement."""

    name: str
    function: str  # the file of verbs and the name in it
    role: Role  # the first that may
    changes: bool
    python: str | Absent
    sql: str | Absent
    cli: str | Absent

    def act(self) -> Callable[..., Any]:
        """The function, with what it needs loaded."""
        file, name = self.function.split(".")
        found: Callable[..., Any] = getattr(import_module(f"anabranch.verbs.{file}"), name)
        return found

    @property
    def is_procedure(self) -> bool:
        return isinstance(self.sql, str) and self.sql.startswith(PROCEDURE)


PROCEDURE = "CALL system."
BY_SQL = "sql"  # the method and the command that run SQL
ONE_CONNECTION = Absent("it holds for one connection: give an option, or say SET in a script")
BLOCK = Absent("it holds until the end of a block of Python")
FILES = Absent("it reads the files of a project")

_READS, _CHANGES = False, True
_R, _W, _S, _O = Role.READER, Role.WRITER, Role.SCHEDULER, Role.OWNER


def _verb(
    function: str,
    role: Role,
    changes: bool,
    sql: str | Absent,
    cli: str | Absent,
    python: str | Absent | None = None,
) -> Verb:
    name = function.split(".")[1]
    return Verb(name, function, role, changes, python or name, sql, cli)


def _view(function: str, view: str, cli: str) -> Verb:
    """A listing, which SQL shows as a view."""
    return _verb(f"listings.{function}", _R, _READS, f"SELECT * FROM system.{view}", cli)


def _statement(name: str, role: Role, sql: str) -> Verb:
    """What is said in SQL only."""
    return _verb(f"source_tables.{name}", role, _CHANGES, sql, BY_SQL, BY_SQL)


SECTIONS: Mapping[str, tuple[Verb, ...]] = {
    "Tables and rows": (
        _verb("reading.table", _R, _READS, "SELECT * FROM shop.sales", BY_SQL),
        _verb("reading.query", _R, _READS, "SELECT id FROM shop.sales", BY_SQL, BY_SQL),
        _verb("reading.held", _R, _READS, BLOCK, BLOCK, "at"),
        _verb("reading.tables", _R, _READS, "SHOW TABLES", "tables"),
        _verb("reading.columns", _R, _READS, "DESCRIBE shop.sales", "columns"),
        _verb("source_tables.append", _W, _CHANGES, "INSERT INTO shop.sales VALUES (1)", BY_SQL),
        _statement("update", _W, "UPDATE shop.sales SET amount = 2 WHERE id = 1"),
        _statement("delete", _W, "DELETE FROM shop.sales WHERE id = 1"),
        _statement(
            "merge",
            _W,
            "MERGE INTO shop.sales t USING shop.news n ON t.id = n.id WHEN MATCHED THEN DELETE",
        ),
        _verb("source_tables.transaction", _W, _CHANGES, BLOCK, BLOCK),
        _statement("create_table", _O, "CREATE TABLE shop.sales (id BIGINT)"),
        _statement("create_table_as", _O, "CREATE TABLE shop.copy AS SELECT * FROM shop.sales"),
        _statement("alter_table", _W, "ALTER TABLE shop.sales ADD COLUMN note STRING"),
        _statement("drop_table", _O, "DROP TABLE shop.sales"),
        _statement("create_view", _O, "CREATE VIEW shop.eu AS SELECT * FROM shop.sales"),
        _statement("drop_view", _O, "DROP VIEW shop.eu"),
        _statement("comment", _S, "COMMENT ON TABLE shop.sales IS 'one row for each sale'"),
        _statement("create_index", _O, "CREATE INDEX by_id ON shop.sales (id)"),
        _statement("drop_index", _O, "DROP INDEX by_id ON shop.sales"),
        _view("indexes", "indexes", "indexes"),
        _statement("create_cluster", _O, "CREATE CLUSTER nightly POOL 'nightly'"),
        _statement("drop_cluster", _O, "DROP CLUSTER nightly"),
        _view("clusters", "clusters", "clusters"),
        _verb(
            "catalogs.attach",
            _O,
            _CHANGES,
            "ATTACH CATALOG prod TYPE rest WITH (uri = 'https://catalog.example.org')",
            "attach",
        ),
        _verb("catalogs.detach", _O, _CHANGES, "DETACH CATALOG prod", "detach"),
        _view("catalogs", "catalogs", "catalogs"),
    ),
    "Stream tables": (
        _verb(
            "stream_tables.create_stream_table",
            _O,
            _CHANGES,
            "CREATE STREAM TABLE shop.t AS SELECT id FROM shop.sales",
            "create",
        ),
        _verb(
            "stream_tables.create_stream_tables",
            _O,
            _CHANGES,
            "CREATE STREAM TABLE a AS SELECT k FROM b; CREATE STREAM TABLE b AS SELECT k FROM a",
            BY_SQL,
        ),
        _verb(
            "stream_tables.alter_stream_table",
            _O,
            _CHANGES,
            "ALTER STREAM TABLE shop.t SET SCHEDULE '2s'",
            "alter",
        ),
        _verb("stream_tables.drop_stream_table", _O, _CHANGES, "DROP STREAM TABLE shop.t", "drop"),
        _verb(
            "stream_tables.suspend", _S, _CHANGES, "ALTER STREAM TABLE shop.t SUSPEND", "suspend"
        ),
        _verb("stream_tables.resume", _S, _CHANGES, "ALTER STREAM TABLE shop.t RESUME", "resume"),
        _verb("stream_tables.refresh", _S, _CHANGES, "REFRESH STREAM TABLE shop.t", "refresh"),
        _verb("stream_tables.tick", _S, _CHANGES, "CALL system.tick()", "tick"),
        _verb("stream_tables.run", _S, _CHANGES, Absent("a statement comes to an end"), "run"),
        _view("status", "stream_tables", "status"),
        _view("history", "refresh_history", "history"),
        _view("events", "events", "events"),
        _verb("stream_tables.explain", _R, _READS, "EXPLAIN STREAM TABLE shop.t", "explain"),
        _verb("stream_tables.verify", _R, _READS, "CALL system.verify('shop.t')", "verify"),
        _verb("stream_tables.lineage", _R, _READS, "CALL system.lineage('shop.t')", "lineage"),
        _view("cuts", "cuts", "cuts"),
        _view("graph", "dependencies", "graph"),
        _view("dependency_tree", "dependencies", "graph"),
    ),
    "Groups": (
        _view("groups", "groups", "groups"),
        _view("diamond_groups", "diamond_groups", "groups --diamonds"),
        _view("scc_status", "scc_status", "groups --cycles"),
        _view("refresh_groups", "refresh_groups", "groups --declared"),
        _verb(
            "stream_tables.create_refresh_group",
            _O,
            _CHANGES,
            "CREATE REFRESH GROUP g (shop.t, shop.u)",
            "groups create",
        ),
        _verb(
            "stream_tables.alter_refresh_group",
            _O,
            _CHANGES,
            "ALTER REFRESH GROUP g ADD shop.v",
            "groups alter",
        ),
        _verb(
            "stream_tables.drop_refresh_group", _O, _CHANGES, "DROP REFRESH GROUP g", "groups drop"
        ),
    ),
    "Projects and deployments": (
        _verb("projects.compile_project", _R, _READS, FILES, "compile", "compile"),
        _verb("projects.test_project", _R, _READS, FILES, "test", "test"),
        _verb("projects.lock", _R, _READS, FILES, "lock"),
        _verb("deployments.plan", _R, _READS, FILES, "plan"),
        _verb("deployments.stage", _O, _CHANGES, FILES, "stage"),
        _verb("deployments.wait", _R, _READS, "CALL system.wait('8f3a', timeout => 60)", "wait"),
        _verb("deployments.promote", _O, _CHANGES, "CALL system.promote('8f3a')", "promote"),
        _verb("deployments.rollback", _O, _CHANGES, "CALL system.rollback()", "rollback"),
        _verb("deployments.abort", _O, _CHANGES, "CALL system.abort('8f3a')", "abort"),
        _verb("deployments.claim", _O, _CHANGES, FILES, "claim"),
        _view("deployments", "deployments", "deployments"),
    ),
    "Operations": (
        _verb("upkeep.maintain", _S, _CHANGES, "CALL system.maintain()", "maintain"),
        _view("upkeep", "upkeep", "upkeep"),
        _verb("upkeep.check", _R, _CHANGES, "CALL system.check(deep => TRUE)", "check"),
        _verb("upkeep.backup", _R, _READS, "CALL system.backup('/backup/shop')", "backup"),
        _verb(
            "upkeep.restore",
            _O,
            _CHANGES,
            Absent("it fills an empty place, which nothing has opened"),
            "restore",
            "anabranch.restore",
        ),
        _verb("upkeep.recover", _R, _CHANGES, "CALL system.recover()", "recover"),
        _verb("upkeep.adopt", _S, _CHANGES, "CALL system.adopt()", "adopt"),
        _verb("listings.grants", _R, _READS, "CALL system.grants()", "grants"),
        _view("settings", "settings", "settings"),
        _verb(
            "listings.change_setting",
            _R,
            _READS,
            "SET anabranch.parallelism = 2",
            ONE_CONNECTION,
            "set",
        ),
    ),
}

VERBS: tuple[Verb, ...] = tuple(verb for verbs in SECTIONS.values() for verb in verbs)
PROCEDURES: Mapping[str, Verb] = {verb.name: verb for verb in VERBS if verb.is_procedure}

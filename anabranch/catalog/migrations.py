"""Ordered migrations: how a catalog made by an older Anabranch gets the layout of this one.

`ab_meta.format_version` is the number of the last migration that a catalog has had.  A new catalog is
made whole from `tables`, as if it had had all of them.  `prepare` runs in the transaction that opens a
catalog, and is alone there: afterwards all missing migrations have been applied, or none has.

A migration states tables and columns as they were when it was written.  It never looks at `tables`,
which goes on changing.  Whoever changes `tables` adds a migration with the next number, and a fixture
of the new layout (tests/fixtures/catalogs/write.py); a test compares the outcome with a new catalog.

Layouts before 16 were not numbered: such a catalog says format version 1 or 2, and may have been opened
by a newer Anabranch and then by an older one.  It gets all migrations, so those up to 16 add only what
is missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    literal,
    select,
    text,
)
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement, SchemaItem
from sqlalchemy.sql.compiler import DDLCompiler

from anabranch.catalog import tables
from anabranch.catalog.grants import DENIED
from anabranch.catalog.tables import Moment, Serial
from anabranch.errors import MissingRight, Unreachable

Migration = Callable[[Connection], None]
NUMBERED = 16  # the first layout whose number a catalog tells


def prepare(c: Connection, shown: str) -> str:
    """Make a new catalog, or apply the migrations that an older one lacks; its identity.

    The caller's transaction must be alone.  `shown` is the address of the catalog, for errors.
    """
    version = format_version(c)
    if version is None:
        return _make_new(c)
    refuse_newer(version, shown)
    try:
        for migrate in missing(version):
            migrate(c)
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != DENIED:
            raise
        raise _not_the_owner(version, shown) from error
    if version != FORMAT_VERSION:
        c.execute(tables.meta.update().values(format_version=FORMAT_VERSION))
    return str(c.execute(select(tables.meta.c.catalog_uuid)).scalar_one())


def format_version(c: Connection) -> int | None:
    """None where there is no catalog yet."""
    if not inspect(c).has_table(tables.meta.name):
        return None
    return c.execute(select(tables.meta.c.format_version)).scalar_one_or_none()


def missing(version: int) -> list[Migration]:
    """What a catalog of some format version lacks, in order."""
    done = version if version >= NUMBERED else 1
    return [MIGRATIONS[number] for number in sorted(MIGRATIONS) if number > done]


def refuse_newer(version: int | None, shown: str) -> None:
    if version is not None and version > FORMAT_VERSION:
        raise Unreachable(
            f"catalog {shown} has format version {version}, and this Anabranch reads format "
            f"versions up to {FORMAT_VERSION}: a newer Anabranch has opened it",
            hint="install that Anabranch or a newer one; nothing was changed. To go back for good, "
            "restore a backup from before the upgrade with this Anabranch",
        )


def _not_the_owner(version: int, shown: str) -> MissingRight:
    return MissingRight(
        f"catalog {shown} has format version {version} and must be brought to {FORMAT_VERSION}, "
        "which only the owner of its tables may do",
        hint="open it once as the owner, for example with `anabranch status`; then run the statements "
        "of `anabranch grants` again",
    )


def _make_new(c: Connection) -> str:
    """All tables as they are now; those of another Iceberg catalog in the database stay."""
    if inspect(c).has_table("iceberg_tables"):  # old libraries did not tell tables from views
        _add_columns(c, "iceberg_tables", Column("iceberg_type", String(5)))
    tables.metadata.create_all(c)
    identity = str(uuid.uuid4())
    c.execute(
        tables.meta.insert().values(
            id=1,
            catalog_uuid=identity,
            format_version=FORMAT_VERSION,
            cut=0,
            created_at=tables.now(),
        )
    )
    return identity


# -- the migrations, in order ------------------------------------------------------------------------


def costs_and_events(c: Connection) -> None:
    """History says what a refresh read and was expected to take; events tell what nobody watched."""
    _make_table(
        c,
        "ab_events",
        Column("event_id", Serial, primary_key=True),
        Column("at", Moment, nullable=False),
        Column("table_name", Text),
        Column("kind", String(32), nullable=False),
        Column("message", Text, nullable=False),
        Index("ab_events_table", "table_name", "event_id"),
    )
    _add_columns(
        c,
        "ab_history",
        Column("source_rows", BigInteger),
        Column("scanned_rows", BigInteger),
        Column("predicted_ms", BigInteger),
        Column("alternative_ms", BigInteger),
    )
    _add_index(c, "ab_history_action", "ab_history", "table_name", "action", "refresh_id")


def groups_leases_and_deployments(c: Connection) -> None:
    """Clusters, indexes, refresh groups, leases and deployments; a table knows its group's epoch, when
    to try again, and where it is refreshed."""
    _make_table(
        c,
        "ab_clusters",
        Column("name", Text, primary_key=True),
        Column("pool", Text),
        Column("address", Text),
        Column("settings", JSON, nullable=False),
        Column("created_at", Moment, nullable=False),
    )
    _make_table(
        c,
        "ab_indexes",
        Column("table_name", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("columns", JSON, nullable=False),
        Column("cluster", Text),
        Column("created_at", Moment, nullable=False),
    )
    _make_table(
        c,
        "ab_refresh_groups",
        Column("name", Text, primary_key=True),
        Column("members", JSON, nullable=False),
        Column("isolation", String(16), nullable=False),
        Column("snapshot_timeout_ms", BigInteger, nullable=False),
        Column("created_at", Moment, nullable=False),
    )
    _make_table(
        c,
        "ab_leases",
        Column("table_name", Text, primary_key=True),
        Column("token", String(32), nullable=False),
        *_process(),
        Column("expires_at", Moment, nullable=False),
    )
    _make_deployments(c)
    _add_columns(c, "ab_history", Column("rounds", Text))
    _add_columns(
        c,
        "ab_stream_tables",
        Column("epoch", BigInteger),
        Column("next_retry_at", Moment),
        Column("failed_mark", Text),
        Column("cluster", Text),
    )


def _make_deployments(c: Connection) -> None:
    _make_table(
        c,
        "ab_deployments",
        Column("id", String(32), primary_key=True),
        Column("project", Text, nullable=False),
        Column("status", String(16), nullable=False),
        Column("created_by", Text, nullable=False),
        Column("created_at", Moment, nullable=False),
        Column("staged_at", Moment),
        Column("finished_at", Moment),
        Column("cut_id", BigInteger),
        *_process(),
        Column("plan", JSON, nullable=False),
        Column("wanted", JSON, nullable=False),
        Column("base", JSON, nullable=False),
        Column("notes", JSON, nullable=False),
        Column("undo", JSON),
    )
    _make_table(
        c,
        "ab_deployed",
        Column("database_name", Text, primary_key=True),
        Column("schema_name", Text, primary_key=True),
        Column("object_name", Text, primary_key=True),
        Column("project", Text, nullable=False),
        Column("deployment_id", String(32), nullable=False),
        Column("record", JSON, nullable=False),
    )
    _make_table(
        c,
        "ab_deployed_schemas",
        Column("database_name", Text, primary_key=True),
        Column("schema_name", Text, primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("deployment_id", String(32), nullable=False),
        Column("changed_by", Text, nullable=False),
        Column("changed_at", Moment, nullable=False),
    )


def texts_of_views(c: Connection) -> None:
    """A cut shows each view with the text it had; until now each is taken to have been as it is."""
    made = _make_table(
        c,
        "ab_view_versions",
        Column("name", Text, primary_key=True),
        Column("cut_id", BigInteger, primary_key=True, autoincrement=False),
        Column("until_cut", BigInteger),
        Column("query", Text),
        Index("ab_view_versions_until", "until_cut"),
    )
    if made is not None:
        now = Table("ab_views", MetaData(), Column("name", Text), Column("query", Text))
        first = select(now.c.name, literal(0), now.c.query)
        c.execute(made.insert().from_select(["name", "cut_id", "query"], first))


def names_of_projects(c: Connection) -> None:
    """What was deployed by folder, before projects had names, has no `named`."""
    _add_columns(c, "ab_deployed", Column("named", Boolean))


def tokens_of_definitions(c: Connection) -> None:
    """A definition has a token, and rows say which one they follow; empty: from before tokens."""
    columns = (Column("definition", String(32)), Column("computed_from", Text))
    _add_columns(c, "ab_stream_tables", *columns)


def stages_of_cuts(c: Connection) -> None:
    """A cut names the stage that it came from, for a process that lost the answer."""
    _add_columns(c, "ab_cuts", Column("stage_id", String(32)))


def read_leases(c: Connection) -> None:
    """Readers hold the cut that they read, and so do stages."""
    _make_table(
        c,
        "ab_read_leases",
        Column("token", String(32), primary_key=True),
        Column("cut_id", BigInteger, nullable=False),
        *_process(),
        Column("expires_at", Moment, nullable=False),
    )
    _add_columns(c, "ab_stages", Column("cut_id", BigInteger))


def cuts_of_tables(c: Connection) -> None:
    """A stream table stands at one cut; empty where that is not known, until its next refresh."""
    _add_columns(c, "ab_stream_tables", Column("cut_id", BigInteger))
    _add_columns(c, "ab_history", Column("stands_at", BigInteger))


def waiters(c: Connection) -> None:
    """Who waits for a lease, so that others queue behind."""
    _make_table(
        c,
        "ab_waiters",
        Column("table_name", Text, primary_key=True),
        Column("token", String(32), primary_key=True),
        Column("since", Moment, nullable=False),
        *_process(),
        Column("expires_at", Moment, nullable=False),
    )


def bounds_of_cycles(c: Connection) -> None:
    """A cycle has bounds of its own; empty: those of the settings."""
    _add_columns(
        c,
        "ab_stream_tables",
        Column("max_fixpoint_iterations", Integer),
        Column("max_fixpoint_rows", BigInteger),
        Column("max_fixpoint_time", Float),
    )


def backups(c: Connection) -> None:
    """A backup holds all files, not those of one cut only."""
    _add_columns(c, "ab_read_leases", Column("all_files", Boolean))


def snapshots(c: Connection) -> None:
    """Versions name snapshots and shapes, which have rows of their own.

    A version from before has no shape: its metadata file tells what it is, and stays until the first
    upkeep, which reads files and so is no migration, has filled the rows in (`lake.upkeep.fill_in`).
    """
    _make_table(
        c,
        "ab_snapshots",
        Column("table_uuid", String(36), primary_key=True),
        Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
        Column("parent_id", BigInteger),
        Column("record", JSON, nullable=False),
    )
    _make_table(
        c,
        "ab_shapes",
        Column("id", String(40), primary_key=True),
        Column("record", JSON, nullable=False),
    )
    _add_columns(
        c,
        "ab_versions",
        Column("committed_at", Moment),
        Column("table_uuid", String(36)),
        Column("shape", String(40)),
    )
    _add_index(c, "ab_versions_location", "ab_versions", "metadata_location")
    _add_columns(c, "ab_stream_tables", Column("data_at", Moment))


def boots(c: Connection) -> None:
    """When each boot of a machine began: the clock of a catalog in a file."""
    _make_table(
        c,
        "ab_boots",
        Column("boot", String(200), primary_key=True),
        Column("began_at", Moment, nullable=False),
    )


def leases_of_deployments(c: Connection) -> None:
    """Whoever stages a deployment holds a lease; empty: nobody does."""
    _add_columns(c, "ab_deployments", Column("expires_at", Moment))


def numbers_of_layouts(c: Connection) -> None:
    """`format_version` counts migrations; the hash of all columns, which told layouts apart, goes."""
    if "layout" not in _columns(c, "ab_meta"):
        return
    if c.dialect.name != "sqlite":
        c.execute(text("ALTER TABLE ab_meta DROP COLUMN layout"))
        return
    c.execute(text("ALTER TABLE ab_meta RENAME TO ab_meta_before"))  # old SQLite drops no column
    columns = (
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("catalog_uuid", String(36), nullable=False),
        Column("format_version", Integer, nullable=False),
        Column("cut", BigInteger, nullable=False),
        Column("created_at", Moment, nullable=False),
    )
    made = _make_table(c, "ab_meta", *columns)
    assert made is not None
    before = Table(
        "ab_meta_before", MetaData(), *(Column(each.name, each.type) for each in columns)
    )
    c.execute(made.insert().from_select(made.columns.keys(), select(before)))
    before.drop(c)


def lineage(c: Connection) -> None:
    """Where the columns of a stream table come from; NULL until upkeep has found it out."""
    _add_columns(c, "ab_stream_tables", Column("lineage", JSON(none_as_null=True)))


def server(c: Connection) -> None:
    """Tokens of the server, and views as other engines read them."""
    _make_table(
        c,
        "ab_tokens",
        Column("id", String(16), primary_key=True),
        Column("name", Text, nullable=False),
        Column("hash", String(64), nullable=False),
        Column("grants", JSON, nullable=False),
        Column("created_by", Text, nullable=False),
        Column("created_at", Moment, nullable=False),
        Column("expires_at", Moment),
        Column("revoked_at", Moment),
        Index("ab_tokens_hash", "hash", unique=True),
    )
    for table in ("ab_views", "ab_view_versions"):
        _add_columns(c, table, Column("iceberg", JSON(none_as_null=True)))


def codes_of_reasons(c: Connection) -> None:
    """History says why by a code; of what was written before, those that code looked at by its text."""
    _add_columns(c, "ab_history", Column("reason_code", Text))
    history = Table("ab_history", MetaData(), Column("reason", Text), Column("reason_code", Text))
    for code, pattern in (
        ("FIRST", "first refresh"),
        ("ASKED", "asked for"),
        ("NOT_INCREMENTAL", "not incremental: %"),
    ):
        here = history.c.reason.like(pattern) & history.c.reason_code.is_(None)
        c.execute(history.update().where(here).values(reason_code=code))


def foreign_catalogs(c: Connection) -> None:
    """Catalogs of others that are attached, and their tables that are read."""
    _make_table(
        c,
        "ab_catalogs",
        Column("name", Text, primary_key=True),
        Column("type", String(32), nullable=False),
        Column("properties", JSON, nullable=False),
        Column("created_at", Moment, nullable=False),
        Column("problem", Text),
        Column("problem_at", Moment),
    )
    _make_table(
        c,
        "ab_foreign_tables",
        Column("namespace", Text, primary_key=True),
        Column("name", Text, primary_key=True),
        Column("used_at", Moment, nullable=False),
        Column("problem", Text),
    )


def rounds_of_upkeep(c: Connection) -> None:
    """What upkeep did is kept, as refreshes are."""
    counts = (
        *("cuts_forgotten", "snapshots_expired", "manifests_merged", "stages_ended"),
        *("files_deleted", "bytes_deleted", "history_forgotten"),
    )
    _make_table(
        c,
        "ab_upkeep",
        Column("round_id", Serial, primary_key=True),
        Column("started_at", Moment, nullable=False),
        Column("duration_ms", BigInteger, nullable=False),
        Column("initiated_by", String(32), nullable=False),
        Column("tables_compacted", JSON, nullable=False),
        *(Column(each, BigInteger, nullable=False) for each in counts),
        Column("cut_id", BigInteger),
        Column("errors", JSON, nullable=False),
    )


MIGRATIONS: Mapping[int, Migration] = {  # 1 is the first layout, which nothing leads to
    2: costs_and_events,
    3: groups_leases_and_deployments,
    4: texts_of_views,
    5: names_of_projects,
    6: tokens_of_definitions,
    7: stages_of_cuts,
    8: read_leases,
    9: cuts_of_tables,
    10: waiters,
    11: bounds_of_cycles,
    12: backups,
    13: snapshots,
    14: boots,
    15: leases_of_deployments,
    16: numbers_of_layouts,
    17: lineage,
    18: server,
    19: codes_of_reasons,
    20: foreign_catalogs,
    21: rounds_of_upkeep,
}
FORMAT_VERSION = max(MIGRATIONS)  # of the catalogs that this Anabranch makes


# -- what migrations are made of ---------------------------------------------------------------------


class AddColumn(ExecutableDDLElement):
    """ALTER TABLE … ADD COLUMN, which SQLAlchemy has not."""

    def __init__(self, column: Column[Any]) -> None:
        self.column = column


@compiles(AddColumn)
def _add_column(element: AddColumn, compiler: DDLCompiler, **_: object) -> str:
    table = compiler.preparer.format_table(element.column.table)
    return f"ALTER TABLE {table} ADD COLUMN {compiler.get_column_specification(element.column)}"


def _process() -> tuple[Column[Any], ...]:
    """The columns that name a process."""
    return (
        Column("host", Text, nullable=False),
        Column("pid", BigInteger, nullable=False),
        Column("process_start", Text, nullable=False),
    )


def _make_table(c: Connection, name: str, *parts: SchemaItem) -> Table | None:
    """Make a table, or nothing if it is there."""
    if inspect(c).has_table(name):
        return None
    table = Table(name, MetaData(), *parts)
    table.create(c, checkfirst=False)
    return table


def _add_columns(c: Connection, name: str, *columns: Column[Any]) -> None:
    known = _columns(c, name)
    table = Table(name, MetaData(), *columns)
    for column in table.columns:
        if column.name not in known:
            c.execute(AddColumn(column))


def _add_index(c: Connection, name: str, table: str, *columns: str) -> None:
    if name not in {each["name"] for each in inspect(c).get_indexes(table)}:
        on = Table(table, MetaData(), *(Column(each) for each in columns))
        Index(name, *on.columns).create(c)


def _columns(c: Connection, table: str) -> set[str]:
    """Empty where the table is lost: the statement that changes it then names it."""
    found = inspect(c)
    return {each["name"] for each in found.get_columns(table)} if found.has_table(table) else set()

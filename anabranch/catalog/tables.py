"""The tables of the catalog database: Iceberg's two, and ours with the prefix `ab_`.

Whoever changes them adds a migration to `migrations`, which brings older catalogs there.

Names of tables are kept as `str(TableName)`, which quotes whatever is not plain and so is read back
without doubt.  `ab_versions` also keeps namespace and name apart, to be joined with Iceberg's rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
    select,
)
from sqlalchemy.types import TypeDecorator

# Names in one IN, and SELECTs in one statement: databases limit both.
CHUNK, PARTS = 500, 300
TABLE_TYPE = "TABLE"  # Iceberg keeps views in the same table

metadata = MetaData()
Serial = BigInteger().with_variant(
    Integer, "sqlite"
)  # SQLite counts only INTEGER keys up by itself


class Moment(TypeDecorator[datetime]):
    """A point in time: aware in Python, UTC in the database (SQLite keeps no zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.astimezone(timezone.utc) if value is not None else None

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            value = value.replace(tzinfo=timezone.utc)
        moment: datetime = value.astimezone(timezone.utc)
        return moment


class Clock(Protocol):
    def now(self) -> datetime: ...


CLOCK = "anabranch_clock"  # an option of the connections to a catalog in a file
CUT = "anabranch_cut"  # an option of reading transactions: the newest cut that they see


def now(c: Connection | None = None) -> datetime:
    """The time of the catalog: its server's where it has one, since hosts may disagree; the machine's
    where it is a file, since the clock on the wall may be set.  Without a catalog, that on the wall."""
    if c is not None and c.dialect.name == "postgresql":
        moment: datetime = c.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(timezone.utc)
    clock = _clock(c)
    return clock.now() if clock is not None else datetime.now(timezone.utc)


def noted(c: Connection) -> datetime:
    """The same for notes that nothing waits for, which are not worth a question to a server."""
    return now() - ahead(c)


def ahead(c: Connection) -> timedelta:
    """By how much the clock on the wall was set, where the catalog is a file; no fraction counts."""
    clock = _clock(c)
    found = datetime.now(timezone.utc) - clock.now() if clock is not None else timedelta()
    return found if abs(found) >= timedelta(seconds=1) else timedelta()


def _clock(c: Connection | None) -> Clock | None:
    return c.get_execution_options().get(CLOCK) if c is not None else None


# Exactly as Iceberg's JdbcCatalog and PyIceberg's SqlCatalog make them.
iceberg_tables = Table(
    "iceberg_tables",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)
iceberg_namespaces = Table(
    "iceberg_namespace_properties",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000), nullable=False),
)

# One row.  Every publish advances `cut` first, so publishes queue up and cuts have no gaps.
meta = Table(
    "ab_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("catalog_uuid", String(36), nullable=False),
    Column("format_version", Integer, nullable=False),  # the last migration: see `migrations`
    Column("cut", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
)
stream_tables = Table(
    "ab_stream_tables",
    metadata,
    Column("name", Text, primary_key=True),
    Column("query", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("refresh_mode", String(16), nullable=False),
    Column("schedule", Text),
    Column("diamond_consistency", String(16), nullable=False),
    Column("diamond_schedule_policy", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("populated", Boolean, nullable=False),
    Column("consecutive_errors", Integer, nullable=False),
    Column("last_error", Text),
    Column("last_refresh_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("options", JSON, nullable=False),
    Column("epoch", BigInteger),
    Column("next_retry_at", Moment),
    Column("failed_mark", Text),
    Column("cluster", Text),
    # Bounds of the cycle that the table is in; NULL: what the settings say.
    Column("max_fixpoint_iterations", Integer),
    Column("max_fixpoint_rows", BigInteger),
    Column("max_fixpoint_time", Float),
    Column("definition", String(32)),  # a token, new whenever something else is declared
    Column("computed_from", Text),  # what rows follow: streams.Basis
    Column("cut_id", BigInteger),  # where it stands; NULL: at no single cut, or not known
    Column("data_at", Moment),  # the newest commit of a source there: the cut may be forgotten
    Column("lineage", JSON(none_as_null=True)),  # see `lineage`; NULL: from before it was kept
)
# Named Spark resources: a scheduler pool of the session, or the address of a Connect server.
clusters = Table(
    "ab_clusters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("pool", Text),
    Column("address", Text),
    Column("settings", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
)
# Sorted copies of tables; the copy itself says which version of its table it holds.
indexes = Table(
    "ab_indexes",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("columns", JSON, nullable=False),
    Column("cluster", Text),
    Column("created_at", Moment, nullable=False),
)
# Stream tables that the user wants refreshed together.
refresh_groups = Table(
    "ab_refresh_groups",
    metadata,
    Column("name", Text, primary_key=True),
    Column("members", JSON, nullable=False),
    Column("isolation", String(16), nullable=False),
    Column("snapshot_timeout_ms", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
)
# Who refreshes a table right now; `token` is new with every taking and proves that it still holds.
leases = Table(
    "ab_leases",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("token", String(32), nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
# Who waits for a lease: those who can come back later let them go first, and others queue behind.
waiters = Table(
    "ab_waiters",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("token", String(32), primary_key=True),
    Column("since", Moment, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
# Who reads which cut right now: upkeep leaves such a cut readable.
read_leases = Table(
    "ab_read_leases",
    metadata,
    Column("token", String(32), primary_key=True),
    Column("cut_id", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("all_files", Boolean),  # a backup: no file at all may be deleted
)
views = Table(
    "ab_views",
    metadata,
    Column("name", Text, primary_key=True),
    Column("query", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("iceberg", JSON(none_as_null=True)),  # its metadata as an Iceberg view, where it has any
)
# The text that a view had from `cut_id` on, until `until_cut`; no text means "dropped".
view_versions = Table(
    "ab_view_versions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cut_id", BigInteger, primary_key=True, autoincrement=False),
    Column("until_cut", BigInteger),
    Column("query", Text),
    Column("iceberg", JSON(none_as_null=True)),
    Index("ab_view_versions_until", "until_cut"),
)
dependencies = Table(
    "ab_dependencies",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("upstream", Text, primary_key=True),
)
# What a stream table had read at its last refresh: equal strings mean nothing changed.
inputs = Table(
    "ab_inputs",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("metadata_location", Text),
    Column("snapshot_id", BigInteger),
)
frontiers = Table(
    "ab_frontiers",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("snapshot_id", BigInteger),
)
cuts = Table(
    "ab_cuts",
    metadata,
    Column("cut_id", BigInteger, primary_key=True, autoincrement=False),
    Column("published_at", Moment, nullable=False),
    Column("kind", Text, nullable=False),
    Column("stage_id", String(32)),  # whose publish it is: for one who lost the answer
)
# A version is seen from `cut_id` on, until `until_cut`; no location means "dropped".  Its metadata file
# may be gone: `shape` and the snapshot tell the same.  Without a shape only the file does.
versions = Table(
    "ab_versions",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("cut_id", BigInteger, primary_key=True, autoincrement=False),
    Column("until_cut", BigInteger),
    Column("metadata_location", Text),
    Column("snapshot_id", BigInteger),
    Column("committed_at", Moment),  # when the snapshot came: the cut may be forgotten
    Column("table_uuid", String(36)),
    Column("shape", String(40)),
    Index("ab_versions_until", "until_cut"),
    Index("ab_versions_cut", "cut_id"),
    Index("ab_versions_location", "metadata_location"),
)
# Snapshots as Iceberg's metadata has them: a table's own metadata lists the last few only.
snapshots = Table(
    "ab_snapshots",
    metadata,
    Column("table_uuid", String(36), primary_key=True),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("parent_id", BigInteger),
    Column("record", JSON, nullable=False),
)
# The rest of a table's metadata (columns, properties, place), by the hash of its text.
shapes = Table(
    "ab_shapes",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("record", JSON, nullable=False),
)
history = Table(
    "ab_history",
    metadata,
    Column("refresh_id", Serial, primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("cut_id", BigInteger),
    Column("action", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text),
    Column("rows_inserted", BigInteger),
    Column("rows_deleted", BigInteger),
    Column("delta_rows", BigInteger),
    Column("duration_ms", BigInteger),
    Column("epoch", BigInteger),
    Column("fixpoint_iterations", BigInteger),
    Column("tick_watermark", BigInteger),
    Column("initiated_by", Text),
    Column("error", Text),
    Column("started_at", Moment, nullable=False),
    Column("source_rows", BigInteger),
    Column("scanned_rows", BigInteger),
    Column("predicted_ms", BigInteger),
    Column("alternative_ms", BigInteger),
    Column("rounds", Text),
    Column("stands_at", BigInteger),
    Column("reason_code", Text),
    Index("ab_history_table", "table_name", "refresh_id"),
    Index("ab_history_action", "table_name", "action", "refresh_id"),
)
# Catalogs of others that are attached; secrets in `properties` are references: ENV('X'), FILE('…').
catalogs = Table(
    "ab_catalogs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("type", String(32), nullable=False),
    Column("properties", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("problem", Text),  # why it could not be observed the last time
    Column("problem_at", Moment),
)
# Their tables that were read here; where they are, `ab_versions` tells.
foreign_tables = Table(
    "ab_foreign_tables",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("used_at", Moment, nullable=False),
    Column("problem", Text),
)
# What somebody should know who was not looking: a table that changed its way, was rebuilt, stopped.
events = Table(
    "ab_events",
    metadata,
    Column("event_id", Serial, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("table_name", Text),
    Column("kind", String(32), nullable=False),
    Column("message", Text, nullable=False),
    Index("ab_events_table", "table_name", "event_id"),
)
# Rounds of upkeep that did something.
rounds = Table(
    "ab_upkeep",
    metadata,
    Column("round_id", Serial, primary_key=True),
    Column("started_at", Moment, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("initiated_by", String(32), nullable=False),
    Column("tables_compacted", JSON, nullable=False),
    Column("cuts_forgotten", BigInteger, nullable=False),
    Column("snapshots_expired", BigInteger, nullable=False),
    Column("manifests_merged", BigInteger, nullable=False),
    Column("stages_ended", BigInteger, nullable=False),
    Column("files_deleted", BigInteger, nullable=False),
    Column("bytes_deleted", BigInteger, nullable=False),
    Column("history_forgotten", BigInteger, nullable=False),
    Column("cut_id", BigInteger),
    Column("errors", JSON, nullable=False),
)
# Work under way: files that carry a stage's id are not garbage while its row and its owner live.
stages = Table(
    "ab_stages",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("heartbeat_at", Moment, nullable=False),
    Column("tables", JSON, nullable=False),
    Column("cut_id", BigInteger),  # the cut that it reads, which stays readable until it is over
)

# When each boot of a machine began, by the catalog's clock; see `clock`.
boots = Table(
    "ab_boots",
    metadata,
    Column("boot", String(200), primary_key=True),
    Column("began_at", Moment, nullable=False),
)
# A staged set of objects on its way into production, or back out of it.
deployments = Table(
    "ab_deployments",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("staged_at", Moment),
    Column("finished_at", Moment),
    Column("cut_id", BigInteger),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("expires_at", Moment),  # of the lease of the process that stages it; none: nobody does
    Column("plan", JSON, nullable=False),
    Column("wanted", JSON, nullable=False),
    Column("base", JSON, nullable=False),
    Column("notes", JSON, nullable=False),
    Column("undo", JSON),
)
# What is deployed, object by object; clusters stand here without database and schema.
deployed = Table(
    "ab_deployed",
    metadata,
    Column("database_name", Text, primary_key=True),
    Column("schema_name", Text, primary_key=True),
    Column("object_name", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("deployment_id", String(32), nullable=False),
    Column("record", JSON, nullable=False),
    Column("named", Boolean),  # NULL: `project` is the name of a folder, from before names
)
# Every promote and roll-back that touches a schema counts its version up.
deployed_schemas = Table(
    "ab_deployed_schemas",
    metadata,
    Column("database_name", Text, primary_key=True),
    Column("schema_name", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("deployment_id", String(32), nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("changed_at", Moment, nullable=False),
)
# Bearer tokens of the server, by the hash of what the client sends.
tokens = Table(
    "ab_tokens",
    metadata,
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

"""Roles on PostgreSQL: the rights that each needs on the catalog, and the statements that grant them.

Each role has what the one before it has, and more:

reader     reads tables, views and listings, and holds cuts
writer     also writes rows to source tables
scheduler  also refreshes stream tables, and does upkeep
owner      also creates, alters and drops: the tables of the catalog are its own
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.compiler import IdentifierPreparer

from anabranch.catalog import tables
from anabranch.errors import InvalidValue

ROLES = ("reader", "writer", "scheduler", "owner")
DENIED = "42501"  # SQLSTATE of PostgreSQL
ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")
_WORK = ("INSERT", "UPDATE", "DELETE")

STATE = (
    "fingerprint", "status", "populated", "consecutive_errors", "last_error", "last_refresh_at",
    "data_at", "epoch", "next_retry_at", "failed_mark", "computed_from", "cut_id", "options", "lineage",
)  # fmt: skip

# What a role may do beyond reading everything; the owner may do all.
RIGHTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "reader": {
        "ab_read_leases": _WORK,
        "ab_meta": ("UPDATE (id)",),  # to hold a cut it locks the row; it cannot change the cut
    },
    "writer": {
        "iceberg_tables": ("UPDATE",),
        "ab_meta": ("UPDATE",),
        "ab_cuts": ("INSERT",),
        "ab_versions": ("INSERT", "UPDATE"),
        "ab_snapshots": ("INSERT", "UPDATE"),
        "ab_shapes": ("INSERT", "UPDATE"),
        "ab_stages": _WORK,
        "ab_events": ("INSERT",),
        "ab_catalogs": ("UPDATE (problem, problem_at)",),
        "ab_foreign_tables": ("INSERT", "UPDATE"),
    },
    "scheduler": {
        "ab_stream_tables": (f"UPDATE ({', '.join(STATE)})",),  # never what was declared
        "ab_history": _WORK,
        "ab_events": ("DELETE",),
        "ab_upkeep": ("INSERT", "DELETE"),
        "ab_inputs": _WORK,
        "ab_frontiers": _WORK,
        "ab_dependencies": _WORK,
        "ab_leases": _WORK,
        "ab_waiters": _WORK,
        "ab_cuts": ("DELETE",),
        "ab_versions": ("DELETE",),
        "ab_snapshots": ("DELETE",),
        "ab_shapes": ("DELETE",),
        "ab_view_versions": ("DELETE",),
        "ab_deployments": ("UPDATE (undo)", "DELETE"),  # those that are over, with their age
    },
}
SEQUENCES = {
    "writer": ("ab_events_event_id_seq",),
    "scheduler": ("ab_history_refresh_id_seq", "ab_upkeep_round_id_seq"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,40}\Z")


def grants(prefix: str = "anabranch_", schema: str = "public") -> dict[str, list[str]]:
    """The statements for each role, in the order in which they are to be run by the owner of the tables
    or a superuser.  `prefix` stands before the names of the roles."""
    for text in (prefix, schema):
        if not _NAME.match(text):
            raise InvalidValue(
                f"{text!r} is not a plain name", hint="use letters, digits and _, 40 at most"
            )
    return {role: list(_statements(role, prefix, schema)) for role in ROLES}


def _statements(role: str, prefix: str, schema: str) -> Iterator[str]:
    quoted = IdentifierPreparer(postgresql.dialect()).quote  # type: ignore[no-untyped-call]
    name, inside = quoted(prefix + role), quoted(schema)
    yield f"CREATE ROLE {name} NOLOGIN;"
    yield f"GRANT USAGE ON SCHEMA {inside} TO {name};"
    if role == "owner":
        yield f"GRANT CREATE ON SCHEMA {inside} TO {name};"
        for table in sorted(tables.metadata.tables):  # a sequence goes with its table
            yield f"ALTER TABLE {inside}.{quoted(table)} OWNER TO {name};"
        return
    before = ROLES.index(role)
    if before:
        yield f"GRANT {quoted(prefix + ROLES[before - 1])} TO {name};"
    else:
        every = ", ".join(f"{inside}.{quoted(table)}" for table in sorted(tables.metadata.tables))
        yield f"GRANT SELECT ON {every} TO {name};"
    for table, rights in sorted(RIGHTS[role].items()):
        yield f"GRANT {', '.join(rights)} ON {inside}.{quoted(table)} TO {name};"
    for sequence in SEQUENCES.get(role, ()):
        yield f"GRANT USAGE ON SEQUENCE {inside}.{quoted(sequence)} TO {name};"


def role_with(right: str, table: str, columns: Collection[str] = ()) -> str:
    """The first role that may do something to a table of the catalog, or to some of its columns."""
    if right == "SELECT":
        return "reader"
    for role in ROLES[:-1]:
        for given in RIGHTS[role].get(table, ()):
            name, _, only = given.partition(" (")
            if name == right and (not only or {*columns} <= {*only.strip(")").split(", ")}):
                return role
    return "owner"

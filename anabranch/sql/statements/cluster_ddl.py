"""Statements about clusters and indexes.

CREATE [OR REPLACE] CLUSTER [IF NOT EXISTS] c [POOL 'name' | ADDRESS 'sc://host'] [WITH (k = v, …)]
DROP CLUSTER [IF EXISTS] c
CREATE INDEX [IF NOT EXISTS] i ON t (column, …) [IN CLUSTER c]
DROP INDEX [IF EXISTS] i ON t

A cluster that says neither POOL nor ADDRESS is the scheduler pool of its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from anabranch.errors import InvalidValue, did_you_mean
from anabranch.redaction import holds_secret, redacted_address
from anabranch.sql.statements.options import read_options
from anabranch.sql.statements.records import (
    CreateCluster,
    CreateIndex,
    DropCluster,
    DropIndex,
    Statement,
)
from anabranch.sql.statements.table_ddl import no_repeats
from anabranch.sql.text.cursor import Cursor
from anabranch.values import connect_problem

CLUSTER = "a cluster's name"
INDEX = "an index's name"
LEAST = {"weight": 1, "min_share": 0}
MOST = 10**6  # Spark counts cores and multiplies weights in 32 bits
POOL_SETTINGS = tuple(LEAST)
SPARK = "spark."
CONNECT = "sc://"


def create_cluster(cursor: Cursor, or_replace: bool) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier(CLUSTER)
    pool = cursor.string("the pool's 'name'") if cursor.accept("POOL") else None
    address = cursor.string("an 'sc://…' address") if cursor.accept("ADDRESS") else None
    if (pool and address) or cursor.at_any("POOL", "ADDRESS"):
        raise cursor.passage.error(
            cursor.token.start, "a cluster is a POOL or an ADDRESS, not both"
        )
    settings = read_options(cursor) if cursor.accept("WITH") else MappingProxyType({})
    cursor.expect_end()
    if pool is None and address is None:
        pool = name
    _check(name, address, settings)
    return CreateCluster(name, pool, address, settings, or_replace, if_not_exists)


def _check(name: str, address: str | None, settings: Mapping[str, str]) -> None:
    """A pool has a weight and a smallest share, a server takes properties of Spark."""
    if address is None:
        for key, value in settings.items():
            if key not in POOL_SETTINGS:
                hint = did_you_mean(key, POOL_SETTINGS) or f"known: {', '.join(POOL_SETTINGS)}"
                raise InvalidValue(f'cluster {name}: a pool has no setting "{key}"', hint=hint)
            if not (value.isascii() and value.isdecimal()):
                raise InvalidValue(f'cluster {name}: "{value}" is not a whole number')
            least = LEAST[key]
            if len(value) > 10 or not least <= int(value) <= MOST:
                raise InvalidValue(
                    f'cluster {name}: "{key}" is not between {least} and {MOST}',
                    hint="a weight is relative to those of other pools, 1 for most",
                )
        return
    if not address.startswith(CONNECT):
        raise InvalidValue(
            f"cluster {name}: {redacted_address(address)!r} is not the address of a Spark "
            "Connect server",
            hint="write ADDRESS 'sc://host:15002'",
        )
    if redacted_address(address) != address:
        raise _secret(name, "its address")
    if problem := connect_problem(address):
        raise InvalidValue(
            f"cluster {name}: {address!r} is not the address of a Spark Connect server: {problem}",
            hint="write ADDRESS 'sc://host:15002'",
        )
    for key, value in settings.items():
        if holds_secret(key, value):
            raise _secret(name, key)
        if not key.startswith(SPARK):
            raise InvalidValue(
                f'cluster {name}: "{key}" is not a property of Spark',
                hint=f"properties start with {SPARK}",
            )


def _secret(name: str, what: str) -> InvalidValue:
    return InvalidValue(
        f"cluster {name}: {what} holds a secret, and the catalog keeps none",
        hint="write ENV('NAME') or FILE('path') in its place",
    )


def drop_cluster(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier(CLUSTER)
    cursor.expect_end()
    return DropCluster(name, if_exists)


def create_index(cursor: Cursor, or_replace: bool) -> Statement:
    if or_replace:
        raise cursor.error("IF NOT EXISTS or a name", "drop the index and recreate it")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier(INDEX)
    cursor.expect("ON")
    table = cursor.table_name()
    columns = cursor.bracketed(lambda: cursor.identifier("a column's name"))
    no_repeats(columns)
    cluster = cursor.identifier(CLUSTER) if cursor.accept("IN", "CLUSTER") else None
    cursor.expect_end()
    return CreateIndex(name, table, columns, cluster, if_not_exists)


def drop_index(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier(INDEX)
    cursor.expect("ON")
    table = cursor.table_name()
    cursor.expect_end()
    return DropIndex(name, table, if_exists)

"""Iceberg's REST protocol, reading: configuration, namespaces and tables, at one cut each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from pyiceberg.table.metadata import TableMetadata

from anabranch.catalog import cuts, namespaces
from anabranch.catalog import views as view_rows
from anabranch.lake.checksums import SEAL, json_of
from anabranch.lake.version import TableVersion
from anabranch.names import TableName
from anabranch.serve.pins import Shown
from anabranch.serve.problems import bad_request, no_namespace, no_table
from anabranch.serve.routes import (
    DONE,
    ICEBERG,
    LEVELS,
    NOT_MODIFIED,
    Access,
    Answer,
    Call,
    Route,
)

ROOT = f"{ICEBERG}/v1"
PREFIXED = f"{ROOT}/{{prefix}}"
IN_NAMESPACE = f"{PREFIXED}/namespaces/{{namespace}}"
LARGEST_PAGE = 10_000
T = TypeVar("T")


def config(endpoints: Callable[[str], Sequence[str]]) -> Callable[[Call], Answer]:
    """The first question of every client, which settles the version of the world that it reads."""

    def act(call: Call) -> Answer:
        prefix = call.server.pins.prefix(call.query.get("warehouse", ""))
        return Answer.of(
            {
                # the token is all there is: clients must not try to exchange it for another
                "defaults": {"token-refresh-enabled": "false"},
                "overrides": {"prefix": prefix},
                "endpoints": list(endpoints(prefix)),
            }
        )

    return act


# -- namespaces --------------------------------------------------------------------------------


def known_namespaces(call: Call, shown: Shown) -> set[tuple[str, ...]]:
    """Those that tables and views lie in, and those that were made."""
    found = namespaces.of_names(cuts.names_at(shown.c, shown.cut_id))
    found |= namespaces.of_names(view_names(shown))
    found |= namespaces.recorded(shown.c, call.runtime.lake.catalog_name)
    return namespaces.with_parents(found)


def view_names(shown: Shown) -> Collection[TableName]:
    past = shown.past
    return (
        view_rows.all_views(shown.c) if past is None else view_rows.views_at(shown.c, past)
    ).keys()


def need_namespace(call: Call, shown: Shown, namespace: tuple[str, ...]) -> None:
    if namespace not in known_namespaces(call, shown):
        raise no_namespace(namespace)


def list_namespaces(call: Call) -> Answer:
    parent = tuple(call.query["parent"].split(LEVELS)) if call.query.get("parent") else ()
    with call.server.pins.shown(call.prefix) as shown:
        known = known_namespaces(call, shown)
    if parent and parent not in known:
        raise no_namespace(parent)
    below = [
        each
        for each in sorted(known)
        if len(each) == len(parent) + 1
        and each[: len(parent)] == parent
        and call.grants.leads_to(each)
    ]
    page, token = paged(call, below, ".".join)
    return Answer.of({"namespaces": page, "next-page-token": token})


def load_namespace(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, call.namespace)
        found = namespaces.properties(shown.c, call.runtime.lake.catalog_name, call.namespace)
    return Answer.of({"namespace": call.namespace, "properties": found})


def namespace_exists(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, call.namespace)
    return DONE


# -- tables ------------------------------------------------------------------------------------


def list_tables(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, call.namespace)
        found = cuts.names_at(shown.c, shown.cut_id, ".".join(call.namespace))
    return listed(call, found)


def listed(call: Call, found: Iterable[TableName]) -> Answer:
    names = sorted(each.name for each in found if each.namespace == call.namespace)
    page, token = paged(call, names, str)
    identifiers = [{"namespace": call.namespace, "name": name} for name in page]
    return Answer.of({"identifiers": identifiers, "next-page-token": token})


def load_table(call: Call) -> Answer:
    name, mode = call.name("table"), call.query.get("snapshots", "all")
    with call.server.pins.shown(call.prefix) as shown:
        location = find_table(shown, name)
        tag = etag(location, mode)
        if tag in [each.strip() for each in call.headers.get("if-none-match", "").split(",")]:
            return Answer(status=NOT_MODIFIED, headers={"ETag": tag})
        version = call.runtime.lake.version(name, location)
    return loaded(call, version, mode)


def table_exists(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        find_table(shown, call.name("table"))
    return DONE


def load_credentials(call: Call) -> Answer:
    """What clients are told to reach the files; the same for all tables."""
    with call.server.pins.shown(call.prefix) as shown:
        version = call.runtime.lake.version(
            call.name("table"), find_table(shown, call.name("table"))
        )
    return Answer.of({"storage-credentials": _credentials(call, version)})


def find_table(shown: Shown, name: TableName) -> str:
    location = cuts.location_at(shown.c, name, shown.cut_id)
    if location is None:
        raise no_table(name)
    return location


def loaded(call: Call, version: TableVersion, mode: str = "all") -> Answer:
    """A table as its version tells; the tag names the version."""
    return Answer(
        answered(call, version.metadata, version.location, mode),
        headers={"ETag": etag(version.location, mode)},
    )


def answered(call: Call, metadata: TableMetadata, location: str | None, mode: str = "all") -> bytes:
    found: dict[str, Any] = {"metadata": json.loads(shown_metadata(metadata, mode))}
    if location is not None:
        found["metadata-location"] = location
    found["config"] = dict(call.server.config)
    if call.server.config:
        place = location or metadata.location
        found["storage-credentials"] = [{"prefix": _top(place), "config": found["config"]}]
    return json.dumps(found).encode()


def shown_metadata(metadata: TableMetadata, mode: str) -> str:
    """The metadata without the checksum of its file, which is no property of the table."""
    properties = {key: value for key, value in metadata.properties.items() if key != SEAL}
    changed: dict[str, Any] = {"properties": properties}
    if mode == "refs":
        named = {each.snapshot_id for each in metadata.refs.values()}
        named |= {metadata.current_snapshot_id or 0}
        changed["snapshots"] = [each for each in metadata.snapshots if each.snapshot_id in named]
    elif mode != "all":
        raise bad_request(f"snapshots is all or refs, not {mode!r}")
    return json_of(metadata.model_copy(update=changed))


def etag(location: str, mode: str) -> str:
    digest = hashlib.sha256(f"{location} {mode}".encode()).hexdigest()[:32]
    return f'W/"{digest}"'


def _credentials(call: Call, version: TableVersion) -> list[dict[str, Any]]:
    if not call.server.config:
        return []
    return [{"prefix": _top(version.location), "config": dict(call.server.config)}]


def _top(location: str) -> str:
    """The scheme of a location: credentials are for all that the warehouse holds."""
    return location.partition("://")[0]


# -- pages -------------------------------------------------------------------------------------


def paged(
    call: Call, found: Sequence[T], key: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """The part of a sorted listing that a client asked for, and the token of the next."""
    after, size = call.query.get("pageToken"), call.query.get("pageSize")
    if after:
        found = [each for each in found if key(each) > after]
    if size is None:
        return found, None
    if not size.isdecimal() or not 0 < int(size) <= LARGEST_PAGE:
        raise bad_request(f"pageSize is a number from 1 to {LARGEST_PAGE:,}")
    page = found[: int(size)]
    return page, key(page[-1]) if len(page) < len(found) else None


READING = (
    Route("GET", f"{PREFIXED}/namespaces", Access.TOKEN, list_namespaces),
    Route("GET", IN_NAMESPACE, Access.READ, load_namespace, inside=True),
    Route("HEAD", IN_NAMESPACE, Access.READ, namespace_exists, inside=True),
    Route("GET", f"{IN_NAMESPACE}/tables", Access.READ, list_tables, inside=True),
    Route("GET", f"{IN_NAMESPACE}/tables/{{table}}", Access.READ, load_table, inside=True),
    Route("HEAD", f"{IN_NAMESPACE}/tables/{{table}}", Access.READ, table_exists, inside=True),
    Route(
        "GET",
        f"{IN_NAMESPACE}/tables/{{table}}/credentials",
        Access.READ,
        load_credentials,
        inside=True,
    ),
)

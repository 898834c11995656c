"""Iceberg's REST protocol: views.

A view of ours is one text in Spark's dialect.  One that another engine makes keeps all its texts for
the other engines; ours reads the one in Spark's dialect, and of a view without one it says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field, ValidationError
from pyiceberg.catalog.rest import CreateViewRequest
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.view.metadata import ViewMetadata

from anabranch.catalog import streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.read_set import readers_of
from anabranch.catalog.store import Connection
from anabranch.catalog.views import View
from anabranch.errors import AnabranchError, PublishConflict, Refused, UnknownName
from anabranch.lake import view_metadata
from anabranch.lake.places import table_root
from anabranch.lake.view_metadata import Metadata
from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.refresh.definition import reach
from anabranch.runtime import Runtime, Transaction, check_new_name
from anabranch.serve.commits import published, refuse_rename
from anabranch.serve.iceberg import IN_NAMESPACE, PREFIXED, listed, need_namespace, view_names
from anabranch.serve.iceberg_writes import check_writable, ends
from anabranch.serve.problems import (
    Problem,
    bad_request,
    commit_failed,
    no_view,
    of_the_request,
    plain,
    taken,
)
from anabranch.serve.routes import DONE, Access, Answer, Call, Route, table_name
from anabranch.sql.analyze.tables import qualified, tables_of
from anabranch.tables import drop as dropping
from anabranch.tables.drop import expect_views


class NewView(CreateViewRequest):
    location: str | None = None


class ViewCommit(IcebergBaseModel):
    requirements: list[dict[str, Any]] = Field(default_factory=list)
    updates: list[dict[str, Any]]


# -- reading -----------------------------------------------------------------------------------


def list_views(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, call.namespace)
        return listed(call, view_names(shown))


def load_view(call: Call) -> Answer:
    name = call.name("view")
    with call.server.pins.shown(call.prefix) as shown:
        view, cut_id = view_rows.find(shown.c, name, shown.past), shown.cut_id
    if view is None:
        raise no_view(name)
    metadata = view_metadata.metadata_of(view)
    return _answered(metadata or _derived(call.runtime, name, view, cut_id))


def view_exists(call: Call) -> Answer:
    with call.server.pins.shown(call.prefix) as shown:
        if view_rows.find(shown.c, call.name("view"), shown.past) is None:
            raise no_view(call.name("view"))
    return DONE


def _answered(metadata: Metadata) -> Answer:
    """The metadata are rows of the catalog: the address of a file is only what clients expect."""
    custom = metadata["properties"].get("write.metadata.path")
    place = custom or f"{metadata['location']}/metadata"
    version = metadata["current-version-id"]
    location = f"{place}/{version:05d}-{metadata['view-uuid']}.metadata.json"
    return Answer.of({"metadata-location": location, "metadata": metadata, "config": {}})


def _derived(runtime: Runtime, name: TableName, view: View, cut_id: int | None) -> Metadata:
    """What a view is whose metadata nobody has kept: its columns as far as the text tells them."""
    relation = runtime.world(cut_id).relation(name)
    known: Columns = tuple(
        Column(each.name, str(each.type))
        for each in relation.columns or ()
        if each.name is not None and each.type is not None
    )
    if relation.columns is None or len(known) < len(relation.columns):
        raise Problem(
            406,
            "UnsupportedOperationException",
            f"the columns of view {plain(name)} are not known here: CREATE OR REPLACE VIEW "
            "records them",
        )
    location = f"{runtime.lake.warehouse.location}/{'/'.join(name.parts)}"
    found = view_metadata.described(None, view.query, known, location)
    own = uuid.uuid5(uuid.UUID(runtime.store.catalog_uuid), str(name))
    return {**found, "view-uuid": str(own)}


# -- writing -----------------------------------------------------------------------------------


def create_view(call: Call) -> Answer:
    check_writable(call)
    wanted = call.read(NewView)
    name = table_name(call.namespace, wanted.name)
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, name.namespace)
    with of_the_request("the request cannot be read"):
        given = wanted.model_dump(mode="json", by_alias=True, exclude_none=True)
    root = wanted.location or table_root(call.runtime.lake.warehouse.location, name)
    metadata = _updated(
        view_metadata.empty(root),
        [
            {"action": "set-properties", "updates": given.get("properties", {})},
            {"action": "add-schema", "schema": given["schema"]},
            {"action": "add-view-version", "view-version": given["view-version"]},
            {"action": "set-current-view-version", "view-version-id": view_metadata.LAST_ADDED},
        ],
    )

    def act(tx: Transaction) -> None:
        found = tx.world.find(name)
        if found is not None:
            is_view = found in tx.world.views
            kind = "View already exists" if is_view else "Table with same name already exists"
            raise taken(f"{kind}: {plain(found)}")
        check_new_name(tx, name)
        _put(call.runtime, tx, name, metadata)

    published(call.runtime, [name], act)
    return _answered(metadata)


def commit_view(call: Call) -> Answer:
    check_writable(call)
    name, wanted = call.name("view"), call.read(ViewCommit)
    made: dict[str, Metadata] = {}

    def act(tx: Transaction) -> None:
        base = _current(call.runtime, tx, name)
        for each in wanted.requirements:
            _check(each, base)
        made["metadata"] = _updated(base, wanted.updates)
        _put(call.runtime, tx, name, made["metadata"])

    published(call.runtime, [name], act)
    return _answered(made["metadata"])


def drop_view(call: Call) -> Answer:
    check_writable(call)
    name = call.name("view")

    def act(tx: Transaction) -> None:
        if name not in tx.world.views:
            raise no_view(name)
        dropping.drop_in(call.runtime, tx, name, dropping.Kind.VIEW)

    published(call.runtime, [name], act)
    return DONE


def rename_view(call: Call) -> Answer:
    check_writable(call)
    name, new = ends(call)
    with call.server.pins.shown(call.prefix) as shown:
        need_namespace(call, shown, new.namespace)

    def act(tx: Transaction) -> None:
        base = _current(call.runtime, tx, name)
        refuse_rename(tx.world, name, new)
        check_new_name(tx, new)
        dropping.drop_in(call.runtime, tx, name, dropping.Kind.VIEW)
        _put(call.runtime, tx, new, base)

    published(call.runtime, [name, new], act)
    return DONE


def _current(runtime: Runtime, tx: Transaction, name: TableName) -> Metadata:
    """The metadata of a view as the transaction finds it; it must not change until the publish."""
    if name not in tx.world.views:
        raise no_view(name)
    expect_views(tx, {name})
    with runtime.store.reading() as c:
        view = view_rows.find(c, name)
    if view is None or view.query != tx.world.views[name]:
        raise PublishConflict(f"view {name} was changed just now", hint="run it again")
    record = view.iceberg
    tx.later(partial(_check_unchanged, name, record))
    return view_metadata.metadata_of(view) or _derived(runtime, name, view, None)


def _check_unchanged(
    name: TableName, record: Mapping[str, Any] | None, c: Connection, cut_id: int | None
) -> None:
    """Two commits that leave the text as it is must not overtake each other."""
    found = view_rows.find(c, name)
    if found is None or found.iceberg != record:
        raise PublishConflict(f"view {name} was changed by another process", hint="run it again")


def _put(runtime: Runtime, tx: Transaction, name: TableName, metadata: Metadata) -> None:
    """Make these the metadata of a view, and its text in Spark's dialect ours."""
    query = _readable(name, metadata)
    if tx.world.views.get(name) != query:
        _refuse_followers(runtime, tx, name)
    try:
        _, through = reach(tx.world, query)
    except UnknownName:  # views may be made before what they read
        through = frozenset()
    if name in through or name in tables_of(query):
        raise Refused(f"view {name} would read itself")
    tx.world.views = {**tx.world.views, name: query}
    record = view_metadata.record_of(query, metadata)

    def rows(c: Connection, cut_id: int | None) -> None:
        view_rows.remove(c, name)
        view_rows.add(c, name, query, record)

    tx.later(rows)


def _refuse_followers(runtime: Runtime, tx: Transaction, name: TableName) -> None:
    """Whether a stream table could follow to another query only Spark can tell."""
    with runtime.store.reading() as c:
        readers = tx.used.readers[name] = readers_of(name, streams.dependencies(c))
    if readers:
        listed_readers = ", ".join(str(reader) for reader in sorted(readers))
        raise Refused(
            f"view {name} is read by {listed_readers}",
            hint="CREATE OR REPLACE VIEW of Anabranch checks that they can follow",
        )


def _readable(name: TableName, metadata: Metadata) -> str:
    """The text for our own SQL; of a view without one, a query that says so when it is run."""
    found = view_metadata.text_in(metadata)
    if found is not None:
        sql, version = found
        try:
            return qualified(sql, version["default-namespace"], version.get("default-catalog"))
        except AnabranchError:
            pass
    said = f"view {plain(name)} has no SQL that Anabranch reads: give it one in the dialect spark"
    return f"SELECT raise_error('{said.replace(chr(39), chr(39) * 2)}') AS unreadable"


def _updated(metadata: Metadata, updates: list[dict[str, Any]]) -> Metadata:
    with of_the_request("the view cannot be updated like this"):
        try:
            made = view_metadata.updated(metadata, updates)
        except ValidationError:
            raise
        except ValueError as error:
            raise Problem(400, "IllegalArgumentException", str(error)) from None
        ViewMetadata.model_validate(made)
        return made


def _check(requirement: Mapping[str, Any], base: Metadata) -> None:
    if requirement.get("type") != "assert-view-uuid":
        raise bad_request(f"unknown requirement {requirement.get('type')!r}")
    if requirement.get("uuid") != base["view-uuid"]:
        raise commit_failed(
            f"Requirement failed: view UUID does not match: expected {requirement.get('uuid')} "
            f"!= {base['view-uuid']}"
        )


ONE_VIEW = f"{IN_NAMESPACE}/views/{{view}}"
VIEW_READING = (
    Route("GET", f"{IN_NAMESPACE}/views", Access.READ, list_views, inside=True),
    Route("GET", ONE_VIEW, Access.READ, load_view, inside=True),
    Route("HEAD", ONE_VIEW, Access.READ, view_exists, inside=True),
)
VIEW_WRITING = (
    Route("POST", f"{IN_NAMESPACE}/views", Access.WRITE, create_view, inside=True),
    Route("POST", ONE_VIEW, Access.WRITE, commit_view, inside=True),
    Route("DELETE", ONE_VIEW, Access.WRITE, drop_view, inside=True),
    Route("POST", f"{PREFIXED}/views/rename", Access.WRITE, rename_view),
)

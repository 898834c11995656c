"""Iceberg's REST protocol, writing: namespaces, tables, and transactions over many tables."""

from __future__ import annotations

from pydantic import Field
from pyiceberg.typedef import IcebergBaseModel

from anabranch.catalog import cuts, namespaces
from anabranch.catalog import views as view_rows
from anabranch.catalog.store import Connection
from anabranch.catalog.tokens import Role
from anabranch.lake.observe import observed
from anabranch.lake.version import TableVersion
from anabranch.names import SYSTEM_SCHEMA, TableName
from anabranch.serve import commits
from anabranch.serve.iceberg import (
    IN_NAMESPACE,
    PREFIXED,
    answered,
    known_namespaces,
    loaded,
    need_namespace,
)
from anabranch.serve.pins import LATEST, Shown, cut_of
from anabranch.serve.problems import (
    Problem,
    bad_request,
    forbidden,
    no_namespace,
    taken,
)
from anabranch.serve.routes import DONE, Access, Answer, Call, Route, table_name
from anabranch.serve.updates import (
    Commit,
    Commits,
    NewTable,
    Registration,
    Rename,
    named,
)

Namespace = tuple[str, ...]


class NewNamespace(IcebergBaseModel):
    namespace: list[str]
    properties: dict[str, str] = Field(default_factory=dict)


class PropertyChanges(IcebergBaseModel):
    removals: list[str] = Field(default_factory=list)
    updates: dict[str, str] = Field(default_factory=dict)


def check_writable(call: Call) -> None:
    """A cut does not change: only `latest` is written."""
    if call.prefix != LATEST:
        raise forbidden(
            f"cut {cut_of(call.prefix)} is read-only: connect to warehouse latest to write"
        )


# -- namespaces --------------------------------------------------------------------------------


def create_namespace(call: Call) -> Answer:
    check_writable(call)
    wanted = call.read(NewNamespace)
    namespace = tuple(wanted.namespace)
    if not namespace or not all(namespace):
        raise bad_request("a namespace has a name")
    table_name(namespace, "any")  # whose namespace it could be
    if namespace[0].lower() == SYSTEM_SCHEMA:
        raise forbidden(f"the namespace {SYSTEM_SCHEMA} is reserved: choose another name")
    call.need(Role.ADMIN, namespace)
    catalog = call.runtime.lake.catalog_name
    with call.runtime.store.writing() as c:
        cuts.hold(c)
        alike = {".".join(each).lower() for each in known_namespaces(call, Shown(c, None))}
        if ".".join(namespace).lower() in alike:
            raise taken(f"Namespace already exists: {'.'.join(namespace)}")
        namespaces.create(c, catalog, namespace, wanted.properties)
    return Answer.of({"namespace": namespace, "properties": wanted.properties})


def drop_namespace(call: Call) -> Answer:
    check_writable(call)
    catalog = call.runtime.lake.catalog_name
    with observed(call.runtime.lake):
        pass  # tables that other programs have made count
    with call.runtime.store.writing() as c:
        cuts.hold(c)
        need_namespace(call, Shown(c, None), call.namespace)
        if not _is_empty(c, catalog, call.namespace):
            shown = ".".join(call.namespace)
            raise Problem(409, "NamespaceNotEmptyException", f"Namespace is not empty: {shown}")
        namespaces.drop(c, catalog, call.namespace)
    return DONE


def _is_empty(c: Connection, catalog: str, namespace: Namespace) -> bool:
    found = namespaces.of_names([*cuts.names_at(c), *view_rows.all_views(c)])
    below = {each for each in namespaces.recorded(c, catalog) if each != namespace}
    return not any(each[: len(namespace)] == namespace for each in found | below)


def update_namespace(call: Call) -> Answer:
    check_writable(call)
    wanted = call.read(PropertyChanges)
    both = sorted({*wanted.removals} & wanted.updates.keys())
    if both:
        raise Problem(
            422, "UnprocessableEntityException", f"cannot set and remove at once: {', '.join(both)}"
        )
    catalog, namespace = call.runtime.lake.catalog_name, call.namespace
    with call.runtime.store.writing() as c:
        cuts.hold(c)
        need_namespace(call, Shown(c, None), namespace)
        there = namespaces.properties(c, catalog, namespace)
        namespaces.remove_properties(c, catalog, namespace, wanted.removals)
        namespaces.set_properties(
            c, catalog, namespace, {namespaces.MARK: "true", **wanted.updates}
        )
    removed = [key for key in wanted.removals if key in there]
    missing = [key for key in wanted.removals if key not in there]
    return Answer.of({"updated": sorted(wanted.updates), "removed": removed, "missing": missing})


# -- tables ------------------------------------------------------------------------------------


def create_table(call: Call) -> Answer:
    check_writable(call)
    wanted = call.read(NewTable)
    name = table_name(call.namespace, wanted.name)
    _need_namespace_now(call, name.namespace)
    if wanted.stage_create:
        return Answer(answered(call, commits.staged(call.runtime, name, wanted), None))
    return loaded(call, commits.create(call.runtime, name, wanted))


def register_table(call: Call) -> Answer:
    check_writable(call)
    wanted = call.read(Registration)
    name = table_name(call.namespace, wanted.name)
    _need_namespace_now(call, name.namespace)
    made = commits.register(
        call.runtime, name, wanted.metadata_location, overwrite=wanted.overwrite
    )
    return loaded(call, made)


def commit_table(call: Call) -> Answer:
    check_writable(call)
    name, change = call.name("table"), call.read(Commit)
    if change.identifier is not None and named(change.identifier) != name:
        raise bad_request(f"the path names {name}, the request {named(change.identifier)}")
    return _committed(call, commits.commit(call.runtime, [(name, change)])[name])


def _committed(call: Call, version: TableVersion) -> Answer:
    return Answer(answered(call, version.metadata, version.location))


def commit_transaction(call: Call) -> Answer:
    """All tables in one publish: a cut, or nothing."""
    check_writable(call)
    changes = []
    for each in call.read(Commits).table_changes:
        if each.identifier is None:
            raise bad_request("every change of a transaction names its table")
        name = named(each.identifier)
        call.need(Role.WRITER, name.namespace)
        changes.append((name, each))
    if not changes:
        raise bad_request("a transaction changes at least one table")
    commits.commit(call.runtime, changes)
    return DONE


def drop_table(call: Call) -> Answer:
    check_writable(call)
    commits.drop(call.runtime, call.name("table"))
    return DONE


def rename_table(call: Call) -> Answer:
    check_writable(call)
    name, new = ends(call)
    _need_namespace_now(call, new.namespace)
    commits.rename(call.runtime, name, new)
    return DONE


def ends(call: Call) -> tuple[TableName, TableName]:
    """What is renamed, and to what."""
    wanted = call.read(Rename)
    name, new = named(wanted.source), named(wanted.destination)
    for each in (name, new):
        call.need(Role.WRITER, each.namespace)
    return name, new


def _need_namespace_now(call: Call, namespace: Namespace) -> None:
    with call.runtime.store.reading() as c:
        if namespace not in known_namespaces(call, Shown(c, None)):
            raise no_namespace(namespace)


WRITING = (
    Route("POST", f"{PREFIXED}/namespaces", Access.ADMIN, create_namespace),
    Route("DELETE", IN_NAMESPACE, Access.ADMIN, drop_namespace, inside=True),
    Route("POST", f"{IN_NAMESPACE}/properties", Access.ADMIN, update_namespace, inside=True),
    Route("POST", f"{IN_NAMESPACE}/tables", Access.WRITE, create_table, inside=True),
    Route("POST", f"{IN_NAMESPACE}/tables/{{table}}", Access.WRITE, commit_table, inside=True),
    Route("DELETE", f"{IN_NAMESPACE}/tables/{{table}}", Access.WRITE, drop_table, inside=True),
    Route("POST", f"{IN_NAMESPACE}/register", Access.ADMIN, register_table, inside=True),
    Route("POST", f"{PREFIXED}/tables/rename", Access.WRITE, rename_table),
    Route("POST", f"{PREFIXED}/transactions/commit", Access.WRITE, commit_transaction),
)

"""ATTACH CATALOG and DETACH CATALOG: catalogs of others, whose tables are read as sources."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from anabranch.catalog import cuts, foreign, streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.cuts import Version
from anabranch.catalog.foreign import Catalog, catalog_of, same
from anabranch.catalog.store import Connection
from anabranch.errors import AlreadyExists, InvalidValue, MissingRight, Refused, UnknownName
from anabranch.lake.attached import Attached, check_type
from anabranch.lake.foreign import connect
from anabranch.names import DEFAULT_SCHEMA, SYSTEM_SCHEMA, TableName, shown
from anabranch.redaction import holds_secret, is_reference, redacted_address
from anabranch.runtime import Runtime
from anabranch.sql.analyze.tables import tables_of

DETACHED = "detached"  # the kind of the cut from which on the tables are not shown any more
_CODE = ("py-catalog-impl", "py-io-impl", "auth")  # properties that name code to be run


def attach(
    runtime: Runtime,
    name: str,
    kind: str,
    properties: Mapping[str, Any],
    *,
    or_replace: bool = False,
    if_not_exists: bool = False,
) -> None:
    """Make the tables of a catalog readable as `name.namespace.table`; it is asked at once whether it
    answers.  Its secrets are references, followed when it is asked and kept nowhere."""
    catalog = declared(name, kind, properties)
    _check_code(runtime, catalog)
    with runtime.store.reading() as c:
        if _is_there(c, catalog, or_replace=or_replace) and if_not_exists:
            return
    _check_new(runtime, catalog, or_replace=or_replace)
    connect(Attached(catalog, runtime.lake.attached.seconds), runtime.lake)
    with runtime.store.writing() as c:
        cuts.hold(c)
        if _is_there(c, catalog, or_replace=or_replace) and if_not_exists:
            return
        foreign.put(c, catalog)
    runtime.lake.attached.read()


def _is_there(c: Connection, catalog: Catalog, *, or_replace: bool) -> bool:
    return catalog.name in foreign.all_catalogs(c) and not or_replace


def _check_new(runtime: Runtime, catalog: Catalog, *, or_replace: bool) -> None:
    """The name is free, and means no schema of ours that holds further ones."""
    with runtime.store.reading() as c:
        if _is_there(c, catalog, or_replace=or_replace):
            raise AlreadyExists(
                f"catalog {shown(catalog.name)} is already attached",
                hint="ATTACH OR REPLACE CATALOG changes it",
            )
        others = foreign.all_tables(c)
        taken = [
            each
            for each in (*cuts.newest(c), *view_rows.all_views(c))
            if catalog_of(each) == catalog.name and each not in others
        ]
    if taken:
        raise Refused(
            f"catalog {shown(catalog.name)} would hide {min(taken)}", hint="choose another name"
        )


def declared(name: str, kind: str, properties: Mapping[str, Any]) -> Catalog:
    """What is to be attached, if it can be: no secret stands in it."""
    if not name or "." in name or name.lower() in (SYSTEM_SCHEMA, DEFAULT_SCHEMA):
        raise InvalidValue(f"{name!r} cannot be the name of a catalog", hint="choose another name")
    texts = {key: _text(value) for key, value in properties.items()}
    for key, value in texts.items():
        if is_reference(value):
            continue
        if holds_secret(key, value) or ("://" in value and redacted_address(value) != value):
            raise InvalidValue(
                f"catalog {shown(name)}: {key} holds a secret, and the catalog keeps none",
                hint="write ENV('NAME') or FILE('path') in its place",
            )
    return Catalog(name, check_type(kind.strip().lower()), texts)


def keep_attached(runtime: Runtime) -> None:
    """What the settings say is attached: without asking, since a catalog may be away for a while.

    One that the settings name no longer stays until it is detached.
    """
    wanted: dict[str, dict[str, str]] = {}
    for key, value in runtime.settings.catalogs.items():
        name, _, rest = key.partition(".")
        wanted.setdefault(name, {})[rest] = value
    found = []
    for name, given in sorted(wanted.items()):
        properties = {key: value for key, value in given.items() if key != "type"}
        if "type" not in given:
            raise InvalidValue(
                f"catalog {shown(name)} has no type", hint=f"set catalogs.{name}.type, such as rest"
            )
        found.append(declared(name, given["type"], properties))
    with runtime.store.reading() as c:
        known = foreign.all_catalogs(c)
    changed = [each for each in found if not same(each, known.get(each.name))]
    if not changed:
        return
    for each in changed:
        _check_code(runtime, each)
        _check_new(runtime, each, or_replace=True)
    with suppress(MissingRight), runtime.store.writing() as c:
        cuts.hold(c)
        for each in changed:
            foreign.put(c, each)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_code(runtime: Runtime, catalog: Catalog) -> None:
    for key in catalog.properties:
        if key.split(".")[0] in _CODE and not runtime.settings.allow_external_code:
            raise Refused(
                f"catalog {shown(catalog.name)}: {key} names code that would be run here",
                hint="leave it out, or let the operator set allow_external_code",
            )


def detach(runtime: Runtime, name: str, *, if_exists: bool = False) -> None:
    """Forget a catalog; refused while a stream table or view reads one of its tables."""
    with runtime.store.writing() as c:
        cuts.hold(c)
        known = foreign.all_catalogs(c)
        if name not in known:
            if if_exists:
                return
            raise UnknownName(f"there is no catalog {shown(name)}", name=name, known=list(known))
        if readers := _readers(c, name):
            raise Refused(
                f"catalog {shown(name)} is read by {', '.join(map(str, readers))}",
                hint="drop those, or change their queries first",
            )
        tables = [each for each in foreign.all_tables(c).values() if catalog_of(each.name) == name]
        there = [each for each in tables if each.metadata_location is not None]
        if there:
            cut_id = cuts.advance(c)
            cuts.add(c, cut_id, DETACHED, [Version(each.name, None) for each in there])
        foreign.remove(c, name)
    runtime.lake.attached.read()


def _readers(c: Connection, catalog: str) -> list[TableName]:
    """Stream tables and views that read a table of the catalog."""
    found = {
        reader
        for reader, read in streams.whole_graph(c).dependencies.items()
        if any(catalog_of(each) == catalog for each in read)
    }
    found |= {
        view
        for view, text in view_rows.all_views(c).items()
        if any(catalog_of(each) == catalog for each in tables_of(text))
    }
    return sorted(found)

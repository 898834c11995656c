"""The staged objects as they will be in production: the same rows under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anabranch.catalog.definitions import Renaming
from anabranch.cut_view import CutView
from anabranch.deploy.build import declaration, view_query
from anabranch.deploy.snapshot import Snapshot
from anabranch.deploy.staging import Staging
from anabranch.deploy.stand_ins import altered_versions
from anabranch.names import TableName
from anabranch.refresh.cycles import cyclic_components
from anabranch.refresh.observe import CatalogState, view_mark
from anabranch.refresh.publish_sets import world_of
from anabranch.refresh.verify import defined
from anabranch.runtime import Runtime

Fingerprints = dict[TableName, tuple[str, str]]  # in production: as staged, and as it will be


def world_after(
    runtime: Runtime, seen: CatalogState, staging: Staging, snapshot: Snapshot
) -> CutView:
    """The world as a promote would leave it."""
    moved = {
        production: seen.pointers[staged]
        for staged, production in staging.names.items()
        if staged in seen.pointers
    }
    views = {name: text for name, text in seen.views.items() if name not in moved}
    pointers = {**seen.pointers, **moved}
    for name, text in production_views(staging, snapshot).items():
        views[name] = text
        pointers.pop(name, None)
    instead = altered_versions(runtime, seen, staging, snapshot)
    return replace(world_of(runtime, seen), pointers=pointers, views=views, instead=instead)


def production_views(staging: Staging, snapshot: Snapshot) -> dict[TableName, str]:
    return {
        key.table: view_query(snapshot.objects[key])
        for key in sorted(staging.keys)
        if snapshot.objects[key].kind == "view"
    }


def fingerprints(
    runtime: Runtime,
    seen: CatalogState,
    staging: Staging,
    snapshot: Snapshot,
    known: Mapping[TableName, tuple[str, str]] | None = None,
) -> Fingerprints:
    """What the queries mean under the names of production; known ones hold while the staged ones do.

    With the right fingerprint the next refresh goes on from changes, as if the table had always
    been there.
    """
    world = world_after(runtime, seen, staging, snapshot)
    names = staging.names
    moved = [
        frozenset(names.get(each, each) for each in component)
        for component in cyclic_components(seen.reads)
    ]
    home = {name: component for component in moved for name in component}
    found: Fingerprints = {}
    for key in sorted(staging.keys):
        stream = seen.streams.get(staging.name(key))
        if stream is None:
            continue
        name = key.table
        before = (known or {}).get(name)
        if before is not None and before[0] == stream.fingerprint:
            found[name] = before
        else:
            query = declaration(snapshot.objects[key], runtime.settings).query
            there = replace(stream, name=key.table, query=query)
            component = home.get(key.table)
            found[name] = stream.fingerprint, defined(world, there, component).fingerprint
    return found


def renaming(
    runtime: Runtime, seen: CatalogState, staging: Staging, snapshot: Snapshot, known: Fingerprints
) -> Renaming:
    """How the rows of the staged objects become those of production."""
    texts = production_views(staging, snapshot)
    streams: dict[str, dict[str, Any]] = {}
    for key in staging.keys:
        each = snapshot.objects[key]
        if each.kind == "stream table":
            declared = declaration(each, runtime.settings)
            streams[str(key.table)] = {
                "query": declared.query,
                "fingerprint": known[key.table][1],
                "diamond_consistency": declared.diamond_consistency,
                "cluster": declared.cluster,
            }
    return Renaming(
        names={str(staged): str(name) for staged, name in staging.names.items()},
        streams=streams,
        views={str(name): text for name, text in texts.items()},
        gone=frozenset(map(str, staging.stand_ins)),
        marks={
            view_mark(seen.views[staging.name(key)]): view_mark(texts[key.table])
            for key in staging.keys
            if key.table in texts and staging.name(key) in seen.views
        },
    )

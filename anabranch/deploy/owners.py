"""Whose objects are whose: a project plans only over its own, and what others own is left alone.

Objects are recorded under the name of their project.  Older catalogs have records under the name of a
folder, which is no identity: two repositories may be checked out under one name.  Such a record is the
project's own if it has the project's name and the project still has the object; before the project may
drop it, or take it over from a folder of another name, somebody must say so with `claim`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.catalog import cuts, deployments
from anabranch.catalog.deployments import OPEN, Key, Owner
from anabranch.catalog.store import Connection
from anabranch.deploy.record import cluster_of, object_of
from anabranch.deploy.snapshot import ObjectKey, Snapshot, SnapshotObject
from anabranch.deploy.source_tables import changes
from anabranch.errors import Refused
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime


@dataclass(frozen=True)
class Owned:
    """`snapshot`: what the project has deployed; `others`: objects of other projects, and whose."""

    snapshot: Snapshot
    others: Mapping[ObjectKey, Owner] = field(hash=False)


def owned(c: Connection, project: str, wanted: Snapshot) -> Owned:
    """What is deployed, told apart by owner; refuses what the project may not touch."""
    owners = deployments.owners(c)
    objects, clusters = {}, {}
    others: dict[ObjectKey, Owner] = {}
    for key, _, record in deployments.deployed(c):
        owner, named = owners[key], ObjectKey(*key)
        if not key[0]:
            if owner.project == project:
                clusters[key[2]] = cluster_of(key[2], record)
            elif key[2] in wanted.clusters:
                clusters[key[2]] = wanted.clusters[key[2]]
                refuse_other_cluster(key[2], owner, record, wanted)
        elif owner.project != project:
            others[named] = owner
        elif owner.named or named in wanted.objects:
            objects[named] = object_of(named, record)
        else:
            raise Refused(
                f"{named} was deployed from a folder {owner.project}, before projects had names",
                hint=f"if that was this project, `anabranch claim {owner.project}`; "
                f'otherwise give the project another name in anabranch.toml than "{project}"',
            )
    return Owned(Snapshot(objects, clusters), others)


def refuse_other_cluster(
    name: str, owner: Owner, record: Mapping[str, Any], wanted: Snapshot
) -> None:
    """Projects may share a cluster while they say the same of it."""
    if record["hash"] != wanted.clusters[name].hash:
        raise Refused(
            f"cluster {name} belongs to project {owner.project}, which defines it differently",
            hint="use another name for the cluster, or define it in the same way",
        )


def without_others(
    runtime: Runtime, seen: CatalogState, wanted: Snapshot, others: Mapping[ObjectKey, Owner]
) -> Snapshot:
    """The project without the tables of other projects, which it may declare in order to read them."""
    for key, each in sorted(wanted.objects.items()):
        if key in others and not only_read(runtime, seen, each):
            raise not_ours(key, others[key])
    return replace(
        wanted, objects={key: each for key, each in wanted.objects.items() if key not in others}
    )


def without_made_by_hand(
    runtime: Runtime, seen: CatalogState, wanted: Snapshot, mine: Owned
) -> Snapshot:
    """Likewise without stream tables that nobody deployed: no empty source table may replace one."""
    objects = dict(wanted.objects)
    for key, each in sorted(wanted.objects.items()):
        there = key.table in seen.streams or key.table in seen.views
        if not there or each.kind != "table" or key in {**mine.snapshot.objects, **mine.others}:
            continue
        kind = "stream table" if key.table in seen.streams else "view"
        if kind == "view" or not only_read(runtime, seen, each):
            declared = "with exactly its columns" if kind == "stream table" else "as a view"
            raise Refused(
                f"{key} is a {kind} that was made by hand, and would be replaced by an empty "
                "source table",
                hint=f"to read it, declare it {declared}; to replace it, DROP {kind.upper()} {key} "
                "first",
            )
        del objects[key]
    return replace(wanted, objects=objects)


def only_read(runtime: Runtime, seen: CatalogState, each: SnapshotObject) -> bool:
    """Does the file declare a table just as it is?"""
    location = seen.pointers.get(each.key.table)
    if each.kind != "table" or each.indexes or location is None:
        return False
    stored = runtime.lake.version(each.key.table, location)
    try:
        return not changes(each, stored.columns)
    except Refused:
        return False


def not_ours(key: ObjectKey, owner: Owner) -> Refused:
    if not owner.named:
        return Refused(
            f"{key} was deployed from a folder {owner.project}, before projects had names",
            hint=f"if that was this project, `anabranch claim {owner.project}`; "
            "otherwise use another name for it",
        )
    return Refused(
        f"{key} belongs to project {owner.project}",
        hint="to read it, declare it as a source table with exactly its columns; "
        "to define it here, use another name",
    )


def check_owner(c: Connection, project: str, keys: Iterable[Key]) -> None:
    """In the publish: nobody else has deployed an object of this name meanwhile."""
    owners = deployments.owners(c)
    for key in keys:
        owner = owners.get(key)
        if owner is not None and owner.project != project and key[0]:
            raise not_ours(ObjectKey(*key), owner)


def claim(runtime: Runtime, project: str, former: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Everything that was deployed under another name becomes the project's, on its word."""
    with runtime.store.writing() as c:
        cuts.hold(c)  # a promote looks in its publish whose the objects are
        mine = Owner(project, named=True)
        keys = [
            key
            for key, owner in deployments.owners(c).items()
            if owner.project == former and owner != mine
        ]
        if not keys:
            raise Refused(
                f"nothing deployed under the name {former} is left to claim",
                hint="`anabranch deployments` lists the projects",
            )
        for each in deployments.listing(c):
            if each.project == former != project and each.status in OPEN:
                raise Refused(
                    f"deployment {each.id} of {former} is open",
                    hint=f"`anabranch promote {each.id}` or `anabranch abort {each.id}` first",
                )
        if not dry_run:
            deployments.set_owner(c, keys, project)
            deployments.rename_project(c, former, project)
    objects = sorted(str(ObjectKey(*key)) for key in keys if key[0])
    clusters = sorted(key[2] for key in keys if not key[0])
    return {"project": project, "from": former, "objects": objects, "clusters": clusters}

"""Projects drawn by hand: `draw("shop.a", "shop.b < shop.a")`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.deploy.canonical import hash_of, object_hash
from anabranch.deploy.snapshot import (
    ClusterFact,
    IndexFact,
    ObjectKey,
    ObjectKind,
    Snapshot,
    SnapshotObject,
)


def key(text: str) -> ObjectKey:
    """`a` is db.public.a, `s.a` is db.s.a."""
    parts = text.split(".")
    return ObjectKey(*(("db", "public")[: 3 - len(parts)]), *parts)


def thing(
    name: str,
    reads: Iterable[str] = (),
    *,
    kind: ObjectKind = "stream table",
    text: str = "SELECT 1",
    cluster: str | None = None,
    indexes: Mapping[str, str | None] | None = None,
    metadata: str = "",
) -> SnapshotObject:
    facts = tuple(IndexFact(i, c, f"({i})") for i, c in (indexes or {}).items())
    home = f" IN CLUSTER `{cluster}`" if cluster else ""
    form = f"{kind.upper()}{home} AS {text}"
    return SnapshotObject(
        key=key(name),
        kind=kind,
        hash=object_hash(form, facts),
        canonical=form,
        cluster=cluster,
        indexes=facts,
        reads=frozenset(map(key, reads)),
        metadata=metadata,
        sql=f"CREATE {form}",
        query=text,
    )


def project(*things: SnapshotObject, clusters: Mapping[str, str] | None = None) -> Snapshot:
    return Snapshot(
        {each.key: each for each in things},
        {name: ClusterFact(name, hash_of(text), text) for name, text in (clusters or {}).items()},
    )


def edited(snapshot: Snapshot, *names: str, text: str = "SELECT 2") -> Snapshot:
    """The project with other statements for some objects."""
    objects = dict(snapshot.objects)
    for name in names:
        before = objects[key(name)]
        form = before.canonical.replace(before.query, text)
        objects[key(name)] = replace(
            before,
            canonical=form,
            hash=object_hash(form, before.indexes),
            sql=f"CREATE {form}",
            query=text,
        )
    return replace(snapshot, objects=objects)


def without(snapshot: Snapshot, *names: str) -> Snapshot:
    gone = set(map(key, names))
    return replace(
        snapshot, objects={k: each for k, each in snapshot.objects.items() if k not in gone}
    )

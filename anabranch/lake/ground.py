"""What catalog and warehouse stand on: whether it keeps what it has acknowledged, as far as it tells.

PostgreSQL says by its settings whether a power cut takes commits or tears pages, and a local path by
its file system: memory keeps nothing, and over a network locks and syncs are the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from anabranch.catalog.store import Store
from anabranch.lake.places import Warehouse, local_path

MOUNTS = Path("/proc/self/mountinfo")
# What a power cut of the server does with each switched off.
_SWITCHES = {
    "fsync": "it can destroy the whole catalog",
    "synchronous_commit": "it can lose the last commits, although they were acknowledged",
    "full_page_writes": "it can leave torn pages, and wrong rows in the catalog",
}
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY(:names) AND setting = 'off'"
_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
_NETWORK = re.compile(
    r"(?:nfs\d?|cifs|smb\d?|smbfs|smbnetfs|9p|afs|ceph|glusterfs|lustre|gpfs|beegfs|ocfs2|gfs2|davfs"
    r"|fuse\.(?:sshfs|s3fs|gcsfuse|rclone|goofys|glusterfs|ceph-fuse|davfs2?|mountpoint-s3|juicefs"
    r"|blobfuse2?))\Z"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Weakness:
    """Why what is acknowledged may be lost, and what to do."""

    where: str
    detail: str
    cure: str

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}; {self.cure}"


def weaknesses(store: Store, warehouse: Warehouse) -> list[Weakness]:
    """Nothing where the operator has said by `fsync = false` that rows may be lost."""
    if not store.fsync:
        return []
    found = list(_of_server(store) if not store.is_sqlite else _of_catalog(store))
    place = local_path(warehouse.location)
    return found + [each for each in _of_folder("warehouse", place) if each not in found]


def _of_server(store: Store) -> Iterator[Weakness]:
    with store.reading() as c:
        rows = c.execute(text(_SETTINGS), {"names": list(_SWITCHES)}).all()
    for name, setting in sorted(rows):
        yield Weakness(
            f"catalog {store.shown}",
            f"{name} = {setting} on the server: after a power cut {_SWITCHES[name]}",
            f"set {name} = on there, for this database and user as well",
        )


def _of_catalog(store: Store) -> Iterator[Weakness]:
    place, kind = store.url.database or "", file_system(store.url.database or "")
    if is_on_network(store):
        yield Weakness(
            f"catalog {place}",
            f"SQLite does not work over a network file system ({kind}): two hosts damage the catalog",
            "move the home to a local disk, or use a PostgreSQL catalog",
        )
    else:
        yield from _of_folder("catalog", place)


def _of_folder(what: str, place: str | None) -> Iterator[Weakness]:
    kind = file_system(place) if place is not None else None
    if kind in _MEMORY:
        yield Weakness(
            f"{what} {place}",
            f"it is in memory ({kind}): a restart of the machine loses everything",
            "move it to a disk; if rows may be lost, set fsync = false",
        )
    elif kind is not None and _NETWORK.match(kind):
        yield Weakness(
            f"{what} {place}",
            f"it is on a network file system ({kind}), which may not honour fsync",
            "let the server write synchronously (NFS: the option sync of the export)",
        )


def is_on_network(store: Store) -> bool:
    """Whether processes of several machines can open the catalog though it is SQLite's."""
    kind = file_system(store.url.database or "") if store.is_sqlite else None
    return kind is not None and bool(_NETWORK.match(kind))


def file_system(place: str) -> str | None:
    """The kind of file system that holds a path; None where the system does not tell."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        path = Path(place).resolve()
    except OSError:
        return None
    best: tuple[int, str] | None = None
    for line in lines:  # of two on one folder the later one counts
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4]))
        if path.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = len(point.parts), after.split()[0]
    return best[1] if best else None

"""backup: one cut of everything, and all that is kept of older ones, in a folder elsewhere."""

from __future__ import annotations

from typing import Any

from anabranch.catalog import cuts, deployments
from anabranch.catalog.rows import dump
from anabranch.errors import Refused
from anabranch.lake.archive import Archive, Sums
from anabranch.lake.collect import references
from anabranch.lake.observe import observe
from anabranch.runtime import Runtime


def backup(runtime: Runtime, place: str) -> dict[str, Any]:
    """Copy the catalog's rows and every file that they need; files copied before are not again.

    Writers go on meanwhile: the rows are read in one transaction, and no file is deleted until the end.
    """
    lake = runtime.lake
    archive = Archive(place, fsync=lake.warehouse.fsync)
    if f"{archive.location}/".startswith(f"{lake.warehouse.location}/"):
        raise Refused("a backup cannot lie in the warehouse", hint="choose another folder")
    lake.fence.refuse_copies()
    with runtime.store.reading() as c:
        newest = cuts.current(c)
    with runtime.leases.hold_cut(newest, runtime.settings.lease_time, all_files=True) as lease:
        if lease is None:
            raise Refused(f"cut {newest} is not recorded any more", hint="run it again")
        observe(lake)
        archive.claim(lake.warehouse.catalog_uuid)
        known: Sums = {}
        for record in archive.records():
            known.update(record.files)
        with runtime.store.reading() as c:
            cut_id, rows, catalog = cuts.current(c), dump(c), lake.warehouse.catalog_uuid
            pointers = lake.pointers(c)
            versions = [
                (each.name, each.metadata_location)
                for each in cuts.known_versions(c)
                if each.metadata_location is not None
            ]
            kept = deployments.kept_locations(c)
        top = lake.warehouse.location + "/"
        broken: set[str] = set()
        named = sorted(set(references(lake, pointers, versions, kept, broken)))
        if broken:
            raise Refused(
                f"files in {min(broken)} are missing or damaged: no backup was made",
                hint="`anabranch check` says what mends them",
            )
        inside = [path.removeprefix(top) for path in named if path.startswith(top)]
        runtime.progress("copying", {"files": len(inside)})
        sums = archive.add_files(lake.warehouse, inside, known)
        runtime.leases.check_cut(lease)
        archive.add_record(cut_id, catalog, lake.warehouse.location, rows, sums)
    new = [path for path in sums if known.get(path) != sums[path]]
    return {
        "destination": archive.location,
        "cut_id": cut_id,
        "files": len(sums),
        "bytes": sum(size for size, _ in sums.values()),
        "files_copied": len(new),
        "bytes_copied": sum(sums[path][0] for path in new),
        "outside": sorted(path for path in named if not path.startswith(top)),
    }

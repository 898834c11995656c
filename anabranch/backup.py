"""backup: one cut of everything, and all that is kept of older ones, in a folder elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from anabranch.catalog import cuts
from anabranch.catalog.rewind import cuts_with
from anabranch.catalog.rows import dump
from anabranch.errors import Refused
from anabranch.lake.archive import Archive, Sums
from anabranch.lake.holdings import Needs
from anabranch.lake.observe import observe
from anabranch.redaction import redacted_address
from anabranch.runtime import Runtime

log = logging.getLogger("anabranch")


def backup(runtime: Runtime, place: str, *, verify: bool = False) -> dict[str, Any]:
    """Copy the catalog's rows and every file that they need; files copied before are not again.

    Writers go on meanwhile: the rows are read in one transaction, and no file is deleted until the end.
    Older cuts of which a file cannot be read any more are left out.  `verify` compares what was
    copied before with its checksums, and copies what is not as it was again.
    """
    lake = runtime.lake
    archive = Archive(place, fsync=lake.warehouse.fsync)
    if f"{archive.location}/".startswith(f"{lake.warehouse.location}/"):
        raise Refused("a backup cannot be inside the warehouse", hint="choose another folder")
    lake.fence.refuse_copies()
    runtime.store.refuse_damaged()
    with runtime.store.reading() as c:
        newest = cuts.current(c)
    with runtime.leases.hold_cut(newest, runtime.settings.lease_time, all_files=True) as lease:
        if lease is None:
            raise Refused(f"cut {newest} is no longer recorded", hint="run it again")
        observe(lake)
        archive.claim(lake.warehouse.catalog_uuid)
        known: Sums = {}
        records, broken = archive.records()
        if verify:
            broken += archive.broken_rows(records)
        for record in records:
            known.update(record.files)
        with runtime.store.reading() as c:
            cut_id, rows, catalog = cuts.current(c), dump(c), lake.warehouse.catalog_uuid
            pointers = lake.pointers(c)
        needs = Needs(lake, pointers, rows)
        top = lake.warehouse.location + "/"
        named = sorted(needs.holdings.named - needs.holdings.unreadable)
        inside = [path.removeprefix(top) for path in named if path.startswith(top)]
        runtime.progress("copying", {"files": len(inside)})
        added = archive.add_files(lake.warehouse, inside, known, verify)
        sums = added.sums
        lost = needs.lost(top + path for path in added.unreadable)
        damaged = needs.damaged({top + path for path in added.copied})
        left_out = cuts_with(rows, lost)
        runtime.leases.check_cut(lease)
        missing = sorted(needs.holdings.unreadable)
        archive.add_record(cut_id, catalog, lake.warehouse.location, rows, sums, missing, left_out)
    if left_out:
        log.warning("%s", _said(left_out))
    for path in broken:
        log.warning("an older backup cannot be restored, because it is damaged: %s", path)
    # files never change: one that is not what was copied before is damaged
    damaged |= {top + path for path in added.copied if known.get(path, sums[path]) != sums[path]}
    if damaged:
        log.warning(
            "damaged, and so in the backup: %s%s; `anabranch check --deep --repair` repairs it",
            min(damaged),
            f" and {len(damaged) - 1} other files" if len(damaged) > 1 else "",
        )
    return {
        "destination": redacted_address(archive.location),
        "cut_id": cut_id,
        "files": len(sums),
        "bytes": sum(size for size, _ in sums.values()),
        "files_copied": len(added.copied),
        "bytes_copied": sum(sums[path][0] for path in added.copied),
        "outside": sorted(path for path in named if not path.startswith(top)),
        "cuts_left_out": sorted(left_out),
        "missing": missing,
        "damaged": sorted(damaged),
        "damaged_backups": sorted(broken),
    }


def _said(left_out: Mapping[int, str]) -> str:
    few = [str(each) for each in sorted(left_out)]
    shown = few if len(few) < 6 else [*few[:5], "…"]
    path = left_out[min(left_out)]
    return (
        f"not in the backup: {'cut' if len(few) == 1 else 'cuts'} {', '.join(shown)}, "
        f"because {path} cannot be read"
    )

"""A restore that fails leaves its place as empty as it was."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from anabranch.catalog import cuts
from anabranch.catalog import rows as catalog_rows
from anabranch.catalog.rows import Row
from anabranch.catalog.store import Connection
from anabranch.lake.lake import Lake

log = logging.getLogger("anabranch")
KIND = "restore"  # of the cut that a restore publishes
_ASIDE = re.compile(r"\.[0-9a-f]{32}\Z")  # a file that was about to take its place


@dataclass
class Undo:
    """What was written: files, and rows in place of those `before`."""

    files: set[str] = field(default_factory=set)
    before: dict[str, list[Row]] | None = None
    cut: int = 0


@contextmanager
def undone_if_it_fails(lake: Lake, paths: Iterable[str]) -> Iterator[Undo]:
    """`paths` in the warehouse are written inside; the place was empty."""
    top = lake.warehouse.location
    had_top = lake.warehouse.is_folder(top)
    undo = Undo({f"{top}/{path}" for path in paths})
    try:
        yield undo
    except BaseException:
        try:
            _take_back(lake, undo, had_top)
        except Exception as error:
            log.warning("files that a failed restore wrote in %s remain: %s", top, error)
        raise


def _take_back(lake: Lake, undo: Undo, had_top: bool) -> None:
    """Rows first: a catalog must not name files that are gone."""
    with lake.store.writing() as c:
        cuts.hold(c)
        if not catalog_rows.is_empty(c):
            if undo.before is None or _others_were_here(c, undo.cut):
                return
            undo.files |= {*lake.pointers(c).values()}
            catalog_rows.put_back(c, undo.before)
    top = lake.warehouse.location
    for location in lake.warehouse.listing(top):
        if location in undo.files or _ASIDE.sub("", location) in undo.files:
            lake.warehouse.delete(location, own=True)
    inside = {each[len(top) + 1 :].partition("/")[0] for each in undo.files}
    for folder in (*inside, *([] if had_top else [""])):
        lake.warehouse.delete_empty_folders(f"{top}/{folder}".rstrip("/"))


def _others_were_here(c: Connection, restored: int) -> bool:
    return any(row["cut_id"] > restored and row["kind"] != KIND for row in cuts.listing(c))

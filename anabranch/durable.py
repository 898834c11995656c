"""Durability: a power cut takes nothing away that a pointer in the catalog names.

A file survives when it was synced, and is found again when its folder was: PostgreSQL's and SQLite's
rule.  Object stores acknowledge nothing before it is durable, so only local folders need this.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# A journaling file system writes the syncs that wait for it together, so waiting side by side costs
# little more than waiting once.
SIDE_BY_SIDE = 16


def sync(paths: Collection[str], top: str) -> None:
    """Make files and the folders that lead to them from `top` durable."""
    folders = _folders(paths, top)
    workers = min(SIDE_BY_SIDE, len(paths))
    if workers < 2:
        sync_each([*paths, *folders])
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="sync") as pool:
        list(pool.map(_sync, paths))
        list(pool.map(_sync, folders))


def sync_each(paths: Iterable[str | Path]) -> None:
    """Make files or folders durable, one after the other."""
    for path in paths:
        _sync(path)


def sync_entry(folder: Path) -> None:
    """Make the entry of a new folder in the one that holds it durable, as far as this user may."""
    try:
        _sync(folder.parent)
    except OSError as error:
        # who may not list a folder cannot open it, and some file systems sync no folders
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL):
            raise


def _folders(paths: Iterable[str], top: str) -> list[str]:
    """The folders of some files, up to the top and the folder that holds it; what is deeper first."""
    end = Path(top).parent
    folders = {path.rpartition("/")[0] for path in paths}
    above = {
        each for folder in folders for each in Path(folder).parents if each.is_relative_to(end)
    }
    return sorted(folders | {str(each) for each in above}, reverse=True)


def _sync(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        _flush(handle)
    finally:
        os.close(handle)


if sys.platform == "darwin":
    import fcntl

    def _flush(handle: int) -> None:
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync there leaves rows in the drive's cache
else:
    _flush = os.fsync

"""Whose file is lost, which decides what a refresh that needed it may do.

A table's own stored rows can be computed again, and nothing else mends them.  A file of a source as it
is now is needed whatever is done.  One of a source as it was, or of its changes since, is needed only
by a refresh from changes: who must not be recomputed is refused, as when the snapshot has expired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from anabranch.cut_view import CutView
from anabranch.errors import AnabranchError, FileMissing
from anabranch.lake.damage import damages
from anabranch.lake.manifests import manifests
from anabranch.lake.places import same_form
from anabranch.lake.version import TableVersion
from anabranch.names import TableName


class Part(Enum):
    OWN = "of a table that is refreshed: its rows, its deletes, its changes, its metadata"
    NOW = "of a source as it is"
    EARLIER = "of a source as it was, or of its changes since"
    UNKNOWN = "of none of them, as far as can be told"


@dataclass(frozen=True)
class Whose:
    part: Part
    table: TableName | None = None


def whose(
    world: CutView,
    pointers: Mapping[TableName, str],
    members: Collection[TableName],
    sources: Iterable[TableName],
    error: FileMissing,
) -> Whose:
    """`pointers` are those that the refresh began with: `world` may show what it has staged since."""
    own = {name: pointers[name] for name in members if name in pointers}
    path = error.path
    if path is not None:
        for name, location in own.items():
            if _lies_in(path, _folder(location)):
                return Whose(Part.OWN, name)
        found = _of_source(world, pointers, sources, path)
        if found is not None:
            return found
    # Who reported it does not know the file, or knows it by a path that tells nothing: look.
    for name, location in own.items():
        if any(each.current for each in damages(world.lake, name, location, deep=True)):
            return Whose(Part.OWN, name)
    return Whose(Part.UNKNOWN)


def _of_source(
    world: CutView, pointers: Mapping[TableName, str], sources: Iterable[TableName], path: str
) -> Whose | None:
    earlier = None
    for name in sorted(sources):
        folders = [_folder(pointers[name])] if name in pointers else []
        try:
            version = world.version(name)
            files = _files(version)
        except FileMissing as broken:  # it cannot be read as it is
            files = {broken.path} if broken.path is not None else set()
        except (
            AnabranchError
        ):  # dropped meanwhile, or not there to be asked: that is not the question
            files = set()
        else:
            folders.append(version.root)
        if any(same_form(path, each.rpartition("/")[0]) == each for each in files):
            return Whose(Part.NOW, name)
        if any(_lies_in(path, folder) for folder in folders):
            earlier = earlier or Whose(Part.EARLIER, name)
    return earlier


def _files(version: TableVersion) -> set[str]:
    """All that is read for the rows of a table as it is."""
    snapshot = version.snapshot(version.snapshot_id)
    if snapshot is None:
        return {version.location}
    state = version.state(snapshot.snapshot_id)
    lists = {each.manifest_path for each in manifests(version.io, snapshot)}
    rows = {each.data_file.file_path for each in (*state.data, *state.deletes.entries)}
    return {version.location, snapshot.manifest_list, *lists, *rows}


def _folder(location: str) -> str:
    """A table's folder, by its metadata file, which need not be readable."""
    return location.rpartition("/")[0].rpartition("/")[0]


def _lies_in(path: str, folder: str) -> bool:
    return same_form(path, folder).startswith(folder + "/")

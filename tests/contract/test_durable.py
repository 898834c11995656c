"""What a publish names was synced before it commits: files first, then the folders that lead there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from anabranch import durable, failpoints
from anabranch.catalog.store import Store
from anabranch.errors import Unreachable
from anabranch.lake.archive import Archive
from anabranch.lake.places import Warehouse, local_path
from anabranch.names import TableName
from anabranch.places import create_folder
from anabranch.settings import Settings
from tests.contract.world import World

PAIR = (TableName.of("shop", "one"), TableName.of("shop", "two"))


@pytest.fixture
def synced(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files and folders that were synced, in order."""
    found: list[Path] = []

    def noted(path: str | Path) -> None:
        assert Path(path).exists()
        found.append(Path(path))

    monkeypatch.setattr(durable, "_sync", noted)
    monkeypatch.setattr(world.lake.warehouse, "fsync", True)
    return found


def test_all_files_of_a_publish_are_synced_before_it_commits(
    world: World, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(files(world))
    at_commit: list[Path] = []

    def hook(step: str) -> None:
        if step == failpoints.IN_TRANSACTION:
            at_commit.extend(synced)

    monkeypatch.setattr(failpoints, "hook", hook)
    for name in PAIR:
        world.create(name)
    world.append([(1, "eu")], PAIR[0])
    new = set(files(world)) - before
    assert {path.suffix for path in new} >= {".parquet", ".avro", ".json"}
    assert new <= set(at_commit)
    top = Path(str(local_path(world.lake.warehouse.location)))
    for path in new:
        folders = [each for each in path.parents if each.is_relative_to(top.parent)]
        assert folders
        first = at_commit.index(path)
        assert all(folder in at_commit[first:] for folder in folders)


def test_a_disk_that_cannot_sync_publishes_nothing(
    world: World, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pointers = world.lake.pointers()

    def fails(path: str | Path) -> None:
        raise OSError(5, os.strerror(5), str(path))

    monkeypatch.setattr(durable, "_sync", fails)
    with pytest.raises(Exception, match="Input/output error"):
        world.create(PAIR[0])
    assert world.lake.pointers() == pointers


# -- new folders ----------------------------------------------------------------------------------


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found: list[Path] = []
    monkeypatch.setattr(durable, "_sync", lambda path: found.append(Path(path)))
    return found


def made(kind: str, at: Path, *, fsync: bool) -> None:
    """What makes a folder of its own for rows that are to stay."""
    if kind == "home":
        settings = Settings.load({"home": str(at)}, fsync=fsync)
        settings.create_home()
        Store.open(settings.catalog, fsync=settings.fsync).close()
    elif kind == "warehouse":
        Warehouse(at, "", fsync=fsync).put("mark", b"x", replace=False)
    else:
        Archive(str(at), fsync=fsync).claim("some-catalog")


@pytest.mark.parametrize("kind", ["home", "warehouse", "backup"])
@pytest.mark.parametrize("there", ["", "a", "a/b", "a/b/c"])
def test_every_new_folder_is_found_again(
    tmp_path: Path, noted: list[Path], kind: str, there: str
) -> None:
    """Its entry lies in the folder that holds it, up to the first folder that was there before."""
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    at = tmp_path / "a" / "b" / "c"
    made(kind, at, fsync=True)
    first = tmp_path / there  # the deepest that was there
    new = [each for each in (at, *at.parents) if first in each.parents]
    expected = [each.parent for each in reversed(new)]
    assert [each for each in noted if each in expected][: len(new)] == expected, "from above"
    assert at in noted, "and so are the files in it"
    assert first == at or first.parent not in noted


@pytest.mark.parametrize("kind", ["home", "warehouse", "backup"])
def test_without_fsync_nothing_is_synced(tmp_path: Path, noted: list[Path], kind: str) -> None:
    made(kind, tmp_path / "a" / "b", fsync=False)
    assert not noted


def test_a_folder_that_may_not_be_opened_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(path: str | Path) -> None:
        raise OSError(reason, os.strerror(reason), str(path))

    monkeypatch.setattr(durable, "_sync", sync)
    for reason in (errno.EACCES, errno.EINVAL):
        create_folder(tmp_path / str(reason), fsync=True)
    reason = errno.EIO
    with pytest.raises(Unreachable, match="Input/output error"):
        create_folder(tmp_path / "lost", fsync=True)


def files(world: World) -> list[Path]:
    return [path for path in Path(world.warehouse).rglob("*") if path.is_file()]

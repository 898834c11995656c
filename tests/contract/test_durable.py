"""What a publish names was synced before it commits: files first, then the folders that lead there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.lake import durable
from anabranch.lake.places import local_path
from anabranch.names import TableName
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


def files(world: World) -> list[Path]:
    return [path for path in Path(world.warehouse).rglob("*") if path.is_file()]

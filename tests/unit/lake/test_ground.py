"""What catalog and warehouse stand on is looked at when they are opened, and by `check`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.catalog.store import Store
from anabranch.lake import ground
from anabranch.lake.ground import file_system, weaknesses
from anabranch.lake.places import Warehouse
from tests.standin.engine import connect, installed

Mount = Callable[[str, str], None]


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mount:
    """Has folders on other file systems; all else is on a disk."""
    table = tmp_path / "mountinfo"
    table.write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr(ground, "MOUNTS", table)
    monkeypatch.setenv("ANABRANCH_FSYNC", "true")

    def at(place: str, kind: str) -> None:
        place = place.replace(" ", "\\040")
        with table.open("a") as out:
            out.write(f"2 1 0:5 / {place} rw,relatime shared:7 - {kind} from rw\n")

    return at


def found(folder: Path, *, fsync: bool = True) -> list[str]:
    store = Store.open(folder / "catalog.db", fsync=fsync)
    try:
        return [str(each) for each in weaknesses(store, Warehouse(folder / "warehouse", ""))]
    finally:
        store.close()


def test_a_disk_is_sound(mount: Mount, tmp_path: Path) -> None:
    assert found(tmp_path) == []


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_memory_keeps_nothing(mount: Mount, tmp_path: Path, kind: str) -> None:
    mount(str(tmp_path), kind)
    catalog, warehouse = found(tmp_path)
    for said, what in ((catalog, "catalog"), (warehouse, "warehouse")):
        assert said.startswith(f"{what} {tmp_path}") and f"it is in memory ({kind})" in said
        assert "fsync = false" in said
    assert found(tmp_path, fsync=False) == [], "the operator has said that rows may be lost"


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "smb3", "fuse.sshfs", "9p", "ceph"])
def test_sqlite_does_not_work_over_a_network(mount: Mount, tmp_path: Path, kind: str) -> None:
    mount(str(tmp_path), kind)
    catalog, warehouse = found(tmp_path)
    assert "SQLite does not work over a network file system" in catalog and "PostgreSQL" in catalog
    assert "may not honour fsync" in warehouse


def test_the_nearest_and_the_last_mount_counts(mount: Mount, tmp_path: Path) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()
    mount(str(tmp_path), "nfs4")
    mount(str(folder), "tmpfs")
    mount(str(folder), "xfs")
    assert file_system(str(folder / "a" / "b")) == "xfs"
    assert file_system(f"{folder}er") == "nfs4"
    (tmp_path / "link").symlink_to(folder)
    assert file_system(str(tmp_path / "link" / "a")) == "xfs"


def test_where_the_system_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (None, "", "one two\n - \n"):
        table = tmp_path / "mounts"
        if text is not None:
            table.write_text(text)
        monkeypatch.setattr(ground, "MOUNTS", table)
        assert file_system("/a") is None


def test_it_is_said_at_open_and_by_check(
    mount: Mount, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mount(str(tmp_path), "tmpfs")
    with caplog.at_level(logging.WARNING, "anabranch"), installed(), connect(tmp_path / "h") as ab:
        problems = ab.check()
        assert "it is in memory (tmpfs)" in caplog.text
        assert [row["problem"] for row in problems] == ["NOT_DURABLE", "NOT_DURABLE"]
        assert all(row["cure"] and str(tmp_path) in row["detail"] for row in problems)
        assert [row["repaired"] for row in ab.check(repair=True)] == [False, False]

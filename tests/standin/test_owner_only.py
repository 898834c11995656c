"""What Anabranch makes is for its owner only, wherever it lies; unless a group shares the place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch.cli.shell import _history
from anabranch.demo.home import fresh
from tests.standin.engine import connect, installed


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(top: Path) -> list[str]:
    """Everything that somebody else reaches: who may not enter a folder sees nothing below it."""
    found: list[str] = []
    for each in sorted(top.iterdir()):
        mode = each.stat().st_mode
        if not mode & 0o077:
            continue
        found.append(str(each.relative_to(top)))
        if each.is_dir():
            found += [f"{found[-1]}/{inner}" for inner in open_to_others(each)]
    return found


def work(top: Path) -> None:
    """Homes, warehouses and backups, made in every way."""
    with installed(), connect(top / "home", warehouse=str(top / "apart" / "rows")) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1)")
        ab.create_stream_table("s.d", "SELECT k FROM s.t")
        ab.backup(top / "backup")
    _history(top / "home").store_string("SELECT 'secret'")
    with installed():
        anabranch.restore(top / "backup", top / "again")
    catalog = f"sqlite:///{top}/alone.db"
    with installed(), connect(catalog, warehouse=str(top / "alone")) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1)")
    fresh(top / "demo")


def test_nobody_else_reads_what_was_made(tmp_path: Path) -> None:
    work(tmp_path)
    assert open_to_others(tmp_path) == ["apart"], "a folder above, which holds nothing to read"


def test_files_in_a_folder_that_was_there_are_private_too(tmp_path: Path) -> None:
    for name in ("home", "again", "demo"):
        (tmp_path / name).mkdir()
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1)")
        assert open_to_others(tmp_path / "home") == []
    _history(tmp_path / "home").store_string("SELECT 'secret'")
    assert open_to_others(tmp_path / "home") == []


def test_a_group_may_share_a_place(tmp_path: Path) -> None:
    """`chmod g+ws`: then the umask decides, as for everything else in that folder."""
    os.umask(0o007)
    tmp_path.chmod(0o2770)
    with installed(), connect(tmp_path / "home") as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT); INSERT INTO s.t VALUES (1)")
        ab.backup(tmp_path / "backup")
    for name in ("home", "home/catalog.db", "home/warehouse", "backup", "backup/rows"):
        mode = (tmp_path / name).stat().st_mode
        assert mode & stat.S_IWGRP and mode & stat.S_IRGRP, name
        assert not mode & 0o007, name

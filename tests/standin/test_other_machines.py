"""A catalog of SQLite on a network file system: one machine at a time writes to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.catalog import stages
from anabranch.errors import Fenced
from anabranch.lake import ground
from tests.standin.engine import connect, installed

HERE = "this 0000-aaaa pid:[1]"
OTHER = "other 1111-bbbb pid:[1]"
BESIDE = "container 0000-aaaa pid:[2]"  # of this machine


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "host", lambda: HERE)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground, "file_system", lambda place: "nfs4")


def works(ab: Anabranch, host: str, id_: str = "a" * 32) -> None:
    """A process of a host begins work, and does not end it."""
    with ab._store.writing() as c:
        stages.add(c, replace(stages.mine(id_), host=host))


@pytest.mark.usefixtures("network")
def test_work_of_another_machine_ends_the_writing(tmp_path: Path) -> None:
    with installed(), connect(tmp_path, fsync=False) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        works(ab, OTHER)
        with pytest.raises(Fenced, match="other 1111-bbbb .*one machine at a time") as no:
            ab.sql("INSERT INTO s.t VALUES (1)")
        assert "PostgreSQL" in str(no.value.hint)
        with pytest.raises(Fenced):
            ab.maintain()
        assert ab.table("s.t").collect() == []
    with installed(), connect(tmp_path, fsync=False) as ab:
        ab.sql("INSERT INTO s.t VALUES (1)")  # what was there before may be of an earlier boot
        works(ab, OTHER, "b" * 32)
        with pytest.raises(Fenced):
            ab.sql("INSERT INTO s.t VALUES (2)")


@pytest.mark.usefixtures("network")
def test_containers_of_one_machine_share_a_catalog(tmp_path: Path) -> None:
    with installed(), connect(tmp_path, fsync=False) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        works(ab, BESIDE)
        ab.sql("INSERT INTO s.t VALUES (1)")
        assert ab.table("s.t").collect() == [(1,)]


def test_a_disk_is_not_asked(tmp_path: Path) -> None:
    """Nobody reaches it from elsewhere: another kernel is a container's with a boot of its own."""
    with installed(), connect(tmp_path, fsync=False) as ab:
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        works(ab, OTHER)
        ab.sql("INSERT INTO s.t VALUES (1)")
        assert ab.table("s.t").collect() == [(1,)]

"""Work that was given up for dead is a lost race: what it read may be collected, and it runs again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.catalog import stages
from anabranch.errors import FileMissing
from anabranch.refresh import staging
from anabranch.runtime import Transaction
from tests.standin.engine import connect, installed

GONE = FileMissing("a data file is missing: x", path="x")


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT)")
        opened.create_stream_table("s.x", "SELECT k FROM s.t")
        opened.sql("INSERT INTO s.t VALUES (1)")
        yield opened


def give_up(tx: Transaction) -> None:
    """As upkeep does with a stage that shows no sign of life."""
    with tx.world.lake.store.writing() as c:
        assert stages.remove(c, tx.stage.id)


@pytest.mark.parametrize("full", [False, True])
def test_a_refresh_is_run_again(ab: Anabranch, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    real, tries = staging.refresh_component, []

    def refresh_component(runtime: Any, tx: Transaction, *given: Any, **options: Any) -> Any:
        tries.append(tx)
        if tx is tries[0]:
            if len(tries) == 1:
                give_up(tx)
            raise GONE
        return real(runtime, tx, *given, **options)

    monkeypatch.setattr(staging, "refresh_component", refresh_component)
    ab.refresh("s.x", full=full)
    assert ab.table("s.x").collect() == [(1,)]
    assert not ab.history("s.x", 1)[0]["error"]


def test_a_write_is_run_again(ab: Anabranch) -> None:
    tries = []

    def act(tx: Transaction) -> int:
        tries.append(tx)
        if len(tries) == 1:
            give_up(tx)
            raise GONE
        return len(tries)

    assert ab._runtime.write("test", act) == 2


def test_a_file_that_is_lost_is_lost(ab: Anabranch) -> None:
    def act(tx: Transaction) -> None:
        raise GONE

    with pytest.raises(FileMissing):
        ab._runtime.write("test", act)

"""Whoever writes a stream table holds its lease: comments and indexes too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.api import Anabranch
from anabranch.names import TableName
from tests.standin.engine import Session, connect, installed

WRITES = {
    "comment": "COMMENT ON TABLE s.d IS 'sums'",
    "column comment": "COMMENT ON COLUMN s.d.v IS 'a sum'",
    "create index": "CREATE INDEX i ON s.d (k)",
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[tuple[Anabranch, Anabranch]]:
    session = Session()
    with (
        installed(),
        connect(tmp_path / "home", spark=session) as ab,
        connect(tmp_path / "home", spark=session) as other,
    ):
        ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        ab.sql("INSERT INTO s.t VALUES (1, 1)")
        ab.create_stream_table("s.d", "SELECT k, SUM(v) AS v FROM s.t GROUP BY k")
        yield ab, other


@pytest.mark.parametrize("how", ["alone", "in a transaction"])
@pytest.mark.parametrize("what", WRITES)
def test_a_write_waits_for_the_refresh_that_is_under_way(
    home: tuple[Anabranch, Anabranch], what: str, how: str
) -> None:
    """Were it published before the refresh, all that was computed would be thrown away."""
    ab, other = home
    done = threading.Event()

    def write() -> None:
        if how == "alone":
            other.sql(WRITES[what])
        else:
            with other.transaction():
                other.sql(WRITES[what])
        done.set()

    thread = threading.Thread(target=write)
    with ab._runtime.leases.hold([TableName.parse("s.d")], 60, wait=False):
        cuts = len(ab.cuts())
        thread.start()
        assert not done.wait(0.5) and len(ab.cuts()) == cuts
    thread.join()
    assert done.is_set() and len(ab.cuts()) == cuts + 1
    ab.sql("INSERT INTO s.t VALUES (2, 2)")
    ab.refresh()
    assert ab.verify("s.d")["equal"]


def test_a_write_that_waited_is_done_upon_what_is_there_then(
    home: tuple[Anabranch, Anabranch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not come to wait again, for a busy scheduler would always be first."""
    ab, other = home
    real, waited = type(other._runtime.leases)._wait_for, 0

    def busy(*given: object) -> object:
        nonlocal waited
        waited += 1
        ab.sql("INSERT INTO s.t VALUES (3, 3)")
        ab.refresh()
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(other._runtime.leases, "_wait_for", busy.__get__(other._runtime.leases))
    other.sql(WRITES["comment"])
    assert waited == 1 and sorted(ab.table("s.d").collect()) == [(1, 1), (3, 3)]

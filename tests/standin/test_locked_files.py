"""Files and folders that this user may not read are listed, and stop neither a check nor upkeep."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import FileUnreadable
from tests.standin.engine import connect, installed

ROOT = Path(__file__).parents[2]
PLACES: dict[str, Callable[[Path], Path]] = {
    "data folder": lambda root: root / "data",
    "data file": lambda root: min((root / "data").rglob("*.parquet")),
    "metadata folder": lambda root: root / "metadata",
    "manifest": lambda root: min((root / "metadata").glob("*-m*.avro")),
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with installed(), connect(tmp_path) as ab:
        for name in ("t", "u"):
            ab.sql(f"CREATE TABLE s.{name} (k BIGINT)")
            ab.sql(f"INSERT INTO s.{name} VALUES (1)")
            ab.sql(f"INSERT INTO s.{name} VALUES (2)")
            ab.create_stream_table(f"s.d{name}", f"SELECT k FROM s.{name}", schedule=None)
    yield tmp_path


def as_no_superuser() -> None:
    """Root may read everything; without these two capabilities it is as anybody else."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for override in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            assert prctl(24, override, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())


def looks(home: Path) -> dict[str, Any]:
    with installed(), connect(home, snapshot_retention="0s", history_retention="0s") as ab:
        ab.sql("INSERT INTO s.u VALUES (3)")
        ab.refresh("s.du")
        told: dict[str, Any] = {"other": ab.verify("s.du")["equal"]}
        told["quick"], told["deep"] = ab.check(), ab.check(deep=True)
        told["damaged"] = ab.maintain()["tables_damaged"]
        try:
            ab.refresh("s.dt", full=True)
        except FileUnreadable as error:
            told["error"] = error.message
        return told


FURTHER = dict.fromkeys(("data file", "metadata folder"), pytest.mark.extended)


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=FURTHER.get(place, ())) for place in PLACES]
)
def test_what_may_not_be_read_is_listed(home: Path, place: str) -> None:
    (root,) = (home / "warehouse" / "s").glob("t-*")
    locked = PLACES[place](root)
    mode = locked.stat().st_mode
    locked.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.standin.test_locked_files", home],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            preexec_fn=as_no_superuser,
            capture_output=True,
            text=True,
        )
    finally:
        locked.chmod(mode)
    assert done.returncode == 0, done.stderr[-3_000:]
    told = json.loads(done.stdout)
    for kind in ("quick", "deep"):
        found = {(each["table"], each["problem"], each["cure"]) for each in told[kind]}
        if (kind, place) != ("quick", "data file"):  # which is there, of the right size
            assert ("s.t", "UNREADABLE", "let this user read the file") in found
        assert all(each[0] in ("s.t", "s.dt") for each in found), found
    assert told["other"], "the other table is refreshed"
    assert told["damaged"] == ([] if place.startswith("data") else ["s.t"])
    assert "cannot be read" in told["error"]


if __name__ == "__main__":
    print(json.dumps(looks(Path(sys.argv[1])), default=str))

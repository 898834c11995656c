"""Two processes, each with a Spark of its own, at one home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.errors import AnabranchError, PublishConflict
from tests.e2e.world import bag, rows

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]


class Other:
    """The other process: it does something until it is told to stop, and says what came of it."""

    def __init__(self, role: str, home: Path) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.test_two_sparks", role, str(home)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def heard(self) -> Any:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line, "the other process has died"
        return json.loads(line)

    def tell(self) -> Any:
        assert self.popen.stdin is not None
        self.popen.stdin.write("go on\n")
        self.popen.stdin.flush()
        return self.heard()


@contextmanager
def other(role: str, home: Path) -> Iterator[Other]:
    found = Other(role, home)
    try:
        assert found.heard() == "ready"
        yield found
    finally:
        found.popen.kill()
        found.popen.wait()
        for pipe in (found.popen.stdin, found.popen.stdout):
            assert pipe is not None
            pipe.close()


# -- ALTER against refresh -------------------------------------------------------------------------


def test_no_alter_is_lost_to_refreshes_of_another_process(ab: Anabranch, tmp_path: Path) -> None:
    """Rows are always those of one declared query, the last one at the end: of filled tables, and of
    one without rows, of which an ALTER moves no pointer."""
    ab.sql("CREATE TABLE s.t (k BIGINT)")
    ab.sql("INSERT INTO s.t VALUES (1)")
    ab.create_stream_table("s.d", "SELECT k, k * 1 AS v FROM s.t", schedule=None)
    ab.create_stream_table("s.sum", "SELECT sum(v) AS v, sum(k) AS k FROM s.d", schedule=None)
    ab.create_stream_table("s.none", "SELECT k FROM s.t WHERE k < -1", schedule=None)
    with other("refresher", tmp_path) as process:
        for factor in range(2, 6):
            ab.sql(f"INSERT INTO s.t VALUES ({factor})")
            patiently(ab, f"ALTER STREAM TABLE s.d AS SELECT k, k * {factor} AS v FROM s.t")
            with ab.at() as world:
                found = bag(world.table("s.d"))
                (totals,) = world.table("s.sum").collect()
            assert found and all(v == k * factor for k, v in found)
            assert totals.v == totals.k * factor, "a reader is torn from what it reads"
            patiently(ab, f"ALTER STREAM TABLE s.none AS SELECT k FROM s.t WHERE k < -{factor}")
            patiently(ab, f"ALTER STREAM TABLE s.none AS SELECT k FROM s.t WHERE k = {factor}")
            assert bag(ab.table("s.none")) == rows((factor,))
            patiently(ab, "ALTER STREAM TABLE s.none AS SELECT k FROM s.t WHERE k < -1")
        refreshed, errors = process.tell()
    assert refreshed > 0 and not errors
    ab.refresh()
    assert bag(ab.table("s.d")) == rows(*((k, 5 * k) for k in range(1, 6)))
    assert all(ab.verify(name)["equal"] for name in ("s.d", "s.sum", "s.none"))
    assert {row["status"] for row in ab.status()} == {"ACTIVE"}


def patiently(ab: Anabranch, statement: str) -> None:
    """A conflict says that nothing was done, and to run it again."""
    for _ in range(20):
        try:
            ab.sql(statement)
            return
        except PublishConflict:
            continue
    pytest.fail(f"starved: {statement}")


def refresher(home: Path, stopped: threading.Event) -> Any:
    refreshed, errors = 0, []
    with connected(home) as ab:
        say("ready")
        while not stopped.is_set():
            try:
                ab.refresh()
                refreshed += 1
            except PublishConflict:
                continue
            except AnabranchError as error:
                errors.append(repr(error))
    return refreshed, errors


# -- a reader that falls silent --------------------------------------------------------------------


def test_a_reader_that_slept_too_long_gets_its_rows_or_is_told(
    ab: Anabranch, tmp_path: Path
) -> None:
    """It never finds a file missing, neither with frames of before nor with new ones."""
    ab.sql("CREATE TABLE s.t (k BIGINT)")
    ab.create_stream_table("s.d", "SELECT k, count(*) AS n FROM s.t GROUP BY k", schedule=None)
    ab.sql("INSERT INTO s.t VALUES (1)")
    ab.refresh()
    with other("reader", tmp_path) as process:
        os.kill(process.popen.pid, signal.SIGSTOP)
        ab.sql("SET anabranch.snapshot_retention = '0s'; SET anabranch.history_retention = '0s'")
        for key in range(2, 5):
            ab.sql(f"UPDATE s.t SET k = {key}")
            ab.refresh()
            ab.maintain()
        lasts = threading.Event()
        for _ in range(60):  # until the lease of the reader has ended, and upkeep took its files
            if ab.maintain()["files_deleted"]:
                break
            lasts.wait(0.5)
        os.kill(process.popen.pid, signal.SIGCONT)
        said = process.tell()
    assert len(said) == 4
    for each in said:
        assert each["rows"] in ([[1]], [[1, 1]]) or "no longer held" in each["error"], said
    assert any(each["error"] for each in said), "the lease has not ended"


def reader(home: Path, stopped: threading.Event) -> Any:
    said = []
    with connected(home, lease_time="1s") as ab, ab.at() as world:
        before = [world.table("s.t"), world.sql("SELECT * FROM s.d")]
        say("ready")
        stopped.wait()
        later = [lambda: world.table("s.t"), lambda: world.sql("SELECT * FROM s.d")]
        for read in (*(lambda frame=frame: frame for frame in before), *later):
            try:
                said.append({"rows": [list(row) for row in read().collect()], "error": ""})
            except Exception as error:
                ours = isinstance(error, AnabranchError)
                said.append({"rows": None, "error": str(error) if ours else f"raw: {error!r}"})
    return said


# -- the other process -----------------------------------------------------------------------------


def connected(home: Path, **settings: str) -> Anabranch:
    return anabranch.connect(
        home, spark_master="local[1]", spark_conf={"spark.driver.memory": "1g"}, **settings
    )


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main(role: str, home: str) -> None:
    stopped = threading.Event()

    def wait_for_word() -> None:
        sys.stdin.readline()
        stopped.set()

    threading.Thread(target=wait_for_word, daemon=True).start()
    say({"refresher": refresher, "reader": reader}[role](Path(home), stopped))


if __name__ == "__main__":
    main(*sys.argv[1:])

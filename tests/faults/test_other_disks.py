"""A real cluster whose workers see another disk below the warehouse: nothing is lost silently."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

SPARK = Path(str(pyspark.__file__)).parent
WORK = """
import sys
import anabranch
from anabranch.spark import shared_disk
from anabranch.errors import Refused, RowsLost

home, master, believe = sys.argv[1:]
if believe == "yes":  # nobody asks the executors: only the rows tell
    shared_disk.see_from_everywhere = lambda *_: None
    from anabranch.spark import write
    write.see_from_everywhere = lambda *_: None
conf = {"spark.master": master, "spark.conf.spark.executor.memory": "512m"}
conf |= {"spark.conf.spark.driver.host": "127.0.0.1", "spark.conf.spark.cores.max": "2"}
conf |= {"spark.conf.spark.scheduler.minRegisteredResourcesRatio": "1.0"}  # both take part
with anabranch.connect(home, **conf) as ab:
    ab.sql("CREATE TABLE d.t (id BIGINT)")
    try:
        ab.append("d.t", ab.spark.range(100_000, numPartitions=8))
        print("STORED", ab.table("d.t").count())
    except (Refused, RowsLost) as error:
        print(type(error).__name__, error.message)
    print("CUTS", len(ab.cuts()), "EVENTS", [each["kind"] for each in ab.events()])
"""


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def cluster(folder: Path, hidden: Path | None) -> Iterator[str]:
    """A master and two workers; one of them has an empty disk of its own at `hidden`."""
    at = port()
    address = f"spark://127.0.0.1:{at}"
    start = [str(SPARK / "bin" / "spark-class")]
    main = "org.apache.spark.deploy"
    master = [*start, f"{main}.master.Master", "-h", "127.0.0.1", "-p", str(at)]
    master += ["--webui-port", "0"]
    worker = [*start, f"{main}.worker.Worker", address, "-c", "1", "-m", "600m", "-h", "127.0.0.1"]
    worker += ["--webui-port", "0", "-d"]
    elsewhere = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)]
    running = []
    environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        commands = [master, [*worker, str(folder / "w1")]]
        other = [*worker, str(folder / "w2")]
        commands.append([*elsewhere, *other] if hidden else other)
        for number, command in enumerate(commands):
            with (folder / f"log{number}").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        command, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )
        wait_for(folder, 2)
        yield address
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(folder: Path, workers: int) -> None:
    for _ in range(600):
        said = (folder / "log0").read_text(errors="replace")
        if said.count("Registering worker") >= workers:
            return
        time.sleep(0.1)
    raise AssertionError((folder / "log0").read_text(errors="replace"))


def can_hide() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_hide(), reason="needs the right to mount a disk for one process")
def test_rows_of_a_worker_with_another_disk(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "warehouse").mkdir(parents=True)

    def run(address: str, home: Path, believe: str) -> str:
        command = [sys.executable, "-c", WORK, str(home), address, believe]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "CUTS" in done.stdout, done.stdout + done.stderr
        return done.stdout

    with cluster(tmp_path, home / "warehouse") as address:
        probed = run(address, home, "no")
        assert probed.startswith("Refused") and "not every executor of" in probed
        assert "CUTS 1 EVENTS []" in probed
        shutil.rmtree(home)
        (home / "warehouse").mkdir(parents=True)
    with cluster(tmp_path, home / "warehouse") as address:
        lost = run(address, home, "yes")
        assert lost.startswith("RowsLost") and "Spark produced 100,000 rows" in lost
        assert "CUTS 1 EVENTS ['ROWS_LOST']" in lost
    with cluster(tmp_path, None) as address:
        assert run(address, tmp_path / "shared", "no").startswith("STORED 100000")

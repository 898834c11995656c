"""A stock Spark against a server of ours, and sharing the catalog by JDBC: `make test-interop`.

Spark and Iceberg's runtime for it lie in an environment outside of the repository, made once:
`ANABRANCH_INTEROP_CACHE`, or `anabranch-interop` among the user's caches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path
from typing import Any

from anabranch import Anabranch
from tests.serve.running import Served, served
from tests.standin.engine import connect, installed

SPARK = "pyspark==4.1.*"
JARS = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
USERS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
CACHE = Path(os.environ.get("ANABRANCH_INTEROP_CACHE", USERS / "anabranch-interop"))
SCRIPT = Path(__file__).with_name("stock_spark.py")


class Missing(Exception):
    """What is needed cannot be fetched."""


def main() -> int:
    try:
        python, jars = fetched()
    except Missing as error:
        print(f"left out: a stock Spark, since it cannot be fetched: {error}")
        return 0
    with (
        tempfile.TemporaryDirectory() as home,
        installed(),
        connect(Path(home) / "lake") as ab,
        served(ab) as here,
    ):
        diamond(ab)
        read = while_publishing(ab, lambda: run(here, python, jars, "read"))
        wrote = run(here, python, jars, "write")
        return judged(ab, read, wrote)


def fetched() -> tuple[Path, str]:
    """An interpreter with a stock Spark, and the jars."""
    place, python = CACHE / "spark-4.1", CACHE / "spark-4.1" / "bin" / "python"
    if not (place / "made").exists():
        venv.create(place, with_pip=True, clear=True)
        step([str(python), "-m", "pip", "install", "--quiet", SPARK])
        (place / "made").touch()
    for each in JARS:
        _, name, version = each.split(":")
        if not (CACHE / "jars" / f"{name}-{version}.jar").exists():
            step(
                ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={each}",
                 f"-DoutputDirectory={CACHE / 'jars'}"]
            )  # fmt: skip
    return python, ",".join(map(str, sorted((CACHE / "jars").glob("*.jar"))))


def step(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise Missing(str(error)) from None
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).strip().splitlines()
        raise Missing(said[0] if said else command[0]) from None


def diamond(ab: Anabranch) -> None:
    ab.sql("CREATE TABLE s.t (v BIGINT)")
    ab.sql("INSERT INTO s.t VALUES (1)")
    ab.create_stream_table("s.left", "SELECT SUM(v) AS v FROM s.t")
    ab.create_stream_table("s.right", "SELECT SUM(v) AS v FROM s.t")
    ab.create_stream_table("s.both", "SELECT l.v FROM s.left l JOIN s.right r ON l.v = r.v")


def while_publishing(ab: Anabranch, act: Any) -> Any:
    over = threading.Event()

    def publish() -> None:
        while not over.wait(0.05):
            ab.sql("INSERT INTO s.t VALUES (1)")
            ab.refresh()

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        return act()
    finally:
        over.set()
        thread.join()


def run(here: Served, python: Path, jars: str, phase: str) -> dict[str, Any]:
    runtime = here.ab._runtime
    done = subprocess.run(
        [str(python), str(SCRIPT), phase],
        env={
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "ANABRANCH_SERVED": here.address,
            "ANABRANCH_SERVED_TOKEN": here.token or "",
            "ANABRANCH_DATABASE": runtime.store.shown,
            "ANABRANCH_WAREHOUSE": runtime.lake.warehouse.location,
            "ANABRANCH_JARS": jars,
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"the stock Spark failed:\n{done.stdout}\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def judged(ab: Anabranch, read: dict[str, Any], wrote: dict[str, Any]) -> int:
    """Whether both have seen what they must."""
    ab.refresh()
    total = wrote["before"] + 4000
    found = {
        "pinned reads are whole": read["torn"]["pinned"] == 0 and read["states"] > 3,
        "latest reads tear": read["torn"]["latest"] > 0,
        "Spark reads its own view": wrote["view"] == [[2], [3]],
        "a stream table refuses Spark": "only its query fills it" in wrote["refused"],
        "our SQL reads what Spark wrote": sorted(ab.table("theirs.t").collect())
        == [(2, "us", None), (3, "us", None)],
        "our SQL reads Spark's view": sorted(ab.table("theirs.v").collect()) == [(2,), (3,)],
        "a refresh sees commits by JDBC": ab.table("s.left").collect() == [(total,)],
        "the refresh was exact": bool(ab.verify("s.left")["equal"]),
    }
    wrong = [said for said, so in found.items() if not so]
    for each in wrong:
        print(f"FAILED {each}")
    print(f"a stock Spark: {len(found) - len(wrong)} of {len(found)} hold; {read}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""A warehouse that is a plain folder, under a Spark that runs elsewhere: does everybody see it?

Executors that see another disk write their files where the driver never looks.  So before the first
write of a session that is not local, files of the driver are read by tasks on all executors, and what
those write back must be found by the driver.
"""

from __future__ import annotations

import re
import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.cache import Cache
from anabranch.errors import Refused
from anabranch.retry import attempts
from anabranch.spark import private
from anabranch.spark.errors import is_lost, said

MARKER = "anabranch.json"  # lies at the root of every warehouse
FILES_PER_CORE = 2
MOST_FILES = 1_000
LINGER_MS = 200  # so long a task takes that no executor does the work of another
ATTEMPTS = 5

_lock = threading.Lock()
SERVER = (
    "the server"  # stands for all executors of a Spark Connect server, which does not tell of them
)
# By session and folder: the executors that see it.
_seen: Cache[set[str]] = Cache(100, "executors")


def local(directory: str) -> Path | None:
    scheme, _, rest = directory.partition(":")
    if scheme == "file":
        return Path("/" + rest.lstrip("/"))
    return Path(directory) if directory.startswith("/") else None


def see_from_everywhere(session: SparkSession, directory: str) -> None:
    """Refuse a local folder that not every executor sees; asked once for a session and a warehouse."""
    path = local(directory)
    if path is None or in_one_process(session):
        return
    root = warehouse_of(path)
    key = (identity(session), str(root))
    with _lock:
        there = executors(session)
        seen = _seen.get(key, set)
        if not seen or not there <= seen:
            probe(session, root)
            seen |= there or {SERVER}  # executors that cannot be listed are asked once as well


def in_one_process(session: SparkSession) -> bool:
    """Whether the tasks run in the driver, which runs on this machine."""
    if "connect" in type(session).__module__:
        return False
    master = str(session.sparkContext.master)
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def identity(session: Any) -> str:
    if "connect" in type(session).__module__:
        return str(session.session_id)
    return str(session.sparkContext.applicationId)


def warehouse_of(path: Path) -> Path:
    """The root of the warehouse that a folder lies in, or the folder itself."""
    return next((each for each in (path, *path.parents) if (each / MARKER).exists()), path)


def probe(session: SparkSession, root: Path) -> None:
    """Read files of the driver on all executors and find what they write, or refuse."""
    answered: set[str] = set()
    for _ in attempts(ATTEMPTS):
        answered |= ask(session, root)
        wanted = max(1, len(executors(session)) - 1)  # without the driver
        if len(answered) >= wanted:
            return
    raise refusal(session, root, f"{len(answered)} of {wanted} executors answered")


def ask(session: SparkSession, root: Path) -> set[str]:
    """The processes that read files of the driver and wrote others that the driver finds."""
    folder = root / f"_probe-{uuid.uuid4().hex}"
    try:
        count = scatter(session, folder / "in")
        found = answer(session, folder)
    except Exception as error:
        if is_lost(error):
            raise
        raise refusal(session, root, said(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if sorted(int(line) for line, _ in found) != list(range(count)):
        raise refusal(session, root, "what they write is not found there")
    return {process for _, process in found}


def executors(session: Any) -> frozenset[str]:
    """The driver and the executors that there are now."""
    if "connect" in type(session).__module__:
        return frozenset({SERVER})
    return private.executors(session)


def scatter(session: SparkSession, folder: Path) -> int:
    """Small files of the driver, enough of them that every core gets some."""
    folder.mkdir(parents=True)
    count = min(MOST_FILES, FILES_PER_CORE * cores(session))
    for at in range(count):
        (folder / f"{at}.txt").write_text(f"{at}\n")
    return count


def cores(session: Any) -> int:
    if "connect" in type(session).__module__:
        return 16  # a server does not tell
    return max(2, int(session.sparkContext.defaultParallelism))


def answer(session: SparkSession, folder: Path) -> list[list[str]]:
    """Numbers that came back, read by tasks and written by them, each with the process that did it."""
    lines = session.read.text((folder / "in").as_uri()).selectExpr(
        "concat_ws(' ', value, reflect('java.net.InetAddress', 'getLocalHost')"
        " || '/' || reflect('java.lang.ProcessHandle', 'current'),"
        f" reflect('java.lang.Thread', 'sleep', {LINGER_MS}L)) AS value"
    )
    lines.write.mode("append").text((folder / "out").as_uri())
    found = [
        path
        for path in (folder / "out").rglob("part-*")
        if not path.name.endswith(".crc") and "_temporary" not in path.parts
    ]
    return [line.split(" ")[:2] for path in found for line in path.read_text().splitlines()]


def refusal(session: Any, root: Path, why: str) -> Refused:
    connect = "connect" in type(session).__module__
    where = "the Spark Connect server" if connect else str(session.sparkContext.master)
    return Refused(
        f"the warehouse {root} is a folder of this machine, and not every executor of {where} "
        f"sees it: {why}",
        hint="put the warehouse where all of them see it (a shared folder, s3a://, hdfs://), or run "
        "Spark here: spark.master = local[*]",
    )

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

from anabranch.engine.errors import is_lost, said
from anabranch.errors import Refused

MARKER = "anabranch.json"  # lies at the root of every warehouse
TASKS_PER_CORE = 4
MOST_TASKS = 1_000

_lock = threading.Lock()
_seen: set[tuple[str, str]] = set()  # sessions and folders that were tried, and are well


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
        if key not in _seen:
            probe(session, root)
            _seen.add(key)


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
    folder = root / f"_probe-{uuid.uuid4().hex}"
    try:
        count = scatter(session, folder / "in")
        complete = answer(session, folder) == list(range(count))
    except Refused:
        raise
    except Exception as error:
        if is_lost(error):
            raise
        raise refusal(session, root, said(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not complete:
        raise refusal(session, root, "what they write is not found there")


def scatter(session: SparkSession, folder: Path) -> int:
    """Small files of the driver, enough of them that every core gets some."""
    folder.mkdir(parents=True)
    count = min(MOST_TASKS, TASKS_PER_CORE * cores(session))
    for at in range(count):
        (folder / f"{at}.txt").write_text(f"{at}\n")
    return count


def cores(session: Any) -> int:
    if "connect" in type(session).__module__:
        return 16  # a server does not tell
    return max(2, int(session.sparkContext.defaultParallelism))


def answer(session: SparkSession, folder: Path) -> list[int]:
    """The numbers that came back: read by tasks, and written by them."""
    lines = session.read.text((folder / "in").as_uri())
    lines.write.mode("append").text((folder / "out").as_uri())
    found = [
        path
        for path in (folder / "out").rglob("part-*")
        if not path.name.endswith(".crc") and "_temporary" not in path.parts
    ]
    return sorted(int(line) for path in found for line in path.read_text().splitlines())


def refusal(session: Any, root: Path, why: str) -> Refused:
    connect = "connect" in type(session).__module__
    where = "the Spark Connect server" if connect else str(session.sparkContext.master)
    return Refused(
        f"the warehouse {root} is a folder of this machine, and not every executor of {where} "
        f"sees it: {why}",
        hint="put the warehouse where all of them see it (a shared folder, s3a://, hdfs://), or run "
        "Spark here: spark.master = local[*]",
    )

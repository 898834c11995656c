"""Spark's classes as Java keeps them between starts: then Spark starts in half the time.

Java itself checks that an archive fits its version and the jar files, and does without it otherwise.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark

from anabranch.errors import Unreachable
from anabranch.spark.private import end_java

MAKING = "-XX:ArchiveClassesAtExit="
_USING = "-XX:SharedArchiveFile="
_PATIENCE = 300  # seconds for Java to write the archive


def place() -> Path | None:
    """Where the archive for this Java and this Spark is, or would be."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    java = java.resolve()
    facts = f"{java} {java.stat().st_mtime_ns} {Path(pyspark.__file__).resolve()}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return cache.absolute() / "anabranch" / f"spark-{pyspark.__version__}-{digest}.jsa"


def java_option(given: str = "") -> str:
    """The option that has Java read the archive; empty if there is none, it is being made, or the
    user's options name another."""
    try:
        found = place()
    except (OSError, RuntimeError):  # no home folder
        return ""
    if found is None or MAKING in given or _USING in given or not found.is_file():
        return ""
    return _quoted(f"{_USING}{found}")


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option


def make(path: Path, use_spark: Callable[[str], None]) -> None:
    """Write the archive: of the classes that `use_spark` needs, in a Spark that is given the option.

    It ends before this returns, and appears whole or not at all.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        written = Path(folder, "new.jsa")
        use_spark(_quoted(f"{MAKING}{written}"))
        end_java(_PATIENCE)
        if not written.is_file():
            raise Unreachable("Java wrote none")
        written.replace(path)

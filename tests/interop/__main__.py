"""Iceberg's own catalog tests (Java) against a server of ours: `make test-interop`.

    python -m tests.interop [name of a test class, or Class#method]

Maven fetches the jars by their coordinates into its cache, which lies outside of the repository.  When
it cannot, one line says what was left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import anabranch
from tests.serve.running import served

JAVA = Path(__file__).parent / "java"
EXCEPTIONS = Path(__file__).parent / "exceptions.txt"  # `Class.method: why`
BUILD = Path(tempfile.gettempdir()) / f"anabranch-interop-{os.getuid()}"


def maven(*goals: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["mvn", "-B", "-q", f"-Dbuild.place={BUILD}", *goals]
    return subprocess.run(
        command, cwd=JAVA, env={**os.environ, **environment}, text=True, capture_output=True
    )


def main(chosen: Sequence[str]) -> int:
    if shutil.which("mvn") is None:
        return left_out("there is no mvn: apt-get install maven")
    fetched = maven("test-compile")
    if fetched.returncode:
        return left_out(next(iter(fetched.stdout.strip().splitlines()), "Maven failed"))
    shutil.rmtree(BUILD / "surefire-reports", ignore_errors=True)
    with tempfile.TemporaryDirectory() as home:
        settings = {"home": f"{home}/lake", "serve.expire_snapshots": True, "fsync": False}
        with anabranch.connect(settings) as ab, served(ab) as here:
            ran = maven(
                "surefire:test",
                *(f"-Dtest={each}" for each in chosen),
                ANABRANCH_SERVED=f"{here.address}/iceberg",
                ANABRANCH_SERVED_TOKEN=here.token or "",
                ANABRANCH_SERVED_WAREHOUSE=ab._runtime.lake.warehouse.location,
            )
    return judged(ran)


def left_out(why: str) -> int:
    print(f"left out: Iceberg's catalog tests (Java), since jars cannot be fetched: {why}")
    return 0


def judged(ran: subprocess.CompletedProcess[str]) -> int:
    known = dict(exceptions())
    passed, skipped, failed = 0, 0, dict[str, str]()
    for report in sorted((BUILD / "surefire-reports").glob("*.xml")):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}"
            wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
            if wrong is not None:
                failed[name] = (wrong.attrib.get("message") or wrong.text or "")[:300]
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    if not passed:
        print(ran.stdout, ran.stderr)
    unknown = {name: said for name, said in failed.items() if plain(name) not in known}
    for name, said in unknown.items():
        print(f"FAILED {name}: {said}")
    print(
        f"Iceberg's catalog tests: {passed} passed, {skipped} skipped by themselves, "
        f"{len(failed) - len(unknown)} known exceptions, {len(unknown)} failed"
    )
    return 1 if unknown or not passed else 0


def plain(name: str) -> str:
    """Without the arguments of a case."""
    return name.partition("(")[0].partition("{")[0].partition("[")[0]


def exceptions() -> Iterator[tuple[str, str]]:
    if not EXCEPTIONS.exists():
        return
    for line in EXCEPTIONS.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, why = line.partition(": ")
            yield name, why


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

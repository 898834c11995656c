"""`anabranch prepare`: a real archive of Spark's classes, and a Spark that starts from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WHICH = """
import anabranch, sys
with anabranch.connect(sys.argv[1]) as ab:
    print(ab.spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
"""


@pytest.mark.slow
def test_spark_starts_from_the_archive(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*args: str) -> str:
        command = [sys.executable, *args]
        return subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE
        ).stdout.decode()

    def prepare() -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(run("-m", "anabranch", "prepare", "--json"))
        return answer

    made = prepare()
    assert made["made"] and Path(made["archive"]).stat().st_size > 50_000_000
    assert prepare() == {**made, "made": False}
    assert made["archive"] in run("-c", WHICH, str(tmp_path / "home"))

"""The smoke test with the oldest and the newest libraries that are allowed: `make test-matrix`.

    python -m tests.matrix [names of environments]

Each environment is made once below build/matrix, anew when what it holds shall be something else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "matrix"
_BOUNDS = re.compile(r"([A-Za-z_]+)>=([\d.]+)(?:,<([\d.]+))?")
OLD = ("lowest", "spark-4.0")  # Spark 4.0 does not tell how many rows it wrote
SPARKS = ("4.0", "4.1", "4.2", "4.3")  # every minor version is tried with the newest of the rest


def environments() -> dict[str, tuple[str, ...]]:
    """What pip is asked for, by the name of an environment."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [found for each in needed if ";" not in each and (found := _BOUNDS.fullmatch(each))]
    lowest = tuple(f"{found[1]}=={found[2]}" for found in bounds)
    newest = {found[1]: found[0] for found in bounds}
    made = {"lowest": lowest}
    for version in SPARKS:
        asked: Mapping[str, str] = {**newest, "pyspark": f"pyspark~={version}.0"}
        made[f"spark-{version}"] = tuple(asked.values())
    return made


def python_of(name: str, asked: Sequence[str]) -> Path | None:
    """The interpreter of an environment; None if its packages cannot be had."""
    folder, wanted = PLACE / name, "\n".join((sys.version, *asked))
    python, lock = folder / "bin" / "python", folder / "asked.txt"
    if lock.is_file() and lock.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    # PySpark is a source archive: it is built without network where setuptools is there.
    for packages in (("setuptools>=64", "wheel"), asked):
        if subprocess.run([*pip, *packages]).returncode:
            return None
    lock.write_text(wanted)
    return python


def main(chosen: Sequence[str]) -> int:
    failed = []
    for name, asked in environments().items():
        if chosen and name not in chosen:
            continue
        python = python_of(name, asked)
        if python is None:
            print(f"{name}: left out, its packages cannot be installed", flush=True)
            continue
        print(f"{name}: ", end="", flush=True)
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(python), "-m", "tests.matrix.smoke"]
        command += [] if name in OLD else ["--strict"]
        if subprocess.run(command, cwd=PLACE, env=variables).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

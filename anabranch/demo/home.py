"""The folder the demo works in: made anew each time, never somebody else's."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from anabranch.errors import Refused
from anabranch.places import create_folder

FOLDER = ".anabranch-demo"
MARK = "made-by-anabranch-demo"


def fresh(home: Path) -> Path:
    """An empty folder; an older one is removed only if the demo made it."""
    if home.exists() and any(home.iterdir()) and not (home / MARK).exists():
        raise Refused(
            f"{home} exists and was not made by the demo",
            hint="remove it, or name another folder: anabranch --home FOLDER demo",
        )
    shutil.rmtree(home, ignore_errors=True)
    create_folder(home, fsync=False)
    (home / MARK).touch()
    return home


def shown(path: Path) -> str:
    """A path as short as it can be typed here."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def program(name: str) -> str:
    """How to call a program of this environment from this folder."""
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    if not beside.exists():
        return f"{program('python')} -m {name}"
    same = found is not None and Path(found).parent.samefile(beside.parent)
    return name if same else shlex.quote(shown(beside))

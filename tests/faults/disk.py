"""A disk that loses, when the power goes, what was not synced: a file system in a file.

What a program wrote lies in the kernel's memory until somebody syncs it; the file behind the loop
device holds only what reached the device.  A copy of that file is what a power cut would have left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SIZE = "256M"
# Nothing reaches the device by the mere passing of time.
PATIENT = "commit=3600"


def available() -> bool:
    return (
        os.geteuid() == 0
        and Path("/dev/loop-control").exists()
        and shutil.which("mkfs.ext4", path="/usr/sbin:/sbin") is not None
    )


def run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


class Disk:
    """An ext4 in the file `image`, mounted at `at`."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.image, self.at, self.mode = folder / "disk.img", folder / "disk", mode
        self.at.mkdir()
        run("truncate", "-s", SIZE, self.image)
        run("/usr/sbin/mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)
        self.mount()
        run("sync", "-f", self.at)

    def mount(self) -> None:
        run("mount", "-o", f"loop,noatime,{PATIENT},data={self.mode}", self.image, self.at)

    def umount(self) -> None:
        run("umount", self.at)

    def photograph(self) -> Path:
        """What the device holds at this moment."""
        copy = self.image.with_suffix(".copy")
        run("cp", "--sparse=always", self.image, copy)
        return copy

    def after_a_power_cut(self, photograph: Path) -> None:
        """The machine comes up again with what was there when the power went."""
        self.umount()
        photograph.replace(self.image)
        self.mount()

    def gone(self) -> None:
        subprocess.run(["umount", "-l", str(self.at)], capture_output=True, check=False)
        self.image.unlink()

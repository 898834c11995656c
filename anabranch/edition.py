"""What reads the queries here: the versions of Anabranch and of what it plans with, and its code.

Two editions may read one query in two ways.  So the catalog notes which of them have confirmed what the
stored rows were computed from, and a newer one looks at each table once.  Editions have an order that
every process sees alike: rows that a newer one has computed in its own way are left to it, or two
processes would replace each other's rows for ever.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import total_ordering
from importlib import metadata
from pathlib import Path

from anabranch.cache import cached

PACKAGES = ("anabranch", "sqlglot", "pyspark")
SEPARATOR = "~"


@total_ordering
@dataclass(frozen=True)
class Edition:
    """`built` only orders editions of equal versions, such as two checkouts."""

    versions: tuple[str, ...]
    code: str
    built: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return SEPARATOR.join((*self.versions, str(self.built), self.code))

    def __lt__(self, other: Edition) -> bool:
        return self != other and self._place < other._place

    @classmethod
    def parse(cls, text: str) -> Edition | None:
        """None for what another edition may have written."""
        *versions, built, code = ["", "", *text.split(SEPARATOR)]
        if len(versions) != len(PACKAGES) + 2 or not built.isdigit():
            return None
        return cls(tuple(versions[2:]), code, int(built))

    @property
    def shown(self) -> str:
        known = dict(zip(PACKAGES, self.versions, strict=True))
        return ", ".join(f"{name} {version}" for name, version in known.items() if version)

    @property
    def _place(self) -> tuple[list[list[int]], int, str]:
        numbers = [[int(part) for part in re.findall(r"\d+", each)] for each in self.versions]
        return numbers, self.built, self.code


@cached(1)
def current() -> Edition:
    """That of this process."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    text = hashlib.sha256()
    for path in files:
        text.update(path.name.encode() + b"\0" + path.read_bytes())
    built = max((int(path.stat().st_mtime) for path in files), default=0)
    return Edition(tuple(map(version, PACKAGES)), text.hexdigest()[:12], built)


@cached(len(PACKAGES))
def version(package: str = "anabranch") -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return ""

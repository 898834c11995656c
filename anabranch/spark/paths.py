"""How Spark spells the path of a file, and how the table's metadata does.

Spark's `_metadata.file_path` is a URI: `file:/a%20b/c.parquet`.  Metadata lists plain strings:
`/a b/c.parquet`, `file:/a b/c.parquet`, `file:///a b/c.parquet`, `s3://bucket/a b/c.parquet`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FORM = re.compile(r"file:///(?!/)|file:/(?!/)|/(?!/)")
_EASY = re.compile(r"[A-Za-z0-9/_.=:@,-]*\Z")  # characters that a URI never encodes
_DOUBLED = re.compile(r"(?<![:/])/{2,}")


@dataclass(frozen=True)
class Paths:
    """Files whose paths are all of one form, so that one expression maps them back.

    `form` is what the paths start with: `file:///`, `file:/`, `/`, or empty for other schemes.
    """

    form: str
    files: tuple[str, ...]
    plain: bool  # neither encoded by Spark nor changed in any other way than by form

    @property
    def easily_named(self) -> bool:
        """Whether the last part of every path is the same for Spark and in the metadata."""
        return all(_EASY.match(path.rpartition("/")[2]) for path in self.files)

    def listed(self, uri: str) -> str:
        """Spark's path as the metadata lists it; SQL over an expression, as SQL."""
        decoded = uri if self.plain else f"url_decode(replace({uri}, '+', '%2B'))"
        found = reformed(decoded, self.form)
        odd = {collapsed(path): path for path in self.files if collapsed(path) != path}
        if not odd:
            return found
        pairs = ", ".join(literal(text) for pair in odd.items() for text in pair)
        return f"coalesce(try_element_at(map({pairs}), {found}), {found})"


def reformed(path: str, form: str) -> str:
    local = f"substring({path}, {len('file:/')})"  # from the slash on
    if form == "file:///":
        return f"concat('file://', {local})"
    if form == "/":
        bare = f"regexp_replace({path}, '^[A-Za-z0-9+.-]+:(//[^/]*)?', '')"
        return f"CASE WHEN startswith({path}, 'file:/') THEN {local} ELSE {bare} END"
    return path


def literal(text: str) -> str:
    """A text in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def collapsed(path: str) -> str:
    """Spark takes a//b for a/b."""
    return _DOUBLED.sub("/", path)


def by_form(files: Sequence[str]) -> list[Paths]:
    groups: dict[str, list[str]] = {}
    for path in files:
        found = _FORM.match(path)
        groups.setdefault(found.group() if found else "", []).append(path)
    return [
        Paths(form, tuple(paths), all(_EASY.match(p) and collapsed(p) == p for p in paths))
        for form, paths in groups.items()
    ]

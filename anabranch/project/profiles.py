"""Profiles: the variables of a project, from [variables] and [profiles.<name>.variables]."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import InvalidValue, UnknownName
from anabranch.places import read_toml
from anabranch.project.problems import Problem
from anabranch.project.variables import literal
from anabranch.settings import FILE

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Profile:
    """`name` is None when the file has no profile of the name that is set by default."""

    name: str | None
    variables: Mapping[str, object] = field(default_factory=dict, hash=False)


def read_profile(file: Path, wanted: str, asked: bool) -> Profile:
    """The profile of a project file; one that was asked for by name must be there."""
    text = read_toml(file)
    profiles = _table(text, "profiles", "[profiles]")
    if asked and wanted not in profiles:
        raise UnknownName(f"{FILE} has no profile {wanted!r}", name=wanted, known=list(profiles))
    chosen = _table(profiles, wanted, f"[profiles.{wanted}]")
    variables = {
        **_table(text, "variables", "[variables]"),
        **_table(chosen, "variables", f"[profiles.{wanted}.variables]"),
    }
    for name in variables:
        if not _NAME.match(name):
            raise InvalidValue(
                f"{FILE}: {name!r} is not a name for a variable",
                hint="use letters, digits and _, not starting with a digit",
            )
        literal(name, variables[name])  # raises what has none
    return Profile(wanted if wanted in profiles else None, variables)


def _table(text: Mapping[str, Any], name: str, shown: str) -> Mapping[str, Any]:
    found = text.get(name, {})
    if not isinstance(found, Mapping):
        raise InvalidValue(
            f"{FILE}: {shown} is not a table", hint=f"write {shown} and lines below it"
        )
    return found


def unused(file: Path, profile: Profile, used: Collection[str]) -> list[Problem]:
    """Variables that no file mentions: leftovers, or misspelt where they are used."""
    lines = file.read_text(encoding="utf-8").splitlines()
    problems = []
    for name in sorted(profile.variables.keys() - set(used)):
        pattern = re.compile(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=")
        found = ((at, text) for at, text in enumerate(lines, 1) if pattern.match(text))
        line, text = next(found, (1, ""))
        column = text.find(name) + 1 or 1
        message = f"variable {name} is not used"
        hint = f"write :{name} where it belongs, or take it out"
        problems.append(Problem(FILE, line, column, message, hint, text))
    return problems

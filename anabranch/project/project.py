"""A project: its files, its profile, and what they come to."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from anabranch.deploy.snapshot import Snapshot
from anabranch.errors import InvalidValue, UserError
from anabranch.places import find_file, read_toml
from anabranch.project.compile import Compiled, compile_files
from anabranch.project.lock import read_lock
from anabranch.project.problems import refuse
from anabranch.project.profiles import Profile, read_profile, unused
from anabranch.project.read import MODEL_PATH, MODELS, Reader
from anabranch.project.records import Files
from anabranch.project.snapshot import snapshot
from anabranch.settings import FILE, PROJECT_NAME, Settings

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True)
class Project:
    """A folder that was read; mistakes are kept until somebody asks what it comes to."""

    root: Path
    profile: Profile
    settings: Settings
    files: Files
    name: str | None = None  # under which its objects are recorded as its own

    @cached_property
    def compiled(self) -> Compiled:
        """Everything resolved, with all that is wrong."""
        return compile_files(
            self.files,
            allow_circular=self.settings.allow_circular,
            allow_external_code=self.settings.allow_external_code,
        )

    def check(self) -> Compiled:
        """Everything resolved; raises NotCompiled with every mistake if there is one."""
        refuse(self.compiled.problems)
        return self.compiled

    def snapshot(self) -> Snapshot:
        """The project at this moment, for change sets and deployments."""
        return snapshot(self.check())

    def required_name(self) -> str:
        """The name, which a deployment needs to know whose objects are whose."""
        if self.name is None:
            raise UserError(
                f"{self.root / FILE} does not name the project",
                hint=f'add this line at its top: {PROJECT_NAME} = "{new_name(self.root)}"',
            )
        return self.name


def load(path: str | os.PathLike[str] = ".", profile: str | None = None) -> Project:
    """Read the project in a folder or in the nearest folder above it that has a project file."""
    file = find_file(Path(path).absolute(), FILE)
    if file is None:
        raise UserError(
            f"there is no project in {Path(path).absolute()}: no {FILE}",
            hint="`anabranch init` starts one",
        )
    root = file.parent
    given = {} if profile is None else {"profile": profile}
    settings = Settings.load(None, file, **given)
    chosen = read_profile(file, settings.profile, asked="profile" in settings.origins)
    if not (root / MODELS).is_dir():
        raise UserError(
            f"{root} has no folder {MODELS}", hint=f"objects are defined in {MODEL_PATH}"
        )
    reader = Reader(root, chosen.variables)
    files = reader.read()
    left_over = tuple(unused(file, chosen, reader.used))
    external, wrong = read_lock(root)
    found = replace(
        files,
        problems=(*files.problems, *left_over, *wrong),
        external=external,
        catalogs=frozenset(name.partition(".")[0] for name in settings.catalogs),
    )
    return Project(root, chosen, settings, found, read_name(file))


def read_name(file: Path) -> str | None:
    """The name that a project file gives its project."""
    found = read_toml(file).get(PROJECT_NAME)
    if found is not None and not (isinstance(found, str) and _NAME.match(found)):
        raise InvalidValue(
            f"{file}: {found!r} cannot be the name of a project",
            hint="use letters, digits, _, - and ., as in "
            f'{PROJECT_NAME} = "{new_name(file.parent)}"',
        )
    return found


def new_name(folder: Path) -> str:
    """A name for the project in a folder, which no other gets: folders of one name are common."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", folder.absolute().name).strip("_.-")
    return f"{plain or 'project'}-{secrets.token_hex(3)}"

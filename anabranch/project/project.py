"""A project: its files, its profile, and what they come to."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from anabranch.deploy.snapshot import Snapshot
from anabranch.errors import UserError
from anabranch.places import find_file
from anabranch.project.compile import Compiled, compile_files
from anabranch.project.problems import refuse
from anabranch.project.profiles import Profile, read_profile, unused
from anabranch.project.read import MODEL_PATH, MODELS, Reader
from anabranch.project.records import Files
from anabranch.project.snapshot import snapshot
from anabranch.settings import FILE, Settings


@dataclass(frozen=True)
class Project:
    """A folder that was read; mistakes are kept until somebody asks what it comes to."""

    root: Path
    profile: Profile
    settings: Settings
    files: Files

    @cached_property
    def compiled(self) -> Compiled:
        """Everything resolved, with all that is wrong."""
        return compile_files(self.files, allow_circular=self.settings.allow_circular)

    def check(self) -> Compiled:
        """Everything resolved; raises NotCompiled with every mistake if there is one."""
        refuse(self.compiled.problems)
        return self.compiled

    def snapshot(self) -> Snapshot:
        """The project at this moment, for change sets and deployments."""
        return snapshot(self.check())


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
    settings = Settings.load(file, **given)
    chosen = read_profile(file, settings.profile, asked="profile" in settings.origins)
    if not (root / MODELS).is_dir():
        raise UserError(f"{root} has no folder {MODELS}", hint=f"objects stand in {MODEL_PATH}")
    reader = Reader(root, chosen.variables)
    files = reader.read()
    left_over = tuple(unused(file, chosen, reader.used))
    return Project(root, chosen, settings, replace(files, problems=(*files.problems, *left_over)))

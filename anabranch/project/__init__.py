"""A folder of plain SQL under git, as a project: load it, compile it, test it."""

from __future__ import annotations

from anabranch.project.project import Project, load

__all__ = ["Project", "load"]

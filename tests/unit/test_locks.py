"""The lock files can be installed with every Python that is supported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

LOCKS = Path(__file__).resolve().parents[2] / "requirements"
PYTHONS = ("3.10.0", "3.11.0", "3.12.0", "3.13.0", "3.14.0")


def pins(lock: str) -> list[Requirement]:
    lines = (LOCKS / lock).read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def wanted_for(pin: Requirement, python: str) -> bool:
    versions = {"python_full_version": python, "python_version": python.rsplit(".", 1)[0]}
    return pin.marker is None or pin.marker.evaluate(versions)


def needs(pin: Requirement) -> SpecifierSet | None:
    """The Pythons that a pinned release takes, if this very release is installed here."""
    try:
        found = metadata(pin.name)
    except PackageNotFoundError:
        return None
    same = pin.specifier.contains(found["Version"], prereleases=True)
    return SpecifierSet(str(found.json.get("requires_python") or "")) if same else None


@pytest.mark.parametrize("lock", ["runtime.txt", "dev.txt"])
def test_every_pin_is_for_the_pythons_it_is_wanted_for(lock: str) -> None:
    known = {pin: found for pin in pins(lock) if (found := needs(pin)) is not None}
    assert len(known) > 10, "the environment is the locked one"
    wrong = [
        f"{pin} on Python {python}"
        for pin, takes in known.items()
        for python in PYTHONS
        if wanted_for(pin, python) and not takes.contains(python)
    ]
    assert wrong == []


@pytest.mark.parametrize("lock", ["runtime.txt", "dev.txt"])
def test_no_package_is_pinned_twice_for_one_python(lock: str) -> None:
    for python in PYTHONS:
        names = [pin.name for pin in pins(lock) if wanted_for(pin, python)]
        assert len(names) == len(set(names)), python

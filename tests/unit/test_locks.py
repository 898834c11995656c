"""The lock files can be installed with every Python that is supported."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import audit
from sbom import components, sbom

LOCKS = Path(__file__).resolve().parents[2] / "requirements"
PYTHONS = ("3.10.0", "3.11.0", "3.12.0", "3.13.0", "3.14.0")


def pins(lock: str) -> list[Requirement]:
    lines = (LOCKS / lock).read_text("utf-8").splitlines()
    return [Requirement(line.rstrip(" \\")) for line in lines if line and line[0] not in "# "]


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


@pytest.mark.parametrize("lock", ["runtime.txt", "dev.txt"])
def test_every_pin_has_hashes(lock: str) -> None:
    """pip --require-hashes refuses the whole file if one has none."""
    found = components((LOCKS / lock).read_text("utf-8"))
    assert len(found) == len(pins(lock))
    assert [each["name"] for each in found if not each["hashes"]] == []


def test_the_bill_of_materials_lists_every_pin() -> None:
    found = sbom((LOCKS / "runtime.txt").read_text("utf-8"))
    assert found["bomFormat"] == "CycloneDX"
    names = {(each["name"], each["version"]) for each in found["components"]}
    assert names == {
        (pin.name, str(pin.specifier).removeprefix("==")) for pin in pins("runtime.txt")
    }
    refs = [each["bom-ref"] for each in found["components"]]
    assert len(refs) == len(set(refs)) == len(found["dependencies"][0]["dependsOn"])


def test_an_audit_that_could_not_ask_claims_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICE", "http://127.0.0.1:9/")
    monkeypatch.setattr("sys.argv", ["audit"])
    assert audit.main() == 3
    assert "NOT AUDITED" in capsys.readouterr().err

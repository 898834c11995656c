"""Which archive of classes belongs to this Java and this Spark, and when it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import Unreachable
from anabranch.spark import archive
from anabranch.spark.archive import MAKING, java_option, place
from anabranch.spark.session import start_conf


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "anabranch"


def made() -> Path:
    path = place()
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_nothing_is_asked_of_java_without_an_archive(cache: Path) -> None:
    assert java_option() == ""
    assert "SharedArchive" not in start_conf({}).get("spark.driver.extraJavaOptions")


def test_an_archive_is_used(cache: Path) -> None:
    path = made()
    assert path.parent == cache
    assert java_option() == f"-XX:SharedArchiveFile={path}"
    options = start_conf({"spark.conf.spark.driver.extraJavaOptions": "-Da=b"}).get(
        "spark.driver.extraJavaOptions"
    )
    assert options.startswith(f"-Da=b -XX:SharedArchiveFile={path} -Dlog4j2")


def test_it_is_not_used_while_it_is_made(cache: Path) -> None:
    made()
    assert java_option(f"{MAKING}/x.jsa") == ""


def test_the_users_own_archive_is_used_instead(cache: Path) -> None:
    made()
    assert java_option("-XX:SharedArchiveFile=/mine.jsa") == ""


def test_java_that_writes_none(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "end_java", lambda patience: None)
    path = place()
    assert path is not None
    with pytest.raises(Unreachable, match="Java wrote none"):
        archive.make(path, lambda option: None)
    assert list(cache.iterdir()) == []


def test_another_java_has_another(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made()
    other = cache.parents[1] / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setenv("JAVA_HOME", str(other.parents[1]))
    assert place() != first
    assert java_option() == ""


def test_no_java_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert place() is None
    assert java_option() == ""


def test_a_folder_with_a_space(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent / "a b"))
    path = made()
    assert java_option() == f'"-XX:SharedArchiveFile={path}"'


def test_it_appears_whole_or_not_at_all(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "end_java", lambda patience: None)  # other tests' Spark runs on
    path = place()
    assert path is not None

    def fails(option: str) -> None:
        Path(option.removeprefix(MAKING)).touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        archive.make(path, fails)
    assert list(cache.iterdir()) == []
    archive.make(path, lambda option: Path(option.removeprefix(MAKING)).touch())
    assert list(cache.iterdir()) == [path]

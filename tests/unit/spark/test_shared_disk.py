"""Whether everybody sees a folder is asked once, of a Spark Connect server as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.cache import Cache
from anabranch.errors import Refused
from anabranch.spark import shared_disk
from anabranch.spark.shared_disk import see_from_everywhere


class Remote:
    """As much of a Connect session as is asked for."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The sessions whose servers were asked."""
    (tmp_path / "anabranch.json").write_text("{}")
    asked: list[str] = []

    def answer(session: Any, folder: Path) -> list[list[str]]:
        asked.append(session.session_id)
        return [[str(at), "process"] for at in range(len(list((folder / "in").iterdir())))]

    monkeypatch.setattr(shared_disk, "answer", answer)
    monkeypatch.setattr(shared_disk, "_seen", Cache[set[str]](10, "executors"))
    return asked


def test_a_server_is_asked_once_for_a_session(probes: list[str], tmp_path: Path) -> None:
    first, second = Remote("1"), Remote("2")
    for at in range(5):
        see_from_everywhere(first, f"file://{tmp_path}/t/data/{at}")  # type: ignore[arg-type]
    assert probes == ["1"], "not before each write"
    for _ in range(2):  # it is another session once the connection was made again
        see_from_everywhere(second, f"file://{tmp_path}/t/data/1")  # type: ignore[arg-type]
    assert probes == ["1", "2"]


def test_a_server_that_does_not_see_it_is_asked_again(
    probes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shared_disk, "answer", lambda *_: [])
        for _ in range(2):
            with pytest.raises(Refused, match="the Spark Connect server sees it"):
                see_from_everywhere(Remote("1"), f"{tmp_path}/t/data/1")  # type: ignore[arg-type]
    see_from_everywhere(Remote("1"), f"{tmp_path}/t/data/1")  # type: ignore[arg-type]
    assert probes == ["1"]


def test_executors_that_cannot_be_listed_are_asked_once(
    probes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_disk, "executors", lambda _: frozenset())
    for _ in range(3):
        see_from_everywhere(Remote("1"), f"{tmp_path}/t/data/1")  # type: ignore[arg-type]
    assert probes == ["1"]

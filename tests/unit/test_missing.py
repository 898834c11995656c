"""What is said when a private part of a library is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch
from anabranch import missing


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    missing.forget()
    yield
    missing.forget()


def test_it_is_logged_once_and_kept_by_the_next_publish(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", logger="anabranch"):
        for _ in range(3):
            missing.note("Frame._it", "the long way is taken", AttributeError("no _it"))
    said = "Frame._it cannot be used: the long way is taken (AttributeError: no _it)"
    assert caplog.messages == [said]
    with anabranch.connect(tmp_path) as ab:
        assert ab.events() == []
        ab.sql("CREATE TABLE s.one (id INT)")
        ab.sql("CREATE TABLE s.two (id INT)")
        (event,) = ab.events()
    assert (event["table"], event["kind"], event["message"]) == (None, "FALLBACK", said)


def test_a_publish_that_fails_keeps_it_for_the_next(tmp_path: Path) -> None:
    missing.note("Frame._it", "the long way is taken", AttributeError("no _it"))
    with anabranch.connect(tmp_path) as ab:
        with pytest.raises(anabranch.AnabranchError), ab.transaction():
            ab.sql("CREATE TABLE s.one (id INT)")
            ab.sql("CREATE TABLE s.one (id INT)")
        assert missing.waiting() and ab.events() == []
        ab.sql("CREATE TABLE s.one (id INT)")
        assert not missing.waiting() and len(ab.events()) == 1

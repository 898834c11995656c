"""Files that lack rows, or hold rows that nobody produced, are never committed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import RowsLost
from anabranch.spark import write
from tests.e2e.world import bag, rows

List = Callable[[str], list[str]]


def losing(real: List) -> List:
    """As a driver lists a folder when a task wrote to another disk."""
    return lambda folder: sorted(real(folder))[1:]


def straying(real: List) -> List:
    """As after a task that failed, or ran twice, and left its file."""

    def found(folder: str) -> list[str]:
        root = Path(folder.removeprefix("file://"))
        first = sorted(real(folder))[0]
        shutil.copy(root / first, root / Path(first).with_name("part-stray.parquet"))
        return real(folder)

    return found


@pytest.mark.parametrize("wrong", [losing, straying])
@pytest.mark.extended
def test_nothing_is_published(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[List], List]
) -> None:
    ab.set("allow_circular", True)
    ab.sql("CREATE TABLE l.s (id BIGINT); INSERT INTO l.s VALUES (1), (2)")
    ab.create_stream_table("l.t", "SELECT id FROM l.s", schedule=None)
    ab.create_stream_table("l.sums", "SELECT sum(id) AS n FROM l.s", schedule=None)
    ab.create_stream_tables(
        {"l.a": "SELECT id FROM l.s UNION SELECT id FROM l.b", "l.b": "SELECT id FROM l.a"},
        schedule=None,
    )
    ab.sql("INSERT INTO l.s VALUES (3)")
    cuts = len(ab.cuts())
    with monkeypatch.context() as patch:
        patch.setattr(write, "list_files", wrong(write.list_files))
        for statement in (
            "INSERT INTO l.s VALUES (4)",
            "UPDATE l.s SET id = 9 WHERE id = 1",
            "CREATE TABLE l.u AS SELECT * FROM l.s",
            "REFRESH STREAM TABLE l.t",
            "REFRESH STREAM TABLE l.sums",
            "REFRESH STREAM TABLE l.a",
            "REFRESH STREAM TABLE l.t FULL",
        ):
            with pytest.raises(RowsLost, match="Spark produced .* rows, but the files"):
                ab.sql(statement)
    assert len(ab.cuts()) == cuts
    assert bag(ab.table("l.s")) == rows((1,), (2,), (3,))
    assert bag(ab.table("l.t")) == bag(ab.table("l.a")) == rows((1,), (2,))
    lost = {each["table"] for each in ab.events() if each["kind"] == "ROWS_LOST"}
    assert {"l.s", "l.u", "l.t", "l.sums"} < lost and lost & {"l.a", "l.b"}
    ab.refresh()
    assert bag(ab.table("l.t")) == bag(ab.table("l.a")) == rows((1,), (2,), (3,))

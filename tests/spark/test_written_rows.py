"""Rows that Spark produced against rows that are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError

from anabranch import missing
from anabranch.cache import Cache
from anabranch.errors import DataError, Refused
from anabranch.model import Column
from anabranch.spark import private, shared_disk
from anabranch.spark import write as writing
from anabranch.spark.session import Spark
from anabranch.spark.shared_disk import see_from_everywhere
from anabranch.spark.write import write

ID = (Column("id", "bigint", True, 1),)
OPS = "SELECT id, IF(id < 3, 'add', 'keep') AS _ab_op FROM range(10)"


@pytest.mark.parametrize("itself", [True, False])
def test_every_way_tells_the_rows(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, itself: bool
) -> None:
    monkeypatch.setattr(writing, "_counts_itself", itself)
    session = spark.session
    for rows, files in (("SELECT id FROM range(7)", 1), (OPS, 1), (OPS, None)):
        done = write(session.sql(rows), str(tmp_path / "t"), ID, files)
        found = [pq.read_metadata(path).num_rows for path in (*done.add, *done.keep)]
        assert done.rows == sum(found) == session.sql(rows).count()
    assert write(session.sql("SELECT id FROM range(0)"), str(tmp_path / "t"), ID).rows == 0
    with pytest.raises(DataError):
        write(session.sql("SELECT id DIV 0 AS id FROM range(2)"), str(tmp_path / "t"), ID)
    assert writing._counts_itself is itself


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_written_once(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptive: str
) -> None:
    """Adaptive execution wraps the write, and its count is found all the same."""
    monkeypatch.setattr(writing, "_counts_itself", True)
    monkeypatch.setattr(writing, "_observed", lambda *_: pytest.fail("written once more"))
    before = spark.session.conf.get("spark.sql.adaptive.enabled", "true")
    spark.session.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        shuffled = spark.session.range(70).groupBy("id").count().select("id")
        assert write(shuffled, str(tmp_path / "t"), ID).rows == 70
    finally:
        spark.session.conf.set("spark.sql.adaptive.enabled", str(before))


def test_a_spark_that_does_not_tell(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public way is taken from then on."""
    monkeypatch.setattr(writing, "_counts_itself", True)
    monkeypatch.setattr(private, "write_of", lambda *_: None)
    done = write(spark.session.sql("SELECT id FROM range(7)"), str(tmp_path / "t"), ID)
    assert done.rows == 7 and writing._counts_itself is False
    assert len(list((tmp_path / "t").iterdir())) == 1


def test_a_count_that_cannot_be_read_once(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That write is done the public way, leaves nothing else, and the log says why."""
    monkeypatch.setattr(writing, "_counts_itself", True)
    real = private.rows_written

    class Done:
        def queryExecution(self) -> None:
            raise Py4JError("no metrics today")

    monkeypatch.setattr(private, "rows_written", lambda _: real(Done()))
    missing.forget()
    with caplog.at_level("WARNING", logger="anabranch"):
        done = write(spark.session.sql("SELECT id FROM range(7)"), str(tmp_path / "t"), ID)
    assert done.rows == 7 and writing._counts_itself is True
    assert "no metrics today" in caplog.text
    found = [str(path) for path in (tmp_path / "t").rglob("*.parquet")]
    assert sorted(found) == sorted(done.add)
    assert len(list((tmp_path / "t").iterdir())) == 1


def test_a_folder_that_others_do_not_see(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark.session
    (tmp_path / "anabranch.json").write_text("{}")
    tried: list[Path] = []
    real = shared_disk.answer

    def answer(session: Any, folder: Path) -> list[list[str]]:
        tried.append(folder)
        return real(session, folder)

    monkeypatch.setattr(shared_disk, "answer", answer)
    see_from_everywhere(session, f"file://{tmp_path}/t/data/1")
    assert not tried, "one process sees what it sees"
    monkeypatch.setattr(shared_disk, "in_one_process", lambda _: False)
    there = {"driver", "one"}
    monkeypatch.setattr(shared_disk, "executors", lambda _: frozenset(there))
    monkeypatch.setattr(shared_disk, "_seen", Cache[set[str]](10, "executors"))
    for table in ("t", "u"):
        see_from_everywhere(session, f"file://{tmp_path}/{table}/data/1")
    see_from_everywhere(session, "s3a://bucket/t/data/1")
    assert [folder.parent for folder in tried] == [tmp_path], "asked once, at the root"
    there.add("two")  # a new executor, that never answers: there is one process only
    with pytest.raises(Refused, match="1 of 2 executors answered"):
        see_from_everywhere(session, f"file://{tmp_path}/t/data/1")
    there.remove("two")
    assert [path.name for path in tmp_path.iterdir()] == ["anabranch.json"]

    monkeypatch.setattr(shared_disk, "_seen", Cache[set[str]](10, "executors"))
    for broken in (lambda *_: [["0", "p"]], lambda *_: 1 // 0):  # files lost, files not found
        monkeypatch.setattr(shared_disk, "answer", broken)
        with pytest.raises(Refused, match="not every executor of .* sees it"):
            see_from_everywhere(session, f"{tmp_path}/t/data/1")
    assert [path.name for path in tmp_path.iterdir()] == ["anabranch.json"]


@pytest.mark.parametrize(
    ("master", "one"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_masters(master: str, one: bool) -> None:
    class Context:
        pass

    class Session:
        sparkContext = Context()

    Context.master = master  # type: ignore[attr-defined]
    assert shared_disk.in_one_process(Session()) is one  # type: ignore[arg-type]

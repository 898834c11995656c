"""Starting Spark: lazily, quietly, with clear failures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anabranch.errors import Unreachable
from anabranch.spark.session import RUNTIME, Spark, excluded, start_conf, tuning

ROOT = Path(__file__).parents[2]
PROGRAM = """
from anabranch.spark.session import Spark
from anabranch.errors import AnabranchError
from anabranch.spark.query import run_sql
from anabranch.spark.errors import translated
spark = Spark({"spark.master": "local[1]", "spark.conf.spark.driver.memory": "512m"})
assert not spark.started
assert spark.session.range(3).count() == 3
try:
    with translated():
        spark.session.sql("SELECT 1 / (id - id) FROM range(3)").collect()
except AnabranchError as error:
    print(error.message)
spark.stop()
"""


def run(folder: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.extended
def test_nothing_reaches_the_terminal_or_the_folder(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM)
    assert (done.stdout, done.stderr) == ("Division by zero.\n", "")
    assert list(tmp_path.iterdir()) == []


FAILING = """
from anabranch.spark.session import Spark
from anabranch.errors import Unreachable
try:
    Spark(%r).session
except Unreachable as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("settings", "environment", "message"),
    [
        (
            {},
            {"JAVA_HOME": "", "PATH": "/nowhere"},
            "Spark needs Java and none was found: install Java 17",
        ),
        ({}, {"JAVA_HOME": "/nowhere"}, "Spark needs Java and JAVA_HOME=/nowhere has none"),
        ({"spark.conf.spark.driver.memory": "1k"}, {}, "Spark did not start: "),
        ({"spark.master": "nonsense"}, {}, "Spark did not start: "),
    ],
)
def test_a_failed_start_says_why(
    tmp_path: Path, settings: dict[str, str], environment: dict[str, str], message: str
) -> None:
    done = run(tmp_path, FAILING % settings, **environment)
    assert done.stdout.startswith(message), (done.stdout, done.stderr)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_session_of_the_users_own_is_set_up_and_left_running(spark: Spark) -> None:
    session = spark.session
    session.conf.set("spark.sql.ansi.enabled", "false")
    own = Spark({}, session)
    assert {name: own.session.conf.get(name) for name in RUNTIME} == RUNTIME
    own.stop()
    assert session.range(1).count() == 1


def test_given_properties_win() -> None:
    settings = {"spark.master": "local[3]", "spark.conf.spark.sql.shuffle.partitions": "7"}
    conf = dict(start_conf(settings).getAll())
    assert conf["spark.master"] == "local[3]"
    assert conf["spark.sql.shuffle.partitions"] == "7"


def test_the_users_own_excluded_rules_stay() -> None:
    assert excluded("my.Rule, my.Other").split(",")[:2] == ["my.Rule", "my.Other"]
    assert excluded(excluded(None)) == excluded("")


def test_tuning_is_undone(spark: Spark) -> None:
    session = spark.session
    names = list(tuning(0, False))
    before = {name: session.conf.get(name) for name in names}
    with spark.tuned(10):
        assert session.conf.get("spark.sql.adaptive.enabled") == "false"
        assert session.conf.get("spark.sql.shuffle.partitions") == "1"
        with spark.tuned(50_000_000):
            assert session.conf.get("spark.sql.adaptive.enabled") == "true"
        assert session.conf.get("spark.sql.adaptive.enabled") == "false"
    assert {name: session.conf.get(name) for name in names} == before


def test_tuning_by_threads_that_overlap(spark: Spark) -> None:
    session = spark.session
    names = list(tuning(0, False))
    before = {name: session.conf.get(name) for name in names}
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with spark.tuned(10):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with spark.tuned(20):
        thread.start()
        assert inside.wait(10)
    assert session.conf.get("spark.sql.adaptive.enabled") == "false"
    leave.set()
    thread.join()
    assert {name: session.conf.get(name) for name in names} == before


def test_an_unreachable_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="sc://|Connect"):
        _ = Spark({"spark.remote": "sc://127.0.0.1:1"}).session


def test_no_checksum_files_lie_beside_the_data(spark: Spark, tmp_path: Path) -> None:
    spark.session.range(3).coalesce(1).write.parquet(f"{tmp_path}/rows")
    assert [path.name for path in tmp_path.rglob("*.crc")] == []
    assert spark.session.read.parquet(f"{tmp_path}/rows").count() == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"spark.master": "local[2]"}, "4m"),
        ({"spark.master": "local[2]", "spark.conf.spark.buffer.pageSize": "16m"}, "16m"),
        ({"spark.master": "spark://somewhere:7077"}, None),
    ],
)
def test_pages_are_small_in_one_process(settings: dict[str, str], expected: str | None) -> None:
    assert start_conf(settings).get("spark.buffer.pageSize") == expected


OTHER_FILES = """
from anabranch.spark.session import Spark
spark = Spark({
    "spark.master": "local[1]",
    "spark.conf.spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.conf.spark.hadoop.yarn.mine": "7",
})
hadoop = spark.session.sparkContext._jsc.hadoopConfiguration()
print(spark.session.range(3).count(), hadoop.getValByRegex("^yarn").toString())
spark.stop()
"""


@pytest.mark.slow
def test_the_users_own_settings_of_hadoop_stay(tmp_path: Path) -> None:
    done = run(tmp_path, OTHER_FILES)
    assert (done.stdout, done.stderr) == ("3 {yarn.mine=7}\n", "")


def test_settings_of_yarn_are_left_out(spark: Spark) -> None:
    hadoop = spark.session.sparkContext._jsc.hadoopConfiguration()
    assert hadoop.getValByRegex(r"^yarn\.").isEmpty()
    assert hadoop.get("fs.s3a.impl") is not None

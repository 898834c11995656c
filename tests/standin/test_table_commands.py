"""What only SQL or only the command line had: both, and Python, do the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.cli.main import run
from anabranch.cli.session import CliSession
from anabranch.settings import TABLE, Settings
from tests.standin import engine

Capture = pytest.CaptureFixture[str]
QUERY = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CliSession, "connect", lambda session, settings: connect(settings))
    with engine.installed():
        with engine.connect(tmp_path / ".anabranch") as ab:
            ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
            ab.sql("INSERT INTO s.t (k, v) VALUES (1, 10)")
        yield tmp_path


def connect(settings: Settings) -> Anabranch:
    return engine.connect(settings)


def data(capsys: Capture, *words: str, code: int = 0) -> Any:
    assert run([*words, "--json"]) == code, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def names(rows: list[dict[str, Any]], key: str = "name") -> list[Any]:
    return [row[key] for row in rows]


def test_a_stream_table_by_commands(home: Path, capsys: Capture) -> None:
    data(capsys, "create", "s.d", QUERY, "--schedule", "1h", "--refresh-mode", "FULL")
    data(capsys, "create", "s.d", QUERY, "--if-not-exists")
    (row,) = data(capsys, "status")
    assert (row["name"], row["schedule"], row["refresh_mode"]) == ("s.d", "1h", "FULL")
    data(capsys, "alter", "s.d", "--schedule", "none", "--refresh-mode", "auto")
    (row,) = data(capsys, "status")
    assert (row["schedule"], row["refresh_mode"]) == (None, "AUTO")
    data(capsys, "suspend", "s.d")
    assert names(data(capsys, "status"), "status") == ["SUSPENDED"]
    data(capsys, "resume", "s.d")
    assert names(data(capsys, "status"), "status") == ["ACTIVE"]
    assert names(data(capsys, "tick"), "outcome") == ["SKIPPED"]  # by hand only
    assert data(capsys, "tables")[0] == {
        "table": "s.d", "kind": "stream table", "status": "ACTIVE",
    }  # fmt: skip
    assert names(data(capsys, "columns", "S.D"), "column") == ["k", "v"]
    assert run(["columns", "s.dd"]) == 1
    assert 'mean "s.d"' in capsys.readouterr().err
    data(capsys, "drop", "s.d")
    assert data(capsys, "status") == []
    data(capsys, "drop", "s.d", "--if-exists")
    assert run(["drop", "s.d"]) == 1


def test_a_table_that_is_not_filled(home: Path, capsys: Capture) -> None:
    data(capsys, "create", "s.d", QUERY, "--no-initialize")
    assert names(data(capsys, "status"), "populated") == [False]


def test_a_refresh_group_by_commands(home: Path, capsys: Capture) -> None:
    for name in ("s.d", "s.e", "s.f"):
        data(capsys, "create", name, QUERY, "--schedule", "none")
    data(capsys, "groups", "create", "g", "s.d", "s.e", "--isolation", "read_committed")
    data(capsys, "groups", "alter", "g", "--add", "s.f", "--snapshot-timeout-ms", "50")
    (group,) = data(capsys, "groups", "--declared")
    assert group["members"] == ["s.d", "s.e", "s.f"]
    assert (group["isolation"], group["snapshot_timeout_ms"]) == ("read_committed", 50)
    assert names(data(capsys, "groups"), "kind") == ["declared"]
    assert names(data(capsys, "groups", "--diamonds"), "member") == ["s.d", "s.e", "s.f"]
    assert data(capsys, "groups", "--cycles") == []
    assert run(["groups", "alter", "g"]) == 1
    data(capsys, "groups", "drop", "g")
    assert data(capsys, "groups", "--declared") == []


def test_listings_by_commands(home: Path, capsys: Capture) -> None:
    with engine.connect(home / ".anabranch") as ab:
        ab.sql("CREATE INDEX by_k ON s.t (k); CREATE CLUSTER c POOL 'p'")
        assert data(capsys, "indexes") == ab.indexes()
        assert data(capsys, "clusters") == ab.clusters()
    assert "parallelism" in names(data(capsys, "settings"))


def test_the_procedures_do_what_the_methods_do(home: Path) -> None:
    with engine.connect(home / ".anabranch") as ab:
        ab.create_stream_table("s.d", QUERY, schedule=None)
        assert ab.sql("CALL system.verify('s.d')") == [ab.verify("s.d")]
        assert ab.sql("CALL system.lineage('s.d', 'v')") == ab.lineage("s.d", "v")
        assert ab.sql("CALL system.check(deep => TRUE)") == []
        assert [row["outcome"] for row in ab.sql("CALL system.tick()")] == ["SKIPPED"]
        (done,) = ab.sql(f"CALL system.backup('{home / 'copy'}', verify => TRUE)")
        assert done["files_copied"] == done["files"] > 0
        (report,) = ab.sql("CALL system.maintain()")
        assert report.keys() == ab.maintain().keys()
        assert ab.sql("SELECT * FROM system.deployments").collect() == []


def test_a_status_that_cannot_be_set_changes_nothing(home: Path, capsys: Capture) -> None:
    data(capsys, "create", "s.d", QUERY, "--schedule", "1h")
    before = data(capsys, "status")[0]
    words = ("alter", "s.d", "--schedule", "5s", "--status", "PAUSED")
    assert run(words) == 1
    assert "'PAUSED' cannot be set" in capsys.readouterr().err
    after = data(capsys, "status")[0]
    assert (after["schedule"], after["status"]) == (before["schedule"], before["status"])

"""Commands: the answer on stdout, the rest on stderr, and the exit code."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch.cli.main import run
from anabranch.errors import InvalidValue, Refused, SchemaError, Unreachable
from tests.unit.cli.conftest import FakeAnabranch

Capture = pytest.CaptureFixture[str]


def test_status_as_text(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["status"]) == 0
    out, err = capsys.readouterr()
    assert "shop.by_region" in out and "ACTIVE" in out
    assert err == ""
    assert ab.closed


def test_status_as_json_has_every_key(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["status", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["name"] == "shop.by_region"
    assert rows[0]["frontier"] == {"a": 1}


def test_history_is_limited(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["history", "shop.by_region", "--limit", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_cuts(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["cuts"]) == 0
    assert "a.b, a.c" in capsys.readouterr().out
    assert run(["cuts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["tables"] == ["a.b", "a.c"]


def test_events(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["events", "shop.by_region"]) == 0
    out = capsys.readouterr().out
    assert "MODE_CHANGED" in out and "FULL after DIFFERENTIAL" in out
    assert run(["events", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["event_id"] == 1


def test_explain_refresh_maintain(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["explain", "shop.by_region"]) == 0
    assert capsys.readouterr().out == "plan of shop.by_region\n"
    assert run(["refresh"]) == 0
    assert "DIFFERENTIAL" in capsys.readouterr().out and not ab.full
    assert run(["refresh", "--full", "shop.by_region"]) == 0 and ab.full
    capsys.readouterr()
    assert run(["maintain"]) == 0
    assert "files removed: 2" in capsys.readouterr().out


def test_verify_of_all(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["verify", "--json"]) == 0
    assert [row["table"] for row in json.loads(capsys.readouterr().out)] == ["shop.by_region"]


def test_verify_exits_2_when_a_table_differs(ab: FakeAnabranch, capsys: Capture) -> None:
    ab.equal = False
    assert run(["verify", "shop.by_region"]) == 2
    out, err = capsys.readouterr()
    assert "false" in out
    assert err == 'unexpected in shop.by_region: {"region": "eu"}\n'


def test_sql_shows_an_aligned_table(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "CREATE TABLE t (a INT); SELECT * FROM t;"]) == 0
    out, err = capsys.readouterr()
    lines = [line.rstrip() for line in out.splitlines() if line.strip()]
    assert ab.statements == ["CREATE TABLE t (a INT)", "SELECT * FROM t"]
    assert lines[2].endswith("10.50") and lines[3].endswith("3000.00")
    assert "NULL" in lines[3]
    assert "(2 rows)" in err


def test_sql_says_when_rows_are_cut(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "SELECT 1", "--limit", "1"]) == 0
    out, err = capsys.readouterr()
    assert "3000.00" not in out
    assert "1 row shown; there are more" in err


def test_sql_as_json_lines(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "--json", "SELECT 1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '{"id": 1, "region": "eu", "amount": 10.50}'
    assert json.loads(lines[1])["region"] is None


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        (["SELECT 1", "SELECT 2;"], ["SELECT 1", "SELECT 2"]),
        (["SELECT", "1"], ["SELECT 1"]),
        (["SELECT", "'a b'"], ["SELECT 'a b'"]),
    ],
)
def test_sql_from_arguments(ab: FakeAnabranch, words: list[str], ran: list[str]) -> None:
    assert run(["sql", *words]) == 0
    assert ab.statements == ran


def test_sql_from_a_file(ab: FakeAnabranch, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("-- one\nINSERT INTO t VALUES (';');\nDELETE FROM t")
    assert run(["sql", "-f", str(tmp_path / "x.sql")]) == 0
    assert ab.statements == ["INSERT INTO t VALUES (';')", "DELETE FROM t"]


def test_sql_from_stdin(ab: FakeAnabranch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1; SELECT 2"))
    assert run(["sql"]) == 0
    assert ab.statements == ["SELECT 1", "SELECT 2"]


def test_sql_stops_at_the_first_error(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "SELECT * FROM nowhere; SELECT 2"]) == 1
    assert ab.statements == ["SELECT * FROM nowhere"]
    expected = 'error: there is no table nowhere\nhint: did you mean "somewhere"?\n'
    assert capsys.readouterr().err == expected


def test_sql_runs_nothing_when_something_does_not_parse(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "SELECT 1;\nSELECT (2"]) == 1
    assert ab.statements == []
    assert "line 2, column 8" in capsys.readouterr().err


def test_sql_says_what_a_write_did(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["sql", "INSERT INTO shop.sales VALUES (1), (2)"]) == 0
    assert capsys.readouterr() == ("", "INSERT shop.sales: 2 rows inserted\n")
    assert run(["sql", "--json", "INSERT INTO shop.sales VALUES (1), (2)"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_inserted"] == 2


def test_a_home_that_is_not_there_is_not_made_by_looking(
    ab: FakeAnabranch, tmp_path: Path, capsys: Capture
) -> None:
    assert run(["--home", "typo", "status"]) == 1
    assert "there is no catalog in" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert run(["--home", "typo", "sql", "SELECT 1"]) == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidValue("no"), 1),
        (SchemaError("no"), 1),
        (Refused("no"), 2),
        (Unreachable("no"), 3),
        (ZeroDivisionError("no"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(ab: FakeAnabranch, capsys: Capture, error: BaseException, code: int) -> None:
    ab.raises = error
    assert run(["status"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 2
    assert ab.closed


def test_verbose_shows_the_traceback(ab: FakeAnabranch, capsys: Capture) -> None:
    ab.raises = ZeroDivisionError("no")
    assert run(["--verbose", "status"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args", [["frobnicate"], ["status", "--nope"], ["explain"], ["--home", "a", "--catalog", "b"]]
)
def test_a_wrong_command_line_is_the_users_error(
    ab: FakeAnabranch, capsys: Capture, args: list[str]
) -> None:
    assert run([*args, "status"] if args[0] == "--home" else args) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_init_writes_settings_once(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    from anabranch.settings import Settings

    assert run(["init"]) == 0
    assert "anabranch sql" in capsys.readouterr().out
    assert Settings.load().home == f"{tmp_path}/.anabranch"
    assert run(["init"]) == 1
    assert "already exists" in capsys.readouterr().err


def test_init_elsewhere_with_a_server(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    from anabranch.settings import Settings

    url = "postgresql://me:pw@host/db"
    assert run(["--catalog", url, "--warehouse", "files", "init", "new project"]) == 0
    assert "pw@" not in capsys.readouterr().out
    settings = Settings.load(tmp_path / "new project" / "anabranch.toml")
    assert (settings.catalog, settings.warehouse) == (url, f"{tmp_path}/new project/files")


def test_the_settings_file_reads_back_with_every_example_uncommented(tmp_path: Path) -> None:
    from anabranch.cli.project import settings_text
    from anabranch.settings import Settings

    text = settings_text({"home": ".anabranch"})
    lines = [
        line.removeprefix("# ") if " = " in line and line.startswith("# ") else line
        for line in text.splitlines()
    ]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    settings = Settings.load(tmp_path / "all.toml")
    assert settings.snapshot_retention == 7 * 86400
    assert settings.spark_conf == {"spark.driver.memory": "4g"}


LISTING = """
import sys
import anabranch
from anabranch.cli.main import run
code = run(["--help"])
heavy = {"pyspark", "pyiceberg", "pyarrow", "rich", "prompt_toolkit", "sqlglot"} & set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


def test_the_command_line_starts_light() -> None:
    subprocess.run([sys.executable, "-c", LISTING], check=True, capture_output=True)


LOOKING = """
import sys
import anabranch
from anabranch.cli.main import run
for command in ("status", "groups", "history", "cuts", "graph", "events", "deployments"):
    assert run(["--home", sys.argv[1], command]) == 0
heavy = {"pyspark", "pyiceberg", "pyarrow", "pandas", "prompt_toolkit", "sqlglot"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_listings_load_neither_spark_nor_iceberg(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LOOKING, str(tmp_path)], check=True, capture_output=True)


def test_without_a_command_there_is_help(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run([]) == 1
    seen = capsys.readouterr()
    assert seen.out == "" and seen.err.startswith("Usage: anabranch")


def test_the_version_needs_no_installed_package(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"anabranch {anabranch.__version__}\n"


@pytest.mark.parametrize("command", ["history", "events", "cuts", "sql"])
@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_limits_are_at_least_one(
    ab: FakeAnabranch, capsys: Capture, command: str, limit: str
) -> None:
    assert run([command, "--limit", limit]) == 1
    assert limit in capsys.readouterr().err


def test_stream_tables_that_read_each_other_are_made_together(ab: FakeAnabranch) -> None:
    one = "CREATE STREAM TABLE s.a AS SELECT x FROM s.b"
    other = "CREATE STREAM TABLE s.b AS SELECT x FROM s.a"
    assert run(["sql", f"SELECT 1; {one}; {other}; SELECT 2"]) == 0
    assert ab.statements == ["SELECT 1", f"{one}; {other}", "SELECT 2"]


def test_verify_of_all_leaves_out_what_was_never_filled(ab: FakeAnabranch, capsys: Capture) -> None:
    ab.populated = False
    assert run(["verify"]) == 0
    seen = capsys.readouterr()
    assert "shop.by_region has not been filled yet" in seen.err and seen.out == ""


def test_upkeep_says_only_what_it_did(
    ab: FakeAnabranch, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    report: dict[str, Any] = {"tables_compacted": [], "files_deleted": 0, "cut_id": None}
    monkeypatch.setattr(ab, "maintain", lambda: report)
    assert run(["maintain"]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    report |= {"tables_compacted": ["shop.t"], "cut_id": 7}
    assert run(["maintain"]) == 0
    assert capsys.readouterr().out == "tables compacted: shop.t\ncut id: 7\n"

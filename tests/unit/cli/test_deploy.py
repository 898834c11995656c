"""The commands of deployments: the id alone on stdout, JSON everywhere, dry runs that do nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.cli.main import run
from anabranch.cli.session import CliSession
from anabranch.settings import TABLE, Settings
from tests.contract.deploying import without_spark

Capture = pytest.CaptureFixture[str]
FILES = {
    "anabranch.toml": "",
    "models/db/raw/sales.sql": "CREATE TABLE sales (id BIGINT, region STRING)",
    "models/db/mart/first.sql": "CREATE STREAM TABLE first AS SELECT id, region FROM raw.sales",
    "models/db/mart/second.sql": "CREATE STREAM TABLE second AS SELECT id, region FROM first",
    "models/db/top/last.sql": "CREATE STREAM TABLE last AS SELECT id, region FROM mart.second",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in the current folder with a catalog of its own; Spark never starts."""
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    without_spark(monkeypatch.setattr)

    def connect(session: CliSession, settings: Settings) -> Anabranch:
        settings.create_home()
        return anabranch.connect(settings)

    monkeypatch.setattr(CliSession, "connect", connect)
    (tmp_path / ".anabranch").mkdir()
    yield tmp_path


def said(capsys: Capture, *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code, capsys.readouterr()
    return capsys.readouterr().out


def data(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    return json.loads(said(capsys, *arguments, "--json", code=code))


def edit(folder: Path, name: str, old: str, new: str) -> None:
    place = folder / "models/db" / name
    place.write_text(place.read_text().replace(old, new))


def test_from_plan_to_roll_back(folder: Path, capsys: Capture) -> None:
    assert "build    db.mart.first" in said(capsys, "plan")
    made = said(capsys, "stage").strip()
    assert len(made) == 8  # a shell can catch it
    assert data(capsys, "wait", made)["ready"]
    assert said(capsys, "promote", made).startswith(f"promoted {made} as cut ")
    assert said(capsys, "plan") == "nothing to deploy: the project is what is deployed\n"
    edit(folder, "mart/second.sql", "SELECT id", "SELECT id + 1 AS id")
    text = said(capsys, "plan")
    assert "~ db.mart.second was modified" in text
    assert "+CREATE STREAM TABLE second AS SELECT id + 1 AS id, region FROM first" in text
    assert "db.mart.first  db.mart.first is in schema db.mart, which is dirty" in text
    second = data(capsys, "stage")["id"]
    assert data(capsys, "promote")["id"] == second
    assert data(capsys, "rollback")["status"] == "ROLLED_BACK"
    listed = data(capsys, "deployments")
    assert [each["status"] for each in listed] == ["ROLLED_BACK", "PROMOTED"]
    assert second in said(capsys, "deployments")


def test_formatting_alone_is_nothing_to_deploy(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    for name in FILES:
        if name.endswith(("first.sql", "sales.sql")):
            text = FILES[name].lower().replace(" ", "\n  ")
            (folder / name).write_text(f"-- the same\n{text} ;\n")
    assert data(capsys, "plan")["empty"]
    assert run(["stage"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing to deploy" in err


def test_why_what_if_and_select(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "mart/first.sql", "SELECT id", "SELECT id * 2 AS id")
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    assert data(capsys, "plan", "--why", "last")["why"][-1] == "db.top.last was modified"
    assert said(capsys, "plan", "--why", "second").splitlines() == [
        "db.mart.first was modified",
        "db.mart.second reads db.mart.first, which is dirty",
    ]
    steps = data(capsys, "plan", "--select", "top.last")["steps"]
    assert {step["object"] for step in steps} == {"db.top.last"}
    steps = data(capsys, "plan", "--what-if", "second")["steps"]
    assert {step["object"] for step in steps if step["action"] == "build"} == {
        "db.mart.second",
        "db.top.last",
    }
    assert run(["plan", "--why", "sales"]) == 1
    assert "is not dirty" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["promote", "abort"])
def test_dry_runs_do_nothing(folder: Path, capsys: Capture, verb: str) -> None:
    plan = data(capsys, "stage", "--dry-run")
    assert plan["steps"] and data(capsys, "deployments") == []
    made = said(capsys, "stage").strip()
    before = data(capsys, "deployments")
    tried = data(capsys, verb, made, "--dry-run")
    assert tried["id"] == made and len(tried["steps"]) == 4
    assert "nothing was done" in said(capsys, verb, made, "--dry-run")
    assert data(capsys, "deployments") == before
    assert data(capsys, verb, made)["id"] == made


def test_a_roll_back_can_be_tried(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    made = said(capsys, "stage").strip()
    said(capsys, "promote", made)
    tried = data(capsys, "rollback", "--dry-run")
    assert tried["steps"] == [{"action": "restore", "object": "db.top.last"}]
    assert data(capsys, "deployments")[0]["status"] == "PROMOTED"


def test_errors_name_the_next_command(folder: Path, capsys: Capture) -> None:
    assert run(["promote"]) == 2
    assert "hint: `anabranch stage` builds one" in capsys.readouterr().err
    assert run(["wait"]) == 1
    assert "`anabranch stage`" in capsys.readouterr().err
    assert run(["abort", "12345678"]) == 1
    assert "`anabranch deployments` lists them" in capsys.readouterr().err
    made = said(capsys, "stage").strip()
    said(capsys, "promote", made)
    assert run(["abort", made]) == 2
    assert f"hint: `anabranch rollback {made}` takes it back" in capsys.readouterr().err


def test_two_staged_deployments_must_be_told_apart(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    one = said(capsys, "stage").strip()
    edit(folder, "top/last.sql", "id * 3", "id * 4")
    two = said(capsys, "stage").strip()
    assert one != two
    assert run(["promote"]) == 2
    assert "2 deployments are staged" in capsys.readouterr().err
    said(capsys, "promote", one)
    assert run(["promote", two]) == 2
    error = capsys.readouterr().err
    assert f"moved since {two} was staged" in error and f"deployed {one}" in error


def test_a_deleted_source_table_needs_a_flag(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    for name in ("raw/sales.sql", "mart/first.sql"):
        (folder / "models/db" / name).unlink()
    edit(folder, "mart/second.sql", "SELECT id, region FROM first", "SELECT 1 AS id, 'x' AS region")
    assert run(["stage"]) == 2
    assert "--drop-tables" in capsys.readouterr().err
    assert data(capsys, "deployments")[0]["status"] == "PROMOTED"
    made = said(capsys, "stage", "--drop-tables").strip()
    said(capsys, "promote", made)
    assert data(capsys, "plan")["empty"]


def test_a_mistake_in_the_project_is_shown(folder: Path, capsys: Capture) -> None:
    edit(folder, "mart/second.sql", "FROM first", "FROM frist")
    assert run(["stage"]) == 1
    assert 'did you mean "first"' in capsys.readouterr().err

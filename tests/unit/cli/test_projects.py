"""compile, test and init, as far as they need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch import verbs
from anabranch.cli.main import run
from anabranch.project import compile as compiling
from anabranch.project import confirm
from anabranch.project import project as projects
from anabranch.sql import offline
from anabranch.sql.analyze.analysis import Analysis
from anabranch.sql.analyze.walk import Tables
from tests.unit.cli.conftest import FakeAnabranch
from tests.unit.project.folder import ORDERS, REVENUE, project

Capture = pytest.CaptureFixture[str]


def test_compile_says_what_there_is(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    project(tmp_path, orders=ORDERS, revenue=REVENUE + "; CREATE INDEX i ON revenue (region)")
    assert run(["compile"]) == 0
    assert capsys.readouterr() == ("compiled 1 source table, 1 stream table, 1 index\n", "")
    assert run(["compile", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["objects"][1] == {
        "name": "shop.sales.revenue",
        "kind": "stream table",
        "reads": ["shop.sales.orders"],
        "columns": [
            {"name": "region", "type": "string"},
            {"name": "total", "type": "decimal(22,2)"},
        ],
    }


@pytest.mark.analysis_fails
def test_compile_says_whose_analysis_failed(
    ab: FakeAnabranch, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours is neither a mistake of the project nor a clean compile."""
    project(tmp_path, orders=ORDERS, revenue=REVENUE, v="CREATE VIEW v AS SELECT id FROM orders")
    real = compiling.analyze

    def stumbles(query: str, tables: Tables) -> Analysis:
        if "sum(" in query:
            raise AttributeError("_ab_v4")
        return real(query, tables)

    monkeypatch.setattr(compiling, "analyze", stumbles)
    assert run(["compile"]) == 3
    out, err = capsys.readouterr()
    said = "compiled 1 source table, 1 view, 1 stream table; the analysis of 1 object failed\n"
    assert out == said
    assert "shop.sales.revenue: its analysis failed, which is a fault of Anab" in err
    assert "AttributeError: _ab_v4" in err and "--spark" in err and "shop.sales.v:" not in err
    assert run(["compile", "--json"]) == 3
    objects = json.loads(capsys.readouterr().out)["objects"]
    failed = [each["name"] for each in objects if "analysis_failed" in each]
    assert failed == ["shop.sales.revenue"] and len(objects) == 3
    found = projects.load(tmp_path)
    assert found.snapshot().objects  # plan and stage take it: Spark judges it
    (failed,) = found.compiled.failures
    judged = confirm.Confirmed(columns={failed: ()})
    compilation = verbs.projects.Compilation(found, (), judged)  # compile --spark
    assert compilation.unjudged == {} and "its analysis failed" in compilation.notes[0]


@pytest.mark.analysis_fails
def test_compile_says_whose_lowering_failed(
    ab: FakeAnabranch, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = REVENUE.replace(" AS SELECT", " REFRESH MODE DIFFERENTIAL AS SELECT")
    project(tmp_path, orders=ORDERS, revenue=strict)
    assert run(["compile"]) == 0
    capsys.readouterr()

    def lower(*given: object, **named: object) -> object:
        raise KeyError("_ab_v4")

    monkeypatch.setattr(offline, "lower", lower)
    assert run(["compile"]) == 3
    out, err = capsys.readouterr()
    assert out.endswith("; the analysis of 1 object failed\n")
    assert "revenue: its analysis failed" in err and "KeyError" in err


def test_compile_says_every_mistake(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    project(tmp_path, orders=ORDERS, revenue=REVENUE.replace("orders", "ordrs"), x="CREATE VIEW y")
    assert run(["compile"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: 2 mistakes in the project\n")
    assert "models/shop/sales/revenue.sql:1:73: there is no table shop.sales.ordrs" in err
    assert 'hint: did you mean "orders"?' in err
    assert run(["compile", "--json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [(each["file"], each["line"]) for each in problems] == [
        ("models/shop/sales/revenue.sql", 1),
        ("models/shop/sales/x.sql", 1),
    ]


def test_compile_elsewhere_and_in_another_profile(
    ab: FakeAnabranch, tmp_path: Path, capsys: Capture
) -> None:
    toml = "[profiles.prod.variables]\nleast = 5"
    (tmp_path / "inside").mkdir()
    project(tmp_path / "inside", toml=toml, v="CREATE VIEW v AS SELECT :least AS a")
    assert run(["compile"]) == 1
    assert "there is no project in" in capsys.readouterr().err
    assert run(["compile", "--project", "inside"]) == 1
    assert "there is no variable least" in capsys.readouterr().err
    assert run(["compile", "--project", "inside", "--profile", "prod"]) == 0


def test_no_tests_need_no_spark(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    project(tmp_path, orders=ORDERS, revenue=REVENUE)
    assert run(["test"]) == 0
    err = capsys.readouterr().err
    assert "no tests yet" in err and "without a test: revenue" in err
    assert run(["test", "--select", "revenue"]) == 1
    assert "no test is selected by 'revenue'" in capsys.readouterr().err


def test_init_makes_a_project_that_compiles(
    ab: FakeAnabranch, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["init", "shop"]) == 0
    assert "anabranch compile" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "shop")
    assert run(["compile"]) == 0
    assert run(["compile", "--profile", "prod"]) == 0
    assert "4 stream tables" in capsys.readouterr().out


def test_init_leaves_models_alone(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "own" / "models").mkdir(parents=True)
    assert run(["init", "own", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["example"] is False
    assert list((tmp_path / "own" / "models").iterdir()) == []
    assert run(["init", "--bare", "plain"]) == 0
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["anabranch.toml"]

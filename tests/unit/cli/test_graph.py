"""`anabranch graph`: one graph in five forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.cli.graph import painted, signs_for
from anabranch.cli.main import run
from anabranch.graph.drawing.tree import ASCII, UNICODE, Span
from tests.unit.cli.conftest import FakeAnabranch

Capture = pytest.CaptureFixture[str]


def test_a_tree(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["graph"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split() == ["└─", "shop.by_region", "ACTIVE", "2s", "fresh"]
    assert err == ""
    assert run(["graph", "shop.by_region"]) == 0
    assert capsys.readouterr().out == out


def test_languages(ab: FakeAnabranch, capsys: Capture) -> None:
    for option, first in (("--dot", "digraph"), ("--mermaid", "flowchart"), ("--svg", "<svg")):
        assert run(["graph", option]) == 0
        assert capsys.readouterr().out.startswith(first)


def test_json_has_all_facts(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["graph", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"tables", "edges", "groups", "components"}
    assert data["tables"][1]["schedule"] == "2s"


def test_a_picture_in_a_file(ab: FakeAnabranch, tmp_path: Path, capsys: Capture) -> None:
    assert run(["graph", "--svg", "graph.svg"]) == 0
    assert capsys.readouterr() == ("", "wrote graph.svg\n")
    assert (tmp_path / "graph.svg").read_text("utf-8").endswith("</svg>\n")


def test_a_file_that_cannot_be_written(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["graph", "--svg", "no/such/folder.svg"]) == 1
    assert capsys.readouterr().err.startswith("error: cannot write no/such/folder.svg")


def test_an_unknown_table(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["graph", "shop.by_regio"]) == 1
    assert 'did you mean "shop.by_region"?' in capsys.readouterr().err


def test_one_form_at_a_time(ab: FakeAnabranch, capsys: Capture) -> None:
    assert run(["graph", "--dot", "--svg"]) == 1
    assert "give one of --dot, --mermaid and --svg" in capsys.readouterr().err


def test_colours_and_signs() -> None:
    assert painted([(Span("x", "ERROR"), Span("y"))]) == "\x1b[31m\x1b[1mx\x1b[0my\x1b[0m"
    assert signs_for("utf-8") is UNICODE
    assert signs_for("latin-1") is ASCII and signs_for(None) is ASCII

"""The parts of sqlglot's parser that are extended."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sqlglot.parsers.spark import SparkParser

from anabranch.plan import grammar


def test_every_private_part_is_checked() -> None:
    tree = ast.parse(Path(grammar.__file__).read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    private = {name for name in names if name.startswith("_")}
    assert private - own == set(grammar.CALLED)
    assert {name for name in own if hasattr(SparkParser, name)} - {"__init__"} == set(
        grammar.REPLACED
    )


def test_a_parser_that_lacks_a_part_is_refused() -> None:
    class Other:
        def __getattr__(self, name: str) -> None:
            if name == "_parse_term":
                raise AttributeError(name)

    with pytest.raises(ImportError, match=r"has no _parse_term in version \d+"):
        grammar.check_parser(Other())

"""Texts of many letters are answered in time that grows with their length, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from anabranch.errors import AnabranchError, did_you_mean
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.external import refuse_external_code
from anabranch.sql.text.parse import parse_query
from anabranch.sql.text.tokens import tokenize

LONG = 40_000
TEXTS: dict[str, Callable[[int], str]] = {
    "digits": lambda n: f"SELECT {'9' * n} AS x FROM s.t",
    "decimals": lambda n: f"SELECT 1.{'9' * n} AS x FROM s.t",
    "an exponent": lambda n: f"SELECT 1e{'9' * n} AS x FROM s.t",
    "a suffix": lambda n: f"SELECT {'9' * n}BD AS x FROM s.t",
    "an interval": lambda n: f"SELECT INTERVAL '{'9' * n}' DAY AS x FROM s.t",
    "a name": lambda n: f"SELECT {'a' * n} FROM s.t",
    "a function": lambda n: f"SELECT {'a' * n}(k) FROM s.t",
    "a string": lambda n: f"SELECT '{'x' * n}' FROM s.t",
    "quotes": lambda n: f"SELECT '{chr(39) * 2 * n}' FROM s.t",
    "a comment": lambda n: f"SELECT k /* {'x' * n} */ FROM s.t",
    "blanks": lambda n: f"SELECT k {' ' * n} FROM s.t",
    "backticks": lambda n: f"SELECT `{'``' * n}` FROM s.t",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_time_grows_with_the_length(text: Callable[[int], str]) -> None:
    assert spent(text(LONG)) < 12 * spent(text(LONG // 4)) + 1


def spent(text: str) -> float:
    begin = time.process_time()
    for act in (tokenize, refuse_external_code, parse_query):
        with suppress(AnabranchError):
            act(text)  # type: ignore[operator]
    return time.process_time() - begin


def test_a_long_name_is_like_no_other() -> None:
    begin = time.process_time()
    assert did_you_mean("a" * 100_000, functions.KNOWN) is None
    assert time.process_time() - begin < 1
    assert did_you_mean("concatt", functions.KNOWN) == 'did you mean "concat"?'


def test_names_before_brackets_are_found_wherever_they_stand() -> None:
    for text in ("SELECT 1 + reflect('a')", "SELECT `reflect`('a')", "SELECT x, `reflect` ('a')"):
        with pytest.raises(AnabranchError, match="reflect"):
            refuse_external_code(text)

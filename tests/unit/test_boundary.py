"""The boundary of the public verbs: what it checks, and what becomes of foreign errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from anabranch import Anabranch, connect, restore
from anabranch.boundary import public, public_class, translate
from anabranch.errors import InternalError, InvalidValue, Unreachable, Unsupported


@public_class()
class Shop:
    def sell(self, name: str, count: int | None = None, *, tags: Sequence[str] = ()) -> Any:  # type: ignore[name-defined]  # noqa: F821
        if name == "ladder":
            raise KeyError("no ladder")
        return name, count, tags

    @contextmanager
    def opened(self, day: str = "Monday") -> Iterator[str]:
        if day == "Sunday":
            raise KeyError("closed")
        yield day


@pytest.mark.parametrize(
    ("given", "named", "says"),
    [
        ((), {}, "missing a required argument: 'name'"),
        (("x",), {"price": 1}, "unexpected keyword argument 'price'"),
        ((5,), {}, "name is 5"),
        ((b"x",), {}, "name is b'x'"),
        (("a\0b",), {}, "name holds a NUL character"),
        (("\ud800",), {}, "half of a surrogate pair"),
        (("x", True), {}, "count is True"),
        (("x", 2**63), {}, "more than 64 bits"),
        (("x",), {"tags": "red"}, "tags is 'red'"),
        (("x",), {"tags": ["red", 5]}, "tags holds 5"),
    ],
)
def test_arguments_are_checked(given: Any, named: Any, says: str) -> None:
    with pytest.raises(InvalidValue, match=says) as caught:
        Shop().sell(*given, **named)
    assert caught.value.hint


def test_what_fits_passes() -> None:
    assert Shop().sell("x", 3, tags=["red"]) == ("x", 3, ["red"])


def test_foreign_errors_are_translated_but_not_those_of_the_callers_block() -> None:
    with pytest.raises(InternalError, match="KeyError"):
        Shop().sell("ladder")
    with pytest.raises(InternalError, match="closed"), Shop().opened("Sunday"):
        pass
    with pytest.raises(ZeroDivisionError), Shop().opened() as day:
        assert day == "Monday"
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RecursionError(), Unsupported),
        (OverflowError("too large"), InvalidValue),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "odd"), InvalidValue),
        (FileNotFoundError(2, "No such file", "/x"), Unreachable),
        (ValueError("embedded null byte"), InvalidValue),
        (KeyError("x"), InternalError),
    ],
)
def test_each_foreign_error_has_one_of_ours(error: Exception, kind: type[Exception]) -> None:
    assert type(translate(error)) is kind


def test_every_public_verb_goes_through_it() -> None:
    verbs = [
        member for name, member in vars(Anabranch).items() if name[0] != "_" and callable(member)
    ]
    made_here = public(lambda: None).__code__
    assert len(verbs) > 40
    for verb in (*verbs, connect, restore):
        assert inspect.unwrap(verb, stop=lambda f: f.__code__ is made_here).__code__ is made_here


def test_messages_are_fit_to_be_printed() -> None:
    error = InvalidValue("a\x1b[2Jb\ud800" + "x" * 10_000, hint="\x07")
    assert str(error).isprintable() or "\n" in str(error)
    assert "\x1b" not in str(error)
    assert "\x07" not in str(error)
    assert len(str(error)) < 5_000
    str(error).encode()

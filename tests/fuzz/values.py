"""Values that nobody should pass: of other types, out of range, huge, nested, badly encoded."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

LETTERS = (
    "\0",
    "\1",
    "\x1b[2J",
    "\r",
    "\n",
    "\t",
    "\x7f",
    "\x85",
    "\u2028",
    "\ud800",
    "\udfff",
    "\U0010ffff",
    "\ufeff",
    "\u202e",
    "ſ",
    "ı",
    "İ",
    "ß",
    "é",
    "日本",
    "🦆",
    "`",
    "'",
    '"',
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "%",
    "{",
    "}",
    "$",
    "#",
    "@",
    "(",
    ")",
    "[",
    "]",
    ".",
    ",",
    "'x'",
    "${x}",
    "{{ x }}",
    " ",
)
TEXTS = (
    "",
    " ",
    ".",
    "..",
    "a.",
    ".a",
    "a..b",
    "a.b.c.d",
    "`",
    "``",
    "`a",
    '"',
    "s.t",
    "s.d",
    "S.T",
    "s.nothing",
    "system.settings",
    "system.x",
    "default",
    "NULL",
    "None",
    "true",
    "1e999",
    "-1",
    "0",
    "NaN",
    "inf",
    "99999999999999999999999999",
    "1s",
    "0s",
    "-5s",
    "1 fortnight",
    "99999999 days",
    "* * * * *",
    "99 99 99 99 99",
    "@reboot",
    "0 0 30 2 *",
    "calculated",
    "AUTO",
    "FULL",
    "SUSPENDED",
    "ACTIVE",
    "../..",
    "/dev/null",
    "/proc/self/mem",
    "nowhere/at/all",
    "file:///nowhere",
    "abc://bucket/x",
    "http://",
    "jdbc:x",
    "sqlite://",
    "sqlite:///",
    "postgresql://",
    "postgresql://u:p@[::1",
    "~nobody/x",
    "caf\u00e9".encode("latin-1").decode("utf-8", "surrogateescape"),
    "\udcff",
    "ENV('X')",
    "FILE('/nowhere')",
    "SELECT 1 AS x",
    "SELECT k FROM s.t",
    "DROP TABLE s.t",
    "'; DROP TABLE s.t; --",
    "SELECT * FROM s.t WHERE k = 1e400",
    "SELECT 1/0 AS x",
    "\\U11ffffff",
    "\\UFFFFFFFF",
    "\\U0000d800",
    "\\ud800",
    "\\udfff\\ud800",
    "\\ud83e\\udd86",
    "\\u12",
    "\\0",
    "\\177",
    "\\Z\\x\\%",
    "\\",
    "it''s",
    "x\\'y",
    "read_committed",
    "serializable",
)


class Odd:
    """An object whose own methods fail."""

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __str__(self) -> str:
        raise ValueError("no str")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no equality")

    __hash__ = None  # type: ignore[assignment]


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


OBJECTS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: False,
    lambda: 0,
    lambda: -1,
    lambda: 1,
    lambda: 2**31,
    lambda: 2**63,
    lambda: -(2**63) - 1,
    lambda: 10**5000,
    lambda: 0.5,
    lambda: -0.0,
    lambda: math.nan,
    lambda: math.inf,
    lambda: -math.inf,
    lambda: 1e308,
    lambda: 1 + 2j,
    lambda: decimal.Decimal("sNaN"),
    lambda: b"s.t",
    lambda: b"\xff\xfe",
    lambda: bytearray(3),
    list,
    lambda: ["s.t"],
    lambda: [None],
    lambda: [["s.t"]],
    lambda: nested(5000),
    lambda: (),
    dict,
    lambda: {"s.t": None},
    lambda: {None: "x"},
    lambda: {"a": {"b": {}}},
    lambda: {"s.x": "SELECT 1 AS x"},
    set,
    object,
    Odd,
    lambda: Odd,
    lambda: int,
    lambda: print,
    lambda: iter("abc"),
    lambda: Path("nowhere"),
    lambda: Path("/dev/null"),
    lambda: Path("a\0b"),
    lambda: datetime.max,
    lambda: timedelta.max,
    lambda: timedelta(-1),
    lambda: range(3),
    lambda: Ellipsis,
    lambda: Exception("x"),
)


def text(rng: random.Random) -> str:
    kind = rng.randrange(8)
    if kind < 4:
        return rng.choice(TEXTS)
    if kind == 4:
        return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 8)))
    if kind == 5:
        return mutated(rng, rng.choice(TEXTS))
    if kind == 6:
        return rng.choice(LETTERS) * size(rng, 255, 256, 4096)
    return rng.choice("ax.") * size(rng, 255, 256, 5000)


def size(rng: random.Random, *usual: int) -> int:
    return 100_000 if rng.random() < 0.02 else rng.choice(usual)


def mutated(rng: random.Random, given: str) -> str:
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(given) + 1)
        what = rng.choice((rng.choice(LETTERS), given[: rng.randrange(20)], ""))
        given = given[:at] + what + given[at + rng.randrange(3) :]
    return given


def anything(rng: random.Random) -> Any:
    return text(rng) if rng.random() < 0.5 else rng.choice(OBJECTS)()

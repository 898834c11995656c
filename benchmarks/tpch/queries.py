"""The 22 queries: the standard texts with the validation parameters, as the tests have them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "tpch"
NUMBERS = tuple(range(1, 23))


def query(number: int) -> str:
    return (FOLDER / f"q{number:02}.sql").read_text("utf-8")


def queries(numbers: Iterable[int] = NUMBERS) -> dict[str, str]:
    """`q01` … `q22` and their texts."""
    return {f"q{number:02}": query(number) for number in numbers}

"""Which stream tables of a script are made in one batch: those that name one that comes later."""

from __future__ import annotations

import pytest

from anabranch.sql.batches import batches, created_together
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.text.parse import split


def batch(script: str) -> list[str]:
    return [
        str(each.name) for each in created_together([parse_statement(s) for s in split(script)])
    ]


def stream(name: str, *reads: str) -> str:
    return f"CREATE STREAM TABLE g.{name} AS SELECT 1 FROM {', '.join(f'g.{r}' for r in reads)};\n"


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (stream("a", "e") + stream("b", "a"), ["g.a"]),
        (stream("a", "b") + stream("b", "a") + stream("c", "b"), ["g.a", "g.b"]),
        (stream("a", "C") + stream("b", "e") + stream("c", "a"), ["g.a", "g.b", "g.c"]),
        (stream("a", "b") + stream("b", "c") + stream("c", "a"), ["g.a", "g.b", "g.c"]),
        (stream("a", "b") + "SELECT 1; " + stream("b", "a"), ["g.a"]),
        ("SELECT 1; " + stream("a", "b") + stream("b", "a"), []),
        (stream("a", "a"), ["g.a"]),
    ],
)
def test_a_batch_ends_with_the_last_table_that_an_earlier_one_reads(
    script: str, names: list[str]
) -> None:
    assert batch(script) == names


def test_a_script_is_cut_where_batches_end() -> None:
    together = (stream("a", "b") + stream("b", "a")).strip().rstrip(";")
    script = f"-- first\nSELECT ';'; {together} ;; SELECT 2 /* ; */;"
    assert [batch.text for batch in batches(script)] == ["SELECT ';'", together, "SELECT 2"]
    assert [len(batch.statements) for batch in batches(script)] == [1, 2, 1]
    assert batches("-- nothing;") == []

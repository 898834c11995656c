"""What is stored was computed from what is declared, as this version of Anabranch understands it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Anabranch, edition
from anabranch.catalog import streams, tables
from anabranch.edition import Edition
from anabranch.errors import NewerEdition, Refused
from anabranch.names import TableName
from anabranch.refresh import definition
from tests.e2e.graphs import overdue, status
from tests.standin.editions import edition_is, other_plans
from tests.standin.engine import connect, installed

QUERY = "SELECT k, v FROM s.t"
X = TableName.parse("s.x")
CYCLE = {
    "s.p": "SELECT k FROM s.t UNION SELECT k FROM s.q",
    "s.q": "SELECT k FROM s.p",
}


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10)")
        opened.create_stream_table("s.x", QUERY, schedule="1h")
        yield opened
    definition._cache.clear()


def stored_otherwise(ab: Anabranch, *names: str) -> None:
    """The catalog has the fingerprint of an older version."""
    with ab._store.writing() as c:
        for name in names:
            c.execute(
                tables.stream_tables.update()
                .where(tables.stream_tables.c.name == name)
                .values(fingerprint="00")
            )


def by_tick(ab: Anabranch) -> None:
    overdue(ab, "s.x")
    ab.tick()


REFRESHES: tuple[Callable[[Anabranch], Any], ...] = (
    lambda ab: ab.refresh(),
    lambda ab: ab.refresh("s.x"),
    by_tick,
)


@pytest.mark.parametrize("refresh", REFRESHES, ids=("all", "one", "tick"))
def test_rows_of_another_reading_are_recomputed(
    ab: Anabranch, refresh: Callable[[Anabranch], Any]
) -> None:
    stored_otherwise(ab, "s.x")
    with pytest.raises(Refused, match="changed since its last refresh") as refused:
        ab.verify("s.x")
    assert refused.value.hint == "REFRESH STREAM TABLE s.x"
    refresh(ab)
    assert ab.verify("s.x")["equal"]
    assert ab.history("s.x")[0]["action"] == "REINITIALIZE"
    refresh(ab)
    assert [line["action"] for line in ab.history("s.x")].count("REINITIALIZE") == 1


def test_a_cycle_of_another_reading_is_recomputed(ab: Anabranch) -> None:
    ab.set("allow_circular", True)
    ab.create_stream_tables(CYCLE)
    stored_otherwise(ab, "s.q")
    ab.refresh()
    assert ab.history("s.q")[0]["action"] == "REINITIALIZE"
    assert ab.verify("s.q")["equal"] and ab.verify("s.p")["equal"]


def test_an_upgrade_looks_once_and_recomputes_what_it_reads_otherwise(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    edition_is(monkeypatch, "2.0", "bb")
    assert ab.refresh()[0]["action"] == "NO_DATA"
    assert [each.code for each in basis(ab).editions][-1] == "bb"
    assert len(basis(ab).editions) == 2, "both have confirmed it"
    other_plans(monkeypatch, "2.1", "cc")
    assert ab.refresh()[0]["action"] == "REINITIALIZE"
    assert [each.code for each in basis(ab).editions] == ["cc"]
    assert ab.refresh()[0]["action"] == "NO_DATA"


def basis(ab: Anabranch) -> streams.Basis:
    with ab._store.reading() as c:
        found = streams.get(c, X)
    assert found is not None
    return found.basis


def test_two_editions_do_not_undo_what_the_other_did(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one wins, whoever comes last; what it has done is left to it."""

    def versions(count: int = 6) -> set[str]:
        for _ in range(count):
            for number, code in (("2.10", "new"), ("2.9", "old")):
                other_plans(monkeypatch, number, code)
                by_tick(ab)
        return {line["status"] for line in ab.history("s.x")}

    before = len(ab.history("s.x", limit=1_000))
    versions()
    assert basis(ab).fingerprint == "as new reads it"
    lines = ab.history("s.x", limit=1_000)[: -before or None]
    assert sum(line["action"] == "REINITIALIZE" for line in lines) == 1
    assert status(ab, "s.x")["status"] == "ACTIVE"
    ab.sql("INSERT INTO s.t VALUES (2, 20)")
    other_plans(monkeypatch, "2.9", "old")
    by_tick(ab)
    assert status(ab, "s.x")["status"] == "ACTIVE" and len(ab.table("s.x").collect()) == 1
    with pytest.raises(NewerEdition, match=r"anabranch 2\.10.*anabranch 2\.9"):
        ab.refresh("s.x")
    with pytest.raises(Refused) as refused:
        ab.verify("s.x")
    assert refused.value.hint == "REFRESH STREAM TABLE s.x FULL" or "STREAM" in str(refused.value)
    ab.refresh("s.x", full=True)
    assert basis(ab).fingerprint == "as old reads it" and len(ab.table("s.x").collect()) == 2


def test_an_idle_table_of_a_newer_edition_is_looked_at_once(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_plans(monkeypatch, "2.1", "new")
    ab.refresh()
    other_plans(monkeypatch, "2.0", "old")
    by_tick(ab)
    looks = []
    monkeypatch.setattr(definition, "understood", lambda *given, **_: looks.append(given))
    by_tick(ab)
    assert not looks and status(ab, "s.x")["status"] == "ACTIVE"


def test_a_changed_plan_is_another_edition() -> None:
    """There is no number that somebody has to raise: the code of the package is part of the edition."""
    edition.current.cache_clear()
    first = edition.current()
    assert first.code and Edition.parse(str(first)) == first
    assert Edition.parse("2") is None


def test_editions_have_one_order() -> None:
    older, newer = Edition(("2.9", "27", "4"), "ff"), Edition(("2.10", "26", "4"), "aa")
    assert older < newer and not newer < older
    built = [Edition(("2.9", "27", "4"), code, at) for code, at in (("ff", 1), ("aa", 2))]
    assert built[0] < built[1] and built[0] != built[1]
    assert not Edition(("2.9",), "ff", 1) < Edition(("2.9",), "ff", 2), "the same, installed twice"

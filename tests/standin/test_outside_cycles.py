"""Circles that a deployment or a roll-back closes through tables outside of the project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import Anabranch
from anabranch.errors import Refused
from anabranch.verbs.deployments import promote_dry, rollback_dry
from tests.standin.engine import connect, installed

PLAIN = "CREATE STREAM TABLE a AS SELECT k FROM s"
UP = "CREATE STREAM TABLE a AS SELECT k FROM s UNION SELECT k + 1 AS k FROM db.h.o WHERE k < 4"
ABSENT = "CREATE STREAM TABLE a AS SELECT k FROM s WHERE k NOT IN (SELECT k FROM db.h.o)"
ROUND = r"db\.h\.o -> db\.p\.a|db\.p\.a -> db\.h\.o"


class Own:
    """A project with db.p.s and db.p.a; it declares db.h.o of others to read it."""

    def __init__(self, folder: Path, ab: Anabranch) -> None:
        self.folder, self.ab = folder / "own", ab
        self.write("anabranch.toml", 'name = "own"')
        self.write("models/db/p/s.sql", "CREATE TABLE s (k BIGINT)")
        self.write("models/db/h/o.sql", "CREATE TABLE o (k BIGINT)")

    def write(self, name: str, text: str) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def stage(self, query: str) -> str:
        self.write("models/db/p/a.sql", query)
        made = self.ab.stage(str(self.folder))
        assert made is not None
        return made

    def deploy(self, query: str) -> None:
        self.ab.promote(self.stage(query))


class Others:
    """The project of somebody else, which has db.h.o."""

    def __init__(self, folder: Path, ab: Anabranch) -> None:
        self.folder, self.ab = folder / "others", ab

    def deploy(self, query: str, **declared: str) -> None:
        files = {"anabranch.toml": 'name = "others"', "models/db/h/o.sql": query}
        files |= {
            f"models/db/{name.replace('_', '/')}.sql": text for name, text in declared.items()
        }
        for name, text in files.items():
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        made = self.ab.stage(str(self.folder))
        assert made is not None
        self.ab.promote(made)


@pytest.fixture
def ab(tmp_path: Path) -> Iterator[Anabranch]:
    with installed(), connect(tmp_path / "home") as ab:
        yield ab


@pytest.fixture
def own(tmp_path: Path, ab: Anabranch) -> Own:
    """`a` does not read `o` yet; `o` reads nothing of the project."""
    others, own = Others(tmp_path, ab), Own(tmp_path, ab)
    others.deploy("CREATE STREAM TABLE o AS SELECT k FROM db.h.z", h_z="CREATE TABLE z (k BIGINT)")
    own.deploy(PLAIN)
    ab.sql("INSERT INTO db.p.s VALUES (1), (2)")
    ab.refresh()
    return own


def close(ab: Anabranch) -> None:
    ab.alter_stream_table("db.h.o", query="SELECT k FROM db.p.a WHERE k > 1")


@pytest.mark.parametrize("query", [UP, ABSENT])
def test_plan_and_stage_refuse_a_circle_that_is_not_allowed(
    own: Own, ab: Anabranch, query: str
) -> None:
    close(ab)
    own.write("models/db/p/a.sql", query)
    (refused,) = ab.plan(str(own.folder)).as_dict()["refused"]
    assert "read each other in a cycle" in refused["error"]
    assert refused["unless"] is None
    with pytest.raises(Refused, match=ROUND) as raised:
        ab.stage(str(own.folder), suspend_readers=True)
    assert "allow_circular" in (raised.value.hint or "")


def test_promote_refuses_a_circle_that_somebody_closed_since(own: Own, ab: Anabranch) -> None:
    staged = own.stage(UP)
    close(ab)
    with pytest.raises(Refused, match=ROUND):
        promote_dry(ab._runtime, staged)
    with pytest.raises(Refused, match=ROUND):
        ab.promote(staged, suspend_readers=True)
    assert ab.scc_status() == []


def test_the_swap_looks_at_circles_itself(
    own: Own, ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.deploy import promote

    staged = own.stage(UP)
    close(ab)
    monkeypatch.setattr(promote, "deployed_cycles", lambda *_: ())
    with pytest.raises(Refused, match=ROUND):
        ab.promote(staged)


@pytest.mark.parametrize("query", [UP, ABSENT])
def test_a_roll_back_refuses_to_close_a_circle(own: Own, ab: Anabranch, query: str) -> None:
    own.deploy(query)
    own.deploy(PLAIN)
    close(ab)
    with pytest.raises(Refused, match=ROUND):
        rollback_dry(ab._runtime, None, "own")
    with pytest.raises(Refused, match=ROUND):
        ab.rollback(project="own")
    assert ab.scc_status() == []
    ab.alter_stream_table("db.h.o", query="SELECT k FROM db.h.z")
    ab.rollback(project="own")


def test_a_view_closes_a_circle(own: Own, ab: Anabranch) -> None:
    own.write("models/db/p/v.sql", "CREATE VIEW v AS SELECT k FROM s")
    ab.promote(ab.stage(str(own.folder)) or "")
    ab.alter_stream_table("db.h.o", query="SELECT k FROM db.p.v")
    own.write("models/db/p/v.sql", "CREATE VIEW v AS SELECT k FROM s UNION SELECT k FROM db.h.o")
    with pytest.raises(Refused, match=r"db\.h\.o -> db\.p\.v -> db\.h\.o"):
        ab.stage(str(own.folder))


def test_a_circle_that_is_allowed_has_its_rules(own: Own, ab: Anabranch) -> None:
    ab.set("allow_circular", True)
    close(ab)
    own.write("models/db/p/a.sql", ABSENT)
    for verb in (ab.stage, lambda folder: ab.stage(folder, suspend_readers=True)):
        with pytest.raises(Refused, match=r"db\.p\.a reads db\.h\.o, .*NOT IN") as raised:
            verb(str(own.folder))
        assert "-> db.p.a" in raised.value.message
        assert "more rows must never remove rows" in (raised.value.hint or "")
    own.deploy(UP)
    assert [row["members"] for row in ab.scc_status()] == [["db.h.o", "db.p.a"]]
    assert sorted(ab.table("db.p.a").collect()) == [(1,), (2,), (3,), (4,)]
    own.deploy(PLAIN)


def test_promote_asks_spark_for_the_rules(own: Own, ab: Anabranch) -> None:
    ab.set("allow_circular", True)
    staged = own.stage(ABSENT)
    close(ab)
    from anabranch.deploy import promote

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promote, "deployed_cycles", lambda *_: ())
        with pytest.raises(Refused, match=r"db\.p\.a reads db\.h\.o") as raised:
            ab.promote(staged)
    assert "the cycle is closed here" in raised.value.message

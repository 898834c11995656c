"""REFRESH … FULL by every door: the whole group is computed anew, whatever is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch import Anabranch
from anabranch.cli.main import run
from anabranch.cli.session import CliSession
from anabranch.errors import AnabranchError
from tests.standin import files
from tests.standin.damage import forget, roots
from tests.standin.engine import connect, installed

DIAMOND = {
    "s.b": "SELECT k, SUM(v) AS v FROM s.t GROUP BY k",
    "s.c": "SELECT k, COUNT(*) AS n FROM s.t GROUP BY k",
    "s.d": "SELECT b.k, v, n FROM s.b JOIN s.c ON b.k = c.k",
}
ROWS = {"s.b": [(1, 30), (2, 5)], "s.c": [(1, 2), (2, 1)], "s.d": [(1, 30, 2), (2, 5, 1)]}
Door = Callable[[Anabranch], object]


def by_command(ab: Anabranch) -> None:
    assert run(["refresh", "s.b", "--full"]) == 0


DOORS: dict[str, Door] = {
    "sql": lambda ab: ab.sql("REFRESH STREAM TABLE s.b FULL"),
    "python": lambda ab: ab.refresh("s.b", full=True),
    "command": by_command,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".anabranch"


@pytest.fixture
def ab(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Anabranch]:
    monkeypatch.chdir(home.parent)
    monkeypatch.setattr(CliSession, "connect", lambda session, settings: connect(home))
    with installed(), connect(home) as opened:
        opened.sql("CREATE TABLE s.t (k BIGINT, v BIGINT)")
        opened.sql("INSERT INTO s.t VALUES (1, 10), (1, 20), (2, 5)")
        with monkeypatch.context() as patch:
            patch.setattr(files.pq, "write_table", garbling(files.pq.write_table))
            opened.create_stream_tables(DIAMOND, refresh_mode="DIFFERENTIAL", schedule=None)
        yield opened


def garbling(write_table: Callable[..., None]) -> Callable[..., None]:
    """As many rows as there were, and other values in them."""

    def garbled(table: pa.Table, *given: Any, **named: Any) -> None:
        for at, field in enumerate(table.schema):
            if field.name in ("v", "n"):
                table = table.set_column(at, field, pc.add(table.column(at), 100))
        write_table(table, *given, **named)

    return garbled


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_the_whole_group_is_computed_anew(ab: Anabranch, home: Path, door: Door) -> None:
    assert {each["action"] for each in ab.refresh("s.b")} == {"NO_DATA"}
    assert not any(ab.verify(name)["equal"] for name in DIAMOND), "nobody has noticed"
    door(ab)
    recomputed(ab)
    for name in DIAMOND:
        for root in roots(home, name):
            for path in root.glob("data/**/*.parquet"):
                path.unlink()
    forget()
    with pytest.raises(AnabranchError):
        ab.table("s.d").collect()
    door(ab)
    recomputed(ab)


def recomputed(ab: Anabranch) -> None:
    lines = ab.history(limit=len(DIAMOND))
    done = {(line["table"], line["action"], line["reason"]) for line in lines}
    assert done == {(name, "FULL", "asked for") for name in DIAMOND}
    assert len({line["cut_id"] for line in lines}) == 1
    assert {name: sorted(ab.table(name).collect()) for name in DIAMOND} == ROWS
    assert all(ab.verify(name)["equal"] for name in DIAMOND)

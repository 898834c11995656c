"""Transactions of several processes, checked as Elle checks them: what was promised, and no more."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import InvalidValue, PublishConflict
from tests.isolation.checker import Txn, anomalies
from tests.isolation.worker import LISTS, REGISTERS, opened, prepare, values
from tests.postgres import postgres_server
from tests.standin.engine import installed

ROOT = Path(__file__).parents[2]
PROCESSES = 3


def workers(
    target: str,
    warehouse: str,
    folder: Path,
    isolation: str,
    count: int,
    first: int = 0,
    processes: int = PROCESSES,
) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.isolation.worker", target, warehouse]
    return [
        subprocess.Popen(
            [*command, str(folder / f"log{seed}"), str(seed), isolation, str(count)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(first, first + processes)
    ]


def begin(started: Sequence[subprocess.Popen[str]]) -> None:
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n", each.communicate()[1]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()


def history(folder: Path) -> list[Txn]:
    """What the workers wrote down; of two lines about a transaction the later one."""
    lines: dict[str, Mapping[str, Any]] = {}
    for log in sorted(folder.glob("log*")):
        for line in log.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                found = json.loads(line)
                lines[found["id"]] = found
    return [
        Txn(
            **{
                **found,
                "listed": {name: frozenset(rows) for name, rows in found["listed"].items()},
            }
        )
        for found in lines.values()
    ]


def final(target: str, warehouse: str) -> Txn:
    with opened(target, warehouse) as ab, ab.transaction():
        listed = {name: values(ab, name) for name in LISTS}
        for name, rows in listed.items():
            twice = {value for value, count in Counter(rows).items() if count > 1}
            assert not twice, f"{name} has {twice} more than once"
        read = {name: values(ab, name)[0] for name in REGISTERS}
    return Txn("end", "ok", listed={n: frozenset(r) for n, r in listed.items()}, read=read)


def checked(target: str, warehouse: str, folder: Path, allowed: set[str]) -> list[Txn]:
    found = history(folder)
    wrong = anomalies(found, final(target, warehouse))
    assert not [each for each in wrong if each.kind not in allowed], wrong
    return found


def run(target: str, warehouse: str, folder: Path, isolation: str, count: int) -> list[Txn]:
    with installed():
        with opened(target, warehouse) as ab:
            prepare(ab)
        started = workers(target, warehouse, folder, isolation, count)
        begin(started)
        for each in started:
            said = each.communicate()[1]
            assert each.returncode == 0, said
        allowed = {"G2"} if isolation == "snapshot" else set()
        return checked(target, warehouse, folder, allowed)


@pytest.mark.extended
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_histories(tmp_path: Path, isolation: str) -> None:
    found = run(str(tmp_path / "home"), "-", tmp_path, isolation, 8)
    ended = Counter(each.ended for each in found)
    assert ended["ok"] > PROCESSES


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_long_histories(tmp_path: Path, isolation: str) -> None:
    run(str(tmp_path / "home"), "-", tmp_path, isolation, 150)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_histories_on_postgresql(tmp_path: Path, isolation: str) -> None:
    with postgres_server() as url:
        run(url, str(tmp_path / "wh"), tmp_path, isolation, 60)


def kill_at(process: subprocess.Popen[str], log: Path, lines: int) -> None:
    """Once it has written down so many lines: after an odd one a transaction is about to commit."""
    while process.poll() is None:
        if log.exists() and log.read_text().count("\n") >= lines:
            os.kill(process.pid, signal.SIGKILL)
        else:
            time.sleep(0.001)
    assert process.returncode == -signal.SIGKILL, process.communicate()[1]
    process.communicate()


def test_a_short_history_with_kills(tmp_path: Path) -> None:
    """Two of three processes die in the middle of a commit, and the third one goes on."""
    home = str(tmp_path / "home")
    with installed():
        with opened(home, "-") as ab:
            prepare(ab)
        killed = workers(home, "-", tmp_path, "serializable", 1000, processes=2)
        (last,) = workers(home, "-", tmp_path, "serializable", 6, first=100, processes=1)
        begin([*killed, last])
        for seed, each in enumerate(killed):
            kill_at(each, tmp_path / f"log{seed}", 3 + 2 * seed)
        said = last.communicate()[1]
        assert last.returncode == 0, said
        found = checked(home, "-", tmp_path, set())
    ended = Counter(each.ended for each in found)
    assert ended["ok"] >= 1
    assert len(found) > PROCESSES


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_histories_with_kills(tmp_path: Path, isolation: str) -> None:
    """Whether a transaction of a killed process took place may be open, but not half of it."""
    home, chance = str(tmp_path / "home"), random.Random(isolation)
    with installed():
        with opened(home, "-") as ab:
            prepare(ab)
        for turn in range(10):
            started = workers(home, "-", tmp_path, isolation, 1000, first=100 * turn)
            begin(started)
            for each in started:
                time.sleep(chance.uniform(0.3, 1.5))
                os.kill(each.pid, signal.SIGKILL)
                each.communicate()
            checked(home, "-", tmp_path, {"G2"} if isolation == "snapshot" else set())


# -- what each level promises, one case at a time --------------------------------------------------


def skew(folder: Path, isolation: str) -> list[str]:
    """Each of two transactions reads what the other one writes."""
    with installed(), opened(str(folder / "home"), "-") as one:
        prepare(one)
        with opened(str(folder / "home"), "-") as two:
            ended = []
            try:
                with one.transaction(isolation=isolation):
                    assert values(one, "i.r") == ["0"]
                    with two.transaction(isolation=isolation):
                        assert values(two, "i.s") == ["0"]
                        two.sql("UPDATE i.r SET v = 'two'")
                    ended.append("ok")
                    one.sql("UPDATE i.s SET v = 'one'")
                ended.append("ok")
            except PublishConflict as error:
                ended.append(error.message)
    return ended


def test_write_skew_passes_a_snapshot(tmp_path: Path) -> None:
    assert skew(tmp_path, "snapshot") == ["ok", "ok"]


def test_write_skew_is_refused_where_that_is_asked(tmp_path: Path) -> None:
    first, second = skew(tmp_path, "serializable")
    assert first == "ok"
    assert "i.r was changed by another process" in second


def test_a_view_that_was_read_is_compared(tmp_path: Path) -> None:
    with installed(), opened(str(tmp_path / "home"), "-") as one:
        prepare(one)
        one.sql("CREATE VIEW i.w AS SELECT v FROM i.r")
        with (
            opened(str(tmp_path / "home"), "-") as two,
            pytest.raises(PublishConflict, match="view i.w was changed"),
            one.transaction(isolation="serializable"),
        ):
            assert values(one, "i.w") == ["0"]
            two.sql("CREATE OR REPLACE VIEW i.w AS SELECT 'other' AS v FROM i.r")
            one.sql("UPDATE i.s SET v = 'one'")


def test_an_update_that_finds_nothing_has_read_all_the_same(tmp_path: Path) -> None:
    with installed(), opened(str(tmp_path / "home"), "-") as one:
        prepare(one)
        with (
            opened(str(tmp_path / "home"), "-") as two,
            pytest.raises(PublishConflict),
            one.transaction(isolation="serializable"),
        ):
            one.sql("UPDATE i.r SET v = 'never' WHERE v = 'nowhere'")
            two.sql("UPDATE i.r SET v = 'nowhere'")
            one.sql("UPDATE i.s SET v = 'one'")


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_appends_do_not_conflict(tmp_path: Path, isolation: str) -> None:
    """Two transactions that only add to the same table both succeed, whole."""
    with installed(), opened(str(tmp_path / "home"), "-") as one:
        prepare(one)
        with opened(str(tmp_path / "home"), "-") as two:
            with one.transaction(isolation=isolation):
                one.sql("INSERT INTO i.x VALUES ('a')")
                one.sql("INSERT INTO i.x VALUES ('b')")
                one.sql("INSERT INTO i.y VALUES ('c')")
                with two.transaction(isolation=isolation):
                    two.sql("INSERT INTO i.x VALUES ('d')")
                two.sql("INSERT INTO i.x VALUES ('e')")
            assert sorted(values(two, "i.x")) == ["a", "b", "d", "e"]
            assert values(two, "i.y") == ["c"]
            with one._store.reading() as c:
                assert c.exec_driver_sql("SELECT count(*) FROM ab_stages").scalar_one() == 0


@pytest.mark.parametrize(
    "other",
    [
        "ALTER TABLE i.x ADD COLUMN more BIGINT",
        "COMMENT ON TABLE i.x IS 'other'",
        "DROP TABLE i.x",
    ],
)
def test_rows_are_not_added_to_another_table(tmp_path: Path, other: str) -> None:
    with installed(), opened(str(tmp_path / "home"), "-") as one:
        prepare(one)
        with (
            opened(str(tmp_path / "home"), "-") as two,
            pytest.raises(PublishConflict),
            one.transaction(),
        ):
            one.sql("INSERT INTO i.x VALUES ('a')")
            two.sql(other)
        assert values(one, "i.r") == ["0"]


@pytest.mark.parametrize(
    "act",
    [
        "UPDATE i.x SET v = 'b' WHERE v = 'a'",
        "INSERT INTO i.x SELECT v || '!' FROM i.x",
        "DELETE FROM i.x",
        "ALTER TABLE i.x ADD COLUMN more BIGINT",
        "COMMENT ON TABLE i.x IS 'mine'",
    ],
)
def test_what_depends_on_the_table_is_no_blind_append(tmp_path: Path, act: str) -> None:
    with installed(), opened(str(tmp_path / "home"), "-") as one:
        prepare(one)
        with opened(str(tmp_path / "home"), "-") as two:
            with pytest.raises(PublishConflict), one.transaction():
                one.sql("INSERT INTO i.x VALUES ('a')")
                one.sql(act)
                two.sql("INSERT INTO i.x VALUES ('d')")
            assert values(two, "i.x") == ["d"]


def test_an_unknown_level(tmp_path: Path) -> None:
    with (
        installed(),
        opened(str(tmp_path / "home"), "-") as ab,
        pytest.raises(InvalidValue, match="there is no isolation level 'none'"),
        ab.transaction(isolation="none"),
    ):
        pass

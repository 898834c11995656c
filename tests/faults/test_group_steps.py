"""A fault at every step of a group's refresh, one run for each: all of the group moves, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import failpoints
from anabranch.catalog import cuts, history, leases, stages, streams
from anabranch.errors import Unreachable
from anabranch.lake import publish
from anabranch.lake.stage import Stage
from anabranch.refresh import staging
from anabranch.refresh.execute import table
from anabranch.spark.session import Spark
from tests.e2e.graphs import RARELY, add, check, no_waiting, overdue, pointers, wait_is_over

# Where the refresh of a group goes past: members, files, metadata, and every row of the transaction.
PLACES: tuple[tuple[Any, str], ...] = (
    (leases, "take"),
    (staging, "refresh_component"),
    (table, "write"),
    (Stage, "commit_rows"),
    (publish, "_write_metadata"),
    (publish, "_swap"),
    (cuts, "advance"),
    (cuts, "add"),
    (stages, "remove"),
    (leases, "end"),
    (streams, "set_inputs"),
    (streams, "set_frontiers"),
    (streams, "set_dependencies"),
    (streams, "set_epochs"),
    (streams, "change_all"),
    (history, "add"),
    (failpoints, "hit"),
)


@dataclass
class Faults:
    """Counts the steps that are gone past, and breaks one of them."""

    at: int | None = None
    passed: list[str] = field(default_factory=list)

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            self.passed.append(name)
            if len(self.passed) - 1 == self.at:
                raise Unreachable(f"{name} broke")
            return real(*given, **named)

        return step


def step_name(place: Any, name: str) -> str:
    return f"{place.__name__.split('.')[-1]}.{name}"


@contextmanager
def faults(monkeypatch: pytest.MonkeyPatch, at: int | None = None) -> Iterator[Faults]:
    found = Faults(at)
    with monkeypatch.context() as patch:
        for place, name in PLACES:
            wrapped = found.wrap(step_name(place, name), getattr(place, name))
            patch.setattr(place, name, wrapped)
        yield found


# Whatever the cut, the two branches cancel out.
QUERIES = {
    "step.b": "SELECT id, x FROM step.s",
    "step.c": "SELECT id, -x AS x FROM step.s",
    "step.d": "SELECT id, x FROM step.b UNION ALL SELECT id, x FROM step.c",
}


def total(ab: anabranch.Anabranch) -> int:
    """All amounts of the three tables at one cut."""
    with ab.at() as world:
        (row,) = world.sql(
            "SELECT sum(x) FROM (SELECT x FROM step.b UNION ALL SELECT x FROM step.c"
            " UNION ALL SELECT x FROM step.d)"
        ).collect()
    found: int = row[0]
    return found


@pytest.mark.extended
def test_a_fault_at_every_step(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_waiting(monkeypatch)
    with anabranch.connect(
        tmp_path, spark=spark.session, parallelism=1, max_consecutive_errors=1000
    ) as ab:
        ab.sql("CREATE TABLE step.s (id BIGINT, x BIGINT)")
        ab.create_stream_tables(QUERIES, schedule=RARELY)
        group = list(QUERIES)
        change(ab, group)
        with faults(monkeypatch) as dry:
            assert [each["outcome"] for each in ab.tick()] == ["PUBLISHED"]
        assert dry.passed.count("staging.refresh_component") == len(group)
        assert dry.passed.count("publish._swap") == 1
        assert {step_name(*each) for each in PLACES} == set(dry.passed), "every place is gone past"
        published = len(dry.passed) - 1 - dry.passed[::-1].index("failpoints.hit")
        for at in range(len(dry.passed)):
            before = pointers(ab, group)
            change(ab, group)
            with faults(monkeypatch, at) as broken:
                (done,) = ab.tick()
            assert done["outcome"] == "FAILED" and "broke" in done["reason"], (at, dry.passed[at])
            assert len(broken.passed) > at, "the fault was met"
            after = pointers(ab, group)
            moved = [name for name in group if after[name] != before[name]]
            assert moved == ([] if at < published else group), (at, dry.passed[at])
            assert nothing_staged(ab), (at, dry.passed[at])
            wait_is_over(ab, *group)
            if at % 10 == 0:
                assert total(ab) == 0
        change(ab, group)
        assert [each["outcome"] for each in ab.tick()] == ["PUBLISHED"]
        assert total(ab) == 0
        check(ab, group)


def change(ab: anabranch.Anabranch, group: list[str]) -> None:
    add(ab, "step.s", [(5, 3)])
    overdue(ab, *group)


def nothing_staged(ab: anabranch.Anabranch) -> bool:
    with ab._store.reading() as c:
        return stages.all_stages(c) == []

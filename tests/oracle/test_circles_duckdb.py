"""Components against plain algorithms: random graphs, programs and changes, on DuckDB."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from anabranch.delta.fixpoint import Converged, NoFixedPoint, Strategy
from anabranch.names import TableName
from tests.oracle.circle import Circle, closure_of
from tests.oracle.kept import World

PAIR = "src INT, dst INT"
SEEDS = int(os.environ.get("ANABRANCH_CIRCLE_SEEDS", "6"))  # of each program, three changes each


@dataclass
class Program:
    """Sources and members with their columns; the members' queries."""

    sources: dict[str, str]
    members: dict[str, str]
    queries: dict[str, str]
    acyclic: bool = False  # ends only on graphs without circles
    values: dict[str, int] = field(default_factory=dict)

    def circle(self) -> Circle:
        world = World({**self.sources, **self.members})
        world.db.execute("PRAGMA disable_optimizer")
        return Circle(world, self.queries)


EDGES = {"e": PAIR}
PROGRAMS = {
    "closure": Program(
        EDGES,
        {"r": PAIR},
        {"r": "SELECT src, dst FROM e UNION SELECT e.src, r.dst FROM e JOIN r ON e.dst = r.src"},
    ),
    "closure by doubling": Program(
        EDGES,
        {"r": PAIR},
        {
            "r": "SELECT src, dst FROM e UNION SELECT a.src, b.dst FROM r a JOIN r b ON a.dst = b.src"
        },
    ),
    "closure of two, one of them a bag": Program(
        EDGES,
        {"ra": PAIR, "rb": PAIR},
        {
            "ra": "SELECT DISTINCT e.src, rb.dst FROM e JOIN rb ON e.dst = rb.src",
            "rb": "SELECT DISTINCT e.src, e.dst FROM e UNION ALL "
            "SELECT ra.src, e.dst FROM ra JOIN e ON ra.dst = e.src",
        },
    ),
    "three members with sources of their own": Program(
        {"e": PAIR, "f": PAIR, "g": PAIR},
        {"x": PAIR, "y": PAIR, "z": PAIR},
        {
            "x": "SELECT src, dst FROM e UNION SELECT z.src, e.dst FROM z JOIN e ON z.dst = e.src",
            "y": "SELECT src, dst FROM f UNION SELECT x.src, f.dst FROM x JOIN f ON x.dst = f.src",
            "z": "SELECT src, dst FROM g UNION SELECT y.src, g.dst FROM y JOIN g ON y.dst = g.src "
            "UNION SELECT src, dst FROM x",
        },
    ),
    "same generation": Program(
        EDGES,
        {"s": PAIR},
        {
            "s": "SELECT a.dst AS src, b.dst AS dst FROM e a JOIN e b ON a.src = b.src UNION "
            "SELECT a.dst, b.dst FROM e a JOIN s ON a.src = s.src JOIN e b ON s.dst = b.src"
        },
    ),
    "labels that reach a node": Program(
        {"e": PAIR, "f": "src INT, dst INT"},
        {"l": "node INT, label INT"},
        {
            "l": "SELECT src AS node, dst AS label FROM f UNION "
            "SELECT e.dst, l.label FROM l JOIN e ON e.src = l.node"
        },
    ),
    "exists, in and intersect": Program(
        {"e": PAIR, "f": PAIR},
        {"x": "n INT", "y": "n INT"},
        {
            "x": "SELECT src AS n FROM f INTERSECT SELECT dst FROM e UNION "
            "SELECT e.dst FROM e WHERE EXISTS (SELECT 1 FROM y WHERE y.n = e.src)",
            "y": "SELECT DISTINCT dst AS n FROM f WHERE src IN (SELECT n FROM x)",
        },
    ),
    "exists, in and any under or": Program(
        {"e": PAIR, "f": PAIR},
        {"x": "n INT", "y": PAIR},
        {
            "x": "SELECT e.dst AS n FROM e WHERE e.src = 1 "
            "OR EXISTS (SELECT 1 FROM y WHERE y.src = e.src) "
            "OR (e.src IN (SELECT n FROM x) AND e.dst > 2)",
            "y": "SELECT DISTINCT f.src, e.dst FROM f LEFT JOIN e ON f.dst = e.src "
            "WHERE f.src > ANY (SELECT n FROM x) OR e.dst NOT IN (SELECT dst FROM f WHERE dst > 3)",
        },
    ),
    "exists in the condition of a join": Program(
        {"e": PAIR, "f": PAIR},
        {"x": PAIR},
        {
            "x": "SELECT src, dst FROM f WHERE src < 3 UNION SELECT e.src, f.dst FROM e JOIN f "
            "ON e.dst = f.src AND (e.src = 2 OR EXISTS (SELECT 1 FROM x WHERE x.dst = e.src))"
        },
    ),
    "what lies outside is aggregated, excepted and outer joined": Program(
        {"e": PAIR, "f": PAIR},
        {"r": PAIR},
        {
            "r": "SELECT src, max(dst) AS dst FROM e GROUP BY src UNION "
            "SELECT e.src, r.dst FROM (SELECT src, dst FROM e EXCEPT SELECT src, dst FROM f) e "
            "JOIN r ON e.dst = r.src LEFT JOIN f ON f.src = r.dst "
            "WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.dst = e.src)"
        },
    ),
    "a member on the left of an outer join and of except": Program(
        {"e": PAIR, "f": PAIR},
        {"r": PAIR},
        {
            "r": "SELECT src, dst FROM e UNION SELECT e.src, coalesce(f.dst, r.dst) FROM r "
            "LEFT JOIN f ON f.src = r.dst JOIN e ON e.dst = r.src "
            "UNION (SELECT dst, src FROM r EXCEPT SELECT src, dst FROM f)"
        },
    ),
    "paths, counted": Program(
        EDGES,
        {"p": PAIR},
        {
            "p": "SELECT src, dst FROM e UNION ALL SELECT e.src, p.dst FROM e JOIN p ON e.dst = p.src"
        },
        acyclic=True,
    ),
    "a bag with a distinct inside": Program(
        {"e": PAIR, "f": PAIR},
        {"x": PAIR, "y": PAIR},
        {
            "x": "SELECT src, dst FROM e UNION ALL SELECT d.src, e.dst FROM "
            "(SELECT DISTINCT src, dst FROM y) d JOIN e ON e.src = d.dst",
            "y": "SELECT DISTINCT src, dst FROM x UNION ALL SELECT src, dst FROM f",
        },
    ),
    "the smaller of both counts": Program(
        {"e": PAIR, "f": PAIR},
        {"x": PAIR},
        {
            "x": "SELECT src, dst FROM f UNION ALL "
            "(SELECT x.dst, x.src FROM x INTERSECT ALL SELECT src, dst FROM e)"
        },
        acyclic=True,
    ),
}


def change(circle: Circle, program: Program, dice: random.Random, *, deletes: bool) -> bool:
    """A few statements; whether rows only came."""
    db, only = circle.db, True
    for _ in range(dice.randint(1, 3)):
        table = dice.choice(list(program.sources))
        there = db.execute(f"FROM now.{table}").fetchall()
        kind = dice.random()
        if kind < 0.5 or not there or not deletes:
            for _ in range(dice.randint(1, 3)):
                a, b = dice.randint(1, 7), dice.randint(1, 7)
                if program.acyclic:
                    a, b = min(a, b), max(a, b) + 1
                elif dice.random() < 0.05:
                    b = None
                db.execute(f"INSERT INTO now.{table} VALUES (?, ?)", [a, b])
        else:
            only = False
            a, b = dice.choice(there)
            same = "src IS NOT DISTINCT FROM ? AND dst IS NOT DISTINCT FROM ?"
            if kind < 0.85:
                db.execute(f"DELETE FROM now.{table} WHERE {same}", [a, b])
            else:
                to = dice.randint((a or 0) + 1, 9) if program.acyclic else dice.randint(1, 7)
                db.execute(f"UPDATE now.{table} SET dst = ? WHERE {same}", [to, a, b])
    return only


def check(circle: Circle, program: Program, said: str) -> None:
    expected = circle.least()
    for name in program.queries:
        found = circle.bag(name)
        assert found == expected[name], (
            f"{said}: {name}\nunexpected {dict(found - expected[name])}\n"
            f"missing {dict(expected[name] - found)}"
        )
    if said.startswith(("closure:", "closure by")):
        edges = circle.db.execute("FROM now.e").fetchall()
        assert circle.bag("r") == Counter(closure_of(edges)), said


@pytest.mark.extended
@pytest.mark.parametrize("title", PROGRAMS)
@pytest.mark.parametrize("deletes", [False, True], ids=["inserts", "deletes"])
def test_a_component_follows_its_sources(title: str, deletes: bool) -> None:
    program = PROGRAMS[title]
    circle = program.circle()
    ways: Counter[Strategy] = Counter()
    for seed in range(SEEDS):
        dice = random.Random(seed)
        circle.world.reset()
        for _ in range(dice.randint(0, 4)):
            change(circle, program, dice, deletes=False)
        circle.fill()
        check(circle, program, f"{title}: seed {seed}, filled")
        for step in range(3):
            circle.world.begin(program.sources)
            only = change(circle, program, dice, deletes=deletes)
            changed = circle.world.end(noise=False, names=program.sources)
            done: Converged = circle.refresh(changed, insert_only=only)
            ways[done.strategy] += 1
            check(circle, program, f"{title}: seed {seed}, change {step}, {done}")
    assert ways[Strategy.INSERTS] > 0
    if deletes:
        assert ways[Strategy.DELETES] > 0


def test_rows_that_only_support_each_other_go() -> None:
    circle = PROGRAMS["closure"].circle()
    db = circle.db
    db.execute("INSERT INTO now.e VALUES (1, 2), (2, 3), (3, 2), (8, 9)")
    db.execute("INSERT INTO now.e SELECT x, x + 1 FROM range(100, 110) t(x)")
    circle.fill()
    circle.world.begin(["e"])
    db.execute("DELETE FROM now.e WHERE src = 1")
    done = circle.refresh(circle.world.end(names=["e"]), insert_only=False)
    assert done.strategy is Strategy.DELETES
    assert (1, 2) not in circle.bag("r") and (1, 3) not in circle.bag("r")
    assert (2, 2) in circle.bag("r")


def test_two_tables_that_copy_each_other_are_empty_without_their_seed() -> None:
    program = Program(
        {"seed": "val INT"},
        {"a": "val INT", "b": "val INT"},
        {"a": "SELECT val FROM seed UNION SELECT val FROM b", "b": "SELECT val FROM a"},
    )
    circle = program.circle()
    circle.db.execute("INSERT INTO now.seed SELECT x FROM range(10) t(x)")
    circle.fill()
    circle.world.begin(["seed"])
    circle.db.execute(
        "DELETE FROM now.seed WHERE val < 3; UPDATE now.seed SET val = 77 WHERE val = 5"
    )
    done = circle.refresh(circle.world.end(names=["seed"]), insert_only=False)
    assert done.strategy is Strategy.DELETES
    assert {row[0] for row in circle.bag("a")} == {3, 4, 77, 6, 7, 8, 9}
    assert circle.bag("a") == circle.bag("b")
    circle.world.begin(["seed"])
    circle.db.execute("DELETE FROM now.seed")
    done = circle.refresh(circle.world.end(names=["seed"]), insert_only=False)
    assert done.strategy is Strategy.EMPTY and done.gave_up
    assert not circle.bag("a") and not circle.bag("b")


def test_values_that_grow_end_at_the_limit() -> None:
    program = Program(
        {"seed": "val INT"},
        {"a": "val INT", "b": "val INT"},
        {"a": "SELECT val FROM seed UNION ALL SELECT val + 1 FROM b", "b": "SELECT val FROM a"},
    )
    circle = program.circle()
    circle.db.execute("INSERT INTO now.seed VALUES (1)")
    with pytest.raises(NoFixedPoint) as caught:
        circle.fill()
    assert len(caught.value.rounds) == 200
    assert set(caught.value.growing) == {TableName.of("a"), TableName.of("b")}

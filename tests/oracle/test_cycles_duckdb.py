"""Random programs of cycles under random changes, on DuckDB; cases that once failed; and rules that are
wrong on purpose, which must be found out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlglot import exp

from anabranch.delta import member, overdelete
from anabranch.delta.differentiate import RULES as NETTING
from anabranch.delta.overdelete import Loss
from anabranch.plan.exprs import binary, column, literal
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    ExistenceJoin,
    Filter,
    Item,
    Join,
    Node,
    Outer,
    Project,
    same_columns,
)
from anabranch.plan.walk import reads_now
from tests.oracle.cycle_cases import difference
from tests.oracle.kept_programs import CYCLES, as_text, from_text, keep
from tests.oracle.programs import Case, Step, ascend, generate, shrunk

PROGRAMS = int(os.environ.get("ANABRANCH_CYCLE_PROGRAMS", "500"))
SHARE = 25  # programs of one test, so that a failure does not hide those that follow


def wrong(case: Case, *, careful: bool = False) -> bool:
    return difference(case, careful=careful) is not None


@pytest.mark.parametrize("first", range(0, PROGRAMS, SHARE))
def test_random_cycles_follow_their_sources(first: int) -> None:
    for seed in range(first, first + SHARE):
        follows(generate(seed), careful=seed % 5 == 0)


@pytest.mark.parametrize("first", range(0, PROGRAMS // 5, SHARE))
def test_random_bags_over_bags_follow_their_sources(first: int) -> None:
    for seed in range(first, first + SHARE):
        follows(ascend(seed), careful=seed % 5 == 0)


@pytest.mark.parametrize("name", sorted(path.stem for path in CYCLES.glob("*.json")))
def test_programs_that_once_failed(name: str) -> None:
    case, careful = from_text((CYCLES / f"{name}.json").read_text(encoding="utf-8"))
    assert difference(case, careful=careful) is None


def follows(case: Case, *, careful: bool, folder: Path = CYCLES) -> None:
    """One that does not is kept, as small as it can be made."""
    if (why := difference(case, careful=careful)) is None:
        return
    path = keep(folder, as_text(case, careful=careful))  # the small one may take long
    least = shrunk(case, lambda less: wrong(less, careful=careful))
    path.unlink()
    path = keep(folder, as_text(least, careful=careful))
    pytest.fail(f"{why}\nkept as {path}\n{least}\n{difference(least, careful=careful)}")


def test_a_program_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in map(generate, range(50)) if len(case.members) > 1)

    def fails(case: Case, *, careful: bool = False) -> str | None:
        return "wrong" if "m0" in case.members and case.changes else None

    monkeypatch.setattr(sys.modules[__name__], "difference", fails)
    with pytest.raises(pytest.fail.Exception, match="kept as"):
        follows(case, careful=True, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    least, careful = from_text(path.read_text(encoding="utf-8"))
    assert careful and not any(least.start.values()) and len(least.changes) == 1
    for each in (case, ascend(3)):
        assert from_text(as_text(each, careful=False)) == (each, False)


# -- cases that once failed ----------------------------------------------------------------------------

ROWS = ((1, 1), (2, 2), (3, 3), (4, 4))
OVER_THE_OTHER = {
    "exists": "SELECT f.x, f.y FROM f WHERE EXISTS (SELECT 1 FROM m1)",
    "a filter in the subquery": "SELECT f.x, f.y FROM f WHERE EXISTS (SELECT 1 FROM m1 WHERE y > 0)",
    "below or": "SELECT f.x, f.y FROM f WHERE f.x > 9 OR EXISTS (SELECT 1 FROM m1)",
    "in the condition of a join": "SELECT f.x, g.y FROM f JOIN g ON f.x = g.x AND "
    "EXISTS (SELECT 1 FROM m1)",
    "below or in the condition of a join": "SELECT f.x, g.y FROM f JOIN g ON f.x = g.x AND "
    "(f.x > 9 OR EXISTS (SELECT 1 FROM m1))",
    "cross join": "SELECT f.x, f.y FROM f CROSS JOIN m1",
    "in": "SELECT f.x, f.y FROM f WHERE 1 IN (SELECT x FROM m1) OR f.x IN (SELECT y FROM m1)",
    "any": "SELECT f.x, f.y FROM f WHERE f.x >= ANY (SELECT x FROM m1)",
    "any below or": "SELECT f.x, f.y FROM f WHERE f.x > 9 OR f.x >= ANY (SELECT x FROM m1)",
    "correlated any": "SELECT f.x, f.y FROM f WHERE f.x > ANY (SELECT x FROM m1 WHERE m1.y < f.y) "
    "OR f.x = 1 AND EXISTS (SELECT 1 FROM m1)",
    "intersect below exists": "SELECT f.x, f.y FROM f WHERE EXISTS "
    "(SELECT x FROM m1 INTERSECT SELECT x FROM g)",
    "two in a row": "SELECT f.x, f.y FROM f WHERE EXISTS (SELECT 1 FROM m1 WHERE EXISTS "
    "(SELECT 1 FROM m0))",
    "left join below exists": "SELECT f.x, f.y FROM f WHERE EXISTS "
    "(SELECT 1 FROM m1 LEFT JOIN g ON g.x > m1.x)",
}
EMPTIED = (Step("e", None),)
REFILLED = (Step("e", (), ((2, 2),)),)
LEFT_OUT = (Step("g", ((1, 1),)), Step("e", None))


@pytest.mark.parametrize("title", OVER_THE_OTHER)
@pytest.mark.parametrize("back", ["SELECT x, y FROM m0", "SELECT DISTINCT y AS x, x AS y FROM m0"])
def test_nothing_stays_that_only_leaned_on_what_went(title: str, back: str) -> None:
    members = {
        "m0": ("UNION", ("SELECT x, y FROM e", OVER_THE_OTHER[title])),
        "m1": ("UNION ALL", (back,)),
    }
    start = {"e": ((1, 1),), "f": ROWS, "g": ROWS}
    for changes in ((EMPTIED, REFILLED, EMPTIED), (LEFT_OUT,)):
        case = Case(members, start, changes)
        assert difference(case) is None, case.queries


# -- rules that are wrong on purpose -------------------------------------------------------------------


def netted(node: Node, loss: Loss) -> Node | None:
    """Over-deletion by the rules of Δ, which net what is after with what was before."""
    change = _netted(node, loss.changed)
    if change is None:
        return None
    rows = Filter(change, binary(exp.LT, column(WEIGHT), literal(0)))
    return Project(rows, same_columns(node))


def _netted(node: Node, changed: frozenset[member.TableName]) -> Node | None:
    if not reads_now(node) & changed:
        return None
    if isinstance(node, Aggregate) and not node.calls:
        change = _netted(node.input, changed)
        return change and Project(change, (*node.keys, Item(WEIGHT, column(WEIGHT))))
    return NETTING.of(node)(node, changed, _netted)


def first_input_only(node: Join, loss: Loss) -> Node:
    first, *others = node.parts
    rows = overdelete.over_deleted(first, loss)
    if rows is None:
        return nothing(node, loss)
    return overdelete.joined(node, rows, [overdelete.before(other) for other in others])


def left_only(node: ExistenceJoin | Outer, loss: Loss) -> Node:
    return overdelete._left_loss(node, loss) or nothing(node, loss)


def nothing(node: Node, loss: Loss) -> Node:
    return Filter(overdelete.before(node), overdelete.Expr("FALSE"))


def filter_only(node: Filter, loss: Loss) -> Node:
    """INTERSECT and EXCEPT as if they were filters over what was counted."""
    if overdelete.counted_sides(node) is not None:
        return nothing(node, loss)
    return overdelete.linear(node, loss)


MUTANTS: dict[str, tuple[type[Node], Callable[..., Node]]] = {
    "a join looks at its first input": (Join, first_input_only),
    "a semi join looks at its left side": (ExistenceJoin, left_only),
    "a left join looks at its left side": (Outer, left_only),
    "a set operation loses nothing": (Filter, filter_only),
}


def found_out() -> Case | None:
    cases = (generate(seed) for seed in range(PROGRAMS))
    return next((case for case in cases if wrong(case)), None)


@pytest.fixture
def forgetful() -> Iterator[Callable[[], None]]:
    overdelete._over_deleted.cache_clear()
    yield overdelete._over_deleted.cache_clear
    overdelete._over_deleted.cache_clear()


def test_rules_that_net_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(member, "over_deleted", netted)
        case = found_out()
        assert case is not None
        least = shrunk(case, wrong)
        assert wrong(least) and len(least.changes) == 1
    assert not wrong(least)


@pytest.mark.extended
@pytest.mark.parametrize("title", MUTANTS)
def test_a_rule_that_deletes_too_little_is_found_out(
    title: str, monkeypatch: pytest.MonkeyPatch, forgetful: Callable[[], None]
) -> None:
    kind, rule = MUTANTS[title]
    with monkeypatch.context() as patched:
        patched.setitem(overdelete.RULES, kind, rule)
        case = found_out()
        assert case is not None
    forgetful()
    assert not wrong(case)

"""What the quick tests ask of the simulation itself, in one Python process.

python -m tests.simulation.kept 60
"""

from __future__ import annotations

import sys

import sqlalchemy

from tests.simulation import speakers
from tests.simulation.mutations import MUTATIONS
from tests.simulation.plans import QUICK_RUN, Event, Plan, plan_of
from tests.simulation.run import Simulator

# Plans that went wrong once.
KEPT: dict[str, Plan] = {
    "a backup dies while it copies a file that another one has": Plan(
        1,
        "diamond",
        ((("backup",),), (("backup",),)),
        (1, 0),
        (Event(0, 38, "switch", 1), Event(1, 7, "switch", 0), Event(1, 25, "crash")),
    ),
    "groups are refreshed one by one, and one reads a boundary of another": Plan(
        1, "boundary", ((("refresh", ""),), ()), (1, 0), (Event(0, 5, "lost", "after"),)
    ),
    "a backup copies what another one has already, and the power fails": Plan(
        1,
        "diamond",
        ((("backup",),), (("backup",),)),
        (1, 0),
        (Event(0, 8, "switch", 1), Event(0, 20, "power")),
    ),
    "a group is dropped while a refresh waits for it": Plan(
        1,
        "chain",
        ((("drop", "s.t"), ("foreign", "s.b", 101)), (("refresh", ""),)),
        (0, 1),
        (Event(0, 7, "switch", 1), Event(1, 8, "lost", "before")),
    ),
    "what a roll-back brings back grows old while it is under way": Plan(
        1,
        "promoted",
        ((("rollback",),), (("churn", "s.b", 120),)),
        (0, 1),
        (Event(0, 20, "switch", 1),),
    ),
    "another program takes longer than old snapshots are kept": Plan(
        1,
        "diamond",
        ((("churn", "s.a", 100),), (("foreign", "s.a", 110),)),
        (0, 1),
        (Event(0, 12, "switch", 1), Event(1, 2, "switch", 0)),
    ),
}


DEPLOYMENTS = (36, 86, 136, 236)  # seeds
SCENES = (33, 83, 85, 88, 89)  # a restore, files that are lost, an attached catalog, an adoption


def kept(simulator: Simulator) -> None:
    for name, plan in KEPT.items():
        error = simulator.quick(plan)
        assert error is None, f"{name}: {error}\n{plan}"


def mutations_are_found(simulator: Simulator) -> None:
    for name, mutation in MUTATIONS.items():
        plan = plan_of(mutation.seed)
        assert mutation.seed < QUICK_RUN, f"{name}: the quick run would not find it"
        assert simulator.quick(plan) is None, f"seed {mutation.seed} goes wrong without {name}"
        with mutation.applied():
            error = simulator.quick(plan)
        assert error is not None, f"{name}: seed {mutation.seed} does not find it"
        print(f"{name:18} seed {mutation.seed:5}: {str(error)[:100]}")


def runs_repeat(simulator: Simulator, count: int) -> None:
    """The same plan gives the same run, also with statements made by SQLAlchemy."""
    for seed in (*range(count), *DEPLOYMENTS, *SCENES):
        traces: tuple[list[str], list[str]] = [], []
        errors = simulator.quick(plan_of(seed), traces[0]), simulator.run(plan_of(seed), traces[1])
        assert errors == (None, None), f"seed {seed}: {errors}"
        unlike = [pair for pair in zip(*traces, strict=False) if pair[0] != pair[1]]
        assert not unlike and len(traces[0]) == len(traces[1]), f"seed {seed}: {unlike[:1]}"


def a_failure_is_shrunk(simulator: Simulator) -> None:
    """A seed that goes wrong is explained by a plan that is no larger, and goes wrong as well."""
    mutation = MUTATIONS["rebase"]
    with mutation.applied(), speakers.fast_sql():
        found = simulator.explained(mutation.seed)
    assert found is not None
    assert found.plan.size <= plan_of(mutation.seed).size
    assert all(simulator.quick(each) is None for each in (found.plan,)), "it fails without"
    assert found.trace


def any_module_may_keep_sqlalchemy(simulator: Simulator) -> None:
    """One that comes to use more of it than `sql` knows is slower, and does the same."""
    seed = DEPLOYMENTS[0]
    wanted: list[str] = []
    assert simulator.quick(plan_of(seed), wanted) is None
    for module in speakers.speaking():
        vars(module)["over"] = sqlalchemy.over
        speakers.changes.cache_clear()
        trace: list[str] = []
        error = simulator.quick(plan_of(seed), trace)
        assert not speakers.speaks(module)
        del vars(module)["over"]
        assert error is None and trace == wanted, f"{module.__name__}: {error}"
    speakers.changes.cache_clear()


def content(simulator: Simulator) -> dict[str, list[str]]:
    return {
        family: list(template.database.driver.iterdump())
        for family, template in simulator.templates.items()
    }


def main(count: int) -> None:
    simulator = Simulator()
    before = content(simulator)
    kept(simulator)
    mutations_are_found(simulator)
    runs_repeat(simulator, count)
    a_failure_is_shrunk(simulator)
    any_module_may_keep_sqlalchemy(simulator)
    assert content(simulator) == before, "a run has left something to those after it"


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Run seeds, explain one, or look for the first seed that finds each mutation.

python -m tests.simulation 0 10000          seeds, all that go wrong explained
python -m tests.simulation 4711             one seed: its smallest form, step by step
python -m tests.simulation mutations 10000  the table of mutations
"""

from __future__ import annotations

import argparse
import os
import sys
import time

MOST = 5  # failures that are explained


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("first", help="a seed, or: mutations")
    parser.add_argument("end", type=int, nargs="?", help="the seed after the last one")
    parser.add_argument("--only", action="append", help="this mutation")
    parser.add_argument("--sqlalchemy", action="store_true", help="make statements the slow way")
    given = parser.parse_args(argv)
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a run
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *argv],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    if given.first == "mutations":
        return table(given.end or 10_000, given.only)
    first = int(given.first)
    return seeds(first, given.end if given.end is not None else first + 1, slow=given.sqlalchemy)


def seeds(first: int, end: int, *, slow: bool = False) -> int:
    """Run seeds; the number of those that went wrong."""
    from contextlib import nullcontext

    from tests.simulation import speakers
    from tests.simulation.run import Simulator

    simulator = Simulator()
    began, wrong = time.process_time(), []
    with nullcontext() if slow else speakers.fast_sql():
        for seed in range(first, end):
            if simulator.seed(seed) is not None:
                wrong.append(seed)
                if len(wrong) <= MOST:
                    print(simulator.explained(seed), "\n", flush=True)
        spent = time.process_time() - began
    print(
        f"{end - first} seeds, {simulator.steps} steps, {spent:.0f} s of CPU, "
        f"{1000 * spent / max(end - first, 1):.1f} ms a seed; wrong: {wrong or 'none'}"
    )
    return min(len(wrong), 100)


def table(most: int, only: list[str] | None = None) -> int:
    """The first seed that finds each mutation."""
    from tests.simulation import speakers
    from tests.simulation.mutations import MUTATIONS, line
    from tests.simulation.run import Simulator

    simulator, missed = Simulator(), 0
    print("| mutation | what is put back | seeds until found | scene | found by |")
    print("|---|---|---|---|---|")
    with speakers.fast_sql():
        for name in only or MUTATIONS:
            mutation, error = MUTATIONS[name], None
            with mutation.applied():
                for seed in range(most):
                    if (error := simulator.seed(seed)) is not None:
                        break
            missed += error is None
            said = str(error).partition("\n")[0][:90] if error is not None else "NOT FOUND"
            print(f"{line(name, seed)} {said} |", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

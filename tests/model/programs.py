"""Programs that are kept as fixtures: how they look, and running them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.model.machine import Machine, Step, machine

Program = Sequence[Step]


@dataclass(frozen=True)
class Failure:
    """The first step of a program after which something was wrong."""

    step: Step
    error: BaseException


@contextmanager
def home() -> Iterator[Machine]:
    """A machine in a folder of its own, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-model-"))
    try:
        with machine(folder) as system:
            yield system
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(program: Program) -> Failure | None:
    """Run a program in a home of its own."""
    step: Step = ["nothing"]
    try:
        with home() as system:
            for step in program:
                system.run(step)
    except Exception as error:
        return Failure(step, error)
    return None


def shown(program: Program) -> str:
    """As a fixture has it: a step a line."""
    return "[\n" + ",\n".join(f"  {json.dumps(step)}" for step in program) + "\n]\n"

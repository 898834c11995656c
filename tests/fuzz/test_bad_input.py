"""Whatever is passed to a verb, a statement or a command line: it works, or one of our errors says why.

Nothing of SQLAlchemy, PySpark, sqlglot, Python or Java reaches the caller, no error is an
`InternalError`, and one that fails leaves the catalog as it was.
"""

from __future__ import annotations

import io
import os
import random
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import Anabranch, AnabranchError
from anabranch.errors import InternalError
from tests.fuzz.calls import Call, call
from tests.fuzz.home import Watch, commands_on_the_standin, opened
from tests.standin.engine import installed

CALLS = int(os.environ.get("ANABRANCH_FUZZ_CALLS", "1000"))
PER_HOME = 500  # then a new one: calls that work add tables
SEED = int(os.environ.get("ANABRANCH_FUZZ_SEED", "1"))


def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    wrong: list[str] = []
    with installed(), commands_on_the_standin():
        for number in range((CALLS + PER_HOME - 1) // PER_HOME):
            rng = random.Random(f"{SEED}/{number}")
            with opened(tmp_path / str(number)) as ab, closing(Watch(ab)) as watch:
                for _ in range(min(PER_HOME, CALLS - number * PER_HOME)):
                    wrong += [
                        f"home {number}: {each}" for each in tried(ab, watch, call(rng), capfd)
                    ]
            assert len(wrong) < 20, "\n".join(wrong)
    assert not wrong, "\n".join(wrong)


def tried(ab: Anabranch, watch: Watch, call: Call, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What is wrong with how a call ended."""
    before = watch.state()
    failed = False
    wrong = []
    try:
        answer = call.act(ab)
        if call.is_command:
            failed = answer != 0
            said = capfd.readouterr().err
            if answer not in (0, 1, 2, 3) or "fault of Anabranch" in said or "Traceback" in said:
                wrong.append(f"{call}: exit code {answer}: {said[:300]}")
    except InternalError as error:
        wrong.append(f"{call}: {error!r} {error.__cause__!r}")
        failed = True
    except AnabranchError as error:
        failed = True
        str(error).encode("utf-8")
        if len(str(error)) > 10_000:
            wrong.append(f"{call}: a message of {len(str(error))} characters")
    except Exception as error:
        wrong.append(f"{call}: raw {type(error).__module__}.{type(error).__name__}: {error}")
        failed = True
    if failed and call.atomic and (after := watch.state()) != before:
        changed = [name for name in before if before[name] != after[name]]
        wrong.append(f"{call}: changed {changed}")
    return wrong

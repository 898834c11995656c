"""Whatever is sent to the server: an answer in the protocol's form, never a fault, nothing changed.

No status of 500 and more, no stack in an answer or in the log, and a request that fails leaves the
catalog as it was.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.home import Watch, opened
from tests.fuzz.requests import Asked, Told, ask, request
from tests.serve.running import Served, served
from tests.standin.engine import installed

CALLS = int(os.environ.get("ANABRANCH_FUZZ_CALLS", "1000"))
PER_HOME = 500
SEED = int(os.environ.get("ANABRANCH_FUZZ_SEED", "1"))
FOR_SO_MANY = 10  # requests built on one look: those after it are behind, as clients are
OF_THE_WIRE = b"Invalid HTTP request received."  # from uvicorn, of what is no HTTP


def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    wrong: list[str] = []
    with installed():
        for number in range((CALLS + PER_HOME - 1) // PER_HOME):
            rng = random.Random(f"{SEED}/{number}")
            with (
                opened(tmp_path / str(number)) as ab,
                served(ab) as server,
                closing(Watch(ab)) as watch,
                faults() as logged,
            ):
                for at in range(min(PER_HOME, CALLS - number * PER_HOME)):
                    if at % FOR_SO_MANY == 0:
                        current = known(server)
                    asked = request(rng, current, server.token or "")
                    wrong += [f"home {number}: {each}" for each in tried(server, watch, asked)]
                    wrong += [f"home {number}: {asked}: logged {each}" for each in logged]
                    logged.clear()
            assert len(wrong) < 20, "\n".join(wrong)
    assert not wrong, "\n".join(wrong)


def tried(server: Served, watch: Watch, asked: Asked) -> list[str]:
    """What is wrong with an answer."""
    before = watch.state()
    told = ask(server.address, asked)
    wrong = [f"{asked}: {problem}" for problem in problems(asked, told)]
    if told.status >= 400 and (after := watch.state()) != before:
        changed = [name for name in before if before[name] != after[name]]
        wrong.append(f"{asked}: {told.status}, and changed {changed}")
    return wrong


def problems(asked: Asked, told: Told) -> Iterator[str]:
    if not 200 <= told.status < 500:
        yield f"{told.status} {told.body[:500]!r}"
    if b"Traceback" in told.body or b'File "' in told.body or b"fault of Anabranch" in told.body:
        yield f"tells {told.body[:500]!r}"
    if told.status < 400 or asked.method == "HEAD" or told.body == OF_THE_WIRE:
        return
    try:
        error = json.loads(told.body)["error"]
        if not (error["code"] == told.status and error["type"] and error["message"]):
            yield f"{told.status}: {error}"
    except (ValueError, KeyError, TypeError):
        yield f"{told.status}: no error of the protocol: {told.body[:300]!r}"


def known(server: Served) -> dict[str, Any]:
    """A table and a view as they are now: what a client would build its next commit on."""
    at = "/iceberg/v1/latest/namespaces/s"
    table = server.ask("GET", f"{at}/tables/t").json().get("metadata")
    view = server.ask("GET", f"{at}/views/v").json().get("metadata")
    lost = {"location": "file:///tmp/x", "table-uuid": "0" * 8, "view-uuid": "0" * 8}
    return {"table": table or lost, "view": view or lost}


@contextmanager
def faults() -> Iterator[list[str]]:
    """What the server logs of its own mistakes."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            shown = record.exc_info[1] if record.exc_info else ""
            said.append(f"{record.getMessage()} {shown!r}")

    listener = Listener(logging.ERROR)
    logging.getLogger().addHandler(listener)
    uvicorn = logging.getLogger("uvicorn")
    passes = uvicorn.propagate
    uvicorn.propagate = True
    try:
        yield said
    finally:
        uvicorn.propagate = passes
        logging.getLogger().removeHandler(listener)

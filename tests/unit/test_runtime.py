"""What every verb works with."""

from __future__ import annotations

from typing import Any, cast

from anabranch.runtime import Runtime
from anabranch.settings import Settings


def test_threads_follow_the_setting() -> None:
    nothing = cast(Any, None)
    runtime = Runtime(Settings().with_("parallelism", 1), nothing, nothing, nothing)
    assert runtime.workers.members is None and runtime.workers.coordinators is None
    runtime.settings = runtime.settings.with_("parallelism", 3)
    assert runtime.workers.size == 3 and runtime.workers.members is not None
    assert runtime.workers is runtime.workers

"""Work side by side: what depends on each other in order, the rest at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def side_by_side(
    nodes: Sequence[T],
    after: Mapping[T, Collection[T]],
    work: Callable[[T], bool],
    executor: Executor | None,
) -> None:
    """Call `work` for every node, after the calls for the nodes it comes after.

    `work` returns whether to go on: after a False, as after an exception, nothing more is begun, and
    what runs already is waited for.  One node at a time runs in the caller's own thread.
    """
    if executor is None or len(nodes) == 1:
        for node in nodes:
            if not work(node):
                return
        return
    inside = set(nodes)
    waiting = {node: {each for each in after.get(node, ()) if each in inside} for node in nodes}
    running: dict[Future[bool], T] = {}
    try:
        while waiting or running:
            ready = [node for node, before in waiting.items() if not before]
            for node in ready:
                del waiting[node]
                running[executor.submit(work, node)] = node
            if not running:  # only a cycle leaves nothing to begin
                raise ValueError(f"the work waits for itself: {list(waiting)}")
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                node = running.pop(future)
                if not future.result():
                    waiting.clear()
                for before in waiting.values():
                    before.discard(node)
    finally:
        for future in running:
            future.cancel()
        wait(running)

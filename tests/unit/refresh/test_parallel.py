"""Work side by side."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.refresh.parallel import side_by_side

DIAMOND: Mapping[str, set[str]] = {"b": {"a"}, "c": {"a"}, "d": {"b", "c"}}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.sampled_from([0, 1, 3]))
def test_everything_runs_once_and_after_what_it_needs(
    edges: list[tuple[int, int]], threads: int
) -> None:
    after: dict[int, set[int]] = {node: set() for node in range(10)}
    for one, other in edges:
        if one != other:
            after[max(one, other)].add(min(one, other))
    done: list[int] = []

    def work(node: int) -> bool:
        assert after[node] <= set(done)
        done.append(node)
        return True

    if threads:
        with ThreadPoolExecutor(threads) as executor:
            side_by_side(range(10), after, work, executor)
    else:
        side_by_side(range(10), after, work, None)
    assert sorted(done) == list(range(10))


def test_siblings_run_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=10)
    with ThreadPoolExecutor(2) as executor:
        side_by_side("abcd", DIAMOND, lambda node: node not in "bc" or meet.wait() >= 0, executor)


def test_nothing_is_begun_after_a_failure() -> None:
    done: list[str] = []
    with ThreadPoolExecutor(2) as executor:
        side_by_side("abcd", DIAMOND, lambda node: bool(done.append(node)) or node != "a", executor)
    assert done == ["a"]


def test_an_exception_is_raised_after_the_others_ended() -> None:
    begun, go = threading.Event(), threading.Event()
    done: list[str] = []

    def work(node: str) -> bool:
        if node == "b":
            begun.wait(10)
            go.set()
            raise RuntimeError("b broke")
        if node == "c":
            begun.set()
            go.wait(10)
        done.append(node)
        return True

    with ThreadPoolExecutor(2) as executor, pytest.raises(RuntimeError, match="b broke"):
        side_by_side("abcd", DIAMOND, work, executor)
    assert done == ["a", "c"]

"""The caches of this process: each has a bound, and all can be cleared.

What is cached never changes: answers of pure functions, and the contents of immutable files.  So a
cache may forget anything at any time.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

V = TypeVar("V")

_caches: weakref.WeakSet[Cache[Any]] = weakref.WeakSet()
_functions: list[_lru_cache_wrapper[Any]] = []


class Cache(Generic[V]):
    """The values used last, by what they were computed from, such as the path of a file."""

    def __init__(self, size: int, name: str = "", *, of_files: bool = False) -> None:
        self.name = name
        self.of_files = of_files
        self._size = size
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values

    def get(self, key: Hashable, read: Callable[[], V]) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = read()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


def cached(size: int) -> Callable[[Callable[..., V]], _lru_cache_wrapper[V]]:
    """The last answers of a function are kept."""

    def made(function: Callable[..., V]) -> _lru_cache_wrapper[V]:
        found = functools.lru_cache(maxsize=size)(function)
        _functions.append(found)
        return found

    return made


def clear() -> None:
    """Forget everything: the next question costs what the first one did."""
    for each in list(_caches):
        each.clear()
    for function in _functions:
        function.cache_clear()


def forget_files() -> None:
    """Forget what metadata files said: a check must see those that are gone by now."""
    for each in list(_caches):
        if each.of_files:
            each.clear()


def sizes() -> dict[str, int]:
    """How much every cache holds, by its name."""
    found: dict[str, int] = {}
    for each in list(_caches):
        found[each.name] = found.get(each.name, 0) + len(each)
    for function in _functions:
        wrapped = function.__wrapped__
        name = f"{wrapped.__module__}.{wrapped.__qualname__}"
        found[name] = found.get(name, 0) + function.cache_info().currsize
    return found

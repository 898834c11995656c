"""A part of the graph by name: `shop.sales`, `shop.*`, `+x` with what it reads, `x+` with readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from anabranch.deploy.snapshot import ObjectKey, Snapshot
from anabranch.errors import Refused, UnknownName
from anabranch.graph.order import closure, dependants
from anabranch.names import TableName

Graph = Mapping[ObjectKey, frozenset[ObjectKey]]


def chosen(snapshots: Iterable[Snapshot], selectors: Iterable[str]) -> frozenset[ObjectKey]:
    """The objects that any of the selectors names, in any of the snapshots."""
    reads: dict[ObjectKey, frozenset[ObjectKey]] = {}
    for snapshot in snapshots:
        for key, each in snapshot.objects.items():
            reads[key] = reads.get(key, frozenset()) | each.reads
    return frozenset().union(*(_matched(reads, selector) for selector in selectors))


def merged(old: Snapshot, new: Snapshot, keys: frozenset[ObjectKey]) -> Snapshot:
    """The old snapshot with only the given objects as they are in the new one."""
    kept = {key: each for key, each in old.objects.items() if key not in keys}
    taken = {key: each for key, each in new.objects.items() if key in keys}
    objects = kept | taken
    known = old.objects.keys() | new.objects.keys()
    for key, each in sorted(objects.items()):
        for parent in sorted(each.reads & known - objects.keys()):
            raise Refused(
                f"{key} reads {parent}, which the selection leaves out",
                hint=f"select +{key} to take along what it reads",
            )
    return replace(new, objects=objects)


def _matched(reads: Graph, selector: str) -> frozenset[ObjectKey]:
    up, down = selector.startswith("+"), selector.endswith("+")
    pattern = selector.strip("+")
    found = {key for key in reads if matches(key, pattern)}
    if not found:
        names = [str(key) for key in reads]
        raise UnknownName(f"no object is called {pattern}", name=pattern, known=names)
    above = closure(found, reads) & reads.keys() if up else set()
    below = closure(found, dependants(reads)) if down else set()
    return frozenset(found | above | below)


def matches(key: ObjectKey, pattern: str) -> bool:
    """By the last one, two or three parts of the name, whatever the case; `*` and `?` as usual."""
    parts = tuple(part.lower() for part in key)
    wanted = tuple(part.lower() for part in _parts(pattern))
    return len(wanted) <= len(parts) and all(
        fnmatchcase(part, glob) for part, glob in zip(parts[-len(wanted) :], wanted, strict=True)
    )


def _parts(pattern: str) -> tuple[str, ...]:
    if "`" not in pattern and '"' not in pattern:
        return tuple(pattern.split("."))
    return TableName.parse(pattern).parts

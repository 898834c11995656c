"""A checker of histories in the manner of Elle: which anomalies a set of transactions shows.

Two workloads, for which the order of versions can be read off the values themselves:
- *append*: rows are only added to a list; what a read shows must grow along one line;
- *register*: a value is replaced after it was read, so every version names the one before it.

From the order of versions follow the dependencies between transactions:
    ww  T2 replaced or followed a version of T1
    wr  T2 read a version of T1
    rw  T1 read a version that T2 replaced
A cycle of them is an anomaly (Adya): G0 of ww only, G1c of ww and wr, G-single with one rw, G2 with
more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from anabranch.graph.components import components

Key = str
Edges = dict[tuple[str, str], set[str]]  # (earlier, later) -> kinds


@dataclass(frozen=True)
class Txn:
    """A transaction: what it read and wrote, and whether it was acknowledged.

    `ended` is "ok", "refused", or "unknown" (the process was killed before it heard).
    """

    id: str
    ended: str
    appended: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    listed: Mapping[Key, frozenset[str]] = field(default_factory=dict)
    read: Mapping[Key, str] = field(default_factory=dict)  # registers: version found
    wrote: Mapping[Key, str] = field(default_factory=dict)  # registers: version left


@dataclass(frozen=True)
class Anomaly:
    kind: str
    what: str


def anomalies(history: Sequence[Txn], final: Txn) -> list[Anomaly]:
    """All that is wrong with a history; `final` reads everything at the end."""
    seen = [each for each in history if each.ended != "refused"]
    known = [*seen, final]
    found = [*_lost_or_dirty(history, final), *_from_nowhere(history, final)]
    edges: Edges = defaultdict(set)
    found += _append_edges(known, edges)
    found += _register_edges(known, edges)
    return found + list(_cycles(known, edges))


def _lost_or_dirty(history: Sequence[Txn], final: Txn) -> Iterator[Anomaly]:
    """What was acknowledged is there at the end, and what was refused nobody has ever read."""
    lines = {key: _line(history, key, version) for key, version in final.read.items()}
    for each in history:
        others = [other for other in (*history, final) if other.id != each.id]
        for key, values in each.appended.items():
            said = f"{each.id} appended {values} to {key}"
            there = final.listed.get(key, frozenset())
            if each.ended == "ok" and not set(values) <= there:
                yield Anomaly("lost", said)
            if each.ended == "unknown" and set(values) & there and not set(values) <= there:
                yield Anomaly("half", said)
            if each.ended == "refused":
                readers = [one.id for one in others if set(values) & one.listed.get(key, set())]
                if readers:
                    yield Anomaly("aborted write", f"{said}, which {readers} read")
        for key, version in each.wrote.items():
            said = f"{each.id} wrote {version} to {key}"
            if each.ended == "ok" and key in lines and version not in lines[key]:
                yield Anomaly("lost", said)
            if each.ended == "refused":
                readers = [one.id for one in others if one.read.get(key) == version]
                if readers:
                    yield Anomaly("aborted write", f"{said}, which {readers} read")


def _line(history: Sequence[Txn], key: Key, version: str) -> list[str]:
    """The versions of a register from the last one back to the first: each names the one before it."""
    before = {each.wrote[key]: each.read[key] for each in history if key in each.wrote}
    line = [version]
    while line[-1] in before and before[line[-1]] not in line:
        line.append(before[line[-1]])
    return line


def _from_nowhere(history: Sequence[Txn], final: Txn) -> Iterator[Anomaly]:
    """What is read was written by somebody, but for the first version of each register."""
    everybody = (*history, final)
    for key in sorted({key for each in everybody for key in each.listed}):
        written = {value for each in history for value in each.appended.get(key, ())}
        found = frozenset[str]().union(*(each.listed.get(key, ()) for each in everybody))
        if found - written:
            yield Anomaly("from nowhere", f"{sorted(found - written)} in {key}")
    for key in sorted({key for each in everybody for key in each.read}):
        versions = {each.read[key] for each in everybody if key in each.read}
        first = versions - {each.wrote[key] for each in history if key in each.wrote}
        if len(first) > 1:
            yield Anomaly("from nowhere", f"{sorted(first)} cannot all be the first of {key}")


def _append_edges(known: Sequence[Txn], edges: Edges) -> Iterator[Anomaly]:
    writer = {
        (key, value): each.id
        for each in known
        for key, values in each.appended.items()
        for value in values
    }
    for key in {key for each in known for key in each.listed}:
        reads = [each for each in known if key in each.listed]
        reads.sort(key=lambda each: len(each.listed[key]))
        everything = reads[-1].listed[key]
        for first, second in pairwise(reads):
            if not first.listed[key] <= second.listed[key]:
                yield Anomaly("incompatible order", f"{first.id} and {second.id} read {key}")
        for reader in reads:
            for value in everything:
                other = writer.get((key, value), "?")
                if other == reader.id:
                    continue
                if value in reader.listed[key]:
                    edges[other, reader.id].add("wr")
                else:
                    edges[reader.id, other].add("rw")


def _register_edges(known: Sequence[Txn], edges: Edges) -> Iterator[Anomaly]:
    writer = {(key, version): each.id for each in known for key, version in each.wrote.items()}
    followers: dict[tuple[Key, str], list[str]] = defaultdict(list)
    for each in known:
        for key in each.wrote:
            if each.ended == "ok" or _was_read(known, key, each.wrote[key]):
                followers[key, each.read[key]].append(each.id)
    for (key, version), ids in followers.items():
        if len(ids) > 1:
            yield Anomaly("lost update", f"{ids} all replaced {version} of {key}")
    for each in known:
        for key, version in each.read.items():
            before = writer.get((key, version))
            if before is not None and before != each.id:
                edges[before, each.id].add("ww" if key in each.wrote else "wr")
            for later in followers[key, version]:
                if later != each.id:
                    edges[each.id, later].add("rw")


def _was_read(known: Iterable[Txn], key: Key, version: str) -> bool:
    return any(each.read.get(key) == version for each in known)


def _cycles(known: Sequence[Txn], edges: Edges) -> Iterator[Anomaly]:
    names = {each.id for each in known}
    graph = {name: [b for a, b in edges if a == name and b in names] for name in names}
    for part in components(graph):
        if not part.cyclic:
            continue
        members = set(part.members)
        kinds = [k for (a, b), k in edges.items() if {a, b} <= members]
        yield Anomaly(_worst(members, edges, kinds), f"{sorted(members)}")


def _worst(members: set[str], edges: Edges, kinds: Sequence[set[str]]) -> str:
    """The strongest name that a cycle among the members has."""
    for name, allowed in (("G0", {"ww"}), ("G1c", {"ww", "wr"})):
        if _cyclic(members, {pair for pair, kind in edges.items() if kind & allowed}):
            return name
    for (one, other), kind in edges.items():
        if "rw" in kind and {one, other} <= members:
            strong = {pair for pair, each in edges.items() if each & {"ww", "wr"}}
            if _reaches(other, one, strong):
                return "G-single"
    return "G2"


def _cyclic(members: set[str], pairs: set[tuple[str, str]]) -> bool:
    graph = {each: [b for a, b in pairs if a == each and b in members] for each in members}
    return any(part.cyclic for part in components(graph))


def _reaches(start: str, end: str, pairs: set[tuple[str, str]]) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        if at == end:
            return True
        new = {b for a, b in pairs if a == at} - seen
        seen |= new
        waiting += new
    return False

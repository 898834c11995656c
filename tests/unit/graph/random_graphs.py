"""Graphs as text, and what the laws say about them by walking every path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise

from hypothesis import settings
from hypothesis import strategies as st

# A busy machine is no failure.
few, many = settings(max_examples=100, deadline=None), settings(max_examples=200, deadline=None)

Reads = dict[str, set[str]]


def graph(text: str) -> Reads:
    """`a>B>D a>C>D`: small letters are base sources, capitals stream tables."""
    reads: Reads = {}
    for path in text.split():
        steps = path.split(">")
        for step in steps:
            if step[0].isupper():
                reads.setdefault(step, set())
        for upstream, reader in pairwise(steps):
            reads[reader].add(upstream)
    return reads


@st.composite
def drawn(draw: st.DrawFn, *, cyclic: bool, tables: int = 7) -> Reads:
    """Random graphs over at most two base sources; names do not follow the order of the graph."""
    names = draw(st.permutations([chr(65 + at) for at in range(draw(st.integers(1, tables)))]))
    reads: Reads = {}
    for at, name in enumerate(names):
        known = ["a", "b", *(names if cyclic else names[:at])]
        reads[name] = set(draw(st.lists(st.sampled_from(known), max_size=3)))
    return reads


def reaches(reads: Mapping[str, set[str]], low: str, high: str) -> bool:
    """Whether `low` reads `high`, directly or through others; no table reads itself for nothing."""
    waiting, seen = [*reads.get(low, ())], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += reads.get(name, ())
    return high in seen


def by_components(reads: Reads) -> set[frozenset[str]]:
    return {
        frozenset(b for b in reads if a == b or (reaches(reads, a, b) and reaches(reads, b, a)))
        for a in reads
    }


def contracted(reads: Reads) -> dict[str, str]:
    """Each table and source with the name that stands for its component."""
    home = {name: min(part) for part in by_components(reads) for name in part}
    sources = {up for ups in reads.values() for up in ups if up not in reads}
    return home | {source: source for source in sources}


def paths(reads: Reads, low: str, high: str) -> Iterator[tuple[str, ...]]:
    """All paths from `high` down to `low` of a graph without cycles."""
    if low == high:
        yield (high,)
    for upstream in reads.get(low, ()):
        for path in paths(reads, upstream, high):
            yield (*path, low)


def by_paths(reads: Reads) -> dict[str, tuple[set[str], set[str]]]:
    """Convergence points with their shared sources and intermediates."""
    home = contracted(reads)
    whole: Reads = {home[name]: set() for name in reads}
    for name, ups in reads.items():
        whole[home[name]] |= {home[up] for up in ups} - {home[name]}
    found: dict[str, tuple[set[str], set[str]]] = {}
    for low in reads:
        shared, between = set[str](), set[str]()
        for high in {*home.values()} - {home[low]}:
            ways = list(paths(whole, home[low], high))
            if len({way[:2] for way in ways}) > 1 and len({way[-2:] for way in ways}) > 1:
                shared |= {name for name in home if home[name] == high}
                inner = {step for way in ways for step in way[1:]}
                between |= {name for name in reads if home[name] in inner}
        if shared:
            found[low] = shared, between - {low}
    return found


def by_merging(
    reads: Reads, declared: Mapping[str, set[str]], opted_out: set[str]
) -> set[frozenset[str]]:
    """Groups: sets that belong together, merged while two overlap or wait for each other."""
    sets = [*by_components(reads), *(members & reads.keys() for members in declared.values())]
    for low, (_, between) in by_paths(reads).items():
        if not {low, *between} & opted_out:
            sets.append(frozenset({low, *between}))
    groups = {frozenset(each) for each in sets if each}
    while pair := next((two for two in combinations(groups, 2) if bound(two, groups, reads)), None):
        groups = groups - set(pair) | {pair[0] | pair[1]}
    return groups


def bound(
    pair: tuple[frozenset[str], frozenset[str]], groups: set[frozenset[str]], reads: Reads
) -> bool:
    one, other = pair
    if one & other:
        return True
    names = {group: "+".join(sorted(group)) for group in groups}
    between = {
        names[low]: {names[high] for high in groups if any(reads[name] & high for name in low)}
        for low in groups
    }
    return reaches(between, names[one], names[other]) and reaches(between, names[other], names[one])

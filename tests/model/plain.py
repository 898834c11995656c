"""The plain model: bags of rows in Python, queries as nested tuples, and what a step does to them.

Every table has the columns k and v.  A query is a kind and the tables it reads; it has a text for the
engine and a function for the model, which know nothing of each other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = tuple[int, "int | None"]
Bag = Counter[Row]
Spec = tuple[str, ...]  # a kind, then the tables that are read
Sources = dict[str, Bag]
POISON = 900  # values above break the queries of kind "strict"
UP_TO = 3


class Broken(Exception):
    """A query that cannot be computed over these rows."""


def _total(rows: Bag) -> int | None:
    known = [v * n for (_, v), n in rows.items() if v is not None]
    return sum(known) if known else None


def _by_key(rows: Bag, of: Callable[[Bag], int | None]) -> Bag:
    groups: dict[int, Bag] = defaultdict(Counter)
    for row, n in rows.items():
        groups[row[0]][row] += n
    return Counter({(k, of(group)): 1 for k, group in groups.items()})


def _most(rows: Bag) -> int | None:
    return max((v for _, v in rows if v is not None), default=None)


def _joined(left: Bag, right: Bag) -> Bag:
    found: Bag = Counter()
    for (k, v), n in left.items():
        for (other, w), m in right.items():
            if k == other:
                found[k, None if v is None or w is None else v + w] += n * m
    return found


def _strict(rows: Bag) -> Bag:
    if any(v is not None and v > POISON for _, v in rows):
        raise Broken
    return rows


def _mapped(rows: Bag, change: Callable[[Row], Row]) -> Bag:
    found: Bag = Counter()
    for row, n in rows.items():
        found[change(row)] += n
    return found


KINDS: Mapping[str, tuple[str, Callable[..., Bag]]] = {
    "copy": ("SELECT k, v FROM {0}", lambda a: a),
    "more": (
        "SELECT k, v + 1 AS v FROM {0}",
        lambda a: _mapped(a, lambda r: (r[0], None if r[1] is None else r[1] + 1)),
    ),
    "even": (
        "SELECT k, v FROM {0} WHERE k % 2 = 0",
        lambda a: Counter({row: n for row, n in a.items() if row[0] % 2 == 0}),
    ),
    "none": ("SELECT k, v FROM {0} WHERE k > 1000", lambda a: Counter()),
    "sums": ("SELECT k, SUM(v) AS v FROM {0} GROUP BY k", lambda a: _by_key(a, _total)),
    "most": ("SELECT k, MAX(v) AS v FROM {0} GROUP BY k", lambda a: _by_key(a, _most)),
    "total": (
        "SELECT CAST(0 AS BIGINT) AS k, SUM(v) AS v FROM {0}",
        lambda a: Counter({(0, _total(a)): 1}),
    ),
    "kinds": ("SELECT DISTINCT k, v FROM {0}", lambda a: Counter(dict.fromkeys(a, 1))),
    "strict": (
        f"SELECT k, CAST(CASE WHEN v > {POISON} THEN 'poison' ELSE CAST(v AS STRING) END AS BIGINT)"
        " AS v FROM {0}",
        _strict,
    ),
    "both": ("SELECT k, v FROM {0} UNION ALL SELECT k, v FROM {1}", lambda a, b: a + b),
    "join": (
        "SELECT x.k AS k, x.v + y.v AS v FROM {0} AS x JOIN {1} AS y ON x.k = y.k",
        _joined,
    ),
    "star": ("SELECT * FROM {0}", lambda a: a),
    "union": (
        "SELECT k, v FROM {0} UNION SELECT k, v FROM {1}",
        lambda a, b: Counter(dict.fromkeys(a + b, 1)),
    ),
    "upto": (  # what two tables that read each other come to an end with
        f"SELECT k, v FROM {{0}} UNION SELECT k, v + 1 AS v FROM {{1}} WHERE v < {UP_TO}",
        lambda a, b: Counter(
            dict.fromkeys([*a, *((k, v + 1) for k, v in b if v is not None and v < UP_TO)], 1)
        ),
    ),
    "worth": (  # both tables as one number: what a transfer between them must not change
        "SELECT CAST(0 AS BIGINT) AS k, SUM(v) AS v FROM "
        "(SELECT v FROM {0} UNION ALL SELECT v FROM {1}) AS u",
        lambda a, b: Counter({(0, _total(a + b)): 1}),
    ),
}
CIRCULAR = ("union", "upto")  # tables of these kinds may read each other
WIDTH = {kind: 2 if "{1}" in text else 1 for kind, (text, _) in KINDS.items()}


def text(spec: Sequence[str]) -> str:
    return KINDS[spec[0]][0].format(*spec[1:])


_PATTERNS = {
    kind: re.compile(
        re.escape(template).replace(r"\{0\}", r"(\S+)").replace(r"\{1\}", r"(\S+?)") + r"\Z"
    )
    for kind, (template, _) in KINDS.items()
}


# A deployment writes the name that a table had before beside the one it has while it is staged.
_ALIAS = re.compile(r"(\w+(?:\.\w+)+) AS (?:[apqtw]\d|b)\b")


def spec_of(query: str) -> Spec:
    """The query as it stands in the catalog."""
    plain = _ALIAS.sub(r"\1", " ".join(query.replace("`", "").split()))
    for kind, pattern in _PATTERNS.items():
        if found := pattern.match(plain):
            return (kind, *found.groups())
    raise AssertionError(f"a query that nobody declared: {query}")


def computed(spec: Spec, rows_of: Callable[[str], Bag]) -> Bag:
    return +KINDS[spec[0]][1](*(rows_of(name) for name in spec[1:]))


def fixed_point(specs: Mapping[str, Spec], rows_of: Callable[[str], Bag]) -> dict[str, Bag]:
    """The smallest tables that equal their queries over each other, from nothing upwards."""
    found: dict[str, Bag] = {name: Counter() for name in specs}
    for _ in range(50):
        table = lambda name: found[name] if name in specs else rows_of(name)  # noqa: B023, E731
        again = {name: computed(spec, table) for name, spec in specs.items()}
        if again == found:
            return found
        found = again
    raise Broken


# -- what writes do ----------------------------------------------------------------------------


def after(step: Sequence[Any], before: Sources) -> Sources:
    """The sources after a write; all other steps leave them as they are."""
    kind, *given = step
    if kind in ("insert", "foreign_append"):
        return _with(before, given[0], before[given[0]] + _bag(given[1]))
    if kind == "foreign_overwrite":
        return _with(before, given[0], _bag(given[1]))
    if kind == "delete":
        kept = Counter({row: n for row, n in before[given[0]].items() if row[0] != given[1]})
        return _with(before, given[0], kept)
    if kind == "update":
        name, key, more = given
        new = _mapped(before[name], lambda r: (r[0], _plus(r[1], more) if r[0] == key else r[1]))
        return _with(before, name, new)
    if kind == "merge":
        target, source = given
        new = dict(_by_key(before[source], _most).keys())
        there = {row[0] for row in before[target]}
        kept = _mapped(before[target], lambda r: (r[0], new.get(r[0], r[1])))
        come = Counter({row: 1 for row in new.items() if row[0] not in there})
        return _with(before, target, kept + come)
    if kind == "transfer":
        one, other, key, amount = given
        moved = _with(before, one, before[one] + _bag([[key, -amount]]))
        return _with(moved, other, moved[other] + _bag([[key, amount]]))
    return before


def _plus(value: int | None, more: int) -> int | None:
    return None if value is None else value + more


def _bag(rows: Sequence[Sequence[Any]]) -> Bag:
    return Counter((row[0], row[1]) for row in rows)


def _with(sources: Sources, name: str, rows: Bag) -> Sources:
    return {**sources, name: +rows}

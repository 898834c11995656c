"""A plan from the way it is printed: for examples of rules, and tests.

The text of a plan is for people, and says less than a plan: what `show` leaves out, such as the types
of columns, is what it usually is.  Inputs stand below their operator, two blanks deeper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from textwrap import dedent

from anabranch.errors import InternalError
from anabranch.names import TableName
from anabranch.plan.exprs import VERBATIM, Expr, Tree, identifier
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    AntiJoin,
    Call,
    Filter,
    Item,
    Join,
    KeyFilter,
    MarkJoin,
    Node,
    On,
    Order,
    Outer,
    Parameter,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Version,
)
from anabranch.plan.show import show

Lines = Sequence[tuple[int, str]]
Make = Callable[[re.Match[str], Sequence[Node]], Node]


def read(text: str) -> Node:
    """The plan that a text shows."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in dedent(text).splitlines()]
    return _node([line for line in lines if line[1]])


def rewritten(rule: Callable[..., Node], text: str) -> None:
    """Print what a rule makes of a plan."""
    print(show(rule(read(text))))  # noqa: T201 - for examples in docstrings


def _node(lines: Lines) -> Node:
    (depth, head), rest = lines[0], list(lines[1:])
    starts = [at for at, (indent, _) in enumerate(rest) if indent == depth + 2]
    inputs = [_node(rest[start:end]) for start, end in pairwise([*starts, len(rest)])]
    for pattern, make in _HEADS.items():
        if found := re.fullmatch(pattern, head):
            return make(found, inputs)
    raise InternalError(f"a plan has no line {head!r}")


def expr(text: str) -> Expr:
    """An expression without quotes: what looks like a column is one, with all its dots."""
    from sqlglot import exp, parse_one

    def quoted(node: Tree) -> Tree:
        if not isinstance(node, exp.Column):
            return node
        return exp.Column(this=identifier(".".join(part.name for part in node.parts)))

    return Expr.of(parse_one(text, dialect=VERBATIM).transform(quoted))


def _listed(text: str) -> list[str]:
    """The parts between commas that stand in no parentheses."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _items(text: str) -> tuple[Item, ...]:
    return tuple(Item(name, value) for name, value in _named(text))


def _named(text: str) -> Iterable[tuple[str, Expr]]:
    for part in _listed(text):
        value, _, name = part.rpartition(" as ")
        yield name, expr(value or name)


def _condition(text: str | None) -> Expr | None:
    return None if text is None else expr(text)


def _on(text: str) -> On:
    pairs = (part.rpartition(" is ") for part in text.split(" and "))
    return tuple((expr(value), key) for value, _, key in pairs)


def _scan(found: re.Match[str], _: Sequence[Node]) -> Node:
    version = Version(found[2] or "now")
    names = tuple(name for name in _listed(found[3]) if name != WEIGHT)
    return Scan(TableName.parse(found[1]), names, version)


def _aggregate(found: re.Match[str], inputs: Sequence[Node]) -> Node:
    calls = tuple(Call(name, value) for name, value in _named(found[1]))
    return Aggregate(inputs[0], _items(found[2] or ""), calls)


def _top(found: re.Match[str], inputs: Sequence[Node]) -> Node:
    order = tuple(
        Order(expr(part.removesuffix(" desc")), part.endswith(" desc"))
        for part in _listed(found[2])
    )
    partition = tuple(map(expr, _listed(found[3] or "")))
    return TopK(inputs[0], order, int(found[1]), partition=partition)


_HEADS: dict[str, Make] = {
    r"Scan (\S+)(?: \[(\w+)\])? \((.*)\)": _scan,
    r"Parameter (\S+) \((.*)\)": lambda found, _: Parameter(found[1], tuple(_listed(found[2]))),
    r"Filter (.*)": lambda found, inputs: Filter(inputs[0], expr(found[1])),
    r"Project (.*)": lambda found, inputs: Project(inputs[0], _items(found[1])),
    r"Join(?: on (.*?)| \(all pairs\))( \[first input small\])?": lambda found, inputs: Join(
        tuple(inputs), _condition(found[1]), bool(found[2])
    ),
    r"Distinct (.*)": lambda found, inputs: Aggregate(inputs[0], _items(found[1])),
    r"Aggregate (.*?)(?: by (.*))?": _aggregate,
    r"UnionAll": lambda _, inputs: UnionAll(tuple(inputs)),
    r"(Left|Full) join(?: on (.*)| \(all pairs\))": lambda found, inputs: Outer(
        inputs[0], inputs[1], _condition(found[2]), full=found[1] == "Full"
    ),
    r"Semi join(?: on (.*)| \(all pairs\))": lambda found, inputs: SemiJoin(
        inputs[0], inputs[1], _condition(found[1])
    ),
    r"Anti join(?: on (.*)| \(all pairs\))": lambda found, inputs: AntiJoin(
        inputs[0], inputs[1], _condition(found[1])
    ),
    r"Mark (\S+)(?: on (.*)| \(all pairs\))": lambda found, inputs: MarkJoin(
        inputs[0], inputs[1], _condition(found[2]), found[1]
    ),
    r"KeyFilter where (.*)": lambda found, inputs: KeyFilter(inputs[0], inputs[1], _on(found[1])),
    r"TopK (\d+) by (.*?)(?: per (.*))?": _top,
}

"""Parses the printed form of a plan, for the examples of rules and for tests.

The text is for people and says less than a plan: what `show` leaves out, such as column types, gets its
default.  Inputs stand below their operator, indented by two more blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from textwrap import dedent

from sqlglot import exp, parse_one

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
    ReducedScan,
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
    """The plan that a text describes."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in dedent(text).splitlines()]
    return _node([line for line in lines if line[1]])


def rewritten(rule: Callable[..., Node], text: str) -> None:
    """Print the plan after a rule."""
    print(show(rule(read(text))))  # noqa: T201 - for examples in docstrings


def _node(lines: Lines) -> Node:
    (depth, head), rest = lines[0], list(lines[1:])
    starts = [position for position, (indent, _) in enumerate(rest) if indent == depth + 2]
    inputs = [_node(rest[start:end]) for start, end in pairwise([*starts, len(rest)])]
    for pattern, make in _HEADS.items():
        if match_ := re.fullmatch(pattern, head):
            return make(match_, inputs)
    raise InternalError(f"a plan has no line {head!r}")


def expr(text: str) -> Expr:
    """An expression without quotes: a dotted name is one column."""

    def quoted(node: Tree) -> Tree:
        if not isinstance(node, exp.Column):
            return node
        return exp.Column(this=identifier(".".join(part.name for part in node.parts)))

    return Expr.of(parse_one(text, dialect=VERBATIM).transform(quoted))


def _listed(text: str) -> list[str]:
    """The parts between top-level commas."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
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


def _scan(head: re.Match[str], _: Sequence[Node]) -> Node:
    version = Version(head[2] or "now")
    names = tuple(name for name in _listed(head[3]) if name != WEIGHT)
    return Scan(TableName.parse(head[1]), names, version)


def _aggregate(head: re.Match[str], inputs: Sequence[Node]) -> Node:
    calls = tuple(Call(name, value) for name, value in _named(head[1]))
    return Aggregate(inputs[0], _items(head[2] or ""), calls)


def _top(head: re.Match[str], inputs: Sequence[Node]) -> Node:
    order = tuple(
        Order(expr(part.removesuffix(" desc")), part.endswith(" desc")) for part in _listed(head[2])
    )
    partition = tuple(map(expr, _listed(head[3] or "")))
    return TopK(inputs[0], order, int(head[1]), partition=partition)


_HEADS: dict[str, Make] = {
    r"Scan (\S+)(?: \[(\w+)\])? \((.*)\)": _scan,
    r"Parameter (\S+) \((.*)\)": lambda head, _: Parameter(head[1], tuple(_listed(head[2]))),
    r"Filter (.*)": lambda head, inputs: Filter(inputs[0], expr(head[1])),
    r"Project (.*)": lambda head, inputs: Project(inputs[0], _items(head[1])),
    r"Join(?: on (.*?)| \(all pairs\))( \[first input small\])?": lambda head, inputs: Join(
        tuple(inputs), _condition(head[1]), bool(head[2])
    ),
    r"Distinct (.*)": lambda head, inputs: Aggregate(inputs[0], _items(head[1])),
    r"Aggregate (.*?)(?: by (.*))?": _aggregate,
    r"UnionAll": lambda _, inputs: UnionAll(tuple(inputs)),
    r"(Left|Full) join(?: on (.*)| \(all pairs\))": lambda head, inputs: Outer(
        inputs[0], inputs[1], _condition(head[2]), full=head[1] == "Full"
    ),
    r"Semi join(?: on (.*)| \(all pairs\))": lambda head, inputs: SemiJoin(
        inputs[0], inputs[1], _condition(head[1])
    ),
    r"Anti join(?: on (.*)| \(all pairs\))": lambda head, inputs: AntiJoin(
        inputs[0], inputs[1], _condition(head[1])
    ),
    r"Mark (\S+)(?: on (.*)| \(all pairs\))": lambda head, inputs: MarkJoin(
        inputs[0], inputs[1], _condition(head[2]), head[1]
    ),
    r"KeyFilter where (.*)": lambda head, inputs: KeyFilter(inputs[0], inputs[1], _on(head[1])),
    r"ReducedScan where (.*)": lambda head, inputs: ReducedScan(
        inputs[0], tuple(zip(inputs[1:], map(_on, head[1].split(" or ")), strict=True))
    ),
    r"TopK (\d+) by (.*?)(?: per (.*))?": _top,
}

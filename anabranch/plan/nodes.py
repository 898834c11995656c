"""The nodes of a plan: frozen and checked when made, so that a wrong plan cannot be built.

Scan · OneRow · Given · Again                            leaves
Filter · Project · Aggregate · Windows · Top · Generate  one input
Outer · Match · Semi · Difference                        two inputs: the second completes or judges
Look                                                     one input, and any number of keys
Join · UnionAll                                          many inputs
Recursive                                                a first relation, and a step that repeats

Names of columns are unique inside a node; a node's expressions name columns of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from anabranch.errors import InternalError
from anabranch.model import Box
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, column
from anabranch.plan.remembered import remembered

WEIGHT = "_ab_w"  # the signed multiplicity of a row of a delta


class Version(Enum):
    """Which state of a table a scan reads."""

    NOW = "now"  # as the user wrote it
    BEFORE = "before"
    AFTER = "after"
    DELTA = "delta"  # the rows that came and went, with their weight


class Node:
    """A relation: a bag of rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same operator over other inputs."""
        if inputs:
            raise InternalError(f"{type(self).__name__} has no inputs")
        return self


@dataclass(frozen=True)
class Item:
    """A column that is computed; `type` is Spark's, where it is known."""

    name: str
    expr: Expr
    type: str = ""


@dataclass(frozen=True)
class Call:
    """One aggregate call.

    `expr` is the whole call.  `function` is count, sum, avg, min or max when the call is that
    function of at most one argument and nothing else; then `arg`, `arg_type` and the FILTER
    condition `where` say the rest, and count without `arg` is COUNT(*).  Otherwise it is "".
    """

    name: str
    expr: Expr
    function: str = ""
    arg: Expr | None = None
    arg_type: str = ""
    where: Expr | None = None
    exact: bool = True  # the same rows give the same bits, in whatever order they come


@remembered
@dataclass(frozen=True)
class Scan(Node):
    """The rows of a table at one version.

    `within`: only rows that lie in one of the boxes are of interest; of the others, any.
    """

    table: TableName
    names: tuple[str, ...]
    version: Version = Version.NOW
    within: tuple[Box, ...] = ()

    def __post_init__(self) -> None:
        _unique(self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.names, WEIGHT) if self.version is Version.DELTA else self.names


@remembered
@dataclass(frozen=True)
class OneRow(Node):
    """One row without columns: SELECT without FROM."""

    @property
    def columns(self) -> tuple[str, ...]:
        return ()


@remembered
@dataclass(frozen=True)
class Given(Node):
    """A relation that whoever runs the plan will bind, such as the keys of touched groups."""

    name: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _unique(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True)
class OverOne(Node):
    """An operator with one input; it passes its columns on unless it says otherwise."""

    input: Node

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class OverTwo(Node):
    """An operator that looks at two inputs in different ways."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


@remembered
@dataclass(frozen=True)
class Filter(OverOne):
    """The rows for which the condition is true."""

    condition: Expr

    def __post_init__(self) -> None:
        _known(self.condition, self.input)


@remembered
@dataclass(frozen=True)
class Project(OverOne):
    """One row per row: the items."""

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        _unique(self.columns)
        for item in self.items:
            _known(item.expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)


@remembered
@dataclass(frozen=True)
class Join(Node):
    """Inner join of any number of inputs; no condition: all combinations.

    `broadcast`: the first input is small.
    """

    parts: tuple[Node, ...]
    condition: Expr | None = None
    broadcast: bool = False

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InternalError("a join needs two inputs")
        _unique(self.columns)
        if self.condition is not None:
            _known(self.condition, *self.parts)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, parts=tuple(inputs))


@remembered
@dataclass(frozen=True)
class Aggregate(OverOne):
    """One row per group of equal keys (NULL equals NULL); without keys exactly one row.

    Without calls it is DISTINCT.
    """

    keys: tuple[Item, ...]
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        if not self.keys and not self.calls:
            raise InternalError("an aggregate needs keys or calls")
        _unique(self.columns)
        for expr in (*(key.expr for key in self.keys), *(call.expr for call in self.calls)):
            _known(expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*(key.name for key in self.keys), *(call.name for call in self.calls))


@remembered
@dataclass(frozen=True)
class UnionAll(Node):
    """All rows of all inputs; the inputs name their columns alike."""

    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.parts or len({part.columns for part in self.parts}) != 1:
            raise InternalError("the inputs of UNION ALL must have the same columns")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parts[0].columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, parts=tuple(inputs))


@remembered
@dataclass(frozen=True)
class Outer(OverTwo):
    """The rows of a join, and every left row without a partner, completed with NULLs.

    `full`: every right row without a partner too.
    """

    condition: Expr | None = None
    full: bool = False

    def __post_init__(self) -> None:
        _unique(self.columns)
        if self.condition is not None:
            _known(self.condition, self.left, self.right)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, *self.right.columns)


class Partner(Enum):
    """What becomes of a left row that has, or has not, a partner on the right."""

    WANTED = "wanted"  # rows with a partner stay
    UNWANTED = "unwanted"  # rows without one stay
    MARKED = "marked"  # every row stays; a column says whether it has one


@remembered
@dataclass(frozen=True)
class Match(OverTwo):
    """Left rows, each once, judged by whether the condition is true for some right row.

    `one_to_one`: no two values of the right side equal the same one of the left.
    """

    condition: Expr | None
    partner: Partner
    mark: str = ""  # the name of the column, for MARKED
    one_to_one: bool = False

    def __post_init__(self) -> None:
        _unique((*self.columns, *self.right.columns))
        if bool(self.mark) != (self.partner is Partner.MARKED):
            raise InternalError("a match has a column exactly when it marks")
        if self.condition is not None:
            _known(self.condition, self.left, self.right)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, self.mark) if self.mark else self.left.columns


@remembered
@dataclass(frozen=True)
class Windows(OverOne):
    """The rows with a column per window call; all calls have the same partitions.

    An item's expression is the whole call, `SUM(x) OVER (PARTITION BY … ORDER BY …)`.
    """

    partition: tuple[Expr, ...]
    calls: tuple[Item, ...]
    types: tuple[str, ...] = ()  # of the partition's values

    def __post_init__(self) -> None:
        _unique(self.columns)
        for expr in (*self.partition, *(call.expr for call in self.calls)):
            _known(expr, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, *(call.name for call in self.calls))


@dataclass(frozen=True)
class Order:
    expr: Expr
    descending: bool = False
    nulls_first: bool = True


@remembered
@dataclass(frozen=True)
class Top(OverOne):
    """The first rows of every partition, after skipping some; `order` leaves no ties that show."""

    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        for expr in (*self.partition, *(each.expr for each in self.order)):
            _known(expr, self.input)


@remembered
@dataclass(frozen=True)
class Generate(OverOne):
    """Each row with every row that its generator, such as explode(a), makes of it.

    `outer`: a row for which it makes none stays, with NULLs.
    """

    generator: Expr
    names: tuple[str, ...]
    outer: bool = False

    def __post_init__(self) -> None:
        _unique(self.columns)
        _known(self.generator, self.input)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (*self.input.columns, *self.names)


@remembered
@dataclass(frozen=True)
class Again(Node):
    """Inside the step of a recursion: the rows that the last round found."""

    name: str
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@remembered
@dataclass(frozen=True)
class Recursive(Node):
    """R = seed + step(R): rows of the seed, of a step from them, of a step from those, and so on.

    The step names the recursion with Again, once in each of its branches; it is linear in it.

    `distinct`: R = seed ∪ step(R), the least set for which that holds; the step is monotone in it, and
    may name it several times.
    """

    name: str
    seed: Node
    step: Node
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.seed.columns != self.step.columns:
            raise InternalError("the step of a recursion must have the columns of its seed")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.seed.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.seed, self.step)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, seed=inputs[0], step=inputs[1])


@remembered
@dataclass(frozen=True)
class Difference(OverTwo):
    """What a set (the right one) has more than it had (the left one), and less, with weights."""

    def __post_init__(self) -> None:
        if self.left.columns != self.right.columns:
            raise InternalError("a difference needs the same columns twice")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.left.columns, WEIGHT)


On = tuple[tuple[Expr, str], ...]  # pairs an expression over an input with a column of its keys


@remembered
@dataclass(frozen=True)
class Semi(Node):
    """The rows of the input whose values are among the keys; NULL matches NULL.

    `broadcast`: few keys.
    """

    input: Node
    keys: Node
    on: On
    broadcast: bool = True

    def __post_init__(self) -> None:
        if not self.on:
            raise InternalError("a semi join needs something to compare")
        for expr, key in self.on:
            _known(expr, self.input)
            _known(column(key), self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.keys)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0], keys=inputs[1])


@remembered
@dataclass(frozen=True)
class Look(Node):
    """Of the rows whose values are among some of the keys, all; of the others, any.

    Whoever reads it asks for the keys again, so that looks at one table can be one.
    """

    input: Node
    by: tuple[tuple[Node, On], ...]

    def __post_init__(self) -> None:
        if not self.by or not all(on for _, on in self.by):
            raise InternalError("a look needs something to compare")
        for keys, on in self.by:
            for expr, key in on:
                _known(expr, self.input)
                _known(column(key), keys)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, *(keys for keys, _ in self.by))

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        first, *keys = inputs
        return Look(first, tuple(zip(keys, (on for _, on in self.by), strict=True)))


def same_columns(node: Node) -> tuple[Item, ...]:
    """Items that pass every column on."""
    return tuple(Item(name, column(name)) for name in node.columns)


def _unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InternalError(f"two columns of a plan node are named {name!r}")
        seen.add(name.lower())


def _known(expr: Expr, *inputs: Node) -> None:
    missing = expr.columns.difference(*(node.columns for node in inputs))
    if missing:
        raise InternalError(
            f"{expr.readable} names {sorted(missing)}, which its input does not have"
        )

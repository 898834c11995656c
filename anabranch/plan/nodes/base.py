"""What every operator of a plan says about itself.

An operator is a frozen dataclass that validates itself when it is made.  What the layers above need to
know of it are its *traits*, the methods and flags of `Node`: pruning, pushdown, rendering, `explain`
and the delta rules use them and do not dispatch on classes.  The default of each trait is correct for
any operator, if not the cheapest; an operator overrides what it knows better.

    columns        columns · keep_only · uses · origins · typed_like · defined · never_null
    rows           linear · combines · monotone · nonmonotone_inputs · demand_of · duplicating
    keys           routes · key_candidates
    cost           shareable · work · heavy
    text           head (in `explain`) · body, join_into, as_table (as SQL) · facts (in fingerprints)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Protocol

from sqlglot import exp

from anabranch.errors import InternalError
from anabranch.plan.demand import Demand, Operator
from anabranch.plan.exprs import Expr, Tree, column

if TYPE_CHECKING:
    from anabranch.plan.nodes.generate import Generate
    from anabranch.plan.nodes.leaves import Parameter, Scan
    from anabranch.plan.nodes.recursive import Recursive, RecursiveRef

WEIGHT = "_ab_w"  # the signed multiplicity of a row of a delta

Names = frozenset[str]
Candidates = tuple[tuple["Node", tuple[Expr, ...]], ...]  # each over the columns of a node
On = tuple[tuple[Expr, str], ...]  # pairs of an expression over an input and a column of its keys


class Version(Enum):
    """Which state of a table a scan reads."""

    NOW = "now"  # as the user wrote it
    BEFORE = "before"
    AFTER = "after"
    DELTA = "delta"  # the inserted and deleted rows, with their weights


@dataclass(frozen=True)
class Item:
    """A computed column; `type` is Spark's, where known."""

    name: str
    expr: Expr
    type: str = ""


@dataclass(frozen=True)
class Call:
    """One aggregate call.

    `expr` is the whole call.  `function` is count, sum, avg, min or max when the call is just that
    function of at most one argument; then `arg`, `arg_type` and the FILTER condition `where` say the
    rest, and count without `arg` is COUNT(*).  Otherwise it is "".
    """

    name: str
    expr: Expr
    function: str = ""
    arg: Expr | None = None
    arg_type: str = ""
    where: Expr | None = None
    exact: bool = (
        True  # the result does not depend on the order of the rows, not even in the last bit
    )


@dataclass(frozen=True)
class Order:
    expr: Expr
    descending: bool = False
    nulls_first: bool = True

    @property
    def head(self) -> str:
        return f"{self.expr.readable} desc" if self.descending else self.expr.readable


@dataclass(frozen=True)
class Origin:
    """A column of one of a node's inputs."""

    input: int
    name: str


class Sql(Protocol):
    """The statement that a node adds itself to; see sql/render."""

    def select(self, source: Node, items: tuple[Item, ...]) -> exp.Select:
        """SELECT items FROM source, including the joins and conditions of the source."""

    def join_into(self, query: exp.Select, source: Node) -> list[Expr]:
        """Add the FROM clause; returns the conditions that belong into the WHERE clause."""

    def relation(self, node: Node) -> exp.Query:
        """A query of a node, by its name where it has one."""

    def body(self, node: Node) -> exp.Query:
        """A query of a node."""

    def source(self, node: Node) -> tuple[Tree, str]:
        """A node as a FROM item, and its alias."""

    def aliased(self, query: exp.Query) -> tuple[Tree, str]:
        """A query as a FROM item, and its alias."""

    def alias(self) -> str:
        """An unused alias."""

    def stored(self, leaf: Scan | Parameter) -> exp.Table:
        """The table that stands for a leaf."""

    def recursion(self, node: Recursive) -> exp.Table:
        """The common table expression of a recursion."""

    def recursive_ref(self, node: RecursiveRef) -> exp.Table:
        """The recursion whose step is being rendered."""

    def lateral(self, node: Generate) -> Tree:
        """LATERAL VIEW."""

    def hint(self, query: exp.Select, alias: str) -> None:
        """A broadcast hint for the FROM item with this alias."""

    def keys(self, keys: Node, on: On) -> tuple[Tree, str, Tree]:
        """Keys as a FROM item, its alias, and the join condition."""

    def without_distinct(self, keys: Node) -> Node:
        """The keys, possibly with duplicates, where that is cheaper."""

    def item(self, item: Item) -> Tree:
        """A column of a SELECT list."""

    def written(self, expr: Expr) -> Tree:
        """An expression."""

    def column(self, name: str) -> Tree:
        """A column."""

    def condition(self, expr: Expr) -> Tree:
        """An expression that can be an operand of AND."""

    def operand(self, expr: Expr) -> Tree:
        """An expression, in parentheses unless it needs none."""


class Node:
    """A relation: a bag of rows."""

    spelled: ClassVar[str] = (
        ""  # the name in stored fingerprints, where it is not that of the class
    )
    linear: ClassVar[bool] = False  # Q(R + S) = Q(R) + Q(S), in each of its inputs
    monotone: ClassVar[bool] = False  # more rows of an input never remove a row
    exact: ClassVar[bool] = False  # inputs must have exactly the columns that are used of them
    shareable: ClassVar[bool] = False  # it may become a common table expression
    named: ClassVar[bool] = False  # it is a table in SQL: its rows are stored or bound
    work: ClassVar[bool] = False  # more than a scan, renamed or filtered

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

    # -- columns

    def keep_only(self, needed: Names) -> Node:
        """The node without the outputs that are not needed; its input if it computes nothing else."""
        return self

    def uses(self, needed: Names) -> tuple[Names | None, ...]:
        """Per input, the columns that the needed outputs and the choice of rows depend on; None: all
        columns stay."""
        return tuple(None for _ in self.inputs)

    def origins(self, name: str) -> tuple[Origin, ...]:
        """Input columns whose values include all values of a column; empty: unknown."""
        return ()

    def typed_like(self, name: str) -> tuple[Origin, ...]:
        """The columns of inputs that a column takes its type from: the same values, or NULL."""
        return self.origins(name)

    def defined(self, name: str) -> Item | Call | None:
        """What computes a column over the first input; None: it is passed on, or nobody knows."""
        return None

    def never_null(self, name: str) -> bool:
        """Whether a column is known not to be NULL from the plan alone."""
        return False

    # -- rows

    @property
    def combines(self) -> bool:
        """Whether a value may come from several rows of an input."""
        return not self.linear

    def nonmonotone_inputs(self, demand: Demand) -> list[tuple[Operator, Node]]:
        """The inputs whose additional rows may remove rows; `demand`: what the operators above need."""
        return [] if self.monotone else [(Operator.OTHER, node) for node in self.inputs]

    def demand_of(self, demand: Demand) -> Demand:
        """What is needed of the columns of its inputs, for the operators above and for itself."""
        return Demand(values=frozenset(name for node in self.inputs for name in node.columns))

    @property
    def duplicating(self) -> tuple[Node, ...]:
        """The inputs whose duplicate rows become duplicates of the output."""
        return self.inputs

    # -- keys

    def routes(self, on: On) -> tuple[On, ...] | None:
        """How a filter on keys is pushed down: per input, the comparisons with the keys (empty: the
        input stays unfiltered); None: it cannot be pushed."""
        return None

    @property
    def key_candidates(self) -> Candidates | None:
        """What groups, matches or rows may be found by, here or above; None: nobody knows.

        Of columns that an input has only those that the operator computes with; and the columns that
        it adds, unless they are of a type that keys can have in any case.
        """
        return None

    # -- cost

    @property
    def heavy(self) -> bool:
        """Whether computing it twice costs more than storing its rows."""
        return False

    # -- text

    @property
    def facts(self) -> Mapping[str, object]:
        """What a fingerprint has of it besides its fields."""
        return {}

    @property
    def head(self) -> str:
        """Its line in a printed plan."""
        return type(self).__name__

    def body(self, sql: Sql) -> exp.Query:
        """A query for its rows."""
        raise InternalError(f"{type(self).__name__} cannot be written as SQL")

    def join_into(self, sql: Sql, query: exp.Select) -> list[Expr]:
        """Make it the FROM clause of a query; returns conditions for the WHERE clause."""
        query.from_(sql.source(self)[0], copy=False)
        return []

    def as_table(self, sql: Sql) -> exp.Table:
        """The table that represents it in SQL, if it is `named`."""
        raise InternalError(f"{type(self).__name__} has no name")


class Clause(Node):
    """An operator that becomes a clause of a SELECT: it overrides `join_into`."""

    def body(self, sql: Sql) -> exp.Query:
        return sql.select(self, same_columns(self))


@dataclass(frozen=True)
class OverOne(Node):
    """An operator with one input, whose columns it passes on by default."""

    input: Node

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0])

    def origins(self, name: str) -> tuple[Origin, ...]:
        return (Origin(0, name),) if name in self.input.columns else ()


@dataclass(frozen=True)
class OverTwo(Node):
    """An operator that uses its two inputs in different ways."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


def same_columns(node: Node) -> tuple[Item, ...]:
    """Items that pass every column on."""
    return items_of(node.columns)


def items_of(names: Iterable[str]) -> tuple[Item, ...]:
    """Items that pass columns on."""
    return tuple(Item(name, column(name)) for name in names)


def used_by(items: Iterable[Item | Call]) -> Names:
    return frozenset[str]().union(*(item.expr.columns for item in items))


def columns_of(condition: Expr | None) -> Names:
    return condition.columns if condition is not None else frozenset()


def needed_or_first(names: Iterable[str], needed: Names) -> tuple[str, ...]:
    """The needed columns; at least one, since rows without columns could not be counted."""
    candidates = tuple(names)
    return tuple(name for name in candidates if name in needed) or candidates[:1]


def passed_on(items: Iterable[Item]) -> dict[str, str]:
    """Item name → input column, for items that only pass a column on."""
    return {item.name: item.expr.column for item in items if item.expr.column is not None}


def item_heads(items: Iterable[Item | Call]) -> str:
    return ", ".join(map(_item_head, items))


def _item_head(item: Item | Call) -> str:
    text = item.expr.readable
    return text if text == item.name else f"{text} as {item.name}"


def condition_head(condition: Expr | None) -> str:
    return f" on {condition.readable}" if condition is not None else " (all pairs)"


def keys_head(on: On) -> str:
    return " and ".join(f"{expr.readable} is {key}" for expr, key in on)


def check_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InternalError(f"two columns of a plan node are named {name!r}")
        seen.add(name.lower())


def check_known(expr: Expr, *inputs: Node) -> None:
    missing = expr.columns.difference(*(node.columns for node in inputs))
    if missing:
        raise InternalError(
            f"{expr.readable} names {sorted(missing)}, which its input does not have"
        )


def check_keys(on: On, node: Node, keys: Node) -> None:
    if not on:
        raise InternalError("a semi join needs something to compare")
    for expr, key in on:
        check_known(expr, node)
        check_known(column(key), keys)


def orders(order: Sequence[Order]) -> Iterator[exp.Ordered]:
    for key in order:
        yield exp.Ordered(
            this=key.expr.tree.copy(), desc=key.descending, nulls_first=key.nulls_first
        )

"""A member of a component, X = F(S, X): the plans of one round of its fixed point.

S: what lies outside, from S₀ to S₁.  X: all members, batch by batch.

grown   F(S₁, X after) − F(S₀, X before)        the lines that come
lost    rows with a derivation in F(S₀, X₀) that uses a row that goes: at least those
again   F(S₁, X after) for given rows only

Where the root is DISTINCT the member is a set: its lines are those of the query without any DISTINCT,
and whoever stores them leaves out what is there already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from anabranch.delta.differentiate import delta
from anabranch.delta.overdelete import Loss, over_deleted
from anabranch.delta.rule import Changed, at, net, weighted
from anabranch.names import TableName
from anabranch.plan.exprs import Expr, binary, call, cast, column, conjunction, literal, when
from anabranch.plan.monotone import counts_copies, distinct_root, reads
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    AntiJoin,
    Filter,
    Generate,
    Item,
    Join,
    KeyFilter,
    Node,
    Parameter,
    Project,
    Recursive,
    Scan,
    UnionAll,
    Version,
)
from anabranch.plan.rules.push_keys import filter_keys
from anabranch.plan.walk import reads_now, walk

_COPY, _W = "_ab_i", column(WEIGHT)
NEGATIVE = "anabranch internal: a member of a component has lost a row in a round"


@dataclass(frozen=True)
class Member:
    name: TableName
    plan: Node
    component: frozenset[TableName]  # all members of the component

    @cached_property
    def is_set(self) -> bool:
        return distinct_root(self.plan) is not None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.plan.columns

    @cached_property
    def body(self) -> Node:
        root = distinct_root(self.plan)
        return self.plan if root is None else _without_distinct(root, self.component)

    @cached_property
    def sources(self) -> frozenset[TableName]:
        return reads_now(self.body) - self.component

    @cached_property
    def upstreams(self) -> tuple[TableName, ...]:
        """The members that it reads."""
        return tuple(sorted(reads(self.body, self.component)))

    @property
    def now(self) -> Scan:
        """Its own rows, up to the last batch."""
        return Scan(self.name, self.columns, Version.AFTER)

    def whole(self) -> Node:
        return at(self.body, Version.AFTER)

    def grown(self, changed: Changed, *, only_gains: bool) -> Node | None:
        """Each row that comes, as often as it does.  `only_gains`: no source has lost a row."""
        change = delta(self.body, changed)
        if change is None:
            return None
        sure = only_gains and all(part.linear for part in walk(self.body))
        if sure or (only_gains and self.is_set):
            gained = change if sure else Filter(change, binary(exp.GT, _W, literal(0)))
            return self.records(gained)
        gained = net(change)
        if not only_gains:  # what went is asked for anew
            gained = Filter(gained, binary(exp.GT, _W, literal(0)))
        return self.records(gained if self.is_set else _copies(gained))

    def more(self) -> Node:
        """F(S₁, X) − X, without Δ: only rows that meet in the new state are ever put together."""
        if self.is_set:
            return self.records(self.whole())
        states = UnionAll((weighted(self.whole(), 1), weighted(self.now, -1)))
        return self.records(_copies(Filter(net(states), binary(exp.GT, _W, literal(0)))))

    def lost(self, changed: Changed, *, careful: bool = False) -> Node | None:
        """At least what goes with the rows that `changed` loses; see `overdelete` for the law."""
        rows = over_deleted(self.body, Loss(changed, self.component, careful))
        return None if rows is None else self.records(rows)

    def again(self, wanted: Parameter) -> Node:
        """Those of the given rows that the query has, as often as it has them."""
        on = tuple((column(name), name) for name in self.columns)
        return among(self.whole(), wanted, on)

    def records(self, node: Node) -> Node:
        return Project(node, tuple(Item(name, column(name)) for name in self.columns))

    def given(self, name: str) -> Parameter:
        return Parameter(name, self.columns)


def without(rows: Node, others: Node) -> Node:
    """The rows that are not among the others; NULL is NULL."""
    renamed = tuple(Item(f"_ab_x{i}", column(name)) for i, name in enumerate(others.columns))
    pairs = zip(rows.columns, renamed, strict=True)
    same = conjunction(
        binary(exp.NullSafeEQ, column(mine), column(theirs.name)) for mine, theirs in pairs
    )
    return AntiJoin(rows, Project(others, renamed), same)


def among_rows(rows: Node, wanted: Node, *, broadcast: bool = True) -> Node:
    """The rows that are among the wanted ones."""
    return KeyFilter(rows, wanted, tuple((column(name), name) for name in rows.columns), broadcast)


def among(node: Node, wanted: Node, on: tuple[tuple[Expr, str], ...]) -> Node:
    """The rows of a node among the wanted ones.  Where no input of a join has all columns that are
    compared, each is asked for those it has, which leaves little to join."""
    match node:
        case Project():
            exprs = {item.name: item.expr for item in node.items}
            below = tuple((expr.substitute(exprs), key) for expr, key in on)
            return replace(node, input=among(node.input, wanted, below))
        case Filter():
            return replace(node, input=among(node.input, wanted, on))
        case UnionAll():
            return UnionAll(tuple(among(part, wanted, on) for part in node.parts))
        case Join() if not any(_has(part, on) for part in node.parts):
            parts = [_asked(part, wanted, on) for part in node.parts]
            return KeyFilter(node.with_inputs(parts), wanted, on)
    return filter_keys(node, wanted, on)


def _has(part: Node, on: tuple[tuple[Expr, str], ...]) -> bool:
    return all(expr.columns <= set(part.columns) for expr, _ in on)


def _asked(part: Node, wanted: Node, on: tuple[tuple[Expr, str], ...]) -> Node:
    mine = tuple(pair for pair in on if pair[0].columns and pair[0].columns <= set(part.columns))
    if not mine:
        return part
    names = dict.fromkeys(key for _, key in mine)
    keys = Aggregate(wanted, tuple(Item(name, column(name)) for name in names))
    return filter_keys(part, keys, mine)


def _without_distinct(node: Node, component: frozenset[TableName]) -> Node:
    """The query without DISTINCT above members, where it does not matter how often a row comes."""
    if not reads(node, component) or counts_copies(node) or isinstance(node, Recursive):
        return node
    if isinstance(node, Aggregate) and not node.calls:
        return _without_distinct(Project(node.input, node.keys), component)
    return node.with_inputs([_without_distinct(part, component) for part in node.inputs])


def _copies(gained: Node) -> Node:
    """Each row as often as its weight says."""
    wrong = Expr.of(exp.Literal.string(NEGATIVE))
    weight = when(binary(exp.LT, _W, literal(0)), call("RAISE_ERROR", wrong), _W)
    numbers = call("SEQUENCE", cast(literal(1), "bigint"), cast(weight, "bigint"))
    return Generate(gained, call("EXPLODE", numbers), (_COPY,))

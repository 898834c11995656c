"""Over-deletion: at least the rows of a member that may go when rows of what it reads go.

Sources move from S₀ to S₁, O are the rows that members have lost so far, X₀ the old fixed point.
D(Q), the rows to delete from a query Q that only gains rows when members do, keeps to one law:

    D(Q)  ⊇  { r : Q(S₁, L − O) has fewer r than Q(S₀, L), for some L ≤ X₀ }

L stands for the rounds in which X₀ was once derived.  Round by round, a row that is in no D is derived
from S₁ as well, without any row of O: X₀ − O lies below the new fixed point, and no row is left that
only leans on rows that went.

The rows of D have no sign, so no rule can net what is after with what was before: here both are the
same state of the members, and their difference says nothing.  Whatever is read besides is as it was
before, S₀ and X₀, of which Q(S₀, L) is a part.

    no member below Q       the negative rows of ΔQ: by its own law, Q₁ = Q₀ + ΔQ
    member m                O
    σ, π, DISTINCT, EXPLODE the same of D(R): a row is gone only if a row that it was made of is
    R + S                   D(R) + D(S)
    R ⋈ S                   D(R) ⋈ S₀  +  R₀ ⋈ D(S): a pair is gone only if one of the two is
    L ⋉ R                   D(L) ⋉ R₀  +  L₀ ⋉ D(R): a left row goes with its last partner
    L marked by R           the same, as marked before; a mark that a member decides is only ever asked
                            whether it is true, and where it was not, nothing is lost with a partner
    L ▷ R, L ⟕ R            Q(D(L), R₀)  +  Q(L₀ ⋉ ΔR, R₀): R reads no member, and any change of a
                            partner may change what the left row comes to
    R ∩ S                   what it was for the keys in D(R) and D(S)
    R − S                   what it was for the keys in D(R) and in the positive rows of ΔS
    anything else           all that it was
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from anabranch.cache import cached
from anabranch.delta.by_class import ByClass
from anabranch.delta.differentiate import delta
from anabranch.delta.join import joined
from anabranch.delta.rule import Changed, at, net, weighted
from anabranch.delta.touched import among, keys_of
from anabranch.names import TableName
from anabranch.plan.equalities import Equality, equalities
from anabranch.plan.exprs import Expr, binary, column, conjuncts, literal
from anabranch.plan.monotone import CountedSides, counted_sides, reads
from anabranch.plan.nodes import (
    WEIGHT,
    Aggregate,
    ExistenceJoin,
    Filter,
    Generate,
    Item,
    Join,
    MarkJoin,
    Node,
    Outer,
    Project,
    Scan,
    SemiJoin,
    UnionAll,
    Version,
    same_columns,
)
from anabranch.plan.nulls import without_nulls
from anabranch.plan.rules.filter_below_join import filter_below_join
from anabranch.plan.walk import reads_now


@dataclass(frozen=True)
class Loss:
    """What loses rows: some sources that changed, or some members.

    `careful`: what reads no member is compared as it was and as it is, because Δ may join rows that
    never met in either state, and break on them.
    """

    changed: Changed
    circle: frozenset[TableName]
    careful: bool = False


RULES = ByClass[Callable[[Any, Loss], Node]]()  # of D; without one, all that was
over_deletes = RULES.add


def over_deleted(node: Node, loss: Loss) -> Node | None:
    """At least the rows of a node that may go, without a sign and some of them more than once."""
    if not reads_now(node) & loss.changed:
        return None
    return _over_deleted(node, loss)


@cached(1_000)
def _over_deleted(node: Node, loss: Loss) -> Node:
    if not reads(node, loss.circle):
        return _signed(node, loss, exp.LT)
    return (RULES.find(node) or everything)(node, loss)


def everything(node: Node, loss: Loss) -> Node:
    return before(node)


def before(node: Node) -> Node:
    return at(node, Version.BEFORE)


def _signed(node: Node, loss: Loss, sign: type[exp.LT] | type[exp.GT]) -> Node:
    """The rows of Δ of one sign, of what no member decides."""
    change = _change(node, loss)
    if change is None:
        return Filter(before(node), Expr("FALSE"))
    rows = Filter(change, binary(sign, column(WEIGHT), literal(0)))
    return Project(rows, same_columns(node))


def _unsigned(node: Node, loss: Loss) -> Node | None:
    """All rows of Δ, whether they come or go."""
    change = _change(node, loss)
    return None if change is None else Project(change, same_columns(node))


def _change(node: Node, loss: Loss) -> Node | None:
    if not loss.careful or not reads_now(node) & loss.changed:
        return delta(node, loss.changed)
    states = ((Version.AFTER, 1), (Version.BEFORE, -1))
    return net(UnionAll(tuple(weighted(at(node, version), sign) for version, sign in states)))


# -- one rule for each operator that a member may be read through ------------------------------------


@over_deletes(Scan)
def scan(node: Scan, loss: Loss) -> Node:
    return Project(replace(node, version=Version.DELTA), same_columns(node))


@over_deletes(Project, Generate)
def linear(node: Filter | Project | Generate, loss: Loss) -> Node:
    return node.with_inputs([_over_deleted(node.input, loss)])


@over_deletes(Filter)
def filter_(node: Filter, loss: Loss) -> Node:
    sides = counted_sides(node)
    return linear(node, loss) if sides is None else counted(node, sides, loss)


@over_deletes(Aggregate)
def distinct(node: Aggregate, loss: Loss) -> Node:
    """DISTINCT; members are read below no other aggregate but those of `counted`."""
    if node.calls:
        return everything(node, loss)
    return Project(_over_deleted(node.input, loss), node.keys)


def counted(node: Filter, sides: CountedSides, loss: Loss) -> Node:
    """INTERSECT and EXCEPT: as it was, for the keys that are touched."""
    counts = node.input
    assert isinstance(counts, Aggregate)
    touched = [over_deleted(sides.left, loss)]
    if not sides.negative:
        touched.append(over_deleted(sides.right, loss))
    elif reads_now(sides.right) & loss.changed:
        touched.append(_signed(sides.right, loss, exp.GT))
    exprs = [key.expr for key in counts.keys]
    keys = [keys_of(rows, exprs) for rows in touched if rows is not None]
    if not keys:  # only what is excepted has changed, and it lost rows
        return Filter(before(node), Expr("FALSE"))
    found = keys[0] if len(keys) == 1 else _once(UnionAll(tuple(keys)))
    kept = replace(counts, input=among(before(counts.input), exprs, found))
    return replace(node, input=kept)


@over_deletes(UnionAll)
def union_all(node: UnionAll, loss: Loss) -> Node:
    return _all(over_deleted(part, loss) for part in node.parts)


@over_deletes(Join)
def join(node: Join, loss: Loss) -> Node:
    node = filter_below_join(node)
    terms = []
    for position, part in enumerate(node.parts):
        rows = over_deleted(part, loss)
        if rows is not None:
            others = [before(other) for at, other in enumerate(node.parts) if at != position]
            terms.append(joined(node, rows, others))
    return _all(terms)


@over_deletes(ExistenceJoin)
def existence(node: ExistenceJoin, loss: Loss) -> Node:
    if not reads(node.right, loss.circle):
        return judged(node, loss)
    partners = over_deleted(node.right, loss)
    losers = None if partners is None else _with_partner(node, partners)
    if losers is not None and isinstance(node, MarkJoin):
        losers = Project(losers, (*same_columns(node.left), Item(node.mark, Expr("TRUE"))))
    return _all([_of_left(node, loss), losers])


def judged(node: Outer | ExistenceJoin, loss: Loss) -> Node:
    """The right side reads no member: what the left rows that it touches came to."""
    partners = _unsigned(node.right, loss)
    touched = None if partners is None else _as_it_was(node, _with_partner(node, partners))
    return _all([_of_left(node, loss), touched])


@over_deletes(Outer)
def outer(node: Outer, loss: Loss) -> Node:
    return everything(node, loss) if node.full else judged(node, loss)


# -- what they share -----------------------------------------------------------------------------------


def _of_left(node: Outer | ExistenceJoin, loss: Loss) -> Node | None:
    """Q(D(L), R₀)"""
    rows = over_deleted(node.left, loss)
    return None if rows is None else _as_it_was(node, rows)


def _as_it_was(node: Outer | ExistenceJoin, left: Node) -> Node:
    """What some left rows came to; of the right side only what has their keys is read."""
    right, pairs = before(node.right), _pairs(node)
    if pairs:
        keys = _met(keys_of(left, [pair.left for pair in pairs]), pairs)
        right = among(right, [pair.right for pair in pairs], keys)
    return node.with_inputs([left, right])


def _with_partner(node: Outer | ExistenceJoin, partners: Node) -> Node:
    """L₀ ⋉ partners.  Keys say where to look; they are all that is compared if the condition is made
    of nothing but equalities."""
    left, pairs = before(node.left), _pairs(node)
    if pairs:
        keys = _met(keys_of(partners, [pair.right for pair in pairs]), pairs)
        left = among(left, [pair.left for pair in pairs], keys)
    if pairs and len(pairs) == len(list(conjuncts(node.condition))):
        return left
    return SemiJoin(left, partners, node.condition)


def _pairs(node: Outer | ExistenceJoin) -> tuple[Equality, ...]:
    return equalities(node.condition, node.left.columns, node.right.columns)


def _met(keys: Node, pairs: tuple[Equality, ...]) -> Node:
    """The keys that can have a partner."""
    named = zip(keys.columns, pairs, strict=True)
    return without_nulls(keys, [name for name, pair in named if not pair.null_safe])


def _once(rows: Node) -> Aggregate:
    return Aggregate(rows, same_columns(rows))


def _all(parts: Iterable[Node | None]) -> Node:
    found = tuple(part for part in parts if part is not None)
    return UnionAll(found) if len(found) > 1 else found[0]

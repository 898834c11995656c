"""Over-deletion (DRed): a superset of the rows of a member that may go when its inputs lose rows.

Sources change from S₀ to S₁, O is what members have lost so far, X₀ the old fixed point.  D(Q), the
rows to delete from a query Q that is monotone in the members, follows one law:

    D(Q)  ⊇  { r : Q(S₁, L − O) has fewer r than Q(S₀, L), for some L ≤ X₀ }

L stands for the iterations in which X₀ was once derived.  By induction over them, a row in no D is
derived from S₁ as well, without any row of O: X₀ − O lies below the new fixed point, and no row is left
that only depends on deleted rows.

The rows of D have no sign, so no rule can cancel rows after the change against rows before it: here
both are the same state of the members, and their difference means nothing.  Everything else that is
read is in the state before, S₀ and X₀, of which Q(S₀, L) is a part.

    no member below Q       the negative rows of ΔQ: by its own law, Q₁ = Q₀ + ΔQ
    member m                O
    σ, π, DISTINCT, EXPLODE the same of D(R): a row is deleted only if a row it was made of is
    R + S                   D(R) + D(S)
    R ⋈ S                   D(R) ⋈ S₀  +  R₀ ⋈ D(S): a pair is deleted only if one of the two is
    L ⋉ R                   D(L) ⋉ R₀  +  L₀ ⋉ D(R): a left row is deleted with its last match
    mark join L, R          the same, with the marks before; of a mark that depends on a member only its
                            truth is used, and where it was false, nothing is lost with a match
    L ▷ R, L ⟕ R            Q(D(L), R₀)  +  Q(L₀ ⋉ ΔR, R₀): R reads no member, and any change of a
                            match may change the result for the left row
    R ∩ S                   the old rows for the keys in D(R) and D(S)
    R − S                   the old rows for the keys in D(R) and in the positive rows of ΔS
    anything else           all old rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from anabranch.cache import cached
from anabranch.delta.differentiate import delta
from anabranch.delta.join import joined
from anabranch.delta.registry import Registry
from anabranch.delta.rule import Changed, at, net, weighted
from anabranch.delta.touched import among, keys_of, matchable
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
from anabranch.plan.optimize import OPERATOR_RULES, optimize
from anabranch.plan.walk import reads_now


@dataclass(frozen=True)
class Loss:
    """The cause of a loss of rows: sources that changed, or members that lost rows.

    `careful`: subplans that read no member are compared before and after the change, because Δ may join
    rows that existed in neither state together, and fail on them.
    """

    changed: Changed
    members: frozenset[TableName]
    careful: bool = False


RULES = Registry[Callable[[Any, Loss], Node]]()  # of D; by default, all old rows
over_deletes = RULES.add


def over_deleted(node: Node, loss: Loss) -> Node | None:
    """A superset of the rows of a node that may go, without signs and possibly with duplicates."""
    if not reads_now(node) & loss.changed:
        return None
    return _over_deleted(node, loss)


@cached(1_000)
def _over_deleted(node: Node, loss: Loss) -> Node:
    if not reads(node, loss.members):
        return _rows_of_sign(node, loss, exp.LT)
    rule = RULES.find(node) or all_old_rows
    return rule(optimize(node, OPERATOR_RULES), loss)


def all_old_rows(node: Node, loss: Loss) -> Node:
    return before(node)


def before(node: Node) -> Node:
    return at(node, Version.BEFORE)


def _rows_of_sign(node: Node, loss: Loss, sign: type[exp.LT] | type[exp.GT]) -> Node:
    """The rows of Δ with one sign, of a subplan that reads no member."""
    changes = _delta(node, loss)
    if changes is None:
        return Filter(before(node), Expr("FALSE"))
    matching = Filter(changes, binary(sign, column(WEIGHT), literal(0)))
    return Project(matching, same_columns(node))


def _changed_rows(node: Node, loss: Loss) -> Node | None:
    """All rows of Δ, inserted and deleted."""
    changes = _delta(node, loss)
    return None if changes is None else Project(changes, same_columns(node))


def _delta(node: Node, loss: Loss) -> Node | None:
    if not loss.careful or not reads_now(node) & loss.changed:
        return delta(node, loss.changed)
    states = ((Version.AFTER, 1), (Version.BEFORE, -1))
    return net(UnionAll(tuple(weighted(at(node, version), sign) for version, sign in states)))


# -- one rule for each operator above a reference to a member ------------------------------------


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
    """DISTINCT; members are below no other aggregates except those of `counted`."""
    if node.calls:
        return all_old_rows(node, loss)
    return Project(_over_deleted(node.input, loss), node.keys)


def counted(node: Filter, sides: CountedSides, loss: Loss) -> Node:
    """INTERSECT and EXCEPT: the old rows for the touched keys."""
    counts = node.input
    assert isinstance(counts, Aggregate)
    touched = [over_deleted(sides.left, loss)]
    if not sides.negative:
        touched.append(over_deleted(sides.right, loss))
    elif reads_now(sides.right) & loss.changed:
        touched.append(_rows_of_sign(sides.right, loss, exp.GT))
    exprs = [key.expr for key in counts.keys]
    keys = [keys_of(rows, exprs) for rows in touched if rows is not None]
    if not keys:  # only the right side of EXCEPT changed, and it lost rows
        return Filter(before(node), Expr("FALSE"))
    all_keys = keys[0] if len(keys) == 1 else _distinct(UnionAll(tuple(keys)))
    old_counts = replace(counts, input=among(before(counts.input), exprs, all_keys))
    return replace(node, input=old_counts)


@over_deletes(UnionAll)
def union_all(node: UnionAll, loss: Loss) -> Node:
    return _union(over_deleted(child, loss) for child in node.parts)


@over_deletes(Join)
def join(node: Join, loss: Loss) -> Node:
    terms = []
    for position, child in enumerate(node.parts):
        rows = over_deleted(child, loss)
        if rows is not None:
            others = [before(other) for index, other in enumerate(node.parts) if index != position]
            terms.append(joined(node, rows, others))
    return _union(terms)


@over_deletes(ExistenceJoin)
def existence(node: ExistenceJoin, loss: Loss) -> Node:
    if not reads(node.right, loss.members):
        return affected(node, loss)
    lost_matches = over_deleted(node.right, loss)
    affected_rows = None if lost_matches is None else _matching(node, lost_matches)
    if affected_rows is not None and isinstance(node, MarkJoin):
        affected_rows = Project(
            affected_rows, (*same_columns(node.left), Item(node.mark, Expr("TRUE")))
        )
    return _union([_left_loss(node, loss), affected_rows])


def affected(node: Outer | ExistenceJoin, loss: Loss) -> Node:
    """The right side reads no member: the old result for the left rows that its change affects."""
    changed_matches = _changed_rows(node.right, loss)
    affected_rows = (
        None if changed_matches is None else _old_result(node, _matching(node, changed_matches))
    )
    return _union([_left_loss(node, loss), affected_rows])


@over_deletes(Outer)
def outer(node: Outer, loss: Loss) -> Node:
    return all_old_rows(node, loss) if node.full else affected(node, loss)


# -- helpers -----------------------------------------------------------------------------------


def _left_loss(node: Outer | ExistenceJoin, loss: Loss) -> Node | None:
    """Q(D(L), R₀)"""
    rows = over_deleted(node.left, loss)
    return None if rows is None else _old_result(node, rows)


def _old_result(node: Outer | ExistenceJoin, left: Node) -> Node:
    """The old result for some left rows; of the right side only rows with their keys are read."""
    right, pairs = before(node.right), _pairs(node)
    if pairs:
        keys = matchable(keys_of(left, [pair.left for pair in pairs]), pairs)
        right = among(right, [pair.right for pair in pairs], keys)
    return node.with_inputs([left, right])


def _matching(node: Outer | ExistenceJoin, matches: Node) -> Node:
    """L₀ ⋉ matches.  A filter on keys comes first; it is enough if the condition consists of equalities
    only."""
    left, pairs = before(node.left), _pairs(node)
    if pairs:
        keys = matchable(keys_of(matches, [pair.right for pair in pairs]), pairs)
        left = among(left, [pair.left for pair in pairs], keys)
    if pairs and len(pairs) == len(list(conjuncts(node.condition))):
        return left
    return SemiJoin(left, matches, node.condition)


def _pairs(node: Outer | ExistenceJoin) -> tuple[Equality, ...]:
    return equalities(node.condition, node.left.columns, node.right.columns)


def _distinct(rows: Node) -> Aggregate:
    return Aggregate(rows, same_columns(rows))


def _union(terms: Iterable[Node | None]) -> Node:
    present = tuple(term for term in terms if term is not None)
    return UnionAll(present) if len(present) > 1 else present[0]

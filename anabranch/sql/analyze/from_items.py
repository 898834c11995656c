"""FROM: which columns there are, and what decides which rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UserError, did_you_mean
from anabranch.names import TableName, shown
from anabranch.plan.exprs import Tree
from anabranch.sql.analyze.aggregates import misplaced
from anabranch.sql.analyze.bindings import bind_cte, bind_fields, bind_outputs, bind_using
from anabranch.sql.analyze.checks import not_a_condition
from anabranch.sql.analyze.columns import NOTHING, Column, Flow, Relation, together
from anabranch.sql.analyze.ctes import cte_of
from anabranch.sql.analyze.expressions import types_in
from anabranch.sql.analyze.generators import is_generator
from anabranch.sql.analyze.pivots import outputs
from anabranch.sql.analyze.scope import Field, Opaque, Scope, Side, Using, common_names, using
from anabranch.sql.analyze.sight import Sight


@dataclass(frozen=True)
class Rows:
    """The columns of FROM so far; `flow` is what decides which rows there are."""

    scope: Scope = field(default_factory=Scope)
    flow: Flow = NOTHING

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.scope + other.scope, self.flow | other.flow)

    def deciding(self, flow: Flow) -> Rows:
        return replace(self, flow=self.flow | flow.deciding)

    @property
    def opaque(self) -> Rows:
        """Nobody knows the columns any more, only whose they are."""
        flows: dict[tuple[str, ...], Flow] = {}
        for each in self.scope.fields:
            flows[each.qualifier] = flows.get(each.qualifier, NOTHING) | each.known.flow
        for known in self.scope.opaque:
            flows[known.qualifier] = flows.get(known.qualifier, NOTHING) | known.flow
        return Rows(Scope((), tuple(Opaque(*each) for each in flows.items())), self.flow)


class Queries(Protocol):
    """What FROM asks of the walk."""

    def fresh(self, name: str) -> str: ...
    def say(
        self, node: Tree, message: str, hint: str | None = None, *, unknown: bool = False
    ) -> None: ...
    def query(self, node: Tree, outer: Sight | None) -> Relation: ...
    def flow(self, root: Tree, sight: Sight) -> Flow: ...
    def within(self, node: Tree, sight: Sight, skip: Sequence[str] = ()) -> Flow: ...
    def renamed(self, relation: Relation, node: Tree) -> Relation: ...
    def cte(self, cte: exp.CTE | None) -> Relation | None: ...
    def table(self, name: TableName) -> Relation: ...
    def generated(self, call: Tree, sight: Sight) -> tuple[str, ...] | None: ...


def items_of(walk: Queries, relation: Relation, qualifier: tuple[str, ...]) -> Rows:
    """The rows of a relation under a name."""
    certain = relation.columns is not None
    fields = (
        Field(qualifier, each.made_up if each.name is None else each.name,
              walk.fresh(each.name or "c"), named=each.name is not None, known=each,
              certain=certain)
        for each in relation.planned or ()
    )  # fmt: skip
    opaque = () if certain else (Opaque(qualifier, relation.whole),)
    return Rows(Scope(tuple(fields), opaque), relation.flow.deciding)


def is_wrapper(node: exp.Subquery) -> bool:
    """(a JOIN b): the names inside are seen outside."""
    inner = isinstance(node.this, (exp.Table, exp.Subquery))
    return inner and not node.alias and not node.args.get("pivots")


def from_clause(walk: Queries, node: exp.Select, outer: Sight | None) -> Rows:
    rows = Rows()
    from_ = node.args.get("from_")
    if from_ is not None:
        rows = _item(walk, from_.this, rows, outer)
    return _more(walk, node, rows, outer)


def _more(walk: Queries, node: Tree, rows: Rows, outer: Sight | None) -> Rows:
    """What is joined to it, and what is made of its rows."""
    for join in node.args.get("joins") or ():
        rows = _join(walk, join, rows, outer)
    for lateral in node.args.get("laterals") or ():
        rows = rows + _item(walk, lateral, rows, outer)
    return rows


def _item(walk: Queries, node: Tree, before: Rows, outer: Sight | None) -> Rows:
    """One FROM item with what is joined to it; `before` is what LATERAL sees."""
    alias: tuple[str, ...] = (node.alias.lower(),) if node.alias else ()
    sight = Sight(before.scope, outer)
    relation, own = Relation(None), alias
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):  # a table function
            flow = walk.within(node, sight)
            relation = walk.renamed(Relation(None, Flow(flow.all)), node)
        case exp.Table():
            relation, name = _table(walk, node)
            own = alias or name
            relation = walk.renamed(pivoted(walk, node, relation, own, outer), node)
        case exp.Lateral():
            relation = _lateral(walk, node, sight)
        case exp.Subquery() if is_wrapper(node):
            inside = _item(walk, node.this, before, outer)
            return _more(walk, node, inside, outer)
        case exp.Subquery() if isinstance(node.this, exp.Table):
            inside = _item(walk, node.this, before, outer)
            relation = Relation(None, together([inside.flow, *_flows(inside.scope)]))
            relation = relation.perhaps(tuple(each.known for each in inside.scope.star()))
            relation = walk.renamed(pivoted(walk, node, relation, own, outer), node)
        case exp.Subquery() | exp.Values():
            relation = walk.query(node, outer)
    if pivots := node.args.get("pivots"):
        own = (pivots[-1].alias.lower(),) if pivots[-1].alias else ()
    rows = items_of(walk, relation, own)
    bind_fields(node, None if relation.planned is None else rows.scope.fields)
    return _more(walk, node, rows, outer)


def _flows(scope: Scope) -> list[Flow]:
    return [*(each.known.flow for each in scope.fields), *(each.flow for each in scope.opaque)]


def _table(walk: Queries, node: exp.Table) -> tuple[Relation, tuple[str, ...]]:
    cte = cte_of(node)
    bind_cte(node, cte)
    if (known := walk.cte(cte)) is not None:
        return known, (node.name.lower(),)
    name = TableName.of(*(part.name for part in node.parts))
    return walk.table(name), tuple(part.lower() for part in name.parts)


def pivoted(
    walk: Queries,
    node: Tree,
    relation: Relation,
    qualifier: tuple[str, ...],
    outer: Sight | None,
) -> Relation:
    """The rows behind the PIVOT clauses of a FROM item, whose own name is `qualifier`."""
    for pivot in node.args.get("pivots") or ():
        scope = items_of(walk, relation, qualifier).scope
        flow = walk.flow(pivot, Sight(scope.opened(), outer))
        made = None if relation.planned is None else outputs(pivot, scope)
        bind_outputs(pivot, made)
        columns = (
            None
            if made is None
            else (*(each.known for each in made.passed), *map(Column, made.made))
        )
        relation = relation.deciding(flow).perhaps(columns)
        qualifier = (pivot.alias.lower(),) if pivot.alias else ()
    return relation


def _lateral(walk: Queries, node: exp.Lateral, sight: Sight) -> Relation:
    """The rows that a query or a function makes for each row before it."""
    decides = walk.within(node, sight, skip=("this",))
    if isinstance(node.this, exp.Subquery):
        relation = walk.query(node.this, sight)
    else:
        relation = Relation(None, Flow(walk.flow(node.this, sight).all))
        relation = Relation(None, relation.flow | relation.flow.deciding)
        if is_generator(node.this):
            names = walk.generated(node.this, sight)
            relation = relation.perhaps(None if names is None else tuple(map(Column, names)))
    return walk.renamed(relation.deciding(decides), node)


def _join(walk: Queries, join: exp.Join, left: Rows, outer: Sight | None) -> Rows:
    right = _item(walk, join.this, left, outer)
    keys = [each.name for each in join.args.get("using") or ()]
    opaque = bool(left.scope.opaque or right.scope.opaque)
    natural = (join.args.get("method") or "").upper() == "NATURAL"
    if natural:
        keys = common_names(left.scope, right.scope)
    both = left + right
    flow = _condition(walk, join, Sight(both.scope, outer))
    known = _known_keys(walk, join, keys, left.scope, right.scope)
    joined = _using(walk, join, keys, known, left.scope, right.scope)
    if (keys or natural) and opaque:
        fields = () if joined is None else joined.scope.fields
        planned = Scope(tuple(replace(each, certain=False) for each in fields))
        flow |= together(_flows(both.scope)) if natural else NOTHING
        both = replace(both.opaque, scope=planned + both.opaque.scope)
    elif known and joined is not None:
        both = replace(both, scope=joined.scope)
        columns = {name for pair in joined.pairs for name in pair}
        compared = (*left.scope.fields, *right.scope.fields)
        flow |= together(each.known.flow for each in compared if each.column in columns)
    if (join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
        return Rows(left.scope, both.flow).deciding(flow)
    return both.deciding(flow)


def _side(join: exp.Join) -> Side:
    return Side(join.side.upper()) if join.side.upper() in ("LEFT", "RIGHT", "FULL") else Side.NONE


def _using(
    walk: Queries, join: exp.Join, keys: list[str], known: list[str], left: Scope, right: Scope
) -> Using | None:
    """The columns of the join, as far as both sides have its keys."""
    if not keys:
        bind_using(join, None)
        return None
    try:
        joined = using(left, right, keys, _side(join), walk.fresh)
    except UserError as error:
        bind_using(join, error)
        usable = [] if left.opaque or right.opaque else known
        return using(left, right, usable, _side(join), walk.fresh) if usable else None
    bind_using(join, joined)
    return joined


def _known_keys(
    walk: Queries, join: exp.Join, keys: list[str], left: Scope, right: Scope
) -> list[str]:
    """The keys of USING that both sides have, once each."""
    wrong: set[str] = set()
    for each in join.args.get("using") or ():
        for side in (left, right):
            own = [field for field in side.star() if field.name.lower() == each.name.lower()]
            if not own and not side.opaque:
                names = [f.name for f in side.star() if f.named and not f.known.broken]
                message = f"column {shown(each.name)} of USING does not exist"
                walk.say(each, message, did_you_mean(each.name, names), unknown=True)
            if len(own) != 1:
                wrong.add(each.name)
    return keys if left.opaque or right.opaque else [key for key in keys if key not in wrong]


def _condition(walk: Queries, join: exp.Join, sight: Sight) -> Flow:
    on = join.args.get("on")
    if on is None:
        return NOTHING
    for tree, message, hint in (
        *not_a_condition("ON", on, types_in(sight)),
        *misplaced("ON", on, sight),
    ):
        walk.say(tree, message, hint)
    return walk.flow(on, sight)

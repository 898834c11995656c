"""Query text → plan.

Everything that stands in the way of an incremental plan is collected as obstacles; then there is no
plan, and the query is recomputed in full.  Inside a plan names are lower-case `alias.column`; the
root's columns carry the names that Spark gives the query's output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.model import Columns
from anabranch.names import RESERVED_PREFIX, TableName, shown
from anabranch.plan.exprs import Expr, Tree, cast, column, column_tree, conjunction
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Item,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    UnionAll,
)
from anabranch.plan.rewrites import simplify
from anabranch.plan.walk import walk
from anabranch.sql.grouping import grouped, is_grouped
from anabranch.sql.obstacles import find_obstacles
from anabranch.sql.reach import Reach
from anabranch.sql.relation import Names, Output, Relation, Stop, TypesOf, exposed
from anabranch.sql.resolve import Resolver
from anabranch.sql.scope import Scope, common_names, using
from anabranch.sql.source_text import SourceText
from anabranch.sql.support import Obstacle


@dataclass(frozen=True)
class Lowered:
    """The plan of a query, or why it has none."""

    plan: Node | None
    output: tuple[str, ...]
    sources: frozenset[TableName]
    obstacles: tuple[Obstacle, ...] = ()


def lower(
    query: str,
    tables: Mapping[TableName, Columns],
    views: Mapping[TableName, str],
    types: TypesOf,
    *,
    output: Columns | None = None,
) -> Lowered:
    """`output` are the query's columns as Spark's analyser names them."""
    reach = Reach.of(SourceText(query), tables, views)
    names = tuple(each.name for each in output or ())
    obstacles = [found for source in reach.texts for found in find_obstacles(source)]
    if obstacles:
        return Lowered(None, names, reach.sources, tuple(obstacles))
    lowering = _Lowering(reach, types)
    try:
        relation = lowering.query(reach.texts[0].tree, _Place(reach.texts[0]))
    except Stop as stop:
        return Lowered(None, names, reach.sources, (stop.found,))
    names = names or tuple(each.name for each in relation.outputs)
    plan = simplify(_root(relation, names))
    inexact = tuple(lowering.inexact_below_root(plan))
    return Lowered(None if inexact else plan, names, reach.sources, inexact)


def _root(relation: Relation, names: Sequence[str]) -> Node:
    """The user's names for the columns, by position."""
    if len(names) != len(relation.node.columns):
        raise UserError(f"the query has {len(relation.node.columns)} columns, not {len(names)}")
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise UserError(
                f"two columns of the query are named {shown(name)}", hint="rename one with AS"
            )
        if name.lower().startswith(RESERVED_PREFIX):
            raise UserError(f"column {name}: names that start with {RESERVED_PREFIX} are reserved")
        seen.add(name.lower())
    pairs = zip(names, relation.node.columns, strict=True)
    return Project(relation.node, tuple(Item(name, column(inner)) for name, inner in pairs))


@dataclass(frozen=True)
class _Place:
    """Where lowering is: in which text, and which CTEs are in scope there."""

    source: SourceText
    ctes: Mapping[str, _Cte] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cte:
    tree: exp.CTE
    place: _Place


@dataclass
class _Lowering:
    reach: Reach
    types: TypesOf
    inexact: dict[Expr, Obstacle] = field(default_factory=dict)

    def query(self, tree: Tree, place: _Place) -> Relation:
        place = _with_ctes(tree, place)
        match tree:
            case exp.Subquery():
                return self.query(tree.this, place)
            case exp.Select():
                return self.select(tree, place)
            case exp.Union():
                return self.union(tree, place)
            case exp.Values():
                return self.values(tree, place)
            case exp.Table():
                return self.everything(tree, place)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def select(self, tree: exp.Select, place: _Place) -> Relation:
        node, scope = self.from_clause(tree, place, Names())
        resolver = Resolver(place.source, scope)
        if where := tree.args.get("where"):
            node = Filter(node, Expr.of(resolver.resolve(where.this)))
        items = list(resolver.select(tree.expressions))
        if is_grouped(tree, items):
            node, items, found = grouped(tree, resolver, items, node, self.types)
            self.inexact.update(found)
        names = Names()
        trees = [Item(names.fresh(item.output.name.lower()), Expr.of(item.tree)) for item in items]
        node = Project(node, tuple(trees))
        if tree.args.get("distinct"):
            node = _distinct(node)
        return Relation(node, tuple(item.output for item in items))

    def union(self, tree: exp.Union, place: _Place) -> Relation:
        sides = [self.query(side, place) for side in (tree.this, tree.expression)]
        node = self.union_all([side.node for side in sides])
        if tree.args.get("distinct", True):
            node = _distinct(node)
        return Relation(node, sides[0].outputs)

    def union_all(self, parts: Sequence[Node]) -> Node:
        """Every branch gets the names of the first and the types of the whole, so that the delta
        of one branch alone has them too."""
        names = parts[0].columns
        if any(len(part.columns) != len(names) for part in parts):
            raise UserError("the sides of UNION have different numbers of columns")
        renamed = [_renamed(part, names) for part in parts]
        every = [column(name) for name in names]
        own = [tuple(self.types(part, every)) for part in renamed]
        if len(set(own)) > 1:
            whole = self.types(UnionAll(tuple(renamed)), every)
            renamed = [_typed(part, mine, whole) for part, mine in zip(renamed, own, strict=True)]
        return UnionAll(tuple(renamed))

    def values(self, tree: exp.Values, place: _Place) -> Relation:
        resolver = Resolver(place.source, Scope())
        rows: list[Node] = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if any(isinstance(cell, (exp.Alias, exp.Aliases)) for cell in cells):
                raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))  # VALUES 1, 2 AS t(a)
            exprs = [Expr.of(resolver.resolve(cell)) for cell in cells]
            named = tuple(Item(f"col{i + 1}", expr) for i, expr in enumerate(exprs))
            rows.append(Project(OneRow(), named))
        node = self.union_all(rows) if len(rows) > 1 else rows[0]
        return Relation(node, tuple(Output(name) for name in node.columns))

    def everything(self, tree: exp.Table, place: _Place) -> Relation:
        """A FROM item in parentheses: all its columns."""
        node, scope = self.table_and_joins(tree, place, Names())
        fields = scope.star()
        items = tuple(Item(each.column, column(each.column)) for each in fields)
        return Relation(Project(node, items), tuple(Output(f.name, f.named) for f in fields))

    def from_clause(self, tree: exp.Select, place: _Place, names: Names) -> tuple[Node, Scope]:
        clause = tree.args.get("from_")
        if clause is None:
            return OneRow(), Scope()
        first = self.from_item(clause.this, place, names)
        return self.joined(first, tree.args.get("joins") or (), place, names)

    def joined(
        self, left: tuple[Node, Scope], joins: Sequence[exp.Join], place: _Place, names: Names
    ) -> tuple[Node, Scope]:
        for join in joins:
            left = self.join(left, join, place, names)
        return left

    def join(
        self, left: tuple[Node, Scope], join: exp.Join, place: _Place, names: Names
    ) -> tuple[Node, Scope]:
        right = self.from_item(join.this, place, names)
        keys = [each.name for each in join.args.get("using") or ()]
        if join.method.upper() == "NATURAL":
            keys = common_names(left[1], right[1])
        scope, pairs = using(left[1], right[1], keys)
        conditions = [
            Expr.of(exp.EQ(this=column_tree(mine), expression=column_tree(theirs)))
            for mine, theirs in pairs
        ]
        if on := join.args.get("on"):
            conditions.append(Expr.of(Resolver(place.source, scope).resolve(on)))
        return Join((left[0], right[0]), conjunction(conditions)), scope

    def from_item(self, tree: Tree, place: _Place, names: Names) -> tuple[Node, Scope]:
        match tree:
            case exp.Table():
                return self.table_and_joins(tree, place, names)
            case exp.Subquery(this=exp.Table() | exp.Subquery() as inner) if not tree.alias:
                first = self.from_item(inner, place, names)  # (a JOIN b) keeps the names a and b
                return self.joined(first, tree.args.get("joins") or (), place, names)
            case exp.Subquery() | exp.Values():
                relation = self.query(tree, place)
                qualifier = (tree.alias.lower(),) if tree.alias else ()
                first = exposed(relation, qualifier, _column_aliases(tree, relation), names)
                return self.joined(first, tree.args.get("joins") or (), place, names)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def table_and_joins(self, tree: exp.Table, place: _Place, names: Names) -> tuple[Node, Scope]:
        relation, qualifier = self.table(tree, place)
        if tree.alias:
            qualifier = (tree.alias.lower(),)
        first = exposed(relation, qualifier, _column_aliases(tree, relation), names)
        return self.joined(first, tree.args.get("joins") or (), place, names)

    def table(self, tree: exp.Table, place: _Place) -> tuple[Relation, tuple[str, ...]]:
        cte = None if tree.args.get("db") else place.ctes.get(tree.name.lower())
        if cte is not None:
            relation = self.query(cte.tree.this, cte.place)
            aliases = _column_aliases(cte.tree, relation)
            outputs = tuple(map(Output, aliases)) or relation.outputs
            return Relation(relation.node, outputs), (tree.name.lower(),)
        name = self.reach.named(tree)
        qualifier = tuple(part.lower() for part in name.parts)
        view = self.reach.view(name)
        if view is not None:
            return self.query(view.tree, _Place(view)), qualifier
        columns = tuple(each.name for each in self.reach.tables[name])
        return Relation(Scan(name, columns), tuple(map(Output, columns))), qualifier

    def inexact_below_root(self, plan: Node) -> list[Obstacle]:
        """Results that cannot be taken back bit by bit may stand at the root only, where a
        group's old row is found by its key."""
        node = plan
        while isinstance(node, (Project, Filter)):
            node = node.input
        below = walk(node.input) if isinstance(node, Aggregate) else walk(node)
        return [
            self.inexact[call.expr]
            for each in below
            if isinstance(each, Aggregate)
            for call in each.calls
            if not call.exact
        ]


def _with_ctes(tree: Tree, place: _Place) -> _Place:
    """A CTE sees those before it, and a table of its own name."""
    clause = tree.args.get("with_")
    for cte in clause.expressions if clause is not None else ():
        place = _Place(place.source, {**place.ctes, cte.alias.lower(): _Cte(cte, place)})
    return place


def _column_aliases(tree: Tree, relation: Relation) -> list[str]:
    """The names of `AS t(a, b)`."""
    alias = tree.args.get("alias")
    names = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if names and len(names) != len(relation.outputs):
        raise UserError(
            f"{tree.alias} names {len(names)} columns, but there are {len(relation.outputs)}"
        )
    return names


def _distinct(node: Node) -> Node:
    return Aggregate(node, tuple(Item(name, column(name)) for name in node.columns))


def _renamed(node: Node, names: Sequence[str]) -> Node:
    pairs = zip(names, node.columns, strict=True)
    return Project(node, tuple(Item(name, column(inner)) for name, inner in pairs))


def _typed(node: Node, own: Sequence[str], wanted: Sequence[str]) -> Node:
    return Project(
        node,
        tuple(
            Item(name, column(name) if mine == goal else cast(column(name), goal))
            for name, mine, goal in zip(node.columns, own, wanted, strict=True)
        ),
    )

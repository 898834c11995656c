"""Query text → plan.

Everything that stands in the way of an incremental plan is collected as obstacles; then there is no
plan, and the query is recomputed in full.  Inside a plan names are lower-case `alias.column`; the
root's columns carry the names that Spark gives the query's output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.delta.closure import with_seeds
from anabranch.errors import UserError
from anabranch.model import Columns
from anabranch.names import RESERVED_PREFIX, TableName, shown
from anabranch.plan.exprs import Expr, Tree, cast, column
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Item,
    Join,
    Node,
    OneRow,
    Project,
    RecursiveRef,
    Scan,
    TopK,
    UnionAll,
    Window,
)
from anabranch.plan.optimize import QUERY_RULES, optimize
from anabranch.plan.sameness import Sameness, sameness
from anabranch.plan.walk import transform, walk
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.analyze.scope import Field, Scope
from anabranch.sql.lower.correlation import Around, for_each, lowered, sees_around, with_lateral
from anabranch.sql.lower.generators import generated
from anabranch.sql.lower.joins import joined
from anabranch.sql.lower.key_types import looked_up, may_have_other_types
from anabranch.sql.lower.known_types import known_type
from anabranch.sql.lower.obstacles import find_obstacles
from anabranch.sql.lower.ordering import ordered
from anabranch.sql.lower.pivot import pivoted
from anabranch.sql.lower.recursion import recursion
from anabranch.sql.lower.relation import (
    Names,
    Output,
    Place,
    Relation,
    Stop,
    TypesOf,
    column_aliases,
    exposed,
    with_ctes,
)
from anabranch.sql.lower.resolve import Resolver
from anabranch.sql.lower.select import select
from anabranch.sql.lower.set_operations import except_, intersect
from anabranch.sql.lower.support import Obstacle
from anabranch.sql.text.source_text import SourceText


@dataclass(frozen=True)
class Lowered:
    """The plan of a query, or why it has none."""

    plan: Node | None
    output: tuple[str, ...]
    sources: frozenset[TableName]
    obstacles: tuple[Obstacle, ...] = ()
    written: Node | None = None  # the plan before the rules of the optimizer


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
        relation = lowering.query(reach.texts[0].tree, Place(reach.texts[0]))
    except Stop as stop:
        return Lowered(None, names, reach.sources, (stop.found,))
    except UserError as error:
        if output is None:
            raise
        # Spark has read the query, so the fault is not the user's: it can still be recomputed.
        found = reach.texts[0].obstacle(
            "UNSUPPORTED_SYNTAX", reach.texts[0].tree, what=error.message
        )
        return Lowered(None, names, reach.sources, (found,))
    names = names or tuple(each.name for each in relation.outputs)
    written = _root(relation, names)
    plan = optimize(written, QUERY_RULES)
    try:
        lowering.check_keys(plan)
    except Stop as stop:
        return Lowered(None, names, reach.sources, (stop.found,))
    inexact = tuple(lowering.inexact_below_root(plan))
    return Lowered(None if inexact else plan, names, reach.sources, inexact, written)


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


@dataclass
class _Lowering:
    reach: Reach
    ask: TypesOf
    stand_ins: dict[str, Node] = field(
        default_factory=dict
    )  # of recursions, while they are lowered
    inexact: dict[Expr, Obstacle] = field(default_factory=dict)
    recursions: dict[int, Relation] = field(default_factory=dict)
    made: int = 0  # names given out so far

    def fresh(self, name: str) -> str:
        """A name that no other column of the plan has."""
        self.made += 1
        return f"{name}{self.made}"

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        """The types of expressions; where the plan does not tell, Spark has to analyse a query."""
        known = {expr: known_type(node, expr, self.reach.tables) for expr in exprs}
        unknown = [expr for expr, type_ in known.items() if type_ is None]
        answers = dict(zip(unknown, self.asked(node, unknown), strict=True)) if unknown else {}
        for expr, type_ in answers.items():
            if not sameness(type_).makes_keys:
                raise Stop(self.without_equality(expr, type_))
        return [known[expr] or answers[expr] for expr in exprs]

    def check_keys(self, plan: Node) -> None:
        """Whatever rows are looked up by has a type whose equality is known."""
        if may_have_other_types(source.tree for source in self.reach.texts):
            for node, exprs in looked_up(plan):
                if asked := [expr for expr in exprs if expr.column is None]:
                    self.types(node, asked)

    def without_equality(self, expr: Expr, type_: str) -> Obstacle:
        code = "COLLATION" if sameness(type_) is Sameness.OPEN else "NO_EQUALITY"
        for source in self.reach.texts:
            for node in source.tree.find_all(exp.Collate, exp.Anonymous):
                is_call = isinstance(node, exp.Anonymous)
                if not is_call or node.name.lower() in functions.OTHER_TYPES:
                    return source.obstacle(code, node, what=type_)
        return self.reach.texts[0].obstacle(code, self.reach.texts[0].tree, what=type_)

    def asked(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        """A recursion has the types of the rows that it starts from."""

        def known(part: Node) -> Node:
            if not isinstance(part, RecursiveRef) or part.name not in self.stand_ins:
                return part
            return _renamed(self.stand_ins[part.name], part.columns)

        return self.ask(transform(with_seeds(node), known) if self.stand_ins else node, exprs)

    def stand_in(self, name: str, seed: Node) -> None:
        self.stand_ins[name] = seed

    def note_inexact(self, found: Mapping[Expr, Obstacle]) -> None:
        self.inexact.update(found)

    def rehearse(self, tree: Tree, place: Place) -> None:
        """Lower a query only to see which names it asks for."""
        _Lowering(self.reach, self.ask, self.stand_ins, made=self.made).query(tree, place)

    def query(self, tree: Tree, place: Place) -> Relation:
        place = with_ctes(tree, place)
        match tree:
            case exp.Subquery():
                return ordered(self.query(tree.this, place), tree, place, self.types)
            case exp.Select():
                return select(self, tree, place)
            case exp.SetOperation():
                return ordered(self.set_operation(tree, place), tree, place, self.types)
            case exp.Values():
                return self.around(self.values(tree, place), place)
            case exp.Table():
                return self.around(self.everything(tree, place), place)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def around(self, relation: Relation, place: Place) -> Relation:
        """A relation that sees nothing of the rows around it, for each of them."""
        if place.domain is None:
            return relation
        node = Join((relation.node, place.domain.values()))
        return replace(relation, node=node, domain=place.carried)

    def set_operation(self, tree: exp.SetOperation, place: Place) -> Relation:
        sides = [self.query(side, place) for side in (tree.this, tree.expression)]
        if place.domain is not None:
            sides = [for_each(self, side, place.domain) for side in sides]
        if tree.args.get("by_name"):
            sides[1] = _by_name(sides[0], sides[1], tree, place)
        distinct = bool(tree.args.get("distinct", True))
        left, right = self.alike([side.node for side in sides])
        match tree:
            case exp.Intersect():
                node = intersect(left, right, distinct=distinct)
            case exp.Except():
                node = except_(left, right, distinct=distinct)
            case _ if distinct:
                node = _distinct(UnionAll((left, right)))
            case _:
                node = UnionAll((left, right))
        return Relation(node, sides[0].outputs, place.carried)

    def alike(self, parts: Sequence[Node]) -> list[Node]:
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
            return [_typed(part, mine, whole) for part, mine in zip(renamed, own, strict=True)]
        return renamed

    def values(self, tree: exp.Values, place: Place) -> Relation:
        resolver = Resolver(place.source, Scope())
        rows: list[Node] = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if any(isinstance(cell, (exp.Alias, exp.Aliases)) for cell in cells):
                raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))  # VALUES 1, 2 AS t(a)
            exprs = [Expr.of(resolver.resolve(cell)) for cell in cells]
            named = tuple(Item(f"col{i + 1}", expr) for i, expr in enumerate(exprs))
            rows.append(Project(OneRow(), named))
        node = UnionAll(tuple(self.alike(rows))) if len(rows) > 1 else rows[0]
        return Relation(node, tuple(Output(name) for name in node.columns))

    def everything(self, tree: exp.Table, place: Place) -> Relation:
        """A FROM item in parentheses: all its columns."""
        node, scope = self.table_and_joins(tree, place, Names())
        fields = scope.star()
        items = tuple(Item(each.column, column(each.column)) for each in fields)
        return Relation(Project(node, items), tuple(Output(f.name, f.named) for f in fields))

    def from_clause(self, tree: exp.Select, place: Place, names: Names) -> tuple[Node, Scope]:
        clause = tree.args.get("from_")
        joins, views = tree.args.get("joins") or (), tree.args.get("laterals") or ()
        found: tuple[Node, Scope] = (OneRow(), Scope())
        if clause is not None:
            first = self.from_item(clause.this, self.seen_from(clause.this, joins, place), names)
            found = self.joined(first, joins, place.alone, names)
        for view in views:
            node, scope = found
            resolver = Resolver(place.source, scope)
            found = generated(node, scope, view, resolver, self, names, place)
        return found

    def seen_from(self, first: Tree, joins: Sequence[exp.Join], place: Place) -> Place:
        """What the first query in FROM sees: the rows around, if it looks at them.

        It carries their values on, so that it may not be on the nullable side of a join.
        """
        if place.domain is None:
            return place
        for each in (join.this for join in joins):
            if isinstance(each, exp.Subquery) and sees_around(self, each.this, place):
                raise Stop(place.source.obstacle("CORRELATION", each))
        if not isinstance(first, exp.Subquery) or not isinstance(first.this, exp.Query):
            return place.alone
        if first.args.get("pivots") or not sees_around(self, first.this, place):
            return place.alone
        if any(join.side.upper() in ("RIGHT", "FULL") for join in joins):
            raise Stop(place.source.obstacle("CORRELATION", first))
        return place

    def joined(
        self, left: tuple[Node, Scope], joins: Sequence[exp.Join], place: Place, names: Names
    ) -> tuple[Node, Scope]:
        for join in joins:
            left = self.join(left, join, place, names)
        return left

    def join(
        self, left: tuple[Node, Scope], join: exp.Join, place: Place, names: Names
    ) -> tuple[Node, Scope]:
        if isinstance(join.this, exp.Lateral):
            return self.lateral(left, join, place, names)
        right = self.from_item(join.this, place, names)
        return joined(self, left, right, join, place, names)

    def lateral(
        self, left: tuple[Node, Scope], join: exp.Join, place: Place, names: Names
    ) -> tuple[Node, Scope]:
        (node, scope), tree = left, join.this
        outer = join.side.upper() == "LEFT"
        if not isinstance(tree.this, exp.Subquery):
            resolver = Resolver(place.source, scope)
            return generated(node, scope, tree, resolver, self, names, place, outer=outer)
        around = Around(node, (scope,), place)
        found = lowered(self, tree.this.this, around)
        alias = tree.args.get("alias")
        given = [each.name for each in alias.columns] if alias is not None else []
        qualifier = (alias.name.lower(),) if alias is not None and alias.name else ()
        outputs = [Output(name) for name in given] or list(found.relation.outputs)
        fields = tuple(
            Field(qualifier, output.name, value, named=output.named)
            for output, value in zip(outputs, found.values, strict=True)
        )
        both = scope + Scope(fields)
        on = join.args.get("on")
        condition = Expr.of(Resolver(place.source, both).resolve(on)) if on is not None else None
        joined = with_lateral(self, tree, found, around, condition, left=outer)
        return joined, both

    def from_item(self, tree: Tree, place: Place, names: Names) -> tuple[Node, Scope]:
        match tree:
            case exp.Table():
                return self.table_and_joins(tree, place, names)
            case exp.Subquery(this=exp.Table() | exp.Subquery() as inner) if not tree.alias:
                first = self.from_item(inner, place, names)  # (a JOIN b) keeps the names a and b
                return self.joined(first, tree.args.get("joins") or (), place, names)
            case exp.Subquery() | exp.Values():
                relation = self.query(tree, place)
                if place.domain is not None:
                    relation = for_each(self, relation, place.domain)
                qualifier = (tree.alias.lower(),) if tree.alias else ()
                first = self.named(relation, qualifier, tree, place, names)
                return self.joined(first, tree.args.get("joins") or (), place, names)
            case exp.Lateral():
                return self.lateral((OneRow(), Scope()), exp.Join(this=tree), place, names)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def table_and_joins(self, tree: exp.Table, place: Place, names: Names) -> tuple[Node, Scope]:
        relation, qualifier = self.table(tree, place)
        if tree.alias:
            qualifier = (tree.alias.lower(),)
        first = self.named(relation, qualifier, tree, place, names)
        return self.joined(first, tree.args.get("joins") or (), place, names)

    def named(
        self,
        relation: Relation,
        qualifier: tuple[str, ...],
        tree: Tree,
        place: Place,
        names: Names,
    ) -> tuple[Node, Scope]:
        """A FROM item under its alias; PIVOT makes another relation of it."""
        pivots = tree.args.get("pivots") or ()
        if not pivots:
            return exposed(relation, qualifier, column_aliases(tree, relation), names)
        for pivot in pivots:
            node, scope = exposed(relation, qualifier, (), Names())
            relation = pivoted(node, scope, pivot, self, place)
            qualifier = (pivot.alias.lower(),) if pivot.alias else ()
        return exposed(relation, qualifier, (), names)

    def table(self, tree: exp.Table, place: Place) -> tuple[Relation, tuple[str, ...]]:
        cte = None if tree.args.get("db") else place.ctes.get(tree.name.lower())
        if isinstance(cte, Relation):
            return cte, (tree.name.lower(),)
        if cte is not None and cte.recursive:
            return recursion(self, cte), (tree.name.lower(),)
        if cte is not None:
            relation = self.query(cte.tree.this, cte.place)
            aliases = column_aliases(cte.tree, relation)
            outputs = tuple(map(Output, aliases)) or relation.outputs
            return Relation(relation.node, outputs), (tree.name.lower(),)
        name = self.reach.named(tree)
        qualifier = tuple(part.lower() for part in name.parts)
        view = self.reach.view(name)
        if view is not None:
            return self.query(view.tree, Place(view)), qualifier
        columns = tuple(each.name for each in self.reach.tables[name])
        return Relation(Scan(name, columns), tuple(map(Output, columns))), qualifier

    def inexact_below_root(self, plan: Node) -> list[Obstacle]:
        """Results that cannot be taken back bit by bit may stand at the root only, where a
        group's old row is found by its key."""
        node = plan
        while isinstance(node, (Project, Filter)):
            node = node.input
        below = walk(node.input) if isinstance(node, (Aggregate, Window, TopK)) else walk(node)
        return [
            self.inexact[call.expr]
            for each in below
            if isinstance(each, (Aggregate, Window))
            for call in each.calls
            if call.expr in self.inexact
        ]


def _by_name(left: Relation, right: Relation, tree: exp.SetOperation, place: Place) -> Relation:
    """UNION BY NAME: the right side's columns in the order of the left's."""
    mine = [output.name.lower() for output in left.outputs]
    theirs = {o.name.lower(): c for o, c in zip(right.outputs, right.columns, strict=True)}
    if sorted(mine) != sorted(theirs):
        raise Stop(place.source.obstacle("SET_OPERATION", tree.expression, "UNION"))
    names = [*(theirs[name] for name in mine), *right.domain]
    node = Project(right.node, tuple(Item(name, column(name)) for name in names))
    return replace(right, node=node, outputs=left.outputs)


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

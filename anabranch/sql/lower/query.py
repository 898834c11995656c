"""Query text → plan.

Whatever prevents an incremental plan is collected as obstacles; then there is no plan, and the query is
recomputed in full.  Inside a plan names are lower-case `alias.column`; the root's columns have the
names that Spark gives to the query's output.
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
from anabranch.sql.analyze.analysis import bind_texts
from anabranch.sql.analyze.bindings import bound_cte, fields_of
from anabranch.sql.analyze.ctes import is_recursive
from anabranch.sql.analyze.from_items import is_wrapper
from anabranch.sql.analyze.obstacles import find_obstacles
from anabranch.sql.analyze.reach import Reach
from anabranch.sql.analyze.resolve import FromColumns, Output, Resolver
from anabranch.sql.analyze.scope import Field
from anabranch.sql.lower.correlation import (
    OuterRows,
    for_each_value,
    is_correlated,
    join_lateral,
    lower_subquery,
)
from anabranch.sql.lower.generators import UnknownNames, generated
from anabranch.sql.lower.joins import joined
from anabranch.sql.lower.key_types import may_have_other_types
from anabranch.sql.lower.known_types import known_type
from anabranch.sql.lower.ordering import ordered
from anabranch.sql.lower.pivot import pivoted
from anabranch.sql.lower.recursion import recursion
from anabranch.sql.lower.relation import (
    FromItem,
    Names,
    Place,
    Relation,
    TypesOf,
    column_aliases,
    exposed,
)
from anabranch.sql.lower.select import select
from anabranch.sql.lower.set_operations import except_, intersect
from anabranch.sql.obstacles import Obstacle, Stop
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
    """`output` are the query's columns as named by Spark's analyzer."""
    reach = Reach.of(SourceText(query), tables, views)
    names = tuple(column.name for column in output or ())
    obstacles = [obstacle for source in reach.texts for obstacle in find_obstacles(source)]
    if obstacles:
        return Lowered(None, names, reach.sources, tuple(obstacles))
    try:
        lowering, relation = _lowered(reach, types)
    except Stop as stop:
        return Lowered(None, names, reach.sources, (stop.obstacle,))
    except UserError as error:
        if output is None:
            raise
        # Spark has accepted the query, so it is no mistake of the user: it can still be recomputed.
        obstacle = reach.texts[0].obstacle(
            "UNSUPPORTED_SYNTAX", reach.texts[0].tree, what=error.message
        )
        return Lowered(None, names, reach.sources, (obstacle,))
    names = names or tuple(output_.name for output_ in relation.outputs)
    written = _root(relation, names)
    plan = optimize(written, QUERY_RULES)
    try:
        lowering.check_keys(plan)
    except Stop as stop:
        return Lowered(None, names, reach.sources, (stop.obstacle,))
    inexact = tuple(lowering.inexact_below_root(plan))
    return Lowered(None if inexact else plan, names, reach.sources, inexact, written)


def _lowered(reach: Reach, types: TypesOf) -> tuple[_Lowering, Relation]:
    """Again with their names when it comes to a generator whose columns only Spark could name."""
    generators: dict[tuple[TableName | None, int], tuple[str, ...]] = {}
    while True:
        bind_texts(reach, generators)
        lowering = _Lowering(reach, types)
        try:
            return lowering, lowering.query(reach.texts[0].tree, Place(reach.texts[0]))
        except UnknownNames as unknown:
            generators[unknown.view, unknown.number] = unknown.names


def _root(relation: Relation, names: Sequence[str]) -> Node:
    """The root, with the user's column names by position."""
    if len(names) != len(relation.node.columns):
        raise UserError(f"the query has {len(relation.node.columns)} columns, not {len(names)}")
    used: set[str] = set()
    for name in names:
        if name.lower() in used:
            raise UserError(
                f"two columns of the query are named {shown(name)}", hint="rename one with AS"
            )
        if name.lower().startswith(RESERVED_PREFIX):
            raise UserError(f"column {name}: names that start with {RESERVED_PREFIX} are reserved")
        used.add(name.lower())
    pairs = zip(names, relation.node.columns, strict=True)
    return Project(relation.node, tuple(Item(name, column(inner)) for name, inner in pairs))


@dataclass
class _Lowering:
    reach: Reach
    ask: TypesOf
    stand_ins: dict[str, Node] = field(
        default_factory=dict
    )  # of recursions, while their steps are lowered
    inexact: dict[Expr, Obstacle] = field(default_factory=dict)
    recursions: dict[int, Relation] = field(default_factory=dict)
    counter: int = 0  # of fresh names

    def fresh(self, name: str) -> str:
        """A name that is unique in the plan."""
        self.counter += 1
        return f"{name}{self.counter}"

    def types(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        """The types of expressions; those that the plan does not imply need Spark's analyzer."""
        known = {expr: known_type(node, expr, self.reach.tables) for expr in exprs}
        unknown = [expr for expr, type_ in known.items() if type_ is None]
        answers = dict(zip(unknown, self.analyzed(node, unknown), strict=True)) if unknown else {}
        for type_ in answers.values():
            if not sameness(type_).makes_keys:
                code = "COLLATION" if sameness(type_) is Sameness.OPEN else "NO_EQUALITY"
                raise Stop(self.without_equality(code, type_))
        return [known[expr] or answers[expr] for expr in exprs]

    def check_keys(self, plan: Node) -> None:
        """Refuses keys of types whose equality is unknown."""
        if may_have_other_types(source.tree for source in self.reach.texts):
            for node in walk(plan):
                if node.key_candidates is None:
                    raise Stop(self.without_equality("NO_EQUALITY", node.head))
                for over, exprs in node.key_candidates:
                    if exprs:
                        self.types(over, exprs)

    def without_equality(self, code: str, what: str) -> Obstacle:
        """At the first part of the query that may be of such a type."""
        for source in self.reach.texts:
            for node in source.tree.find_all(exp.Collate, exp.Anonymous):
                is_call = isinstance(node, exp.Anonymous)
                if not is_call or node.name.lower() in functions.OTHER_TYPES:
                    return source.obstacle(code, node, what=what)
        return self.reach.texts[0].obstacle(code, self.reach.texts[0].tree, what=what)

    def analyzed(self, node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        """A recursion has the types of its seed."""

        def replace_recursion(reference: Node) -> Node:
            if not isinstance(reference, RecursiveRef) or reference.name not in self.stand_ins:
                return reference
            return _renamed(self.stand_ins[reference.name], reference.columns)

        return self.ask(
            transform(with_seeds(node), replace_recursion) if self.stand_ins else node, exprs
        )

    def stand_in(self, name: str, seed: Node) -> None:
        self.stand_ins[name] = seed

    def note_inexact(self, calls: Mapping[Expr, Obstacle]) -> None:
        self.inexact.update(calls)

    def query(self, tree: Tree, place: Place) -> Relation:
        match tree:
            case exp.Subquery():
                return ordered(self.query(tree.this, place), tree, place, self.types)
            case exp.Select():
                return select(self, tree, place)
            case exp.SetOperation():
                return ordered(self.set_operation(tree, place), tree, place, self.types)
            case exp.Values():
                return self.for_outer_rows(self.values(tree, place), place)
            case exp.Table():
                return self.for_outer_rows(self.all_columns(tree, place), place)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def for_outer_rows(self, relation: Relation, place: Place) -> Relation:
        """A relation that does not depend on the outer rows, repeated for each of them."""
        if place.domain is None:
            return relation
        node = Join((relation.node, place.domain.values()))
        return replace(relation, node=node, domain=place.carried)

    def set_operation(self, tree: exp.SetOperation, place: Place) -> Relation:
        sides = [self.query(side, place) for side in (tree.this, tree.expression)]
        if place.domain is not None:
            sides = [for_each_value(self, side, place.domain) for side in sides]
        if tree.args.get("by_name"):
            sides[1] = _by_name(sides[0], sides[1], tree, place)
        distinct = bool(tree.args.get("distinct", True))
        left, right = self.unified([side.node for side in sides])
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

    def unified(self, nodes: Sequence[Node]) -> list[Node]:
        """All branches with the names of the first and their common types, so that the delta of a
        single branch has them too."""
        names = nodes[0].columns
        if any(len(node.columns) != len(names) for node in nodes):
            raise UserError("the sides of UNION have different numbers of columns")
        renamed = [_renamed(node, names) for node in nodes]
        columns = [column(name) for name in names]
        types = [tuple(self.types(node, columns)) for node in renamed]
        if len(set(types)) > 1:
            common = self.types(UnionAll(tuple(renamed)), columns)
            return [_typed(node, own, common) for node, own in zip(renamed, types, strict=True)]
        return renamed

    def values(self, tree: exp.Values, place: Place) -> Relation:
        resolver = Resolver(place.source, FromColumns())
        rows: list[Node] = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if any(isinstance(cell, (exp.Alias, exp.Aliases)) for cell in cells):
                raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))  # VALUES 1, 2 AS t(a)
            exprs = [Expr.of(resolver.resolve(cell)) for cell in cells]
            named = tuple(Item(f"col{i + 1}", expr) for i, expr in enumerate(exprs))
            rows.append(Project(OneRow(), named))
        node = UnionAll(tuple(self.unified(rows))) if len(rows) > 1 else rows[0]
        return Relation(node, tuple(Output(name) for name in node.columns))

    def all_columns(self, tree: exp.Table, place: Place) -> Relation:
        """A FROM item in parentheses: all its columns."""
        node, scope = self.table_and_joins(tree, place, Names())
        fields = [field_ for field_ in scope.fields if not field_.qualified_only]
        columns = [scope.names[field_.column] for field_ in fields]
        items = tuple(Item(name, column(name)) for name in columns)
        return Relation(
            Project(node, items), tuple(Output(field_.name, field_.named) for field_ in fields)
        )

    def listed(self, tree: Tree, place: Place) -> tuple[Field, ...]:
        fields = fields_of(tree)
        if fields is None:
            raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))
        return fields

    def from_clause(self, tree: exp.Select, place: Place, names: Names) -> FromItem:
        clause = tree.args.get("from_")
        joins, views = tree.args.get("joins") or (), tree.args.get("laterals") or ()
        from_: FromItem = (OneRow(), FromColumns())
        if clause is not None:
            first = self.from_item(
                clause.this, self.correlated_place(clause.this, joins, place), names
            )
            from_ = self.joined(first, joins, place.alone, names)
        for view in views:
            from_ = generated(from_, view, self, names, place)
        return from_

    def correlated_place(self, first: Tree, joins: Sequence[exp.Join], place: Place) -> Place:
        """The place for the first query in FROM: with the outer rows, if it uses them.

        It carries their values, so that it may not be on the nullable side of a join.
        """
        if place.domain is None:
            return place
        for item in (join.this for join in joins):
            if isinstance(item, exp.Subquery) and is_correlated(item.this, place):
                raise Stop(place.source.obstacle("CORRELATION", item))
        if not isinstance(first, exp.Subquery) or not isinstance(first.this, exp.Query):
            return place.alone
        if first.args.get("pivots") or not is_correlated(first.this, place):
            return place.alone
        if any(join.side.upper() in ("RIGHT", "FULL") for join in joins):
            raise Stop(place.source.obstacle("CORRELATION", first))
        return place

    def joined(
        self, left: FromItem, joins: Sequence[exp.Join], place: Place, names: Names
    ) -> FromItem:
        for join in joins:
            left = self.join(left, join, place, names)
        return left

    def join(self, left: FromItem, join: exp.Join, place: Place, names: Names) -> FromItem:
        if isinstance(join.this, exp.Lateral):
            return self.lateral(left, join, place, names)
        right = self.from_item(join.this, place, names)
        return joined(self, left, right, join, place, names)

    def lateral(self, left: FromItem, join: exp.Join, place: Place, names: Names) -> FromItem:
        (node, scope), tree = left, join.this
        outer = join.side.upper() == "LEFT"
        if not isinstance(tree.this, exp.Subquery):
            return generated(left, tree, self, names, place, outer=outer)
        outer_rows = OuterRows(node, (scope,), place)
        subquery = lower_subquery(self, tree.this.this, outer_rows)
        combined = scope + FromColumns.of(self.listed(tree, place), subquery.values)
        on = join.args.get("on")
        condition = (
            Expr.of(Resolver(place.source, combined).resolve(on)) if on is not None else None
        )
        node_ = join_lateral(self, tree, subquery, outer_rows, condition, left=outer)
        return node_, combined

    def from_item(self, tree: Tree, place: Place, names: Names) -> FromItem:
        match tree:
            case exp.Table():
                return self.table_and_joins(tree, place, names)
            case exp.Subquery(this=exp.Table() | exp.Subquery() as inner) if is_wrapper(tree):
                first = self.from_item(inner, place, names)  # (a JOIN b) keeps the names a and b
                return self.joined(first, tree.args.get("joins") or (), place, names)
            case exp.Subquery() | exp.Values():
                relation = self.query(tree, place)
                if place.domain is not None:
                    relation = for_each_value(self, relation, place.domain)
                first = self.named(relation, tree, place, names)
                return self.joined(first, tree.args.get("joins") or (), place, names)
            case exp.Lateral():
                return self.lateral((OneRow(), FromColumns()), exp.Join(this=tree), place, names)
        raise Stop(place.source.obstacle("UNSUPPORTED_SYNTAX", tree))

    def table_and_joins(self, tree: exp.Table, place: Place, names: Names) -> FromItem:
        first = self.named(self.table(tree, place), tree, place, names)
        return self.joined(first, tree.args.get("joins") or (), place, names)

    def named(self, relation: Relation, tree: Tree, place: Place, names: Names) -> FromItem:
        """A FROM item under its alias; PIVOT turns it into another relation."""
        pivots = tree.args.get("pivots") or ()
        for pivot in pivots:
            relation = pivoted(relation, pivot, self, place)
        if not pivots:
            column_aliases(tree, relation)
        return exposed(relation, self.listed(tree, place), names)

    def table(self, tree: exp.Table, place: Place) -> Relation:
        cte = bound_cte(tree)
        if cte is not None:
            return self.cte(cte, place.source)
        name = self.reach.named(tree)
        view = self.reach.view(name)
        if view is not None:
            return self.query(view.tree, Place(view))
        columns = tuple(column_.name for column_ in self.reach.tables[name])
        return Relation(Scan(name, columns), tuple(map(Output, columns)))

    def cte(self, cte: exp.CTE, source: SourceText) -> Relation:
        if is_recursive(cte):
            return recursion(self, cte, source)
        relation = self.query(cte.this, Place(source))
        aliases = column_aliases(cte, relation)
        return Relation(relation.node, tuple(map(Output, aliases)) or relation.outputs)

    def inexact_below_root(self, plan: Node) -> list[Obstacle]:
        """Aggregates that cannot be retracted exactly may stand at the root only, where a group's old
        row is found by its key."""
        node = plan
        while isinstance(node, (Project, Filter)):
            node = node.input
        nodes = walk(node.input) if isinstance(node, (Aggregate, Window, TopK)) else walk(node)
        return [
            self.inexact[call.expr]
            for below_root in nodes
            if isinstance(below_root, (Aggregate, Window))
            for call in below_root.calls
            if call.expr in self.inexact
        ]


def _by_name(left: Relation, right: Relation, tree: exp.SetOperation, place: Place) -> Relation:
    """UNION BY NAME: the right side's columns in the order of the left's."""
    left_names = [output.name.lower() for output in left.outputs]
    right_columns = {
        output.name.lower(): name for output, name in zip(right.outputs, right.columns, strict=True)
    }
    if sorted(left_names) != sorted(right_columns):
        raise Stop(place.source.obstacle("SET_OPERATION", tree.expression, "UNION"))
    names = [*(right_columns[name] for name in left_names), *right.domain]
    node = Project(right.node, tuple(Item(name, column(name)) for name in names))
    return replace(right, node=node, outputs=left.outputs)


def _distinct(node: Node) -> Node:
    return Aggregate(node, tuple(Item(name, column(name)) for name in node.columns))


def _renamed(node: Node, names: Sequence[str]) -> Node:
    pairs = zip(names, node.columns, strict=True)
    return Project(node, tuple(Item(name, column(inner)) for name, inner in pairs))


def _typed(node: Node, types: Sequence[str], target_types: Sequence[str]) -> Node:
    return Project(
        node,
        tuple(
            Item(name, column(name) if own == target else cast(column(name), target))
            for name, own, target in zip(node.columns, types, target_types, strict=True)
        ),
    )

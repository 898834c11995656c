"""One SELECT → plan, clause by clause in the order in which SQL evaluates them.

FROM · WHERE · GROUP BY · HAVING · window calls · QUALIFY · SELECT list · DISTINCT · ORDER BY … LIMIT
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column, unwrapped
from anabranch.plan.nodes import Aggregate, Filter, Item, Join, Node, OneRow, Project, same_columns
from anabranch.sql.lower.correlation import (
    Around,
    Lowering,
    compare_one_to_one,
    with_outer_conditions_last,
)
from anabranch.sql.lower.generators import without_generators
from anabranch.sql.lower.grouping import Grouped, Groups, grouped, groups, is_grouped
from anabranch.sql.lower.obstacles import is_aggregate, mark_window_calls
from anabranch.sql.lower.ordering import Limit, Sorted, limit_of, sorted_by, top
from anabranch.sql.lower.predicates import (
    Pending,
    conditions,
    is_quantified,
    is_subquery,
    pending,
    positive,
    taken_out,
)
from anabranch.sql.lower.relation import Domain, Names, Place, Relation, Selected, Stop
from anabranch.sql.lower.resolve import Resolver
from anabranch.sql.lower.subqueries import applied, kept
from anabranch.sql.lower.time_windows import Session, TimeWindows, in_sessions, in_where
from anabranch.sql.lower.windows import inexact_calls, named_windows, with_windows


def select(lowering: Lowering, tree: exp.Select, place: Place) -> Relation:
    tree = with_outer_conditions_last(named_windows(tree), place)
    mark_window_calls(tree)
    node, scope = lowering.from_clause(tree, place, Names())
    block = Block(lowering, place, node, Resolver(place.source, scope, around=place.domain))
    block.see_around(tree)
    early = in_where(tree)
    if early:
        tree = block.in_time(tree)
    block.where(tree)
    return block.result(tree if early else block.in_time(tree))


@dataclass
class Block:
    """A SELECT on its way: the rows so far, and what names mean in it."""

    lowering: Lowering
    place: Place
    node: Node
    resolver: Resolver
    waiting: list[Pending] = field(default_factory=list)
    grouped: Grouped | None = None
    session: Session | None = None  # waits for the groups

    @property
    def around(self) -> Around:
        """What a subquery sees."""
        domain = self.place.domain
        scope = self.resolver.scope
        if self.grouped is not None:
            scope = scope.renamed(self.grouped.keys)
        return Around(self.node, (scope, *(domain.inside if domain else ())), self.place)

    def see_around(self, tree: exp.Select) -> None:
        """The values of the rows around, as columns: taken from what must equal them, else joined."""
        domain = self.place.domain
        if domain is None or set(domain.columns) <= set(self.node.columns):
            return  # a query in FROM carries them already
        defined = self._defined(tree, domain)
        if defined:
            items = tuple(Item(name, expr) for name, expr in defined.items())
            self.node = Project(self.node, (*same_columns(self.node), *items))
            return
        values = domain.values()
        self.node = values if isinstance(self.node, OneRow) else Join((self.node, values))

    def _defined(self, tree: exp.Select, domain: Domain) -> dict[str, Expr]:
        """What WHERE says the columns around are equal to in here, if it says so of all of them."""
        where = tree.args.get("where")
        mine = set(self.node.columns)
        outer = {inner: name for name, inner in domain.names.items()}
        found: dict[str, Expr] = {}
        for part in conditions(where.this.copy()) if where is not None else ():
            if not isinstance(part, exp.EQ) or any(map(is_subquery, part.walk())):
                continue
            same = self.resolver.resolve(part)
            one, other = Expr.of(same.this), Expr.of(same.expression)
            for name, expr in ((one.column, other), (other.column, one)):
                if name in outer and expr.columns and expr.columns <= mine:
                    found.setdefault(name, expr)
        if len(found) < len(outer):
            return {}
        theirs = self.lowering.types(domain.node, [column(outer[name]) for name in found])
        own = self.lowering.types(self.node, list(found.values()))
        return found if all(map(compare_one_to_one, theirs, own)) else {}

    def where(self, tree: exp.Select) -> None:
        """Plain conditions first: they leave fewer rows to be judged by subqueries."""
        clause = tree.args.get("where")
        parts = list(conditions(clause.this.copy())) if clause is not None else []
        for part in parts:
            if _judgement(part) is None:
                condition = self.expression(part)
                self.node = Filter(self.node, condition)
        for part in parts:
            judged = _judgement(part)
            if judged is not None:
                wanted = pending(judged, self.lowering.fresh("_ab_q"), negated=judged is not part)
                wanted.operands = [self.expression(each).tree for each in wanted.operands]
                self.node = kept(self.lowering, wanted, self.around)

    def expression(self, tree: Tree) -> Expr:
        """An expression over the rows so far; its subqueries are applied to them."""
        taken, found = taken_out(tree, self.lowering.fresh)
        self.apply(found)
        return Expr.of(self.resolver.resolve(taken))

    def apply(self, found: Iterable[Pending]) -> None:
        for each in found:
            each.operands = [self.resolver.resolve(operand) for operand in each.operands]
            self.node = applied(self.lowering, each, self.around)

    def in_time(self, tree: exp.Select) -> exp.Select:
        """The rows in their windows of time, and the query over them."""
        windows = TimeWindows(self.lowering, self.resolver, self.place)
        tree, self.node, self.session = windows.applied(tree, self.node)
        return tree

    def result(self, tree: exp.Select) -> Relation:
        self.node, listed = without_generators(
            self.node, tree, self.resolver, self.lowering, self.place
        )
        items = list(self.resolver.select([self._later(item) for item in listed]))
        limit = limit_of(tree, self.place)
        order = sorted_by(tree, items, self.resolver, self._later) if limit else []
        qualify = tree.args.get("qualify")
        last = [self.resolver.resolve(self._later(qualify.this))] if qualify else []
        trees = [*(item.tree for item in items), *(each.tree for each in order), *last]
        if having := tree.args.get("having"):
            tree = tree.copy()
            tree.set("having", exp.Having(this=self._later(positive(having.this.copy()))))
        if is_grouped(tree, trees):
            trees = self.group(tree, items, trees)
        else:
            self.apply(self.waiting)
        if self.session is not None:
            raise self.session.misplaced(self.place)
        fresh, types = self.lowering.fresh, self.lowering.types
        before = self.node
        self.node, trees = with_windows(self.node, trees, self.place, fresh, types)
        self.lowering.note_inexact(inexact_calls(self.node, self.place, types))
        if last:
            self.node = Filter(self.node, Expr.of(trees.pop()))
        absent = self._absent(tree, len(items), simple=self.node is before)
        items = [replace(item, tree=each) for item, each in zip(items, trees, strict=False)]
        order = [
            replace(each, tree=key) for each, key in zip(order, trees[len(items) :], strict=True)
        ]
        node = self.projected(items, order, limit, bool(tree.args.get("distinct")), absent)
        return Relation(node, tuple(i.output for i in items), self.place.carried, absent)

    def _later(self, tree: Tree) -> Tree:
        """The expression with its subqueries taken out, to be applied to the rows or the groups."""
        taken, found = taken_out(tree, self.lowering.fresh)
        self.waiting += found
        return taken

    def group(self, tree: exp.Select, items: Sequence[Selected], trees: list[Tree]) -> list[Tree]:
        """GROUP BY and HAVING; subqueries inside aggregate calls and keys are applied first."""
        by = groups(tree, self.resolver, items)
        having = tree.args.get("having")
        inside = _columns_in_calls([*trees, *([having.this] if having else [])])
        inside |= {each.name for key in by.keys for each in key.find_all(exp.Column)}
        self.apply(each for each in self.waiting if each.name in inside)
        self.cut_sessions(by)
        later = [each for each in self.waiting if each.name not in inside]
        for each in later:
            each.operands = [self.resolver.resolve(operand) for operand in each.operands]
        operands = [operand for each in later for operand in each.operands]
        found = grouped(
            tree,
            self.resolver,
            by,
            [*trees, *operands],
            self.node,
            self.lowering.types,
            carried=self.place.carried,
            later=frozenset(each.name for each in later),
        )
        self.lowering.note_inexact(found.inexact)
        self.node, self.grouped = found.aggregate, found
        lifted = iter(found.trees[len(trees) :])
        for each in later:
            each.operands = [next(lifted) for _ in each.operands]
            self.node = applied(self.lowering, each, self.around)
        if found.having is not None:
            self.node = Filter(self.node, Expr.of(found.having))
        return found.trees[: len(trees)]

    def cut_sessions(self, by: Groups) -> None:
        """A session is one of a group: of rows that agree in all other keys."""
        if self.session is None:
            return
        keys = [Expr.of(key) for key in by.keys]
        own = column(self.session.name)
        if not by.plain or own not in keys:
            raise self.session.misplaced(self.place)
        others = [key for key in keys if key != own]
        others += map(column, self.place.carried)
        self.node = in_sessions(self.lowering, self.session, self.node, others)
        self.session = None

    def _absent(self, tree: exp.Select, count: int, *, simple: bool) -> tuple[Expr, ...] | None:
        """The outputs for rows around that the query has no row for, though it always has one."""
        if self.grouped is None or self.grouped.absent is None:
            return None
        if simple and self.grouped.having is None:
            return self.grouped.absent[:count]
        if self.place.domain is not None and self.place.domain.captured:
            raise Stop(self.place.source.obstacle("CORRELATION", tree))
        return None

    def projected(
        self,
        items: Sequence[Selected],
        order: Sequence[Sorted],
        limit: Limit | None,
        distinct: bool,
        absent: tuple[Expr, ...] | None,
    ) -> Node:
        names = Names(self.place.carried)
        shown = [Item(names.fresh(each.output.name.lower()), Expr.of(each.tree)) for each in items]
        shown += [Item(name, column(name)) for name in self.place.carried]
        wanted = tuple(Item(item.name, column(item.name)) for item in shown)
        if limit is None or (absent is not None and limit.leaves_one):
            node: Node = Project(self.node, tuple(shown))
            return Aggregate(node, wanted) if distinct else node
        if distinct:
            order = [replace(each, column=each.among(shown, self.place)) for each in order]
            node = Aggregate(Project(self.node, tuple(shown)), wanted)
        else:
            order = [replace(each, column=names.fresh("_ab_by")) for each in order]
            keys = [Item(each.column, Expr.of(each.tree)) for each in order]
            node = Project(self.node, (*shown, *keys))
        ties = [item.name for item in wanted]
        return Project(top(node, limit, order, ties, self.place, self.lowering.types), wanted)


def _columns_in_calls(trees: Iterable[Tree]) -> set[str]:
    return {
        each.name
        for tree in trees
        for node in tree.walk()
        if is_aggregate(node)
        for each in node.find_all(exp.Column)
    }


def _judgement(part: Tree) -> Tree | None:
    """The EXISTS or IN that a condition is, perhaps negated, or ANY."""
    if is_quantified(part):
        return part if isinstance(part.expression, exp.Any) else None
    inner = unwrapped(part.this) if isinstance(part, exp.Not) else part
    judges = isinstance(inner, (exp.Exists, exp.In)) and is_subquery(inner)
    return inner if judges else None

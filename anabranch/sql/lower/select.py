"""One SELECT → plan, clause by clause in the order in which SQL evaluates them.

FROM · WHERE · GROUP BY · HAVING · window calls · QUALIFY · SELECT list · DISTINCT · ORDER BY … LIMIT
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.plan.exprs import Expr, Tree, column, unwrapped
from anabranch.plan.nodes import Aggregate, Filter, Item, Join, Node, OneRow, Project, same_columns
from anabranch.sql.analyze.groups import Groups, groups
from anabranch.sql.analyze.obstacles import is_aggregate, mark_window_calls
from anabranch.sql.analyze.resolve import Resolver, Selected
from anabranch.sql.lower.correlation import (
    Lowering,
    OuterRows,
    compare_one_to_one,
    with_correlation_in_where,
)
from anabranch.sql.lower.generators import without_generators
from anabranch.sql.lower.grouping import Grouped, grouped, is_grouped
from anabranch.sql.lower.ordering import Limit, SortKey, limit_of, sorted_by, top
from anabranch.sql.lower.predicates import (
    Pending,
    conditions,
    extract_subqueries,
    is_quantified,
    is_subquery,
    pending,
    push_down_not,
)
from anabranch.sql.lower.relation import Domain, Names, Place, Relation
from anabranch.sql.lower.subqueries import apply_subquery, filter_by_subquery
from anabranch.sql.lower.time_windows import Session, TimeWindows, in_sessions, in_where
from anabranch.sql.lower.windows import inexact_calls, named_windows, with_windows
from anabranch.sql.obstacles import Stop


def select(lowering: Lowering, tree: exp.Select, place: Place) -> Relation:
    tree = with_correlation_in_where(named_windows(tree), place)
    mark_window_calls(tree)
    node, scope = lowering.from_clause(tree, place, Names())
    block = Block(lowering, place, node, Resolver(place.source, scope, outer=place.domain))
    block.add_domain(tree)
    early = in_where(tree)
    if early:
        tree = block.in_time(tree)
    block.where(tree)
    return block.result(tree if early else block.in_time(tree))


@dataclass
class Block:
    """A SELECT under construction: the rows so far, and the scope of its names."""

    lowering: Lowering
    place: Place
    node: Node
    resolver: Resolver
    pending: list[Pending] = field(default_factory=list)
    grouped: Grouped | None = None
    session: Session | None = None  # until the groups are known

    @property
    def outer_rows(self) -> OuterRows:
        """The outer rows of a subquery."""
        domain = self.place.domain
        scope = self.resolver.scope
        if self.grouped is not None:
            scope = scope.renamed(self.grouped.keys)
        return OuterRows(self.node, (scope, *(domain.inner_scopes if domain else ())), self.place)

    def add_domain(self, tree: exp.Select) -> None:
        """Adds the outer values as columns: computed from what equals them, else joined."""
        domain = self.place.domain
        if domain is None or set(domain.columns) <= set(self.node.columns):
            return  # a query in FROM has added them
        defined = self._equated(tree, domain)
        if defined:
            items = tuple(Item(name, expr) for name, expr in defined.items())
            self.node = Project(self.node, (*same_columns(self.node), *items))
            return
        values = domain.values()
        self.node = values if isinstance(self.node, OneRow) else Join((self.node, values))

    def _equated(self, tree: exp.Select, domain: Domain) -> dict[str, Expr]:
        """Expressions that WHERE equates with the outer columns, if it does so for all of them."""
        where = tree.args.get("where")
        columns = set(self.node.columns)
        outer = {inner: name for name, inner in domain.names.items()}
        equated: dict[str, Expr] = {}
        for predicate in conditions(where.this.copy()) if where is not None else ():
            if not isinstance(predicate, exp.EQ) or any(map(is_subquery, predicate.walk())):
                continue
            equality = self.resolver.resolve(predicate)
            left, right = Expr.of(equality.this), Expr.of(equality.expression)
            for name, expr in ((left.column, right), (right.column, left)):
                if name in outer and expr.columns and expr.columns <= columns:
                    equated.setdefault(name, expr)
        if len(equated) < len(outer):
            return {}
        outer_types = self.lowering.types(domain.node, [column(outer[name]) for name in equated])
        inner_types = self.lowering.types(self.node, list(equated.values()))
        return equated if all(map(compare_one_to_one, outer_types, inner_types)) else {}

    def where(self, tree: exp.Select) -> None:
        """Predicates without subqueries first: they leave fewer rows for the subqueries."""
        clause = tree.args.get("where")
        predicates = list(conditions(clause.this.copy())) if clause is not None else []
        for predicate in predicates:
            if _membership(predicate) is None:
                condition = self.expression(predicate)
                self.node = Filter(self.node, condition)
        for predicate in predicates:
            membership = _membership(predicate)
            if membership is not None:
                subquery = pending(
                    membership, self.lowering.fresh("_ab_q"), negated=membership is not predicate
                )
                subquery.operands = [self.expression(operand).tree for operand in subquery.operands]
                self.node = filter_by_subquery(self.lowering, subquery, self.outer_rows)

    def expression(self, tree: Tree) -> Expr:
        """An expression over the rows so far; its subqueries are applied to them."""
        replaced, subqueries = extract_subqueries(tree, self.lowering.fresh)
        self.apply(subqueries)
        return Expr.of(self.resolver.resolve(replaced))

    def apply(self, subqueries: Iterable[Pending]) -> None:
        for subquery in subqueries:
            subquery.operands = [self.resolver.resolve(operand) for operand in subquery.operands]
            self.node = apply_subquery(self.lowering, subquery, self.outer_rows)

    def in_time(self, tree: exp.Select) -> exp.Select:
        """Adds time windows to the rows; returns the query over them."""
        windows = TimeWindows(self.lowering, self.resolver, self.place)
        tree, self.node, self.session = windows.applied(tree, self.node)
        return tree

    def result(self, tree: exp.Select) -> Relation:
        self.node, select_list = without_generators(
            self.node, tree, self.resolver, self.lowering, self.place
        )
        items = list(self.resolver.select([self._deferred(item) for item in select_list]))
        limit = limit_of(tree, self.place)
        order = sorted_by(tree, items, self.resolver, self._deferred) if limit else []
        qualify = tree.args.get("qualify")
        last = [self.resolver.resolve(self._deferred(qualify.this))] if qualify else []
        trees = [*(item.tree for item in items), *(key.tree for key in order), *last]
        if having := tree.args.get("having"):
            tree = tree.copy()
            tree.set("having", exp.Having(this=self._deferred(push_down_not(having.this.copy()))))
        if is_grouped(tree, trees):
            trees = self.group(tree, items, trees)
        else:
            self.apply(self.pending)
        if self.session is not None:
            raise self.session.misplaced(self.place)
        fresh, types = self.lowering.fresh, self.lowering.types
        before = self.node
        self.node, trees = with_windows(self.node, trees, self.place, fresh, types)
        self.lowering.note_inexact(inexact_calls(self.node, self.place, types))
        if last:
            self.node = Filter(self.node, Expr.of(trees.pop()))
        absent = self._absent(tree, len(items), simple=self.node is before)
        items = [replace(item, tree=expr) for item, expr in zip(items, trees, strict=False)]
        order = [
            replace(sort_key, tree=key)
            for sort_key, key in zip(order, trees[len(items) :], strict=True)
        ]
        node = self.projected(items, order, limit, bool(tree.args.get("distinct")), absent)
        return Relation(node, tuple(item.output for item in items), self.place.carried, absent)

    def _deferred(self, tree: Tree) -> Tree:
        """The expression without its subqueries, which are applied later: to the rows or the groups."""
        replaced, subqueries = extract_subqueries(tree, self.lowering.fresh)
        self.pending += subqueries
        return replaced

    def group(self, tree: exp.Select, items: Sequence[Selected], trees: list[Tree]) -> list[Tree]:
        """GROUP BY and HAVING; subqueries inside aggregate calls and keys are applied first."""
        by = groups(tree, self.resolver, items)
        having = tree.args.get("having")
        used_first = _columns_in_calls([*trees, *([having.this] if having else [])])
        used_first |= {column_.name for key in by.keys for column_ in key.find_all(exp.Column)}
        self.apply(subquery for subquery in self.pending if subquery.name in used_first)
        self.cut_sessions(by)
        later = [subquery for subquery in self.pending if subquery.name not in used_first]
        for subquery in later:
            subquery.operands = [self.resolver.resolve(operand) for operand in subquery.operands]
        operands = [operand for subquery in later for operand in subquery.operands]
        result = grouped(
            tree,
            self.resolver,
            by,
            [*trees, *operands],
            self.node,
            self.lowering.types,
            carried=self.place.carried,
            later=frozenset(subquery.name for subquery in later),
        )
        self.lowering.note_inexact(result.inexact)
        self.node, self.grouped = result.aggregate, result
        lifted = iter(result.trees[len(trees) :])
        for subquery in later:
            subquery.operands = [next(lifted) for _ in subquery.operands]
            self.node = apply_subquery(self.lowering, subquery, self.outer_rows)
        if result.having is not None:
            self.node = Filter(self.node, Expr.of(result.having))
        return result.trees[: len(trees)]

    def cut_sessions(self, by: Groups) -> None:
        """Sessions are per group: among rows that agree in all other keys."""
        if self.session is None:
            return
        keys = [Expr.of(key) for key in by.keys]
        session_key = column(self.session.name)
        if not by.plain or session_key not in keys:
            raise self.session.misplaced(self.place)
        others = [key for key in keys if key != session_key]
        others += map(column, self.place.carried)
        self.node = in_sessions(self.lowering, self.session, self.node, others)
        self.session = None

    def _absent(self, tree: exp.Select, count: int, *, simple: bool) -> tuple[Expr, ...] | None:
        """The outputs for outer rows without any rows, of a query that always has a row."""
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
        order: Sequence[SortKey],
        limit: Limit | None,
        distinct: bool,
        absent: tuple[Expr, ...] | None,
    ) -> Node:
        names = Names(self.place.carried)
        outputs = [
            Item(names.fresh(item.output.name.lower()), Expr.of(item.tree)) for item in items
        ]
        outputs += [Item(name, column(name)) for name in self.place.carried]
        passed = tuple(Item(item.name, column(item.name)) for item in outputs)
        if limit is None or (absent is not None and limit.leaves_one):
            node: Node = Project(self.node, tuple(outputs))
            return Aggregate(node, passed) if distinct else node
        if distinct:
            order = [replace(key, column=key.among(outputs, self.place)) for key in order]
            node = Aggregate(Project(self.node, tuple(outputs)), passed)
        else:
            order = [replace(key, column=names.fresh("_ab_by")) for key in order]
            keys = [Item(key.column, Expr.of(key.tree)) for key in order]
            node = Project(self.node, (*outputs, *keys))
        ties = [item.name for item in passed]
        return Project(top(node, limit, order, ties, self.place, self.lowering.types), passed)


def _columns_in_calls(trees: Iterable[Tree]) -> set[str]:
    return {
        column_.name
        for tree in trees
        for node in tree.walk()
        if is_aggregate(node)
        for column_ in node.find_all(exp.Column)
    }


def _membership(predicate: Tree) -> Tree | None:
    """The EXISTS, IN (possibly negated) or ANY that a predicate consists of."""
    if is_quantified(predicate):
        return predicate if isinstance(predicate.expression, exp.Any) else None
    inner = unwrapped(predicate.this) if isinstance(predicate, exp.Not) else predicate
    is_membership = isinstance(inner, (exp.Exists, exp.In)) and is_subquery(inner)
    return inner if is_membership else None

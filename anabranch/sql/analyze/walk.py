"""The walk through a query: what each part of it gives, and what is wrong with it.

A name is called wrong only when everything it could mean is known.  What cannot be known offline
stays unknown: a column without a type, a table without a list of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.names import TableName
from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import expressions
from anabranch.sql.analyze.bindings import (
    bind_column,
    bind_fields,
    bind_names,
    number_generator,
)
from anabranch.sql.analyze.checks import apart
from anabranch.sql.analyze.columns import (
    NOTHING,
    Column,
    Columns,
    Flow,
    Relation,
    merged,
    table,
    together,
)
from anabranch.sql.analyze.ctes import bare, is_recursive, mentions_cte
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.from_items import from_clause, items_of, pivoted
from anabranch.sql.analyze.generators import columns_of
from anabranch.sql.analyze.scope import Alias, Field, Scope, answers
from anabranch.sql.analyze.select import Block
from anabranch.sql.analyze.sight import Sight, cure, text_of
from anabranch.sql.text.source_text import SourceText

Tables = Callable[[TableName], "Columns | Relation"]
ROUNDS = 8  # that a recursion's columns are followed through itself
SMALLEST_LONG = 2**31  # a larger whole number in ORDER BY is no position


@dataclass
class Walk:
    text: SourceText
    tables: Tables
    findings: list[Finding] = field(default_factory=list)
    made: int = 0  # names given out so far
    generators: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # as Spark names them
    numbered: int = 0  # generators so far
    ctes: dict[int, Relation] = field(default_factory=dict)  # what each gives, by its id

    def fresh(self, name: str) -> str:
        """A name that no other column has."""
        self.made += 1
        return f"{name}#{self.made}"

    def say(
        self, node: Tree, message: str, hint: str | None = None, *, unknown: bool = False
    ) -> None:
        self.findings.append(Finding(self.text.start(node), message, hint, unknown))

    def say_once(
        self,
        sight: Sight,
        node: Tree,
        message: str,
        hint: str | None = None,
        *,
        unknown: bool = False,
    ) -> None:
        if message not in sight.reported:
            sight.reported.add(message)
            self.say(node, message, hint, unknown=unknown)

    def _quiet(self) -> Walk:
        """What is wrong with a query is reported at another time."""
        return replace(self, findings=[], numbered=0, ctes=dict(self.ctes))

    # -- queries -------------------------------------------------------------------------------

    def query(self, node: Tree, outer: Sight | None) -> Relation:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            self.with_ctes(with_, outer)
        match node:
            case exp.Select():
                before = len(self.findings)
                rows = from_clause(self, node, outer)
                return Block(self, node, rows, outer, reported_before=before).result()
            case exp.SetOperation():
                return self.in_order(node, self.set_operation(node, outer), outer)
            case exp.Subquery():
                return self.subquery(node, outer)
            case exp.Values():
                return self.values(node, outer)
        return Relation(None)

    def with_ctes(self, with_: exp.With, outer: Sight | None) -> None:
        for cte in with_.expressions:
            if is_recursive(cte):
                self.ctes[id(cte)] = self.recursion(cte, outer)
            else:
                self.ctes[id(cte)] = self.renamed(self.query(cte.this, outer), cte)

    def recursion(self, cte: exp.CTE, outer: Sight | None) -> Relation:
        """Its columns are those of its first branch; where they come from is followed through the
        recursion until nothing is new.  Types are left to Spark."""
        tree = bare(cte.this)
        self.ctes[id(cte)] = Relation(None)
        if not isinstance(tree, exp.SetOperation):
            self.query(tree, outer)
            return self.renamed(Relation(None), cte)
        known = untyped(self._quiet().seed(tree, cte, outer), cte)
        for _ in range(ROUNDS):
            self.ctes[id(cte)] = known
            relation = untyped(self._quiet().query(tree, outer), cte)
            if relation == known:
                break
            known = relation
        self.ctes[id(cte)] = known
        self.renamed(self.query(tree, outer), cte)
        return known

    def seed(self, tree: exp.SetOperation, cte: exp.CTE, outer: Sight | None) -> Relation:
        """What the first branch of a recursion gives."""
        with_ = tree.args.get("with_")
        if isinstance(with_, exp.With):
            self.with_ctes(with_, outer)
        first, second = bare(tree.this), bare(tree.expression)
        if mentions_cte(first, cte) and not mentions_cte(second, cte):
            first = second
        if isinstance(first, exp.SetOperation):
            return self.seed(first, cte, outer)
        return self.query(first, outer)

    def renamed(self, relation: Relation, node: Tree) -> Relation:
        """`AS t(a, b)` gives the columns other names."""
        names = column_aliases(node)
        if not names:
            return relation
        if relation.columns is not None and len(relation.columns) != len(names):
            self.say(
                node.args["alias"],
                f"{node.alias or 'the list'} names {len(names)} columns, but there are "
                f"{len(relation.columns)}",
                "name all of them, or leave the list out",
            )
        return relation.named(names)

    def set_operation(self, node: exp.SetOperation, outer: Sight | None) -> Relation:
        left = self.query(node.this, outer)
        right = self.query(node.expression, outer)
        flow = left.flow | right.flow
        if left.columns is None or right.columns is None or node.args.get("by_name"):
            both = Relation(None, flow | left.whole | right.whole)
            return both.perhaps(left.planned)
        word = type(node).__name__.upper()
        if len(left.columns) != len(right.columns):
            self.say(
                node.expression,
                f"{word} of {len(left.columns)} and {len(right.columns)} columns",
                "both sides need the same number",
            )
            return Relation(None, flow | left.whole | right.whole)
        pairs = list(zip(left.columns, right.columns, strict=True))
        for at, (one, two) in enumerate(pairs, 1):
            if apart(one.type, two.type):
                message = f"{word} of {one.type} and {two.type} in column {at}"
                self.say(place_of(node.expression, at), message, "CAST one of them")
        if isinstance(node, exp.Union):
            columns = tuple(merged(one, two) for one, two in pairs)
            compared = NOTHING if node.args.get("distinct") is False else Relation(columns).whole
        else:
            columns = tuple(replace(merged(one, two), flow=one.flow) for one, two in pairs)
            compared = left.whole | right.whole
        return Relation(columns, flow | compared.deciding)

    def subquery(self, node: exp.Subquery, outer: Sight | None) -> Relation:
        inside = self.query(node.this, outer)
        alias = (node.alias.lower(),) if node.alias else ()
        inside = pivoted(self, node, inside, alias, outer)
        return self.renamed(self.in_order(node, inside, outer), node)

    def in_order(self, node: Tree, relation: Relation, outer: Sight | None) -> Relation:
        """ORDER BY … LIMIT behind a set operation: it sees its columns.  Behind a query in parentheses
        it also sees what that query sees."""
        order = node.args.get("order")
        if order is None:
            return relation
        scope = items_of(self, relation, ()).scope
        names = frozenset(each.name.lower() for each in scope.fields)
        seen = scope.opened() if isinstance(node, exp.Subquery) else scope
        sight = Sight(seen, outer, listed=names, first=names)
        flow = together(self.flow(each, sight) for each in order.expressions)
        flow |= self.positions(order, relation)
        return relation.deciding(flow) if is_cut(node) else relation

    def positions(self, order: Tree, relation: Relation) -> Flow:
        """ORDER BY 2: the columns that are meant."""
        flow = NOTHING
        for each in order.expressions:
            at = position(each.this if isinstance(each, exp.Ordered) else each)
            if at is None or relation.columns is None:
                continue
            if not 1 <= at <= len(relation.columns):
                clause = "SORT BY" if isinstance(order, exp.Sort) else "ORDER BY"
                self.say(each, f"{clause} {at} is not between 1 and {len(relation.columns)}")
            else:
                flow |= relation.columns[at - 1].flow
        return flow

    def values(self, node: exp.Values, outer: Sight | None) -> Relation:
        flow = together(self.flow(each, Sight(outer=outer)) for each in node.expressions)
        first = node.expressions[0] if node.expressions else None
        if isinstance(first, (exp.Alias, exp.Aliases)):
            return self.renamed(Relation(None, flow), node)
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        names = (f"col{at + 1}" for at in range(width))
        return self.renamed(Relation(tuple(Column(n, flow=flow) for n in names)), node)

    # -- expressions ---------------------------------------------------------------------------

    def flow(self, root: Tree, sight: Sight) -> Flow:
        return expressions.flow(self, root, sight)

    def within(self, node: Tree, sight: Sight, skip: Sequence[str] = ()) -> Flow:
        """Of the parts of a FROM item."""
        left_out = (*skip, "alias", "with_", "pivots", "joins", "laterals")
        parts = [each for key, value in node.args.items() if key not in left_out
                 for each in (value if isinstance(value, list) else [value])]  # fmt: skip
        return together(self.flow(each, sight) for each in parts if isinstance(each, exp.Expr))

    def column(self, node: exp.Column, sight: Sight) -> Flow:
        if expressions.star_of(node) is not None:
            self.star(node, sight)
            return NOTHING
        parts = [part.name for part in node.parts]
        meaning = sight.meaning(parts)
        bind_column(node, meaning)
        if isinstance(meaning, Alias) and meaning.name in sight.first & sight.aliases.keys():
            return sight.aliases[meaning.name].flow
        column = sight.find(parts)
        if column is not None and not sight.lacks_field(parts):
            if sight.is_ambiguous(parts):
                message = f"column {text_of(parts)} is ambiguous"
                self.say_once(sight, node, message, "put the table's name before it")
            return column.flow
        if not sight.is_open and not expressions.is_bare_call(parts):
            message = f"column {text_of(parts)} does not exist"
            self.say_once(sight, node, message, cure(parts, sight), unknown=True)
        return column.flow if column is not None else NOTHING

    def star(self, node: Tree, sight: Sight) -> None:
        bind_fields(node, star_fields(node, sight.scope))

    def generated(self, call: Tree, sight: Sight) -> tuple[str, ...] | None:
        """The names of the columns that a generator makes."""
        number = number_generator(call, self.numbered)
        self.numbered = max(self.numbered, number) + 1
        names = self.generators.get(number)
        if names is None:
            first = call.expressions[0] if call.expressions else None
            names = columns_of(call, expressions.types_in(sight)(first))
        bind_names(call, names)
        return names

    def cte(self, cte: exp.CTE | None) -> Relation | None:
        return None if cte is None else self.ctes.get(id(cte))

    def table(self, name: TableName) -> Relation:
        known = self.tables(name)
        return known if isinstance(known, Relation) else table(name, known)


def star_fields(node: Tree, scope: Scope) -> tuple[Field, ...] | None:
    """What `*` or `t.* EXCEPT (a)` stands for; None: no table of FROM is called `t`."""
    qualifier = tuple(part.lower() for part in expressions.star_of(node) or ())
    if qualifier and not any(answers(each.qualifier, qualifier) for each in scope.fields):
        return None
    star = node.this if isinstance(node, exp.Column) else node
    dropped = {each.name.lower() for each in star.args.get("except_") or ()}
    return tuple(each for each in scope.star(qualifier) if each.name.lower() not in dropped)


def untyped(relation: Relation, cte: exp.CTE) -> Relation:
    names = column_aliases(cte)
    relation = relation.named(names) if names else relation
    if relation.columns is None:
        return relation
    return Relation(tuple(each.unknown for each in relation.columns), relation.flow)


def column_aliases(node: Tree) -> list[str]:
    alias = node.args.get("alias")
    names = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return [each.name for each in names or ()]


def is_cut(node: Tree) -> bool:
    """Whether the order decides which rows there are."""
    return bool(node.args.get("limit") or node.args.get("offset"))


def position(tree: Tree) -> int | None:
    """The 2 of ORDER BY 2."""
    if not (isinstance(tree, exp.Literal) and tree.is_int):
        return None
    return int(tree.name) if int(tree.name) < SMALLEST_LONG else None


def place_of(side: Tree, at: int) -> Tree:
    """The item that gives a column, where it is plain to see."""
    items = side.expressions if isinstance(side, exp.Select) else []
    plain = not any(expressions.star_of(each) is not None for each in items)
    return items[at - 1] if plain and at <= len(items) else side

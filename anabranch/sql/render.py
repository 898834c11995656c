"""Plan → SQL text.  A tree until the last line.

Operators that fit into one SELECT share it; a node that is used twice becomes a CTE.
Every FROM item gets a reserved alias, so that a struct column never reads as a table's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

from sqlglot import exp, parse_one

from anabranch.errors import InternalError
from anabranch.plan.equalities import Equality, equalities
from anabranch.plan.exprs import (
    VERBATIM,
    Expr,
    Tree,
    Written,
    binary,
    call,
    column,
    conjunction,
    conjuncts,
    identifier,
    is_not_null,
    is_null,
    literal,
    operand,
    weight,
)
from anabranch.plan.nodes import (
    WEIGHT,
    Again,
    Aggregate,
    Call,
    Difference,
    Filter,
    Generate,
    Given,
    Item,
    Join,
    Look,
    Match,
    Node,
    On,
    OneRow,
    Order,
    Outer,
    Partner,
    Project,
    Recursive,
    Scan,
    Semi,
    Top,
    UnionAll,
    Version,
    Windows,
    same_columns,
)
from anabranch.plan.nulls import never_null
from anabranch.plan.shared import shared
from anabranch.plan.walk import walk

NameOf = Callable[[Scan | Given], str]


def to_sql(
    node: Node,
    name_of: NameOf,
    dialect: Literal["spark", "duckdb"] = "spark",
    *,
    hints: bool = True,
    known: Mapping[Node, str] | None = None,
    rendering: type[Rendering] | None = None,
) -> str:
    """`name_of` gives the view that stands for a scan or a given relation, `known` those of parts
    that are there already; `hints=False` leaves out the broadcast hints, for deltas that turn out to
    be large; `rendering` writes some parts its own way."""
    known = known or {}
    parts = frozenset(shared(node, known))
    render = rendering or Rendering
    text = render(name_of, parts, known, hints and dialect == "spark").query(node)
    return text if dialect == "spark" else parse_one(text, dialect="spark").sql(dialect=dialect)


@dataclass
class Rendering:
    """The pieces of one statement, as Spark reads them."""

    name_of: NameOf
    shared: frozenset[Node]
    known: Mapping[Node, str]
    hints: bool
    ctes: dict[Node, tuple[str | exp.TableAlias, exp.Query]] = field(default_factory=dict)
    aliases: int = 0
    recursions: dict[str, str] = field(default_factory=dict)  # those whose step is being written
    recursive: bool = False

    def query(self, root: Node) -> str:
        query = self.body(root)
        for name, body in self.ctes.values():
            alias = name if isinstance(name, exp.TableAlias) else identifier(name)
            query = query.with_(alias, as_=body, recursive=self.recursive, copy=False)
        return query.sql(dialect=VERBATIM, copy=False)

    def relation(self, node: Node) -> exp.Query:
        if node in self.known:
            return exp.select(*self.named(node.columns), copy=False).from_(
                self.view(node), copy=False
            )
        if node not in self.shared:
            return self.body(node)
        return exp.select(*self.named(node.columns), copy=False).from_(self.cte(node), copy=False)

    def view(self, node: Node) -> exp.Table:
        return exp.Table(this=identifier(self.known[node]))

    def cte(self, node: Node) -> exp.Table:
        if node not in self.ctes:
            body = self.body(node)
            self.ctes[node] = (f"_ab_c{len(self.ctes)}", body)
        return exp.Table(this=identifier(str(self.ctes[node][0])))

    def recursion(self, node: Recursive) -> exp.Table:
        """WITH RECURSIVE name (columns) AS (seed UNION [ALL] step)

        One recursion at two versions, or asked for some keys only, is two: each has its own name.
        """
        if node not in self.ctes:
            self.recursive = True
            self.aliases += 1
            name = f"{node.name}_{self.aliases}"
            seed = self.body(node.seed)
            around = self.recursions
            self.recursions = {**around, node.name: name}
            step = self.body(node.step)
            if isinstance(step, exp.Union):  # or its first branch would belong to the seed
                step = step.subquery(copy=False)
            if node.distinct and isinstance(seed, exp.Union):
                seed = seed.subquery(copy=False)
            self.recursions = around
            whole = exp.union(seed, step, distinct=node.distinct, copy=False)
            columns = [identifier(each) for each in node.columns]
            self.ctes[node] = (exp.TableAlias(this=identifier(name), columns=columns), whole)
        alias = self.ctes[node][0]
        if not isinstance(alias, exp.TableAlias):
            raise InternalError("a recursion is not a common table expression of its own")
        return exp.Table(this=alias.this.copy())

    def again(self, node: Again) -> exp.Table:
        return exp.Table(this=identifier(self.recursions[node.name]))

    def body(self, node: Node) -> exp.Query:
        match node:
            case Project():
                return self.select(node.input, node.items)
            case Aggregate():
                return self.aggregate(node)
            case UnionAll() if len(node.parts) > 1:
                parts = [self.relation(part) for part in node.parts]
                return reduce(lambda a, b: exp.union(a, b, distinct=False, copy=False), parts)
            case UnionAll():
                return self.relation(node.parts[0])
            case Match() if node.partner is Partner.MARKED:
                return self.marked(node)
            case Windows():
                return self.select(node.input, (*same_columns(node.input), *node.calls))
            case Top():
                return self.ranked(node) if node.partition else self.first_rows(node)
            case Generate():
                return self.generated(node)
            case Look():
                return self.looked(node)
            case Difference():
                return self.body(_netted(node))
            case OneRow():
                return exp.select(exp.alias_(exp.Literal.number(1), identifier("_ab_one")))
        return self.select(node, same_columns(node))

    def select(self, source: Node, items: tuple[Item, ...]) -> exp.Select:
        conditions: list[Expr] = []
        while isinstance(source, Filter):
            conditions = [*conjuncts(source.condition), *conditions]
            source = source.input
        query = exp.select(*(self.item(item) for item in items), copy=False)
        if isinstance(source, Join):
            conditions = [*self.join(query, source), *conditions]
        elif isinstance(source, Semi):
            self.semi(query, source)
        elif isinstance(source, Outer):
            self.pair(query, source, "full" if source.full else "left")
        elif isinstance(source, Match) and source.partner is not Partner.MARKED:
            wanted = source.partner is Partner.WANTED
            self.pair(query, source, "left semi" if wanted else "left anti")
        elif not isinstance(source, OneRow):
            query.from_(self.source(source)[0], copy=False)
        condition = conjunction(conditions)
        return query if condition is None else query.where(self.condition(condition), copy=False)

    def aggregate(self, node: Aggregate) -> exp.Select:
        """Keys that are computed get a name first: GROUP BY 5 would mean the fifth column."""
        source, keys = node.input, node.keys
        if any(key.expr.column is None for key in keys):
            needed = frozenset().union(*(call.expr.columns for call in node.calls))
            passed = tuple(item for item in same_columns(source) if item.name in needed)
            named = tuple(Item(f"_ab_g{i}", key.expr) for i, key in enumerate(keys))
            source = Project(source, (*named, *passed))
            keys = tuple(
                Item(key.name, column(own.name)) for key, own in zip(keys, named, strict=True)
            )
        calls = tuple(Item(call.name, call.expr) for call in node.calls)
        query = self.select(source, (*keys, *calls))
        if node.calls:
            return query.group_by(*(self.written(key.expr) for key in keys), copy=False)
        return query.distinct(copy=False)

    def join(self, query: exp.Select, node: Join) -> list[Expr]:
        """FROM a JOIN b ON …, each condition as early as its columns are there; gives back those
        that belong to the first input alone."""
        waiting = list(conjuncts(node.condition))
        seen: set[str] = set()
        first: list[Expr] = []
        for position, part in enumerate(node.parts):
            source, alias = self.source(part)
            seen.update(part.columns)
            ready = [expr for expr in waiting if expr.columns <= seen]
            waiting = [expr for expr in waiting if expr not in ready]
            if position == 0:
                query.from_(source, copy=False)
                first = ready
                if node.broadcast:
                    self.hint(query, alias)
            else:
                condition = conjunction(ready)
                on = self.written(condition) if condition else None
                query.join(source, on=on, join_type="" if on else "cross", copy=False)
        return first

    def semi(self, query: exp.Select, node: Semi) -> None:
        keys, alias, met = self.keys(node.keys, node.on)
        query.from_(self.source(node.input)[0], copy=False)
        query.join(keys, on=met, join_type="left semi", copy=False)
        if node.broadcast:
            self.hint(query, alias)

    def keys(self, keys: Node, on: On) -> tuple[Tree, str, Tree]:
        """A FROM item, its alias, and the condition.  Keys are renamed: they may be called like a
        column of the input."""
        renamed = tuple(Item(f"_ab_on{i}", column(key)) for i, (_, key) in enumerate(on))
        source, alias = self.aliased(self.select(self.repeated(keys), renamed))
        pairs: list[Tree] = [
            # joins on a plain equality are several times faster
            (exp.EQ if never_null(keys, key) else exp.NullSafeEQ)(
                this=self.operand(expr), expression=self.column(item.name)
            )
            for (expr, key), item in zip(on, renamed, strict=True)
        ]
        return source, alias, exp.and_(*pairs, copy=False)

    def repeated(self, keys: Node) -> Node:
        """The keys, some more than once: whether a key is among them is the same without the
        shuffle that DISTINCT takes."""
        if keys in self.known or (keys in self.shared and not _only_changes(keys)):
            return keys
        match keys:
            case Aggregate(calls=()):
                return Project(self.repeated(keys.input), keys.keys)
            case Project() | Filter() | UnionAll():
                return keys.with_inputs([self.repeated(part) for part in keys.inputs])
        return keys

    def looked(self, node: Look) -> exp.Select:
        """One kind of keys is a semi join; several are conditions of which one must hold: IN, for a
        correlated EXISTS must not stand below UNION (see `marked`)."""
        if len(node.by) == 1:
            ((keys, on),) = node.by
            return self.select(Semi(node.input, keys, on), same_columns(node))
        some = [condition for keys, on in node.by for condition in self.among(keys, on)]
        query = self.select(node.input, same_columns(node))
        return query.where(exp.or_(*some, copy=False), copy=False)

    def among(self, keys: Node, on: On) -> Iterator[Tree]:
        """Conditions of which one holds for each row whose values are among the keys.  IN finds no
        NULL: if there is one among the keys, every row with a NULL in its place is taken."""
        keys = self.repeated(keys)
        named = tuple(Item(key, column(key)) for key in dict.fromkeys(key for _, key in on))
        source, alias = self.aliased(self.select(keys, named))
        wanted = exp.select(*(self.column(key) for _, key in on), copy=False)
        self.hint(wanted.from_(source, copy=False), alias)
        values = [self.operand(expr) for expr, _ in on]
        this = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
        yield exp.In(this=this, query=wanted.subquery(copy=False))
        for expr, key in on:
            if not never_null(keys, key):
                absent = Filter(keys, is_null(column(key)))
                inner = exp.select(exp.Literal.number(1), copy=False)
                inner.from_(self.source(absent)[0], copy=False)
                missing = exp.Is(this=self.operand(expr), expression=exp.Null())
                yield exp.Paren(this=exp.and_(missing, exp.Exists(this=inner), copy=False))

    def pair(self, query: exp.Select, node: Outer | Match, kind: str) -> None:
        query.from_(self.source(node.left)[0], copy=False)
        on = self.written(node.condition) if node.condition else exp.true()
        query.join(self.source(node.right)[0], on=on, join_type=kind, copy=False)

    def marked(self, node: Match) -> exp.Query:
        """Never a correlated EXISTS: with UNION above it and a filter above that, Spark's optimizer
        looks for columns of the inner query in the outer one, and fails with "key not found"."""
        compared = conjuncts(node.condition)
        pairs = equalities(node.condition, node.left.columns, node.right.columns)
        mine = [each for each in compared if each.columns and each.columns <= {*node.left.columns}]
        theirs = [each for each in compared if each.columns <= {*node.right.columns}]
        right = Filter(node.right, both) if (both := conjunction(theirs)) else node.right
        by_key = len(pairs) + len(mine) + len(theirs) == len(compared)
        if not by_key or (pairs and not node.one_to_one):
            return self.body(_judged_twice(node))
        if pairs:
            return self.found_by_key(node, right, pairs, mine)
        inner = exp.select(exp.Literal.number(1), copy=False).from_(
            self.source(right)[0], copy=False
        )
        some: Tree = exp.Exists(this=inner)
        if (own := conjunction(mine)) is not None:
            known = exp.Coalesce(this=self.written(own), expressions=[exp.false()])
            some = exp.and_(known, some, copy=False)
        mark = exp.alias_(some, identifier(node.mark), copy=False)
        query = exp.select(*map(self.column, node.left.columns), mark, copy=False)
        return query.from_(self.source(node.left)[0], copy=False)

    def found_by_key(
        self, node: Match, right: Node, pairs: tuple[Equality, ...], mine: list[Expr]
    ) -> exp.Select:
        """L LEFT JOIN the keys of R, each once: the mark is whether one was found."""
        keys = Aggregate(
            right, tuple(Item(f"_ab_met{i}", pair.right) for i, pair in enumerate(pairs))
        )
        found = Project(keys, (*same_columns(keys), Item("_ab_met", Expr("TRUE"))))
        equal = [
            binary(exp.NullSafeEQ if pair.null_safe else exp.EQ, pair.left, column(key.name))
            for pair, key in zip(pairs, keys.keys, strict=True)
        ]
        outer = Outer(node.left, found, conjunction([*mine, *equal]))
        mark = Item(node.mark, is_not_null(column("_ab_met")))
        return self.select(outer, (*same_columns(node.left), mark))

    def first_rows(self, node: Top) -> exp.Select:
        query = self.select(node.input, same_columns(node.input))
        query = query.order_by(*map(ordered, node.order), copy=False)
        if node.limit is not None:
            query = query.limit(node.limit, copy=False)
        return query.offset(node.offset, copy=False) if node.offset else query

    def ranked(self, node: Top) -> exp.Select:
        """The first rows of every partition, by their number in it."""
        window = exp.Window(
            this=exp.Anonymous(this="ROW_NUMBER"),
            partition_by=[expr.tree.copy() for expr in node.partition],
            order=exp.Order(expressions=[ordered(order) for order in node.order]),
        )
        number = Item("_ab_rank", Expr.of(window))
        numbered, _ = self.aliased(self.select(node.input, (*same_columns(node.input), number)))
        query = exp.select(*map(self.column, node.columns), copy=False)
        query = query.from_(numbered, copy=False)
        if node.limit is not None:
            last = exp.Literal.number(node.limit + node.offset)
            query = query.where(exp.LTE(this=self.column(number.name), expression=last), copy=False)
        if node.offset:
            skipped = exp.Literal.number(node.offset)
            query = query.where(
                exp.GT(this=self.column(number.name), expression=skipped), copy=False
            )
        return query

    def generated(self, node: Generate) -> exp.Select:
        query = exp.select(*map(self.column, node.columns), copy=False)
        query = query.from_(self.source(node.input)[0], copy=False)
        query.append("laterals", self.lateral(node))
        return query

    def lateral(self, node: Generate) -> Tree:
        return exp.Lateral(
            this=Written(this=node.generator.text),
            view=True,
            outer=node.outer,
            alias=exp.TableAlias(
                this=identifier(self.alias()), columns=[identifier(name) for name in node.names]
            ),
        )

    def source(self, node: Node) -> tuple[Tree, str]:
        """The node as a FROM item, and its alias."""
        if isinstance(node, (Scan, Given)):
            alias = self.alias()
            table = exp.Table(this=identifier(self.name_of(node)))
            return exp.alias_(table, identifier(alias), table=True, copy=False), alias
        if isinstance(node, (Recursive, Again)):
            alias = self.alias()
            named = self.recursion(node) if isinstance(node, Recursive) else self.again(node)
            return exp.alias_(named, identifier(alias), table=True, copy=False), alias
        if node in self.known:
            alias = self.alias()
            return exp.alias_(self.view(node), identifier(alias), table=True, copy=False), alias
        if node in self.shared:
            alias = self.alias()
            return exp.alias_(self.cte(node), identifier(alias), table=True, copy=False), alias
        return self.aliased(self.body(node))

    def aliased(self, query: exp.Query) -> tuple[Tree, str]:
        alias = self.alias()
        return query.subquery(identifier(alias), copy=False), alias

    def alias(self) -> str:
        self.aliases += 1
        return f"_ab_f{self.aliases}"

    def hint(self, query: exp.Select, alias: str) -> None:
        if self.hints:
            broadcast = exp.Anonymous(this="BROADCAST", expressions=[exp.to_identifier(alias)])
            query.set("hint", exp.Hint(expressions=[broadcast]))

    def item(self, item: Item) -> Tree:
        written = self.written(item.expr)
        if item.expr.column == item.name:
            return written
        return exp.Alias(this=written, alias=identifier(item.name))

    def named(self, names: tuple[str, ...]) -> list[Tree]:
        if not names:
            raise InternalError("a relation without columns cannot be shared")
        return [self.column(name) for name in names]

    def written(self, expr: Expr) -> Tree:
        return Written(this=expr.text)

    def column(self, name: str) -> Tree:
        return self.written(column(name))

    def condition(self, expr: Expr) -> Tree:
        """The expression, so that AND may follow."""
        written = self.written(expr)
        return exp.Paren(this=written) if isinstance(expr.tree, exp.Or) else written

    def operand(self, expr: Expr) -> Tree:
        """The expression, in parentheses unless it needs none."""
        is_safe = operand(expr.tree) is expr.tree
        return self.written(expr) if is_safe else exp.Paren(this=self.written(expr))


def _netted(node: Difference) -> Node:
    """Of what both sides have, the weights come to nothing."""
    sides = tuple(
        Project(side, (*same_columns(side), Item(WEIGHT, weight(sign))))
        for side, sign in ((node.right, 1), (node.left, -1))
    )
    keys = tuple(Item(name, column(name)) for name in node.left.columns)
    total = Call(WEIGHT, call("SUM", column(WEIGHT)))
    moved = binary(exp.NEQ, column(WEIGHT), literal(0))
    return Project(
        Filter(Aggregate(UnionAll(sides), keys, (total,)), moved),
        tuple(Item(name, column(name)) for name in node.columns),
    )


def _judged_twice(node: Match) -> Node:
    """The left rows with a partner, and those without."""
    sides = (
        Project(
            replace(node, partner=partner, mark=""),
            (*same_columns(node.left), Item(node.mark, Expr(value))),
        )
        for partner, value in ((Partner.WANTED, "TRUE"), (Partner.UNWANTED, "FALSE"))
    )
    return UnionAll(tuple(sides))


def _only_changes(node: Node) -> bool:
    scans = (part for part in walk(node) if isinstance(part, Scan))
    return all(scan.version is Version.DELTA for scan in scans)


def ordered(order: Order) -> exp.Ordered:
    return exp.Ordered(
        this=order.expr.tree.copy(), desc=order.descending, nulls_first=order.nulls_first
    )

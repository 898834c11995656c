"""Plan → SQL text.  A tree until the last line.

Operators that fit into one SELECT share it; a shared node becomes a CTE.  Every FROM item gets a
reserved alias, so that a struct column is never taken for a table name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp, parse_one

from anabranch.errors import InternalError
from anabranch.plan.exprs import (
    VERBATIM,
    Expr,
    Tree,
    Written,
    column,
    conjunction,
    identifier,
    operand,
)
from anabranch.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Item,
    Node,
    On,
    Parameter,
    Project,
    Recursive,
    RecursiveRef,
    Scan,
    UnionAll,
    Version,
)
from anabranch.plan.shared import shared
from anabranch.plan.walk import walk

NameOf = Callable[[Scan | Parameter], str]


def to_sql(
    node: Node,
    name_of: NameOf,
    dialect: Literal["spark", "duckdb"] = "spark",
    *,
    hints: bool = True,
    materialized: Mapping[Node, str] | None = None,
    rendering: type[Rendering] | None = None,
) -> str:
    """`name_of` returns the view of a scan or a parameter, `materialized` has the views of stored
    subplans; `hints=False` omits broadcast hints, for deltas that turn out to be large;
    `rendering` overrides how some parts are written."""
    materialized = materialized or {}
    common = frozenset(shared(node, materialized))
    render = rendering or Rendering
    text = render(name_of, common, materialized, hints and dialect == "spark").query(node)
    return text if dialect == "spark" else parse_one(text, dialect="spark").sql(dialect=dialect)


@dataclass
class Rendering:
    """The parts of one statement in Spark's SQL."""

    name_of: NameOf
    shared: frozenset[Node]
    materialized: Mapping[Node, str]
    hints: bool
    ctes: dict[Node, tuple[str | exp.TableAlias, exp.Query]] = field(default_factory=dict)
    aliases: int = 0
    recursions: dict[str, str] = field(default_factory=dict)  # whose step is being rendered
    recursive: bool = False

    def query(self, root: Node) -> str:
        query = self.body(root)
        for name, body in self.ctes.values():
            alias = name if isinstance(name, exp.TableAlias) else identifier(name)
            query = query.with_(alias, as_=body, recursive=self.recursive, copy=False)
        return query.sql(dialect=VERBATIM, copy=False)

    def relation(self, node: Node) -> exp.Query:
        if node in self.materialized:
            return exp.select(*self.named(node.columns), copy=False).from_(
                self.view(node), copy=False
            )
        if node not in self.shared:
            return self.body(node)
        return exp.select(*self.named(node.columns), copy=False).from_(self.cte(node), copy=False)

    def view(self, node: Node) -> exp.Table:
        return exp.Table(this=identifier(self.materialized[node]))

    def cte(self, node: Node) -> exp.Table:
        if node not in self.ctes:
            body = self.body(node)
            self.ctes[node] = (f"_ab_c{len(self.ctes)}", body)
        return exp.Table(this=identifier(str(self.ctes[node][0])))

    def recursion(self, node: Recursive) -> exp.Table:
        """WITH RECURSIVE name (columns) AS (seed UNION [ALL] step)

        A recursion over two versions, or filtered by keys, is rendered twice: each has its own name.
        """
        if node not in self.ctes:
            self.recursive = True
            self.aliases += 1
            name = f"{node.name}_{self.aliases}"
            seed = self.body(node.seed)
            outer = self.recursions
            self.recursions = {**outer, node.name: name}
            step = self.body(node.step)
            if isinstance(step, exp.Union):  # or its first branch would belong to the seed
                step = step.subquery(copy=False)
            if node.distinct and isinstance(seed, exp.Union):
                seed = seed.subquery(copy=False)
            self.recursions = outer
            union = exp.union(seed, step, distinct=node.distinct, copy=False)
            columns = [identifier(name_) for name_ in node.columns]
            self.ctes[node] = (exp.TableAlias(this=identifier(name), columns=columns), union)
        alias = self.ctes[node][0]
        if not isinstance(alias, exp.TableAlias):
            raise InternalError("a recursion is not a common table expression of its own")
        return exp.Table(this=alias.this.copy())

    def recursive_ref(self, node: RecursiveRef) -> exp.Table:
        return exp.Table(this=identifier(self.recursions[node.name]))

    def body(self, node: Node) -> exp.Query:
        return node.body(self)

    def select(self, source: Node, items: tuple[Item, ...]) -> exp.Select:
        query = exp.select(*(self.item(item) for item in items), copy=False)
        condition = conjunction(self.join_into(query, source))
        return query if condition is None else query.where(self.condition(condition), copy=False)

    def join_into(self, query: exp.Select, source: Node) -> list[Expr]:
        return source.join_into(self, query)

    def keys(self, keys: Node, on: On) -> tuple[Tree, str, Tree]:
        """A FROM item, its alias, and the join condition.  Keys are renamed, since they may have the
        name of an input column."""
        renamed = tuple(Item(f"_ab_on{i}", column(key)) for i, (_, key) in enumerate(on))
        source, alias = self.aliased(self.select(self.without_distinct(keys), renamed))
        pairs: list[Tree] = [
            # joins on plain equality are several times faster than NULL-safe ones
            (exp.EQ if keys.never_null(key) else exp.NullSafeEQ)(
                this=self.operand(expr), expression=self.column(item.name)
            )
            for (expr, key), item in zip(on, renamed, strict=True)
        ]
        return source, alias, exp.and_(*pairs, copy=False)

    def without_distinct(self, keys: Node) -> Node:
        """The keys, possibly with duplicates: a semi join gives the same result without the shuffle of
        DISTINCT."""
        if keys in self.materialized or (keys in self.shared and not _only_changes(keys)):
            return keys
        match keys:
            case Aggregate(calls=()):
                return Project(self.without_distinct(keys.input), keys.keys)
            case Project() | Filter() | UnionAll():
                return keys.with_inputs([self.without_distinct(child) for child in keys.inputs])
        return keys

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
        if not (node.named or node in self.materialized or node in self.shared):
            return self.aliased(self.body(node))
        alias = self.alias()
        return exp.alias_(self.table(node), identifier(alias), table=True, copy=False), alias

    def table(self, node: Node) -> exp.Table:
        if node.named:
            return node.as_table(self)
        return self.view(node) if node in self.materialized else self.cte(node)

    def stored(self, leaf: Scan | Parameter) -> exp.Table:
        return exp.Table(this=identifier(self.name_of(leaf)))

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
        tree = self.written(item.expr)
        if item.expr.column == item.name:
            return tree
        return exp.Alias(this=tree, alias=identifier(item.name))

    def named(self, names: tuple[str, ...]) -> list[Tree]:
        if not names:
            raise InternalError("a relation without columns cannot be shared")
        return [self.column(name) for name in names]

    def written(self, expr: Expr) -> Tree:
        return Written(this=expr.text)

    def column(self, name: str) -> Tree:
        return self.written(column(name))

    def condition(self, expr: Expr) -> Tree:
        """The expression as an operand of AND."""
        tree = self.written(expr)
        return exp.Paren(this=tree) if isinstance(expr.tree, exp.Or) else tree

    def operand(self, expr: Expr) -> Tree:
        """The expression, in parentheses unless it needs none."""
        is_safe = operand(expr.tree) is expr.tree
        return self.written(expr) if is_safe else exp.Paren(this=self.written(expr))


def _only_changes(node: Node) -> bool:
    scans = (scan for scan in walk(node) if isinstance(scan, Scan))
    return all(scan.version is Version.DELTA for scan in scans)

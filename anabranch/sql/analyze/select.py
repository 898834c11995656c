"""One SELECT: its clauses in the order in which names become visible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UserError, did_you_mean
from anabranch.names import shown
from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze.aggregates import inside, is_grouped, misplaced, ungrouped
from anabranch.sql.analyze.bindings import answer_of, fields_of
from anabranch.sql.analyze.checks import not_a_condition
from anabranch.sql.analyze.clauses import time_windows
from anabranch.sql.analyze.columns import (
    NOTHING,
    Column,
    Columns,
    Flow,
    Relation,
    together,
)
from anabranch.sql.analyze.expressions import star_of, types_in
from anabranch.sql.analyze.findings import Finding
from anabranch.sql.analyze.from_items import Rows
from anabranch.sql.analyze.generators import generator_in, is_generator
from anabranch.sql.analyze.groups import Groups, TooManySets, groups
from anabranch.sql.analyze.names import implied_name
from anabranch.sql.analyze.obstacles import is_aggregate
from anabranch.sql.analyze.resolve import FromColumns, Resolver, Selected
from anabranch.sql.analyze.scope import answers
from anabranch.sql.analyze.sight import Sight, text_of
from anabranch.sql.obstacles import Stop
from anabranch.sql.text.source_text import SourceText

_AFTER_GROUPS = ("having", "order", "qualify", "sort", "cluster", "distribute")
_SEES_ALIASES = ("group", "having", "order", "qualify", "sort", "cluster", "distribute", "windows")
_DONE_ELSEWHERE = ("expressions", "with_", "from_", "joins", "laterals", "hint")
_DECIDING = ("where", "group", "having", "qualify")


class Queries(Protocol):
    """What a SELECT asks of the walk."""

    text: SourceText
    findings: list[Finding]

    def say(
        self, node: Tree, message: str, hint: str | None = None, *, unknown: bool = False
    ) -> None: ...
    def flow(self, root: Tree, sight: Sight) -> Flow: ...
    def positions(self, order: Tree, relation: Relation) -> Flow: ...
    def generated(self, call: Tree, sight: Sight) -> tuple[str, ...] | None: ...


@dataclass
class Block:
    """`certain` are the columns so far, None from the first item on that gives nobody knows which."""

    walk: Queries
    node: exp.Select
    rows: Rows
    outer: Sight | None
    certain: list[Column] | None = field(default_factory=list)
    planned: list[Column] | None = field(default_factory=list)  # also those that are not certain
    aliases: dict[str, Column] = field(default_factory=dict)
    flow: Flow = NOTHING
    hidden: Flow = NOTHING  # of the columns that nobody knows

    reported: set[str] = field(default_factory=set)
    reported_before: int = 0  # findings when this SELECT began

    def __post_init__(self) -> None:
        self.flow = self.rows.flow

    def sight(self, aliases: Mapping[str, Column] | None = None) -> Sight:
        return Sight(self.rows.scope, self.outer, dict(aliases or {}), reported=self.reported)

    def result(self) -> Relation:
        self.aliases = {name: Column(name) for name in time_windows(self.node)}
        named = self.named_windows()
        for item in self.node.expressions:
            self.item(item, named)
        last = replace(
            self.sight({**self.outputs(), **self.aliases}),
            listed=frozenset((each.name or each.made_up).lower() for each in self.planned or ()),
        )
        planned = replace(last, through_plan=is_grouped(self.node) or has_windows(self.node))
        for key, value in self.node.args.items():
            if key not in _DONE_ELSEWHERE:
                seen = planned if key in _AFTER_GROUPS else last
                seen = self.with_first(key, seen) if key in _SEES_ALIASES else self.sight()
                self.clause(key, value, seen)
        self.conditions(last)
        self.ordinals()
        self.grouped()
        columns = None if self.certain is None else tuple(self.certain)
        relation = Relation(
            columns, self.flow.deciding | (self.hidden if columns is None else NOTHING)
        )
        if columns is None and self.planned is not None:
            relation = replace(relation, probable=tuple(self.planned))
        return relation.deciding(relation.whole) if self.node.args.get("distinct") else relation

    def outputs(self) -> dict[str, Column]:
        return {each.name.lower(): each for each in reversed(self.certain or ()) if each.name}

    def with_first(self, key: str, sight: Sight) -> Sight:
        """ORDER BY means items of the SELECT list before columns of FROM, and HAVING their aliases,
        unless a key has that name."""
        if key == "order":
            return replace(sight, first=sight.listed)
        if key == "having":
            first = frozenset(name for name in self.aliases if self.comes_first(name))
            return replace(sight, first=first, over_groups=True)
        return sight

    def comes_first(self, alias: str) -> bool:
        answer = self.rows.scope.declared([alias])
        if answer is None:
            return True
        return len(answer.columns) == 1 and not answer.columns & self.keys

    # -- the SELECT list -----------------------------------------------------------------------

    def named_windows(self) -> Mapping[str, Flow]:
        """What WINDOW w AS (…) looks at; what is wrong with it is reported when its turn comes."""
        reported, before = set(self.reported), len(self.walk.findings)
        flows = {
            each.name.lower(): self.walk.flow(each, self.sight())
            for each in self.node.args.get("windows") or ()
        }
        self.reported, self.walk.findings[before:] = reported, []
        return flows

    def item(self, item: Tree, windows: Mapping[str, Flow]) -> None:
        seen = self.sight(self.aliases)
        flow = self.walk.flow(item, seen)
        used = {each.args["alias"].name.lower() for each in inside(item)
                if isinstance(each, exp.Window) and each.args.get("alias")}  # fmt: skip
        for name in used & windows.keys():
            flow |= windows[name].deciding
        columns, planned = self.columns(item, seen, flow)
        if isinstance(item, exp.Alias) and columns:
            self.aliases[item.alias.lower()] = columns[0]
        elif isinstance(item, exp.Aliases):
            self.aliases |= {e.name.lower(): Column(e.name, flow=flow) for e in item.expressions}
        if any(is_generator(each) for each in inside(item)):
            self.flow |= flow.deciding
        self.hidden |= flow if columns is None else NOTHING
        self.certain = (
            None if self.certain is None or columns is None else [*self.certain, *columns]
        )
        self.planned = (
            None if self.planned is None or planned is None else [*self.planned, *planned]
        )
        self.hidden |= together(each.flow for each in columns or ())

    def columns(self, item: Tree, seen: Sight, flow: Flow) -> tuple[Columns, Columns]:
        """The columns that one item of a SELECT list certainly gives, and those that a plan has."""
        if (starred := star_of(item)) is not None:
            fields = fields_of(item)
            planned = None if fields is None else tuple(each.known for each in fields)
            return self.star(item, starred, seen), planned
        call = generator_in(item)
        if call is not None:
            return self.generated(item, call, seen, flow)
        columns = tuple(self.values(item, seen, flow))
        return columns, columns

    def values(self, item: Tree, seen: Sight, flow: Flow) -> Iterator[Column]:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(item, exp.Aliases):
            yield from (Column(each.name, None, flow) for each in item.expressions)
            return
        type_ = types_in(seen)(inner)
        name, certain = implied_name(item)
        if isinstance(item, exp.Alias):
            yield Column(item.alias, type_, flow)
        elif isinstance(item, exp.Column):
            known = seen.find([part.name for part in item.parts])
            yield Column(name, type_, flow, broken=known is None or known.broken)
        elif certain:
            yield Column(name, type_, flow)
        else:
            yield Column(None, type_, flow, any_name=_may_have_any_name(item), made_up=name)

    def generated(self, item: Tree, call: Tree, seen: Sight, flow: Flow) -> tuple[Columns, Columns]:
        names = self.walk.generated(call, seen)
        if isinstance(item, exp.Aliases):
            columns: Columns = tuple(Column(each.name, None, flow) for each in item.expressions)
            return columns, columns
        if isinstance(item, exp.Alias):
            columns = (Column(item.alias, None, flow),)
            return columns, columns
        return None, None if names is None else tuple(Column(name, None, flow) for name in names)

    def star(self, item: Tree, qualifier: list[str], seen: Sight) -> Columns:
        """The columns of `*`, if all are certain."""
        scope, wanted = self.rows.scope, tuple(part.lower() for part in qualifier)
        mine = [each for each in scope.fields if not wanted or answers(each.qualifier, wanted)]
        opaque = [each for each in scope.opaque if answers(each.qualifier, wanted)]
        if wanted and not mine and not opaque:
            if seen.find(qualifier) is None and not seen.is_open:
                name = ".".join(wanted)
                hint = did_you_mean(name, seen.qualifiers())
                self.walk.say(item, f"{name}.* names no table of FROM", hint, unknown=True)
            return None
        star = item.this if isinstance(item, exp.Column) else item
        if opaque or star.args.get("replace") or star.args.get("rename"):
            self.hidden |= together(each.flow for each in opaque)
            self.hidden |= together(each.known.flow for each in mine)
            return None
        return tuple(each.known for each in fields_of(item) or ())

    # -- the other clauses ---------------------------------------------------------------------

    def clause(self, key: str, value: object, sight: Sight) -> None:
        parts = [
            e for e in (value if isinstance(value, list) else [value]) if isinstance(e, exp.Expr)
        ]
        flow = together(self.walk.flow(each, sight) for each in parts)
        cut = self.node.args.get("limit") or self.node.args.get("offset")
        if key in _DECIDING or (key == "order" and cut):
            self.flow |= flow.deciding

    def conditions(self, last: Sight) -> None:
        for clause in ("where", "having"):
            tree = self.node.args.get(clause)
            if tree is None:
                continue
            seen = last if clause == "having" else self.sight()
            for wrong in not_a_condition(clause.upper(), tree.this, types_in(seen)):
                self.walk.say(*wrong)
            if clause == "where":
                for wrong in misplaced("WHERE", tree.this, seen):
                    self.walk.say(*wrong)
        having = self.node.args.get("having")
        for part in inside(having.this) if having is not None else ():
            if isinstance(part, exp.Window):
                self.walk.say(part, "HAVING cannot use window functions", "use a subquery")
                break

    def ordinals(self) -> None:
        relation = Relation(None if self.certain is None else tuple(self.certain))
        for key in ("order", "sort"):
            if (order := self.node.args.get(key)) is not None:
                flow = self.walk.positions(order, relation)
                cut = self.node.args.get("limit") or self.node.args.get("offset")
                self.flow |= flow.deciding if key == "order" and cut else NOTHING

    # -- groups --------------------------------------------------------------------------------

    def grouped(self) -> None:
        """GROUP BY: keys by their place, and columns that are neither a key nor aggregated."""
        group = self.node.args.get("group")
        if group is not None:
            self.flow |= self.keys_by_place(group).deciding
        whole = group is not None and group.args.get("all")
        if (
            len(self.walk.findings) > self.reported_before
            or self.rows.scope.opaque
            or whole
            or not is_grouped(self.node)
        ):
            return
        by = self.groups()
        if by is None:
            return
        for key in by.keys:
            if any(is_aggregate(part) for part in inside(key)):
                hint = "GROUP BY takes grouping keys"
                self.walk.say(group or self.node, "GROUP BY cannot use an aggregate", hint)
                return
        keys = {each.name for key in by.keys for each in key.find_all(exp.Column)}
        self.ungrouped(keys)

    def ungrouped(self, keys: set[str]) -> None:
        reported: set[str] = set()
        outputs = {*self.outputs(), *self.aliases}
        clauses = [self.node.args[key] for key in ("having", "order") if self.node.args.get(key)]
        listed = [item for item in self.node.expressions if star_of(item) is None]
        for node in (
            *ungrouped(listed, self.sight(), keys, set()),
            *ungrouped(clauses, self.sight(), keys, outputs),
        ):
            name = text_of([part.name for part in node.parts])
            if name.lower() not in reported:
                reported.add(name.lower())
                message = f"column {name} is neither in GROUP BY nor inside an aggregate"
                hint = f"add {name} to GROUP BY, or aggregate it, as with max({name})"
                self.walk.say(node, message, hint)
        for item in self.node.expressions:
            if (starred := star_of(item)) is not None:
                self.ungrouped_star(item, starred, keys)

    def ungrouped_star(self, item: Tree, qualifier: Sequence[str], keys: set[str]) -> None:
        loose = [
            each.name
            for each in self.rows.scope.star(qualifier)
            if each.column not in keys and not each.known.broken
        ]
        if loose:
            message = (
                f"column {shown(loose[0])} of * is neither in GROUP BY nor inside an aggregate"
            )
            self.walk.say(item, message, "list the columns that are in GROUP BY")

    def keys_by_place(self, group: exp.Group) -> Flow:
        """GROUP BY 2, ALL: the items that are meant."""
        if group.args.get("all"):
            return together(
                each.flow
                for item, each in self.items()
                if not any(is_aggregate(part) for part in inside(item))
            )
        flow = NOTHING
        for key, at in _places(group):
            if self.certain is None:
                break
            if not 1 <= at <= len(self.certain):
                message = f"GROUP BY {at} is not between 1 and {len(self.certain)}"
                self.walk.say(key, message)
            else:
                flow |= self.certain[at - 1].flow
        return flow

    def items(self) -> Iterator[tuple[Tree, Column]]:
        if self.certain is not None and len(self.certain) == len(self.node.expressions):
            yield from zip(self.node.expressions, self.certain, strict=True)
        else:
            yield from ((self.node, each) for each in self.certain or ())

    @cached_property
    def keys(self) -> frozenset[str]:
        """The columns of FROM that are keys, once the names in GROUP BY are bound."""
        by, group = self.groups(), self.node.args.get("group")
        if by is not None:
            columns = (unwrapped(key) for key in by.keys)
            return frozenset(each.name for each in columns if isinstance(each, exp.Column))
        written = (key for key in _keys(group) if isinstance(key, exp.Column)) if group else ()
        answers = (answer_of(key) for key in written)
        return frozenset[str]().union(*(each.columns for each in answers if each and not each.rest))

    def groups(self) -> Groups | None:
        """The grouping expressions over the columns of FROM, by the rules of a plan."""
        fields = self.rows.scope.fields
        visible = FromColumns.of(fields, [each.column for each in fields])
        resolver = Resolver(self.walk.text, visible)
        try:
            items: list[Selected] = list(
                resolver.select([without_queries(each) for each in self.node.expressions])
            )
            return groups(without_group_queries(self.node), resolver, items)
        except (UserError, Stop, TooManySets):
            return None  # names of a query around, windows of time, or too many sets


def has_windows(node: exp.Select) -> bool:
    return any(isinstance(part, exp.Window) for item in node.expressions for part in inside(item))


def without_queries(tree: Tree) -> Tree:
    """The expression with nothing in place of queries, whose names are their own."""
    if isinstance(tree, exp.Query):
        return exp.Null()
    copied = tree.copy()
    for node in [each for each in copied.walk() if isinstance(each, (exp.Exists, exp.Subquery))]:
        if node.parent is not None or node is copied:
            node.replace(exp.Null())
    for each in list(copied.find_all(exp.In)):
        if each.args.get("query") is not None:
            each.set("query", exp.Null())
    return copied


def without_group_queries(node: exp.Select) -> exp.Select:
    group = node.args.get("group")
    grouping = exp.Select()
    if group is not None:
        grouping.set("group", without_queries(group))
    return grouping


def _places(group: exp.Group) -> Iterator[tuple[Tree, int]]:
    """The keys that are whole numbers."""
    for key in _keys(group):
        if isinstance(key, exp.Literal) and key.is_int and int(key.name) < 2**31:
            yield key, int(key.name)


def _keys(group: exp.Group) -> Iterator[Tree]:
    """The keys, in lists of keys too."""
    todo: list[Tree] = list(reversed(group.expressions))
    while todo:
        key = todo.pop()
        if isinstance(key, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            todo += reversed(key.expressions)
        elif isinstance(key, exp.Paren):
            todo.append(key.this)
        else:
            yield key


def _may_have_any_name(item: Tree) -> bool:
    """Names that Spark makes up are expressions, but for NULL and the column of a CAST."""
    return isinstance(item, (exp.Null, exp.Boolean, exp.Cast, exp.Column, exp.Paren, exp.Dot))

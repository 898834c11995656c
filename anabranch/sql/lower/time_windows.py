"""Windows of time: window(ts, '10 minutes', '5 minutes'), session_window(ts, '5 minutes').

Times are counted in microseconds, so that this is whole numbers only:

last start       s = t − (t − offset) mod slide
windows of t     [s − i·slide, s − i·slide + length)  for i = 0, 1, … as long as t lies in them
sessions         t begins one where no earlier time of its group is within the gap

As in Spark a row without a time is in no window, and a row in several windows is several rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from anabranch.plan.exprs import (
    Expr,
    Tree,
    binary,
    call,
    cast,
    column,
    is_not_null,
    literal,
    when,
)
from anabranch.plan.nodes import Filter, Generate, Item, Node, Project, Window, same_columns
from anabranch.sql.analyze import functions
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.relation import Place, Stop
from anabranch.sql.lower.resolve import Resolver, resolved

_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order")
_WINDOW_TIME = frozenset({"window_time"})
_MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_PART = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s*([a-z]+?)s?(?=\s|$)", re.IGNORECASE)


def microseconds(tree: Tree) -> int | None:
    """The length that a literal such as '1 hour 30 minutes' means; None if it is something else."""
    negative = isinstance(tree, exp.Neg)
    tree = tree.this if negative else tree
    if not isinstance(tree, exp.Literal):
        return None
    if not tree.is_string:
        return (-int(tree.name) if negative else int(tree.name)) if tree.is_int else None
    text = re.sub(r"^\s*interval\s+", "", tree.name, flags=re.IGNORECASE).strip()
    total, at = Decimal(0), 0
    while part := _PART.match(text, at):
        if part[2].lower() not in _MICROSECONDS:
            return None
        total += Decimal(part[1].replace(" ", "")) * _MICROSECONDS[part[2].lower()]
        at = part.end()
    return int(total) if at == len(text) and at else None


@dataclass(frozen=True)
class Session:
    """A session window that waits for the groups it is cut in: `name` is the column to be made."""

    name: str
    moment: str
    gap: int
    kind: str
    tree: Tree

    def misplaced(self, place: Place) -> Stop:
        return _stop(self.tree, place)


def _stop(tree: Tree, place: Place) -> Stop:
    return Stop(place.source.obstacle("TIME_WINDOW", tree, what=tree.name.lower()))


@dataclass(frozen=True)
class Moments:
    """Times of one type as microseconds, and back; those without a zone stay without one."""

    kind: str

    def number(self, expr: Expr) -> Expr:
        if self.kind != "timestamp_ntz":
            return call("UNIX_MICROS", cast(expr, "timestamp"))
        utc = call("CONCAT", cast(expr, "string"), Expr("'Z'"))
        return call("UNIX_MICROS", cast(utc, "timestamp"))

    def time(self, number: Expr) -> Expr:
        if self.kind != "timestamp_ntz":
            return call("TIMESTAMP_MICROS", number)
        seconds = binary(exp.Div, cast(number, "decimal(20, 0)"), literal(1_000_000))
        since = call(
            "MAKE_DT_INTERVAL", *(literal(0) for _ in range(3)), cast(seconds, "decimal(18, 6)")
        )
        return binary(exp.Add, cast(Expr("'1970-01-01'"), "timestamp_ntz"), since)

    def window(self, start: Expr, end: Expr) -> Expr:
        return call(
            "NAMED_STRUCT", Expr("'start'"), self.time(start), Expr("'end'"), self.time(end)
        )


@dataclass
class TimeWindows:
    """The windows of time of one SELECT, as columns of its rows."""

    lowering: Lowering
    resolver: Resolver
    place: Place

    def stop(self, tree: Tree) -> Stop:
        return _stop(tree, self.place)

    def applied(self, tree: exp.Select, node: Node) -> tuple[exp.Select, Node, Session | None]:
        """The rows in their windows, and the query with columns in place of the calls."""
        tree = _replaced(tree, _WINDOW_TIME, lambda each: self._of_input(each, node))
        found = list(_calls(tree, functions.TIME_WINDOWS))
        session = None
        if found:
            first = found[0]
            if other := [each for each in found if self._meaning(each) != self._meaning(first)]:
                raise self.stop(other[0])
            name = self.lowering.fresh("_ab_tw")
            if first.name.lower() == "session_window":
                node, session = self._session(first, name, node)
            else:
                node = self._windowed(first, name, node, once=in_where(tree))
            tree = _replaced(tree, functions.TIME_WINDOWS, lambda _: resolved(name))
            self.resolver.aliases.setdefault(first.name.lower(), []).append(resolved(name))
        rows = node if session is None else _with_session(node, session)
        return (
            _replaced(tree, _WINDOW_TIME, lambda each: self._last_moment(each, rows)),
            node,
            session,
        )

    def _meaning(self, tree: Tree) -> tuple[str, str, Sequence[int | None]]:
        """Equal for calls that are the same window; Spark takes only one in a SELECT."""
        moment, *lengths = tree.expressions
        time = Expr.of(self.resolver.resolve(moment.copy())).text
        return tree.name.lower(), time, [microseconds(each) for each in lengths]

    def _of_input(self, tree: Tree, node: Node) -> Tree:
        """window_time(w) where w is a column of FROM; else it may be the window of this SELECT."""
        (window,) = tree.expressions
        known = isinstance(window, exp.Column) and self.resolver.scope.find(
            [part.name for part in window.parts]
        )
        return self._last_moment(tree, node) if known else tree

    def _last_moment(self, tree: Tree, node: Node) -> Tree:
        """window_time(w): the last moment that lies in w."""
        (window,) = tree.expressions
        return self._moment(self.resolver.resolve(window.copy()), node)[0].tree.copy()

    def _moment(self, tree: Tree, node: Node) -> tuple[Expr, Moments]:
        """The time that is meant; that of a window is its last one."""
        expr = Expr.of(tree)
        (kind,) = self.lowering.types(node, [expr])
        if not kind.lower().startswith("struct"):
            return expr, Moments(kind.lower())
        end = Expr.of(exp.Dot(this=tree.copy(), expression=exp.to_identifier("end")))
        moments = Moments(self.lowering.types(node, [end])[0].lower())
        return moments.time(binary(exp.Sub, moments.number(end), literal(1))), moments

    def _counted(self, tree: Tree, node: Node) -> tuple[Node, str, Moments]:
        """The rows that have a time, with it as a number."""
        expr, moments = self._moment(self.resolver.resolve(tree.expressions[0].copy()), node)
        name = self.lowering.fresh("_ab_t")
        counted = Project(node, (*same_columns(node), Item(name, moments.number(expr))))
        return Filter(counted, is_not_null(column(name))), name, moments

    def _windowed(self, tree: Tree, name: str, node: Node, *, once: bool) -> Node:
        """`once`: the windows are asked for where a row must not become several."""
        lengths = [microseconds(each) for each in tree.expressions[1:]]
        known = [each for each in lengths if each is not None]
        if not 1 <= len(known) == len(lengths) <= 3:
            raise self.stop(tree)
        length, slide, offset = (*known, *(known[0], 0)[len(known) - 1 :])
        if once and slide < length:
            raise self.stop(tree)
        around, (node, moment, moments) = same_columns(node), self._counted(tree, node)
        start = self.lowering.fresh("_ab_t")
        since = binary(exp.Sub, column(moment), literal(offset))
        last = binary(exp.Sub, column(moment), call("PMOD", since, literal(slide)))
        node = Project(node, (*same_columns(node), Item(start, last)))
        if slide < length:
            first = binary(exp.Sub, column(start), literal((length - 1) // slide * slide))
            starts = call("SEQUENCE", column(start), first, cast(literal(-slide), "bigint"))
            start = self.lowering.fresh("_ab_t")
            node = Generate(node, call("EXPLODE", starts), (start,))
            end = binary(exp.Add, column(start), literal(length))
            node = Filter(node, binary(exp.LT, column(moment), end))
        window = moments.window(column(start), binary(exp.Add, column(start), literal(length)))
        return Project(node, (*around, Item(name, window)))

    def _session(self, tree: Tree, name: str, node: Node) -> tuple[Node, Session]:
        gap = microseconds(tree.expressions[1]) if len(tree.expressions) == 2 else None
        if gap is None or gap <= 0:
            raise self.stop(tree)
        node, moment, moments = self._counted(tree, node)
        return node, Session(name, moment, gap, moments.kind, tree)


def _with_session(node: Node, session: Session) -> Node:
    """The rows with a column of the session's type."""
    now = column(session.moment)
    window = Moments(session.kind).window(now, now)
    return Project(node, (*same_columns(node), Item(session.name, window)))


def in_sessions(lowering: Lowering, session: Session, node: Node, groups: list[Expr]) -> Node:
    """The rows with the session that they are in, among those of the same groups."""
    before, begins, number = (lowering.fresh("_ab_s") for _ in range(3))
    first, last = (lowering.fresh("_ab_s") for _ in range(2))
    moment, gap = column(session.moment), literal(session.gap)
    columns = same_columns(node)

    def windows(node: Node, by: list[Expr], *calls: Item) -> Node:
        return Window(node, tuple(by), calls, tuple(lowering.types(node, by) if by else ()))

    earlier = exp.WindowSpec(
        kind="RANGE",
        start="UNBOUNDED",
        start_side="PRECEDING",
        end=exp.Literal.number(1),
        end_side="PRECEDING",
    )
    node = windows(node, groups, Item(before, _over("MAX", moment, groups, moment, earlier)))
    late = binary(exp.GT, moment, binary(exp.Add, column(before), gap))
    begin = when(call("COALESCE", late, Expr("TRUE")), literal(1), literal(0))
    node = Project(node, (*columns, Item(begins, begin)))
    node = windows(node, groups, Item(number, _over("SUM", column(begins), groups, moment)))
    within = [*groups, column(number)]
    node = windows(
        node,
        within,
        Item(first, _over("MIN", moment, within)),
        Item(last, _over("MAX", moment, within)),
    )
    end = binary(exp.Add, column(last), gap)
    window = Moments(session.kind).window(column(first), end)
    return Project(node, (*columns, Item(session.name, window)))


def _over(
    function: str,
    arg: Expr,
    groups: list[Expr],
    order: Expr | None = None,
    spec: Tree | None = None,
) -> Expr:
    window = exp.Window(
        this=call(function, arg).tree.copy(),
        partition_by=[each.tree.copy() for each in groups],
        spec=spec,
    )
    if order is not None:
        by = exp.Ordered(this=order.tree.copy(), nulls_first=True)
        window.set("order", exp.Order(expressions=[by]))
    return Expr.of(window)


def time_windows(tree: exp.Select) -> list[str]:
    """The names that the windows of a SELECT have in it."""
    return list(dict.fromkeys(each.name.lower() for each in _calls(tree, functions.TIME_WINDOWS)))


def in_where(tree: exp.Select) -> bool:
    return any(True for _ in _calls(tree, functions.TIME_WINDOWS, ("where",)))


def _calls(
    tree: exp.Select, names: frozenset[str], clauses: Sequence[str] = _CLAUSES
) -> Iterator[Tree]:
    """The calls of one SELECT; those of a query inside are its own."""
    for clause in clauses:
        given = tree.args.get(clause)
        for root in given if isinstance(given, list) else [given]:
            if isinstance(root, exp.Expr):
                for part in root.walk(prune=lambda node: isinstance(node, exp.Query)):
                    if isinstance(part, exp.Anonymous) and part.name.lower() in names:
                        yield part


def _replaced(tree: exp.Select, names: frozenset[str], value: Callable[[Tree], Tree]) -> exp.Select:
    """The SELECT with something else in place of its calls; an item keeps the name it had."""
    if not any(True for _ in _calls(tree, names)):
        return tree
    tree = tree.copy()
    for each in list(_calls(tree, names)):
        made = value(each)
        if made is each:
            continue
        if each.parent is tree and each.arg_key == "expressions" and isinstance(made, exp.Column):
            made = exp.alias_(made, each.name.lower(), quoted=True)
        each.replace(made)
    return tree

"""Time windows: window(ts, '10 minutes', '5 minutes'), session_window(ts, '5 minutes').

Times are counted in microseconds, so that all arithmetic is on integers:

last start       s = t − (t − offset) mod slide
windows of t     [s − i·slide, s − i·slide + length)  for i = 0, 1, … as long as they contain t
sessions         t begins one if no earlier time of its group is within the gap

As in Spark, a row without a time is in no window, and a row in several windows becomes several rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from anabranch.sql.analyze.clauses import calls_in
from anabranch.sql.analyze.resolve import Resolver, resolved, resolved_expression
from anabranch.sql.lower.correlation import Lowering
from anabranch.sql.lower.relation import Place
from anabranch.sql.obstacles import Stop

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
    """The length of a literal such as '1 hour 30 minutes'; None for anything else."""
    negative = isinstance(tree, exp.Neg)
    tree = tree.this if negative else tree
    if not isinstance(tree, exp.Literal):
        return None
    if not tree.is_string:
        return (-int(tree.name) if negative else int(tree.name)) if tree.is_int else None
    text = re.sub(r"^\s*interval\s+", "", tree.name, flags=re.IGNORECASE).strip()
    total, position = Decimal(0), 0
    while part := _PART.match(text, position):
        if part[2].lower() not in _MICROSECONDS:
            return None
        total += Decimal(part[1].replace(" ", "")) * _MICROSECONDS[part[2].lower()]
        position = part.end()
    return int(total) if position == len(text) and position else None


@dataclass(frozen=True)
class Session:
    """A session window whose groups are not known yet: `name` is the column that it will become."""

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
    """Conversion of times to microseconds and back; those without a time zone stay without one."""

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
    """The time windows of one SELECT, as columns of its rows."""

    lowering: Lowering
    resolver: Resolver
    place: Place

    def stop(self, tree: Tree) -> Stop:
        return _stop(tree, self.place)

    def applied(self, tree: exp.Select, node: Node) -> tuple[exp.Select, Node, Session | None]:
        """The query with columns instead of the calls, and the rows with these columns."""
        tree = _replaced(tree, _WINDOW_TIME, lambda window_call: self._of_input(window_call, node))
        window_calls = list(calls_in(tree, functions.TIME_WINDOWS))
        session = None
        if window_calls:
            first = window_calls[0]
            if others := [
                window_call
                for window_call in window_calls
                if self._meaning(window_call) != self._meaning(first)
            ]:
                raise self.stop(others[0])
            name = self.lowering.fresh("_ab_tw")
            if first.name.lower() == "session_window":
                node, session = self._session(first, name, node)
            else:
                node = self._windowed(first, name, node, once=in_where(tree))
            tree = _replaced(tree, functions.TIME_WINDOWS, lambda _: resolved(name))
            self.resolver.aliases.setdefault(first.name.lower(), []).append(resolved(name))
        rows = node if session is None else _with_session(node, session)
        return (
            _replaced(tree, _WINDOW_TIME, lambda window_call: self._last_moment(window_call, rows)),
            node,
            session,
        )

    def _meaning(self, tree: Tree) -> tuple[str, str, Sequence[int | None]]:
        """Equal for calls of the same window; Spark allows only one in a SELECT."""
        moment, *lengths = tree.expressions
        time = Expr.of(self.resolver.resolve(moment.copy())).text
        return tree.name.lower(), time, [microseconds(length) for length in lengths]

    def _of_input(self, tree: Tree, node: Node) -> Tree:
        """window_time(w) if w is a column of FROM; otherwise w may be the window of this SELECT."""
        (window,) = tree.expressions
        is_input = isinstance(window, exp.Column) and self.resolver.of_from(window)
        return self._last_moment(tree, node) if is_input else tree

    def _last_moment(self, tree: Tree, node: Node) -> Tree:
        """window_time(w): the last moment in w."""
        (window,) = tree.expressions
        moment, _ = self._moment(self.resolver.resolve(window.copy()), node)
        return resolved_expression(moment)

    def _moment(self, tree: Tree, node: Node) -> tuple[Expr, Moments]:
        """The time of an expression; that of a window is its last moment."""
        expr = Expr.of(tree)
        (kind,) = self.lowering.types(node, [expr])
        if not kind.lower().startswith("struct"):
            return expr, Moments(kind.lower())
        end = Expr.of(exp.Dot(this=tree.copy(), expression=exp.to_identifier("end")))
        moments = Moments(self.lowering.types(node, [end])[0].lower())
        return moments.time(binary(exp.Sub, moments.number(end), literal(1))), moments

    def _counted(self, tree: Tree, node: Node) -> tuple[Node, str, Moments]:
        """The rows with a time, and the time as a number."""
        expr, moments = self._moment(self.resolver.resolve(tree.expressions[0].copy()), node)
        name = self.lowering.fresh("_ab_t")
        counted = Project(node, (*same_columns(node), Item(name, moments.number(expr))))
        return Filter(counted, is_not_null(column(name))), name, moments

    def _windowed(self, tree: Tree, name: str, node: Node, *, once: bool) -> Node:
        """`once`: the windows are in WHERE, where a row must not become several."""
        lengths = [microseconds(arg) for arg in tree.expressions[1:]]
        constant = [length for length in lengths if length is not None]
        if not 1 <= len(constant) == len(lengths) <= 3:
            raise self.stop(tree)
        length, slide, offset = (*constant, *(constant[0], 0)[len(constant) - 1 :])
        if once and slide < length:
            raise self.stop(tree)
        passed, (node, moment, moments) = same_columns(node), self._counted(tree, node)
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
        return Project(node, (*passed, Item(name, window)))

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
    """The rows with their session, computed per group."""
    previous, is_start, number = (lowering.fresh("_ab_s") for _ in range(3))
    first, last = (lowering.fresh("_ab_s") for _ in range(2))
    moment, gap = column(session.moment), literal(session.gap)
    columns = same_columns(node)

    def windows(node: Node, by: list[Expr], *calls: Item) -> Node:
        return Window(node, tuple(by), calls, tuple(lowering.types(node, by) if by else ()))

    frame = exp.WindowSpec(
        kind="RANGE",
        start="UNBOUNDED",
        start_side="PRECEDING",
        end=exp.Literal.number(1),
        end_side="PRECEDING",
    )
    node = windows(node, groups, Item(previous, _over("MAX", moment, groups, moment, frame)))
    after_gap = binary(exp.GT, moment, binary(exp.Add, column(previous), gap))
    begin = when(call("COALESCE", after_gap, Expr("TRUE")), literal(1), literal(0))
    node = Project(node, (*columns, Item(is_start, begin)))
    node = windows(node, groups, Item(number, _over("SUM", column(is_start), groups, moment)))
    session_keys = [*groups, column(number)]
    node = windows(
        node,
        session_keys,
        Item(first, _over("MIN", moment, session_keys)),
        Item(last, _over("MAX", moment, session_keys)),
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
        partition_by=[key.tree.copy() for key in groups],
        spec=spec,
    )
    if order is not None:
        sort_key = exp.Ordered(this=order.tree.copy(), nulls_first=True)
        window.set("order", exp.Order(expressions=[sort_key]))
    return Expr.of(window)


def in_where(tree: exp.Select) -> bool:
    return any(True for _ in calls_in(tree, functions.TIME_WINDOWS, ("where",)))


def _replaced(tree: exp.Select, names: frozenset[str], value: Callable[[Tree], Tree]) -> exp.Select:
    """The SELECT with its calls replaced; an item keeps its name."""
    if not any(True for _ in calls_in(tree, names)):
        return tree
    tree = tree.copy()
    for old in list(calls_in(tree, names)):
        new = value(old)
        if new is old:
            continue
        if old.parent is tree and old.arg_key == "expressions" and isinstance(new, exp.Column):
            new = exp.alias_(new, old.name.lower(), quoted=True)
        old.replace(new)
    return tree

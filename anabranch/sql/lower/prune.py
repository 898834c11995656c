"""Predicates that file statistics can evaluate.

`bounds(c)` is implied by `c`: every row that satisfies the condition satisfies every bound.  So a
file without a row inside the bounds holds no row that is needed.  A conjunct that is not simply
`column op literal`, of types that certainly compare alike in Spark and in the statistics, has none.

Excluded for that reason: floating point (NaN is greater than everything and not in the statistics),
CHAR (compared with padding), strings with escapes or a collation (`s = 'a' COLLATE UTF8_LCASE`), and
values outside the range of the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timezone
from decimal import Decimal, InvalidOperation, localcontext

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.model import Bound, Column, Columns
from anabranch.sql.text.parse import parse_expression
from anabranch.types import Type

_INT_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?\Z", re.ASCII)
_OPS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NullSafeEQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def bounds(
    condition: str | None,
    columns: Columns,
    alias: str | None,
    zone: timezone | None = timezone.utc,
) -> tuple[Bound, ...]:
    """The bounds that the condition puts on single columns of one table.

    Only unqualified columns, or those qualified by `alias`, count.  `zone` is the session's time zone
    (a fixed offset) for timestamps without one; if it is None, they have no bound.
    """
    if condition is None:
        return ()
    try:
        tree = parse_expression(condition)
    except UserError:
        return ()
    return tree_bounds(tree, condition, columns, alias, zone)


def tree_bounds(
    tree: exp.Expr,
    text: str,
    columns: Columns,
    alias: str | None,
    zone: timezone | None = timezone.utc,
) -> tuple[Bound, ...]:
    """The same for a parsed condition; `text` is its source text."""
    return _Bounds(text, columns, alias, zone).bounds(tree)


def equal_columns(condition: str, left: str, right: str) -> dict[str, str]:
    """Columns of `left`, in lower case, that the condition equates with columns of `right`."""
    try:
        tree = parse_expression(condition)
    except UserError:
        return {}
    equated: dict[str, str] = {}
    for node in _conjuncts(tree):
        sides = (node.this, node.expression) if type(node) is exp.EQ else ()
        if not all(type(side) is exp.Column and len(side.parts) == 2 for side in sides):
            continue
        named = {side.table.lower(): side.name for side in sides}
        if named.keys() == {left.lower(), right.lower()}:
            equated[named[left.lower()].lower()] = named[right.lower()]
    return equated


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.And):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Paren):
            stack.append(node.this)
        else:
            yield node


class _Bounds:
    def __init__(
        self, condition: str, columns: Columns, alias: str | None, zone: timezone | None
    ) -> None:
        self.columns = {column.name.lower(): column for column in columns}
        self.alias = alias
        self.zone = zone
        # sqlglot resolves some escapes unlike Spark, and Spark substitutes ${variables}
        self.plain_strings = "\\" not in condition and "${" not in condition

    def bounds(self, tree: exp.Expr) -> tuple[Bound, ...]:
        return tuple(bound for node in _conjuncts(tree) for bound in self._conjunct(node))

    def _conjunct(self, node: exp.Expr) -> Iterator[Bound]:
        if type(node) in _OPS:
            yield from self._comparison(node, _OPS[type(node)])
        elif isinstance(node, exp.In):
            yield from self._in(node)
        elif isinstance(node, exp.Between):
            # a collation of one bound may apply to the other as well
            if not node.args.get("symmetric") and not node.find(exp.Collate, exp.Anonymous):
                yield from self._bound(node.this, ">=", node.args["low"])
                yield from self._bound(node.this, "<=", node.args["high"])
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            yield from self._is_null(node.this)
        else:
            yield from self._truth(node)

    def _comparison(self, node: exp.Expr, op: str) -> Iterator[Bound]:
        left, right = node.this, node.expression
        if isinstance(node, exp.NullSafeEQ) and isinstance(right, exp.Null):
            yield from self._is_null(left)
        elif self._column(left):
            yield from self._bound(left, op, right)
        else:
            yield from self._bound(right, _FLIPPED[op], left)

    def _bound(self, left: exp.Expr, op: str, right: exp.Expr) -> Iterator[Bound]:
        column = self._column(left)
        value = self._value(right, column) if column else None
        if column and value is not None:
            yield Bound(column.name, op, (value,))

    def _in(self, node: exp.In) -> Iterator[Bound]:
        column = self._column(node.this)
        if not column or node.args.get("query") or node.args.get("unnest"):
            return
        values = [self._value(item, column) for item in node.expressions]
        if values and None not in values:
            yield Bound(column.name, "in", tuple(values))

    def _is_null(self, node: exp.Expr) -> Iterator[Bound]:
        if column := self._column(node):
            yield Bound(column.name, "null")

    def _truth(self, node: exp.Expr) -> Iterator[Bound]:
        """A boolean column alone, or NOT of it."""
        negated = isinstance(node, exp.Not)
        column = self._column(node.this if negated else node)
        if column and column.type == "boolean":
            yield Bound(column.name, "=", (not negated,))

    def _column(self, node: exp.Expr) -> Column | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        qualifier = [part.name.lower() for part in node.parts[:-1]]
        own = [self.alias.lower()] if self.alias else None
        return self.columns.get(node.name.lower()) if qualifier in ([], own) else None

    def _value(self, node: exp.Expr, column: Column) -> object | None:
        if isinstance(node, exp.Paren):
            return self._value(node.this, column)
        type_ = Type.parse(column.type)
        if type_.name == "boolean":
            return node.this if isinstance(node, exp.Boolean) else None
        if type_.is_integer or type_.is_decimal:
            return _number(node, type_)
        if type_.collation is None and type_.name in ("string", "varchar"):
            return self._string(node)
        if type_.name == "date":
            return _date(_text(node, exp.DType.DATE))
        return self._timestamp(node, type_.name)

    def _string(self, node: exp.Expr) -> str | None:
        return _text(node) if self.plain_strings else None

    def _timestamp(self, node: exp.Expr, type_: str) -> datetime | None:
        if type_ == "timestamp_ntz":
            return _timestamp(_text(node, exp.DType.TIMESTAMPNTZ))
        if type_ != "timestamp" or self.zone is None:
            return None
        timestamp = _timestamp(_text(node, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ))
        if timestamp is None and (day := _date(_text(node, exp.DType.DATE))):
            timestamp = datetime.combine(day, time())  # Spark uses midnight
        return timestamp.replace(tzinfo=self.zone) if timestamp else None


def _text(node: exp.Expr, *types: exp.DType) -> str | None:
    """The text of 'x', or of a typed literal such as DATE 'x' if its type is among `types`."""
    if type(node) is exp.Cast and node.to.this in types and not node.args.get("format"):
        node = node.this
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _number(node: exp.Expr, type_: Type) -> int | Decimal | None:
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", literal.this, re.ASCII):
        return None  # 1e3 is a DOUBLE
    value = -Decimal(literal.this) if negative else Decimal(literal.this)
    if type_.is_integer:
        limit = 2 ** (_INT_BITS[type_.name] - 1)
        fits = "." not in literal.this and -limit <= value < limit
        return int(value) if fits else None
    return _at_scale(value, type_)


def _at_scale(value: Decimal, type_: Type) -> Decimal | None:
    """The value with exactly the column's scale, when it fits without rounding."""
    if type_.digits is None:
        return None
    precision, scale = type_.digits
    with localcontext() as context:
        context.prec = precision
        try:
            scaled = value.quantize(Decimal(1).scaleb(-scale))
        except InvalidOperation:
            return None
    return scaled if scaled == value else None


def _date(text: str | None) -> date | None:
    if text is None or not _DATE.match(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _timestamp(text: str | None) -> datetime | None:
    if text is None or not _TIMESTAMP.match(text):
        return None
    head, dot, fraction = text.partition(".")
    try:
        return datetime.fromisoformat(head + (dot and "." + fraction.ljust(6, "0")))
    except ValueError:
        return None

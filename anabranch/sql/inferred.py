"""Types of expressions that can be told without Spark; None where only Spark can say.

Only rules that hold whatever the data and the settings are: a type said here is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Tree
from anabranch.sql import functions
from anabranch.sql.column_types import column_type
from anabranch.types import FLOATS, INTEGERS, MAX_PRECISION, TIMES, Type

ColumnType = Callable[[Sequence[str]], str | None]

_PREDICATES = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Xor, exp.Exists)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)

RESULT = {
    **dict.fromkeys(("count", "count_if", "approx_count_distinct", "regr_count"), "bigint"),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), "int"),
    **dict.fromkeys(
        "year month day dayofmonth dayofweek dayofyear hour minute quarter weekofyear weekday length "
        "char_length character_length datediff date_diff instr levenshtein ascii".split(),
        "int",
    ),
    **dict.fromkeys(
        "upper lower ucase lcase initcap trim ltrim rtrim btrim substring_index replace translate "
        "regexp_replace regexp_extract concat_ws date_format md5 sha1 sha2 base64 hex to_json "
        "format_string printf repeat".split(),
        "string",
    ),
    **dict.fromkeys(("to_date", "current_date", "curdate", "last_day", "next_day", "date_add",
                     "date_sub", "add_months", "make_date"), "date"),
    **dict.fromkeys(("current_timestamp", "now", "date_trunc"), "timestamp"),
    **dict.fromkeys(("sqrt", "ln", "exp", "log10", "log2", "pow", "power", "sin", "cos", "tan",
                     "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp",
                     "corr", "percent_rank", "cume_dist"), "double"),
    **dict.fromkeys(("contains", "startswith", "endswith", "isnull", "isnotnull", "bool_and",
                     "bool_or", "every", "some", "any", "array_contains", "rlike"), "boolean"),
}  # fmt: skip
SAME = ("min", "max", "first", "last", "first_value", "last_value", "any_value", "lag", "lead",
        "nth_value", "mode")  # fmt: skip
ALIKE = ("coalesce", "nvl", "ifnull", "greatest", "least")


def inferred(node: Tree, column: ColumnType) -> str | None:
    """The type of an expression, as Spark writes it; `void` for a bare NULL."""

    def of(part: Tree | None) -> str | None:
        return inferred(part, column) if part is not None else None

    match node:
        case exp.Column():
            return column([part.name.lower() for part in node.parts])
        case exp.Paren() | exp.Alias() | exp.Filter() | exp.Window() | exp.Distinct() if node.this:
            return of(node.this)
        case exp.Cast():
            return _written(node.to)
        case exp.Literal():
            return "string" if node.is_string else _number(node.name)
        case exp.Null():
            return "void"
        case exp.Boolean():
            return "boolean"
        case exp.Neg():
            return of(node.this)
        case exp.CurrentDate():
            return "date"
        case exp.CurrentTimestamp():
            return "timestamp"
        case exp.Div():
            both = of(node.this), of(node.expression)
            return "double" if all(t in (*INTEGERS, *FLOATS) for t in both) else None
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node, of(node.this), of(node.expression))
        case exp.DPipe():
            both = of(node.this), of(node.expression)
            return "string" if all(t == "string" for t in both) else None
        case exp.Case():
            return _common([*(of(each.args.get("true")) for each in node.args["ifs"]),
                            of(node.args.get("default")) or "void"])  # fmt: skip
        case exp.If():
            return _common([of(node.args.get("true")), of(node.args.get("false")) or "void"])
        case exp.Anonymous():
            return _call(node.name.lower(), [of(each) for each in node.expressions])
    return "boolean" if isinstance(node, _PREDICATES) else None


def _written(to: Tree) -> str | None:
    try:
        return column_type(to.sql("spark"))
    except UserError:
        return None


def _number(text: str) -> str | None:
    if text.isdecimal():
        value = int(text)
        return "int" if value < 2**31 else "bigint" if value < 2**63 else None
    whole, dot, fraction = text.partition(".")
    if dot and (whole + fraction).isdecimal():
        precision = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
        return f"decimal({precision},{len(fraction)})" if precision <= MAX_PRECISION else None
    return None


def _common(types: Sequence[str | None]) -> str | None:
    """The one type that all have; NULL fits every type."""
    found = {each for each in types if each != "void"}
    return found.pop() if len(found) == 1 else None


def _call(name: str, types: list[str | None]) -> str | None:
    if name in functions.WITH_UNIT and len(types) == 3:
        return None
    if name in RESULT:
        return RESULT[name]
    if name in SAME:
        return types[0] if types else None
    if name in ALIKE:
        return _common(types)
    first = types[0] if types else None
    if name in ("sum", "avg", "mean") and first is not None:
        return _total(first) if name == "sum" else _average(first)
    if name == "concat" and types and all(each == "string" for each in types):
        return "string"
    return None


def _total(of: str) -> str | None:
    if of in INTEGERS:
        return "bigint"
    if of in FLOATS:
        return "double"
    if found := decimal(of):
        return f"decimal({min(MAX_PRECISION, found[0] + 10)},{found[1]})"
    return None


def _average(of: str) -> str | None:
    if of in (*INTEGERS, *FLOATS):
        return "double"
    found = decimal(of)
    if found and found[0] + 4 <= MAX_PRECISION:
        return f"decimal({found[0] + 4},{found[1] + 4})"
    return None


def decimal(text: str | None) -> tuple[int, int] | None:
    type_ = Type.parse(text) if text else None
    return type_.digits if type_ is not None and type_.is_decimal else None


def _arithmetic(node: Tree, left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return None
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.__getitem__)
    numbers = [each in INTEGERS or each in FLOATS or decimal(each) for each in (left, right)]
    if not all(numbers):
        return None
    if left in FLOATS or right in FLOATS:
        both_float = left == right == "float"
        return None if both_float or "float" in (left, right) else "double"
    one, two = _exact(node.this, left), _exact(node.expression, right)
    return _decimal_result(node, one, two) if one and two else None


def _exact(node: Tree, type_: str) -> tuple[int, int] | None:
    """An operand as a decimal; a whole number that is written out has as many digits as it has."""
    if isinstance(node, exp.Literal) and type_ in INTEGERS:
        return len(node.name.lstrip("0")) or 1, 0
    return Type.parse(type_).as_decimal


def _decimal_result(node: Tree, one: tuple[int, int], two: tuple[int, int]) -> str | None:
    (p1, s1), (p2, s2) = one, two
    if isinstance(node, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else None


def mismatch(node: Tree, type_of: Callable[[Tree], str | None]) -> tuple[str, str] | None:
    """A comparison that Spark takes in no mode: a date or time with a number."""
    if not isinstance(node, _COMPARISONS):
        return None
    left, right = type_of(node.this), type_of(node.expression)
    kinds = {_kind(left), _kind(right)}
    if kinds != {"time", "number"}:
        return None
    return f"{left} cannot be compared with {right}", "CAST one of them"


def _kind(type_: str | None) -> str | None:
    if type_ in TIMES:
        return "time"
    return "number" if type_ in (*INTEGERS, *FLOATS) or decimal(type_) else None

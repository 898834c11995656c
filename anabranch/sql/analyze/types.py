"""Types of expressions that can be told without Spark; None where only Spark can say.

Only rules that hold whatever the data and the settings are: a type said here is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from anabranch.errors import AnabranchError, UserError
from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import functions
from anabranch.sql.statements.column_types import column_type
from anabranch.types import INTEGERS, MAX_PRECISION, Type

ColumnType = Callable[[exp.Column], "Type | None"]
VOID = Type("void")  # of a bare NULL
BOOLEAN, STRING, DOUBLE = Type("boolean"), Type("string"), Type("double")

_PREDICATES = (exp.Predicate, exp.And, exp.Or, exp.Not, exp.Xor, exp.Exists)
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)

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


def type_of(node: Tree | None, column: ColumnType) -> Type | None:
    """The type of an expression; `void` for a bare NULL."""

    def of(part: Tree | None) -> Type | None:
        return type_of(part, column)

    match node:
        case None:
            return None
        case exp.Column():
            return column(node)
        case exp.Paren() | exp.Alias() | exp.Filter() | exp.Window() | exp.Distinct() if node.this:
            return of(node.this)
        case exp.Cast():
            return written(node.to)
        case exp.Literal():
            return STRING if node.is_string else _number(node.name)
        case exp.Null():
            return VOID
        case exp.Boolean():
            return BOOLEAN
        case exp.Neg():
            return of(node.this)
        case exp.CurrentDate():
            return Type("date")
        case exp.CurrentTimestamp():
            return Type("timestamp")
        case exp.Div():
            both = of(node.this), of(node.expression)
            return DOUBLE if all(t and (t.is_integer or t.is_float) for t in both) else None
        case exp.Add() | exp.Sub() | exp.Mul():
            return _arithmetic(node, of(node.this), of(node.expression))
        case exp.DPipe():
            both = of(node.this), of(node.expression)
            return STRING if all(t == STRING for t in both) else None
        case exp.Case() | exp.If():
            return common([of(each) or _none(each) for each in branches(node)])
        case exp.Anonymous():
            return _call(node.name.lower(), [of(each) for each in node.expressions])
    return BOOLEAN if isinstance(node, _PREDICATES) else None


def type_or_none(text: str) -> Type | None:
    try:
        return Type.parse(text)
    except AnabranchError:
        return None


def branches(node: Tree) -> Iterator[Tree | None]:
    """The values that a CASE may have; None: NULL, since there is no ELSE."""
    if isinstance(node, exp.Case):
        yield from (each.args.get("true") for each in node.args["ifs"])
        yield node.args.get("default")
    else:
        yield node.args.get("true")
        yield node.args.get("false")


def _none(branch: Tree | None) -> Type | None:
    return VOID if branch is None else None


def written(to: Tree) -> Type | None:
    """The type of a CAST, if a table can hold it."""
    try:
        return Type.parse(column_type(to.sql("spark")))
    except UserError:
        return None


def _number(text: str) -> Type | None:
    if text.isdecimal():
        value = int(text)
        return Type("int" if value < 2**31 else "bigint") if value < 2**63 else None
    whole, dot, fraction = text.partition(".")
    if dot and (whole + fraction).isdecimal():
        precision = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
        return Type("decimal", (precision, len(fraction))) if precision <= MAX_PRECISION else None
    return None


def common(types: Sequence[Type | None]) -> Type | None:
    """The one type that all have; NULL fits every type."""
    distinct = {each for each in types if each != VOID}
    return distinct.pop() if len(distinct) == 1 else None


def _call(name: str, types: list[Type | None]) -> Type | None:
    if name in functions.WITH_UNIT and len(types) == 3:
        return None
    if name in RESULT:
        return Type(RESULT[name])
    if name in SAME:
        return types[0] if types else None
    if name in ALIKE:
        return common(types)
    first = types[0] if types else None
    if name in ("sum", "avg", "mean") and first is not None:
        return _total(first) if name == "sum" else _average(first)
    if name == "concat" and types and all(each == STRING for each in types):
        return STRING
    return None


def _total(of: Type) -> Type | None:
    if of.is_integer:
        return Type("bigint")
    if of.is_float:
        return DOUBLE
    if of.is_decimal and of.digits:
        return Type.decimal(of.digits[0] + 10, of.digits[1])
    return None


def _average(of: Type) -> Type | None:
    if of.is_integer or of.is_float:
        return DOUBLE
    if of.is_decimal and of.digits and of.digits[0] + 4 <= MAX_PRECISION:
        return Type.decimal(of.digits[0] + 4, of.digits[1] + 4)
    return None


def _arithmetic(node: Tree, left: Type | None, right: Type | None) -> Type | None:
    if left is None or right is None:
        return None
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda each: INTEGERS[each.name])
    if not (left.is_number and right.is_number):
        return None
    if left.is_float or right.is_float:
        return None if "float" in (left.name, right.name) else DOUBLE
    one, two = _exact(node.this, left), _exact(node.expression, right)
    return _decimal_result(node, one, two) if one and two else None


def _exact(node: Tree, type_: Type) -> tuple[int, int] | None:
    """An operand as a decimal; a whole number that is written out has as many digits as it has."""
    if isinstance(node, exp.Literal) and type_.is_integer:
        return len(node.name.lstrip("0")) or 1, 0
    return type_.as_decimal


def _decimal_result(node: Tree, one: tuple[int, int], two: tuple[int, int]) -> Type | None:
    (p1, s1), (p2, s2) = one, two
    if isinstance(node, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    return Type("decimal", (precision, scale)) if precision <= MAX_PRECISION else None


def field_type(of: Type | None, names: Sequence[str]) -> Type | None:
    """The type of a field of a struct, of a field of that, and so on."""
    for name in names:
        if of is None or of.name != "struct":
            return None
        of = next((each.type for each in of.fields if each.name.lower() == name.lower()), None)
    return of


def lacks_field(of: Type | None, names: Sequence[str]) -> bool:
    """Whether there surely is no such field: the value is no struct, or one without it.

    >>> lacks_field(Type("int"), ["x"]), lacks_field(None, ["x"]), lacks_field(Type("map"), ["x"])
    (True, False, False)
    """
    for name in names:
        if of is None or of.name in ("array", "map", "variant"):
            return False
        fields = [each for each in of.fields if each.name.lower() == name.lower()]
        if not fields:
            return True
        of = fields[0].type
    return False

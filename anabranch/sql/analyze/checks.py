"""Types that do not fit: comparisons, conditions, branches and sides of a UNION.

Spark in ANSI mode reads a text as whatever it is compared with, and a number of one kind as one of
another; between these families it converts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from sqlglot import exp

from anabranch.plan.exprs import Tree, unwrapped
from anabranch.sql.analyze.types import ALIKE, BOOLEAN, COMPARISONS, VOID, branches
from anabranch.types import Type

TypeOf = Callable[["Tree | None"], "Type | None"]
Wrong = tuple[Tree, str, "str | None"]  # where, what, and a cure

_WITH_STRING = ("number", "time", "boolean", "binary")
_CAST = "CAST one of them"
_NO_CONDITION = ("time", "array", "map", "struct", "binary")  # HAVING casts all else


def family(type_: Type | None) -> str | None:
    """What a type is converted within; None where that is not known."""
    if type_ is None:
        return None
    if type_.is_number:
        return "number"
    if type_.is_time:
        return "time"
    return type_.name if type_.name in ("boolean", "string", "binary") or type_.is_nested else None


def apart(one: Type | None, two: Type | None) -> bool:
    """Whether there is surely no type that both can be converted to.

    >>> apart(Type("date"), Type("int")), apart(Type("string"), Type("int")), apart(None, BOOLEAN)
    (True, False, False)
    """
    left, right = family(one), family(two)
    if left is None or right is None or left == right:
        return False
    if "string" in (left, right):
        return (right if left == "string" else left) not in _WITH_STRING
    return True


def mismatches(node: Tree, type_of: TypeOf) -> Iterator[Wrong]:
    """What an operator or function cannot take."""
    match node:
        case _ if isinstance(node, COMPARISONS):
            yield from _compared(node, [node.this, node.expression], type_of)
        case exp.Between():
            for bound in ("low", "high"):
                yield from _compared(node, [node.this, node.args.get(bound)], type_of)
        case exp.In() if not node.args.get("query"):
            yield from _compared(node, [node.this, *node.expressions], type_of)
        case exp.And() | exp.Or():
            yield from _operands(node, [node.this, node.expression], type_of)
        case exp.Not():
            yield from _operands(node, [node.this], type_of)
        case exp.Case() | exp.If():
            yield from _conditions_of(node, type_of)
            if not isinstance(node.parent, exp.Case):
                yield from _alternatives(node, list(branches(node)), "CASE", type_of)
        case exp.Anonymous() if node.name.lower() in ALIKE:
            yield from _alternatives(node, node.expressions, node.name.upper(), type_of)


def _compared(node: Tree, sides: Sequence[Tree | None], type_of: TypeOf) -> Iterator[Wrong]:
    if any(isinstance(side, (exp.Any, exp.All)) for side in sides):
        return
    if types := _apart([type_of(side) for side in sides]):
        yield node, "{} cannot be compared with {}".format(*types), _CAST


def _alternatives(
    node: Tree, values: Sequence[Tree | None], what: str, type_of: TypeOf
) -> Iterator[Wrong]:
    if types := _apart([type_of(value) for value in values]):
        yield node, "{} cannot give {} and {}".format(what, *types), _CAST


def _apart(types: Sequence[Type | None]) -> tuple[Type, Type] | None:
    for one, two in combinations(dict.fromkeys(types), 2):  # a list may be long
        if apart(one, two):
            assert one is not None and two is not None
            return one, two
    return None


def _operands(node: Tree, sides: Sequence[Tree], type_of: TypeOf) -> Iterator[Wrong]:
    for side in sides:
        if family(type_ := type_of(side)) not in (None, "boolean", "string"):
            yield side, f"{type(node).__name__.upper()} takes conditions, not {type_}", None


def _conditions_of(node: Tree, type_of: TypeOf) -> Iterator[Wrong]:
    """CASE WHEN condition THEN …; CASE value WHEN other THEN … compares."""
    cases = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return
    for case in cases:
        if isinstance(node, exp.Case) and node.this:
            yield from _compared(case.this, [node.this, case.this], type_of)
        elif family(type_ := type_of(case.this)) not in (None, "boolean"):
            yield case.this, f"WHEN takes a condition, not {type_}", None


def not_a_condition(clause: str, tree: Tree, type_of: TypeOf) -> Iterator[Wrong]:
    """WHERE, ON and FILTER take a condition; HAVING takes what can be cast to one."""
    tree = unwrapped(tree)
    type_ = type_of(tree)
    if type_ is None or type_ == BOOLEAN:
        return
    wrong = family(type_) is not None or type_ == VOID
    if clause == "HAVING":
        wrong = family(type_) in _NO_CONDITION
    if wrong:
        yield tree, f"{clause} takes a condition, not {type_}", "compare it with something"

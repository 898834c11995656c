"""Expressions of a plan: canonical Spark text, with the sqlglot tree behind it.

Two expressions are the same when their texts are.  A column of a plan is ONE quoted identifier,
`` `o.amount` ``; what follows a dot after it is a field of a struct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from sqlglot import TokenType, exp, parse_one
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokenizer_core import Token

from anabranch.cache import cached
from anabranch.plan.grammar import RECURSION_LEVEL, SparkGrammar

_CLAUSE = [TokenType.ALIAS, TokenType.L_PAREN]  # what follows the name of a window
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")


class SparkText(Spark):
    """Spark's SQL, where `window` is a name, except before the clause WINDOW w AS (…)."""

    class Parser(SparkGrammar):
        pass

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        tokens = super().tokenize(sql, dialect)
        for at, token in enumerate(tokens):
            clause = [following.token_type for following in tokens[at + 2 : at + 4]]
            if token.token_type is TokenType.WINDOW and clause != _CLAUSE:
                token.token_type = TokenType.VAR
        return tokens


class Written(exp.Expression):
    """A leaf of a tree: SQL text that is already final."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Verbatim(SparkText):
    """Spark's SQL, read without giving functions another name or shape.

    sqlglot knows some 700 functions and prints many of them differently from what was written;
    here every ordinary call stays a name with arguments.  Doubled quotes are one, as in Spark 4.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkGrammar):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser
            for name, parser in SparkGrammar.FUNCTION_PARSERS.items()
            if name in _SPECIAL_SYNTAX
        }

    class Generator(SparkGenerator):
        # A SELECT here is what was read or built by us: sqlglot has nothing to rewrite in it.
        TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
            kind: write
            for kind, write in SparkGenerator.TRANSFORMS.items()
            if kind is not exp.Select
        } | {Written: lambda self, leaf: leaf.this}

        def tablealias_sql(self, expression: exp.TableAlias) -> str:
            level = self.sql(expression, RECURSION_LEVEL)
            bound = f" MAX RECURSION LEVEL {level}" if level else ""
            return super().tablealias_sql(expression) + bound


try:
    VERBATIM = Verbatim()
    VERBATIM.generator()
except TypeError as error:
    raise ImportError(
        "anabranch extends sqlglot, which its compiled form forbids: pip uninstall sqlglotc"
    ) from error

Tree = exp.Expr


@dataclass(frozen=True)
class Expr:
    """A scalar expression or one aggregate call, over the columns of some node."""

    text: str

    @classmethod
    def of(cls, tree: Tree) -> Expr:
        # Copying took three quarters of the time; the generator of `Verbatim` does not change trees.
        return cls(tree.sql(dialect=VERBATIM, copy=False))

    @property
    def tree(self) -> Tree:
        """The parsed text; shared, so copy before changing it."""
        return _tree(self.text)

    @property
    def columns(self) -> frozenset[str]:
        return _columns(self.text)

    @property
    def column(self) -> str | None:
        """The column's name when the expression is nothing but a column."""
        tree = self.tree
        return tree.name if isinstance(tree, exp.Column) else None

    def substitute(self, replacements: Mapping[str, Expr]) -> Expr:
        """Every named column replaced by its expression."""
        if not self.columns & replacements.keys():
            return self

        def replace(node: Tree) -> Tree:
            if isinstance(node, exp.Column) and node.name in replacements:
                return operand(replacements[node.name].tree.copy())
            return node

        return Expr.of(unwrapped(self.tree.transform(replace)))

    def rename(self, names: Mapping[str, str]) -> Expr:
        return self.substitute({old: column(new) for old, new in names.items()})

    @property
    def readable(self) -> str:
        """For people: without the quotes around names, and so no SQL."""
        return self.text.replace("`", "")


def _as_plan_column(node: Tree) -> Tree:
    """The first part of a name is the column; an unquoted word is none, as DAY in a date function."""
    if not isinstance(node, exp.Column):
        return node
    first, *fields = node.parts
    if not first.args.get("quoted"):
        return exp.Var(this=first.name)
    start: Tree = exp.Column(this=first.copy())
    return reduce(lambda left, name: exp.Dot(this=left, expression=name.copy()), fields, start)


@cached(5_000)
def _tree(text: str) -> Tree:
    return parse_one(text, dialect=VERBATIM).transform(_as_plan_column, copy=False)


@cached(5_000)
def _columns(text: str) -> frozenset[str]:
    return frozenset(node.name for node in _tree(text).find_all(exp.Column))


def identifier(name: str) -> exp.Identifier:
    """The one place where a name becomes a quoted identifier."""
    return exp.Identifier(this=name, quoted=True)


def column_tree(name: str) -> exp.Column:
    return exp.Column(this=identifier(name))


@cached(5_000)
def column(name: str) -> Expr:
    return Expr.of(column_tree(name))


def literal(value: int | str) -> Expr:
    return Expr.of(exp.convert(value))


def cast(expr: Expr, type_text: str) -> Expr:
    return Expr.of(exp.Cast(this=expr.tree.copy(), to=_type_tree(type_text).copy()))


@cached(1_000)
def _type_tree(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect=Spark)


def weight(sign: int) -> Expr:
    """The weight +1 or -1, typed BIGINT like the weight column."""
    return cast(literal(sign), "bigint")


def call(function: str, *args: Expr | Tree) -> Expr:
    trees = [arg.tree.copy() if isinstance(arg, Expr) else arg for arg in args]
    return Expr.of(exp.Anonymous(this=function, expressions=trees))


def when(condition: Expr, then: Expr, otherwise: Expr | None = None) -> Expr:
    """CASE WHEN condition THEN then [ELSE otherwise] END"""
    case = exp.Case(ifs=[exp.If(this=condition.tree.copy(), true=then.tree.copy())])
    if otherwise is not None:
        case.set("default", otherwise.tree.copy())
    return Expr.of(case)


def is_null(expr: Expr) -> Expr:
    return Expr.of(exp.Is(this=operand(expr.tree.copy()), expression=exp.Null()))


def is_not_null(expr: Expr) -> Expr:
    return Expr.of(exp.Not(this=exp.Is(this=operand(expr.tree.copy()), expression=exp.Null())))


def binary(kind: type[exp.Binary], left: Expr, right: Expr) -> Expr:
    return Expr.of(kind(this=operand(left.tree.copy()), expression=operand(right.tree.copy())))


def negative(expr: Expr) -> Expr:
    return Expr.of(exp.Neg(this=operand(expr.tree.copy())))


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """The operands of AND, in the order written."""
    return () if condition is None else _split(condition.text)


@cached(5_000)
def _split(text: str) -> tuple[Expr, ...]:
    return tuple(Expr.of(conjunct) for conjunct in _conjuncts(_tree(text)))


def _conjuncts(tree: Tree) -> Iterator[Tree]:
    tree = unwrapped(tree)
    if isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree


def conjunction(conjuncts: Iterable[Expr]) -> Expr | None:
    """AND of all conjuncts; None stands for TRUE."""
    distinct = list(dict.fromkeys(conjuncts))
    if len(distinct) < 2:
        return next(iter(distinct), None)
    trees = [_side_of_and(conjunct.tree.copy()) for conjunct in distinct]
    return Expr.of(unwrapped(reduce(lambda a, b: exp.And(this=a, expression=b), trees)))


def _side_of_and(tree: Tree) -> Tree:
    return exp.Paren(this=tree) if isinstance(tree, exp.Connector) else tree


_ATOMS = (exp.Column, exp.Dot, exp.Literal, exp.Null, exp.Boolean, exp.Paren)


def operand(tree: Tree) -> Tree:
    """The tree, in parentheses unless it never needs any."""
    is_call = isinstance(tree, exp.Func) and not isinstance(tree, exp.Binary)
    return tree if is_call or isinstance(tree, _ATOMS) else exp.Paren(this=tree)


def unwrapped(tree: Tree) -> Tree:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


_COMMUTATIVE = (exp.Add, exp.Mul, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.NullSafeEQ)


def meaning(tree: Tree) -> str:
    """A text that is equal for trees that differ only in parentheses and the order of operands.

    This is how Spark matches GROUP BY expressions with those of the SELECT list.
    """
    tree = unwrapped(tree)
    if isinstance(tree, _COMMUTATIVE):
        return f"{tree.key}({','.join(sorted(meaning(side) for side in _operands(tree)))})"
    if isinstance(tree, exp.Anonymous):
        return f"{tree.name.lower()}({','.join(meaning(arg) for arg in tree.expressions)})"
    if isinstance(tree, (exp.Identifier, exp.Literal, exp.Var)):
        return tree.sql(dialect=VERBATIM)
    return f"{tree.key}({','.join(_shape(name, arg) for name, arg in tree.args.items() if arg)})"


def _shape(name: str, arg: Any) -> str:
    if isinstance(arg, list):
        return f"{name}=[{','.join(_shape('', element) for element in arg)}]"
    return f"{name}={meaning(arg) if isinstance(arg, exp.Expr) else arg}"


def _operands(tree: exp.Binary) -> Iterator[Tree]:
    """a + (b + c) has the operands a, b, c"""
    for side in (unwrapped(tree.this), unwrapped(tree.expression)):
        if type(side) is type(tree) and isinstance(side, (exp.Add, exp.Mul, exp.And, exp.Or)):
            yield from _operands(side)
        else:
            yield side

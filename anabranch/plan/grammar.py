"""Operator precedence as Spark has it: sqlglot parses some operators, and intervals, differently.

Where the two differ the tree gets parentheses, so that its text means the same to both.

This is the one file that uses private parts of sqlglot, its parser's.  There is no way beside them: a
sqlglot that lacks one would read queries wrongly, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.metadata import version
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.parsers.spark import SparkParser

# What the parser must have: parts that are called, and those that are replaced.
CALLED = (
    *("_advance", "_build_predicate", "_curr", "_index", "_match", "_match_set", "_match_text_seq"),
    *("_normalize_collate", "_parse_column_ops", "_parse_escape", "_parse_factor"),
    *("_parse_interval_span", "_parse_number", "_parse_primary", "_parse_range", "_parse_unary"),
    *("_prev", "_prev_comments", "_retreat", "_tokens"),
)
REPLACED = (
    *("_parse_between", "_parse_bitwise", "_parse_comparison", "_parse_equality"),
    *("_parse_factor_operand", "_parse_interval", "_parse_table_alias", "_parse_term"),
)


def check_parser(parser: object) -> None:
    """Refuse a sqlglot whose parser is another one than that which is extended here."""
    lacking = [name for name in (*CALLED, *REPLACED) if not hasattr(parser, name)]
    if lacking:
        raise ImportError(
            f"anabranch extends the parser of sqlglot, which has no {', '.join(lacking)} in version "
            f"{version('sqlglot')}: install one that `pip check` accepts"
        )


check_parser(SparkParser())

_SUMS = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub, TokenType.DPIPE: exp.DPipe}
_SHIFTS: tuple[tuple[tuple[TokenType, ...], str], ...] = (
    ((TokenType.GT,) * 3, "SHIFTRIGHTUNSIGNED"),
    ((TokenType.GT,) * 2, "SHIFTRIGHT"),
    ((TokenType.LT,) * 2, "SHIFTLEFT"),
)
_BITS: tuple[tuple[TokenType, type[exp.Binary]], ...] = (  # from the tightest to the loosest
    (TokenType.AMP, exp.BitwiseAnd),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.PIPE, exp.BitwiseOr),
)
_COMPARISONS = SparkParser.EQUALITY | SparkParser.COMPARISON
_COMPARED = tuple(_COMPARISONS.values())
_ON_ONE_LEVEL = (exp.DPipe, exp.BitwiseAnd, exp.BitwiseXor, exp.BitwiseOr)  # to sqlglot
_SIGNS = (TokenType.DASH, TokenType.PLUS)
_AMOUNTS = (TokenType.NUMBER, TokenType.STRING)
_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in (
        "YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND",
        "MILLISECOND", "MICROSECOND", "NANOSECOND",
    )
    for plural in ("", "S")
)  # fmt: skip

LONGEST_INTERVAL = 200  # letters; sqlglot's pattern takes minutes over 100,000 digits

Tree = exp.Expr


def _binary(kind: type[exp.Binary], left: Tree | None, right: Tree | None) -> exp.Binary:
    return kind(this=_grouped(kind, left), expression=_grouped(kind, right))


def _grouped(kind: type[exp.Binary], side: Tree | None) -> Tree | None:
    mixed = isinstance(side, (exp.Add, exp.Sub, *_ON_ONE_LEVEL)) and type(side) is not kind
    differs = kind in _ON_ONE_LEVEL or isinstance(side, _ON_ONE_LEVEL)
    return exp.Paren(this=side) if mixed and differs else side


def _value(tree: Tree | None) -> Tree | None:
    """An operand of a predicate, in parentheses if it is a comparison."""
    return exp.Paren(this=tree) if isinstance(tree, _COMPARED) else tree


RECURSION_LEVEL = "recursion_level"  # of the name of a common table expression


class SparkGrammar(SparkParser):
    """From tight to loose: unary, `* / % DIV`, `+ - ||`, shifts, `&`, `^`, `|`, comparisons."""

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(a, b)[0] is an element
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: self._parse_positive(),
        TokenType.DASH: lambda self: self._parse_negative(),
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.RANGE_PARSERS,
        TokenType.LIKE: lambda self, this: self._parse_pattern(exp.Like, this),
        TokenType.ILIKE: lambda self, this: self._parse_pattern(exp.ILike, this),
        TokenType.RLIKE: lambda self, this: self._parse_pattern(exp.RegexpLike, this),
    }

    def _parse_table_alias(
        self, alias_tokens: Collection[TokenType] | None = None
    ) -> exp.TableAlias | None:
        """WITH RECURSIVE r (n) MAX RECURSION LEVEL 10 AS (…): the bound stays with the name."""
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            alias.set(RECURSION_LEVEL, self._parse_number())
        return alias

    def _parse_equality(self, parse_is: bool = True) -> Tree | None:
        this = self._parse_comparison()
        if this is None or not parse_is:
            return this
        predicate = self._parse_range(this, parse_is=True)
        bare = isinstance(this, _COMPARED) and not isinstance(this.parent, exp.Paren)
        if predicate is not this and bare:
            this.replace(exp.paren(this))
        return predicate

    def _parse_comparison(self, this: Tree | None = None) -> Tree | None:
        this = this or self._parse_bitwise()
        while self._match_set(_COMPARISONS):
            comments = self._prev_comments
            kind = _COMPARISONS[self._prev.token_type]
            this = self._build_predicate(
                kind, _value(this), self._parse_bitwise(), comments=comments
            )
        return this

    def _parse_between(self, this: Tree | None) -> exp.Between:
        symmetric = True if self._match_text_seq("SYMMETRIC") else None
        if symmetric is None and self._match_text_seq("ASYMMETRIC"):
            symmetric = False
        low = _value(self._parse_comparison())
        self._match(TokenType.AND)
        high = _value(self._parse_comparison())
        return self.expression(exp.Between(this=this, low=low, high=high, symmetric=symmetric))

    def _parse_pattern(self, kind: type[exp.Binary], this: Tree | None) -> Tree | None:
        pattern = _value(self._parse_comparison())
        return self._parse_escape(self.expression(kind(this=this, expression=pattern)))

    def _parse_bitwise(self) -> Tree | None:
        return self._parse_bits(len(_BITS))

    def _parse_bits(self, level: int) -> Tree | None:
        if level == 0:
            return self._parse_shift()
        token, kind = _BITS[level - 1]
        this = self._parse_bits(level - 1)
        while self._match(token):
            this = self.expression(_binary(kind, this, self._parse_bits(level - 1)))
        return this

    def _parse_shift(self) -> Tree | None:
        this = self._parse_term()
        while shift := self._match_shift():
            operands = [this, self._parse_term()]
            this = self.expression(exp.Anonymous(this=shift, expressions=operands))
        return this

    def _match_shift(self) -> str | None:
        for tokens, name in _SHIFTS:
            ahead = self._tokens[self._index : self._index + len(tokens)]
            if tuple(token.token_type for token in ahead) == tokens:
                self._advance(len(tokens))
                return name
        return None

    def _parse_term(self, parse_mod: bool = True) -> Tree | None:
        this = self._parse_factor(parse_mod=parse_mod)
        while self._match_set(_SUMS):
            kind = _SUMS[self._prev.token_type]
            comments = self._prev_comments
            sum_ = _binary(kind, this, self._parse_factor(parse_mod=parse_mod))
            if kind is exp.DPipe:
                sum_.set("safe", not self.dialect.STRICT_STRING_CONCAT)
            this = self.expression(sum_, comments=comments)
        return this

    def _parse_factor_operand(self) -> Tree | None:
        this = super()._parse_factor_operand()
        while self._match(TokenType.COLLATE):
            collate = exp.Collate(this=this, expression=self._parse_unary())
            self._normalize_collate(collate)
            this = self.expression(collate)
        return this

    def _parse_positive(self) -> Tree | None:
        """A unary plus casts a string to a number; before a number it does nothing."""
        is_number = self._match(TokenType.NUMBER, advance=False)
        operand = self._parse_unary()
        if is_number or operand is None:
            return operand
        return self.expression(exp.Anonymous(this="POSITIVE", expressions=[operand]))

    def _parse_negative(self) -> Tree | None:
        """The sign belongs to the literal: -128Y is a TINYINT, 128Y is out of range."""
        kind = self._tokens[self._index + 1 : self._index + 3]
        is_decimal = len(kind) == 2 and kind[1].text.upper() == "BD"
        if self._match(TokenType.NUMBER, advance=False) and not is_decimal:
            number = self.expression(exp.Neg(this=self._parse_primary()))
            return self._parse_column_ops(number)
        return self.expression(exp.Neg(this=self._parse_unary()))

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        """INTERVAL 1 DAY 2 HOURS is one value, whatever stands around it."""
        index = self._index
        if not self._match(TokenType.INTERVAL) and require_interval:
            return None
        this = self._parse_amount()
        if not this or self._is_column_named_interval(this):
            self._retreat(index)
            return None
        if this.is_string and len(this.name) > LONGEST_INTERVAL:
            self.raise_error("Expecting an interval that is shorter")
        parts: Tree = self._parse_interval_span(this, parse_function_unit=parse_function_unit)
        if not parts.args.get("unit") and not this.is_string:  # interval + 1: a column
            self._retreat(index)
            return None
        several = False
        while self._is_at_amount():
            several = True
            next_part = self._parse_interval_span(self._parse_amount(), parse_function_unit=False)
            parts = self.expression(exp.Add(this=parts, expression=next_part))
        return self.expression(exp.Paren(this=parts)) if several else parts

    def _parse_amount(self) -> Any:
        is_string = self._match(TokenType.STRING, advance=False)
        return self._parse_primary() if is_string else self._parse_unary()

    def _is_column_named_interval(self, this: Tree) -> bool:
        return (
            isinstance(this, exp.Column)
            and not this.table
            and not this.this.quoted
            and bool(self._curr)
            and self._curr.text.upper() not in self.dialect.VALID_INTERVAL_UNITS
        )

    def _is_at_amount(self) -> bool:
        """[+|-] amount unit"""
        ahead = self._tokens[self._index : self._index + 3]
        if ahead and ahead[0].token_type in _SIGNS:
            ahead = ahead[1:]
        if len(ahead) < 2 or ahead[0].token_type not in _AMOUNTS:
            return False
        return ahead[1].text.upper() in _UNITS

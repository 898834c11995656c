"""Text to statements' texts, and text to sqlglot trees; what does not parse says where and why."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from anabranch.cache import cached
from anabranch.errors import SqlSyntaxError, Unsupported, UserError, did_you_mean
from anabranch.plan.exprs import SparkText
from anabranch.sql.text.tokens import Place, Sort, Token, place, syntax_error, tokenize

DIALECT = "spark"
_SPARK = SparkText()
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(")
# sqlglot's warning about commands would go to the terminal; we raise an error instead
logging.getLogger("sqlglot").addHandler(logging.NullHandler())
_BLAME = "Invalid expression / Unexpected token"
_CLAUSES = (
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "QUALIFY", "WINDOW",
)  # fmt: skip


@dataclass(frozen=True)
class Passage:
    """A stretch of the user's text that remembers where it stands in the whole."""

    whole: str
    start: int
    end: int

    @classmethod
    def of(cls, text: str | Passage) -> Passage:
        return text if isinstance(text, Passage) else cls(text, 0, len(text))

    @property
    def text(self) -> str:
        return self.whole[self.start : self.end]

    @property
    def at(self) -> Place:
        return place(self.whole, self.start)

    def tokens(self) -> list[Token]:
        return tokenize(self.whole, self.start, self.end)

    def error(self, offset: int, message: str, hint: str | None = None) -> SqlSyntaxError:
        """An error at an offset of the whole text."""
        return syntax_error(self.whole, offset, message, hint)


class Fragment(str):
    """An expression or a name of a statement, which remembers where it stands in the whole text."""

    whole: str
    start: int

    @classmethod
    def of(cls, text: str, whole: str, start: int) -> Fragment:
        made = cls(text)
        made.whole, made.start = whole, start
        return made

    @property
    def at(self) -> Place:
        return place(self.whole, self.start)


def split(text: str) -> list[Passage]:
    """The statements of a script, cut at `;`; pieces that hold only comments are left out."""
    pieces: list[Passage] = []
    first: Token | None = None
    last: Token | None = None
    for token in tokenize(text):
        if token.sort is Sort.END or token.says(";"):
            if first and last:
                pieces.append(Passage(text, first.start, last.end))
            first = last = None
        else:
            first, last = first or token, token
    return pieces


def parse_query(text: str | Passage) -> exp.Query:
    """The tree of SELECT, VALUES, WITH …, a set operation or a query in brackets.

    Trees of the last few texts are shared: look, do not change.
    """
    passage = Passage.of(text)
    try:
        return _shared_tree(passage.text)
    except UserError:
        return _parse_query(passage)  # says it again, at its place in the whole text


@cached(16)  # a query is checked, then searched for tables: one parse does for both
def _shared_tree(text: str) -> exp.Query:
    return _parse_query(Passage.of(text))


def _parse_query(passage: Passage) -> exp.Query:
    tokens = passage.tokens()
    first = tokens[0]
    if not any(first.says(word) for word in QUERY_WORDS):
        raise _not_a_query(passage, first)
    tree = _parse(passage, tokens)
    if isinstance(tree, exp.Values):
        return _values_query(tree)
    if not isinstance(tree, exp.Query):
        what = tree.key.upper()
        raise Unsupported(f"expected a query, found {what}", hint="put WITH after INSERT INTO …")
    return tree


def check_query(passage: Passage) -> None:
    """Raise if this is no query.

    A long list of plain VALUES is left to Spark: sqlglot would take seconds over it.
    """
    tokens = passage.tokens()
    if tokens[0].says("VALUES") and not any(token.says("SELECT") for token in tokens):
        _check_brackets(passage, tokens)
    else:
        parse_query(passage)


def parse_expression(text: str | Passage) -> exp.Expr:
    """The tree of a condition or a value."""
    passage = Passage.of(text)
    tokens = passage.tokens()
    if tokens[0].sort is Sort.END:
        raise passage.error(passage.start, "expected an expression, found nothing")
    return _parse(passage, tokens, exp.Condition)


def _values_query(values: exp.Values) -> exp.Query:
    return exp.select("*", copy=False).from_(values, copy=False)


def _not_a_query(passage: Passage, first: Token) -> SqlSyntaxError:
    if first.says("TABLE"):
        return passage.error(first.start, "TABLE is not taken as a query", "write SELECT * FROM …")
    hint = did_you_mean(first.text, QUERY_WORDS[:-1]) if first.sort is Sort.WORD else None
    return passage.error(first.start, f"expected a query, found {first.shown}", hint)


def _parse(passage: Passage, tokens: list[Token], into: type[exp.Expr] | None = None) -> exp.Expr:
    _check_brackets(passage, tokens)
    text = passage.text
    try:
        trees = _trees(text, into)
    except ParseError as error:
        raise _syntax_error(passage, tokens, error) from None
    except SqlglotError as error:
        raise SqlSyntaxError(_plain(str(error))) from None
    except (LookupError, TypeError, ValueError, AttributeError):  # sqlglot stumbles over nonsense
        raise passage.error(tokens[0].start, "this cannot be read as SQL") from None
    except RecursionError:
        raise Unsupported(
            "the SQL text is nested too deeply", hint="split it with WITH or stream tables"
        ) from None
    if len(trees) != 1 or trees[0] is None:
        semicolon = next((token for token in tokens if token.says(";")), tokens[-1])
        raise passage.error(semicolon.start, 'unexpected ";"')
    if command := trees[0].find(exp.Command):
        raise Unsupported(f"{command.name.upper()} … is not supported inside SQL text")
    return trees[0]


def _trees(text: str, into: type[exp.Expr] | None) -> list[exp.Expr | None]:
    # with an endless context the error's own prefix tells the exact offset
    context = len(text) + 1
    if into is None:
        return _SPARK.parse(text, error_message_context=context)
    return _SPARK.parse_into(into, text, error_message_context=context)


def _check_brackets(passage: Passage, tokens: list[Token]) -> None:
    """sqlglot blames the text's end for a bracket that was left open; name the bracket."""
    closing = {"(": ")", "[": "]", "{": "}"}
    opened: list[Token] = []
    for token in tokens:
        if token.sort is not Sort.SYMBOL:
            continue
        if token.text in closing:
            opened.append(token)
        elif token.text in closing.values() and (
            not opened or closing[opened.pop().text] != token.text
        ):
            raise passage.error(token.start, f"unexpected {token.shown}")
    if opened:
        raise passage.error(opened[-1].start, f"{opened[-1].shown} is not closed")


def _syntax_error(passage: Passage, tokens: list[Token], error: ParseError) -> SqlSyntaxError:
    detail = error.errors[0] if error.errors else {}
    description = str(detail.get("description", error))
    offset = passage.start + len(str(detail.get("start_context", "")))
    behind = offset + len(str(detail.get("highlight", "")))
    index = next((i for i, token in enumerate(tokens) if token.end > offset), len(tokens) - 1)
    at_fault = tokens[index]
    expected = _expected(description)
    # at the end of the text sqlglot points at the last token, which is innocent
    if behind >= tokens[-1].end and not description.startswith(_BLAME):
        at_fault = tokens[-1]
    if expected and expected.startswith("a type") and at_fault.sort is Sort.WORD:
        void = at_fault.says("VOID")  # Spark has the type, for a NULL without one
        hint = "VOID holds nothing but NULL: cast to the type that you want" if void else None
        message = f"{at_fault.text.upper()} is not a type that can be cast to"
        return passage.error(at_fault.start, message, hint)
    message = f"unexpected {at_fault.shown}"
    if expected:  # "AS after CAST" already says where
        message = f"expected {expected}" + (
            "" if " after " in expected else f", found {at_fault.shown}"
        )
    before = tokens[index - 1] if index else at_fault
    hint = next((h for token in (at_fault, before) if (h := _clause_hint(token))), None)
    return passage.error(at_fault.start, message, hint)


def _expected(description: str) -> str | None:
    """What sqlglot was waiting for, in words a person uses; nothing when it does not know."""
    match = re.match(r"Expect(?:ing|ed) (.+?)(?: but got .*)?\.?$", _plain(description), re.DOTALL)
    if not match:
        return None
    wanted = re.sub(r"<.*?>", "", match[1], flags=re.DOTALL).strip()
    if wanted.startswith("TYPE"):
        return "a type" + wanted[4:]
    if wanted == "table name":
        return "a table name"
    return f'"{wanted}"' if len(wanted) <= 2 else wanted


def _plain(message: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", message)


def _clause_hint(token: Token) -> str | None:
    """`FORM` or `WEHRE` was read as an alias, and the token behind it is blamed."""
    if token.sort is not Sort.WORD or token.text.upper() in _CLAUSES or len(token.text) < 4:
        return None
    return did_you_mean(token.text, _CLAUSES)

"""SQL is not a shell: what runs code or reads the machine, found before Spark sees the text.

Functions are allowed by name.  A name that is not in `functions` may be anything: one that a newer
Spark brings, or one that somebody registered.  Names are looked for among the tokens, which are cut as
Spark cuts them, so a text that two parsers would read differently hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.errors import Refused, UnknownName, did_you_mean
from anabranch.plan.exprs import VERBATIM
from anabranch.sql.analyze import functions
from anabranch.sql.text.tokens import Sort, Token, place, tokenize

SETTING = "allow_external_code"
_QUOTABLE = (Sort.WORD, Sort.QUOTED)
# What may stand before a bracket and is no call: words of the grammar, and types with a size.
_GRAMMAR = frozenset(
    """
    all and anti any as asc bernoulli between by case character cross cube current day dec delete desc
    distinct else end escape except exclude extend following for from full group having hour include
    inner insert intersect interval into is join lateral level limit matched materialized merge minus
    minute month natural null nulls numeric of offset on order outer over partition percent pivot
    preceding qualify recursion recursive repeatable rollup rows second select semi set sets some
    sort table tablesample then to union unpivot update using values varchar where window with within
    year
    """.split()
)
_ALLOWED = functions.KNOWN | _GRAMMAR
# Their options may name files of the machine.
_MOST_ARGUMENTS = {"from_avro": 2, "schema_of_avro": 1, "from_xml": 2, "schema_of_xml": 1}
_PLAIN = _ALLOWED - functions.EXTERNAL - _MOST_ARGUMENTS.keys()
_STRINGS = re.compile(
    r"""(?<!\w)[rR]'[^']*' | (?<!\w)[rR]"[^"]*"
      | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*' | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*" """,
    re.VERBOSE | re.DOTALL,
)
# From the beginning of a word only: from each of its letters, a number of 100,000 digits takes minutes.
_BEFORE_BRACKET = re.compile(r"((?<!\w)\w+|`)\s*\(")
_COMMENT_OR_USING = re.compile(r"--|/\*|\busing\b", re.IGNORECASE)
_COMPUTED_NAME = "identifier"  # IDENTIFIER('a' || 'b')(…) calls what its text says


ALLOW = (
    f"the operator may allow it: connect({SETTING}=True), or the environment variable "
    f"ANABRANCH_{SETTING.upper()}=true"
)


@dataclass(frozen=True)
class External:
    """What is not allowed in a text, and where it stands; `unknown` is a function nobody knows."""

    what: str
    offset: int
    unknown: str | None = None

    @property
    def message(self) -> str:
        if self.unknown is not None:
            return f"there is no function {self.unknown} that Anabranch knows"
        return f"{self.what} may run code or read files of this machine"

    @property
    def hint(self) -> str:
        if self.unknown is None:
            return ALLOW
        near = did_you_mean(self.unknown, functions.KNOWN)
        own = f"if it is one of your own, {ALLOW}"
        return f"{near} {own[0].upper()}{own[1:]}" if near else own


def refuse_external_code(text: str) -> None:
    """Raise if a query or expression may run code or read files outside of the tables it names."""
    code = external_code(text)
    if code is None:
        return
    at = place(text, code.offset)
    message = f"{code.message} (line {at.line}, column {at.column})"
    if code.unknown is None:
        raise Refused(message, hint=code.hint)
    error = UnknownName(message)
    error.hint = code.hint
    raise error


def external_code(text: str) -> External | None:
    """The first thing in a text that is not allowed."""
    if _is_plain(text):
        return None
    tokens = tokenize(text)
    doubtful: dict[str, int] = {}
    for at, token in enumerate(tokens[:-1]):
        following = tokens[at + 1]
        if following.sort is Sort.STRING and token.says("USING"):
            return External("TRANSFORM … USING", token.start)
        if following.text == "(" and token.sort in _QUOTABLE:
            name = token.value.lower()
            if name in functions.EXTERNAL or (
                name == _COMPUTED_NAME and _is_called(tokens, at + 1)
            ):
                return External(f"function {name}", token.start)
            if name not in _ALLOWED or name in _MOST_ARGUMENTS:
                doubtful.setdefault(name, token.start)
    return _first_call(text, doubtful) if doubtful else None


def _is_plain(text: str) -> bool:
    """Whether only names that are allowed stand before brackets: long lists of values, mostly.

    Without comments a name and its bracket are next to each other.
    """
    if _COMMENT_OR_USING.search(text):
        return False
    without_strings = _STRINGS.sub("''", text)
    names = {name.lower() for name in _BEFORE_BRACKET.findall(without_strings)}
    return names <= _PLAIN


def _is_called(tokens: Sequence[Token], opening: int) -> bool:
    """Whether another bracket follows the one that opens here."""
    depth = 0
    for at in range(opening, len(tokens) - 1):
        depth += tokens[at].says("(") - tokens[at].says(")")
        if depth == 0:
            return tokens[at + 1].says("(")
    return False


def _first_call(text: str, doubtful: dict[str, int]) -> External | None:
    """The first of the names that is called: others name the columns of an alias or a CTE."""
    calls = _calls(text)
    for name, offset in doubtful.items():
        if calls is None or any(each == name and many for each, many in calls):
            unknown = None if name in _MOST_ARGUMENTS else name
            return External(f"function {name}", offset, unknown)
    return None


def _calls(text: str) -> list[tuple[str, bool]] | None:
    """The functions that a text calls, and whether with more than is allowed; None: it says."""
    try:
        trees = VERBATIM.parse(text)
    except (SqlglotError, RecursionError, LookupError, TypeError, ValueError, AttributeError):
        return None
    return [call for tree in trees if tree is not None for call in _in_tree(tree)]


def _in_tree(tree: exp.Expr) -> Iterator[tuple[str, bool]]:
    for node in tree.walk():
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Hint):
            name = node.name.lower()
            yield name, len(node.expressions) > _MOST_ARGUMENTS.get(name, -1)

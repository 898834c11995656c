"""Whether values that Spark calls equal are the same value, byte for byte: the one answer.

BYTES   equal values are the same in every respect
FORM    equal values may differ (0.0 and -0.0), but GROUP BY, DISTINCT and UNION show one fixed form
OPEN    equal values may differ ('a' and 'A' under UTF8_LCASE), and Spark shows any of them
NONE    Spark has no equality for them, or the type is not known here

Keys, groups and rows that are looked up again need to know it.  A type that nobody has thought of
is NONE, so that nothing is maintained by an equality that was only assumed.
"""

from __future__ import annotations

import re
from enum import Enum

from anabranch.cache import cached


class Sameness(Enum):
    BYTES = 0
    FORM = 1
    OPEN = 2
    NONE = 3

    @property
    def makes_keys(self) -> bool:
        """Whether a group, a row or a partner can be found again by such a value."""
        return self in (Sameness.BYTES, Sameness.FORM)


_BYTES = frozenset(
    "boolean tinyint smallint int bigint decimal string char varchar binary date timestamp "
    "timestamp_ltz timestamp_ntz void array struct "
    "interval year month day hour minute second to".split()
)
_FORM = frozenset(("float", "double", "map"))  # a map is shown with its keys in order
_BINARY = "utf8_binary"
_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+)\s*:")  # of a field
_COLLATION = re.compile(r"\bcollate\s+([\w.]+)")
_CLAUSES = re.compile(r"\bnot null\b|\bcomment\s+'(?:[^'\\]|\\.)*'")


@cached(4096)
def sameness(type_text: str) -> Sameness:
    """What equality means for a type, given as Spark's text: `array<string collate UTF8_LCASE>`."""
    text = _NAME.sub(" ", _CLAUSES.sub(" ", type_text.lower()))
    collations = {name.rpartition(".")[2] for name in _COLLATION.findall(text)}
    words = set(re.findall(r"[a-z_]\w*", _COLLATION.sub(" ", text)))
    if not words or words - _BYTES - _FORM:
        return Sameness.NONE
    if collations - {_BINARY}:
        return Sameness.OPEN
    return Sameness.FORM if words & _FORM else Sameness.BYTES

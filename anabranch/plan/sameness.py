"""Whether values that Spark considers equal are identical byte for byte; everybody asks here.

BYTES   equal values are identical
FORM    equal values may differ (0.0 and -0.0), but GROUP BY, DISTINCT and UNION normalize them
OPEN    equal values may differ ('a' and 'A' under UTF8_LCASE), and Spark returns any of them
NONE    Spark has no equality for them, or the type is unknown here

It matters for keys, groups and stored rows that are found again by value.  An unknown type is NONE, so
that nothing is maintained by an equality that was only assumed.
"""

from __future__ import annotations

from enum import Enum

from anabranch.cache import cached
from anabranch.errors import InvalidValue
from anabranch.types import Type


class Sameness(Enum):
    BYTES = 0
    FORM = 1
    OPEN = 2
    NONE = 3

    @property
    def makes_keys(self) -> bool:
        """Whether a group, a row or a match can be found again by such a value."""
        return self in (Sameness.BYTES, Sameness.FORM)


_BYTES = frozenset(
    "boolean tinyint smallint int bigint decimal string char varchar binary date timestamp "
    "timestamp_ntz void array struct interval".split()
)
_FORM = frozenset(("float", "double", "map"))  # a map is shown with its keys in order


@cached(4096)
def sameness(type_text: str) -> Sameness:
    """What equality means for a type, given as Spark's text: `array<string collate UTF8_LCASE>`."""
    try:
        parts = list(Type.parse(type_text).walk())
    except InvalidValue:
        return Sameness.NONE
    names = {part.name.split(" ")[0] for part in parts}
    if names - _BYTES - _FORM:
        return Sameness.NONE
    if any(part.collation for part in parts):
        return Sameness.OPEN
    return Sameness.FORM if names & _FORM else Sameness.BYTES

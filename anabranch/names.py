"""Names of tables: raw parts inside, quoted text outside."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from anabranch.cache import cached
from anabranch.errors import InvalidValue

DEFAULT_SCHEMA = "default"
RESERVED_PREFIX = "_ab_"  # columns of ours inside data files and plans
SYSTEM_SCHEMA = "system"

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|\"((?:[^\"]|\"\")*)\"|([^\s.`\"]+))\s*(\.|\Z)")


def quote(part: str) -> str:
    """An identifier in Spark's quotes, always."""
    return "`" + part.replace("`", "``") + "`"


def shown(part: str) -> str:
    """An identifier as people read it: quoted only where it must be."""
    return part if _PLAIN.match(part) else quote(part)


def fold(name: str) -> str:
    """Equal for names that Spark takes for one: it compares letter by letter, in upper and then in
    lower case, so that `ı`, `İ` and `i` are one letter, and so are `ſ` and `s`."""
    return "".join(
        _lower(letter.upper()) if len(letter.upper()) == 1 else letter for letter in name
    )


def _lower(letter: str) -> str:
    return letter.lower()[0]


@dataclass(frozen=True, order=True)
class TableName:
    """`schema.name`, or `database.schema.name`; the namespace is never empty."""

    namespace: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        parts = (*self.namespace, self.name)
        if not self.namespace or not all(parts):
            raise InvalidValue(f"{'.'.join(parts)!r} is not a table name")
        if len(parts) > 3:
            raise InvalidValue(
                f"{self} has {len(parts)} parts", hint="use schema.table or database.schema.table"
            )
        if any(len(part) > 255 or "\0" in part for part in parts):
            raise InvalidValue(
                "a part of a table name is longer than 255 characters or holds a NUL"
            )

    @classmethod
    def of(cls, *parts: str) -> TableName:
        return cls(tuple(parts[:-1]) or (DEFAULT_SCHEMA,), parts[-1])

    @classmethod
    def parse(cls, text: str | TableName) -> TableName:
        """Read `shop.sales`, `` `my shop`.`a.b` `` or `sales` (in the default schema)."""
        if isinstance(text, TableName):
            return text
        if not isinstance(text, str):
            raise InvalidValue(f"{text!r} is not a table name", hint="write 'schema.table'")
        return _parsed(text)

    @property
    def schema(self) -> str:
        """The namespace as the Iceberg catalog keeps it."""
        return ".".join(self.namespace)

    @property
    def is_system(self) -> bool:
        """One of the views that show the catalog."""
        return len(self.namespace) == 1 and self.namespace[0].lower() == SYSTEM_SCHEMA

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.namespace, self.name)

    @cached_property
    def _shown(self) -> str:
        return ".".join(shown(part) for part in self.parts)

    def __str__(self) -> str:
        return self._shown

    def find_in(self, known: Collection[TableName]) -> TableName | None:
        """The name as it is known: the same letters, else the only one that differs in case."""
        if self in known:
            return self
        folded = self.folded
        alike = [other for other in known if other.folded == folded]
        return alike[0] if len(alike) == 1 else None

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """Equal for names that are one name."""
        return tuple(part.lower() for part in self.parts)


@cached(100_000)  # catalogs with thousands of tables are read again and again
def _parsed(text: str) -> TableName:
    parts: list[str] = []
    at, end = 0, ""
    while match := _PART.match(text, at):
        ticked, quoted, plain, end = match.groups()
        if ticked is not None:
            parts.append(ticked.replace("``", "`"))
        elif quoted is not None:
            parts.append(quoted.replace('""', '"'))
        else:
            parts.append(plain)
        at = match.end()
        if not end:
            break
    if at != len(text) or end or not parts:
        raise InvalidValue(
            f"{text!r} is not a table name",
            hint="write schema.table, and put parts with other characters in `backticks`",
        )
    return TableName.of(*parts)

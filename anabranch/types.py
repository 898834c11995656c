"""Types of values: one record for what Spark writes as `decimal(12,2)` or `array<struct<a:int>>`.

`Type.parse` reads every spelling that Spark reads, and `str` writes the one that Spark writes, so that
two types are equal when their texts are.  Whether a table can hold a type is a question of its own
(`Type.unstorable`): a query may well compute an interval.  The types of PyIceberg and PySpark are made
from it in `lake/types.py` and `spark/types.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from anabranch.cache import cached
from anabranch.errors import InvalidValue, did_you_mean
from anabranch.names import shown

INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # and how many digits they have
FLOATS = ("float", "double")
TIMES = ("date", "timestamp", "timestamp_ntz")
NESTED = ("array", "map", "struct")
MAX_PRECISION = 38
DEEPEST = 50  # levels of a nested type: the libraries that write schemas fail at about twice that
BINARY_COLLATION = "UTF8_BINARY"

_SPELLINGS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
    "null": "void",
}
_PLAIN = (*INTEGERS, *FLOATS, *TIMES, "boolean", "string", "binary")
_SIZED = ("char", "varchar")
_OTHER = ("interval", "variant", "void", "time", "geometry", "geography", "object")
_UNITS = ("year", "month", "day", "hour", "minute", "second")
KNOWN = (*_PLAIN, "decimal", *_SIZED, *NESTED, *_OTHER, *_SPELLINGS)
STORABLE = frozenset((*_PLAIN, "decimal", *_SIZED, *NESTED))


class NotAType(InvalidValue):
    """A text that cannot be read as a type; `at` is where in it."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.at = at


class UnknownType(NotAType):
    """A name that no type has."""


@dataclass(frozen=True)
class Field:
    """A field of a struct; `element` of an array; `key` and `value` of a map."""

    name: str
    type: Type
    required: bool = False


@dataclass(frozen=True)
class Type:
    """`numbers`: precision and scale of a decimal, the length of a char."""

    name: str
    numbers: tuple[int, ...] = ()
    fields: tuple[Field, ...] = ()
    collation: str | None = None  # None: texts are compared byte by byte

    @staticmethod
    def parse(text: str) -> Type:
        """
        >>> str(Type.parse("ARRAY<Struct<a: Long, `b c` DEC(5) NOT NULL>>"))
        'array<struct<a:bigint,`b c`:decimal(5,0) NOT NULL>>'
        """
        return _parsed(text)

    @staticmethod
    def decimal(precision: int, scale: int) -> Type:
        """The type of a result: never wider than the widest decimal."""
        return Type("decimal", (min(MAX_PRECISION, precision), min(MAX_PRECISION, scale)))

    @staticmethod
    def array(element: Type) -> Type:
        return Type("array", fields=(Field("element", element),))

    @staticmethod
    def map(key: Type, value: Type) -> Type:
        return Type("map", fields=(Field("key", key), Field("value", value)))

    @staticmethod
    def struct(*fields: Field) -> Type:
        return Type("struct", fields=fields)

    def __str__(self) -> str:
        return self.text("timestamp")

    def text(self, timestamp: str) -> str:
        """Spark's text; what TIMESTAMP means depends on a setting, `timestamp_ltz` does not."""
        if self.name == "struct":
            return f"struct<{','.join(_field_text(each, timestamp) for each in self.fields)}>"
        if self.fields:
            return f"{self.name}<{','.join(each.type.text(timestamp) for each in self.fields)}>"
        name = timestamp if self.name == "timestamp" else self.name
        size = f"({','.join(map(str, self.numbers))})" if self.numbers else ""
        return f"{name}{size}{f' collate {self.collation}' if self.collation else ''}"

    def walk(self) -> Iterator[Type]:
        """The type and every type inside it."""
        yield self
        for each in self.fields:
            yield from each.type.walk()

    @property
    def unstorable(self) -> Type | None:
        """The part of it that no Iceberg table holds."""
        return next((part for part in self.walk() if not part._is_storable), None)

    @property
    def _is_storable(self) -> bool:
        empty = self.name == "struct" and not self.fields
        return self.name in STORABLE and self.collation is None and not empty

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS

    @property
    def is_decimal(self) -> bool:
        return self.name == "decimal"

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_time(self) -> bool:
        """A day or a moment."""
        return self.name in TIMES

    @property
    def is_nested(self) -> bool:
        return self.name in NESTED

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale that hold every value of an exact number."""
        if self.is_decimal:
            return self.numbers[0], self.numbers[1]
        return (INTEGERS[self.name], 0) if self.is_integer else None

    @property
    def as_decimal(self) -> tuple[int, int] | None:
        """Precision and scale that Spark calculates with: one digit more than a bigint has."""
        return (20, 0) if self.name == "bigint" else self.digits

    def fits(self, goal: Type) -> bool:
        """Whether every value is one of the other type, unchanged.

        >>> int_, wide = Type.parse("int"), Type.parse("decimal(12,2)")
        >>> int_.fits(wide), wide.fits(int_), int_.fits(Type("void")), Type("void").fits(int_)
        (True, False, False, True)
        """
        if self == goal or self.name == "void":
            return True
        if goal.name == "string" and goal.collation is None:
            return self.name in _SIZED
        if self.is_integer and goal.is_integer:
            return INTEGERS[self.name] <= INTEGERS[goal.name]
        if goal.name == "double" and self.name in ("float", "tinyint", "smallint", "int"):
            return True
        before, after = self.digits, goal.digits if goal.is_decimal else None
        if before is None or after is None:
            return False
        return after[1] >= before[1] and after[0] - after[1] >= before[0] - before[1]


def _field_text(field: Field, timestamp: str) -> str:
    needed = " NOT NULL" if field.required else ""
    return f"{shown(field.name)}:{field.type.text(timestamp)}{needed}"


def read_type(text: str, at: int = 0) -> tuple[Type, int]:
    """The type that stands at a place of a text, and where it ends."""
    reader = _Reader(text, at)
    found = reader.type()
    return found, reader.end


@cached(4096)
def _parsed(text: str) -> Type:
    reader = _Reader(text)
    try:
        found = reader.type()
        if reader.word:
            raise reader.unexpected()
    except NotAType as error:
        told = f"{_short(text)} is not a type"
        if not error.message.startswith(told):
            raise NotAType(f"{told}: {error.message}", error.at, error.hint) from None
        raise
    return found


_SPACE = r"(?:\s|--[^\n]*|/\*.*?\*/)*"
_TOKEN = re.compile(
    _SPACE + r"(`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|[\w$]+|.)?", re.DOTALL
)


class _Reader:
    """type := name [(n [, n])] [COLLATE name] | array<type> | map<type, type> | struct<field, …>"""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.end = at  # of what was taken
        self.depth = 0
        self._look(at)

    def _look(self, at: int) -> None:
        match = _TOKEN.match(self.text, at)
        assert match is not None  # everything in it may be missing
        self.token = match[1] or ""
        self.start, self.stop = match.span(1) if match[1] else (len(self.text), len(self.text))

    @property
    def word(self) -> str:
        """The next token, in lower case."""
        return self.token.lower()

    def take(self) -> str:
        token, self.end = self.token, self.stop
        self._look(self.stop)
        return token

    def accept(self, wanted: str) -> bool:
        if self.word != wanted:
            return False
        self.take()
        return True

    def expect(self, wanted: str) -> None:
        if not self.accept(wanted):
            raise self.unexpected(f'"{wanted}"')

    def unexpected(self, wanted: str = "") -> NotAType:
        there = f'"{self.token}"' if self.token else "nothing"
        said = f"expected {wanted}, found {there}" if wanted else f"unexpected {there}"
        return NotAType(said, self.start)

    def type(self) -> Type:
        at = self.start
        if not re.match(r"[\w$]", self.token):
            raise self.unexpected("a type")
        word = self.take()
        name = _SPELLINGS.get(word.lower(), word.lower())
        if name in NESTED:
            return self.nested(name)
        if name == "decimal":
            return self.decimal()
        if name in _SIZED:
            return self.sized(name)
        if name == "interval":
            return Type(self.interval())
        if name in _OTHER:
            return Type(name, self.numbers())
        if name not in _PLAIN:
            listed = (each.upper() for each in KNOWN if each not in _OTHER)
            known = [each.upper() for each in KNOWN]
            hint = did_you_mean(word.upper(), known) or f"types: {', '.join(listed)}"
            raise UnknownType(f'"{word}" is not a type', at, hint)
        return Type(name, collation=self.collation() if name == "string" else None)

    def nested(self, name: str) -> Type:
        self.expect("<")
        self.depth += 1
        if self.depth > DEEPEST:
            raise InvalidValue(f"the type has more than {DEEPEST} levels")
        if name == "struct":
            found = Type.struct(*self.struct())
        elif name == "array":
            found = Type.array(self.type())
        else:
            key = self.type()
            self.expect(",")
            found = Type.map(key, self.type())
        self.expect(">")
        self.depth -= 1
        return found

    def struct(self) -> Iterator[Field]:
        names: set[str] = set()
        while self.token != ">":
            if names:
                self.expect(",")
            field = self.field()
            if field.name.lower() in names:
                raise InvalidValue(f"field {shown(field.name)} appears twice in a struct")
            names.add(field.name.lower())
            yield field

    def field(self) -> Field:
        if not re.match(r"[\w$`]", self.token):
            raise self.unexpected("a field's name")
        token = self.take()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        self.accept(":")
        type_, required = self.type(), False
        if self.accept("not"):
            self.expect("null")
            required = True
        if self.accept("comment") and self.take()[:1] not in ("'", '"'):
            raise self.unexpected("a comment in quotes")
        return Field(name, type_, required)

    def decimal(self) -> Type:
        precision, scale = (*(found := self.numbers()), *(10, 0)[len(found) :])[:2]
        if len(found) > 2 or not 1 <= precision <= MAX_PRECISION or scale > precision:
            inside = ",".join(map(str, found))
            hint = f"precision is 1 to {MAX_PRECISION}, scale 0 to the precision"
            raise InvalidValue(f"decimal({inside}) is not a type", hint=hint)
        return Type("decimal", (precision, scale))

    def sized(self, name: str) -> Type:
        if len(size := self.numbers()) != 1 or size[0] < 1:
            hint = f"write {name.upper()}(10), or STRING"
            raise InvalidValue(f"{name.upper()} needs a length of at least 1", hint=hint)
        return Type(name, size)

    def numbers(self) -> tuple[int, ...]:
        if not self.accept("("):
            return ()
        found = [self.number()]
        while self.accept(","):
            found.append(self.number())
        self.expect(")")
        return tuple(found)

    def number(self) -> int:
        if not (self.token.isascii() and self.token.isdigit()):
            raise self.unexpected("a whole number")
        return int(self.take())

    def interval(self) -> str:
        if self.word not in _UNITS:
            return "interval"
        found = f"interval {self.take().lower()}"
        if not self.accept("to"):
            return found
        if self.word not in _UNITS:
            raise self.unexpected("a unit of time")
        return f"{found} to {self.take().lower()}"

    def collation(self) -> str | None:
        if not self.accept("collate"):
            return None
        name = self.take()
        while self.accept("."):
            name = self.take()  # system.builtin.UNICODE is UNICODE
        if not re.match(r"\w", name):
            raise self.unexpected("a collation")
        return None if name.upper() == BINARY_COLLATION else name


def _short(text: str) -> str:
    return f'"{text}"' if len(text) <= 80 else f'"{text[:77]}…"'


def common_type(one: Type, two: Type) -> Type | None:
    """The type that Spark gives to a column with values of both; None where it depends, or is none.

    >>> str(common_type(Type.parse("int"), Type.parse("decimal(5,2)")))
    'decimal(12,2)'
    """
    if one == two or two.name == "void":
        return one
    if one.name == "void":
        return two
    if one.is_number and two.is_number:
        return _common_number(one, two)
    if one.name == two.name and one.fields and len(one.fields) == len(two.fields):
        return _common_nested(one, two)
    if one.is_time and two.is_time:
        return Type("timestamp" if "timestamp" in (one.name, two.name) else "timestamp_ntz")
    return None


def _common_number(one: Type, two: Type) -> Type | None:
    if one.is_integer and two.is_integer:
        return max(one, two, key=lambda each: INTEGERS[each.name])
    if one.is_float or two.is_float:
        return None if "float" in (one.name, two.name) else Type("double")  # float: by the mode
    (p1, s1), (p2, s2) = one.as_decimal or (0, 0), two.as_decimal or (0, 0)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return Type("decimal", (precision, scale)) if precision <= MAX_PRECISION else None


def _common_nested(one: Type, two: Type) -> Type | None:
    fields = []
    for mine, other in zip(one.fields, two.fields, strict=True):
        type_ = common_type(mine.type, other.type)
        if type_ is None or mine.name.lower() != other.name.lower():
            return None
        fields.append(Field(mine.name, type_, mine.required and other.required))
    return replace(one, fields=tuple(fields))

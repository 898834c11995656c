"""What is known of a query's columns without Spark, and where their values come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.names import TableName
from anabranch.types import Type, common_type


@dataclass(frozen=True, order=True)
class Ref:
    """A column of a table that is not looked into: a source table or a stream table."""

    table: TableName
    column: str


@dataclass(frozen=True)
class Flow:
    """The source columns that a value is computed from, and those that only decide which rows it is
    computed over."""

    computed: frozenset[Ref] = frozenset()
    decides: frozenset[Ref] = frozenset()

    @property
    def all(self) -> frozenset[Ref]:
        return self.computed | self.decides

    @property
    def deciding(self) -> Flow:
        """The same columns for whom the value only decides about rows."""
        return Flow(frozenset(), self.all)

    def __or__(self, other: Flow) -> Flow:
        if other is NOTHING:
            return self
        return Flow(self.computed | other.computed, self.decides | other.decides)


NOTHING = Flow()


def together(flows: Iterable[Flow]) -> Flow:
    flow = NOTHING
    for each in flows:
        flow |= each
    return flow


@dataclass(frozen=True)
class Column:
    """A column: `name` is None when Spark makes one up, `type` when it is not known.

    `broken`: it comes from a mistake, which was reported where it was made.  `any_name`: the name that
    Spark makes up may look like a user's.  `made_up`: what that name probably is.
    """

    name: str | None
    type: Type | None = None
    flow: Flow = NOTHING
    broken: bool = False
    any_name: bool = False
    made_up: str = ""

    @property
    def unknown(self) -> Column:
        """The same column, of a type that is not known."""
        return replace(self, type=None)


UNKNOWN = Column(None)
Columns = tuple[Column, ...] | None  # None: not even the number of columns is known


@dataclass(frozen=True)
class Relation:
    """The rows of a query or a table.  `flow` is what decides which rows there are, and, if the
    columns are not known, also what any of them may be computed from.  `probable`: the columns that a
    plan has, where it is not certain that Spark gives them these names."""

    columns: Columns
    flow: Flow = NOTHING
    probable: Columns = None

    @property
    def planned(self) -> Columns:
        return self.probable if self.columns is None else self.columns

    @cached_property
    def whole(self) -> Flow:
        """What any column, and the choice of the rows, may come from."""
        return together((self.flow, *(each.flow for each in self.columns or ())))

    @property
    def opaque(self) -> Relation:
        """The same rows made into other columns, nobody knows which."""
        return Relation(None, self.whole)

    def perhaps(self, columns: Columns) -> Relation:
        """The same rows made into other columns, probably these."""
        if columns is None:
            return self.opaque
        whole = self.whole
        probable = (Column(each.name, flow=whole, made_up=each.made_up) for each in columns)
        return Relation(None, whole, tuple(probable))

    def deciding(self, flow: Flow) -> Relation:
        return replace(self, flow=self.flow | flow.deciding)

    def named(self, names: Sequence[str]) -> Relation:
        """Under the names of `AS t(a, b)`; a wrong number of them was reported."""
        if self.columns is None or len(self.columns) != len(names):
            flow = Flow(self.whole.computed)
            broken = self.columns is not None
            return Relation(tuple(Column(n, flow=flow, broken=broken) for n in names), self.flow)
        pairs = zip(self.columns, names, strict=True)
        renamed = (replace(each, name=name, any_name=False) for each, name in pairs)
        return Relation(tuple(renamed), self.flow)


def table(name: TableName, columns: Columns) -> Relation:
    """The rows of a table: its columns are where values come from."""
    if columns is None:
        return Relation(None)
    own = (replace(c, flow=Flow(frozenset({Ref(name, c.name)}))) if c.name else c for c in columns)
    return Relation(tuple(own))


def merged(one: Column, two: Column) -> Column:
    """A value of either: a branch of a UNION, the key of a FULL JOIN … USING.

    >>> merged(Column("a", Type("int")), Column("b", Type("bigint"))).type is None
    True
    """
    same = one.type if one.type == two.type else None
    if same is None and one.type is not None and two.type is not None:
        void = "void" in (one.type.name, two.type.name)
        same = common_type(one.type, two.type) if void else None
    broken = one.broken or two.broken
    return replace(one, type=same, flow=one.flow | two.flow, broken=broken)

"""What the parts of lowering pass around: a plan node with the user's names for its columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, column
from anabranch.plan.nodes import Aggregate, Item, Node, Project
from anabranch.sql.analyze.resolve import FromColumns, Output
from anabranch.sql.analyze.scope import Answer, Field
from anabranch.sql.text.source_text import SourceText

TypesOf = Callable[[Node, Sequence[Expr]], Sequence[str]]


@dataclass(frozen=True)
class Relation:
    """`outputs` name the node's columns, by position; names may repeat.

    They are followed by the columns `domain` of a correlated query: the outer rows that a row is for.
    `absent` are the outputs if there is no row, of a query that always has one: an aggregate without
    GROUP BY.
    """

    node: Node
    outputs: tuple[Output, ...]
    domain: tuple[str, ...] = ()
    absent: tuple[Expr, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.node.columns[: len(self.outputs)]


@dataclass
class Domain:
    """The outer values that a correlated query uses: columns of `node`, by name.

    Inside the query they have other names, since both queries may read the same table.  `joined`: some
    part of the query needs the values themselves.
    """

    node: Node
    scopes: tuple[FromColumns, ...]  # nearest first
    names: Mapping[str, str]  # column of `node` → its name inside the query
    captured: set[str] = field(default_factory=set)
    joined: bool = False

    def find(self, answer: Answer, name: exp.Column) -> str | None:
        outer = self.outer(answer, name)
        if outer is None:
            return None
        self.captured.add(outer)
        return self.names[outer]

    def outer(self, answer: Answer, name: exp.Column) -> str | None:
        """The column of `node` that a name means."""
        for scope in self.scopes:
            column = scope.find(answer, name)
            if column is not None:
                return column if column in self.names else None
        return None

    def answers(self, fields: Iterable[str]) -> bool:
        """Whether some of the columns are outer ones."""
        outer = {
            field_
            for scope in self.scopes
            for field_, column_ in scope.names.items()
            if column_ in self.names
        }
        return not outer.isdisjoint(fields)

    def capture(self, names: Collection[str]) -> None:
        """A nested query uses outer columns, by the names that they have in this one."""
        self.captured |= {outer for outer, inner in self.names.items() if inner in names}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names.values())

    @property
    def inner_scopes(self) -> tuple[FromColumns, ...]:
        """The outer scopes with the column names used inside the query."""
        return tuple(scope.renamed(self.names) for scope in self.scopes)

    def values(self) -> Node:
        """The distinct combinations of values; they are joined NULL-safe from now on."""
        self.joined = True
        pairs = self.names.items()
        return Aggregate(self.node, tuple(Item(inner, column(outer)) for outer, inner in pairs))


@dataclass(frozen=True)
class Place:
    """The context of lowering: the text, and the domain of a correlated query."""

    source: SourceText
    domain: Domain | None = None

    @property
    def alone(self) -> Place:
        """The same place for an uncorrelated query."""
        return replace(self, domain=None)

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that every relation lowered here must carry."""
        return self.domain.columns if self.domain else ()


class Names:
    """Names that are unique inside one node."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in used}

    def fresh(self, name: str) -> str:
        base, number = name, 2
        while name.lower() in self._taken:
            name, number = f"{base}#{number}", number + 1
        self._taken.add(name.lower())
        return name


FromItem = tuple[Node, FromColumns]


def exposed(relation: Relation, fields: Sequence[Field], names: Names) -> FromItem:
    """A FROM item: every column becomes `alias.column`; domain columns keep their names."""
    unique = [
        names.fresh(".".join((*field_.qualifier[-1:], field_.name)).lower()) for field_ in fields
    ]
    pairs = zip(unique, relation.columns, strict=True)
    items = [Item(name, column(inner)) for name, inner in pairs]
    items += [Item(name, column(name)) for name in relation.domain]
    return Project(relation.node, tuple(items)), FromColumns.of(fields, unique)


def column_aliases(tree: Tree, relation: Relation) -> list[str]:
    """The column names of `AS t(a, b)`."""
    alias = tree.args.get("alias")
    names = (
        [identifier.name for identifier in alias.columns]
        if isinstance(alias, exp.TableAlias)
        else []
    )
    if names and len(names) != len(relation.outputs):
        raise UserError(
            f"{tree.alias} names {len(names)} columns, but there are {len(relation.outputs)}"
        )
    return names

"""What lowering hands about: a plan node with the names that the user knows its columns by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Expr, Tree, column
from anabranch.plan.nodes import Aggregate, Item, Node, Project
from anabranch.sql.analyze.ctes import reads_itself
from anabranch.sql.analyze.scope import Field, Found, Scope
from anabranch.sql.lower.support import Obstacle
from anabranch.sql.text.source_text import SourceText

TypesOf = Callable[[Node, Sequence[Expr]], Sequence[str]]


class Stop(Exception):
    """A query turned out not to be incremental while it was being lowered."""

    def __init__(self, found: Obstacle) -> None:
        super().__init__(str(found))
        self.found = found


@dataclass(frozen=True)
class Output:
    """The name of an output column; not `named` when it was made up from the expression."""

    name: str
    named: bool = True


@dataclass(frozen=True)
class Relation:
    """`outputs` name the node's columns, by position; they may repeat a name.

    After them a correlated query has the columns `domain`: for which rows around it a row is.
    `absent` are the outputs where there is no row, of a query that always has one: an aggregate
    without GROUP BY.
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
    """What a correlated query sees of the query around it: columns of `node`, by name.

    Inside, a column has another name, for both queries may read the same table.  `joined`: some
    part of the query could not do without the values themselves.
    """

    node: Node
    scopes: tuple[Scope, ...]  # nearest first
    names: Mapping[str, str]  # column of `node` → its name inside
    captured: set[str] = field(default_factory=set)
    joined: bool = False

    def find(self, parts: Sequence[str]) -> Found | None:
        for scope in self.scopes:
            found = scope.find(parts)
            if found is not None:
                if found.column not in self.names:
                    return None
                self.captured.add(found.column)
                return replace(found, column=self.names[found.column])
        return None

    def capture(self, asked: Collection[str]) -> None:
        """A query inside this one asks for columns by the names they have here."""
        self.captured |= {outer for outer, inner in self.names.items() if inner in asked}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names.values())

    @property
    def inside(self) -> tuple[Scope, ...]:
        """The same scopes with the names that columns have inside."""
        return tuple(scope.renamed(self.names) for scope in self.scopes)

    def values(self) -> Node:
        """The values themselves, each combination once; from now on NULL is one of them."""
        self.joined = True
        pairs = self.names.items()
        return Aggregate(self.node, tuple(Item(inner, column(outer)) for outer, inner in pairs))


@dataclass(frozen=True)
class Place:
    """Where lowering is: in which text, which CTEs are in scope there, what lies around it.

    Inside a recursive CTE its own name stands for a relation.
    """

    source: SourceText
    ctes: Mapping[str, Cte | Relation] = field(default_factory=dict)
    domain: Domain | None = None

    @property
    def alone(self) -> Place:
        """The same place for a query that sees nothing of what lies around it."""
        return replace(self, domain=None)

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that every relation lowered here has to carry."""
        return self.domain.columns if self.domain else ()


@dataclass(frozen=True)
class Cte:
    tree: exp.CTE
    place: Place
    recursive: bool = False


@dataclass(frozen=True)
class Selected:
    """An item of a SELECT list, its expression over columns of the plan."""

    output: Output
    tree: Tree


class Names:
    """Names that are unique inside one node."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken}

    def fresh(self, name: str) -> str:
        base, number = name, 2
        while name.lower() in self._taken:
            name, number = f"{base}#{number}", number + 1
        self._taken.add(name.lower())
        return name


def exposed(
    relation: Relation, qualifier: tuple[str, ...], columns: Sequence[str], names: Names
) -> tuple[Node, Scope]:
    """A FROM item: every column becomes `alias.column`; those of the domain stay as they are."""
    fields: list[Field] = []
    items: list[Item] = []
    for position, inner in enumerate(relation.columns):
        output = Output(columns[position]) if columns else relation.outputs[position]
        own = names.fresh(".".join((*qualifier[-1:], output.name)).lower())
        fields.append(Field(qualifier, output.name, own, named=output.named))
        items.append(Item(own, column(inner)))
    items += [Item(name, column(name)) for name in relation.domain]
    return Project(relation.node, tuple(items)), Scope(tuple(fields))


def column_aliases(tree: Tree, relation: Relation) -> list[str]:
    """The names of `AS t(a, b)`."""
    alias = tree.args.get("alias")
    names = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if names and len(names) != len(relation.outputs):
        raise UserError(
            f"{tree.alias} names {len(names)} columns, but there are {len(relation.outputs)}"
        )
    return names


def with_ctes(tree: Tree, place: Place) -> Place:
    """A CTE sees those before it, and a table of its own name."""
    clause = tree.args.get("with_") or exp.With(expressions=[])
    for cte in clause.expressions:
        found = Cte(cte, place.alone, bool(clause.args.get("recursive")) and reads_itself(cte))
        place = replace(place, ctes={**place.ctes, cte.alias.lower(): found})
    return place

"""What the parts of lowering pass around: a plan node with the user's names for its columns."""

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
    """Raised during lowering for a query that cannot be maintained incrementally."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(str(obstacle))
        self.obstacle = obstacle


@dataclass(frozen=True)
class Output:
    """The name of an output column; not `named` if it was derived from the expression."""

    name: str
    named: bool = True


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
    scopes: tuple[Scope, ...]  # nearest first
    names: Mapping[str, str]  # column of `node` → its name inside the query
    captured: set[str] = field(default_factory=set)
    joined: bool = False

    def find(self, parts: Sequence[str]) -> Found | None:
        for scope in self.scopes:
            reference = scope.find(parts)
            if reference is not None:
                if reference.column not in self.names:
                    return None
                self.captured.add(reference.column)
                return replace(reference, column=self.names[reference.column])
        return None

    def capture(self, names: Collection[str]) -> None:
        """A nested query uses outer columns, by the names that they have in this one."""
        self.captured |= {outer for outer, inner in self.names.items() if inner in names}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names.values())

    @property
    def inner_scopes(self) -> tuple[Scope, ...]:
        """The outer scopes with the column names used inside the query."""
        return tuple(scope.renamed(self.names) for scope in self.scopes)

    def values(self) -> Node:
        """The distinct combinations of values; they are joined NULL-safe from now on."""
        self.joined = True
        pairs = self.names.items()
        return Aggregate(self.node, tuple(Item(inner, column(outer)) for outer, inner in pairs))


@dataclass(frozen=True)
class Place:
    """The context of lowering: the text, the CTEs in scope, the domain of a correlated query.

    Inside a recursive CTE its own name maps to a relation.
    """

    source: SourceText
    ctes: Mapping[str, Cte | Relation] = field(default_factory=dict)
    domain: Domain | None = None

    @property
    def alone(self) -> Place:
        """The same place for an uncorrelated query."""
        return replace(self, domain=None)

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that every relation lowered here must carry."""
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

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in used}

    def fresh(self, name: str) -> str:
        base, number = name, 2
        while name.lower() in self._taken:
            name, number = f"{base}#{number}", number + 1
        self._taken.add(name.lower())
        return name


def exposed(
    relation: Relation, qualifier: tuple[str, ...], columns: Sequence[str], names: Names
) -> tuple[Node, Scope]:
    """A FROM item: every column becomes `alias.column`; domain columns keep their names."""
    fields: list[Field] = []
    items: list[Item] = []
    for position, inner in enumerate(relation.columns):
        output = Output(columns[position]) if columns else relation.outputs[position]
        unique = names.fresh(".".join((*qualifier[-1:], output.name)).lower())
        fields.append(Field(qualifier, output.name, unique, named=output.named))
        items.append(Item(unique, column(inner)))
    items += [Item(name, column(name)) for name in relation.domain]
    return Project(relation.node, tuple(items)), Scope(tuple(fields))


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


def with_ctes(tree: Tree, place: Place) -> Place:
    """A CTE sees those before it, and a table with its own name."""
    clause = tree.args.get("with_") or exp.With(expressions=[])
    for cte in clause.expressions:
        definition = Cte(cte, place.alone, bool(clause.args.get("recursive")) and reads_itself(cte))
        place = replace(place, ctes={**place.ctes, cte.alias.lower(): definition})
    return place

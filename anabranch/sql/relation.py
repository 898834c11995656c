"""What lowering hands about: a plan node with the names that the user knows its columns by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from anabranch.plan.exprs import Expr, Tree, column
from anabranch.plan.nodes import Item, Node, Project
from anabranch.sql.scope import Field, Scope
from anabranch.sql.support import Obstacle

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
    """`outputs` name the node's columns, by position; they may repeat a name."""

    node: Node
    outputs: tuple[Output, ...]


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
    """A FROM item: every column becomes `alias.column`."""
    fields: list[Field] = []
    items: list[Item] = []
    for position, inner in enumerate(relation.node.columns):
        output = Output(columns[position]) if columns else relation.outputs[position]
        own = names.fresh(".".join((*qualifier[-1:], output.name)).lower())
        fields.append(Field(qualifier, output.name, own, named=output.named))
        items.append(Item(own, column(inner)))
    return Project(relation.node, tuple(items)), Scope(tuple(fields))

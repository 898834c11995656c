"""What creation says of a query that is to be kept incrementally, as far as it needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from sqlglot.errors import SqlglotError

from anabranch.model import Column, Columns
from anabranch.names import TableName
from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import Node
from anabranch.sql.analyze.obstacles import find_obstacles
from anabranch.sql.lower.key_types import may_have_other_types
from anabranch.sql.lower.known_types import offline_type
from anabranch.sql.lower.query import Lowered, lower
from anabranch.sql.obstacles import Obstacle
from anabranch.sql.text.source_text import SourceText


class NeedsSpark(Exception):
    """The answer hangs on a type that only Spark can tell."""


def offline_obstacles(
    query: str,
    width: int | None,
    tables: Mapping[TableName, Columns | None],
    views: Mapping[TableName, str],
) -> tuple[Obstacle, ...]:
    """Why the query is surely not incremental; nothing where only Spark can say."""
    analysis = offline_lowered(query, width, tables, views)
    return analysis.obstacles if analysis is not None else ()


def offline_lowered(
    query: str,
    width: int | None,
    tables: Mapping[TableName, Columns | None],
    views: Mapping[TableName, str],
) -> Lowered | None:
    """The plan of a query, or why it surely has none; None where only Spark can say.

    `width` is how many columns it gives, and `tables` and `views` are all that it reads, also through
    views, by every name that they have there.
    """
    texts = [SourceText(query), *(SourceText(text, name) for name, text in views.items())]
    obstacles = tuple(chain.from_iterable(map(find_obstacles, texts)))
    if obstacles:
        return Lowered(None, (), frozenset(tables), obstacles)
    columns = {name: each for name, each in tables.items() if each is not None}
    unclear = len(columns) < len(tables) or width is None
    if unclear or may_have_other_types(text.tree for text in texts):
        return None

    def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        types_ = [offline_type(node, expr, columns) for expr in exprs]
        if any(type_ is None or "void" in type_ for type_ in types_):
            raise NeedsSpark
        return [type_ for type_ in types_ if type_ is not None]

    output = tuple(Column(f"c{at}", "", True) for at in range(width or 0))
    try:
        return lower(query, columns, views, types, output=output)
    except (NeedsSpark, SqlglotError):  # creation looks again, and says if it cannot plan the query
        return None

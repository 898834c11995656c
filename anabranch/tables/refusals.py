"""What is surely wrong with the queries of stream tables, said before Spark has to start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from anabranch.cut_view import CutView
from anabranch.errors import AnabranchError
from anabranch.model import Columns, RefreshMode
from anabranch.names import TableName
from anabranch.refresh.definition import not_incremental
from anabranch.sql.analyze.analysis import analyze
from anabranch.sql.analyze.columns import Relation, table
from anabranch.sql.analyze.failures import spark_judges
from anabranch.sql.analyze.mistakes import mistake
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.lower.moments import Moment, pinned
from anabranch.sql.obstacles import Obstacle
from anabranch.sql.offline import offline_obstacles


@dataclass(frozen=True)
class Declared:
    """The query of a stream table that is to be."""

    name: TableName
    query: str
    refresh_mode: RefreshMode


def refuse_early(world: CutView, declared: Iterable[Declared]) -> None:
    """Refuse mistakes, and queries that DIFFERENTIAL cannot keep; those declared together may read
    each other.  Where Spark has started it tells mistakes itself."""
    together = {each.name.folded: each for each in declared}
    for each in together.values():
        others = {name: other for name, other in together.items() if other is not each}
        relations = _Relations(world, others)
        wrong = mistake(each.query, relations.of, each.name)
        if wrong is not None:
            if world.spark.started:
                continue
            raise wrong
        strict = each.refresh_mode is RefreshMode.DIFFERENTIAL
        if strict and (found := _obstacles(world, each, relations)):
            raise not_incremental(each.name, found)


@dataclass(frozen=True)
class _Relations:
    """What can be known of tables, and of those that are to be made."""

    world: CutView
    others: Mapping[tuple[str, ...], Declared]

    def of(self, name: TableName) -> Relation:
        other = self.others.get(name.folded)
        if other is None:
            return self.world.relation(name)
        rest = {key: each for key, each in self.others.items() if each is not other}
        with suppress(AnabranchError), spark_judges("its query", other.name):
            columns = analyze(other.query, replace(self, others=rest).of).columns
            return table(other.name, columns)
        return Relation(None)


def _obstacles(world: CutView, declared: Declared, relations: _Relations) -> tuple[Obstacle, ...]:
    tables: dict[TableName, Columns | None] = {}
    views: dict[TableName, str] = {}
    moment = Moment(world.at)
    waiting = list(tables_of(declared.query))
    while waiting:
        name = waiting.pop()
        made = name.folded in relations.others or name.folded == declared.name.folded
        found = None if made else world.find(name)
        if made:
            tables[name] = None
        elif found is None:
            return ()  # there is no such table, which is said elsewhere
        elif found in world.views and found not in views:
            views[found] = pinned(world.views[found], moment)
            waiting.extend(tables_of(views[found]))
        elif found not in world.views:
            tables[found] = world.version(found).columns
    with spark_judges("its query", declared.name):
        columns = analyze(declared.query, relations.of).columns
        query = pinned(declared.query, moment)
        return offline_obstacles(query, None if columns is None else len(columns), tables, views)
    return ()

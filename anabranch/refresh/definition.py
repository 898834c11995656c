"""What a stream table is: its query, resolved against the tables and views of one world."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.cache import Cache
from anabranch.catalog.events import COLLATION, RECURSION, Event
from anabranch.catalog.streams import UNPLANNED, is_unplanned
from anabranch.cut_view import CutView
from anabranch.delta.closure import compares_recursion, recomputes_recursion, with_seeds
from anabranch.delta.maintenance import ByRows, Maintenance, maintenance
from anabranch.errors import NotIncremental, SchemaError, UserError
from anabranch.lake.types import to_iceberg, to_text
from anabranch.model import FIRST_HIDDEN_ID, Column, Columns, RefreshMode
from anabranch.names import RESERVED_PREFIX, TableName, fold, shown
from anabranch.plan.exprs import Expr, column
from anabranch.plan.nodes import Item, Node, Parameter, Project, Scan
from anabranch.refresh.fingerprint import fingerprint, texts
from anabranch.spark.errors import Blame, blame, said
from anabranch.spark.identity import hidden_hashes
from anabranch.spark.query import types_of, view_names
from anabranch.spark.types import collated, result_columns
from anabranch.sql.analyze.lineage import UNKNOWN, Lineage
from anabranch.sql.analyze.mistakes import relation_of
from anabranch.sql.analyze.tables import tables_of
from anabranch.sql.lower.moments import Moment, is_timely, pinned
from anabranch.sql.lower.query import Lowered, lower
from anabranch.sql.lower.recursion import is_beyond_spark
from anabranch.sql.lower.relation import TypesOf
from anabranch.sql.obstacles import Obstacle, obstacle
from anabranch.sql.render import to_sql

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NOT_PLANNED = "NOT_PLANNED"  # our own planning failed
ALWAYS_STALE = frozenset({"TIME_DEPENDENT_FUNCTION", "NONDETERMINISTIC_FUNCTION"})


@dataclass(frozen=True)
class Definition:
    """A query that was understood: where it reads, what it gives, and how it can be kept."""

    query: str
    columns: Columns
    sources: frozenset[TableName]  # tables read, through views too
    views: frozenset[TableName]
    plan: Node | None
    obstacles: tuple[Obstacle, ...]
    kept: Maintenance | None
    hidden: Columns  # hidden columns of the stored rows, with their field ids
    fingerprint: str
    moment: Moment | None = None  # what functions of the current time stand for
    collated: tuple[str, ...] = ()  # columns that are stored without the collation they have
    lineage: Lineage = UNKNOWN
    written: Node | None = None  # the plan before the rules of the optimizer

    @property
    def reads(self) -> tuple[TableName, ...]:
        """Tables and views, as the catalog keeps them."""
        return tuple(sorted(self.sources | self.views))

    @property
    def options(self) -> dict[str, Any]:
        """What the catalog must know to tell whether the table is out of date."""
        if self.moment is not None:
            return {"always": True, "moment": str(self.moment)}
        always = any(obstacle.code in ALWAYS_STALE for obstacle in self.obstacles)
        return {"always": True} if always else {}


# By all that defining looks at; a query of the current time is another one each time.
_cache: Cache[Definition] = Cache(1_000, "definitions")
_failed: Cache[Definition] = Cache(100, "definitions that could not be planned")


def define(world: CutView, query: str, moment: Moment | None = None) -> Definition:
    """Resolve a query; the answer is remembered as long as nothing it names changes.

    `moment` is the current time for functions that ask for it; the world's if it is not given.
    """
    sources, through = reach(world, query)
    columns = {name: world.version(name).columns for name in sorted(sources)}
    views = {name: world.views[name] for name in sorted(through)}
    if not any(map(is_timely, (query, *views.values()))):
        moment = None
    else:
        moment = moment or world.moment
        query = pinned(query, moment)
        views = {name: pinned(text, moment) for name, text in views.items()}
    key = (query, tuple(columns.items()), tuple(views.items()))
    definition = _remembered(world, key, lambda: _define(world, query, columns, views))
    return replace(definition, moment=moment) if moment else definition


def _remembered(world: CutView, key: Hashable, make: Callable[[], Definition]) -> Definition:
    """A query that could not be planned is so for one refresh: then what was in the way may be gone."""
    now = (key, world.at)
    if now in _failed:
        return _failed.get(now, make)
    found = _cache.get(key, make)
    if is_unplanned(found.fingerprint):
        _cache.drop(key)
        _failed.get(now, lambda: found)
    return found


def understood(
    world: CutView, name: TableName, query: str, moment: Moment | None = None
) -> Definition:
    """The definition of a stream table that exists; its sources may no longer fit."""
    with fitting(world, name, query):
        return define(world, query, moment)


@contextmanager
def fitting(world: CutView, name: TableName, query: str) -> Iterator[None]:
    """What is wrong with the query of a stream table that exists is wrong with its sources."""
    try:
        yield
    except UserError as error:
        if missing := _missing(world, query):
            raise SchemaError(
                f"{name} reads {', '.join(map(str, missing))}, which no longer exists",
                hint="recreate it with the columns it had, or restore it from a backup; ALTER STREAM "
                f"TABLE {name} AS … gives another query, and DROP STREAM TABLE {name} removes it",
            ) from error
        raise SchemaError(
            f"{name}: its query no longer fits its sources: {error.message}",
            hint=error.hint or f"ALTER STREAM TABLE {name} AS … gives it another query",
        ) from error


def _missing(world: CutView, query: str) -> list[TableName]:
    """Tables and views that a query names, directly or through views, and that are not there."""
    gone, seen, waiting = set(), set(), list(tables_of(query))
    while waiting:
        name = waiting.pop()
        resolved = world.find(name)
        if resolved is None:
            gone.add(name)
        elif resolved in world.views and resolved not in seen:
            seen.add(resolved)
            waiting.extend(tables_of(world.views[resolved]))
    return sorted(gone)


def reach(world: CutView, query: str) -> tuple[frozenset[TableName], frozenset[TableName]]:
    """The tables and the views that a query reads, directly or through views."""
    sources: set[TableName] = set()
    views: set[TableName] = set()
    waiting = list(tables_of(query))
    while waiting:
        name = world.resolve(waiting.pop())
        if name not in world.views:
            sources.add(name)
        elif name not in views:
            views.add(name)
            waiting.extend(tables_of(world.views[name]))
    return frozenset(sources), frozenset(views)


def spark_schema(world: CutView, query: str) -> StructType | None:
    """What Spark says of a query; None for x > ALL (SELECT …) and WITH RECURSIVE … UNION, which it
    cannot read: there the plan says what the columns are."""
    return None if is_beyond_spark(query) else world.schema(query)


def given_columns(world: CutView, query: str) -> Columns:
    """The columns of any query that we can run; those of views may be ones that no table could have."""
    schema = spark_schema(world, query)
    return define(world, query).columns if schema is None else result_columns(schema)


def _define(
    world: CutView,
    query: str,
    columns: dict[TableName, Columns],
    views: dict[TableName, str],
) -> Definition:
    schema = spark_schema(world, query)
    output = None if schema is None else output_columns(result_columns(schema))

    def types(node: Node, exprs: Sequence[Expr]) -> Sequence[str]:
        probe = Project(
            with_seeds(node), tuple(Item(f"e{i}", expr) for i, expr in enumerate(exprs))
        )
        names = view_names(columns)

        def name_of(scan: Scan | Parameter) -> str:
            assert isinstance(scan, Scan)
            return names[scan.table]

        text = to_sql(probe, name_of, "spark")
        return types_of(world.spark.session, text, {names[name]: columns[name] for name in columns})

    lowered, kept = planned(query, columns, views, types, output)
    if output is None:
        output = output_columns(_columns(lowered, types))
    without_collation = collated(schema) if schema is not None else ()
    if without_collation and lowered.plan is not None:
        reason = obstacle("COLLATION", 1, 1, what=", ".join(map(shown, without_collation)))
        lowered, kept = replace(lowered, plan=None, obstacles=(reason,)), None
    hidden = _hidden(kept, output)
    meaning = lowered.plan or texts(query, columns, views)
    failed = {each.code for each in lowered.obstacles} == {NOT_PLANNED}
    return Definition(
        query=query,
        columns=output,
        sources=frozenset(columns),
        views=frozenset(views),
        plan=lowered.plan,
        obstacles=lowered.obstacles,
        kept=kept,
        hidden=hidden,
        fingerprint=fingerprint(meaning, output, hidden, columns) + (UNPLANNED if failed else ""),
        collated=without_collation,
        lineage=lineage(world, query, output),
        written=lowered.written,
    )


def lineage(world: CutView, query: str, output: Columns) -> Lineage:
    """Where the columns of a query come from."""
    found = relation_of(query, world.relation)
    return Lineage.of(found, [each.name for each in output])


def planned(
    query: str,
    columns: Mapping[TableName, Columns],
    views: Mapping[TableName, str],
    types: TypesOf,
    output: Columns | None,
) -> tuple[Lowered, Maintenance | None]:
    """The plan of a query, and how it is kept.  A query that Spark has read, and that breaks our own
    planning, is recomputed: `output` are its columns."""
    try:
        lowered = lower(query, columns, views, types, output=output)
        return lowered, maintenance(lowered.plan) if lowered.plan is not None else None
    except Exception as error:
        if output is None or isinstance(error, UserError) or blame(error) is Blame.WORLD:
            raise
        reason = obstacle(NOT_PLANNED, 1, 1, what=said(error))
        names = tuple(each.name for each in output)
        return Lowered(None, names, frozenset(columns), (reason,)), None


def _hidden(kept: Maintenance | None, output: Columns) -> Columns:
    if kept is None:
        return ()
    if isinstance(kept, ByRows) and (hashes := hidden_hashes(output)):
        return hashes
    return tuple(
        replace(column, field_id=FIRST_HIDDEN_ID + at) for at, column in enumerate(kept.hidden)
    )


def _columns(lowered: Lowered, types: TypesOf) -> Columns:
    if lowered.plan is None:
        raise NotIncremental(
            "Spark cannot run WITH RECURSIVE … UNION, nor compare with ANY or ALL rows of a query, "
            "and this query cannot be maintained incrementally:\n"
            + "\n".join(f"  {obstacle}" for obstacle in lowered.obstacles)
        )
    type_texts = types(lowered.plan, [column(name) for name in lowered.plan.columns])
    return tuple(
        Column(name, type_, True)
        for name, type_ in zip(lowered.plan.columns, type_texts, strict=True)
    )


def output_columns(columns: Columns) -> Columns:
    """The columns of the query, which must have names and types of their own."""
    seen: set[str] = set()
    for each in columns:
        if fold(each.name) in seen:
            raise UserError(
                f"the query gives the column {shown(each.name)} twice",
                hint="name one of them with AS",
            )
        if each.name.lower().startswith(RESERVED_PREFIX):
            raise UserError(f"column {each.name}: names that start with _ab_ are reserved")
        if each.type == "void":
            raise UserError(
                f"column {shown(each.name)} has no type", hint="CAST(NULL AS …) gives it one"
            )
        seen.add(fold(each.name))
    return tuple(replace(each, type=to_text(to_iceberg(each.type))) for each in columns)


def definition_notices(name: TableName, mode: RefreshMode, definition: Definition) -> list[Event]:
    """What whoever makes the table should know: columns without their collation, what a recursion
    inside of a larger query costs."""
    said = [
        Event(name, COLLATION, f"{shown(column)} {WITHOUT_COLLATION}")
        for column in definition.collated
    ]
    if mode is RefreshMode.FULL:
        return said
    return [*said, *(Event(name, RECURSION, each) for each in costly_recursions(definition))]


def costly_recursions(definition: Definition) -> list[str]:
    """What it costs to follow the recursions of a query, where that is more than the change."""
    if definition.kept is None:
        return []
    afresh = [AFRESH] if recomputes_recursion(definition.kept) else []
    return [*afresh, *([COMPARED] if compares_recursion(definition.kept) else [])]


WITHOUT_COLLATION = (
    "is stored as STRING, without its collation, since Iceberg has none: readers of the table "
    "compare its values byte by byte"
)


AFRESH = (
    "WITH RECURSIVE … UNION is only part of the query, so its rows are not stored: each refresh first "
    "computes what they were; a stream table of its own, read by this one, would follow the change "
    "alone"
)

COMPARED = (
    "WITH RECURSIVE … UNION ALL counts how often a row is derived: a change of the tables that it goes "
    "through computes it as it was before and as it is after; one of those that it starts from does not"
)


def check_mode(name: TableName, mode: RefreshMode, definition: Definition) -> None:
    """DIFFERENTIAL is strict: what is not incremental is refused, with every reason."""
    if mode is RefreshMode.DIFFERENTIAL and definition.obstacles:
        raise not_incremental(name, definition.obstacles)


def not_incremental(name: TableName, obstacles: Sequence[Obstacle]) -> NotIncremental:
    reasons = "\n".join(f"  {obstacle}" for obstacle in obstacles)
    return NotIncremental(
        f"{name} cannot be refreshed incrementally:\n{reasons}",
        hint="change the query, or use REFRESH MODE AUTO to recompute it in full",
    )

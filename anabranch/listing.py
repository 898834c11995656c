"""Listings: what status(), history(), cuts() and the system views show; catalog rows only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from anabranch.catalog import clusters as cluster_rows
from anabranch.catalog import cuts as cut_rows
from anabranch.catalog import events as event_rows
from anabranch.catalog import foreign as foreign_rows
from anabranch.catalog import history as history_rows
from anabranch.catalog import indexes as index_rows
from anabranch.catalog import lineage as lineage_rows
from anabranch.catalog import refresh_groups as group_rows
from anabranch.catalog import rounds as round_rows
from anabranch.catalog import streams
from anabranch.catalog import views as view_rows
from anabranch.catalog.bounds import bounds_of
from anabranch.catalog.groups import Group, all_groups
from anabranch.catalog.store import Connection, Store
from anabranch.catalog.streams import MONOTONE, StreamTable
from anabranch.catalog.tables import now as time_of
from anabranch.deploy.listing import listing as deployed
from anabranch.errors import UnknownName
from anabranch.graph.components import Component
from anabranch.graph.picture import Facts, Picture, picture
from anabranch.graph.policies import DEFAULT, SchedulePolicy, group_policy, said_policy
from anabranch.names import TableName
from anabranch.redaction import redacted_address, redacted_value
from anabranch.scheduler.listing import groups as group_rows_now
from anabranch.scheduler.listing import overview
from anabranch.settings import Settings
from anabranch.sql.analyze.lineage import Lineage
from anabranch.system_views import COLUMNS as COLUMNS

Rows = list[dict[str, Any]]


def status(store: Store, settings: Settings | None = None) -> Rows:
    """Every stream table, where it stands, and what holds it up."""
    given = settings or Settings()
    held = overview(store, given)
    now = held.state.moment
    with store.reading() as c:
        frontiers = streams.frontiers(c)
        found = streams.all_streams(c)
        groups = all_groups(c, found)
        rounds = history_rows.last_fixed_points(c)
    home = {name: group for group in groups for name in group.members}
    rows = [
        _status(stream, home[name], frontiers.get(name, {}), now) for name, stream in found.items()
    ]
    for row, name in zip(rows, found, strict=True):
        last = rounds.get(name) if row["scc_id"] is not None else None
        row["last_fixpoint_iterations"] = last["fixpoint_iterations"] if last else None
        if row["diamond_schedule_policy"] == DEFAULT:
            row["diamond_schedule_policy"] = given.diamond_schedule_policy
        row |= held.table(name) if name in held.state.streams else {}
    return rows


def _status(
    stream: StreamTable, group: Group, frontier: dict[TableName, int | None], now: datetime
) -> dict[str, Any]:
    refreshed = stream.last_refresh_at
    return {
        "name": str(stream.name),
        "kind": "stream table",
        "status": stream.status.value,
        "refresh_mode": stream.refresh_mode.value,
        "schedule": stream.schedule,
        "populated": stream.populated,
        "frontier": {str(source): snapshot for source, snapshot in sorted(frontier.items())},
        "last_refresh_at": refreshed,
        "staleness_seconds": (now - refreshed).total_seconds() if refreshed else None,
        "consecutive_errors": stream.consecutive_errors,
        "group_id": None if group.is_singleton else str(group.id),
        "scc_id": _component(stream.name, group),
        "last_error": stream.last_error,
        "epoch": group.epoch,
        "next_retry_at": stream.next_retry_at,
        "diamond_consistency": stream.diamond_consistency,
        "diamond_schedule_policy": stream.diamond_schedule_policy,
        "query": stream.query,
        "cut_id": stream.cut_id,
        "mixed_cuts": list(stream.options.get(streams.MIXED_CUTS, ())),
    }


def _component(name: TableName, group: Group) -> str | None:
    """The cyclic component that a table is in."""
    found = (part for part in group.components if name in part.members and part.cyclic)
    return next((str(part.id) for part in found), None)


def scc_status(store: Store, settings: Settings) -> Rows:
    """Components of stream tables that read each other in a cycle, how they last converged, and the
    bounds in force."""
    with store.reading() as c:
        found = streams.all_streams(c)
        groups = all_groups(c, found)
        rounds = history_rows.last_fixed_points(c)
    parts = [part for group in groups for part in group.components if part.cyclic]
    return [
        _scc(
            part,
            [rounds[name] for name in part.members if name in rounds],
            [found[name] for name in part.members],
            settings,
        )
        for part in parts
    ]


def _scc(
    part: Component[TableName],
    lines: Rows,
    members: Sequence[StreamTable],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    bounds = bounds_of(members, settings)
    newest = max(lines, key=lambda line: line["refresh_id"], default=None)
    return {
        "scc_id": str(part.id),
        "member_count": len(part.members),
        "members": [str(name) for name in part.members],
        "last_iterations": newest["fixpoint_iterations"] if newest else None,
        "last_converged_at": _ended(newest) if newest else None,
        # Checked when a member is declared and before the first round of every refresh.
        "is_monotone": all(each.options.get(MONOTONE, True) for each in members),
        "last_reason": newest["reason"] if newest else None,
        "max_fixpoint_iterations": bounds.rounds,
        "max_fixpoint_rows": bounds.rows or None,
        "max_fixpoint_time": bounds.seconds or None,
    }


def _ended(line: Mapping[str, Any]) -> datetime:
    ended: datetime = line["started_at"] + timedelta(milliseconds=line["duration_ms"])
    return ended


def groups(store: Store, settings: Settings | None = None) -> Rows:
    """Every consistency group: why it is one, when it is due, and what holds it up."""
    return group_rows_now(store, settings or Settings())


def diamond_groups(store: Store, settings: Settings | None = None) -> Rows:
    """The members of every consistency group of more than one table, upstreams first."""
    default = SchedulePolicy((settings or Settings()).diamond_schedule_policy)
    with store.reading() as c:
        found = streams.all_streams(c)
        groups = all_groups(c, found)
    return [
        {
            "group_id": str(group.id),
            "member": str(name),
            "is_convergence": name in group.convergence_points,
            "epoch": group.epoch,
            "schedule_policy": _policy(group, found, default).value,
        }
        for group in groups
        if not group.is_singleton
        for name in group.members
    ]


def _policy(
    group: Group, found: Mapping[TableName, StreamTable], default: SchedulePolicy
) -> SchedulePolicy:
    said = {name: said_policy(found[name].diamond_schedule_policy) for name in group.members}
    return group_policy(group, said, default)


def refresh_groups(store: Store) -> Rows:
    """The groups that users declared."""
    with store.reading() as c:
        found = group_rows.all_groups(c)
    return [
        {
            "group_name": group.name,
            "members": [str(each) for each in group.members],
            "isolation": group.isolation,
            "snapshot_timeout_ms": group.snapshot_timeout_ms,
            "created_at": group.created_at,
        }
        for group in found.values()
    ]


def clusters(store: Store) -> Rows:
    """Named Spark resources, and what is kept on them."""
    with store.reading() as c:
        found = cluster_rows.all_clusters(c)
        users = {name: cluster_rows.users(c, name) for name in found}
    return [
        {
            "cluster": each.name,
            "pool": each.pool,
            "address": redacted_address(each.address) if each.address else None,
            "settings": {k: redacted_value(k, value) for k, value in each.settings.items()},
            "used_by": users[each.name],
        }
        for each in found.values()
    ]


def indexes(store: Store) -> Rows:
    """The sorted copies of tables."""
    with store.reading() as c:
        found = index_rows.all_indexes(c)
    return [
        {
            "index": each.name,
            "table": str(each.table),
            "columns": list(each.columns),
            "cluster": each.cluster,
            "copy": str(each.copy),
        }
        for table in found.values()
        for each in table
    ]


def lineage(store: Store) -> Rows:
    """Where the columns of every stream table come from, one step up."""
    with store.reading() as c:
        kept = lineage_rows.lineage_of(c, streams.all_streams(c))
    return [
        {
            "table": str(name),
            "column": column,
            "source_table": str(ref.table),
            "source_column": ref.column,
            "kind": kind,
        }
        for name, record in sorted(kept.items())
        for found in [Lineage.read(record) if record is not None else Lineage()]
        for column, _ in found.columns
        for kind, ref in found.sources(column)
    ]


def catalogs(store: Store) -> Rows:
    """Attached catalogs; secrets are references, and shown as such."""
    with store.reading() as c:
        found, tables = foreign_rows.all_catalogs(c), foreign_rows.all_tables(c)
    return [
        {
            "catalog": each.name,
            "type": each.type,
            "properties": {
                key: redacted_value(key, value) for key, value in sorted(each.properties.items())
            },
            "tables": [
                str(name)
                for name, table in sorted(tables.items())
                if foreign_rows.catalog_of(name) == each.name and table.metadata_location
            ],
            "problem": each.problem,
            "problem_at": each.problem_at,
            "table_problems": {
                str(name): table.problem
                for name, table in sorted(tables.items())
                if foreign_rows.catalog_of(name) == each.name and table.problem
            },
            "attached_at": each.created_at,
        }
        for each in found.values()
    ]


def history(store: Store, name: TableName | None, limit: int | None = None) -> Rows:
    """Refreshes, newest first."""
    with store.reading() as c:
        return history_rows.listing(c, _as_kept(c, name, history_rows.tables_with_lines), limit)


def events(store: Store, name: TableName | None = None, limit: int | None = None) -> Rows:
    """What users should know of, newest first."""
    with store.reading() as c:
        return event_rows.listing(c, _as_kept(c, name, event_rows.tables_with_events), limit)


def upkeep(store: Store, limit: int | None = None) -> Rows:
    """Rounds of upkeep that did something, newest first."""
    with store.reading() as c:
        return round_rows.listing(c, limit)


def _as_kept(
    c: Connection, name: TableName | None, past: Callable[[Connection], set[TableName]]
) -> TableName | None:
    """A maintained table's name in its own letters; one that was dropped is known by what it left."""
    if name is None:
        return None
    known = streams.all_streams(c)
    copies = {index.copy for each in index_rows.all_indexes(c).values() for index in each}
    found = name.find_in({*known, *copies}) or name.find_in(past(c))
    if found is None:
        shown = [str(each) for each in known]
        raise UnknownName(f"there is no stream table {name}", name=str(name), known=shown)
    return found


def cuts(store: Store, limit: int | None = None) -> Rows:
    """Publishes, newest first."""
    with store.reading() as c:
        return cut_rows.listing(c, limit)


def deployments(store: Store) -> Rows:
    """What was staged, put in place and taken back, newest first."""
    return deployed(store)


def dependencies(store: Store) -> Rows:
    with store.reading() as c:
        found = streams.dependencies(c)
    return [
        {"table": str(name), "upstream": str(upstream)}
        for name, upstreams in found.items()
        for upstream in upstreams
    ]


def dependency_tree(store: Store, name: TableName) -> dict[str, Any]:
    """The table and what it reads, down to the sources; a cycle is followed once."""
    with store.reading() as c:
        reads, known = streams.dependencies(c), streams.all_streams(c)
        groups = all_groups(c, known)
    home = {each: group for group in groups for each in group.members}
    tables = {*home, *(up for ups in reads.values() for up in ups)}
    top = name.find_in(tables)
    if top is None:
        shown = [str(each) for each in tables]
        raise UnknownName(f"no stream table is or reads {name}", name=str(name), known=shown)

    def node(at: TableName, above: tuple[TableName, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": str(at),
            "kind": "stream table" if at in known else "source",
        }
        if at in home:
            found |= {
                "status": known[at].status.value,
                "group_id": None if home[at].is_singleton else str(home[at].id),
                "epoch": home[at].epoch,
                "scc_id": _component(at, home[at]),
            }
        below = () if at in above else reads.get(at, ())
        return {**found, "reads": [node(each, (*above, at)) for each in below]}

    return node(top, ())


def graph(store: Store, name: TableName | None = None) -> Picture:
    """Every table with its place, its group and where it stands; or the surroundings of one."""
    with store.reading() as c:
        now = time_of(c)
        reads, found = streams.dependencies(c), streams.all_streams(c)
        groups = all_groups(c, found)
        views = {str(each) for each in view_rows.all_views(c)}
    reads = {each: reads.get(each, ()) for each in found}
    whole = picture(
        {str(each): [str(up) for up in ups] for each, ups in reads.items()},
        {str(each): _facts(stream, now) for each, stream in found.items()},
        groups,
        views,
    )
    if name is None:
        return whole
    known = [each.name for each in whole.tables]
    kept = name.find_in([TableName.parse(each) for each in known])
    if kept is None:
        raise UnknownName(f"no stream table is or reads {name}", name=str(name), known=known)
    return whole.around(str(kept))


def _facts(stream: StreamTable, now: datetime) -> Facts:
    refreshed = stream.last_refresh_at
    return Facts(
        status=stream.status.value,
        refresh_mode=stream.refresh_mode.value,
        schedule=stream.schedule,
        staleness_seconds=(now - refreshed).total_seconds() if refreshed else None,
        last_error=stream.last_error,
    )


SYSTEM_VIEWS: dict[str, Callable[[Store, Settings], Rows]] = {
    "stream_tables": status,
    "refresh_history": lambda store, _: history(store, None),
    "dependencies": lambda store, _: dependencies(store),
    "deployments": lambda store, _: deployments(store),
    "groups": groups,
    "diamond_groups": diamond_groups,
    "scc_status": scc_status,
    "refresh_groups": lambda store, _: refresh_groups(store),
    "cuts": lambda store, _: cuts(store),
    "events": lambda store, _: events(store),
    "upkeep": lambda store, _: upkeep(store),
    "catalogs": lambda store, _: catalogs(store),
    "clusters": lambda store, _: clusters(store),
    "indexes": lambda store, _: indexes(store),
    "lineage": lambda store, _: lineage(store),
}

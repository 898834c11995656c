"""Dumped rows of a catalog, taken back to an older cut that they still record.

Tables and views become what the cut shows.  Definitions of stream tables, groups and clusters are kept
as they were dumped, for the catalog keeps no older ones but those that a roll-back would bring back;
what a stream table has read, and by which query, is told by its snapshot.  Whoever cannot be told, or
tells of another query, is recomputed by its next refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.cuts import table_name
from anabranch.catalog.indexes import COPY_OF, Index
from anabranch.catalog.taken_back import staging_suffixes, take_back
from anabranch.errors import InvalidValue
from anabranch.names import TableName

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Sources = Mapping[str, int | None]
# A snapshot by its table's id and its own; a version of which rows tell no more by its metadata file.
Key = tuple[str, int | None]
# By table and snapshot: the snapshots it was computed from, and the fingerprint of its query.
ComputedFrom = Callable[[str, int | None], tuple[Sources, str] | None]


OTHER_QUERY = "its rows at the cut are not known to come from the query that it has in the backup"
NO_READS = "its query in the backup reads {}, which the cut does not have"


@dataclass
class Rewound:
    """Rows, and what whoever restores them has to know.

    `stale`: stream tables that their next refresh recomputes, and why.  `undefined`: tables that were
    stream tables, whose queries the backup has not.  `ended`: deployments, and why.
    """

    rows: Rows
    stale: dict[str, str] = field(default_factory=dict)
    undefined: list[str] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)


def rewind(
    rows: Rows, cut_id: int, computed_from: Callable[[Mapping[str, Row]], ComputedFrom]
) -> Rewound:
    """The rows as of a cut; `computed_from` gets the versions at the cut and reads their snapshots."""
    check_recorded(rows, cut_id)
    (meta,) = rows["ab_meta"]
    if cut_id == meta["cut"]:
        return Rewound(rows)
    new = dict(rows)
    new["ab_meta"] = [{**meta, "cut": cut_id}]
    new["ab_cuts"] = [row for row in rows["ab_cuts"] if row["cut_id"] <= cut_id]
    for name in ("ab_versions", "ab_view_versions"):
        new[name] = [_open(row, cut_id) for row in rows[name] if row["cut_id"] <= cut_id]
    new["ab_history"] = [row for row in rows["ab_history"] if (row["cut_id"] or 0) <= cut_id]
    there = {*_shown_by(new), *(row["name"] for row in _views_of(new))}
    taken = take_back(new, cut_id, there)
    found = Rewound(taken.rows, ended=taken.ended)
    _forget_copies(found.rows)
    shown = _shown_by(found.rows)
    _rewind_tables(found.rows, rows, shown)
    _rewind_views(found.rows, rows)
    _rewind_streams(found, rows, shown, computed_from(shown), taken.returned)
    return found


def check_recorded(rows: Rows, cut_id: int) -> None:
    recorded = {row["cut_id"] for row in rows["ab_cuts"]}
    if cut_id not in recorded:
        raise InvalidValue(
            f"cut {cut_id} is not in the backup", hint=f"it knows {_shown(recorded)}"
        )


def cuts_with(rows: Rows, lost: Mapping[Key, str]) -> dict[int, str]:
    """The cuts that show something lost, and the file that each of them misses."""
    recorded = sorted(row["cut_id"] for row in rows["ab_cuts"])
    found: dict[int, str] = {}
    for row in rows["ab_versions"]:
        known = row.get("shape") is not None
        key = (row.get("table_uuid"), row["snapshot_id"]) if known else None
        path = lost.get(key or (row["metadata_location"], None))  # type: ignore[arg-type]
        if path is None:
            continue
        for cut_id in recorded:
            if row["cut_id"] <= cut_id and (row["until_cut"] is None or cut_id < row["until_cut"]):
                found.setdefault(cut_id, path)
    return found


def without_bases(rows: Rows, lost: Mapping[Key, str]) -> Rows:
    """Stream tables that stand on lost snapshots are recomputed by their next refresh."""
    gone = {snapshot_id for _, snapshot_id in lost if snapshot_id is not None}
    stands_on = (*rows["ab_inputs"], *rows["ab_frontiers"])
    names = {row["table_name"] for row in stands_on if row["snapshot_id"] in gone}
    new = dict(rows)
    new["ab_stream_tables"] = [
        {**row, "computed_from": None, "cut_id": None, "data_at": None}
        if row["name"] in names
        else row
        for row in rows["ab_stream_tables"]
    ]
    for table in ("ab_inputs", "ab_frontiers"):
        new[table] = [row for row in rows[table] if row["table_name"] not in names]
    return new


def _shown_by(rows: Rows) -> dict[str, Row]:
    """The tables that the newest cut in rows shows."""
    return {
        _name(row): row
        for row in rows["ab_versions"]
        if row["until_cut"] is None and row["metadata_location"] is not None
    }


def _views_of(rows: Rows) -> list[Row]:
    found = rows["ab_view_versions"]
    return [row for row in found if row["until_cut"] is None and row["query"] is not None]


def _forget_copies(rows: Rows) -> None:
    """Sorted copies for indexes that are not known would come back as source tables."""
    kept = {
        str(Index(TableName.parse(row["table_name"]), row["name"], ()).copy)
        for row in rows["ab_indexes"]
    }
    shapes = {row["id"]: row["record"] for row in rows.get("ab_shapes", ())}
    copies = {
        name
        for name, row in _shown_by(rows).items()
        if COPY_OF in (shapes.get(row.get("shape")) or {}).get("properties", {})
    }
    rows["ab_versions"] = [row for row in rows["ab_versions"] if _name(row) not in copies - kept]


def _rewind_tables(new: Rows, rows: Rows, shown: Mapping[str, Row]) -> None:
    others = [row for row in rows["iceberg_tables"] if row["catalog_name"] != "anabranch"]
    new["iceberg_tables"] = others + [
        {
            "catalog_name": "anabranch",
            "table_namespace": row["namespace"],
            "table_name": row["name"],
            "metadata_location": row["metadata_location"],
            "previous_metadata_location": None,
            "iceberg_type": "TABLE",
        }
        for row in shown.values()
    ]
    spaces = {row["namespace"] for row in shown.values()}
    dumped = rows["iceberg_namespace_properties"]
    known = {row["namespace"] for row in dumped}
    over = staging_suffixes(new)
    new["iceberg_namespace_properties"] = [
        row for row in dumped if not row["namespace"].endswith(over)
    ] + [
        {
            "catalog_name": "anabranch",
            "namespace": space,
            "property_key": "exists",
            "property_value": "true",
        }
        for space in sorted(spaces - known)
    ]


def _rewind_views(new: Rows, rows: Rows) -> None:
    made = {row["name"]: row["created_at"] for row in rows["ab_views"]}
    first = rows["ab_meta"][0]["created_at"]
    new["ab_views"] = [
        {
            "name": row["name"],
            "query": row["query"],
            "created_at": made.get(row["name"], first),
        }
        for row in _views_of(new)
    ]


def _rewind_streams(
    found: Rewound,
    rows: Rows,
    shown: Mapping[str, Row],
    computed_from: ComputedFrom,
    returned: Collection[str],
) -> None:
    """`returned`: tables whose definitions are those of the cut, since a deployment was taken back."""
    new, before = found.rows, _shown_by(rows)
    streams = [
        row
        for row in new["ab_stream_tables"]
        if row["name"] in shown
        and (row["name"] in returned or _is_stream(row["name"], shown, before, computed_from))
    ]
    names = {row["name"] for row in streams}
    new["ab_dependencies"] = [row for row in new["ab_dependencies"] if row["table_name"] in names]
    new["ab_stream_tables"], new["ab_inputs"], new["ab_frontiers"] = [], [], []
    for row in streams:
        name, at = row["name"], shown[row["name"]]["snapshot_id"]
        read = computed_from(name, at)
        frontier = (
            _frontier(name, at, computed_from, names.__contains__) if read is not None else None
        )
        if read is None or frontier is None or read[1] != row["fingerprint"]:
            new["ab_stream_tables"].append(
                {**row, "computed_from": None, "cut_id": None, "data_at": None}
            )
            found.stale[name] = OTHER_QUERY
            continue
        new["ab_stream_tables"].append({**row, "cut_id": None, "data_at": None, "last_error": None})
        new["ab_inputs"] += [
            _input(name, source, snapshot, shown) for source, snapshot in read[0].items()
        ]
        new["ab_inputs"].append(_input(name, name, at, shown))
        new["ab_frontiers"] += [
            {"table_name": name, "source": source, "snapshot_id": snapshot}
            for source, snapshot in frontier.items()
        ]
    new["ab_indexes"] = [row for row in new["ab_indexes"] if row["table_name"] in shown]
    new["ab_refresh_groups"] = [
        row for row in rows["ab_refresh_groups"] if set(row["members"]) <= names
    ]
    _say_what_lacks(found, shown, names, computed_from)


def _is_stream(
    name: str, shown: Mapping[str, Row], before: Mapping[str, Row], computed_from: ComputedFrom
) -> bool:
    """Whether a stream table of the backup was one at the cut: a source table may have had its name."""
    at, now = shown[name], before.get(name)
    same = now is None or at.get("table_uuid") == now.get("table_uuid")
    return same or at["snapshot_id"] is None or computed_from(name, at["snapshot_id"]) is not None


def _say_what_lacks(
    found: Rewound, shown: Mapping[str, Row], names: Collection[str], computed_from: ComputedFrom
) -> None:
    there = {*shown, *(row["name"] for row in found.rows["ab_views"])}
    for row in found.rows["ab_dependencies"]:
        if row["upstream"] not in there:
            found.stale[row["table_name"]] = NO_READS.format(row["upstream"])
    found.undefined = sorted(
        name
        for name, row in shown.items()
        if name not in names and computed_from(name, row["snapshot_id"]) is not None
    )


def _input(name: str, source: str, snapshot: int | None, shown: Mapping[str, Row]) -> Row:
    """What was read; a source that has moved on since is not where it was."""
    version = shown.get(source)
    same = version is not None and version["snapshot_id"] == snapshot
    location = version["metadata_location"] if version is not None and same else None
    return {
        "table_name": name,
        "source": source,
        "metadata_location": location,
        "snapshot_id": snapshot,
    }


def _frontier(
    name: str, at: int | None, computed_from: ComputedFrom, is_stream: Callable[[str], bool]
) -> dict[str, int | None] | None:
    """The base snapshots below a table; None when they are not told, or not one for each."""
    read = computed_from(name, at)
    if read is None:
        return None
    found: dict[str, int | None] = {}
    for source, snapshot in read[0].items():
        below = (
            _frontier(source, snapshot, computed_from, is_stream)
            if is_stream(source) and source != name
            else {source: snapshot}
        )
        if below is None or any(found.get(key, value) != value for key, value in below.items()):
            return None
        found |= below
    return found


def _open(row: Row, cut_id: int) -> Row:
    ended = row["until_cut"]
    return {**row, "until_cut": None} if ended is not None and ended > cut_id else row


def _name(row: Row) -> str:
    return str(table_name(row["namespace"], row["name"]))


def _shown(cut_ids: set[int]) -> str:
    found = sorted(cut_ids)
    return f"cuts {found[0]} to {found[-1]}" if found else "no cut"

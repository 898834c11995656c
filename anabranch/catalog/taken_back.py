"""Deployments in dumped rows, taken back to an older cut.

What was promoted after the cut is not in place there: its undo gives the definitions that were.  What
was being staged at the cut can be used if all of it is there; otherwise it ends, with its tables, for
without their definitions they would come back as source tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anabranch.catalog.deployments import OPEN, DeploymentStatus
from anabranch.names import TableName

Row = dict[str, Any]
Rows = dict[str, list[Row]]
LATER = "it was promoted after the cut"
UNFINISHED = "not all of it was staged at the cut"
MOVED = "another deployment was promoted or rolled back after the cut"


@dataclass
class TakenBack:
    """Rows without what came later; why deployments ended, and tables that had their undo."""

    rows: Rows
    ended: dict[str, str] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)


def unowned(rows: Rows) -> Rows:
    """The process that stages a deployment is at work in the catalog of the backup, not here."""
    return {**rows, "ab_deployments": [{**row, "expires_at": None} for row in _deployments(rows)]}


def take_back(rows: Rows, cut_id: int, visible: Iterable[str]) -> TakenBack:
    """Deployments as of a cut; `visible` are the tables and views that it shows."""
    taken = TakenBack(dict(rows))
    published = next(row["published_at"] for row in rows["ab_cuts"] if row["cut_id"] == cut_id)
    moved = _undo_later(taken, cut_id) or _rolled_back_since(rows, published)
    shown, open_statuses = set(visible), {each.value for each in OPEN}
    deployments = []
    for row in _deployments(taken.rows):
        if row["status"] in open_statuses:
            whole = row["status"] == DeploymentStatus.STAGED.value and _staged(row) <= shown
            if moved or not whole:
                taken.ended[row["id"]] = UNFINISHED if not whole else MOVED
                row = _aborted(row, published)
        deployments.append({**row, "undo": None})
    taken.rows["ab_deployments"] = deployments
    _forget_staged(taken.rows)
    return taken


def staging_suffixes(rows: Rows) -> tuple[str, ...]:
    """The ends of schemas that deployments were staged in which are not open any more."""
    open_statuses = {each.value for each in OPEN}
    over = (row["id"] for row in _deployments(rows) if row["status"] not in open_statuses)
    return tuple(f"__{id_}" for id_ in over)


def _undo_later(taken: TakenBack, cut_id: int) -> bool:
    """The newest first, as a user would roll them back."""
    promoted = DeploymentStatus.PROMOTED.value
    later = [
        row
        for row in _deployments(taken.rows)
        if row["status"] == promoted and (row["cut_id"] or 0) > cut_id
    ]
    for row in sorted(later, key=lambda each: int(each["cut_id"]), reverse=True):
        if row["undo"]:  # else its definitions are all that is known, and stay
            _undo(taken, row["undo"], row["created_at"])
            taken.ended[row["id"]] = LATER
    taken.rows["ab_deployments"] = [
        _aborted(row, row["finished_at"]) if row["id"] in taken.ended else row
        for row in _deployments(taken.rows)
    ]
    return bool(later)


def _undo(target: TakenBack, undo: Mapping[str, Any], at: str) -> None:
    """Definitions, options, indexes and records become what they were before the promote."""
    rows, names = target.rows, {*undo["pointers"]}
    target.returned |= {row["name"] for row in undo["rows"]["streams"]}
    taken = {
        "ab_stream_tables": ("streams", "name"),
        "ab_dependencies": ("dependencies", "table_name"),
    }
    for table, (kind, owner) in taken.items():
        kept = [row for row in rows[table] if row[owner] not in names]
        rows[table] = [*kept, *undo["rows"][kind]]
    options = {
        **undo["metadata"],
        **{row["name"]: _readmitted(row) for row in undo.get("readers", ())},
    }
    rows["ab_stream_tables"] = [
        {**row, **options.get(row["name"], {})} for row in rows["ab_stream_tables"]
    ]
    rows["ab_indexes"] = [
        row for row in rows["ab_indexes"] if row["table_name"] not in undo["indexes"]
    ]
    rows["ab_indexes"] += [
        {
            "table_name": table,
            "name": name,
            "columns": columns,
            "cluster": cluster,
            "created_at": at,
        }
        for table, recorded in undo["indexes"].items()
        for name, columns, cluster in recorded
    ]
    keys = {tuple(key) for key in undo["keys"]}
    kept = [row for row in rows["ab_deployed"] if _key(row) not in keys]
    rows["ab_deployed"] = [*kept, *undo["deployed"]]
    before: dict[tuple[str, ...], str] = {(*place,): id_ for *place, id_ in undo["schemas"]}
    rows["ab_deployed_schemas"] = [
        {**row, "deployment_id": before.get(_key(row), row["deployment_id"])}
        for row in rows["ab_deployed_schemas"]
    ]


def _readmitted(reader: Mapping[str, Any]) -> Row:
    """A reader outside of the project that the promote suspended."""
    return {key: reader[key] for key in ("status", "last_error", "diamond_consistency")}


def _rolled_back_since(rows: Rows, published: str) -> bool:
    rolled_back = DeploymentStatus.ROLLED_BACK.value
    return any(
        row["status"] == rolled_back
        and datetime.fromisoformat(row["finished_at"]) > datetime.fromisoformat(published)
        for row in _deployments(rows)
    )


def _staged(row: Row) -> set[str]:
    """The tables and views that a deployment builds, by their staging names."""
    built = [step["parts"] for step in row["plan"]["steps"] if step["action"] == "build"]
    return {
        str(TableName((database, f"{schema}__{row['id']}"), name))
        for database, schema, name in built
    }


def _aborted(row: Row, at: str | None) -> Row:
    return {**row, "status": DeploymentStatus.ABORTED.value, "finished_at": at, "cut_id": None}


def _forget_staged(rows: Rows) -> None:
    """No cut shows what was staged by deployments that are over."""
    over = staging_suffixes(rows)
    rows["ab_versions"] = [
        row for row in rows["ab_versions"] if not row["namespace"].endswith(over)
    ]
    rows["ab_view_versions"] = [
        row
        for row in rows["ab_view_versions"]
        if not TableName.parse(row["name"]).namespace[-1].endswith(over)
    ]


def _deployments(rows: Rows) -> list[Row]:
    return rows.get("ab_deployments", [])  # a backup of an older Anabranch may have none


def _key(row: Row) -> tuple[str, ...]:
    return tuple(
        row[part] for part in ("database_name", "schema_name", "object_name") if part in row
    )

"""Views as Iceberg has them: metadata with versions, texts in dialects, and columns.

Our own catalog keeps a view as one text.  Its metadata are kept beside the text they were made for, and
hold only as long as it is the view's text: whoever changes the text need not know of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema

from anabranch.catalog import tables
from anabranch.catalog.views import View
from anabranch.errors import AnabranchError
from anabranch.lake.schemas import schema_of
from anabranch.lake.types import columns_of
from anabranch.model import Columns
from anabranch.names import DEFAULT_SCHEMA

Metadata = Mapping[str, Any]
DIALECT = "spark"
KEPT_VERSIONS = 10
KEEP_VERSIONS = "version.history.num-entries"
LAST_ADDED = -1
_OURS = {"engine-name": "anabranch"}


def metadata_of(view: View) -> Metadata | None:
    """The metadata of a view; None if they are not known, or were made for another text."""
    record = view.iceberg
    if record is None or record.get("query") != view.query:
        return None
    found: Metadata = record["metadata"]
    return found


def record_of(query: str, metadata: Metadata) -> dict[str, Any]:
    """What is kept beside the text of a view."""
    return {"query": query, "metadata": dict(metadata)}


def described(before: Metadata | None, query: str, columns: Columns, location: str) -> Metadata:
    """The metadata of a view that our own SQL makes, or gives another query."""
    schema = schema_of(columns).model_dump(mode="json", by_alias=True, exclude_none=True)
    version = {
        "version-id": 1,
        "schema-id": LAST_ADDED,
        "timestamp-ms": now_ms(),
        "summary": dict(_OURS),
        "default-namespace": [DEFAULT_SCHEMA],
        "representations": [{"type": "sql", "sql": query, "dialect": DIALECT}],
    }
    updates: list[Mapping[str, Any]] = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
    ]
    return updated(before or empty(location), updates)


def empty(location: str) -> Metadata:
    return {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "schemas": [],
        "versions": [],
        "version-log": [],
        "properties": {},
    }


def text_in(metadata: Metadata) -> tuple[str, Mapping[str, Any]] | None:
    """The text in Spark's dialect, and the version that it belongs to."""
    version = current_version(metadata)
    for each in version["representations"]:
        if each.get("type", "sql") == "sql" and each["dialect"].lower() == DIALECT:
            return str(each["sql"]), version
    return None


def current_version(metadata: Metadata) -> Mapping[str, Any]:
    wanted = metadata["current-version-id"]
    found: Mapping[str, Any] = next(v for v in metadata["versions"] if v["version-id"] == wanted)
    return found


def columns_in(metadata: Metadata) -> Columns | None:
    """The columns of a view in our types; None if it has one that we do not know."""
    wanted = current_version(metadata)["schema-id"]
    schema = next(each for each in metadata["schemas"] if each["schema-id"] == wanted)
    try:
        return columns_of(Schema.model_validate(schema).as_struct())
    except (AnabranchError, ValueError):
        return None


def updated(metadata: Metadata, updates: Sequence[Mapping[str, Any]]) -> Metadata:
    """The metadata after the updates of a commit, as Iceberg's own server applies them.

    KeyError, ValueError: an update that is of no known form, or names what is not there.
    """
    new: dict[str, Any] = {
        **metadata,
        "properties": dict(metadata["properties"]),
        "schemas": list(metadata["schemas"]),
        "versions": list(metadata["versions"]),
        "version-log": list(metadata["version-log"]),
    }
    schema_ids: dict[int, int] = {}  # ids of schemas: the client's, and here
    last_schema = last_version = None
    for update in updates:
        match update["action"]:
            case "assign-uuid":
                new["view-uuid"] = update["uuid"]
            case "upgrade-format-version":
                if update["format-version"] != new["format-version"]:
                    raise ValueError(f"unknown format version {update['format-version']}")
            case "set-location":
                new["location"] = update["location"]
            case "set-properties":
                new["properties"].update(update["updates"])
            case "remove-properties":
                for key in update["removals"]:
                    new["properties"].pop(key, None)
            case "add-schema":
                schema = update["schema"]
                last_schema = _add_schema(new["schemas"], schema)
                schema_ids[schema.get("schema-id", 0)] = last_schema
            case "add-view-version":
                version = dict(update["view-version"])
                wanted = version["schema-id"]
                known = last_schema if wanted == LAST_ADDED else schema_ids.get(wanted, wanted)
                if known not in {each["schema-id"] for each in new["schemas"]}:
                    raise ValueError(f"there is no schema {wanted}")
                last_version = _add_version(new["versions"], {**version, "schema-id": known})
            case "set-current-view-version":
                chosen = update["view-version-id"]
                chosen = last_version if chosen == LAST_ADDED else chosen
                _make_current(new, chosen, new=chosen == last_version)
            case action:
                raise ValueError(f"unknown update {action!r}")
    _forget_old_versions(new)
    return new


def _add_schema(schemas: list[Mapping[str, Any]], schema: Mapping[str, Any]) -> int:
    """The id of an equal schema, or the next."""
    wanted = Schema.model_validate(schema)
    for each in schemas:
        known = Schema.model_validate(each)
        if known.as_struct() == wanted.as_struct():
            return int(each["schema-id"])
    made = max((int(each["schema-id"]) for each in schemas), default=-1) + 1
    schemas.append({**schema, "schema-id": made})
    return made


def _add_version(versions: list[Mapping[str, Any]], version: dict[str, Any]) -> int:
    """The id of a version that says the same, or the next."""
    for each in versions:
        if _said(each) == _said(version):
            return int(each["version-id"])
    dialects = [each["dialect"].lower() for each in version["representations"]]
    for each in dialects:
        if dialects.count(each) > 1:
            raise ValueError(
                f"Invalid view version: Cannot add multiple queries for dialect {each}"
            )
    known = [int(each["version-id"]) for each in versions]
    made = max([version["version-id"], *(each + 1 for each in known)])
    versions.append({**version, "version-id": made})
    return int(made)


def _said(version: Mapping[str, Any]) -> dict[str, Any]:
    other = ("version-id", "timestamp-ms")
    return {key: value for key, value in version.items() if key not in other and value is not None}


def _make_current(metadata: dict[str, Any], chosen: int | None, *, new: bool) -> None:
    version = next((each for each in metadata["versions"] if each["version-id"] == chosen), None)
    if version is None:
        raise ValueError(f"there is no version {chosen}")
    if metadata.get("current-version-id") == chosen:
        return
    metadata["current-version-id"] = chosen
    at = version["timestamp-ms"] if new else now_ms()
    metadata["version-log"].append({"version-id": chosen, "timestamp-ms": at})


def _forget_old_versions(metadata: dict[str, Any]) -> None:
    most = max(1, int(metadata["properties"].get(KEEP_VERSIONS, KEPT_VERSIONS)))
    current = metadata.get("current-version-id")
    others = [each for each in metadata["versions"] if each["version-id"] != current]
    gone = {each["version-id"] for each in others[: max(0, len(others) + 1 - most)]}
    if gone:
        metadata["versions"] = [
            each for each in metadata["versions"] if each["version-id"] not in gone
        ]
        log = metadata["version-log"]
        last = max(at for at, each in enumerate(log) if each["version-id"] in gone)
        metadata["version-log"] = log[last + 1 :]


def now_ms() -> int:
    return int(tables.now().timestamp() * 1000)

"""Comments of a table and its columns, kept where every reader of Iceberg finds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    update_table_metadata,
)

from anabranch.lake.schemas import find_field, with_fields
from anabranch.names import TableName

TABLE = ""  # stands for the table itself among the names of its columns
PROPERTY = "comment"  # the table property that Spark, Trino and Flink show

Comments = Mapping[str, str | None]  # None takes a comment away


def comments_of(metadata: TableMetadata) -> dict[str, str]:
    said = {each.name: each.doc for each in metadata.schema().fields if each.doc}
    about = metadata.properties.get(PROPERTY)
    return {TABLE: about, **said} if about else said


def exactly(wanted: Mapping[str, str], existing: Iterable[str]) -> Comments:
    """What makes comments into `wanted` where `existing` are some already."""
    return {**dict.fromkeys(existing), **wanted}


def commented(metadata: TableMetadata, table: TableName, comments: Comments) -> TableMetadata:
    """Metadata with other comments; the very same if all of them are there already."""
    fields = list(metadata.schema().fields)
    for name, text in comments.items():
        if name != TABLE:
            at = find_field(table, fields, name)
            fields[at] = fields[at].model_copy(update={"doc": text or None})
    before = [each.doc for each in metadata.schema().fields]
    if [each.doc for each in fields] != before:
        metadata = with_fields(metadata, fields)
    about = comments.get(TABLE) or None
    if TABLE not in comments or metadata.properties.get(PROPERTY) == about:
        return metadata
    update = (
        SetPropertiesUpdate(updates={PROPERTY: about})
        if about is not None
        else RemovePropertiesUpdate(removals=[PROPERTY])
    )
    return update_table_metadata(metadata, (update,))

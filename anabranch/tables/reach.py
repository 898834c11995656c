"""Which files a MERGE can touch: keys of its source lie between a least and a greatest one.

Only columns by which the files of the target differ are looked at; one small query finds the ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.lake.version import TableVersion
from anabranch.model import Bound
from anabranch.names import quote
from anabranch.spark.errors import translated
from anabranch.sql.lower.prune import equal_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KINDS = {
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "date": "date",
}


def reach(
    version: TableVersion, source: DataFrame, on: str, alias: str, source_alias: str
) -> tuple[Bound, ...]:
    """Bounds that every row of the target meets which some row of the source meets."""
    types = {field.name.lower(): field.dataType.simpleString() for field in source.schema}
    equal = equal_columns(on, alias, source_alias)
    keys = {
        column.name: equal[column.name.lower()]
        for column in version.columns
        if column.name.lower() in equal
        and (kind := version.kind(column.name)) is not None
        and kind == _KINDS.get(types.get(equal[column.name.lower()].lower(), ""))
        and version.lies_together(column.name)
    }
    if not keys:
        return ()
    wanted = [(column, op) for column in keys for op in (">=", "<=")]
    least_and_greatest = [f"{end}({quote(key)})" for key in keys.values() for end in ("min", "max")]
    with translated():
        (ends,) = source.selectExpr(*least_and_greatest).collect()
    return tuple(
        Bound(column, op, (end,))
        for (column, op), end in zip(wanted, ends, strict=True)
        if end is not None
    )

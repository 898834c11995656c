"""Rows that the driver has, such as listings, as a frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def rows_frame(
    session: SparkSession, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> DataFrame:
    """`columns` gives names and types; lists and mappings are shown as JSON text."""
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())
    data = [tuple(_plain(row.get(name)) for name in columns) for row in rows]
    return session.createDataFrame(data, schema)


def _plain(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, (list, dict, tuple)) else value

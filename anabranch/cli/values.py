"""How a value of a table is written for people, and exactly as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def shown(value: object) -> str:
    """One cell of a table; NULL is the caller's to mark."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (bytes, bytearray)):
        return "0x" + value.hex()
    if isinstance(value, (Mapping, list, tuple)):
        return dumps(value)
    return str(value)


def dumps(value: Any) -> str:
    """JSON with every digit of a decimal kept, which the json module cannot do."""
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else json.dumps(str(value))
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else json.dumps(str(value))
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value, ensure_ascii=False)
    if hasattr(value, "asDict"):  # a Spark row, also inside another
        value = value.asDict()
    if isinstance(value, Mapping):
        pairs = (
            f"{json.dumps(_key(name), ensure_ascii=False)}: {dumps(one)}"
            for name, one in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ", ".join(dumps(one) for one in value) + "]"
    if isinstance(value, (date, datetime)):
        return json.dumps(value.isoformat())
    return json.dumps(shown(value), ensure_ascii=False)


def _key(name: object) -> str:
    return name if isinstance(name, str) else shown(name)

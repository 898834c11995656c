"""Another program at work in the same catalog: PyIceberg alone, which knows nothing of cuts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from anabranch import Anabranch
from anabranch.catalog.store import parse_url


@contextmanager
def foreign(ab: Anabranch) -> Iterator[SqlCatalog]:
    address = parse_url(ab._settings.catalog).render_as_string(hide_password=False)
    with closing(SqlCatalog("anabranch", uri=address)) as catalog:
        yield catalog


def append(ab: Anabranch, name: str, *rows: tuple[Any, ...]) -> None:
    """Rows into a table, as another program commits them."""
    with foreign(ab) as catalog:
        table = catalog.load_table(tuple(name.split(".")))
        schema = table.schema().as_arrow()
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        table.append(pa.Table.from_arrays(arrays, schema=schema))

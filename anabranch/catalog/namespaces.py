"""Namespaces: those that were made, with their properties, and those that tables and views lie in.

Iceberg's JdbcCatalog keeps them in the same table, and marks one without properties by `exists`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, delete, insert, select

from anabranch.catalog import tables
from anabranch.names import TableName

Namespace = tuple[str, ...]
MARK = "exists"  # the property of a namespace that has no other


def recorded(c: Connection, catalog: str) -> set[Namespace]:
    """Namespaces that were made; one goes on when its last table is dropped."""
    table = tables.iceberg_namespaces
    rows = c.execute(
        select(table.c.namespace).where(table.c.catalog_name == catalog).distinct()
    ).scalars()
    return {tuple(each.split(".")) for each in rows}


def with_parents(namespaces: Collection[Namespace]) -> set[Namespace]:
    """Namespaces and those that they lie in."""
    return {each[:depth] for each in namespaces for depth in range(1, len(each) + 1)}


def of_names(names: Collection[TableName]) -> set[Namespace]:
    return {name.namespace for name in names}


def properties(c: Connection, catalog: str, namespace: Namespace) -> dict[str, str]:
    table = tables.iceberg_namespaces
    rows = c.execute(
        select(table.c.property_key, table.c.property_value).where(
            table.c.catalog_name == catalog, table.c.namespace == ".".join(namespace)
        )
    )
    return {key: value for key, value in rows if key != MARK}


def create(c: Connection, catalog: str, namespace: Namespace, values: Mapping[str, str]) -> None:
    set_properties(c, catalog, namespace, {MARK: "true", **values})


def set_properties(
    c: Connection, catalog: str, namespace: Namespace, values: Mapping[str, str]
) -> None:
    """Set some properties; those with other names stay."""
    remove_properties(c, catalog, namespace, values)
    rows = [
        {
            "catalog_name": catalog,
            "namespace": ".".join(namespace),
            "property_key": key,
            "property_value": value,
        }
        for key, value in values.items()
    ]
    if rows:
        c.execute(insert(tables.iceberg_namespaces), rows)


def remove_properties(
    c: Connection, catalog: str, namespace: Namespace, keys: Collection[str]
) -> None:
    table = tables.iceberg_namespaces
    c.execute(
        delete(table).where(
            table.c.catalog_name == catalog,
            table.c.namespace == ".".join(namespace),
            table.c.property_key.in_(sorted(keys)),
        )
    )


def drop(c: Connection, catalog: str, namespace: Namespace) -> None:
    table = tables.iceberg_namespaces
    c.execute(
        delete(table).where(
            table.c.catalog_name == catalog, table.c.namespace == ".".join(namespace)
        )
    )

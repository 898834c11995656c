"""Verbs that only look at rows of the catalog: none of them loads Spark or Iceberg."""

from __future__ import annotations

from typing import Any

from anabranch import listing
from anabranch.catalog import grants as roles
from anabranch.deploy import listing as deployment_rows
from anabranch.graph.picture import Picture
from anabranch.names import TableName
from anabranch.session import Session, uncompared

Rows = list[dict[str, Any]]


def named(name: str | None) -> TableName | None:
    return None if name is None else TableName.parse(name)


@uncompared
def status(session: Session) -> Rows:
    return listing.status(session.store, session.settings)


@uncompared
def history(session: Session, name: str | None = None, limit: int | None = None) -> Rows:
    return listing.history(session.store, named(name), limit)


@uncompared
def events(session: Session, name: str | None = None, limit: int | None = None) -> Rows:
    return listing.events(session.store, named(name), limit)


@uncompared
def upkeep(session: Session, limit: int | None = None) -> Rows:
    return listing.upkeep(session.store, limit)


@uncompared
def cuts(session: Session, limit: int | None = None) -> Rows:
    return listing.cuts(session.store, limit)


@uncompared
def catalogs(session: Session) -> Rows:
    return listing.catalogs(session.store)


@uncompared
def clusters(session: Session) -> Rows:
    return listing.clusters(session.store)


@uncompared
def indexes(session: Session) -> Rows:
    return listing.indexes(session.store)


@uncompared
def groups(session: Session) -> Rows:
    return listing.groups(session.store, session.settings)


@uncompared
def diamond_groups(session: Session) -> Rows:
    return listing.diamond_groups(session.store, session.settings)


@uncompared
def scc_status(session: Session) -> Rows:
    return listing.scc_status(session.store, session.settings)


@uncompared
def refresh_groups(session: Session) -> Rows:
    return listing.refresh_groups(session.store)


@uncompared
def dependency_tree(session: Session, name: str) -> dict[str, Any]:
    return listing.dependency_tree(session.store, TableName.parse(name))


@uncompared
def graph(session: Session, name: str | None = None) -> Picture:
    return listing.graph(session.store, named(name))


@uncompared
def deployments(session: Session) -> Rows:
    return deployment_rows.listing(session.store)


def settings(session: Session) -> Rows:
    return list(session.settings.rows())


def change_setting(session: Session, name: str, value: Any) -> None:
    session.settings = session.settings.with_(name, value)


def grants(
    session: Session, prefix: str = "anabranch_", schema: str = "public"
) -> dict[str, list[str]]:
    return roles.grants(prefix, schema)

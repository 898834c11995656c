"""Indexes of a deployment: the copies of staged tables flip with their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.catalog.indexes import Index
from anabranch.deploy.snapshot import SnapshotObject
from anabranch.errors import AnabranchError
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Transaction
from anabranch.tables.indexes import sortable

Indexes = Mapping[TableName, tuple[Index, ...]]


def wanted(
    each: SnapshotObject, tx: Transaction, by_hand: Iterable[Index] = ()
) -> tuple[Index, ...]:
    """The indexes that an object shall have in production: its own, and those that people made as long
    as it has their columns."""
    theirs = tuple(by_hand)
    if not each.indexes and not theirs:
        return ()
    table = each.key.table
    columns = tx.world.version(table).columns
    own = [
        Index(table, fact.name, sortable(columns, fact.columns, table), fact.cluster)
        for fact in each.indexes
    ]
    own += [index for index in theirs if _fits(index, columns)]
    return tuple(sorted(own, key=lambda index: index.name))


def _fits(index: Index, columns: Columns) -> bool:
    try:
        return sortable(columns, index.columns, index.table) == index.columns
    except AnabranchError:
        return False


def adopt(tx: Transaction, seen: CatalogState, staged: TableName, indexes: Iterable[Index]) -> None:
    """Copies that were built beside production become those of production."""
    for index in indexes:
        copy = Index(staged, index.name, index.columns).copy
        if copy in seen.pointers:
            tx.stage.adopt(index.copy, seen.pointers[copy])
            tx.stage.drop(copy)

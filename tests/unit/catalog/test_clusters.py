"""Rows of clusters and indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import clusters as verbs
from anabranch.catalog import clusters, streams
from anabranch.catalog.clusters import Cluster
from anabranch.catalog.indexes import Index, all_indexes, set_indexes
from anabranch.catalog.store import Store
from anabranch.catalog.streams import StreamTable
from anabranch.errors import AlreadyExists, Refused, UnknownName
from anabranch.names import TableName

TABLE = TableName.of("my shop", "a.b")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "catalog.db")
    yield opened
    opened.close()


def test_a_cluster_is_made_replaced_and_dropped(store: Store) -> None:
    fast = Cluster("fast", "quick", None, {"weight": "2"})
    verbs.create(store, fast)
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE CLUSTER"):
        verbs.create(store, Cluster("fast"))
    verbs.create(store, Cluster("fast"), if_not_exists=True)
    with store.reading() as c:
        assert clusters.all_clusters(c) == {"fast": fast}
    far = Cluster("fast", None, "sc://host", {})
    verbs.create(store, far, or_replace=True)
    with store.reading() as c:
        assert clusters.all_clusters(c) == {"fast": far}
    assert verbs.known(store, "fast") == "fast" and verbs.known(store, None) is None
    with pytest.raises(UnknownName, match='did you mean "fast"'):
        verbs.known(store, "fats")
    verbs.drop(store, "fast")
    verbs.drop(store, "fast", if_exists=True)
    with pytest.raises(UnknownName):
        verbs.drop(store, "fast")


def test_a_cluster_in_use_stays(store: Store) -> None:
    verbs.create(store, Cluster("fast", "fast"))
    with store.writing() as c:
        streams.add(c, [StreamTable(TABLE, "SELECT 1", "", cluster="fast")])
        set_indexes(c, TABLE, [Index(TABLE, "i", ("x",), "fast")])
        assert streams.all_streams(c)[TABLE].cluster == "fast"
    with pytest.raises(Refused, match=r"used by `my shop`.`a.b`, index i of `my shop`.`a.b`"):
        verbs.drop(store, "fast")


def test_indexes_of_a_table_are_replaced_together(store: Store) -> None:
    first, second = Index(TABLE, "i", ("x", "y")), Index(TABLE, "j", ("z",), "c")
    assert str(first.copy) == "`my shop`.`a.b__i`"
    with store.writing() as c:
        set_indexes(c, TABLE, [first, second])
        assert all_indexes(c) == {TABLE: (first, second)}
        set_indexes(c, TABLE, [second])
        assert all_indexes(c) == {TABLE: (second,)}
        set_indexes(c, TABLE, [])
        assert all_indexes(c) == {}


def test_pools_with_weights_are_told_to_spark(store: Store) -> None:
    verbs.create(store, Cluster("plain", "plain"))
    assert verbs.pools_at_start(store) == {}
    verbs.create(store, Cluster("fast", "quick", None, {"weight": "2"}))
    (path,) = verbs.pools_at_start(store).values()
    Path(path.removeprefix("file://")).unlink()

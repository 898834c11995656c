"""Where work runs, and what Spark is told of its pools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from anabranch.errors import Refused
from anabranch.spark.clusters import ALLOCATION, allocation_conf, at_home
from anabranch.spark.session import Spark


def test_weights_and_shares_are_told_when_spark_starts() -> None:
    conf = allocation_conf({"fast": {"weight": "3", "min_share": "2"}, "plain": {}})
    path = Path(urlsplit(conf[ALLOCATION]).path)
    found = {
        pool.attrib["name"]: [part.text for part in pool]
        for pool in ElementTree.parse(path).getroot()
    }
    path.unlink()
    assert found == {"fast": ["FAIR", "3", "2"], "plain": ["FAIR", "1", "0"]}


def test_plain_pools_need_not_be_told() -> None:
    assert allocation_conf({"plain": {}}) == {}
    assert allocation_conf({}) == {}


class Remote:
    """As much of a Connect session as is asked for."""

    __module__ = "pyspark.sql.connect.session"

    class conf:
        getAll: Mapping[str, str] = {}

        @staticmethod
        def set(name: str, value: str) -> None: ...

        @staticmethod
        def get(name: str, default: str = "") -> str:
            return default

    def stop(self) -> None: ...


def test_a_server_is_reached_from_a_session_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def start(settings: Any) -> Any:
        asked.append(dict(settings))
        return Remote()

    monkeypatch.setattr("anabranch.spark.session.start", start)
    spark = Spark({"spark.remote": "sc://here", "cluster_hosts": ("there",)}, cast("Any", Remote()))
    conf = {"spark.sql.shuffle.partitions": "8"}
    with (
        at_home(spark, None, "sc://there", conf) as other,
        at_home(spark, None, "sc://there", conf) as again,
    ):
        assert other is again and other is not spark
        _ = other.session
    assert asked[0]["spark.remote"] == "sc://there"
    assert asked[0]["spark.conf.spark.sql.shuffle.partitions"] == "8"
    with at_home(spark, None, None, {}) as same:
        assert same is spark


def test_a_server_cannot_be_reached_from_a_spark_of_our_own(spark: Spark) -> None:
    with pytest.raises(Refused, match=r"this process runs Spark itself\nhint: set spark.remote"):
        spark.at("sc://there", {})


def test_jobs_run_in_the_pool_of_the_cluster(spark: Spark) -> None:
    context = spark.session.sparkContext
    with at_home(spark, "quick", None, {}) as same:
        assert same is spark
        assert context.getLocalProperty("spark.scheduler.pool") == "quick"
    assert context.getLocalProperty("spark.scheduler.pool") != "quick"

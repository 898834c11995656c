"""SQL names servers for clusters: which of them are sent work, properties and secrets."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest

from anabranch.errors import InvalidValue, Refused
from anabranch.spark.clusters import at_home
from anabranch.spark.session import Spark
from anabranch.values import HOSTS


class Remote:
    """As much of a session on a Connect server as is asked."""

    is_remote = True


@pytest.mark.parametrize(
    "address",
    [
        "sc://evil/;token=ENV('HOME')",
        "sc://evil",
        "sc://here.evil",
        "sc://here:1",
        "sc://here@evil",
        "sc://ENV('HOME')",
        "sc://h:ENV('HOME')/",
        "sc://",
        "sc:///",
    ],
)
def test_a_cluster_sends_nothing_where_the_operator_does_not(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("anabranch.spark.session.is_remote", lambda session: True)
    spark = Spark({"spark.remote": "sc://here", "cluster_hosts": HOSTS.read("there;other:1")})
    spark._session = cast("Any", Remote())
    for settings in ({}, {"spark.x": "FILE('/nowhere')"}):
        with (
            pytest.raises(
                Refused, match="not a Spark Connect server that work may be sent to"
            ) as no,
            at_home(spark, None, address, settings),
        ):
            pass
        assert os.environ["HOME"] not in str(no.value)
        assert not spark._others


@pytest.mark.parametrize(
    "address",
    [
        "sc://here",
        "sc://localhost:1",
        "sc://HERE:15002/;token=x",
        "sc://there:7",
        "sc://other:1/;a=b",
    ],
)
def test_a_cluster_reaches_the_servers_that_the_operator_names(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("anabranch.spark.session.is_remote", lambda session: True)
    spark = Spark({"spark.remote": "sc://here", "cluster_hosts": HOSTS.read("there;other:1")})
    spark._session = cast("Any", Remote())
    with at_home(spark, None, address, {}) as other:
        assert other is not spark


@pytest.mark.parametrize("hosts", ["a b", "a/b", "sc://a", "a:b", "me@a"])
def test_hosts_are_hosts(hosts: str) -> None:
    with pytest.raises(InvalidValue, match="neither host nor host:port"):
        HOSTS.read(hosts)

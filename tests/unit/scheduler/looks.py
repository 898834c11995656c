"""Looks at a catalog that are made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from anabranch.catalog.refresh_groups import RefreshGroup
from anabranch.catalog.streams import Input, StreamTable, computed_from
from anabranch.model import Status
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def name(text: str) -> TableName:
    return TableName.parse(f"t.{text}")


def state(
    reads: Mapping[str, str], declared: Mapping[str, str] | None = None, **streams: dict[str, Any]
) -> CatalogState:
    """`reads`: "b": "a x" reads a and x; keys are stream tables.  A keyword sets fields of one."""
    graph = {name(each): tuple(name(up) for up in ups.split()) for each, ups in reads.items()}
    usual = {
        "definition": "token",
        "computed_from": computed_from("token", ""),
        "populated": True,
        "status": Status.ACTIVE,
        "last_refresh_at": ago(60),
    }
    known = {
        each: StreamTable(
            each,
            "SELECT 1",
            "",
            **{**usual, "schedule": "calculated", **streams.get(each.name, {})},
        )
        for each in graph
    }
    tables = {*graph, *(up for ups in graph.values() for up in ups)}
    pointers = {each: f"{each}-1" for each in tables}
    return CatalogState(
        pointers=pointers,
        views={},
        streams=known,
        reads=graph,
        inputs={
            each: {up: Input(pointers[up], 1) for up in (*ups, each)} for each, ups in graph.items()
        },
        frontiers={each: {} for each in graph},
        declared={
            group: RefreshGroup(group, tuple(name(each) for each in members.split()))
            for group, members in (declared or {}).items()
        },
    )


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)

"""Versions of views, as Iceberg has them."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.catalog.views import View
from anabranch.lake import view_metadata as views
from anabranch.model import Column

ID = (Column("id", "bigint"),)
NAME = (Column("name", "string"),)


def one(query: str, columns: tuple[Column, ...] = ID, before: Any = None) -> views.Metadata:
    return views.described(before, query, columns, "file:///w/shop/v")


def test_another_query_is_another_version_and_the_same_one_is_not() -> None:
    first = one("SELECT 1")
    second = one("SELECT 'a'", NAME, first)
    assert [each["version-id"] for each in second["versions"]] == [1, 2]
    assert [each["schema-id"] for each in second["schemas"]] == [0, 1]
    assert second["current-version-id"] == 2 and second["view-uuid"] == first["view-uuid"]
    again = one("SELECT 1", ID, second)
    assert again["current-version-id"] == 1 and len(again["versions"]) == 2
    assert [each["version-id"] for each in again["version-log"]] == [1, 2, 1]
    assert views.columns_in(again) and views.columns_in(again)[0].name == "id"  # type: ignore[index]


def test_old_versions_go_and_the_log_with_them() -> None:
    found = one("SELECT 0")
    for number in range(1, 15):
        found = one(f"SELECT {number}", ID, found)
    assert [each["version-id"] for each in found["versions"]] == list(range(6, 16))
    assert [each["version-id"] for each in found["version-log"]] == list(range(6, 16))


def test_metadata_hold_for_the_text_that_they_were_made_for() -> None:
    found = one("SELECT 1")
    record = views.record_of("SELECT 1", found)
    assert views.metadata_of(View("SELECT 1", record)) == found
    assert views.metadata_of(View("SELECT 2", record)) is None
    assert views.metadata_of(View("SELECT 1")) is None


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-current-view-version", "view-version-id": 9},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "something"},
        {"action": "add-view-version", "view-version": {"version-id": 2, "schema-id": 9}},
    ],
    ids=lambda update: update["action"],
)
def test_what_is_not_there_is_refused(update: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        views.updated(one("SELECT 1"), [update])

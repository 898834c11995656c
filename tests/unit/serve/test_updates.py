"""Commits of Iceberg's REST protocol, applied: requirements, and ids that somebody else has taken."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadata

from anabranch.names import TableName
from anabranch.serve.problems import Problem
from anabranch.serve.updates import Commit, NewTable, applied, created

NAME = TableName.of("shop", "sales")
ID = {"id": 1, "name": "id", "type": "long", "required": True}


def schema(*names: str, id_: int = 0) -> dict[str, Any]:
    fields = [ID] + [
        {"id": at, "name": name, "type": "string", "required": False}
        for at, name in enumerate(names, 2)
    ]
    return {"type": "struct", "schema-id": id_, "fields": fields}


@pytest.fixture
def table() -> TableMetadata:
    request = {"name": "sales", "schema": schema("a"), "properties": {"p": "1"}}
    return created(NewTable.model_validate(request), "file:///w/shop/sales")


def commit(
    base: TableMetadata | None, *updates: dict[str, Any], needs: dict[str, Any] | None = None
) -> TableMetadata:
    given = {"requirements": [needs] if needs else [], "updates": list(updates)}
    read = Commit.model_validate(given)
    return applied(NAME, base, read.requirements, read.updates)


def add_schema(*names: str, id_: int) -> tuple[dict[str, Any], dict[str, Any]]:
    made = {"action": "add-schema", "schema": schema(*names, id_=id_)}
    return made, {"action": "set-current-schema", "schema-id": -1}


def test_a_schema_gets_the_next_id_when_somebody_has_taken_its_own(table: TableMetadata) -> None:
    first = commit(table, *add_schema("a", "b", id_=1))
    second = commit(first, *add_schema("a", "c", id_=1))
    assert [each.schema_id for each in second.schemas] == [0, 1, 2]
    assert second.current_schema_id == 2
    assert [each.name for each in second.schema().fields] == ["id", "a", "c"]


def test_an_equal_schema_is_not_added_twice(table: TableMetadata) -> None:
    first = commit(table, *add_schema("a", "b", id_=1))
    again = commit(first, *add_schema("a", id_=7))
    assert [each.schema_id for each in again.schemas] == [0, 1] and again.current_schema_id == 0


def test_a_partition_field_keeps_its_id_and_no_id_stands_for_two(table: TableMetadata) -> None:
    def by(source: int, field: int) -> tuple[dict[str, Any], dict[str, Any]]:
        fields = [
            {"source-id": source, "field-id": field, "name": f"f{source}", "transform": "identity"}
        ]
        spec = {"spec-id": 1, "fields": fields}
        return {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}

    first = commit(table, *by(1, 1000))
    second = commit(first, *by(2, 1000))
    third = commit(second, *by(1, 1005))
    fields = {
        spec.spec_id: [each.field_id for each in spec.fields] for spec in third.partition_specs
    }
    assert fields == {0: [], 1: [1000], 2: [1001]} and third.default_spec_id == 1


def test_last_added_needs_something_added(table: TableMetadata) -> None:
    with pytest.raises(Problem, match="no schema has been added") as caught:
        commit(table, {"action": "set-current-schema", "schema-id": -1})
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "needs",
    [
        {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 9},
        {"type": "assert-current-schema-id", "current-schema-id": 9},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9},
        {"type": "assert-default-spec-id", "default-spec-id": 9},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 9},
        {"type": "assert-create"},
    ],
    ids=lambda needs: needs["type"],
)
def test_a_requirement_that_is_not_met_is_a_conflict(
    needs: dict[str, Any], table: TableMetadata
) -> None:
    with pytest.raises(Problem, match="Requirement failed") as caught:
        commit(table, needs=needs)
    assert caught.value.status == 409


def test_requirements_that_are_met_pass(table: TableMetadata) -> None:
    for needs in (
        {"type": "assert-table-uuid", "uuid": str(table.table_uuid)},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    ):
        assert commit(table, needs=needs) == table


def test_properties_are_set_and_removed_in_order(table: TableMetadata) -> None:
    made = commit(
        table,
        {"action": "set-properties", "updates": {"q": "1", "format-version": "1"}},
        {"action": "remove-properties", "removals": ["q", "p", "nothing"]},
        {"action": "set-properties", "updates": {"r": "1"}},
    )
    assert made.properties == {"r": "1"} and made.format_version == 2


def test_a_table_is_made_by_updates_and_must_not_be_there(table: TableMetadata) -> None:
    updates = (
        {"action": "assign-uuid", "uuid": str(table.table_uuid)},
        {"action": "upgrade-format-version", "format-version": 3},
        *add_schema("a", id_=0),
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "file:///w/shop/sales/"},
    )
    made = commit(None, *updates, needs={"type": "assert-create"})
    assert made.format_version == 3 and made.next_row_id == 0  # type: ignore[union-attr]
    assert made.location == "file:///w/shop/sales" and made.schema().schema_id == 0
    with pytest.raises(Problem, match="Table does not exist: shop.sales") as caught:
        commit(None, *updates)
    assert caught.value.status == 404


def test_a_snapshot_of_an_older_count_is_a_conflict(table: TableMetadata) -> None:
    snapshot = {
        "snapshot-id": 5,
        "sequence-number": 1,
        "timestamp-ms": 1,
        "manifest-list": "file:///w/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    first = commit(table, {"action": "add-snapshot", "snapshot": snapshot})
    late = {**snapshot, "snapshot-id": 6, "parent-snapshot-id": 5}
    with pytest.raises(Problem, match="older than last sequence number") as caught:
        commit(first, {"action": "add-snapshot", "snapshot": late})
    assert caught.value.status == 409

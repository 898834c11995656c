"""What the catalog keeps of a snapshot is the snapshot."""

from __future__ import annotations

import json

from anabranch.deploy.plan import make_plan
from anabranch.deploy.record import snapshot_of, snapshot_record
from anabranch.deploy.snapshot import Snapshot, SnapshotObject
from tests.unit.deploy.drawing import key, project, thing


def test_there_and_back() -> None:
    whole = project(
        thing("raw.sales", kind="table", text="(id BIGINT)"),
        thing("s.a", ["raw.sales"], cluster="c", indexes={"i": "c", "j": None}, metadata="x = 1"),
        clusters={"c": "CLUSTER c"},
    )
    again = snapshot_of(json.loads(json.dumps(snapshot_record(whole))))
    assert again == whole
    assert make_plan(whole, again).empty


def test_options_and_columns_are_kept() -> None:
    each = SnapshotObject(
        key("s.a"),
        "table",
        "v1:x",
        "TABLE",
        options={"schedule": None, "refresh_mode": "AUTO"},
        columns=(("id", "bigint"),),
        sql="CREATE TABLE a (id BIGINT)",
    )
    whole = Snapshot({each.key: each})
    assert snapshot_of(json.loads(json.dumps(snapshot_record(whole)))) == whole

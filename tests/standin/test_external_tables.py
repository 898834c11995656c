"""External tables of a project: read and checked against a lock, never owned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.types import StringType

from anabranch import Anabranch
from anabranch.errors import NotCompiled, Refused
from anabranch.project.project import load
from tests.standin.engine import connect, installed
from tests.standin.theirs import Theirs

FILES = {
    "models/db/mart/r.sql": "CREATE STREAM TABLE r AS SELECT id, SUM(amount) AS s"
    " FROM prod.sales.orders GROUP BY id",
}


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    found = Theirs(tmp_path / "theirs")
    found.table()
    found.append("orders", (1, 10), (2, 20))
    return found


@pytest.fixture
def shop(tmp_path: Path, theirs: Theirs) -> Path:
    folder = tmp_path / "shop"
    settings = "\n".join(f'{key} = "{value}"' for key, value in theirs.properties.items())
    text = f'name = "shop"\nhome = "home"\n[catalogs.prod]\ntype = "sql"\n{settings}\n'
    for name, said in {"anabranch.toml": text, **FILES}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(said)
    return folder


@pytest.fixture
def ab(shop: Path) -> Iterator[Anabranch]:
    with installed(), connect(str(shop / "anabranch.toml")) as opened:
        yield opened


def test_a_table_without_a_lock_is_not_known(shop: Path) -> None:
    said = [f"{each.message}: {each.hint}" for each in load(shop).compiled.problems]
    assert said == [
        "the columns of prod.sales.orders are not locked: catalog prod is attached: "
        "`anabranch lock` writes them to external.lock.json"
    ]


def test_compile_needs_the_lock_alone(ab: Anabranch, shop: Path, theirs: Theirs) -> None:
    assert ab.lock(str(shop))["tables"] == ["prod.sales.orders"]
    locked = json.loads((shop / "external.lock.json").read_text())
    assert locked == {"tables": {"prod.sales.orders": {"id": "bigint", "amount": "bigint"}}}
    theirs.folder.rename(theirs.folder.with_name("away"))
    assert not load(shop).compiled.problems
    (shop / "models/db/mart/r.sql").write_text(
        "CREATE STREAM TABLE r AS SELECT totl FROM prod.sales.orders"
    )
    with pytest.raises(NotCompiled, match="totl"):
        load(shop).check()
    (shop / "external.lock.json").write_text("[]")
    assert "this is not a lock file" in str(load(shop).compiled.problems)


def test_a_project_is_deployed_over_external_tables(
    ab: Anabranch, shop: Path, theirs: Theirs
) -> None:
    ab.lock(str(shop))
    deployment = ab.stage(str(shop))
    assert deployment is not None
    ab.promote(deployment)
    assert sorted(ab.table("db.mart.r").collect()) == [(1, 10), (2, 20)]
    theirs.append("orders", (2, 5))
    ab.refresh()
    assert sorted(ab.table("db.mart.r").collect()) == [(1, 10), (2, 25)]
    assert ab.verify("db.mart.r")["equal"]
    assert theirs.catalog.list_tables("sales") == [("sales", "orders")]


def test_a_table_that_changed_is_refused(ab: Anabranch, shop: Path, theirs: Theirs) -> None:
    ab.lock(str(shop))
    with theirs.catalog.load_table("sales.orders").update_schema(
        allow_incompatible_changes=True
    ) as update:
        update.add_column("note", StringType())
    ab.plan(str(shop))  # more than was locked does no harm
    with theirs.catalog.load_table("sales.orders").update_schema(
        allow_incompatible_changes=True
    ) as update:
        update.rename_column("amount", "total")
    for verb in (ab.plan, ab.stage):
        with pytest.raises(Refused, match=r"column amount of prod.sales.orders is gone"):
            verb(str(shop))

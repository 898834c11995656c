"""A project deployed, changed, deployed again and rolled back on Spark: rows, deltas and indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.catalog.indexes import all_indexes
from anabranch.deploy.steps import Action
from anabranch.errors import Refused
from anabranch.names import TableName
from anabranch.spark.session import Spark
from tests.e2e.world import bag, rows

FILES = {
    "clusters/reports.sql": "CREATE CLUSTER reports POOL 'reports'",
    "models/db/raw/sales.sql": """
        CREATE TABLE sales (id BIGINT, region STRING, amount BIGINT);
        CREATE INDEX by_id ON sales (id);""",
    "models/db/clean/sales.sql": "CREATE VIEW sales AS SELECT * FROM raw.sales WHERE amount > 0",
    "models/db/mart/regions.sql": """
        CREATE STREAM TABLE regions IN CLUSTER reports AS
        SELECT region, sum(amount) AS total FROM clean.sales GROUP BY region;
        CREATE INDEX by_region ON regions (region) IN CLUSTER reports;""",
    "models/db/mart/largest.sql": """
        CREATE STREAM TABLE largest AS SELECT max(amount) AS amount FROM clean.sales""",
    "models/db/top/both.sql": """
        CREATE STREAM TABLE both AS
        SELECT r.region, r.total, l.amount FROM mart.regions r CROSS JOIN mart.largest l""",
    "models/db/other/counted.sql": """
        CREATE STREAM TABLE counted AS SELECT count(*) AS n FROM raw.sales""",
}
RING = {
    "anabranch.toml": 'name = "shop"\nallow_circular = true',
    "models/db/raw/edges.sql": "CREATE TABLE edges (a BIGINT, b BIGINT)",
    "models/db/g/reach.sql": """
        CREATE STREAM TABLE reach AS SELECT a, b FROM raw.edges
        UNION SELECT s.a, e.b FROM step s JOIN raw.edges e ON s.b = e.a""",
    "models/db/g/step.sql": "CREATE STREAM TABLE step AS SELECT DISTINCT a, b FROM reach",
}
STREAMS = ("db.mart.regions", "db.mart.largest", "db.top.both", "db.other.counted")


class Shop:
    """A project folder and the home it is deployed to."""

    def __init__(self, folder: Path, ab: Anabranch, files: Mapping[str, str] = FILES) -> None:
        self.folder, self.ab = folder / "shop", ab
        for name, text in {"anabranch.toml": 'name = "shop"', **files}.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def stage(self, **options: Any) -> str:
        made = self.ab.stage(str(self.folder), **options)
        assert made is not None
        return made

    def deploy(self) -> str:
        made = self.stage()
        self.ab.promote(made)
        return made

    def actions(self) -> dict[str, str]:
        """What a refresh does to each table."""
        return {line["table"]: line["action"] for line in self.ab.refresh()}

    def check(self) -> None:
        """Every stream table equals its query, and every index its table."""
        for name in STREAMS:
            assert self.ab.verify(name)["equal"], name
        with self.ab._store.reading() as c:
            found = all_indexes(c)
        assert sorted(map(str, found)) == ["db.mart.regions", "db.raw.sales"]
        for table, indexes in found.items():
            for index in indexes:
                assert bag(self.ab.table(str(index.copy))) == bag(self.ab.table(str(table)))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: Spark) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("deployments")
    with anabranch.connect(folder / "home", spark=spark.session) as ab:
        yield Shop(folder, ab)


def test_the_life_of_a_project(shop: Shop) -> None:
    ab = shop.ab
    first = shop.deploy()
    ab.sql("INSERT INTO db.raw.sales VALUES (1, 'eu', 10), (2, 'us', 5), (3, 'us', -1)")
    assert set(shop.actions().values()) == {"DIFFERENTIAL"}  # nothing is built anew
    assert bag(ab.table("db.top.both")) == rows(("eu", 10, 10), ("us", 5, 10))
    assert ab.plan(str(shop.folder)).empty

    # Another query: only it and its readers are built, production goes on.
    twice = FILES["models/db/mart/regions.sql"].replace("sum(amount)", "2 * sum(amount)")
    shop.write("models/db/mart/regions.sql", twice)
    second = shop.stage()
    staged = {str(name) for name in ab._runtime.world().names() if second in str(name)}
    assert staged == {
        f"db.mart__{second}.regions",
        f"db.mart__{second}.regions__by_region",
        f"db.top__{second}.both",
    }
    assert bag(ab.table("db.top.both")) == rows(("eu", 10, 10), ("us", 5, 10))
    ab.sql("INSERT INTO db.raw.sales VALUES (4, 'ap', 100)")
    cut = ab.cuts(1)[0]["cut_id"]

    # All of it flips at once, up to date; the next refresh goes on from changes.
    ab.promote(second)
    assert bag(ab.table("db.top.both")) == rows(("eu", 20, 100), ("us", 10, 100), ("ap", 200, 100))
    assert shop.actions()["db.top.both"] == "NO_DATA"
    with ab.at(cut) as world:  # readers of old cuts are not disturbed
        assert bag(world.table("db.top.both")) == rows(("eu", 10, 10), ("us", 5, 10))
    ab.sql("INSERT INTO db.raw.sales VALUES (5, 'ap', 1)")
    done = shop.actions()
    assert done["db.mart.regions"] == done["db.top.both"] == "DIFFERENTIAL"
    shop.check()

    # And back: what returns meets a table that has seen more, and is brought to the same cut.
    ab.rollback()
    assert bag(ab.table("db.mart.regions")) == rows(("eu", 10), ("us", 5), ("ap", 101))
    assert bag(ab.table("db.top.both")) == rows(("eu", 10, 100), ("us", 5, 100), ("ap", 101, 100))
    assert [line["action"] for line in ab.history("db.mart.regions", 1)] == ["DIFFERENTIAL"]
    assert set(shop.actions().values()) == {"NO_DATA"}
    shop.check()
    assert [each["status"] for each in ab.deployments()] == ["ROLLED_BACK", "PROMOTED"]
    assert ab.deployments()[1]["id"] == first


def test_a_view_is_replaced_with_all_that_reads_it(shop: Shop) -> None:
    ab = shop.ab
    shop.write("models/db/mart/regions.sql", FILES["models/db/mart/regions.sql"])
    larger = FILES["models/db/clean/sales.sql"].replace("> 0", "> 5")
    shop.write("models/db/clean/sales.sql", larger)
    made = shop.stage()
    assert "amount > 0" in str(ab._runtime.world().views)
    promoted = ab.promote(made)["cut_id"]
    before = ab._runtime.lake.pointers_at(promoted - 1)
    assert bag(ab.sql("SELECT id FROM db.clean.sales")) == rows((1,), (4,))
    assert bag(ab.table("db.mart.regions")) == rows(("eu", 10), ("ap", 100))
    assert set(shop.actions().values()) == {"NO_DATA"}
    shop.check()
    jobs = ab.spark_actions
    ab.rollback()
    assert ab.spark_actions == jobs, "nothing moved since, so nothing is computed"
    after = ab._runtime.lake.pointers()
    for name in ("db.mart.regions", "db.mart.regions__by_region", "db.top.both"):
        assert after[TableName.parse(name)] == before[TableName.parse(name)]
    assert bag(ab.sql("SELECT id FROM db.clean.sales")) == rows((1,), (2,), (4,), (5,))
    shop.write("models/db/clean/sales.sql", FILES["models/db/clean/sales.sql"])
    assert ab.plan(str(shop.folder)).empty


def test_indexes_and_clusters_change_without_a_build(shop: Shop) -> None:
    ab = shop.ab
    largest = FILES["models/db/mart/largest.sql"]
    wanted = largest.replace("largest AS", "largest IN CLUSTER reports AS")
    shop.write(
        "models/db/mart/largest.sql", f"{wanted};\nCREATE INDEX by_amount ON largest (amount);"
    )
    plan = ab.plan(str(shop.folder))
    assert not plan.keys(Action.BUILD, Action.SWAP)
    shop.deploy()
    assert bag(ab.table("db.mart.largest__by_amount")) == bag(ab.table("db.mart.largest"))
    assert ab.plan(str(shop.folder)).empty
    ab.rollback()
    assert not [each for each in ab._runtime.world().names() if "by_amount" in str(each)]
    shop.write("models/db/mart/largest.sql", largest)
    assert ab.plan(str(shop.folder)).empty
    shop.check()


def test_a_build_that_fails_leaves_production_alone(shop: Shop) -> None:
    ab = shop.ab
    wrong = "CREATE STREAM TABLE counted AS SELECT CAST(region AS INT) AS n FROM raw.sales"
    shop.write("models/db/other/counted.sql", wrong)
    before = ab._runtime.lake.pointers()
    with pytest.raises(anabranch.errors.DataError):
        shop.stage()
    assert ab._runtime.lake.pointers() == before
    found = ab.deployments()[0]
    assert found["status"] == "STAGING"
    assert ab.abort(found["id"])["removed"] == []
    with pytest.raises(Refused, match="it is aborted"):
        ab.promote(found["id"])
    shop.write("models/db/other/counted.sql", FILES["models/db/other/counted.sql"])
    assert ab.plan(str(shop.folder)).empty
    shop.check()


@pytest.mark.extended
def test_a_circle_goes_on_from_changes(tmp_path: Path, spark: Spark) -> None:
    with anabranch.connect(tmp_path / "home", spark=spark.session, allow_circular=True) as ab:
        ring = Shop(tmp_path, ab, RING)
        ring.deploy()
        ab.sql("INSERT INTO db.raw.edges VALUES (1, 2), (2, 3)")
        assert set(ring.actions().values()) == {"DIFFERENTIAL"}
        assert bag(ab.table("db.g.reach")) == rows((1, 2), (2, 3), (1, 3))
        assert ab.verify("db.g.reach")["equal"]


@pytest.mark.slow
def test_new_and_wider_columns_of_a_source_come_with_the_promote(
    tmp_path: Path, spark: Spark
) -> None:
    files = {
        "models/db/raw/t.sql": "CREATE TABLE t (id INT, price DECIMAL(8,2))",
        "models/db/m/sums.sql": "CREATE STREAM TABLE sums AS SELECT sum(id) AS id FROM raw.t",
    }
    with anabranch.connect(tmp_path / "home", spark=spark.session) as ab:
        wider = Shop(tmp_path, ab, files)
        wider.deploy()
        ab.sql("INSERT INTO db.raw.t VALUES (1, 1.50)")
        ab.refresh()
        wider.write(
            "models/db/raw/t.sql",
            "CREATE TABLE t (id BIGINT, price DECIMAL(12,2), tags ARRAY<STRING>,"
            " place STRUCT<x: DOUBLE, `y z`: TIMESTAMP_NTZ>, `a b` DATE)",
        )
        wider.write(
            "models/db/m/tags.sql",
            "CREATE STREAM TABLE tags AS SELECT id, price, tags, place.x AS x, `a b` FROM raw.t",
        )
        made = wider.stage()
        stored = ab.table("db.raw.t")
        assert stored.columns == ["id", "price"]
        ab.sql("INSERT INTO db.raw.t VALUES (2, 2.50)")
        ab.promote(made)
        assert ab.table("db.raw.t").columns == ["id", "price", "tags", "place", "a b"]
        done = wider.actions()
        assert done["db.m.tags"] == "NO_DATA"
        ab.sql("INSERT INTO db.raw.t VALUES (3000000000, 1, array('n'), NULL, DATE'2024-01-01')")
        assert wider.actions()["db.m.tags"] == "DIFFERENTIAL"
        assert ab.verify("db.m.tags")["equal"] and ab.verify("db.m.sums")["equal"]
        assert ab.rollback()["kept_columns"] == ["db.raw.t"]

"""A stock Spark with Iceberg's runtime and nothing of ours, run by `tests.interop.spark` in an
environment of its own.  It answers with one line of JSON."""

import json
import os
import sys

from pyspark.sql import SparkSession

PAIRS = int(os.environ.get("ANABRANCH_SPARK_PAIRS", "60"))


def session(jars: str, database: str, warehouse: str) -> SparkSession:
    conf = {
        "spark.jars": jars,
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        # shared by JDBC: the same tables of the database that Anabranch keeps them in
        "spark.sql.catalog.anabranch": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.anabranch.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.anabranch.uri": f"jdbc:sqlite:{database}",
        "spark.sql.catalog.anabranch.warehouse": warehouse,
        "spark.sql.catalog.anabranch.jdbc.schema-version": "V1",
        "spark.sql.catalog.anabranch.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def connect(spark: SparkSession, name: str, address: str, token: str, warehouse: str) -> str:
    """A catalog of the server, under a name of its own."""
    root = f"spark.sql.catalog.{name}"
    spark.conf.set(root, "org.apache.iceberg.spark.SparkCatalog")
    facts = {"type": "rest", "uri": f"{address}/iceberg", "warehouse": warehouse, "token": token}
    for key, value in {**facts, "cache-enabled": "false"}.items():
        spark.conf.set(f"{root}.{key}", value)
    return name


def pairs(spark: SparkSession, address: str, token: str) -> dict:
    """Both sides of a diamond, read one after the other while groups publish."""
    latest, torn, seen = connect(spark, "latest", address, token, "latest"), {}, set()
    for number in range(PAIRS):
        if number % 5 == 0:
            pinned = connect(spark, f"pinned{number}", address, token, "pinned")
        for kind, catalog in (("pinned", pinned), ("latest", latest)):
            found = [
                spark.table(f"{catalog}.s.{side}").collect()[0][0] for side in ("left", "right")
            ]
            torn[kind] = torn.get(kind, 0) + (found[0] != found[1])
            seen.add(found[0])
    return {"pairs": PAIRS, "torn": torn, "states": len(seen)}


def write(spark: SparkSession) -> dict:
    """What Spark does to tables of its own, and that a stream table refuses it."""
    spark.sql("CREATE NAMESPACE latest.theirs")
    spark.sql(
        "CREATE TABLE latest.theirs.t (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region) "
        "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
    )
    spark.sql("INSERT INTO latest.theirs.t VALUES (1, 'eu'), (2, 'us'), (3, 'eu')")
    spark.sql("DELETE FROM latest.theirs.t WHERE id = 1")
    spark.sql(
        "MERGE INTO latest.theirs.t t USING (SELECT 3L AS id, 'us' AS region) n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET region = n.region"
    )
    spark.sql("ALTER TABLE latest.theirs.t ADD COLUMN note STRING")
    spark.sql("CREATE VIEW latest.theirs.v AS SELECT id FROM latest.theirs.t WHERE region = 'us'")
    try:
        spark.sql("INSERT INTO latest.s.left VALUES (1)")
        refused = ""
    except Exception as error:
        refused = str(error)
    rows = [
        list(each) for each in spark.sql("SELECT id FROM latest.theirs.v ORDER BY id").collect()
    ]
    return {"view": rows, "refused": refused}


def share(spark: SparkSession) -> dict:
    """The same catalog by JDBC: read, append, and delete by marking rows."""
    before = spark.table("anabranch.s.left").collect()[0][0]
    spark.sql("INSERT INTO anabranch.s.t VALUES (1000), (2000), (3000)")
    spark.sql("ALTER TABLE anabranch.s.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql("DELETE FROM anabranch.s.t WHERE v = 2000")
    return {"before": before}


def main(phase: str) -> None:
    place = {key: os.environ[f"ANABRANCH_{key}"] for key in ("JARS", "DATABASE", "WAREHOUSE")}
    spark = session(place["JARS"], place["DATABASE"], place["WAREHOUSE"])
    address, token = os.environ["ANABRANCH_SERVED"], os.environ["ANABRANCH_SERVED_TOKEN"]
    if phase == "read":
        answer = pairs(spark, address, token)
    else:
        connect(spark, "latest", address, token, "latest")
        answer = {**write(spark), **share(spark)}
    print(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

"""Which functions of Spark may run code."""

from __future__ import annotations

from anabranch.spark.session import Spark
from anabranch.sql.analyze import functions


def test_every_function_of_spark_is_judged() -> None:
    """A Spark with a function that nobody has looked at is found here, and refuses it until then."""
    spark = Spark({"spark.master": "local[1]"})
    rows = spark.session.sql("SHOW SYSTEM FUNCTIONS").collect()
    names = {row[0] for row in rows if row[0].replace("_", "").isalnum()}
    assert len(names) > 400
    assert not names - functions.KNOWN - functions.EXTERNAL - OPERATORS
    assert {"reflect", "java_method", "try_reflect"} <= functions.EXTERNAL


# Words of the grammar that Spark lists as functions.
OPERATORS = frozenset("case".split())

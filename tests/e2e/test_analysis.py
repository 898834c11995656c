"""What the analysis tells of a query without Spark is what Spark says of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from anabranch.spark.session import Spark
from tests.fixtures.analysis.lists import ACCEPTED, REFUSED, TABLES


@pytest.fixture
def session(spark: Spark) -> Iterator[SparkSession]:
    session = spark.session
    for name, columns in TABLES.items():
        session.createDataFrame([], columns).createTempView(name)
    yield session
    for name in TABLES:
        session.catalog.dropTempView(name)


def test_spark_takes_what_is_accepted_and_refuses_what_is_refused(session: SparkSession) -> None:
    for query in ACCEPTED:
        _ = session.sql(query).schema
    for query, _told in REFUSED:
        with pytest.raises((AnalysisException, ParseException)):
            _ = session.sql(query).schema

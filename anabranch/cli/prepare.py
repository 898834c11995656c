"""`anabranch prepare`: what Spark loads at every start, written down once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from anabranch.api import connect
from anabranch.errors import AnabranchError, Unreachable
from anabranch.spark.archive import make, place

# What most sessions do, so that the classes it takes are in the archive.
SCRIPT = """
CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(9,2), day DATE);
CREATE TABLE customers (name STRING, region STRING);
INSERT INTO orders VALUES (1, 'a', 5, DATE '2024-01-01'), (2, 'b', 7, DATE '2024-01-02');
INSERT INTO customers VALUES ('a', 'north'), ('b', 'south');
CREATE STREAM TABLE dear AS SELECT id, amount FROM orders WHERE amount > 5;
CREATE STREAM TABLE regions AS SELECT c.region, count(*) AS n, sum(o.amount) AS total, max(o.day) AS day
FROM orders o JOIN customers c ON c.name = o.customer GROUP BY c.region;
CREATE STREAM TABLE best AS SELECT region, total FROM regions ORDER BY total DESC LIMIT 1;
UPDATE orders SET amount = amount + 1 WHERE id = 1;
DELETE FROM orders WHERE id = 2;
MERGE INTO customers c USING orders o ON c.name = o.customer WHEN MATCHED THEN DELETE;
"""


def archive(again: bool) -> tuple[Path, bool]:
    """The archive's place, and whether it was made now."""
    path = place()
    if path is None:
        raise Unreachable("Spark needs Java and none was found: install Java 17 or newer")
    if path.is_file() and not again:
        return path, False
    command = [sys.executable, "-c", f"from {__name__} import train; train({str(path)!r})"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not path.is_file():
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Unreachable(f"the archive of Spark's classes could not be made: {said}")
    return path, True


def train(path: str) -> None:
    """Runs in a process of its own: its Spark ends with it."""
    try:
        make(Path(path), _use_spark)
    except AnabranchError as error:
        sys.exit(error.message)


def _use_spark(java_option: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        settings: dict[str, Any] = {"spark.conf.spark.driver.extraJavaOptions": java_option}
        with connect(home, **settings) as ab:
            ab.sql(SCRIPT)
            ab.refresh()
            for name in ("dear", "regions", "best"):
                assert ab.verify(name)["equal"]

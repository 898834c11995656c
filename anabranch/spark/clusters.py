"""Where work runs: the session at hand, a scheduler pool of it, or another Connect server."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from anabranch.spark.session import Spark
from anabranch.values import resolved

ALLOCATION = "spark.conf.spark.scheduler.allocation.file"


@contextmanager
def at_home(
    spark: Spark, pool: str | None, address: str | None, settings: Mapping[str, str]
) -> Iterator[Spark]:
    """The Spark of a cluster, with the jobs of this thread in the cluster's pool."""
    if address is not None:
        spark.check_address(address)  # before any secret is looked up
        conf = {name: resolved(value) for name, value in settings.items()}
        yield spark.at(resolved(address, address=True), conf)
    elif pool is not None:
        _ = spark.session  # a pool is one of a session that runs
        with spark.pool(pool):
            yield spark
    else:
        yield spark


def allocation(pools: Mapping[str, Mapping[str, str]]) -> str:
    """Weights and smallest shares of pools, in the form of Spark's allocation file."""
    root = ElementTree.Element("allocations")
    for name, settings in sorted(pools.items()):
        pool = ElementTree.SubElement(root, "pool", name=name)
        ElementTree.SubElement(pool, "schedulingMode").text = "FAIR"
        ElementTree.SubElement(pool, "weight").text = settings.get("weight", "1")
        ElementTree.SubElement(pool, "minShare").text = settings.get("min_share", "0")
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def allocation_conf(pools: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The property that tells a Spark that starts about its pools; nothing when all are plain."""
    if not any(pools.values()):
        return {}
    with tempfile.NamedTemporaryFile(
        "w", prefix="anabranch-pools-", suffix=".xml", delete=False, encoding="utf-8"
    ) as file:
        file.write(allocation(pools))
    atexit.register(Path(file.name).unlink, missing_ok=True)  # Spark reads it when it starts
    return {ALLOCATION: Path(file.name).as_uri()}

"""The eight tables in a home of their own."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

import anabranch
from anabranch.api import Anabranch
from benchmarks.tpch import data
from benchmarks.tpch.meter import CONF


@contextmanager
def filled(scale: float, options: argparse.Namespace, console: Console) -> Iterator[Anabranch]:
    """Kept as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="anabranch-tpch-", dir=options.dir) as folder:
        console.print(f"[bold]scale {scale:g}[/]: making the tables")
        files = data.generate(scale, Path(folder) / "data")
        settings = {**CONF, "spark.conf.spark.driver.memory": options.memory}
        with anabranch.connect(Path(folder) / "home", **settings) as ab:
            data.fill(ab, files)
            yield ab

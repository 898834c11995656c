"""One Spark job writes one folder; a sub-folder per Op says what its files are for.

How many rows it produced is told by Spark and not by what lies on disk.  The tasks of a write count
their rows for Spark's own statistics, which reach the driver with the results of the tasks, whatever
disk they wrote to: reading that number costs nothing.  It lies in Java and is not public, so a session
without it, such as one on a Connect server, observes the rows on their way instead
(`DataFrame.observe`).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as encoded

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameWriter, Observation
from pyspark.sql import functions as F

from anabranch.errors import InternalError
from anabranch.lazy import lazy
from anabranch.model import Column, Columns, Op, Written
from anabranch.names import RESERVED_PREFIX, quote
from anabranch.spark import private
from anabranch.spark.errors import translated
from anabranch.spark.shared_disk import local, see_from_everywhere
from anabranch.spark.types import FILE, POSITION, id_metadata, parse_type, sql_type, with_ids

if TYPE_CHECKING:
    from pyarrow import fs
else:
    fs = lazy("pyarrow.fs")


OP = "_ab_op"
ROWS = "rows"
Prepare = Callable[[DataFrame], Any]  # a frame's writer, with all its options
PHYSICAL = {FILE.name: "file_path", POSITION.name: "pos"}  # as Iceberg names them
# A user's columns of these names step aside: readers go by field id, or by the table's name mapping.
ASIDE = {name: f"{RESERVED_PREFIX}user_{name}" for name in PHYSICAL.values()}
WRITE_OPTIONS = {
    "compression": "zstd",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.page.write-checksum.enabled": "true",
}

_lock = threading.Lock()
_count = 0
_counts_itself = True  # until a version of Spark shows that it cannot be asked


def actions() -> int:
    """How many write jobs this process has run."""
    return _count


def write(df: DataFrame, directory: str, columns: Columns, files: int | None = None) -> Written:
    """Run `df` once and write its rows to `directory`, with the field ids of `columns`.

    A frame without the column `_ab_op` holds only rows to add.  `files` is the number of tasks
    that write: each leaves at most one file per Op.  Every write has a folder of its own below
    `directory`, so that what is found there afterwards is what this write left.  The answer carries
    the rows that Spark produced: whoever commits the files compares.
    """
    names = {name.lower() for name in df.columns}
    ops = OP in names
    positions = tuple(column for column in (FILE, POSITION) if column.name in names)
    chosen = [stored(column) for column in (*columns, *positions)]
    see_from_everywhere(df.sparkSession, directory)
    with translated():
        frame = df.select(*chosen, *([F.col(OP)] if ops else []))
        if files is not None:
            frame = frame.coalesce(files)
        if ops:
            order = [OP, *(PHYSICAL[column.name] for column in positions)]
            frame = frame.sortWithinPartitions(*order)

        def writer(rows: DataFrame) -> DataFrameWriter:
            found = rows.write.mode("append").options(**WRITE_OPTIONS)
            return found.partitionBy(OP) if ops else found

        _counted()
        folder, rows = save(frame, writer, lambda: new_folder(directory))
    return replace(written(folder, list_files(folder), ops), rows=rows)


def save(frame: DataFrame, prepare: Prepare, folder: Callable[[], str]) -> tuple[str, int]:
    """Write a frame as Parquet into a new folder: the folder, and the rows that were produced."""
    global _counts_itself  # noqa: PLW0603  a property of the Spark that this process runs
    directory = folder()
    if _counts_itself and private.is_classic(frame):
        run = private.write_of(frame, prepare(frame), directory)
        if run is None:
            _counts_itself = False
        else:
            counted = private.rows_written(run())
            if counted is not None:
                return directory, counted
            private.remove(frame.sparkSession, directory)  # it is written once more, and counted
            directory = folder()
    return directory, _observed(frame, prepare, directory)


def _observed(frame: DataFrame, prepare: Prepare, directory: str) -> int:
    seen = Observation()
    prepare(frame.observe(seen, F.count(F.lit(1)).alias(ROWS))).parquet(directory)
    return int(seen.get[ROWS])


def evaluate(df: DataFrame, columns: Columns) -> None:
    """Compute every value of every row as `write` would store it, and keep none of them."""
    with translated():
        df.select(*map(stored, columns)).write.format("noop").mode("overwrite").save()


def new_folder(directory: str) -> str:
    found = f"{directory.rstrip('/')}/{uuid.uuid4().hex[:8]}"
    make_folders(found)
    return found


def make_folders(directory: str) -> None:
    """Those that Hadoop makes itself cost a process each, which sets their permissions."""
    root = local(directory)
    if root is None:
        return
    with suppress(OSError):  # Spark runs into the same, and says so
        Path(root, "_temporary", "0", "_temporary").mkdir(parents=True, exist_ok=True)


def _counted() -> None:
    global _count  # noqa: PLW0603  one counter for the process, read by tests
    with _lock:
        _count += 1


def stored(column: Column) -> SparkColumn:
    """The column as it is stored: its type, its physical name and its field ids."""
    name = PHYSICAL.get(column.name) or ASIDE.get(column.name.lower(), column.name)
    value = F.expr(f"CAST({quote(column.name)} AS {sql_type(column.type)})")
    if column.nested:
        value = value.cast(with_ids(parse_type(column.type), column.nested))
    return value.alias(name, metadata=id_metadata(column.field_id))


def written(directory: str, found: Iterable[str], ops: bool) -> Written:
    by_op: dict[str, list[str]] = {op.value: [] for op in Op}
    for relative in sorted(found):
        folder, _, rest = relative.rpartition("/")
        name = folder.removeprefix(f"{OP}=") if ops else Op.ADD.value
        if name not in by_op or not rest:
            raise InternalError(f"unexpected file {relative} in {directory}")
        by_op[name].append(f"{directory}/{relative}")
    add, remove, keep = (tuple(by_op[op.value]) for op in (Op.ADD, Op.REMOVE, Op.KEEP))
    return Written(add, remove, keep)


def list_files(directory: str) -> list[str]:
    """Parquet files below the folder, relative to it; asks the file system, not Spark."""
    root = local(directory)
    if root is None:
        return list_remote(directory)
    found = (path.relative_to(root).as_posix() for path in root.rglob("*.parquet"))
    return [path for path in found if visible(path)]


def list_remote(directory: str) -> list[str]:
    address = directory.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
    system, root = fs.FileSystem.from_uri(encoded(address, safe=":/@"))
    selector = fs.FileSelector(root, allow_not_found=True, recursive=True)
    found = (info.path for info in system.get_file_info(selector) if info.is_file)
    relative = (path[len(root.rstrip("/")) + 1 :] for path in found)
    return [path for path in relative if path.endswith(".parquet") and visible(path)]


def visible(path: str) -> bool:
    """Not a committer's own file: those lie below `_temporary` or start with a dot."""
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in path.split("/")
    )

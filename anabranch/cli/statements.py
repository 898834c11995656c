"""SQL given to the command line: where it comes from, and what its results look like."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from anabranch.cli.output import Output
from anabranch.cli.session import CliSession
from anabranch.lazy import lazy

if TYPE_CHECKING:
    from anabranch.spark import errors as spark_errors
    from anabranch.sql import batches as scripts
else:
    spark_errors = lazy("anabranch.spark.errors")
    scripts = lazy("anabranch.sql.batches")


REFRESH_COLUMNS = (
    "table", "cut_id", "action", "status", "rows_inserted", "rows_deleted", "duration_ms",
    "predicted_ms", "reason", "error",
)  # fmt: skip


def text_of(statements: Sequence[str], file: IO[str] | None) -> str | None:
    """The text to run; None when there is none and a person sits at the terminal."""
    if statements:  # each in quotes, or the words of one
        quoted = all(" " in each.strip() for each in statements)
        return (";\n" if quoted else " ").join(statements)
    if file is not None:
        return file.read()
    return None if sys.stdin.isatty() else sys.stdin.read()


def shown_columns(rows: Sequence[dict[str, Any]]) -> Sequence[str]:
    """Of refreshes what people look for, of other listings everything."""
    names = list(rows[0]) if rows else []
    return REFRESH_COLUMNS if {"action", "table"} <= set(names) else names


def in_session_time(frame: Any, types: Sequence[str]) -> Any:
    """Timestamps as Spark writes them; `collect` would move them to the clock of this machine."""
    if "timestamp" not in types:
        return frame
    keys = [f"c{at}" for at in range(len(types))]
    chosen = [
        f"cast({key} AS string) AS {key}" if one == "timestamp" else key
        for key, one in zip(keys, types, strict=True)
    ]
    return frame.toDF(*keys).selectExpr(*chosen)


class Runner:
    """Runs statements one after the other and shows what each one gives."""

    def __init__(self, session: CliSession, out: Output, limit: int) -> None:
        self.session = session
        self.out = out
        self.limit = limit

    def run(self, text: str) -> None:
        """All statements are parsed before the first runs; the first error ends it."""
        for batch in scripts.batches(text):
            with self.session.progress.task("running …"):
                show = self._prepared(self.session.ab.sql(batch.text))
            show()

    def _prepared(self, result: Any) -> Any:
        """Fetch while the spinner turns; write when it has gone."""
        if result is None:
            return lambda: None
        if isinstance(result, str):
            return lambda: self.out.answer(result, result)
        if isinstance(result, dict):
            return lambda: self.out.done(result)
        if isinstance(result, list):
            return lambda: self.out.rows(result, shown_columns(result), "(0 rows)")
        fields = result.schema.fields
        names = [field.name for field in fields]
        types = [field.dataType.simpleString() for field in fields]
        with spark_errors.translated():
            rows = in_session_time(result, types).limit(self.limit + 1).collect()
        cut = len(rows) > self.limit
        return lambda: self.out.result(names, types, rows[: self.limit], cut)

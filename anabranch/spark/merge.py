"""Changes applied to stored rows, as frames whose column `_ab_op` says what each row is for.

Nothing runs here: `write` runs the frame, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.model import Columns, Op, Reading
from anabranch.names import quote
from anabranch.spark.errors import INTERNAL
from anabranch.spark.identity import (
    EXACT,
    HASHES,
    KEY,
    cast,
    equal_key,
    exact_key,
    exactly,
    hashable,
    loose,
    row_hash,
    typed,
)
from anabranch.spark.scan import Among, frame
from anabranch.spark.types import FILE, POSITION, WEIGHT, struct
from anabranch.spark.write import OP


class Stored(Protocol):
    """The stored rows with the named columns, `_ab_file` and `_ab_pos`: only what is asked is read.

    `among` leaves out rows on the way, before the marks of deleted rows are looked up.
    """

    def __call__(self, names: Sequence[str], among: Among | None = None) -> DataFrame: ...


def stored_rows(session: SparkSession, reading: Reading, columns: Columns) -> Stored:
    """The rows of some files, to be asked for by the names of their columns."""
    by_name = {column.name: column for column in columns}

    def read(names: Sequence[str], among: Among | None = None) -> DataFrame:
        chosen = tuple(by_name[name] for name in names)
        return frame(session, reading, chosen, positions=True, among=among)

    return read


ROW = "_ab_row"
PLACE = (FILE.name, POSITION.name)


@dataclass(frozen=True)
class Identity:
    """How stored rows are found again: by their hash, or by all their values."""

    columns: Columns

    @property
    def hashed(self) -> bool:
        return hashable(self.columns)

    @property
    def names(self) -> list[str]:
        return [column.name for column in HASHES] if self.hashed else [KEY]

    @property
    def reads(self) -> list[str]:
        """The stored columns that identify a row."""
        return [*self.names, *names(loose(self.columns))] if self.hashed else names(self.columns)

    @property
    def written(self) -> list[str]:
        return self.names if self.hashed else []

    @property
    def told_apart(self) -> list[str]:
        """What tells rows apart that are equal."""
        return [EXACT] if loose(self.columns) else []

    def of_values(self, df: DataFrame) -> DataFrame:
        found = row_hash(self.columns) if self.hashed else (equal_key(self.columns),)
        return df.selectExpr("*", *found)

    def of_stored(self, df: DataFrame) -> DataFrame:
        return df if self.hashed else df.selectExpr("*", equal_key(self.columns))

    def exact(self, df: DataFrame) -> DataFrame:
        return df.selectExpr("*", exactly(loose(self.columns))) if self.told_apart else df

    def matched(self, rows: DataFrame, keys: DataFrame, how: str, *, broadcast: bool) -> DataFrame:
        """The rows that are (left_semi) or are not (left_anti) among the keys.

        One long is Spark's fastest join key; the second is compared where the first agrees.
        """
        wanted = keys.selectExpr(*(f"{name} AS {_other(name)}" for name in self.names))
        wanted = F.broadcast(wanted) if broadcast else wanted
        first, *rest = self.names
        equal = [f"{first} = {_other(first)}"]
        equal += [f"{name} BETWEEN {_other(name)} AND {_other(name)}" for name in rest]
        return rows.join(wanted, F.expr(" AND ".join(equal)), how)


def _other(name: str) -> str:
    return f"{name}_wanted"


def names(columns: Columns) -> list[str]:
    return [column.name for column in columns]


def quoted(given: Sequence[str]) -> list[str]:
    return [quote(name) for name in given]


def add_all(df: DataFrame, columns: Columns, *, hashed: bool) -> DataFrame:
    """Every row is new; with `hashed` the row hash is stored beside it."""
    rows = typed(df, columns)
    return rows.selectExpr("*", *row_hash(columns)) if hashed and hashable(columns) else rows


def apply_rows(
    stored: Stored,
    delta: DataFrame,
    columns: Columns,
    *,
    rewrite: bool,
    insert_only: bool = False,
    broadcast: bool = True,
) -> DataFrame:
    """stored + delta, where delta has the visible `columns` and `_ab_w`.

    D       = Σ weights of equal rows, zeros dropped
    add     = D's rows with w > 0, w times
    remove  = for w < 0, the first -w stored rows equal to it; too few is a bug and stops the job
    keep    = every other stored row, if the table is rewritten
    """
    identity = Identity(columns)
    if insert_only:
        return add_all(delta, columns, hashed=True)
    if rewrite:
        return rewritten(stored, delta, identity)
    change = consolidate(delta, identity)
    gone = change.filter(f"{WEIGHT.name} < 0")

    def wanted(rows: DataFrame) -> DataFrame:
        return identity.matched(identity.of_stored(rows), gone, "left_semi", broadcast=broadcast)

    return settle(identity.of_stored(stored(identity.reads, wanted)), change, identity)


def rewritten(stored: Stored, delta: DataFrame, identity: Identity) -> DataFrame:
    """Stored rows and delta in one pass: the table is read whole, so nothing need be looked up."""
    values = [*names(identity.columns), *identity.written]
    lines = identity.of_values(typed(delta, identity.columns, WEIGHT.name))
    present = identity.of_stored(stored(values)).select(
        *quoted(values), *identity.names[len(identity.written) :], *PLACE
    )
    both = lines.selectExpr("*", *absent_place()).unionByName(present, allowMissingColumns=True)
    judged = balanced(identity.exact(both), identity)
    copies = f"""CASE
        WHEN -_ab_net > _ab_supply THEN {fail(NEGATIVE, "int")}
        WHEN {WEIGHT.name} IS NULL THEN 1
        WHEN _ab_rank = 1 THEN CAST(greatest(_ab_net, 0) AS INT)
        ELSE 0 END"""
    op = f"""CASE
        WHEN {WEIGHT.name} IS NOT NULL THEN '{Op.ADD.value}'
        WHEN _ab_rank - _ab_lines <= -_ab_net THEN '{Op.REMOVE.value}'
        ELSE '{Op.KEEP.value}' END"""
    return repeated(judged, [*quoted(values), *PLACE, f"{op} AS {OP}"], copies)


def balanced(both: DataFrame, identity: Identity) -> DataFrame:
    """Lines of a change beside stored rows: what the lines of a row come to, how many lines and
    stored copies it has, and the place of each among them.

    Rows are the same when they agree exactly.  If then more copies go than there are, those that
    are equal count too: of 0.0 and -0.0, MAX may have taken the other one the last time.
    """
    judged = both.selectExpr("*", *counted(identity.names))
    if not identity.told_apart:
        return judged
    judged = judged.selectExpr("*", *counted([*identity.names, *identity.told_apart], "_exact"))
    short = f"bool_or(-_ab_net_exact > _ab_supply_exact) OVER {whole(in_order(identity.names))}"
    judged = judged.selectExpr("*", f"{short} AS _ab_short")
    chosen = (
        f"CASE WHEN _ab_short THEN {name} ELSE {name}_exact END AS {name}" for name in COUNTED
    )
    others = [quote(name) for name in both.columns]
    return judged.selectExpr(*others, *chosen)


COUNTED = ("_ab_net", "_ab_lines", "_ab_supply", "_ab_rank")


def counted(by: Sequence[str], suffix: str = "") -> list[str]:
    ordered = in_order(by)
    group = whole(ordered)
    return [
        f"coalesce(sum({WEIGHT.name}) OVER {group}, 0) AS _ab_net{suffix}",
        f"count({WEIGHT.name}) OVER {group} AS _ab_lines{suffix}",
        f"count({FILE.name}) OVER {group} AS _ab_supply{suffix}",
        f"row_number() OVER {ordered} AS _ab_rank{suffix}",
    ]


def consolidate(delta: DataFrame, identity: Identity) -> DataFrame:
    """One line per distinct row: what identifies it, its values as one struct, its net weight."""
    rows = typed(delta, identity.columns, WEIGHT.name)
    total = F.expr(f"sum({WEIGHT.name}) AS {WEIGHT.name}")
    values = f"struct({', '.join(quoted(names(identity.columns)))}) AS {ROW}"
    if identity.hashed and not identity.told_apart:
        net = rows.groupBy(*quoted(names(identity.columns))).agg(total)
        net = net.selectExpr(*row_hash(identity.columns), values, WEIGHT.name)
    else:  # to group by -0.0 is to make 0.0 of it
        by = [*identity.names, *identity.told_apart]
        keyed = identity.exact(identity.of_values(rows)).selectExpr(*by, values, WEIGHT.name)
        net = keyed.groupBy(*by).agg(F.expr(f"first({ROW}) AS {ROW}"), total)
    return net.filter(f"{WEIGHT.name} != 0")


def settle(supply: DataFrame, change: DataFrame, identity: Identity) -> DataFrame:
    """Match supply with demand per identity: the change's line comes first, then stored rows."""
    by = [*identity.names, *identity.told_apart]
    both = change.selectExpr("*", *absent_place()).unionByName(
        identity.exact(supply).select(*by, *PLACE), allowMissingColumns=True
    )
    same, equal = whole(in_order(by)), whole(in_order(identity.names))
    values = f"coalesce(first({ROW}) OVER {same}, first({ROW}) OVER {equal})"
    judged = balanced(both.withColumn(ROW, F.expr(values)), identity)
    collided = "FALSE" if identity.told_apart else "_ab_lines != 1"
    copies = f"""CASE
        WHEN -_ab_net > _ab_supply OR {collided} THEN {fail(NEGATIVE, "int")}
        WHEN {WEIGHT.name} IS NULL THEN CAST(_ab_rank - _ab_lines <= -_ab_net AS INT)
        WHEN _ab_rank = 1 THEN CAST(greatest(_ab_net, 0) AS INT)
        ELSE 0 END"""
    op = f"CASE WHEN {WEIGHT.name} IS NOT NULL THEN '{Op.ADD.value}' ELSE '{Op.REMOVE.value}' END"
    return repeated(judged, [f"{ROW}.*", *identity.written, *PLACE, f"{op} AS {OP}"], copies)


def in_order(by: Sequence[str]) -> str:
    """The window over rows of one identity: lines of the change, then stored rows."""
    return f"(PARTITION BY {', '.join(by)} ORDER BY {FILE.name} ASC NULLS FIRST, {POSITION.name})"


def whole(window: str) -> str:
    """The same window, of which every row sees all: one sort serves both."""
    return f"{window[:-1]} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"


def repeated(rows: DataFrame, values: Sequence[str], copies: str) -> DataFrame:
    """The values of every row, as often as `copies` says."""
    copy = f"explode(array_repeat(TRUE, {copies})) AS _ab_copy"
    return rows.selectExpr(*values, copy).drop("_ab_copy")


NEGATIVE = "more equal rows are to be removed than are stored"


def fail(message: str, type_: str) -> str:
    """An expression that stops the job: what it says is a bug of ours."""
    return f"CAST(raise_error('{INTERNAL}{message}') AS {type_})"


def kept(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.selectExpr(*quoted(columns), *absent_place(), f"'{Op.KEEP.value}' AS {OP}")


def absent_place() -> list[str]:
    return [cast(column, "NULL") for column in (FILE, POSITION)]


def replace_all(stored: Stored, new: DataFrame, columns: Columns, *, rewrite: bool) -> DataFrame:
    """Stored rows against what they shall be: only the difference is added and removed."""
    return difference(stored(names(columns)), new, columns, rewrite=rewrite)


def difference(old: DataFrame, new: DataFrame, columns: Columns, *, rewrite: bool) -> DataFrame:
    """new - old as bags: of rows that are the same, as many as both have cancel (and are kept)."""
    key = exact_key(struct(columns))
    both = typed(old, columns, *PLACE).selectExpr("*", key, "FALSE AS _ab_new")
    both = both.unionByName(
        typed(new, columns).selectExpr("*", *absent_place(), key, "TRUE AS _ab_new")
    )
    ordered = f"(PARTITION BY {KEY} ORDER BY _ab_new, {', '.join(PLACE)})"
    group = whole(ordered)
    judged = both.selectExpr(
        "*",
        f"row_number() OVER {ordered} AS _ab_rank",
        f"count_if(NOT _ab_new) OVER {group} AS _ab_olds",
        f"count_if(_ab_new) OVER {group} AS _ab_news",
    )
    op = f"""CASE
        WHEN _ab_new AND _ab_rank - _ab_olds > _ab_olds THEN '{Op.ADD.value}'
        WHEN NOT _ab_new AND _ab_rank > _ab_news THEN '{Op.REMOVE.value}'
        {f"WHEN NOT _ab_new THEN '{Op.KEEP.value}'" if rewrite else ""} END"""
    lines = judged.selectExpr(*quoted(names(columns)), *PLACE, f"{op} AS {OP}")
    return lines.filter(f"{OP} IS NOT NULL")

"""Changes applied to stored rows, as frames whose column `_ab_op` says what each row is for.

Nothing runs here: `write` runs the frame, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from anabranch.engine.errors import INTERNAL
from anabranch.engine.identity import HASHES, KEY, hashable, row_hash, row_key, typed
from anabranch.engine.scan import Among, frame
from anabranch.engine.types import FILE, POSITION, WEIGHT
from anabranch.engine.write import OP
from anabranch.model import Columns, Op, Reading
from anabranch.names import quote


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
        return self.names if self.hashed else names(self.columns)

    @property
    def written(self) -> list[str]:
        return self.names if self.hashed else []

    def of_values(self, df: DataFrame) -> DataFrame:
        found = row_hash(self.columns) if self.hashed else (row_key(self.columns),)
        return df.select("*", *found)

    def of_stored(self, df: DataFrame) -> DataFrame:
        return df if self.hashed else df.select("*", row_key(self.columns))

    def equal(self, left: DataFrame, right: DataFrame) -> SparkColumn:
        """One long is Spark's fastest join key; the second is compared where the first agrees."""
        if not self.hashed:
            return left[KEY] == right[KEY]
        first, second = self.names
        return (left[first] == right[first]) & left[second].between(right[second], right[second])


def names(columns: Columns) -> list[str]:
    return [column.name for column in columns]


def quoted(given: Sequence[str]) -> list[str]:
    return [quote(name) for name in given]


def add_all(df: DataFrame, columns: Columns, *, hashed: bool) -> DataFrame:
    """Every row is new; with `hashed` the row hash is stored beside it."""
    rows = typed(df, columns)
    return rows.select("*", *row_hash(columns)) if hashed and hashable(columns) else rows


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
    gone = change.filter(F.col(WEIGHT.name) < 0).select(*identity.names)
    gone = F.broadcast(gone) if broadcast else gone

    def wanted(rows: DataFrame) -> DataFrame:
        candidates = identity.of_stored(rows)
        return candidates.join(gone, identity.equal(candidates, gone), "left_semi")

    return settle(identity.of_stored(stored(identity.reads, wanted)), change, identity)


def rewritten(stored: Stored, delta: DataFrame, identity: Identity) -> DataFrame:
    """Stored rows and delta in one pass: the table is read whole, so nothing need be looked up."""
    place = (FILE.name, POSITION.name)
    values = [*names(identity.columns), *identity.written]
    lines = identity.of_values(typed(delta, identity.columns, WEIGHT.name))
    whole = identity.of_stored(stored(values)).select(
        *quoted(values), *identity.names[len(identity.written) :], *place
    )
    both = lines.select("*", *absent_place()).unionByName(whole, allowMissingColumns=True)
    ordered = Window.partitionBy(*identity.names).orderBy(
        F.col(FILE.name).asc_nulls_first(), POSITION.name
    )
    group = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    judged = both.select(
        "*",
        F.coalesce(F.sum(WEIGHT.name).over(group), F.lit(0)).alias("_ab_net"),
        F.count(WEIGHT.name).over(group).alias("_ab_lines"),
        F.count(FILE.name).over(group).alias("_ab_supply"),
        F.row_number().over(ordered).alias("_ab_rank"),
    )
    net, rank = F.col("_ab_net"), F.col("_ab_rank")
    is_line = F.col(WEIGHT.name).isNotNull()
    chosen = rank - F.col("_ab_lines") <= -net
    copies = (
        F.when(
            -net > F.col("_ab_supply"), F.raise_error(F.lit(f"{INTERNAL}{NEGATIVE}")).cast("int")
        )
        .when(is_line, F.when(rank == 1, F.greatest(net, F.lit(0))).otherwise(F.lit(0)).cast("int"))
        .otherwise(F.lit(1))
    )
    op = F.when(is_line, F.lit(Op.ADD.value)).when(chosen, F.lit(Op.REMOVE.value))
    return judged.select(
        *quoted(values),
        *place,
        op.otherwise(F.lit(Op.KEEP.value)).alias(OP),
        F.explode(F.array_repeat(F.lit(True), copies)).alias("_ab_copy"),
    ).drop("_ab_copy")


def consolidate(delta: DataFrame, identity: Identity) -> DataFrame:
    """One line per distinct row: what identifies it, its values as one struct, its net weight."""
    rows = typed(delta, identity.columns, WEIGHT.name)
    total = F.sum(WEIGHT.name).alias(WEIGHT.name)
    values = F.struct(*quoted(names(identity.columns))).alias(ROW)
    if identity.hashed:
        net = rows.groupBy(*quoted(names(identity.columns))).agg(total)
        net = identity.of_values(net).select(*identity.names, values, WEIGHT.name)
    else:
        keyed = identity.of_values(rows).select(KEY, values, WEIGHT.name)
        net = keyed.groupBy(KEY).agg(F.first(ROW).alias(ROW), total)
        net = net.select(KEY, ROW, WEIGHT.name)
    return net.filter(F.col(WEIGHT.name) != 0)


def settle(supply: DataFrame, change: DataFrame, identity: Identity) -> DataFrame:
    """Match supply with demand per identity: the change's line comes first, then stored rows."""
    both = change.select("*", *absent_place()).unionByName(
        supply.select(*identity.names, FILE.name, POSITION.name), allowMissingColumns=True
    )
    ordered = Window.partitionBy(*identity.names).orderBy(
        F.col(FILE.name).asc_nulls_first(), POSITION.name
    )
    group = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    weight = F.col(WEIGHT.name)
    judged = both.select(
        *identity.names,
        F.first(ROW).over(group).alias(ROW),
        FILE.name,
        POSITION.name,
        WEIGHT.name,
        F.first(-weight).over(group).alias("_ab_demand"),
        F.count(FILE.name).over(group).alias("_ab_supply"),
        F.count(WEIGHT.name).over(group).alias("_ab_lines"),
        (F.row_number().over(ordered) - 1).alias("_ab_rank"),
    )
    is_change = weight.isNotNull()
    wrong = (F.col("_ab_demand") > F.col("_ab_supply")) | (F.col("_ab_lines") != 1)
    copies = (
        F.when(wrong, F.raise_error(F.lit(f"{INTERNAL}{NEGATIVE}")).cast("int"))
        .when(is_change, F.greatest(weight, F.lit(0)).cast("int"))
        .otherwise((F.col("_ab_rank") <= F.col("_ab_demand")).cast("int"))
    )
    op = F.when(is_change, F.lit(Op.ADD.value)).otherwise(F.lit(Op.REMOVE.value))
    return judged.select(
        *(F.col(ROW)[column.name].alias(column.name) for column in identity.columns),
        *identity.written,
        FILE.name,
        POSITION.name,
        op.alias(OP),
        F.explode(F.array_repeat(F.lit(True), copies)).alias("_ab_copy"),
    ).drop("_ab_copy")


NEGATIVE = "more equal rows are to be removed than are stored"


def kept(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.select(*quoted(columns), *absent_place(), F.lit(Op.KEEP.value).alias(OP))


def absent_place() -> list[SparkColumn]:
    return [F.lit(None).cast(column.type).alias(column.name) for column in (FILE, POSITION)]


def replace_all(stored: Stored, new: DataFrame, columns: Columns, *, rewrite: bool) -> DataFrame:
    """Stored rows against what they shall be: only the difference is added and removed."""
    return difference(stored(names(columns)), new, columns, rewrite=rewrite)


def difference(old: DataFrame, new: DataFrame, columns: Columns, *, rewrite: bool) -> DataFrame:
    """new - old as bags: of equal rows, as many as both have cancel (and are kept)."""
    place = (FILE.name, POSITION.name)
    side = F.lit(True).alias("_ab_new")
    both = typed(old, columns, *place).select("*", row_key(columns), (~side).alias("_ab_new"))
    both = both.unionByName(
        typed(new, columns).select("*", *absent_place(), row_key(columns), side)
    )
    order = Window.partitionBy(KEY).orderBy("_ab_new", *place)
    all_rows = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    is_new = F.col("_ab_new")
    judged = both.select(
        "*",
        F.row_number().over(order).alias("_ab_rank"),
        F.count(F.when(~is_new, True)).over(all_rows).alias("_ab_olds"),
        F.count(F.when(is_new, True)).over(all_rows).alias("_ab_news"),
    )
    rank, olds, news = (F.col(name) for name in ("_ab_rank", "_ab_olds", "_ab_news"))
    op = (
        F.when(is_new & (rank - olds > olds), F.lit(Op.ADD.value))
        .when(~is_new & (rank > news), F.lit(Op.REMOVE.value))
        .when(~is_new & F.lit(rewrite), F.lit(Op.KEEP.value))
    )
    return judged.select(*quoted(names(columns)), *place, op.alias(OP)).filter(
        F.col(OP).isNotNull()
    )

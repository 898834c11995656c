"""DELETE, UPDATE and MERGE as frames for `write`.  A condition that is NULL is not met.

`target` is the whole stored table with `_ab_file` and `_ab_pos`.  Rows that an UPDATE leaves as
they were are neither removed nor added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from anabranch.errors import UnknownName, UserError
from anabranch.model import Columns, Op
from anabranch.names import quote
from anabranch.spark.conform import assigned, missing
from anabranch.spark.errors import DATA, translated
from anabranch.spark.identity import KEY, exact, exact_key, same
from anabranch.spark.merge import PLACE, absent_place, kept, names, quoted
from anabranch.spark.query import checkpoint
from anabranch.spark.scan import Among, union
from anabranch.spark.types import parse_type
from anabranch.spark.write import OP

Assignments = Sequence[tuple[str, str]]
CLAUSE, RANK, ACTIONS = "_ab_clause", "_ab_rank", "_ab_actions"


class Clause(Protocol):
    """A WHEN clause of MERGE."""

    @property
    def match(self) -> str: ...  # matched, not_matched or not_matched_by_source

    @property
    def condition(self) -> str | None: ...

    @property
    def action(self) -> str: ...  # update, delete or insert

    @property
    def assignments(self) -> Assignments: ...

    @property
    def star(self) -> bool: ...


def delete(
    target: DataFrame, columns: Columns, condition: str | None, *, alias: str, rewrite: bool
) -> DataFrame:
    """Rows that meet the condition go."""
    rows = target.alias(alias)
    with translated():
        gone = removed(rows if condition is None else rows.filter(F.expr(condition)), columns)
        return (
            gone
            if not rewrite or condition is None
            else gone.unionByName(kept(rows.filter(~met(condition)), names(columns)))
        )


def update(
    target: DataFrame,
    columns: Columns,
    assignments: Assignments,
    condition: str | None,
    *,
    alias: str,
    rewrite: bool,
    table: str = "the table",
) -> DataFrame:
    """Rows that meet the condition get new values."""
    rows = target.alias(alias)
    with translated():
        chosen = rows if condition is None else rows.filter(F.expr(condition))
        new = new_values(chosen, columns, assignments, table)
        values = [new.get(column.name, of(alias, column.name)) for column in columns]
        both = chosen.select(*old_values(columns, alias), *new_names(values, columns))
        changed = exchanged(both, columns, rewrite)
        if not rewrite or condition is None:
            return changed
        return changed.unionByName(kept(rows.filter(~met(condition)), names(columns)))


def merge(
    target: DataFrame,
    columns: Columns,
    source: DataFrame,
    on: str,
    clauses: Sequence[Clause],
    *,
    alias: str,
    source_alias: str,
    rewrite: bool,
    table: str = "the table",
) -> DataFrame:
    """MERGE in three parts, each of which sees only the columns that SQL lets it see.

    matched                target ⋈ source
    not matched by source  target ▷ source
    not matched            source ▷ (source rows that met a target row)

    The first and the last look for the same rows in a target that may be large: once for both.
    """
    if not clauses:
        raise UserError("MERGE has no WHEN clause")
    merging = Merging(target, columns, source, on, alias, source_alias, rewrite, table)
    with translated():
        by_match: dict[str, list[Clause]] = {}
        for clause in clauses:
            by_match.setdefault(clause.match, []).append(clause)
        changing = rewrite or "matched" in by_match
        pairs = merging.pairs(by_match.get("matched", []))
        if changing and not rewrite and "not_matched" in by_match:
            pairs = checkpoint(pairs)
        parts: list[DataFrame] = []
        if changing:
            parts.append(merging.matched(pairs, by_match.get("matched", [])))
        if rewrite or "not_matched_by_source" in by_match:
            parts.append(merging.not_matched_by_source(by_match.get("not_matched_by_source", [])))
        if "not_matched" in by_match:
            parts.append(merging.not_matched(pairs, by_match["not_matched"]))
        return union(parts)


def met_by(source: DataFrame, on: str, *, alias: str, source_alias: str) -> Among:
    """Leaves the target rows that some source row meets."""
    wanted = source.alias(source_alias)
    return lambda rows: rows.alias(alias).join(wanted, F.expr(on), "left_semi")


class Merging:
    """One MERGE statement."""

    def __init__(
        self,
        target: DataFrame,
        columns: Columns,
        source: DataFrame,
        on: str,
        alias: str,
        source_alias: str,
        rewrite: bool,
        table: str,
    ) -> None:
        self.columns, self.rewrite, self.table = columns, rewrite, table
        self.alias, self.source_alias = alias, source_alias
        self.target = target.alias(alias)
        self.source_schema = source.schema
        keyed = source.selectExpr("*", exact_key(source.schema))
        self.source = keyed.alias(source_alias)
        self.on = F.expr(on)

    def pairs(self, clauses: Sequence[Clause]) -> DataFrame:
        """Target and source rows that meet: old and new values, the clause, the source row's key."""
        joined = self.target.join(self.source, self.on, "inner")
        judged = joined.select("*", first_met(clauses).alias(CLAUSE))
        return self.changed(judged, clauses, KEY)

    def matched(self, pairs: DataFrame, clauses: Sequence[Clause]) -> DataFrame:
        """A target row that two source rows would change is an error, as in Spark and Delta."""
        changed = pairs if self.rewrite else pairs.filter(F.col(CLAUSE).isNotNull())
        place = Window.partitionBy(*PLACE)
        numbered = changed.select(
            "*",
            F.count(CLAUSE).over(place).alias(ACTIONS),
            F.row_number().over(place.orderBy(F.col(CLAUSE).asc_nulls_last())).alias(RANK),
        )
        if not (len(clauses) == 1 and clauses[0].action == "delete" and not clauses[0].condition):
            message = f"{DATA}a row of {self.table} is matched by more than one source row"
            twice = F.raise_error(F.lit(message)).cast("int")
            numbered = numbered.withColumn(
                RANK, F.when(F.col(ACTIONS) > 1, twice).otherwise(F.col(RANK))
            )
        return self.emitted(numbered.filter(F.col(RANK) == 1), clauses)

    def not_matched_by_source(self, clauses: Sequence[Clause]) -> DataFrame:
        rows = self.target.join(self.source, self.on, "left_anti").alias(self.alias)
        judged = rows.select("*", first_met(clauses).alias(CLAUSE))
        if not self.rewrite:
            judged = judged.filter(F.col(CLAUSE).isNotNull())
        return self.emitted(self.changed(judged, clauses), clauses)

    def not_matched(self, pairs: DataFrame, clauses: Sequence[Clause]) -> DataFrame:
        """Equal source rows meet the same target rows, so values can stand for the row."""
        met_rows = pairs.select(F.col(KEY).alias("_ab_met"))
        new = self.source.join(met_rows, F.col(KEY) == F.col("_ab_met"), "left_anti")
        judged = new.alias(self.source_alias).select("*", first_met(clauses).alias(CLAUSE))
        chosen = judged.filter(F.col(CLAUSE).isNotNull())
        values = self.by_clause(chosen, clauses, inserting=True)
        return chosen.select(*values, *map(F.expr, absent_place()), F.lit(Op.ADD.value).alias(OP))

    def changed(self, judged: DataFrame, clauses: Sequence[Clause], *also: str) -> DataFrame:
        """Old values and new values side by side, with the number of the clause."""
        values = self.by_clause(judged, clauses, inserting=False)
        old, new = old_values(self.columns, self.alias), new_names(values, self.columns)
        return judged.select(*old, *new, CLAUSE, *also)

    def by_clause(
        self, rows: DataFrame, clauses: Sequence[Clause], *, inserting: bool
    ) -> list[SparkColumn]:
        """For every column its value by the clause that was met."""
        chosen: list[SparkColumn | None] = [None] * len(self.columns)
        for number, clause in enumerate(clauses):
            if clause.action == "delete":
                continue
            new = new_values(rows, self.columns, self.assignments(clause), self.table)
            for at, column in enumerate(self.columns):
                value = new.get(column.name)
                if value is None:
                    value = (
                        missing(column, self.table) if inserting else of(self.alias, column.name)
                    )
                before = chosen[at]
                met_now = F.col(CLAUSE) == number
                chosen[at] = (
                    F.when(met_now, value) if before is None else before.when(met_now, value)
                )
        return [
            (of(self.alias, column.name) if value is None else value).alias(column.name)
            for column, value in zip(self.columns, chosen, strict=True)
        ]

    def assignments(self, clause: Clause) -> Assignments:
        """`UPDATE *` and `INSERT *` take every column of the table from the source by name."""
        if not clause.star:
            return clause.assignments
        known = {name.lower(): name for name in self.source_schema.names}
        found: list[tuple[str, str]] = []
        for column in self.columns:
            if column.name.lower() not in known:
                raise UnknownName(
                    f'the source has no column "{column.name}" for {clause.action.upper()} *',
                    name=column.name,
                    known=known.values(),
                )
            name = known[column.name.lower()]
            found.append((column.name, f"{quote(self.source_alias)}.{quote(name)}"))
        return found

    def emitted(self, changed: DataFrame, clauses: Sequence[Clause]) -> DataFrame:
        deletes = [at for at, clause in enumerate(clauses) if clause.action == "delete"]
        deleting = F.col(CLAUSE).isin(deletes) if deletes else F.lit(False)
        return exchanged(changed, self.columns, self.rewrite, deleting, F.col(CLAUSE).isNotNull())


def first_met(clauses: Sequence[Clause]) -> SparkColumn:
    """The number of the first clause whose condition is met, or NULL."""
    found = F.lit(None).cast("int")
    for number, clause in reversed(list(enumerate(clauses))):
        condition = F.expr(clause.condition) if clause.condition else F.lit(True)
        found = F.when(condition, F.lit(number)).otherwise(found)
    return found


def met(condition: str) -> SparkColumn:
    return F.coalesce(F.expr(condition), F.lit(False))


def of(alias: str, name: str) -> SparkColumn:
    return F.col(f"{quote(alias)}.{quote(name)}")


def old_values(columns: Columns, alias: str) -> list[SparkColumn]:
    return [
        *(of(alias, column.name).alias(f"_ab_o{at}") for at, column in enumerate(columns)),
        *(F.col(name) for name in PLACE),
    ]


def new_names(values: Sequence[SparkColumn], columns: Columns) -> list[SparkColumn]:
    return [value.alias(f"_ab_v{at}") for at, value in enumerate(values)]


def new_values(
    rows: DataFrame,
    columns: Columns,
    assignments: Assignments,
    table: str,
) -> dict[str, SparkColumn]:
    """The assigned columns, each cast to what its column takes; names are as they are, unquoted."""
    by_lower = {column.name.lower(): column for column in columns}
    exprs = [F.expr(sql) for _, sql in assignments]
    types = rows.select(*(expr.alias(f"e{at}") for at, expr in enumerate(exprs))).schema
    found: dict[str, SparkColumn] = {}
    for (name, _), expr, field in zip(assignments, exprs, types, strict=True):
        column = by_lower.get(name.lower())
        if column is None:
            raise UnknownName(
                f'table {table} has no column "{name}"', name=name, known=names(columns)
            )
        if column.name in found:
            raise UserError(f'column "{column.name}" of {table} is set twice')
        found[column.name] = assigned(expr, field.dataType, column, table)
    return found


def removed(rows: DataFrame, columns: Columns) -> DataFrame:
    return rows.selectExpr(*quoted(names(columns)), *PLACE, f"'{Op.REMOVE.value}' AS {OP}")


def exchanged(
    both: DataFrame,
    columns: Columns,
    rewrite: bool,
    deleting: SparkColumn | None = None,
    acting: SparkColumn | None = None,
) -> DataFrame:
    """Old and new values of a row as lines to remove and add; equal ones stay."""
    deleting = F.lit(False) if deleting is None else deleting
    acting = F.lit(True) if acting is None else acting
    types = [parse_type(column.type) for column in columns]
    old, new = (
        [exact(f"{prefix}{at}", type_) for at, type_ in enumerate(types)]
        for prefix in ("_ab_o", "_ab_v")
    )
    equal = F.expr(same(old, new))
    stays = ~acting | (~deleting & equal)
    first = F.when(~stays, line(Op.REMOVE, "_ab_o", columns))
    if rewrite:
        first = first.otherwise(line(Op.KEEP, "_ab_o", columns))
    second = F.when(~stays & ~deleting, line(Op.ADD, "_ab_v", columns))
    lines = F.explode(F.array_compact(F.array(first, second))).alias("_ab_line")
    return both.select(lines).select("_ab_line.*")


def line(op: Op, prefix: str, columns: Columns) -> SparkColumn:
    values = [f"{prefix}{at} AS {quote(column.name)}" for at, column in enumerate(columns)]
    place = PLACE if op is Op.REMOVE else absent_place()
    return F.expr(f"struct({', '.join([*values, *place])}, '{op.value}' AS {OP})")

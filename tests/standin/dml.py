"""DELETE, UPDATE and MERGE of the stand-in: the rows of a table, each with what becomes of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from anabranch.errors import DataError
from anabranch.model import Column, Columns, Op
from anabranch.spark import dml
from anabranch.spark.types import FILE, POSITION
from anabranch.spark.write import OP
from tests.standin.session import PLACES, Frame, Row, table_of


def delete(
    target: Frame, columns: Columns, condition: str | None, *, alias: str, rewrite: bool
) -> Frame:
    return _changed(target, columns, {}, condition, alias, gone=True)


def update(
    target: Frame,
    columns: Columns,
    assignments: Sequence[tuple[str, str]],
    condition: str | None,
    *,
    alias: str,
    rewrite: bool,
    table: str = "the table",
) -> Frame:
    given = {name.lower(): value for name, value in assignments}
    return _changed(target, columns, given, condition, alias, gone=False)


def merge(
    target: Frame,
    columns: Columns,
    source: Frame,
    on: str,
    clauses: Sequence[dml.Clause],
    *,
    alias: str,
    source_alias: str,
    rewrite: bool,
    table: str = "the table",
) -> Frame:
    """No row of the target may meet two rows of the source."""
    names = {each: f"_ab_{uuid.uuid4().hex}" for each in ("target", "source")}
    target.createOrReplaceTempView(names["target"])
    source.createOrReplaceTempView(names["source"])
    left, right = f"{names['target']} AS {alias}", f"{names['source']} AS {source_alias}"
    reads = {
        "matched": f"{left} JOIN {right} ON {on}",
        "not_matched_by_source": f"{left} ANTI JOIN {right} ON {on}",
        "not_matched": f"{right} ANTI JOIN {left} ON {on}",
    }
    out: list[Row] = []
    try:
        for match, read in reads.items():
            mine = [clause for clause in clauses if clause.match == match]
            met = " ".join(f"WHEN {c.condition or 'TRUE'} THEN {n}" for n, c in enumerate(mine))
            places = [*(column.name for column in columns), *PLACES]
            old = ["NULL" if match == "not_matched" else f"{alias}.{each}" for each in places]
            new = [_assigned(each, columns, source.columns, alias, source_alias) for each in mine]
            items = [
                *old,
                f"CASE {met} END" if mine else "NULL",
                *(each for n in new for each in n),
            ]
            for row in target.session.sql(f"SELECT {', '.join(items)} FROM {read}").collect():
                out += _merged(row, mine, len(columns))
    finally:
        for name in names.values():
            target.session.dropTempView(name)
    gone = [row[len(columns) : -1] for row in out if row[-1] == Op.REMOVE.value]
    if len(gone) != len({*gone}):
        raise DataError(f"MERGE: a row of {table} meets more than one row of the source")
    return Frame(target.session, table_of(out, (*columns, FILE, POSITION, Column(OP, "string"))))


def _merged(row: Row, clauses: Sequence[dml.Clause], width: int) -> list[Row]:
    """What becomes of a row by the clause it met: old values and place, clause, values by clause."""
    old, place, number, values = (
        row[:width],
        row[width : width + 2],
        row[width + 2],
        row[width + 3 :],
    )
    there = place[0] is not None
    if number is None:
        return [(*old, None, None, Op.KEEP.value)] if there else []
    new = values[number * width : (number + 1) * width]
    added = [] if clauses[number].action == "delete" else [(*new, None, None, Op.ADD.value)]
    return [(*old, *place, Op.REMOVE.value), *added] if there else added


def _assigned(
    clause: dml.Clause, columns: Columns, there: Sequence[str], alias: str, source_alias: str
) -> list[str]:
    """Every column's value after a clause of MERGE."""
    given = (
        {name.lower(): f"{source_alias}.{name}" for name in there}
        if clause.star
        else {name.lower(): value for name, value in clause.assignments}
    )
    kept = "NULL" if clause.match == "not_matched" else f"{alias}.{{}}"
    return [f"CAST({given.get(c.name.lower(), kept.format(c.name))} AS {c.type})" for c in columns]


def _changed(
    target: Frame,
    columns: Columns,
    given: Mapping[str, str],
    condition: str | None,
    alias: str,
    *,
    gone: bool,
) -> Frame:
    """The rows of a table, each with what becomes of it."""
    name = f"_ab_{uuid.uuid4().hex}"
    target.createOrReplaceTempView(name)
    new = ", ".join(
        f"CAST({given.get(c.name.lower(), f'{alias}.{c.name}')} AS {c.type}) AS n{at}"
        for at, c in enumerate(columns)
    )
    old = ", ".join(f"{alias}.{c.name}" for c in columns)
    met = f"COALESCE({condition}, FALSE)" if condition is not None else "TRUE"
    text = f"SELECT {old}, {', '.join(PLACES)}, {new}, {met} AS met FROM {name} AS {alias}"
    try:
        found = target.session.sql(text).collect()
    finally:
        target.session.dropTempView(name)
    width = len(columns)
    out: list[Row] = []
    for row in found:
        before, after, met_it = row[:width], row[width + 2 : -1], row[-1]
        if not met_it or (not gone and before == after):
            out.append((*before, None, None, Op.KEEP.value))
            continue
        out.append((*row[: width + 2], Op.REMOVE.value))
        if not gone:
            out.append((*after, None, None, Op.ADD.value))
    return Frame(target.session, table_of(out, (*columns, FILE, POSITION, Column(OP, "string"))))

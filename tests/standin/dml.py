"""DELETE, UPDATE and MERGE of the stand-in: the rows of a table, each with what becomes of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from anabranch.engine import dml
from anabranch.engine.types import FILE, POSITION
from anabranch.engine.write import OP
from anabranch.errors import DataError
from anabranch.model import Column, Columns, Op
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
    """MERGE with what is needed of it: no target row may meet two source rows."""
    names = {each: f"_ab_{uuid.uuid4().hex}" for each in ("target", "source")}
    target.createOrReplaceTempView(names["target"])
    source.createOrReplaceTempView(names["source"])
    old = ", ".join(f"{alias}.{each}" for each in (*(c.name for c in columns), *PLACES))
    left, right = f"{names['target']} AS {alias}", f"{names['source']} AS {source_alias}"
    out: list[Row] = []

    def chosen(match: str, read: str) -> None:
        mine = [clause for clause in clauses if clause.match == match]
        at = " ".join(f"WHEN {c.condition or 'TRUE'} THEN {n}" for n, c in enumerate(mine))
        number = f"CASE {at} END" if mine else "NULL"
        before = "NULL" if match == "not_matched" else old
        values = [_assigned(c, columns, source.columns, alias, source_alias) for c in mine]
        after = "".join(f", {text}" for each in values for text in each)
        text = f"SELECT {before}, {number} AS n{after} FROM {read}"
        start = 0 if match == "not_matched" else len(columns) + 2
        for row in target.session.sql(text).collect():
            place = row[:start] or (None,) * (len(columns) + 2)
            number_met = row[max(start, 1)]
            new = row[max(start, 1) + 1 :]
            if number_met is None:
                if start:
                    out.append((*place[:-2], None, None, Op.KEEP.value))
                continue
            width = len(columns)
            given = new[number_met * width : (number_met + 1) * width]
            if start:
                out.append((*place, Op.REMOVE.value))
            if mine[number_met].action != "delete":
                out.append((*given, None, None, Op.ADD.value))

    try:
        chosen("matched", f"{left} JOIN {right} ON {on}")
        chosen("not_matched_by_source", f"{left} ANTI JOIN {right} ON {on}")
        chosen("not_matched", f"{right} ANTI JOIN {left} ON {on}")
    finally:
        for name in names.values():
            target.session.dropTempView(name)
    places = [row[len(columns) : -1] for row in out if row[-1] == Op.REMOVE.value]
    if len(places) != len({*places}):
        raise DataError(f"MERGE: rows of {table} meet more than one row of the source")
    return Frame(target.session, table_of(out, (*columns, FILE, POSITION, Column(OP, "string"))))


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

"""SQLAlchemy's statements, executed without most of SQLAlchemy.

Most of a simulated run went into connections, results and rows that nobody needs.  A statement is
compiled by SQLAlchemy, once; its values are converted by SQLAlchemy's types.  Statements of another
kind than the catalog's own go the usual way.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.elements import TextClause

from anabranch.catalog.tables import CLOCK
from tests.simulation import sql
from tests.simulation.sql import Result


class _Prepared:
    """What is known of a compiled statement."""

    def __init__(self, compiled: Any, dialect: Any) -> None:
        self.compiled = compiled
        self.usual = bool(compiled.insert_prefetch or compiled.update_prefetch)
        self.expands = bool(compiled.literal_execute_params or compiled.post_compile_params)
        self.processors: dict[str, Callable[[Any], Any]] = compiled._bind_processors
        columns = compiled._result_columns
        self.make: Any = None
        if columns:
            names = [column.keyname for column in columns]
            self.make = namedtuple("Row", names, rename=True)._make  # type: ignore[misc]
            kinds = [column.type._cached_result_processor(dialect, None) for column in columns]
            self.kinds = [(at, kind) for at, kind in enumerate(kinds) if kind is not None]

    def rows(self, cursor: sqlite3.Cursor) -> list[Any]:
        if self.make is None:
            return []
        if not self.kinds:
            return [self.make(row) for row in cursor]
        found = []
        for row in cursor:
            values = list(row)
            for at, kind in self.kinds:
                values[at] = kind(values[at])
            found.append(self.make(values))
        return found


class ThinConnection:
    def __init__(self, driver: sqlite3.Connection, usual: Connection) -> None:
        self.driver, self.usual = driver, usual
        self.dialect = usual.dialect
        self.engine = usual.engine
        self.clock: Callable[[], Any] = lambda: None  # of the host that asks
        self.info: dict[Any, Any] = {}
        self._compiled: dict[Any, Any] = {}
        self._prepared: dict[int, _Prepared] = {}

    def get_execution_options(self) -> dict[str, Any]:
        return {CLOCK: self.clock()}

    def exec_driver_sql(self, text: str) -> Any:
        return self.usual.exec_driver_sql(text)

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        if isinstance(statement, sql.Statement):
            return sql.run(self.driver, statement, parameters)
        if isinstance(statement, TextClause):
            return self.usual.execute(statement, parameters)
        many = isinstance(parameters, Sequence)
        first = (parameters[0] if many else parameters) or {}
        compiled, extracted, *_ = statement._compile_w_cache(
            dialect=self.dialect,
            compiled_cache=self._compiled,
            column_keys=sorted(first),
            for_executemany=many and len(parameters) > 1,
        )
        prepared = self._prepared.get(id(compiled))
        if prepared is None:
            prepared = self._prepared[id(compiled)] = _Prepared(compiled, self.dialect)
        if prepared.usual:
            return self.usual.execute(statement, parameters)
        rowcount = 0
        found: list[Any] = []
        for each in parameters if many else (first,):
            cursor = self._one(prepared, extracted, each)
            found += prepared.rows(cursor)
            rowcount += cursor.rowcount
        return Result(found, rowcount)

    def _one(self, prepared: _Prepared, extracted: Any, given: Any) -> sqlite3.Cursor:
        compiled = prepared.compiled
        values = compiled.construct_params(given, extracted_parameters=extracted)
        text, places, processors = compiled.string, compiled.positiontup, prepared.processors
        if prepared.expands:
            expanded = compiled._process_parameters_for_postcompile(values)
            values = {**values, **expanded.additional_parameters}
            text, places = expanded.statement, expanded.positiontup
            processors = {**processors, **expanded.processors}
        bound = [
            processors[name](values[name]) if name in processors else values[name]
            for name in places
        ]
        try:
            return self.driver.execute(text, bound)
        except sqlite3.IntegrityError as error:
            raise IntegrityError(text, bound, error) from error

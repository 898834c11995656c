"""Which modules of the product make their statements with `sql`: all that use no more than it knows.

They are found by what they use, so a new table, column or module of the catalog needs no line here.
One that uses more of SQLAlchemy goes on with it: slower, and with the same result.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper, lru_cache
from types import ModuleType
from typing import Any

import sqlalchemy
from sqlalchemy import Column, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

import anabranch
from anabranch.catalog import tables
from tests.simulation import sql

FUNCTIONS: dict[int, Any] = {
    id(real): light
    for real, light in (
        (sqlalchemy.select, sql.select),
        (sqlalchemy.insert, sql.insert),
        (sqlite.insert, sql.insert),
        (sqlalchemy.update, sql.update),
        (sqlalchemy.delete, sql.delete),
        (sqlalchemy.and_, sql.and_),
        (sqlalchemy.or_, sql.or_),
        (sqlalchemy.null, sql.null),
        (sqlalchemy.true, sql.true),
        (sqlalchemy.tuple_, sql.Tuple),
        (sqlalchemy.bindparam, sql.bindparam),
        (sqlalchemy.union_all, sql.union_all),
        (sqlalchemy.func, sql.func),
        (sqlalchemy.case, sql.case),
        (sqlalchemy.literal, sql.literal),
        (sqlalchemy.literal_column, sql.literal_column),
    )
}
# Statements that run as they are, those of another database, and names that only say what things are.
HARMLESS = {
    id(each)
    for each in (
        sqlalchemy.text,
        sqlalchemy.event,
        postgresql.insert,
        IntegrityError,
        sqlalchemy.Connection,
        sqlalchemy.Row,
        sqlalchemy.Table,
        sqlalchemy.Update,
        sqlalchemy.ColumnElement,
        sqlalchemy.CompoundSelect,
    )
}


class LightTables:
    """The module of tables with light ones; all else is the module's, as it is when it is asked for."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}  # by the identity of what they stand for
        for name, table in vars(tables).items():
            if isinstance(table, Table):
                light = sql.LightTable(table)
                setattr(self, name, light)
                self.known[id(table)] = light
                for column in table.columns:
                    self.known[id(column)] = light.c[column.name]

    def __getattr__(self, name: str) -> Any:
        return getattr(tables, name)

    def of(self, value: Any) -> Any:
        """What stands for a table, a column, the module, a function, or for several of them."""
        if value is tables:
            return self
        if isinstance(value, Table | Column):
            return self.known[id(value)]
        if type(value) in (tuple, list):
            found = [self.of(each) for each in value]
            changed = any(one is not other for one, other in zip(found, value, strict=True))
            return type(value)(found) if changed else value
        if type(value) is dict:
            named = {key: self.of(each) for key, each in value.items()}
            return named if any(named[key] is not value[key] for key in value) else value
        return FUNCTIONS.get(id(value), value)


def speaks(module: ModuleType) -> bool:
    """Whether all that it has of SQLAlchemy is known."""
    return all(
        id(value) in FUNCTIONS or id(value) in HARMLESS or isinstance(value, Table | Column)
        for value in vars(module).values()
        if _is_of_sqlalchemy(value)
    )


def _is_of_sqlalchemy(value: Any) -> bool:
    where = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(where).partition(".")[0] == "sqlalchemy"


@lru_cache(maxsize=1)
def changes() -> tuple[tuple[ModuleType, str, Any, Any], ...]:
    """Module, name, what it is and what it becomes."""
    for package in (anabranch.catalog, anabranch.lake):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    light = LightTables()
    return tuple(
        (module, name, value, other)
        for path, module in sorted(sys.modules.items())
        if path.startswith("anabranch.") and module is not tables and speaks(module)
        for name, value in vars(module).items()
        if getattr(value, "__name__", None) != f"{path}.{name}"  # a part of this package
        if (other := light.of(value)) is not value
    )


def speaking() -> list[ModuleType]:
    return list({id(module): module for module, *_ in changes()}.values())


@contextmanager
def fast_sql() -> Iterator[None]:
    """Inside, the catalog makes its statements without SQLAlchemy."""
    found, modules = changes(), speaking()
    _forget(modules)
    for module, name, _, other in found:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module, name, value, _ in found:
            setattr(module, name, value)
        _forget(modules)


def _forget(modules: Iterable[ModuleType]) -> None:
    """Statements that are kept are of one kind or the other."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, _lru_cache_wrapper):
                value.cache_clear()

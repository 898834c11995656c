"""As much of SQLAlchemy's language as the catalog speaks, made into text at once.

Making a statement of SQLAlchemy takes ten times as long as SQLite takes to run it, and a simulated run
makes a hundred.  The catalog's modules write the same lines with these functions; values are converted
by SQLAlchemy's own types.  `test_fast_sql` runs the same seeds with SQLAlchemy: step for step the same.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import IntegrityError, InvalidRequestError

from anabranch.catalog.tables import Moment

DIALECT = sqlite.dialect()  # type: ignore[no-untyped-call]
Convert = Callable[[Any], Any] | None
_ROWS: dict[tuple[str, ...], Callable[[Any], Any]] = {}


class Result:
    """As much of a result as the catalog asks for."""

    __slots__ = ("_found", "rowcount")

    def __init__(self, found: list[Any], rowcount: int) -> None:
        self._found, self.rowcount = found, rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def all(self) -> list[Any]:
        return self._found

    fetchall = all

    def first(self) -> Any:
        return self._found[0] if self._found else None

    def one_or_none(self) -> Any:
        if len(self._found) > 1:
            raise InvalidRequestError("more than one row")
        return self.first()

    def one(self) -> Any:
        if len(self._found) != 1:
            raise InvalidRequestError("not one row")
        return self._found[0]

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        found = self.one_or_none()
        return None if found is None else found[0]

    def scalar(self) -> Any:
        return self._found[0][0] if self._found else None

    def scalars(self) -> Result:
        return Result([row[0] for row in self._found], self.rowcount)

    def mappings(self) -> Result:
        return Result([row._asdict() for row in self._found], self.rowcount)

    def tuples(self) -> Result:
        return self


class Param:
    """A value that is given when the statement is run."""

    def __init__(self, name: str, bind: Convert = None) -> None:
        self.name, self.bind = name, bind

    def of(self, bind: Convert) -> Param:
        """The same, for a column."""
        return Param(self.name, bind)

    def given(self, values: Any) -> Any:
        value = values[self.name]
        return self.bind(value) if self.bind is not None else value


class Form:
    """The text of an expression without its values: of each there is one, made when it is first
    asked for, and so is whatever is made of it."""

    __slots__ = ("bind", "key", "made", "result", "tables", "text", "type")

    def __init__(
        self,
        text: str,
        tables: tuple[str, ...] = (),
        key: str = "anon",
        bind: Convert = None,
        result: Convert = None,
        type: Any = None,  # of a column
    ) -> None:
        self.text, self.tables, self.key = text, tables, key
        self.bind, self.result, self.type = bind, result, type
        self.made: dict[Any, Form] = {}

    def then(self, what: Any, text: str, *others: Form) -> Form:
        """What is made of this one, and of others."""
        tables = tuple(table for each in (self, *others) for table in each.tables)
        found = self.made[what] = Form(text, tables)
        return found


class Expr:
    __slots__ = ("form", "params")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, form: Form, params: tuple[Any, ...] = ()) -> None:
        self.form, self.params = form, params

    @property
    def type(self) -> Any:
        return self.form.type

    def _with(self, sign: str, other: Any) -> Expr:
        form = self.form
        if isinstance(other, Expr):
            what = sign, other.form
            made = form.made.get(what)
            if made is None:
                made = form.then(what, f"{form.text} {sign} {other.form.text}", other.form)
            return Expr(made, self.params + other.params)
        if form.bind is not None:
            other = other.of(form.bind) if isinstance(other, Param) else form.bind(other)
        made = form.made.get(sign) or form.then(sign, f"{form.text} {sign} ?")
        return Expr(made, (*self.params, other))

    def _then(self, pattern: str) -> Expr:
        form = self.form
        made = form.made.get(pattern) or form.then(pattern, pattern.format(form.text))
        return Expr(made, self.params)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_(None) if other is None else self._with("=", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self.is_not(None) if other is None else self._with("!=", other)

    def __lt__(self, other: Any) -> Expr:
        return self._with("<", other)

    def __le__(self, other: Any) -> Expr:
        return self._with("<=", other)

    def __gt__(self, other: Any) -> Expr:
        return self._with(">", other)

    def __ge__(self, other: Any) -> Expr:
        return self._with(">=", other)

    def __add__(self, other: Any) -> Expr:
        return self._with("+", other)

    def __and__(self, other: Expr) -> Expr:
        return and_(self, other)

    def __or__(self, other: Expr) -> Expr:
        return or_(self, other)

    def is_(self, other: Any) -> Expr:
        return self._then({None: "{} IS NULL", True: "{} IS 1", False: "{} IS 0"}[other])

    def is_not(self, other: Any) -> Expr:
        return self._then("{} IS NOT NULL")

    def is_distinct_from(self, other: Expr) -> Expr:
        return self._with("IS NOT", other)

    def __invert__(self) -> Expr:
        return self._then("NOT {}")

    def desc(self) -> Expr:
        return self._then("{} DESC")

    def in_(self, values: Iterable[Any] | Statement) -> Expr:
        return self._in("IN", values)

    def not_in(self, values: Iterable[Any] | Statement) -> Expr:
        return self._in("NOT IN", values)

    def _in(self, word: str, values: Iterable[Any] | Statement) -> Expr:
        form = self.form
        if isinstance(values, Statement):
            what: Any = word, values.form
            made = form.made.get(what)
            if made is None:
                made = form.then(what, f"{form.text} {word} ({values.form.text})")
            return Expr(made, self.params + values.params)
        bind = form.bind
        given = tuple(values) if bind is None else tuple([bind(each) for each in values])
        what = word, len(given)
        made = form.made.get(what)
        if made is None:
            made = form.then(what, f"{form.text} {word} ({', '.join('?' * len(given))})")
        return Expr(made, self.params + given)


def _conversions(kind: Any) -> tuple[Convert, Convert]:
    """From and to Python, as SQLAlchemy does it; moments, which never change, are kept."""
    found = kind._cached_bind_processor(DIALECT), kind._cached_result_processor(DIALECT, None)
    if isinstance(kind, Moment):
        return tuple(lru_cache(maxsize=2000)(each) for each in found)  # type: ignore[return-value]
    return found


class Fields(dict[str, Expr]):
    __getattr__ = dict.__getitem__


class LightTable:
    def __init__(self, table: Table) -> None:
        self.name = table.name
        self.c = Fields()
        for column in table.columns:
            # only SQLAlchemy's statements would give it
            assert column.default is None and column.onupdate is None, f"{column} has a default"
            self.c[column.name] = Expr(
                Form(
                    f'{table.name}."{column.name}"',
                    (table.name,),
                    column.name,
                    *_conversions(column.type),
                    column.type,
                )
            )
        self.columns = list(table.columns)
        self.source = Form(table.name)
        columns = tuple(each.form for each in self.c.values())
        self.select = Statement(Made("select", None, columns))
        self.statements = {
            kind: Statement(Made(kind, self)) for kind in ("insert", "update", "delete")
        }

    def join(self, other: LightTable, on: Expr, word: str = "JOIN") -> Expr:
        what = word, other.source, on.form
        made = self.source.made.get(what)
        if made is None:
            text = f"{self.name} {word} {other.name} ON {on.form.text}"
            made = self.source.made[what] = Form(text)
        return Expr(made, on.params)

    def outerjoin(self, other: LightTable, on: Expr) -> Expr:
        return self.join(other, on, "LEFT JOIN")

    def insert(self) -> Statement:
        return insert(self)

    def update(self) -> Statement:
        return update(self)

    def delete(self) -> Statement:
        return delete(self)


_ALL: dict[tuple[Any, ...], Form] = {}


def _all(sign: str, parts: tuple[Expr, ...]) -> Expr:
    what = (sign, *[part.form for part in parts])
    made = _ALL.get(what)
    if made is None:
        text = f" {sign} ".join(part.form.text for part in parts)
        tables = tuple(table for part in parts for table in part.form.tables)
        made = _ALL[what] = Form(f"({text})", tables)
    return Expr(made, tuple([param for part in parts for param in part.params]))


def and_(*parts: Expr) -> Expr:
    return _all("AND", parts)


def or_(*parts: Expr) -> Expr:
    return _all("OR", parts)


_NULL, _TRUE = Expr(Form("NULL")), Expr(Form("1"))


def null() -> Expr:
    return _NULL


def true() -> Expr:
    return _TRUE


class Tuple(Expr):
    """Several columns, as one of several rows of values."""

    __slots__ = ("columns",)

    def __init__(self, *columns: Expr) -> None:
        first, *others = (each.form for each in columns)
        what = "tuple", *others
        made = first.made.get(what)
        if made is None:
            text = f"({', '.join(each.form.text for each in columns)})"
            made = first.then(what, text, *others)
        super().__init__(made)
        self.columns = columns

    def _in(self, word: str, values: Any) -> Expr:
        rows, form = list(values), self.form
        what = word, len(rows)
        made = form.made.get(what)
        if made is None:
            marks = f"({', '.join('?' * len(self.columns))})"
            text = f"{form.text} {word} (VALUES {', '.join([marks] * len(rows))})"
            if not rows:
                text = "1 != 1" if word == "IN" else "1 = 1"
            made = form.then(what, text)
        binds = [column.form.bind for column in self.columns]
        given = [
            bind(value) if bind else value
            for row in rows
            for bind, value in zip(binds, row, strict=True)
        ]
        return Expr(made, tuple(given))


def literal_column(text: str) -> Expr:
    return Expr(Form(text))


def literal(value: Any, kind: Any) -> Expr:
    """A value of some type."""
    bind, _ = _conversions(kind)
    return Expr(Form("?", bind=bind), (value if bind is None else bind(value),))


def case(when: tuple[Expr, Expr], *, else_: Expr) -> Expr:
    condition, then = when
    text = f"CASE WHEN {condition.form.text} THEN {then.form.text} ELSE {else_.form.text} END"
    return Expr(Form(text), (*condition.params, *then.params, *else_.params))


def bindparam(name: str) -> Any:
    return Param(name)


class _Functions:
    def __getattr__(self, name: str) -> Callable[..., Expr]:
        def call(of: Expr, *more: Expr, type_: object = None) -> Expr:
            what = name, *[each.form for each in more]
            made = of.form.made.get(what)
            if made is None:
                text = ", ".join(each.form.text for each in (of, *more))
                made = of.form.then(what, f"{name}({text})", *what[1:])
                made.key, made.bind, made.result = f"{name}_1", of.form.bind, of.form.result
            return Expr(made, tuple([param for each in (of, *more) for param in each.params]))

        return call


func = _Functions()


class Made:
    """The parts of a statement without their values; of each there is one, as of an expression."""

    __slots__ = (
        "_text",
        "binds",
        "columns",
        "conflict",
        "correlated",
        "from_",
        "kind",
        "kinds",
        "make",
        "next",
        "rest",
        "table",
        "values",
        "where",
        "word",
    )

    def __init__(self, kind: str, table: LightTable | None, columns: tuple[Form, ...] = ()) -> None:
        self.kind, self.table, self.columns = kind, table, columns
        self.where: tuple[Form, ...] = ()
        self.from_: Form | None = None
        self.values: dict[str, str] = {}  # a column's mark
        self.binds: tuple[Convert, ...] = ()  # how values given later become those of columns
        self.rest = self.word = self.conflict = self.correlated = ""
        self.next: dict[Any, Made] = {}
        self._text: str | None = None
        self.make, self.kinds = _shape(columns)

    def having(self, **parts: Any) -> Made:
        made = Made(self.kind, self.table, parts.get("columns", self.columns))
        for name in ("where", "from_", "values", "rest", "word", "conflict", "correlated"):
            setattr(made, name, parts.get(name, getattr(self, name)))
        made.binds = parts.get("binds", ())
        return made

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = getattr(self, f"_{self.kind}")()
        return self._text

    def _insert(self) -> str:
        assert self.table is not None
        names = ", ".join(f'"{name}"' for name in self.values)
        given = f"VALUES ({', '.join(self.values.values())})"
        text = f"INSERT INTO {self.table.name} ({names}) {self.word or given}"
        return f"{text}{self.conflict}{self._returning()}"

    def _returning(self) -> str:
        shown = ", ".join(each.text.rpartition(".")[2] for each in self.columns)
        return f" RETURNING {shown}" if shown else ""

    def _update(self) -> str:
        assert self.table is not None
        pairs = ", ".join(f'"{name}" = {mark}' for name, mark in self.values.items())
        return f"UPDATE {self.table.name} SET {pairs}{self._conditions()}{self._returning()}"

    def _delete(self) -> str:
        assert self.table is not None
        return f"DELETE FROM {self.table.name}{self._conditions()}{self._returning()}"

    def _select(self) -> str:
        if self.from_ is not None:
            source = self.from_.text
        else:
            used = (*self.columns, *self.where)
            names = dict.fromkeys(table for each in used for table in each.tables)
            source = ", ".join(name for name in names if name != self.correlated)
        shown = ", ".join(each.text for each in self.columns)
        return f"SELECT {self.word}{shown} FROM {source}{self._conditions()}{self.rest}"

    def _conditions(self) -> str:
        return " WHERE " + " AND ".join(each.text for each in self.where) if self.where else ""


class Statement:
    """Parts of a statement and their values; each method gives another one."""

    __slots__ = ("form", "front", "where_")

    def __init__(
        self, form: Made, front: tuple[Any, ...] = (), where: tuple[Any, ...] = ()
    ) -> None:
        self.form = form
        self.front, self.where_ = front, where  # values before and after WHERE

    @property
    def params(self) -> tuple[Any, ...]:
        return self.front + self.where_

    def _next(self, what: Any, **parts: Any) -> Statement:
        made = self.form.next.get(what)
        if made is None:
            made = self.form.next[what] = self.form.having(**parts)
        return Statement(made, self.front, self.where_)

    def correlate(self, table: LightTable) -> Statement:
        return self._next(("correlate", table.name), correlated=table.name)

    def exists(self) -> Expr:
        form = self.form
        made = _ALL.get(("EXISTS", form))
        if made is None:
            made = _ALL["EXISTS", form] = Form(f"EXISTS ({form.text})", (form.correlated,))
        return Expr(made, self.params)

    def join_from(self, table: LightTable, other: LightTable, on: Expr) -> Statement:
        return self.select_from(table.join(other, on))

    def where(self, *conditions: Expr) -> Statement:
        forms = tuple([each.form for each in conditions])
        made = self.form.next.get(forms)
        if made is None:
            made = self.form.next[forms] = self.form.having(where=self.form.where + forms)
        params = self.where_
        for each in conditions:
            params += each.params
        return Statement(made, self.front, params)

    def select_from(self, source: Any) -> Statement:
        assert self.form.from_ is None
        form = source.form if isinstance(source, Expr) else source.source
        made = self._next(("from", form), from_=form)
        if isinstance(source, Expr):
            made.front += source.params
        return made

    def values(self, **values: Any) -> Statement:
        """Each value is bound as its column says, or is an expression."""
        form, table = self.form, self.form.table
        assert table is not None
        what = tuple([(n, v.form if isinstance(v, Expr) else None) for n, v in values.items()])
        made = form.next.get(("values", what))
        if made is None:
            marks = {name: "?" if given is None else given.text for name, given in what}
            binds = tuple(table.c[name].form.bind for name in values)
            made = form.having(values={**form.values, **marks}, binds=binds)
            form.next["values", what] = made
        front: list[Any] = []
        for value, bind in zip(values.values(), made.binds, strict=True):
            if isinstance(value, Expr):
                front += value.params
            elif bind is None:
                front.append(value)
            else:
                front.append(value.of(bind) if isinstance(value, Param) else bind(value))
        return Statement(made, self.front + tuple(front), self.where_)

    def from_select(self, names: list[str], rows: Statement) -> Statement:
        """An insert of what a SELECT finds."""
        marks = dict.fromkeys(names, "?")
        made = self._next(("rows", *names, rows.form), values=marks, word=rows.form.text)
        return Statement(made.form, rows.params)

    def scalar_subquery(self) -> Expr:
        (column,) = self.form.columns
        text = f"({self.form.text})"
        return Expr(Form(text, (), column.key, column.bind, column.result), self.params)

    def order_by(self, *by: Expr | str) -> Statement:
        texts = ", ".join(each if isinstance(each, str) else each.form.text for each in by)
        return self._next(("order", texts), rest=f" ORDER BY {texts}{self.form.rest}")

    def limit(self, count: int) -> Statement:
        return self._next(("limit", count), rest=f"{self.form.rest} LIMIT {count}")

    def distinct(self) -> Statement:
        return self._next("distinct", word="DISTINCT ")

    def with_for_update(self) -> Statement:
        return self

    def on_conflict_do_nothing(self) -> Statement:
        return self._next("conflict", conflict=" ON CONFLICT DO NOTHING")

    def returning(self, *columns: Expr) -> Statement:
        forms = tuple(each.form for each in columns)
        return self._next(("returning", forms), columns=forms)


_SELECTS: dict[tuple[Form, ...], Made] = {}


def select(*columns: Any) -> Statement:
    if isinstance(columns[0], LightTable):
        assert len(columns) == 1
        return columns[0].select
    forms = tuple([each.form for each in columns])
    made = _SELECTS.get(forms)
    if made is None:
        made = _SELECTS[forms] = Made("select", None, forms)
    return Statement(made, tuple([param for each in columns for param in each.params]))


def insert(table: LightTable) -> Statement:
    return table.statements["insert"]


def update(table: LightTable) -> Statement:
    return table.statements["update"]


def delete(table: LightTable) -> Statement:
    return table.statements["delete"]


def union_all(*parts: Statement) -> Statement:
    made = Made("select", None, parts[0].form.columns)
    made._text = " UNION ALL ".join(part.form.text for part in parts)
    return Statement(made, tuple(param for part in parts for param in part.params))


def run(driver: sqlite3.Connection, statement: Statement, given: Any) -> Result:
    """Execute a statement, with the values that are given, or for each of several."""
    if given is None:
        return _run(driver, statement.form, statement.front + statement.where_)
    found: list[Any] = []
    rowcount = 0
    for each in given if isinstance(given, list | tuple) else (given,):
        form, params = statement.form, statement.params
        if form.kind == "insert":
            form, params = _with_row(form, each), (*params, *each.values())
            bound = [bind(p) if bind else p for bind, p in zip(form.binds, params, strict=True)]
        else:
            bound = [p.given(each) if isinstance(p, Param) else p for p in params]
        result = _run(driver, form, bound)
        found += result.all()
        rowcount += result.rowcount
    return Result(found, rowcount)


def _with_row(form: Made, row: dict[str, Any]) -> Made:
    """An insert that is given the values of these columns when it is run."""
    what = "row", *row
    made = form.next.get(what)
    if made is None:
        assert form.table is not None
        given = [form.table.c[name].form.bind for name in row]
        marks = {**form.values, **dict.fromkeys(row, "?")}
        done = [None] * (len(marks) - len(row))  # values of the statement itself
        made = form.next[what] = form.having(values=marks, binds=(*done, *given))
    return made


def _run(driver: sqlite3.Connection, form: Made, params: Any) -> Result:
    text = form._text or form.text
    try:
        cursor = driver.execute(text, params)
    except sqlite3.IntegrityError as error:
        raise IntegrityError(text, params, error) from error
    if form.make is None:
        return Result([], cursor.rowcount)
    if not form.kinds:
        return Result(list(map(form.make, cursor)), cursor.rowcount)
    found = []
    for row in cursor:
        values = list(row)
        for at, convert in form.kinds:
            values[at] = convert(values[at])
        found.append(form.make(values))
    return Result(found, cursor.rowcount)


def _shape(columns: tuple[Form, ...]) -> tuple[Any, list[tuple[int, Any]]]:
    """What makes a row of a result, and the values in it that are converted."""
    if not columns:
        return None, []
    keys = tuple(column.key for column in columns)
    if keys not in _ROWS:
        _ROWS[keys] = partial(tuple.__new__, namedtuple("Row", keys, rename=True))  # type: ignore[misc]
    kinds = [(at, column.result) for at, column in enumerate(columns) if column.result is not None]
    return _ROWS[keys], kinds

"""Random queries, data and changes, as text that Spark and DuckDB read alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

T = TypeVar("T")

TABLES = {
    "a": "id INT, k INT, v VARCHAR",
    "b": "id INT, k INT, w VARCHAR",
    "c": "id INT, k INT, z DECIMAL(8,2)",
    "t": "id INT, g VARCHAR, x INT",
}
_KINDS = {"INT": "int", "VARCHAR": "text", "DECIMAL(8,2)": "dec"}


@dataclass(frozen=True)
class Col:
    """A column as a query refers to it, and its kind: int, text, dec or real."""

    text: str
    kind: str


def columns_of(table: str) -> list[Col]:
    pairs = (part.strip().split(" ", 1) for part in TABLES[table].split(", "))
    return [Col(name, _KINDS[kind]) for name, kind in pairs]


@dataclass
class Builder:
    """Draws one query; `ctes` are in scope, `aliases` counts FROM items."""

    draw: DrawFn
    aliases: int = 0
    ctes: dict[str, list[Col]] = field(default_factory=dict)

    def pick(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def query(self) -> str:
        """A whole query, perhaps with a CTE that is used several times."""
        prefix = ""
        if self.chance(25):
            text, cols = self.select(1)
            self.ctes["w"] = cols
            prefix = f"WITH w AS ({text}) "
        return prefix + self.body(2)[0]

    def body(self, depth: int) -> tuple[str, list[Col]]:
        kind = self.pick("select", "select", "select", "union all", "union")
        if kind == "select" or depth == 0:
            return self.select(depth)
        shape = self.draw(st.lists(st.sampled_from(["int", "text"]), min_size=1, max_size=3))
        left, cols = self.select(depth - 1, shape)
        right, _ = self.select(depth - 1, shape)
        return f"{left} {kind.upper()} {right}", cols

    def select(self, depth: int, shape: list[str] | None = None) -> tuple[str, list[Col]]:
        source, cols = self.sources(depth)
        where = f" WHERE {self.condition(cols)}" if self.chance(40) else ""
        kind = self.pick("plain", "plain", "distinct", "grouped", "grouped", "global")
        if kind in ("plain", "distinct"):
            items = self.items(cols, shape)
            word = "DISTINCT " if kind == "distinct" else ""
            return f"SELECT {word}{_listed(items)} FROM {source}{where}", _outputs(items)
        keys = (
            [self.value(cols) for _ in range(self.draw(st.integers(1, 2)))]
            if kind == "grouped"
            else []
        )
        items = self.grouped_items(cols, keys, shape)
        group = f" GROUP BY {', '.join(key.text for key in keys)}" if keys else ""
        having = ""
        if keys and self.chance(25):
            test = f"{self.pick('>', '<=', '=')} {self.pick(0, 1, 2, 4)}"
            having = f" HAVING {self.call(cols, 'int').text} {test}"
        return f"SELECT {_listed(items)} FROM {source}{where}{group}{having}", _outputs(items)

    def items(self, cols: list[Col], shape: list[str] | None) -> list[Col]:
        wanted = shape or [""] * self.draw(st.integers(1, 3))
        return [self.value(cols, kind) for kind in wanted]

    def grouped_items(self, cols: list[Col], keys: list[Col], shape: list[str] | None) -> list[Col]:
        wanted = shape or [""] * self.draw(st.integers(1, 4))
        made = []
        for kind in wanted:
            fitting = [key for key in keys if kind in ("", key.kind)]
            if fitting and self.chance(50):
                made.append(self.pick(*fitting))
            else:
                made.append(self.call(cols, kind))
        return made

    def call(self, cols: list[Col], kind: str) -> Col:
        """An aggregate call of that kind."""
        kind = kind or self.pick("int", "int", "int", "text", "real", "dec")
        where = f" FILTER (WHERE {self.condition(cols)})" if self.chance(15) else ""
        if kind == "text":
            return Col(f"{self.pick('min', 'max')}({self.value(cols, 'text').text}){where}", "text")
        if kind == "real":
            return Col(f"avg({self.value(cols, 'int').text}){where}", "real")
        if kind == "dec":
            return Col(
                f"{self.pick('sum', 'min', 'max')}({self.value(cols, 'dec').text}){where}", "dec"
            )
        value = self.value(cols, "int").text
        text = self.pick(
            "count(*)",
            f"count({value})",
            f"sum({value})",
            f"min({value})",
            f"max({value})",
            f"count(DISTINCT {value})",
            f"sum({value})",
        )
        return Col(text + where, "int")

    def sources(self, depth: int) -> tuple[str, list[Col]]:
        """FROM: one to three items, joined in all the ways there are."""
        if self.chance(10):
            left, right = self.pick(("a", "b"), ("b", "c"), ("a", "c"))
            cols = [Col("k", "int"), Col(f"{left}.id", "int"), Col(f"{right}.k", "int")]
            cols.append(Col("v" if left == "a" else "w", "text"))
            return self.pick(
                f"{left} JOIN {right} USING (k)", f"{left} JOIN {right} USING (k)"
            ), cols
        text, cols = self.source(depth)
        for _ in range(self.pick(0, 0, 1, 1, 2)):
            right, more = self.source(depth)
            text, cols = self.joined(text, cols, right, more)
        return text, cols

    def joined(
        self, text: str, cols: list[Col], right: str, more: list[Col]
    ) -> tuple[str, list[Col]]:
        both = cols + more
        kind = self.pick("equal", "equal", "equal", "other", "cross")
        if kind == "cross":
            return f"{text} CROSS JOIN {right}", both
        if kind == "other":
            return f"{text} JOIN {right} ON {self.condition(both)}", both
        wanted = self.pick("int", "text")
        condition = f"{self.column(cols, wanted)} = {self.column(more, wanted)}"
        if self.chance(30):
            condition += f" AND {self.condition(both)}"
        return f"{text} JOIN {right} ON {condition}", both

    def source(self, depth: int) -> tuple[str, list[Col]]:
        self.aliases += 1
        alias = f"r{self.aliases}"
        if self.ctes and self.chance(60):
            name = self.pick(*self.ctes)
            return f"{name} AS {alias}", _under(alias, self.ctes[name])
        if depth > 0 and self.chance(35):
            text, cols = self.body(depth - 1)
            return f"({text}) AS {alias}", _under(alias, cols)
        name = self.pick(*TABLES)
        return f"{name} AS {alias}", _under(alias, columns_of(name))

    def column(self, cols: list[Col], kind: str) -> str:
        fitting = [col.text for col in cols if col.kind == kind]
        if fitting:
            return self.pick(*fitting)
        return {"int": "2", "text": "'x'", "dec": "CAST(1.5 AS DECIMAL(8,2))"}[kind]

    def value(self, cols: list[Col], kind: str = "") -> Col:
        kind = kind or self.pick(*(col.kind for col in cols))
        if kind == "real":
            return Col(next(col.text for col in cols if col.kind == "real"), "real")
        column = self.column(cols, kind)
        if kind == "int" and self.chance(25):
            other = self.column(cols, "int")
            shape = self.pick(
                "{0} + 1", "{0} + {1}", "coalesce({0}, 0)", "CASE WHEN {2} THEN {0} END"
            )
            column = shape.format(column, other, self.condition(cols) if "{2}" in shape else "")
        if kind == "text" and self.chance(20):
            column = self.pick(f"upper({column})", f"{column} || 'q'")
        return Col(column, kind)

    def condition(self, cols: list[Col]) -> str:
        number, other = self.column(cols, "int"), self.column(cols, "int")
        word = self.column(cols, "text")
        simple = self.pick(
            f"{number} = {self.pick(0, 1, 2)}",
            f"{number} > {other}",
            f"{number} <= {self.pick(1, 2, 3)}",
            f"{number} IS NULL",
            f"{word} IS NOT NULL",
            f"{word} = 'x'",
            f"{number} BETWEEN {other} AND 3",
            f"{number} IN (0, 2, 3)",
            f"{word} LIKE 'x%'",
        )
        if self.chance(20):
            return f"({simple} {self.pick('AND', 'OR')} {self.condition(cols)})"
        return f"NOT {simple}" if self.chance(10) else simple


def _listed(items: list[Col]) -> str:
    return ", ".join(f"{item.text} AS c{i}" for i, item in enumerate(items))


def _outputs(items: list[Col]) -> list[Col]:
    return [Col(f"c{i}", item.kind) for i, item in enumerate(items)]


def _under(alias: str, cols: list[Col]) -> list[Col]:
    return [Col(f"{alias}.{col.text}", col.kind) for col in cols]


@st.composite
def queries(draw: DrawFn) -> str:
    return Builder(draw).query()


_VALUES = {
    "int": st.sampled_from(["NULL", "0", "1", "2", "3"]),
    "text": st.sampled_from(["NULL", "'x'", "'y'"]),
    "dec": st.sampled_from(["NULL", "0.50", "1.25", "3.00"]),
}


@st.composite
def rows(draw: DrawFn, table: str) -> str:
    return f"({', '.join(draw(_VALUES[col.kind]) for col in columns_of(table))})"


@st.composite
def inserts(draw: DrawFn, most: int = 5) -> list[str]:
    made = []
    for table in TABLES:
        for _ in range(draw(st.integers(0, most))):
            made.append(f"INSERT INTO {table} VALUES {draw(rows(table))}")
    return made


@st.composite
def statements(draw: DrawFn) -> str:
    """One change of one table; rows repeat, so several equal ones may go at once."""
    table = draw(st.sampled_from(list(TABLES)))
    cols = columns_of(table)
    column = draw(st.sampled_from(cols))
    test = draw(st.sampled_from(cols))
    where = f"{test.text} IS NOT DISTINCT FROM {draw(_VALUES[test.kind])}"
    return draw(
        st.sampled_from(
            [
                f"INSERT INTO {table} VALUES {draw(rows(table))}",
                f"DELETE FROM {table} WHERE {where}",
                f"UPDATE {table} SET {column.text} = {draw(_VALUES[column.kind])} WHERE {where}",
                f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})",
            ]
        )
    )


windows = st.lists(st.lists(statements(), min_size=1, max_size=5), min_size=1, max_size=3)

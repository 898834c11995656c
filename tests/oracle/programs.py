"""Random programs of stream tables that read each other, and random changes of what they read.

Every relation has two columns of small numbers, so that rows meet often.  A program only gains rows
when its members do; what it reads from outside it may aggregate and negate.  A member that is a bag
reads only members that are sets: every way round keeps a row once, and the rounds end.  In programs
that ascend all members are bags: each row is x < y, and whatever it comes from is below it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

SOURCES = ("e", "f", "g")
MEMBERS = ("m0", "m1", "m2", "m3")
COLUMNS = "x INT, y INT"

Row = tuple[int | None, int | None]


@dataclass(frozen=True)
class Step:
    """Rows that go and come; None instead of rows: all that the source has."""

    source: str
    gone: tuple[Row, ...] | None = ()
    new: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Case:
    """A member is its branches and what stands between them; then changes, each of some steps."""

    members: dict[str, tuple[str, tuple[str, ...]]]
    start: dict[str, tuple[Row, ...]]
    changes: tuple[tuple[Step, ...], ...]

    @property
    def queries(self) -> dict[str, str]:
        return {name: query(how, branches) for name, (how, branches) in self.members.items()}


def query(how: str, branches: Sequence[str]) -> str:
    if how == "DISTINCT":
        return f"SELECT DISTINCT x, y FROM ({branches[0]}) d" if branches else EMPTY
    return (
        f" {how} ".join(
            f"({each})" if " EXCEPT " in each or " INTERSECT " in each else each
            for each in branches
        )
        or EMPTY
    )


EMPTY = "SELECT x, y FROM e WHERE FALSE"


def generate(seed: int) -> Case:
    dice = random.Random(f"cycle {seed}")
    names = MEMBERS[: dice.choice((1, 1, 1, 2, 2, 2, 3, 4))]
    bags = {name for name in names[1:] if dice.random() < 0.3}
    sets = [name for name in names if name not in bags]
    members = {}
    for at, name in enumerate(names):
        writer = Writer(dice, sets if name in bags else names)
        branches = [writer.outside()] if at == 0 or dice.random() < 0.3 else []
        branches += [writer.inside() for _ in range(dice.choice((1, 1, 1, 2)))]
        how = "UNION ALL" if name in bags else "UNION" if len(branches) > 1 else "DISTINCT"
        members[name] = how, tuple(branches)
    start = {name: tuple(rows(dice, dice.randint(0, 4))) for name in SOURCES}
    return Case(members, start, tuple(changes(dice, start)))


def ascend(seed: int) -> Case:
    """Bags over bags.  A row comes from rows with a smaller y, or with the same y and a larger x; only
    copies keep a row as it is, and those go from one member to the next."""
    dice = random.Random(f"ascending {seed}")
    names = MEMBERS[: dice.choice((1, 1, 2, 2, 3))]
    members = {}
    for at, name in enumerate(names):
        writer = Writer(dice, names)
        branches = [writer.from_source()] if at == 0 or dice.random() < 0.4 else []
        branches += [writer.copied(names[:at])] if at and dice.random() < 0.6 else []
        branches += [writer.higher() for _ in range(dice.choice((1, 1, 2)))]
        members[name] = "UNION ALL", tuple(branches)
    start = {name: tuple(upwards(dice, dice.randint(0, 4))) for name in SOURCES}
    return Case(members, start, tuple(changes(dice, start, upwards)))


def upwards(dice: random.Random, count: int) -> list[Row]:
    pairs = [(x, y) for y in range(2, 5) for x in range(1, y)]
    return [dice.choice(pairs) for _ in range(count)]


Rows = Callable[[random.Random, int], list[Row]]


def rows(dice: random.Random, count: int) -> list[Row]:
    return [(value(dice), value(dice)) for _ in range(count)]


def value(dice: random.Random) -> int | None:
    return None if dice.random() < 0.04 else dice.randint(1, 4)


def changes(
    dice: random.Random, start: dict[str, tuple[Row, ...]], some: Rows = rows
) -> list[tuple[Step, ...]]:
    """Two changes; every second step of one empties a relation, or takes the row that is left."""
    there = {name: list(found) for name, found in start.items()}
    made = []
    for _ in range(2):
        steps = []
        for name in dice.sample(SOURCES, dice.choice((1, 1, 2, 3))):
            kind, found = dice.random(), there[name]
            if found and kind < 0.4:
                steps.append(Step(name, None))
            elif found and kind < 0.75:
                gone = tuple(dice.sample(found, dice.randint(1, len(found))))
                new = tuple(some(dice, dice.choice((0, 0, 1))))
                steps.append(Step(name, gone, new))
            else:
                steps.append(Step(name, (), tuple(some(dice, dice.randint(1, 3)))))
            there[name] = after(found, steps[-1])
        made.append(tuple(steps))
    return made


def after(found: Sequence[Row], step: Step) -> list[Row]:
    left = [] if step.gone is None else list(found)
    for row in step.gone or ():
        if row in left:
            left.remove(row)
    return [*left, *step.new]


@dataclass
class Writer:
    """Branches as text; every alias is a new one."""

    dice: random.Random
    names: Sequence[str]
    aliases: int = 0

    def alias(self) -> str:
        self.aliases += 1
        return f"a{self.aliases}"

    def source(self) -> str:
        return self.dice.choice(SOURCES)

    def member(self) -> str:
        return self.dice.choice(self.names)

    def column(self) -> str:
        return self.dice.choice("xy")

    def plain(self, *of: str) -> str:
        """A condition without a subquery."""
        one = f"{self.dice.choice(of)}.{self.column()}"
        if len(of) > 1 and self.dice.random() < 0.5:
            return f"{one} {self.dice.choice(('<', '<=', '>', '<>'))} {of[-1]}.{self.column()}"
        return f"{one} {self.dice.choice(('=', '<', '>', '<>'))} {self.dice.randint(1, 4)}"

    # -- what reads no member --------------------------------------------------------------------

    def outside(self) -> str:
        s, t, a, b = self.source(), self.source(), self.alias(), self.alias()
        return self.dice.choice(
            (
                f"SELECT x, y FROM {s}",
                f"SELECT x, y FROM {s} WHERE {self.plain(s)}",
                f"SELECT {a}.x, CAST(MAX({a}.y) AS INT) AS y FROM {s} {a} GROUP BY {a}.x",
                f"SELECT x, y FROM {s} EXCEPT SELECT y, x FROM {t}",
                f"SELECT {a}.x, {a}.y FROM {s} {a} WHERE NOT EXISTS "
                f"(SELECT 1 FROM {t} {b} WHERE {b}.x = {a}.y)",
                f"SELECT {a}.x, {b}.y FROM {s} {a} LEFT JOIN {t} {b} ON {b}.x = {a}.y",
                f"SELECT {b}.x, {a}.y FROM {t} {b} RIGHT JOIN {s} {a} ON {b}.x = {a}.y",
                f"SELECT {a}.x, {a}.y FROM {s} {a} LEFT ANTI JOIN {t} {b} ON {b}.x = {a}.y",
                f"SELECT {a}.x, CAST(COUNT(*) AS INT) AS y FROM {s} {a} GROUP BY {a}.x "
                f"HAVING {self.dice.choice(('COUNT(*) > 1', f'MIN({a}.y) < 3', 'COUNT(*) = 1'))}",
                f"SELECT x, y FROM {s} INTERSECT ALL SELECT x, y FROM {t}",
                f"SELECT v AS x, y FROM {s} LATERAL VIEW OUTER explode({_some('y', 'x')}) {a} AS v",
            )
        )

    # -- what ascends ----------------------------------------------------------------------------

    def from_source(self) -> str:
        s, where = self.source(), self.dice.random() < 0.4
        return f"SELECT x, y FROM {s}" + (f" WHERE {self.plain(s)}" if where else "")

    def copied(self, names: Sequence[str]) -> str:
        a, where = self.alias(), self.dice.random() < 0.3
        text = f"SELECT {a}.x, {a}.y FROM {self.dice.choice(names)} {a}"
        return text + (f" WHERE {self.plain(a)}" if where else "")

    def higher(self) -> str:
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        more = f" AND {self.plain(a, b)}" if self.dice.random() < 0.3 else ""
        return self.dice.choice(
            (
                f"SELECT {a}.x, {b}.y FROM {m} {a} JOIN {s} {b} ON {a}.y = {b}.x{more}",
                f"SELECT {b}.x, {a}.y FROM {s} {b} JOIN {m} {a} ON {b}.y = {a}.x{more}",
                f"SELECT {a}.x, {b}.y FROM {m} {a} JOIN {self.member()} {b} ON {a}.y = {b}.x{more}",
                f"SELECT {b}.x, {b}.y FROM {s} {b} WHERE "
                f"EXISTS (SELECT 1 FROM {m} {a} WHERE {a}.y = {b}.x{more})",
                f"SELECT {b}.x, {b}.y FROM {s} {b} WHERE "
                f"{b}.x IN (SELECT {a}.y FROM {m} {a} WHERE {a}.x > 0{more})",
            )
        )

    # -- what reads members ----------------------------------------------------------------------

    def inside(self) -> str:
        kinds: tuple[Callable[[], str], ...] = (
            self.copy,
            self.joined,
            self.crossed,
            self.two_members,
            self.judged,
            self.judged,
            self.judged,
            self.judged_in_on,
            self.set_operation,
            self.completed,
            self.against_outside,
            self.distinct_below,
            self.grouped,
            self.half_joined,
            self.exploded,
        )
        return self.dice.choice(kinds)()

    def copy(self) -> str:
        m, a = self.member(), self.alias()
        shown = self.dice.choice((f"{a}.x, {a}.y", f"{a}.y AS x, {a}.x AS y", f"{a}.x, {a}.x AS y"))
        where = f" WHERE {self.plain(a)}" if self.dice.random() < 0.3 else ""
        return f"SELECT {shown} FROM {m} {a}{where}"

    def joined(self) -> str:
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        on = self.dice.choice(
            (f"{a}.y = {b}.x", f"{a}.y = {b}.x AND {self.plain(a, b)}", f"{a}.y < {b}.x")
        )
        return f"SELECT {a}.x, {b}.y FROM {s} {a} JOIN {m} {b} ON {on}"

    def crossed(self) -> str:
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        shown = self.dice.choice((f"{a}.x, {a}.y", f"{a}.x, {b}.y"))
        return f"SELECT {shown} FROM {s} {a} CROSS JOIN {m} {b}"

    def two_members(self) -> str:
        a, b, c = self.alias(), self.alias(), self.alias()
        more = f" JOIN {self.source()} {c} ON {c}.x = {b}.y" if self.dice.random() < 0.3 else ""
        return (
            f"SELECT {a}.x, {b}.y FROM {self.member()} {a} "
            f"JOIN {self.member()} {b} ON {a}.y = {b}.x{more}"
        )

    def judged(self) -> str:
        table = self.source() if self.dice.random() < 0.75 else self.member()
        a = self.alias()
        return f"SELECT {a}.x, {a}.y FROM {table} {a} WHERE {self.judgement(a)}"

    def judged_in_on(self) -> str:
        s, t, a, b = self.source(), self.source(), self.alias(), self.alias()
        return (
            f"SELECT {a}.x, {b}.y FROM {s} {a} JOIN {t} {b} "
            f"ON {a}.y = {b}.x AND ({self.judgement(self.dice.choice((a, b)))})"
        )

    def judgement(self, of: str) -> str:
        """A condition with subqueries over members, of which it asks only if they are true."""
        one, plain = self.asks(of), self.plain(of)
        return self.dice.choice(
            (
                one,
                one,
                f"{one} OR {plain}",
                f"{plain} OR {one}",
                f"{one} AND {plain}",
                f"({one} AND {plain}) OR {self.asks(of)}",
                f"{one} OR {self.asks(of)}",
                f"{one} AND {self.asks(of)}",
            )
        )

    def asks(self, of: str) -> str:
        kind, c = self.dice.random(), self.column()
        inner, below = self.relation(of)
        if kind < 0.4:
            return f"EXISTS (SELECT 1 {below})"
        if kind < 0.45:
            return f"EXISTS (SELECT {inner}.x {below} LIMIT {self.dice.randint(1, 2)})"
        if kind < 0.5:
            return f"EXISTS (SELECT {inner}.x {below} GROUP BY {inner}.x HAVING {inner}.x > 1)"
        if kind < 0.7:
            return f"{of}.{c} IN (SELECT {inner}.{self.column()} {below})"
        if kind < 0.8:
            return f"({of}.x, {of}.y) IN (SELECT {inner}.x, {inner}.{self.column()} {below})"
        less = self.dice.choice((">", "<", "=", "<="))
        return f"{of}.{c} {less} ANY (SELECT {inner}.{self.column()} {below})"

    def relation(self, of: str) -> tuple[str, str]:
        """FROM and WHERE of a subquery over members, correlated or not, and the alias that it shows."""
        a, b, kind = self.alias(), self.alias(), self.dice.random()
        m, s = self.member(), self.source()
        if kind < 0.15:
            found = f"FROM {m} {a} JOIN {s} {b} ON {b}.x = {a}.y"
        elif kind < 0.25:
            found = f"FROM {m} {a} JOIN {self.member()} {b} ON {b}.x = {a}.y"
        elif kind < 0.3:
            found = f"FROM (SELECT x, y FROM {m} INTERSECT SELECT x, y FROM {s}) {a}"
        elif kind < 0.35:
            found = f"FROM {s} {a} CROSS JOIN {m} {b}"
        else:
            found = f"FROM {m} {a}"
        where = []
        if self.dice.random() < 0.5:
            on = (f"{a}.x = {of}.y", f"{a}.x = {of}.y", f"{a}.x < {of}.y", f"{a}.x <=> {of}.x")
            where.append(self.dice.choice(on))
        if self.dice.random() < 0.3:
            where.append(self.plain(a))
        if self.dice.random() < 0.15:
            c, t = self.alias(), self.source()
            where.append(
                self.dice.choice(("NOT ", ""))
                + f"EXISTS (SELECT 1 FROM {t} {c} WHERE {c}.x = {a}.y)"
            )
        return a, found + (f" WHERE {' AND '.join(where)}" if where else "")

    def set_operation(self) -> str:
        m, s = self.member(), self.source()
        other = self.member() if self.dice.random() < 0.4 else s
        return self.dice.choice(
            (
                f"SELECT x, y FROM {m} INTERSECT SELECT y, x FROM {other}",
                f"SELECT x, y FROM {s} INTERSECT SELECT x, y FROM {m}",
                f"SELECT y, x FROM {m} EXCEPT SELECT x, y FROM {s}",
                f"SELECT x, y FROM {m} INTERSECT ALL SELECT y, x FROM {other}",
                f"SELECT x, y FROM {m} EXCEPT ALL SELECT x, y FROM {s}",
            )
        )

    def completed(self) -> str:
        """LEFT JOIN and RIGHT JOIN; the member is on the side that is kept."""
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        right = self.dice.choice((s, f"(SELECT x, CAST(COUNT(*) AS INT) AS y FROM {s} GROUP BY x)"))
        on = self.dice.choice((f"{b}.x = {a}.y", f"{b}.x > {a}.y", f"{b}.x = {a}.y AND {b}.y > 1"))
        shown = f"SELECT {a}.x, COALESCE({b}.y, {a}.y) AS y FROM"
        return self.dice.choice(
            (
                f"{shown} {m} {a} LEFT JOIN {right} {b} ON {on}",
                f"{shown} {right} {b} RIGHT JOIN {m} {a} ON {on}",
            )
        )

    def half_joined(self) -> str:
        """SEMI JOIN with members on either side, ANTI JOIN against what lies outside."""
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        on = self.dice.choice(
            (f"{b}.x = {a}.y", f"{b}.x < {a}.y", f"{b}.x = {a}.y AND {self.plain(a, b)}")
        )
        return self.dice.choice(
            (
                f"SELECT {a}.x, {a}.y FROM {s} {a} LEFT SEMI JOIN {m} {b} ON {on}",
                f"SELECT {a}.y AS x, {a}.x AS y FROM {m} {a} LEFT SEMI JOIN {s} {b} ON {on}",
                f"SELECT {a}.x, {a}.y FROM {self.member()} {a} LEFT SEMI JOIN {m} {b} ON {on}",
                f"SELECT {a}.y AS x, {a}.x AS y FROM {m} {a} LEFT ANTI JOIN {s} {b} ON {on}",
            )
        )

    def against_outside(self) -> str:
        """Aggregates and negation over what lies outside."""
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        where = self.dice.choice(
            (
                f"NOT EXISTS (SELECT 1 FROM {s} {b} WHERE {b}.x = {a}.y)",
                f"NOT EXISTS (SELECT 1 FROM {s} {b})",
                f"{a}.x NOT IN (SELECT {b}.y FROM {s} {b} WHERE {b}.y IS NOT NULL)",
                f"{a}.x <= (SELECT MAX({b}.x) FROM {s} {b})",
                f"{a}.x > (SELECT COUNT(*) FROM {s} {b})",
                f"{a}.x >= ALL (SELECT {b}.x FROM {s} {b})",
                f"(EXISTS (SELECT 1 FROM {s} {b} WHERE {b}.x = {a}.x)) = ({a}.y > 2)",
            )
        )
        return f"SELECT {a}.y AS x, {a}.x AS y FROM {m} {a} WHERE {where}"

    def distinct_below(self) -> str:
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        return (
            f"SELECT {b}.x, {a}.y FROM (SELECT DISTINCT y FROM {m}) {a} "
            f"JOIN {s} {b} ON {b}.y = {a}.y"
        )

    def grouped(self) -> str:
        """GROUP BY that is a DISTINCT, with a HAVING of its keys; aggregates over what lies outside."""
        m, s, a, b = self.member(), self.source(), self.alias(), self.alias()
        counts = f"(SELECT x, CAST(COUNT(*) AS INT) AS y FROM {s} GROUP BY x HAVING COUNT(*) > 1)"
        return self.dice.choice(
            (
                f"SELECT {a}.y AS x, {a}.x AS y FROM {m} {a} GROUP BY {a}.x, {a}.y "
                f"HAVING {self.plain(a)}",
                f"SELECT {a}.x, {a}.x AS y FROM {m} {a} GROUP BY {a}.x HAVING {a}.x > 1",
                f"SELECT {a}.x, {b}.y FROM {m} {a} JOIN {counts} {b} ON {b}.x = {a}.y",
            )
        )

    def exploded(self) -> str:
        m, a = self.member(), self.alias()
        view = self.dice.choice(
            ("VIEW explode(array(x, y))", f"VIEW OUTER explode({_some('x', 'y')})")
        )
        return f"SELECT v AS x, y FROM {m} LATERAL {view} {a} AS v"


def _some(shown: str, judged: str) -> str:
    """An array that some rows do not have."""
    return f"CASE WHEN {judged} > 2 THEN array({shown}, {judged}) END"


# -- smaller cases that fail as well -------------------------------------------------------------------


def smaller(case: Case) -> list[Case]:
    """The case with one thing less, in every way."""
    found = []
    for at in range(len(case.changes)):
        found.append(replace(case, changes=case.changes[:at] + case.changes[at + 1 :]))
        for step in range(len(case.changes[at])):
            steps = case.changes[at][:step] + case.changes[at][step + 1 :]
            if steps:
                changes = (*case.changes[:at], steps, *case.changes[at + 1 :])
                found.append(replace(case, changes=changes))
    for name, (how, branches) in case.members.items():
        for at in range(len(branches)):
            left = branches[:at] + branches[at + 1 :]
            how_left = "DISTINCT" if how == "UNION" and len(left) < 2 else how
            found.append(replace(case, members={**case.members, name: (how_left, left)}))
    for name, there in case.start.items():
        for at in range(len(there)):
            start = {**case.start, name: there[:at] + there[at + 1 :]}
            found.append(replace(case, start=start))
    return [each for each in found if each.changes]


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case that fails and of which no part can be left out."""
    while True:
        less = next((each for each in smaller(case) if fails(each)), None)
        if less is None:
            return case
        case = less

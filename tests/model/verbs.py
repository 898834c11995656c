"""What each step does; a step is refused by an error of ours.

Where nobody else is at work, what listings said before is held against what happens.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from anabranch.api import Anabranch
from anabranch.catalog import tables
from anabranch.errors import AnabranchError, InternalError, Refused
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from tests.model import plain
from tests.model.checks import SOURCES, Checks, Wrong, bag, show
from tests.model.plain import Bag, Spec

PROJECTS = {"shop": ("db.p.p0", "db.p.p1", "db.p.p2"), "till": ("db.q.q0", "db.q.q1")}
PROJECT = tuple(name for names in PROJECTS.values() for name in names)
VIEWS = ("db.v.w0", "db.v.w1")
BY_HAND = ("db.h.t0", "db.h.t1", "db.h.t2", "db.h.t3")
WRITES = ("insert", "update", "delete", "merge", "transfer", "foreign_append", "foreign_overwrite")
ARROW = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@dataclass
class Held:
    """A cut that somebody holds, and what it showed."""

    by: Anabranch
    stack: ExitStack
    world: Any
    rows: dict[str, Bag]


@dataclass
class Verbs(Checks):
    held: list[Held] = field(default_factory=list)
    alone: bool = True  # nobody else is at work, and nothing fails

    def __post_init__(self) -> None:
        super().__post_init__()
        self.outside = SqlCatalog("anabranch", uri=f"sqlite:///{self.folder / 'home/catalog.db'}")
        for name in SOURCES:
            self.eye.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT)")
        self.eye.sql("CREATE CLUSTER c0")
        for project in PROJECTS:
            (self.folder / project).mkdir()
            (self.folder / project / "anabranch.toml").write_text(f'name = "{project}"\n')
        for name in SOURCES:
            self.write("shop", name, f"CREATE TABLE {name.split('.')[-1]} (k BIGINT, v BIGINT)")

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    # -- writes

    def do_nothing(self, ab: Anabranch) -> None: ...

    def do_insert(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        ab.append(name, arrow(rows))

    def do_update(self, ab: Anabranch, name: str, key: int, more: int) -> None:
        ab.sql(f"UPDATE {name} SET v = v + {more} WHERE k = {key}")

    def do_delete(self, ab: Anabranch, name: str, key: int) -> None:
        ab.sql(f"DELETE FROM {name} WHERE k = {key}")

    def do_merge(self, ab: Anabranch, target: str, source: str) -> None:
        ab.sql(
            f"MERGE INTO {target} AS t USING (SELECT k, MAX(v) AS v FROM {source} GROUP BY k) AS n "
            "ON t.k = n.k WHEN MATCHED THEN UPDATE SET v = n.v "
            "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)"
        )

    def do_add_column(self, ab: Anabranch, name: str) -> None:
        ab.sql(f"ALTER TABLE {name} ADD COLUMN x INT")

    def do_widen(self, ab: Anabranch, name: str) -> None:
        ab.sql(f"ALTER TABLE {name} ALTER COLUMN x TYPE BIGINT")

    def do_index(self, ab: Anabranch, name: str) -> None:
        ab.sql(f"CREATE INDEX i0 ON {name} (k) IN CLUSTER c0")

    def do_drop_index(self, ab: Anabranch, name: str) -> None:
        ab.sql(f"DROP INDEX i0 ON {name}")

    def do_look_up(self, ab: Anabranch, name: str, key: int) -> None:
        """By an index, if there is one."""
        with ab.at() as world:
            found, rows = bag(world.table(name, f"k = {key}")), bag(world.table(name))
        if found != Counter({row: n for row, n in rows.items() if row[0] == key}):
            raise Wrong(f"{name} where k = {key}: {show(found)}, and all of it: {show(rows)}")

    def do_transfer(self, ab: Anabranch, one: str, other: str, key: int, amount: int) -> None:
        with ab.transaction():
            ab.append(one, arrow([[key, -amount]]))
            ab.append(other, arrow([[key, amount]]))

    def do_foreign_append(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self.outside.load_table(tuple(name.split("."))).append(arrow(rows))

    def do_foreign_overwrite(self, ab: Anabranch, name: str, rows: Sequence[Sequence[Any]]) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Delete operation did not match any records")
            self.outside.load_table(tuple(name.split("."))).overwrite(arrow(rows))

    # -- stream tables

    def do_create(
        self, ab: Anabranch, name: str, spec: Spec, options: Mapping[str, Any] | None = None
    ) -> None:
        ab.create_stream_table(name, plain.text(spec), **(options or {}))

    def do_circle(
        self, ab: Anabranch, specs: Mapping[str, Spec], options: Mapping[str, Any] | None = None
    ) -> None:
        """Tables that read each other."""
        queries = {name: plain.text(spec) for name, spec in specs.items()}
        ab.create_stream_tables(queries, **(options or {}))

    def do_view(self, ab: Anabranch, name: str, spec: Spec) -> None:
        ab.sql(f"CREATE OR REPLACE VIEW {name} AS {plain.text(spec)}")

    def do_alter_query(self, ab: Anabranch, name: str, spec: Spec) -> None:
        ab.alter_stream_table(name, query=plain.text(spec))

    def do_alter(self, ab: Anabranch, name: str, options: Mapping[str, Any]) -> None:
        ab.alter_stream_table(name, **options)

    def do_drop(self, ab: Anabranch, name: str, cascade: bool = False) -> None:
        ab.drop_stream_table(name, cascade)

    def do_suspend(self, ab: Anabranch, name: str) -> None:
        ab.suspend(name)

    def do_resume(self, ab: Anabranch, name: str) -> None:
        ab.resume(name)

    def do_refresh(self, ab: Anabranch, name: str | None = None) -> None:
        predicted = self.predicted(ab, name) if self.alone and name else None
        before = self.look()
        waiting = self.blocked(before) if self.alone and self.settled(before) else None
        try:
            ab.refresh(name)
        except Refused as error:
            if waiting is not None and "is suspended" in error.message and not stops(name, waiting):
                raise Wrong(f"{name} waits for nobody, and was refused: {error}") from error
            raise
        if not self.alone:
            return
        if waiting is not None:
            if stops(name, waiting):
                raise Wrong(f"{name} waits for a suspended table, and was refreshed")
            self.check_left_alone(before, waiting)
        if predicted and (action := ab.history(name, 1)[0]["action"]) not in (predicted, "NO_DATA"):
            raise Wrong(f"explain said that {name} would be refreshed {predicted}, not {action}")
        if name and (shown := self.status_of(ab, name))["status"] == "ERROR":
            raise Wrong(f"refreshed, and status() shows {shown}")
        seen = self.look()
        asked = seen.order([TableName.parse(name)]) if name else seen.order()
        blocked = self.blocked(seen)
        if late := [str(n) for n in seen.stale(asked) if n not in blocked]:
            raise Wrong(f"stale after a refresh: {late}")
        again = {line["table"]: line["action"] for line in ab.refresh(name)}
        if busy := {t: a for t, a in again.items() if a not in ("NO_DATA", "SKIP")}:
            raise Wrong(f"a second refresh found work: {busy}")

    def check_left_alone(self, before: CatalogState, waiting: set[TableName]) -> None:
        """Whoever waits for a suspended table is where it was."""
        after = self.look()
        if moved := [str(n) for n in waiting if after.pointers.get(n) != before.pointers.get(n)]:
            raise Wrong(f"wait for a suspended table, and were refreshed: {moved}")

    def status_of(self, ab: Anabranch, name: str) -> dict[str, Any]:
        return next(row for row in ab.status() if row["name"] == name)

    def predicted(self, ab: Anabranch, name: str) -> str | None:
        """How explain says that a table will be refreshed, if nothing above it comes first."""
        seen, parsed = self.look(), TableName.parse(name)
        above = [each for each in seen.order([parsed]) if each != parsed]
        if parsed not in seen.streams or seen.stale(above):
            return None
        found = re.search(r"next refresh: ([A-Z_]+),", ab.explain(name))
        return found[1] if found else None

    def do_full(self, ab: Anabranch, name: str) -> None:
        ab.refresh(name, full=True)

    def do_tick(self, ab: Anabranch, seconds: float = 0) -> None:
        """A tick, some time after what happened before."""
        self.pass_time(seconds)
        if not self.alone:
            ab.tick()
            return
        listed = ab.groups()
        self.check_listed(ab, listed)
        before = self.look()
        waiting = self.blocked(before) if self.settled(before) else set()
        now = tables.now()
        blocked = {each["group_id"] for each in listed if each["blocked_by"]}
        due = {each["group_id"] for each in listed if each["next_due"] and each["next_due"] <= now}
        late = {each["group_id"] for each in listed if each["lag_seconds"]}
        outcomes = {each["group_id"]: each["outcome"] for each in ab.tick()}
        for group, outcome in outcomes.items():
            if group in blocked and outcome != "SKIPPED":
                raise Wrong(f"groups() called {group} blocked, and a tick {outcome} it")
        self.check_left_alone(before, waiting)
        moved = [group for group, outcome in outcomes.items() if outcome == "PUBLISHED"]
        if moved and not due:
            raise Wrong(f"groups() called nothing due, and a tick published {moved}")
        if missed := (due & late) - blocked - set(outcomes):
            raise Wrong(f"groups() called {missed} due and late, and a tick left them out")

    def check_listed(self, ab: Anabranch, listed: Sequence[Mapping[str, Any]]) -> None:
        """groups() and status() name whoever waits for a suspended table, and nobody else."""
        waiting = {str(name) for name in self.blocked(self.look())}
        told = {row["name"]: row for row in ab.status()}
        for group in listed:
            by, reason, members = group["blocked_by"], group["blocked_reason"], group["members"]
            if waiting.intersection(members) and by is None:
                raise Wrong(f"{members} wait for a suspended table, and groups() says nothing")
            if (reason or "").endswith("is suspended") and not waiting.issuperset(members):
                raise Wrong(f"groups() says of {members}: {reason}, and they need not wait")
            for name in members:
                if told[name]["blocked_by"] != (None if by == name else by):
                    raise Wrong(f"status() says {told[name]}, and groups() {group}")

    def do_clock(self, ab: Anabranch, seconds: float) -> None:
        self.pass_time(seconds)

    def do_verify(self, ab: Anabranch) -> None:
        seen = self.look()
        stale = set(seen.stale(seen.order()))
        for name, stream in seen.streams.items():
            if not stream.populated:
                continue
            try:
                found = ab.verify(str(name))
            except InternalError:
                raise
            except AnabranchError as error:
                if name not in stale:
                    raise Wrong(f"{name} is up to date and cannot be verified: {error}") from error
                continue
            if not found["equal"]:
                raise Wrong(f"verify: {found}")

    # -- groups

    def do_group(
        self, ab: Anabranch, name: str, members: Sequence[str], isolation: str = "repeatable_read"
    ) -> None:
        ab.create_refresh_group(name, members, isolation)

    def do_alter_group(self, ab: Anabranch, name: str, options: Mapping[str, Any]) -> None:
        ab.alter_refresh_group(name, **options)

    def do_drop_group(self, ab: Anabranch, name: str) -> None:
        ab.drop_refresh_group(name)

    # -- deployments

    def write(self, project: str, name: str, text: str | None) -> None:
        place = self.folder / project / "models" / f"{name.replace('.', '/')}.sql"
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink(missing_ok=True)
        else:
            place.write_text(text)

    def do_edit(self, ab: Anabranch, name: str, spec: Spec | None) -> None:
        short = name.split(".")[-1]
        project = next(each for each, names in PROJECTS.items() if name in names)
        self.write(project, name, spec and f"CREATE STREAM TABLE {short} AS {plain.text(spec)}")

    def staged(self, ab: Anabranch, project: str) -> str | None:
        """Stage, and hold what the plan said against it."""
        folder = str(self.folder / project)
        if not self.alone:
            return ab.stage(folder)
        planned, refused = None, None
        try:
            planned = ab.plan(folder)
        except Refused as error:
            refused = error
        made = ab.stage(folder)
        if refused is not None:
            raise Wrong(f"the plan of {project} was refused, and it was staged: {refused}")
        if planned is not None and planned.empty != (made is None):
            raise Wrong(f"staged {made} by the plan {planned}")
        return made

    def do_stage(self, ab: Anabranch, project: str = "shop") -> None:
        self.staged(ab, project)

    def do_deploy(self, ab: Anabranch, project: str = "shop") -> None:
        made = self.staged(ab, project)
        if made is not None:
            ab.promote(made)
        if self.alone and not (plan := ab.plan(str(self.folder / project))).empty:
            raise Wrong(f"the plan after a deployment: {plan}")

    def waiting(self, ab: Anabranch, project: str) -> list[str]:
        return [
            each["id"]
            for each in ab.deployments()
            if each["status"] == "STAGED" and each["project"] == project
        ]

    def do_promote(self, ab: Anabranch, project: str = "shop") -> None:
        for each in self.waiting(ab, project)[:1]:
            ab.promote(each)

    def do_rollback(self, ab: Anabranch, project: str = "shop") -> None:
        ab.rollback(project=project)

    def do_abort(self, ab: Anabranch, project: str = "shop") -> None:
        for each in self.waiting(ab, project)[:1]:
            ab.abort(each)

    # -- upkeep and readers

    def do_maintain(self, ab: Anabranch, seconds: float = 0) -> None:
        """Upkeep, some time after what happened before; what is held or listed outlives it."""
        self.pass_time(seconds)
        ab.maintain()
        if self.alone:
            self.check_cuts(ab)
            self.do_read_held(ab)

    def do_read_cuts(self, ab: Anabranch) -> None:
        self.check_cuts(ab)

    def do_hold(self, ab: Anabranch) -> None:
        stack = ExitStack()
        world = stack.enter_context(ab.at())
        rows = {str(n): bag(world.table(n)) for n in world.names() if "__" not in str(n)}
        self.held.append(Held(ab, stack, world, rows))

    def do_read_held(self, ab: Anabranch) -> None:
        for each in self.held:
            for name, rows in each.rows.items():
                try:
                    found = bag(each.world.table(name))
                except (AnabranchError, OSError) as error:
                    raise Wrong(f"{name} of a held cut is gone: {error}") from error
                if found != rows:
                    raise Wrong(f"{name} of a held cut: {show(found)}, not {show(rows)}")

    def do_release(self, ab: Anabranch) -> None:
        for each in self.held:
            each.stack.close()
        self.held.clear()


def stops(name: str | None, waiting: set[TableName]) -> bool:
    """Whether a refresh of the given table has to be refused; of all tables it never is."""
    return name is not None and TableName.parse(name) in waiting


def arrow(rows: Sequence[Sequence[Any]]) -> pa.Table:
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=ARROW)

"""What must hold after every commit, and at the end.

The checks look at the database with SQL of their own and at the files on the disk: no function of the
product is asked whether the product is right.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.lake.places import MARKER
from anabranch.names import TableName
from anabranch.refresh import run
from anabranch.refresh.check import check
from anabranch.tables import stream_tables as declare
from tests.simulation import light
from tests.simulation.database import Database
from tests.simulation.light import Bag
from tests.simulation.plans import BY_HAND, DIAMONDS, STREAMS, THEIRS, Op
from tests.simulation.world import RETENTION, WAREHOUSE, World, Wrong

BACKUPS = "file:///simulated/backups"
START: dict[str, tuple[tuple[int, int], ...]] = {"s.a": ((1, 1), (2, 2)), "s.b": ((1, 3), (2, 4))}
PENDING = {"s.a": (3, 5), "s.b": (3, 6)}
_COUNTS = "SELECT cut, (SELECT count(*) FROM ab_cuts) FROM ab_meta"
_VERSIONS = (
    "SELECT namespace || '.' || name, metadata_location FROM ab_versions "
    "WHERE metadata_location IS NOT NULL AND cut_id <= ? AND (until_cut IS NULL OR until_cut > ?)"
)
_RECORDED = (
    "SELECT DISTINCT v.metadata_location, v.table_uuid, v.snapshot_id, h.id, s.record, "
    "p.metadata_location FROM ab_versions v LEFT JOIN ab_shapes h ON h.id = v.shape "
    "LEFT JOIN ab_snapshots s ON s.table_uuid = v.table_uuid AND s.snapshot_id = v.snapshot_id "
    "LEFT JOIN iceberg_tables p ON p.metadata_location = v.metadata_location "
    "WHERE v.metadata_location IS NOT NULL"
)
_SNAPSHOT = "SELECT record FROM ab_snapshots WHERE table_uuid = ? AND snapshot_id = ?"
_STREAMS = (
    "SELECT name, query, cut_id, options, lineage FROM ab_stream_tables "
    "WHERE populated AND computed_from LIKE definition || '/%'"
)
_REDEFINED = (
    "SELECT name FROM ab_stream_tables "
    "WHERE populated AND coalesce(computed_from, '') NOT LIKE definition || '/%'"
)

_WAITERS = "SELECT table_name, token, since, expires_at, host, pid FROM ab_waiters"
_LEASES = (
    "SELECT token, expires_at, NULL FROM ab_leases",
    "SELECT token, expires_at, NULL FROM ab_read_leases",
    "SELECT id, expires_at, pid FROM ab_deployments WHERE expires_at IS NOT NULL",
)


class Checks:
    def __init__(self, world: World) -> None:
        self.world = world
        self.cut = 0
        self.shown: dict[int, dict[str, Bag]] = {}  # what each cut showed when it was new
        self.bags: dict[str, Bag] = {}  # by metadata file
        self.snapshots: dict[int, Bag] = {}
        self.superseded: dict[int, float] = {}  # when the next cut was published, in true time
        self.behind = (
            0  # the newest cut of a host whose machine started with a clock that was behind
        )
        self.moment = 0  # of the attached catalog, that the newest cut shows
        self.goes_on_deleting = False
        world.disk.deletes = self.note_deletion
        self.restored = 0  # how often
        self.rotten = False  # a file of the backups
        self.recorded: set[int] = set()
        self.writes: list[tuple[Op, str]] = []
        self.queries: dict[str, str] = {}
        self.by_hand: dict[str, dict[str, str]] = {}  # altered tables: deployments that there were
        self.acknowledged: dict[str, str] = {}  # what a deployment may be from then on
        self.look(world.database)

    @property
    def adopted(self) -> bool:
        """Whether the warehouse is another catalog's by now, as its mark says."""
        mark = self.world.disk.files.get(f"{WAREHOUSE}/{MARKER}")
        return mark is not None and owner(mark.content) != self.world.catalog_uuid

    def note_deletion(self, path: str) -> None:
        """The former owner of the warehouse is in the middle of tidying it up: nobody can help that."""
        op = self.world.current.op
        if op is not None and op[0] != "adopt" and self.adopted:
            self.goes_on_deleting = True

    # -- after every commit ------------------------------------------------------------------------

    def look(self, database: Database) -> None:
        query = database.query
        cut, count = query(_COUNTS).fetchone()
        if cut != self.cut or count != len(self.recorded):
            recorded = {row[0] for row in query("SELECT cut_id FROM ab_cuts")}
            if gone := self.recorded - recorded:
                self.check_forgotten(gone)
            self.recorded = recorded
        if cut == self.cut:
            return
        if cut < self.cut:
            raise Wrong(f"cut {self.cut} was published and is lost: the newest is {cut}")
        first = self.cut == 0
        for each in range(cut if first else self.cut + 1, cut + 1):
            if not first:
                self.superseded[each - 1] = self.world.time
            places = dict(query(_VERSIONS, (each, each)).fetchall())
            self.shown[each] = {name: self.rows(at, each) for name, at in places.items()}
            self.check_moment(each, {name: at for name, at in places.items() if name in THEIRS})
        self.cut = cut
        if self.adopted:
            (kind,) = query("SELECT kind FROM ab_cuts WHERE cut_id = ?", (cut,)).fetchone()
            if kind != "observed":
                raise Wrong(f"cut {cut} ({kind}) was published after a copy adopted the warehouse")
            return
        if self.world.ahead() < -0.5:
            self.behind = cut
        if not first:
            self.check_times(query)
            self.check_leases(query, cut)
            self.check_untouched(query, cut)
        self.check_by_hand(query)
        self.check_streams(query)

    def check_moment(self, cut: int, places: dict[str, str]) -> None:
        """A cut shows tables of an attached catalog as they were at one moment, which is never before
        that of the cut before it."""
        if not places:
            return
        if places not in self.world.moments:
            raise Wrong(
                f"cut {cut} shows {places}: {' and '.join(THEIRS)} were never there together"
            )
        moment = self.world.moments.index(places)
        if moment < self.moment:
            raise Wrong(f"cut {cut} shows an attached catalog as it was before the cut before it")
        self.moment = moment

    def rows(self, location: str, cut: int) -> Bag:
        """The rows that a metadata file shows, read when it is new."""
        if location not in self.bags:
            try:
                metadata = self.world.disk.read(location, "metadata file")
                found = self.bag(metadata)
            except AnabranchError as error:
                known = (
                    self.snapshots.get(metadata.current_snapshot_id or 0) if self.lossy else None
                )
                if known is None:
                    raise Wrong(f"cut {cut} cannot be read: {error}") from error
                found = known
            self.bags[location] = found
            if metadata.current_snapshot_id is not None:
                self.snapshots[metadata.current_snapshot_id] = found
        return self.bags[location]

    def bag(self, metadata: Any) -> Bag:
        """The rows that the metadata of a table shows."""
        disk = self.world.disk
        return light.bag_of(disk, light.files_at(disk, metadata.current_snapshot()))

    def check_times(self, query: Any) -> None:
        last = query("SELECT published_at FROM ab_cuts ORDER BY cut_id DESC LIMIT 2").fetchall()
        if len(last) == 2 and last[0][0] < last[1][0]:
            raise Wrong(f"the time of cut {self.cut} is before that of the cut before it")

    def check_untouched(self, query: Any, cut: int) -> None:
        """Whoever stages, aborts or tidies up changes nothing of what production shows; what others did
        may become a cut of its own meanwhile, and what is staged may bring along what it reads."""
        op = self.world.current.op
        if op is None or op[0] not in ("stage", "abort", "maintain"):
            return
        kind = query("SELECT kind FROM ab_cuts WHERE cut_id = ?", (cut,)).fetchone()[0]
        before, after = (
            {name: rows for name, rows in self.shown[each].items() if "__" not in name}
            for each in (cut - 1, cut)
        )
        if before != after and kind not in ("observed", "refresh"):
            raise Wrong(f"{op[0]} has changed what production shows (cut {cut}, {kind})")

    def check_by_hand(self, query: Any) -> None:
        """No deployment throws away what somebody altered by hand since it was staged."""
        now = dict(query("SELECT name, query FROM ab_stream_tables").fetchall())
        before, self.queries = self.queries, now
        changed = {name for name, text in now.items() if before.get(name, text) != text}
        for name in self.by_hand.keys() - now.keys():
            del self.by_hand[name]
        if not changed:
            return
        kind = query("SELECT kind FROM ab_cuts WHERE cut_id = ?", (self.cut,)).fetchone()[0]
        status = dict(query("SELECT id, status FROM ab_deployments").fetchall())
        for name in sorted(changed):
            if kind == "alter stream table":
                self.by_hand[name] = status
                continue
            for id_, then in self.by_hand.pop(name, {}).items():
                if then != status[id_] and kind in ("promote", "rollback"):
                    raise Wrong(
                        f"a {kind} gave {name} {now[name]!r}: somebody made it {before[name]!r}"
                    )

    def check_turn(self, names: Collection[Any], mine: Any) -> None:
        """Who waits for a lease gets it before those who came later, and those who do not wait."""
        world = self.world
        at = world.clock().now().replace(tzinfo=None)
        for table, token, since, until, host, pid in world.database.query(_WAITERS).fetchall():
            first = mine is None or (since, token) < (str(mine.since)[:26], mine.token)
            lives = (host, pid) in world.living and datetime.fromisoformat(until) > at
            if first and lives and any(str(name) == table for name in names):
                raise Wrong(f"{table} was taken past one who waits for it")

    def check_forgotten(self, gone: set[int]) -> None:
        """Nobody forgets what was shown within the retention, if the catalog's clock is right on its
        host: setting the clock on the wall changes it only before the machine starts.  Cuts of a host
        that is behind look old, and so do those before them: nobody can tell, since hosts that share a
        file have no clock in common."""
        world = self.world
        if world.ahead() > 0.5:
            return
        for cut in sorted(gone):
            age = world.time - self.superseded.get(cut, 0.0)
            if age < RETENTION - 1 and cut > self.behind:
                raise Wrong(f"cut {cut} was shown {age:.1f} s ago and is forgotten")

    def check_beats(self, process: Any, kept: list[str]) -> None:
        """Who lives and has a lease keeps it: unless somebody has taken it over, it goes on."""
        now = self.world.clock().now().replace(tzinfo=None)
        query = process.runtime.store.database.query
        keys = {key.partition(" ")[0] for key in kept}  # of a deployment also says who stages it
        for what in _LEASES:
            for key, until, pid in query(what).fetchall():
                mine = pid is None or pid == process.pid
                if key in keys and mine and datetime.fromisoformat(until) < now:
                    said = f"a process that lives has let its lease {key} end"
                    self.world.wrong = self.world.wrong or Wrong(said)

    def check_leases(self, query: Any, cut: int) -> None:
        """Who publishes a stream table has its lease, and has computed it from what is declared."""
        kind = query("SELECT kind FROM ab_cuts WHERE cut_id = ?", (cut,)).fetchone()[0]
        if kind == "observed":
            return
        changed = {
            row[0]
            for row in query(
                "SELECT v.namespace || '.' || v.name FROM ab_versions v JOIN ab_stream_tables s "
                "ON s.name = v.namespace || '.' || v.name WHERE v.cut_id = ?",
                (cut,),
            )
        }
        if not changed:
            return
        for (name,) in query(_REDEFINED):
            if name in changed and kind != "maintain":
                raise Wrong(f"{name} was published (cut {cut}) from a definition that is gone")
        op = self.world.current.op
        if op is not None and op[0] == "tick" and changed.intersection(BY_HAND):
            raise Wrong(f"a tick has refreshed {BY_HAND[0]}, which is refreshed by hand")
        # the last publish under a lease gives it back in its transaction
        held = [
            *self.world.database.leases.items(),
            *query("SELECT table_name, token FROM ab_leases"),
        ]
        mine = {name for name, token in held if token in self.world.current.tokens}
        for name in sorted(changed):
            if name not in mine:
                raise Wrong(f"{name} was published (cut {cut}, {kind}) without its lease")

    def check_streams(self, query: Any) -> None:
        """Every stream table equals its query at its frontier, at one cut; no group is torn."""
        frontiers: dict[str, dict[str, int | None]] = {}
        for name, source, snapshot in query(
            "SELECT table_name, source, snapshot_id FROM ab_frontiers"
        ):
            frontiers.setdefault(name, {})[source] = snapshot
        now = self.shown[self.cut]
        known = {row[0]: row for row in query(_STREAMS)}
        for name, text, cut, options, lineage in known.values():
            if name not in now:
                continue
            if lineage_of(lineage) != {str(each) for each in light.sources_of(text)}:
                raise Wrong(f"{name} is {text!r}, and its lineage {lineage}")
            if "mixed" in (options or ""):
                raise Wrong(f"{name} mixes cuts, and nobody said that it may: {options}")
            frontier = frontiers.get(name, {})
            self.check_frontier(name, known, frontier, now[name])
            if cut is None:
                raise Wrong(f"{name} stands at no cut")
            self.check_one_cut(name, cut, frontier)
        self.check_groups(known, now)

    def check_frontier(
        self, name: str, known: dict[str, Any], frontier: dict[str, int | None], found: Bag
    ) -> None:
        def rows(each: Any) -> Bag | None:
            source = str(each)
            if source in frontier:
                return self.at(frontier[source])
            return evaluated(source)

        def evaluated(each: str) -> Bag | None:
            if each not in known:
                return None  # being redefined, and so is what reads it
            given = {str(s): rows(s) for s in light.sources_of(known[each][1])}
            if any(bag is None for bag in given.values()):
                return None
            return light.evaluate(known[each][1], lambda s: given[str(s)] or Counter())

        wanted = evaluated(name)
        if wanted is not None and wanted != found:
            raise Wrong(
                f"cut {self.cut}: {name} is {show(found)}; {known[name][1]!r} at its frontier "
                f"{frontier} is {show(wanted)}"
            )

    def at(self, snapshot: int | None) -> Bag | None:
        return Counter() if snapshot is None else self.snapshots.get(snapshot)

    def check_one_cut(self, name: str, cut: int, frontier: dict[str, int | None]) -> None:
        then = self.shown.get(cut)
        if then is None:
            return
        for source, snapshot in frontier.items():
            read = self.at(snapshot)
            if source in then and read is not None and read != then[source]:
                raise Wrong(
                    f"{name} stands at cut {cut}, in which {source} is {show(then[source])}, and has "
                    f"read {show(read)}"
                )

    def check_groups(self, known: dict[str, Any], now: dict[str, Bag]) -> None:
        for name in DIAMONDS:
            if name not in known or name not in now:
                continue
            read = [str(each) for each in light.sources_of(known[name][1])]
            if not all(each in known and each in now for each in read):
                continue
            wanted = light.evaluate(known[name][1], lambda each: now[str(each)])
            if now[name] != wanted:
                raise Wrong(
                    f"cut {self.cut} is torn: {name} is {show(now[name])}, {' and '.join(read)} in "
                    f"it give {show(wanted)}"
                )

    # -- what writes must leave --------------------------------------------------------------------

    def effect(self, op: Op) -> Any:
        return op

    def wrote(self, op: Any, *, certain: bool, done: bool) -> None:
        if op is not None:
            self.writes.append((op, "done" if done else "not done" if certain else "unknown"))

    def check_writes(self) -> None:
        """What was acknowledged is there once, what was refused is not, and nothing by halves."""
        found = self.shown[self.cut]
        a, b = found["s.a"], found["s.b"]
        wanted = {name: Counter([*rows, PENDING[name]]) for name, rows in START.items()}
        claims = [(op[2], 1) for op, _ in self.writes if op[0] == "claim"]
        for row in claims:
            if a[row] and b[row]:
                raise Wrong(f"{row} is in both tables: each was claimed since the other had none")
        for (verb, *given), state in self.writes:
            if verb in ("transfer", "move"):
                places = [("s.a", (given[0], -10)), ("s.b", (given[0], 10))]
            elif verb == "delete":
                continue
            else:
                places = [(given[0], (given[1], 1))]
            there = {found[table][row] for table, row in places}
            allowed = {"done": ({1},), "not done": ({0},), "unknown": ({0}, {1})}[state]
            if there not in allowed:
                said = ", ".join(f"{found[t][row]} times in {t}" for t, row in places)
                raise Wrong(f"{verb} {given} was {state}: its row is there {said}")
            for table, row in places:
                wanted[table][row] += there.pop() if len(places) == 1 else found[table][row]
        for table, rows in (("s.a", a), ("s.b", b)):
            deletes = [(op[2], state) for op, state in self.writes if op[:2] == ("delete", table)]
            for key in (1, 2):
                states = {state for each, state in deletes if each == key}
                gone = not any(row[0] == key for row in rows)
                if "done" in states and not gone:
                    raise Wrong(f"row {key} of {table} was deleted and is there")
                if gone and not states & {"done", "unknown"}:
                    raise Wrong(f"row {key} of {table} is lost")
                if gone:
                    wanted[table] = Counter({r: n for r, n in wanted[table].items() if r[0] != key})
            if +rows != +wanted[table]:
                raise Wrong(f"{table} is {show(rows)}, not {show(wanted[table])}")

    # -- at the end --------------------------------------------------------------------------------

    @property
    def lossy(self) -> bool:
        return bool(self.world.disk.lossy)

    def files_of_streams(self) -> set[str]:
        """What the stream tables consist of now, as far as that can be read."""
        query, disk = self.world.database.query, self.world.disk
        found: set[str] = set()
        for (location,) in query(
            "SELECT p.metadata_location FROM iceberg_tables p JOIN ab_stream_tables s "
            "ON s.name = p.table_namespace || '.' || p.table_name"
        ).fetchall():
            found.add(location)
            with suppress(AnabranchError):
                snapshot = disk.read(location).current_snapshot()
                if snapshot is not None:
                    found.add(snapshot.manifest_list)
                    found |= {each.manifest_path for each in disk.read(snapshot.manifest_list)}
                    found |= set(light.files_at(disk, snapshot))
        return found & disk.files.keys()

    def check_repair(self, query: Any) -> None:
        """Whatever a disk has lost of stream tables, a check finds and mends it."""
        world = self.world
        world.time += 100_000.0
        world.offsets = [0.0] * len(world.offsets)
        runtime = world.opened(world.database)
        for row in check(runtime, repair=True):
            if not row["repaired"]:
                raise Wrong(f"a check did not mend {row}")
        for name, location in query(
            "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
        ).fetchall():
            try:
                self.bag(world.disk.read(location, "metadata file"))
            except AnabranchError as error:
                raise Wrong(f"{name} cannot be read after a repair: {error}") from error
        run.refresh(runtime)
        if world.wrong is not None:
            raise world.wrong
        self.check_refreshed(query)

    def finish(self, *, way_out: bool) -> None:
        query = self.world.database.query
        self.look(self.world.database)
        if self.lossy:
            self.check_names(query)
            self.check_repair(query)
            self.check_pending(query)
            self.check_writes()
            return
        if self.adopted:  # only what the new owner needs is kept
            if not self.goes_on_deleting:
                self.check_readable(self.world.second.query)
            return
        self.check_readable(query)
        self.check_needed(query)
        self.check_names(query)
        self.check_deployments(query)
        if any(path.startswith(BACKUPS) for path in self.world.disk.files):
            self.check_backup()
        if way_out:
            self.check_way_out(query)
        else:
            self.check_pending(query)
        self.check_writes()

    def check_pending(self, query: Any) -> None:
        """Commits of others that no cut shows yet count as well."""
        for name, location in query(
            "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
        ):
            self.shown[self.cut] = {**self.shown[self.cut], name: self.rows(location, self.cut)}

    def check_readable(self, query: Any) -> None:
        """Every version that a recorded cut shows can be read, and is what it was: from rows, which
        tell it for good, and from its metadata file while a table points to that or rows do not."""
        disk = self.world.disk
        for location, table, snapshot, shape, record, pointer in query(_RECORDED).fetchall():
            try:
                told = []
                if pointer is not None or shape is None:
                    told.append(self.bag(disk.read(location, "metadata file")))
                if shape is not None:
                    told.append(self.recorded_bag(table, snapshot, record))
            except AnabranchError as error:
                raise Wrong(f"a recorded cut cannot be read: {error}") from error
            if any(found != self.bags.get(location, told[0]) for found in told):
                raise Wrong(f"{location} shows other rows than it did")

    def recorded_bag(self, table: str, snapshot: int | None, record: str | None) -> Bag:
        """The rows of a snapshot, as the catalog's own rows tell where they are."""
        if snapshot is None:
            return Counter()
        if record is None:
            raise Wrong(f"no row tells of snapshot {snapshot} of {table}")
        disk = self.world.disk
        return light.bag_of(disk, light.files_in(disk, json.loads(record)["manifest-list"]))

    def check_needed(self, query: Any) -> None:
        """The snapshots that stream tables stand on are there."""
        pointers = dict(
            query(
                "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
            ).fetchall()
        )
        for table in ("ab_inputs", "ab_frontiers"):
            for name, source, snapshot in query(
                f"SELECT table_name, source, snapshot_id FROM {table} WHERE snapshot_id IS NOT NULL"
            ):
                if source not in pointers or source in sum(STREAMS.values(), ()):
                    continue  # dropped, or rebuilt under its name
                metadata = self.world.disk.read(pointers[source], "metadata file")
                record = query(_SNAPSHOT, (metadata.table_uuid, snapshot)).fetchone()
                try:
                    self.recorded_bag(source, snapshot, record[0] if record else None)
                except (AnabranchError, Wrong) as error:
                    raise Wrong(f"{name} stands on {source}: {error}") from error

    def check_names(self, query: Any) -> None:
        rows = query(
            "SELECT table_namespace || '.' || table_name FROM iceberg_tables "
            "UNION ALL SELECT name FROM ab_views"
        ).fetchall()
        twice = [name for name, n in Counter(row[0].lower() for row in rows).items() if n > 1]
        if twice:
            raise Wrong(f"{twice[0]} is the name of two things")

    def check_deployments(self, query: Any) -> None:
        """What was acknowledged stays so, and nothing is staged of what is over."""
        status = dict(query("SELECT id, status FROM ab_deployments").fetchall())
        for id_, allowed in self.acknowledged.items():
            if status.get(id_) not in allowed.split():
                raise Wrong(f"deployment {id_} was {allowed.split()[0]} and is {status.get(id_)}")
        over = [id_ for id_, found in status.items() if found in ("PROMOTED", "ROLLED_BACK")]
        over += [id_ for id_, allowed in self.acknowledged.items() if allowed == "ABORTED"]
        for (name,) in query(
            "SELECT name FROM ab_stream_tables "
            "UNION SELECT table_namespace || '.' || table_name FROM iceberg_tables"
        ):
            if any(f"__{id_}." in name for id_ in over):
                raise Wrong(f"{name} is left over from a deployment that is in place")

    def check_backup(self) -> None:
        """All that a whole backup names is there, and its tables can be read from it."""
        if self.rotten:
            return
        disk = self.world.disk
        records = [
            json.loads(file.content)
            for path, file in disk.files.items()
            if path.startswith(f"{BACKUPS}/backups/")
        ]
        for record in records:
            for path in record["files"]:
                if f"{BACKUPS}/files/{path}" not in disk.files:
                    raise Wrong(f"the backup of cut {record['cut']} lacks {path}")
                try:
                    disk.read(f"{BACKUPS}/files/{path}")
                except AnabranchError as error:
                    raise Wrong(f"the backup of cut {record['cut']}: {error}") from error

    def check_nothing_is_left(self, place: str) -> None:
        """A restore that fails leaves its place as empty as it was."""
        left = [path for path in self.world.disk.files if path.startswith(place)]
        if left:
            raise Wrong(f"a restore failed and left {left[0]}")

    def check_restored(self, query: Any, place: str, cut: int) -> None:
        """What was restored is what the cut showed, in files of its own."""
        rows = query(
            "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
        ).fetchall()
        found = {name: self.bag_in(place, self.world.disk.read(at)) for name, at in rows}
        if found != self.shown.get(cut, found):  # unless it is of the template
            raise Wrong(f"cut {cut} was {self.shown[cut]}, and is restored as {found}")
        for location, _, snapshot, _, record, _ in query(_RECORDED).fetchall():
            if snapshot is None or record is None:
                continue
            try:
                bag = self.bag_of(place, json.loads(record)["manifest-list"])
            except AnabranchError as error:
                raise Wrong(f"a cut that was restored cannot be read: {error}") from error
            if bag != self.snapshots.get(snapshot, bag):
                raise Wrong(f"{location} shows other rows than before it was restored")

    def bag_in(self, place: str, metadata: Any) -> Bag:
        snapshot = metadata.current_snapshot()
        return Counter() if snapshot is None else self.bag_of(place, snapshot.manifest_list)

    def bag_of(self, place: str, manifest_list: str) -> Bag:
        """The rows of a snapshot, all of whose files lie in a place."""
        disk = self.world.disk
        listed = disk.read(manifest_list, "manifest list")
        paths = [manifest_list, *(each.manifest_path for each in listed)]
        files = light.files_in(disk, manifest_list)
        for path in (*paths, *files):
            if not path.startswith(f"{place}/"):
                raise Wrong(f"what was restored into {place} needs {path}")
        return light.bag_of(disk, files)

    def check_refreshed(self, query: Any) -> None:
        """Every stream table of a catalog that was just refreshed equals its query."""
        now = {
            name: self.bag(self.world.disk.read(at))
            for name, at in query(
                "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"
            ).fetchall()
        }
        for name, text in query("SELECT name, query FROM ab_stream_tables").fetchall():
            wanted = light.evaluate(text, lambda each: now[str(each)])
            if now[name] != wanted:
                raise Wrong(f"after a refresh {name} is {show(now[name])}, not {show(wanted)}")

    def check_way_out(self, query: Any) -> None:
        """Whatever happened, one refresh makes everything right."""
        world = self.world
        world.time += 100_000.0
        world.offsets = [0.0] * len(world.offsets)
        runtime = world.opened(world.database)
        for (name,) in query(
            "SELECT name FROM ab_stream_tables WHERE status = 'SUSPENDED'"
        ).fetchall():
            declare.set_status(runtime, TableName.parse(name), "ACTIVE")
        run.refresh(runtime)
        if world.wrong is not None:
            raise world.wrong
        now = self.shown[self.cut]
        for name, text in query("SELECT name, query FROM ab_stream_tables").fetchall():
            wanted = light.evaluate(text, lambda each: now[str(each)])
            if now[name] != wanted:
                raise Wrong(f"after a refresh {name} is {show(now[name])}, not {show(wanted)}")
        self.check_pending(query)


@lru_cache(maxsize=1000)
def owner(mark: bytes) -> str:
    return str(json.loads(mark)["catalog"])


@lru_cache(maxsize=1000)
def lineage_of(record: str | None) -> set[str]:
    """The tables that a record of lineage names."""
    if record is None:
        return set()
    found = json.loads(record)
    pairs = [
        *found["decides"],
        *(pair for _, *flows in found["columns"] for f in flows for pair in f),
    ]
    return {table for table, _ in pairs}


def show(rows: Bag) -> str:
    return str(sorted(rows.elements(), key=str))


__all__ = ["BACKUPS", "PENDING", "START", "Checks", "show"]

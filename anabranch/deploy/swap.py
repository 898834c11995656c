"""The swap: every pointer, definition and record of a deployment, in one publish."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from anabranch.catalog import cuts, definitions, deployments, streams, tables
from anabranch.catalog.definitions import Renaming, Taken
from anabranch.catalog.deployment_state import Json, Options, Row, Undo
from anabranch.catalog.deployments import Deployment, DeploymentStatus, Key
from anabranch.catalog.indexes import Index
from anabranch.catalog.store import Connection
from anabranch.deploy import clusters, indexes, refresh_groups, undo
from anabranch.deploy.along import Along, taken_out
from anabranch.deploy.build import declaration
from anabranch.deploy.conflicts import check_base, check_readers, refuse_staged_readers
from anabranch.deploy.owners import check_owner
from anabranch.deploy.record import cluster_record, object_record
from anabranch.deploy.snapshot import ObjectKey, SchemaKey, Snapshot, SnapshotObject
from anabranch.deploy.source_tables import changes
from anabranch.deploy.staging import Staging
from anabranch.deploy.state import TABLE, find, keys_of, who, wrong_status
from anabranch.deploy.steps import Action
from anabranch.errors import PublishConflict
from anabranch.lake.comments import exactly
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Transaction
from anabranch.settings import Settings
from anabranch.tables.comments import say
from anabranch.tables.indexes import set_indexes


@dataclass
class Swap:
    """One attempt to put a deployment in place, upon what was `seen`."""

    settings: Settings
    deployment: Deployment
    snapshot: Snapshot
    staging: Staging
    seen: CatalogState
    indexed: indexes.Indexes
    by_hand: Mapping[TableName, Sequence[Index]]  # indexes that stay, or are built again
    renaming: Renaming
    prints: Mapping[TableName, str]  # of staged tables: what they are renamed upon
    along: Along
    reindexed: set[TableName] = field(default_factory=set)
    commented: dict[TableName, Mapping[str, str]] = field(default_factory=dict)  # as it was before
    noted: Undo = field(default_factory=Undo)  # ids, comments and indexes from now on
    altered: dict[TableName, tuple[str, str]] = field(
        default_factory=dict
    )  # where it was, and where it is
    catalog: str = ""
    shown: int | None = None  # the cut that shows it; options alone make none of their own

    @cached_property
    def swapped(self) -> list[ObjectKey]:
        return keys_of(self.deployment, Action.SWAP)

    @cached_property
    def dropped(self) -> list[ObjectKey]:
        return keys_of(self.deployment, Action.DROP)

    @property
    def replaced(self) -> list[TableName]:
        """Names of production whose rows all change."""
        return [key.table for key in (*self.swapped, *self.dropped)]

    def stage(self, tx: Transaction) -> None:
        """Move the pointers; what staged tables have read must stay where it is."""
        for key in self.swapped:
            staged = self.staging.name(key)
            if staged in self.seen.pointers:
                tx.stage.adopt(key.table, self.seen.pointers[staged])
                tx.stage.drop(staged)
                tx.indexes[key.table] = self._indexes(self.snapshot.objects[key], tx)
                indexes.adopt(tx, self.seen, staged, tx.indexes[key.table])
            elif key.table in self.seen.pointers:  # a view takes the place of a table
                tx.stage.drop(key.table)
        for key in self.dropped:
            if key.table in self.seen.pointers:
                tx.stage.drop(key.table)
        self._alter(tx)
        self._reindex(tx)
        self._comment(tx)
        self._note_altered(tx)
        self.catalog = tx.world.lake.catalog_name
        self.reindexed = {*tx.indexes, *self.replaced}
        tx.used.indexes |= {name: self.indexed.get(name, ()) for name in self.reindexed}
        self._note_left(tx)
        for name in self.staging.names:
            for source in self.seen.inputs.get(name, {}):
                if source in self.seen.streams and source not in tx.stage.changes:
                    tx.stage.expect(source, self.seen.pointers.get(source))

    def _indexes(self, each: SnapshotObject, tx: Transaction) -> tuple[Index, ...]:
        return indexes.wanted(each, tx, self.by_hand.get(each.key.table, ()))

    def _alter(self, tx: Transaction) -> None:
        """Source tables get their new columns."""
        for key in sorted(self.staging.altered):
            stored = tx.stage.version(key.table)
            tx.stage.alter(key.table, changes(self.snapshot.objects[key], stored.columns))

    def _note_altered(self, tx: Transaction) -> None:
        """What was staged has read the rows of altered tables: only the columns are new."""
        for key in sorted(self.staging.altered):
            before, after = self.seen.pointers[key.table], tx.stage.version(key.table).location
            if before != after:
                self.altered[key.table] = (before, after)
        marks = dict(self.altered.values())
        self.renaming = replace(self.renaming, marks={**self.renaming.marks, **marks})

    def _note_left(self, tx: Transaction) -> None:
        """What a roll-back compares, to tell what somebody did since."""
        names = {*self.replaced, *self.reindexed, *self.commented}
        there = [name for name in sorted(names) if tx.stage.exists(name)]
        found = {name: tx.stage.version(name) for name in there}
        self.noted = Undo(
            ids={name: str(each.metadata.table_uuid) for name, each in found.items()},
            comments_left={name: found[name].comments for name in self.commented},
            indexes_left={name: tuple(tx.indexes.get(name, ())) for name in self.reindexed},
        )

    def _staying(self) -> Iterator[SnapshotObject]:
        """Tables of the deployment that keep their rows."""
        for key, each in self.snapshot.objects.items():
            if key not in self.swapped and each.kind != "view" and key.table in self.seen.pointers:
                yield each

    def _reindex(self, tx: Transaction) -> None:
        """Tables that stay may get other indexes; those are sorted in the same publish."""
        for each in self._staying():
            table, found = each.key.table, self._indexes(each, tx)
            if set(found) != set(self.indexed.get(table, ())):
                set_indexes(tx, table, found)

    def _comment(self, tx: Transaction) -> None:
        """And other comments; what is built has them already, and what is only kept loses none."""
        changed = keys_of(self.deployment, Action.ALTER, Action.METADATA)
        for each in self._staying():
            table = each.key.table
            before = tx.stage.version(table)
            there = before.comments if each.key in changed else ()
            say(tx, table, exactly(each.comments, there))
            if tx.stage.version(table) is not before:
                self.commented[table] = before.comments

    def rows(self, c: Connection, cut_id: int | None) -> None:
        """In the transaction of the publish: the last checks, and everything else that flips."""
        keys = self._recorded(c)
        check_base(c, self.along.runtime.lake, self.seen, self.deployment)
        check_owner(c, self.deployment.project, self._keys())
        check_readers(c, self.deployment, self._going(), self.along.suspended, self.along.let_go)
        refuse_staged_readers(c, [*self.staging.names, *self.staging.stand_ins])
        changed = self.deployment.plan.clusters_changed
        there = definitions.take(c, [*self.staging.names, *self.replaced])
        staged = definitions.of(there, self.staging.names)
        self._check_prints(staged)
        taken = self.renaming(staged)
        self.along.keep_suspended(c, self.replaced)
        before = replace(
            self._undo(c, there, keys),
            left=self._left(taken),
            clusters=clusters.swap(c, changed, self.snapshot),
            clusters_left=clusters.as_they_are(c, changed),
            groups=tuple(refresh_groups.leave(c, [*self._leaving(), *self.along.suspended])),
        )
        refresh_groups.leave(c, self.staging.names)
        self._advance_epochs(taken, before.rows["streams"])
        gone = [*self.staging.names, *self.staging.stand_ins, *self.replaced]
        definitions.put(c, gone, taken, self.along.tokens)
        definitions.rename_history(c, self.staging.names)
        self._redeclare(c)
        self._promoted(c, cut_id, before)
        self._put_records(c, keys)
        places = [SchemaKey(*parts) for parts in self.deployment.base.touched]
        deployments.raise_versions(c, places, self.deployment.id, who())
        self._end_namespaces(c)

    def _check_prints(self, staged: Taken) -> None:
        """The fingerprint that a table gets in production is found out before; a refresh may have come
        between."""
        for row in staged["streams"]:
            if self.prints.get(TableName.parse(row["name"])) != row["fingerprint"]:
                raise PublishConflict(f"{row['name']} was refreshed meanwhile", hint="run it again")

    def _redeclare(self, c: Connection) -> None:
        """Tables that stay and get other options, which may declare something else."""
        wanted = {key.table: self._declared(key) for key in self._redeclared()}
        streams.declare(c, {n: each for n, each in wanted.items() if each}, self.along.tokens)

    def _promoted(self, c: Connection, cut_id: int | None, before: Undo) -> None:
        self.shown = cut_id or cuts.current(c)
        redeclared = [key.table for key in self._redeclared()]
        left = undo.options_left(c, [*self.replaced, *redeclared])
        facts = {
            "cut_id": self.shown,
            "finished_at": tables.now(c),
            "undo": replace(before, options_left=left).record(),
        }
        staged, promoted = (DeploymentStatus.STAGED,), DeploymentStatus.PROMOTED
        if not deployments.move(c, self.deployment.id, staged, promoted, **facts):
            raise wrong_status(find(c, self.deployment.id), "promoted")

    def _redeclared(self) -> list[ObjectKey]:
        return keys_of(self.deployment, Action.METADATA)

    def _going(self) -> list[TableName]:
        return [key.table for key in self.dropped]

    def _leaving(self) -> list[TableName]:
        """What is no stream table any more."""
        others = [key for key in self.swapped if self.snapshot.objects[key].kind != "stream table"]
        return [key.table for key in (*self.dropped, *others)]

    def _advance_epochs(self, taken: Taken, before: Sequence[Row]) -> None:
        """The flip is a publish of every group that it touches: epochs never go back."""
        old = {row["name"]: row["epoch"] or 0 for row in before}
        for row in taken["streams"]:
            row["epoch"] = max(old.get(row["name"], 0), row["epoch"] or 0) + 1

    def _undo(self, c: Connection, there: Taken, keys: Sequence[Key]) -> Undo:
        """All that a roll-back puts back; source tables that are new stay in any case."""
        new_tables = self._new_tables()
        names = [name for name in self.replaced if name not in new_tables]
        before = {name: self.indexed.get(name, ()) for name in sorted(self.reindexed)}
        before = {name: found for name, found in before.items() if name not in new_tables}
        copies = [index.copy for name in names for index in before.get(name, ())]
        versions = deployments.schema_versions(c)
        return replace(
            self.noted,
            pointers={name: self.seen.pointers.get(name) for name in (*names, *copies)},
            indexes={name: tuple(found) for name, found in before.items()},
            rows=definitions.of(there, names),
            metadata=self._before(c),
            comments=self.commented,
            altered=self.altered,
            readers=tuple(taken_out(c, self.along.suspended)),
            keys=tuple(keys),
            deployed=tuple(deployments.take_deployed(c, keys)),
            schemas=tuple(
                (*place, owner.deployment_id if (owner := versions.get(place)) else "")
                for place in self.deployment.base.touched
            ),
        )

    def _new_tables(self) -> set[TableName]:
        there = {*self.seen.pointers, *self.seen.views}
        return {
            key.table
            for key in self.swapped
            if self.snapshot.objects[key].kind == "table" and key.table not in there
        }

    def _left(self, taken: Taken) -> dict[TableName, str | None]:
        """What every name is from now on, as `definition` says it: a roll-back compares."""
        found = {row["name"]: f"view {row['query']}" for row in taken["views"]}
        found |= {row["name"]: row["query"] for row in taken["streams"]}
        new_tables = self._new_tables()
        left: dict[TableName, str | None] = {key.table: None for key in self.dropped}
        for key in self.swapped:
            if key.table not in new_tables:
                left[key.table] = found.get(str(key.table), TABLE)
        return left

    def _before(self, c: Connection) -> dict[TableName, Options]:
        """The options of tables of which only those change."""
        found: dict[TableName, Options] = {}
        known = streams.all_streams(c)
        for key in self._redeclared():
            stream = known.get(key.table)
            if stream is not None and (values := self._declared(key)):
                now = undo.options_of(stream)
                found[key.table] = {name: now[name] for name in values}
        return found

    def _declared(self, key: ObjectKey) -> Options:
        each = self.snapshot.objects[key]
        if each.kind != "stream table":
            return {}
        declared = declaration(each, self.settings)
        return {
            "schedule": declared.schedule,
            "refresh_mode": declared.refresh_mode,
            "diamond_consistency": declared.diamond_consistency,
            "diamond_schedule_policy": declared.diamond_schedule_policy,
            "cluster": declared.cluster,
            **declared.bounds,
        }

    def _keys(self) -> list[Key]:
        clusters = [("", "", name) for name in self.deployment.plan.clusters_changed]
        return [*map(tuple, (*sorted(self.snapshot.objects), *self.dropped)), *clusters]  # type: ignore[list-item]

    def _recorded(self, c: Connection) -> list[Key]:
        """Whatever gets another record: what is kept just as it was stays the older deployment's."""
        kept = [(*key,) for key in keys_of(self.deployment, Action.KEEP)]
        before = {key: record for key, _, record in deployments.deployed(c) if key in kept}
        same = {
            key
            for key, record in before.items()
            if _plain(record) == _plain(object_record(self.snapshot.objects[ObjectKey(*key)]))
        }
        return [key for key in self._keys() if key not in same]

    def _put_records(self, c: Connection, keys: Sequence[Key]) -> None:
        own = {
            "project": self.deployment.project,
            "deployment_id": self.deployment.id,
            "named": True,
        }
        rows = [
            _row(key, object_record(each)) | own
            for key, each in sorted(self.snapshot.objects.items())
        ]
        rows += [
            _row(("", "", name), cluster_record(each)) | own
            for name, each in sorted(self.snapshot.clusters.items())
        ]
        deployments.put_deployed(c, keys, [row for row in rows if deployments.key_of(row) in keys])

    def _end_namespaces(self, c: Connection) -> None:
        ended = {name.schema for name in self.staging.names}
        ended |= {key.table.schema for key in self.dropped}
        deployments.forget_namespaces(c, self.catalog, sorted(ended))


def _plain(record: Json) -> str:
    return json.dumps(record, sort_keys=True)


def _row(key: tuple[str, str, str], record: Json) -> Row:
    named = {"database_name": key[0], "schema_name": key[1], "object_name": key[2]}
    return named | {"record": record}

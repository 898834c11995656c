"""The change set: what is dirty between two snapshots, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.datalog.fixpoint import Because, Model, solve
from anabranch.datalog.rule import Rule
from anabranch.deploy import rules
from anabranch.deploy.facts import Change, Facts, Value, changes, facts, other_rows
from anabranch.deploy.snapshot import ObjectKey, SchemaKey, Snapshot
from anabranch.errors import InternalError, InvalidValue, UnknownName


@dataclass(frozen=True)
class ChangeSet:
    """`dirty` are DirtyStmt; `propagating` those that count for schemas and dependants; `built`
    those whose rows must be computed anew."""

    changed: Mapping[ObjectKey, Change] = field(hash=False)
    dirty: frozenset[ObjectKey]
    propagating: frozenset[ObjectKey]
    clusters: frozenset[str]
    schemas: frozenset[SchemaKey]
    built: frozenset[ObjectKey]
    metadata: frozenset[ObjectKey]
    models: tuple[Model, Model] = field(repr=False, compare=False)

    @property
    def empty(self) -> bool:
        return not self.changed and not self.dirty and not self.metadata

    def why(self, key: ObjectKey) -> tuple[str, ...]:
        """One shortest chain of reasons why an object is dirty, causes first."""
        if key not in self.dirty:
            raise InvalidValue(f"{key} is not dirty", hint="`anabranch plan` lists what is")
        chain = self.models[0].why(rules.DIRTY_OBJECT, key)
        return tuple(self._in_words(each) for each in chain if not _is_restated(each))

    def why_built(self, key: ObjectKey) -> tuple[str, ...]:
        """The same, why its rows are computed anew."""
        return tuple(self._in_words(each) for each in self.models[1].why(rules.BUILT, key))

    def _in_words(self, because: Because) -> str:
        rule = Rule.parse(because.rule)
        values: dict[str, Value] = {}
        for atom, fact in zip(rule.body, because.facts, strict=True):
            values |= zip(atom.terms, map(_value, fact.row), strict=True)
        changed = self.changed.get(_object(values["O"])) if "O" in values else None
        return rules.WORDS[because.rule].format(change=changed.value if changed else "", **values)


def _is_restated(because: Because) -> bool:
    return because.rule == "DirtyStmt(O) :- SP(O)"


def change_set(old: Snapshot, new: Snapshot) -> ChangeSet:
    """What is dirty when a project goes from the old snapshot to the new one."""
    return _derived(old, new, changes(old, new))


def what_if(snapshot: Snapshot, keys: Collection[ObjectKey]) -> ChangeSet:
    """What would be dirty if these objects changed, without editing anything."""
    for key in keys:
        known(snapshot, key)
    return _derived(snapshot, snapshot, dict.fromkeys(sorted(keys), Change.MODIFIED))


def known(snapshot: Snapshot, key: ObjectKey) -> None:
    if key not in snapshot.objects:
        names = [str(each) for each in snapshot.objects]
        raise UnknownName(f"the project has no object {key}", name=str(key), known=names)


def _derived(old: Snapshot, new: Snapshot, changed: Mapping[ObjectKey, Change]) -> ChangeSet:
    base = facts(old, new, changed)
    model = solve(rules.DIRTY_RULES, base)
    build = solve(rules.BUILD_RULES, base | _build_facts(old, new, changed))
    dirty = _objects(model, rules.DIRTY_OBJECT)
    return ChangeSet(
        changed=changed,
        dirty=dirty,
        propagating=_objects(model, rules.PROPAGATING),
        clusters=frozenset(_name(row[0]) for row in model[rules.DIRTY_CLUSTER]),
        schemas=frozenset(SchemaKey(*map(_name, row)) for row in model[rules.DIRTY_SCHEMA]),
        built=_objects(build, rules.BUILT),
        metadata=frozenset(_metadata(old, new)),
        models=(model, build),
    )


def _build_facts(old: Snapshot, new: Snapshot, changed: Iterable[ObjectKey]) -> Facts:
    asked = old is new  # "what if" pretends that definitions differ
    return {
        rules.OTHER_ROWS: [
            (key,)
            for key in changed
            if other_rows(old.objects.get(key), new.objects.get(key))
            or (asked and new.objects[key].kind != "table")
        ]
    }


def _metadata(old: Snapshot, new: Snapshot) -> Iterable[ObjectKey]:
    """Objects of which only comments, schedules and the like differ."""
    for key, after in new.objects.items():
        before = old.objects.get(key)
        if before is not None and before.hash == after.hash and before.metadata != after.metadata:
            yield key


def _objects(model: Model, relation: str) -> frozenset[ObjectKey]:
    return frozenset(_object(row[0]) for row in model[relation])


def _value(found: object) -> Value:
    return found if isinstance(found, ObjectKey) else _name(found)


def _object(found: object) -> ObjectKey:
    if not isinstance(found, ObjectKey):
        raise InternalError(f"a rule gives {found!r} for an object")
    return found


def _name(found: object) -> str:
    if not isinstance(found, str):
        raise InternalError(f"a rule gives {found!r} for a name")
    return found

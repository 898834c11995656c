"""The rules of the change set: its five key tests by name, deletes, chains and reasons."""

from __future__ import annotations

import random
import resource
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.deploy.changeset import ChangeSet, change_set, what_if
from anabranch.deploy.facts import Change, changes, facts
from anabranch.deploy.rules import DIRTY_RULES
from anabranch.deploy.snapshot import EMPTY, ObjectKey, SchemaKey, Snapshot
from anabranch.errors import InvalidValue, UnknownName
from tests.unit.datalog.naive import naive
from tests.unit.deploy.drawing import edited, key, project, thing, without


def names(keys: object) -> set[str]:
    return {str(each).removeprefix("db.public.") for each in keys}  # type: ignore[attr-defined]


def after(snapshot: Snapshot, *changed: str) -> ChangeSet:
    return change_set(snapshot, edited(snapshot, *changed))


# The five key tests.


def test_schema_propagation_all_objects_in_dirty_schema_are_dirty() -> None:
    found = after(project(thing("table1"), thing("table2"), thing("view1")), "table1")
    assert names(found.dirty) == {"table1", "table2", "view1"}
    assert found.schemas == {SchemaKey("db", "public")}


def test_index_cluster_does_not_dirty_parent_object_cluster() -> None:
    found = after(
        project(
            thing("a.winning_bids", cluster="staging", indexes={"i": "quickstart"}),
            thing("b.other", cluster="quickstart"),
        ),
        "b.other",
    )
    assert found.clusters == {"quickstart"}
    assert names(found.dirty) == {"db.a.winning_bids", "db.b.other"}


def test_index_cluster_does_not_dirty_schema() -> None:
    found = after(
        project(
            thing("s.table1", indexes={"i": "index_cluster"}),
            thing("s.table2"),
            thing("t.other", cluster="index_cluster"),
        ),
        "t.other",
    )
    assert found.clusters == {"index_cluster"}
    assert names(found.dirty) == {"db.s.table1", "db.t.other"}
    assert found.schemas == {SchemaKey("db", "t")}
    assert key("s.table1") not in found.propagating


def test_schema_propagation_does_not_dirty_index_clusters() -> None:
    found = after(
        project(
            thing("public.flippers"),
            thing("public.flip_activities", indexes={"i": "quickstart"}),
            thing("internal.winning_bids", indexes={"i": "quickstart"}),
        ),
        "public.flippers",
    )
    assert names(found.dirty) == {"flippers", "flip_activities"}
    assert found.clusters == frozenset()


def test_dependency_propagation_with_index_cluster_conflict() -> None:
    found = after(
        project(
            thing("internal.winning_bids", indexes={"i": "quickstart"}),
            thing("public.flip_activities", ["internal.winning_bids"], indexes={"i": "quickstart"}),
            thing("public.flippers", ["public.flip_activities"]),
        ),
        "internal.winning_bids",
    )
    assert found.clusters == {"quickstart"}
    assert names(found.propagating) == {
        "db.internal.winning_bids",
        "flip_activities",
        "flippers",
    }
    assert found.schemas == {SchemaKey("db", "internal"), SchemaKey("db", "public")}


# Around them.


def test_nothing_changed_is_an_empty_change_set() -> None:
    snapshot = project(thing("a", cluster="c", indexes={"i": "d"}), thing("b", ["a"]))
    assert change_set(snapshot, snapshot).empty


def test_dependants_of_an_index_only_dirty_object_stay_clean() -> None:
    found = after(
        project(
            thing("a.table", indexes={"i": "c"}),
            thing("b.reader", ["a.table"]),
            thing("x.other", cluster="c"),
        ),
        "x.other",
    )
    assert names(found.dirty) == {"db.a.table", "db.x.other"}


def test_objects_on_the_cluster_of_a_changed_statement_are_dirty_with_their_schemas() -> None:
    found = after(
        project(thing("a.x", cluster="c"), thing("b.y", cluster="c"), thing("b.z")), "a.x"
    )
    assert names(found.dirty) == {"db.a.x", "db.b.y", "db.b.z"}


def test_dirtiness_by_dependency_does_not_dirty_a_cluster() -> None:
    found = after(
        project(thing("a.x"), thing("b.y", ["a.x"], cluster="c"), thing("d.z", cluster="c")),
        "a.x",
    )
    assert names(found.dirty) == {"db.a.x", "db.b.y"}


def test_only_rows_that_may_differ_are_built() -> None:
    snapshot = project(thing("a"), thing("b"), thing("t.c", ["b"]), thing("t.d", ["t.c"]))
    found = after(snapshot, "a")
    assert names(found.dirty) == {"a", "b", "db.t.c", "db.t.d"}
    assert names(found.built) == {"a"}
    assert names(after(snapshot, "b").built) == {"b", "db.t.c", "db.t.d"}


def test_another_cluster_or_index_gives_no_other_rows() -> None:
    old = project(thing("a"), thing("s.b", ["a"]))
    found = change_set(
        old, project(thing("a", cluster="c", indexes={"i": "d"}), thing("s.b", ["a"]))
    )
    assert found.changed == {key("a"): Change.MODIFIED}
    assert found.clusters == {"c", "d"}
    assert found.built == frozenset()


def test_a_deleted_object_dirties_its_siblings_and_its_readers() -> None:
    old = project(thing("s.a"), thing("s.b"), thing("t.c", ["s.a"]), thing("u.d"))
    new = project(thing("s.b"), thing("t.c"), thing("u.d"))
    found = change_set(old, new)
    assert found.changed == {key("s.a"): Change.DELETED}
    assert names(found.dirty) == {"db.s.a", "db.s.b", "db.t.c"}
    assert names(found.built) == {"db.s.a", "db.t.c"}


def test_a_deleted_object_leaves_its_cluster_in_peace() -> None:
    old = project(thing("s.a", cluster="c"), thing("t.b", cluster="c"))
    assert names(change_set(old, without(old, "s.a")).dirty) == {"db.s.a"}


def test_a_schema_whose_last_object_goes_is_dirty_and_then_forgotten() -> None:
    old = project(thing("s.a"), thing("t.b"))
    new = without(old, "s.a")
    assert change_set(old, new).schemas == {SchemaKey("db", "s")}
    assert change_set(new, new).empty


def test_an_added_object_dirties_its_schema() -> None:
    old = project(thing("a"), thing("t.b"))
    found = change_set(old, project(thing("a"), thing("c"), thing("t.b")))
    assert found.changed == {key("c"): Change.ADDED}
    assert names(found.dirty) == {"a", "c"}
    assert names(found.built) == {"c"}


def test_the_first_deployment_builds_everything() -> None:
    found = change_set(EMPTY, project(thing("a"), thing("b", ["a"])))
    assert names(found.built) == {"a", "b"}


def test_a_table_outside_of_the_project_is_never_dirty() -> None:
    found = after(project(thing("a", ["raw.events"])), "a")
    assert names(found.dirty) == {"a"}


def test_hashes_of_another_version_are_a_change() -> None:
    one = project(thing("a"))
    before = one.objects[key("a")]
    older = replace(before, hash=before.hash.replace("v1:", "v0:"))
    assert changes(project(older), one) == {key("a"): Change.MODIFIED}


def test_metadata_alone_dirties_nothing() -> None:
    old = project(thing("a"), thing("b", ["a"]))
    new = project(thing("a", metadata="comment = x"), thing("b", ["a"]))
    found = change_set(old, new)
    assert not found.dirty
    assert names(found.metadata) == {"a"}


def test_names_with_dots_are_not_taken_apart() -> None:
    a, b = ObjectKey("db", "x.y", "z"), ObjectKey("db", "x", "y.z")
    assert str(a) != str(b)
    assert a.place != b.place


# Why.


def test_why_is_one_shortest_chain_of_reasons() -> None:
    snapshot = project(
        thing("s.a"), thing("t.b", ["s.a"]), thing("t.sibling"), thing("u.c", ["t.sibling"])
    )
    assert after(snapshot, "s.a").why(key("u.c")) == (
        "db.s.a was modified",
        "db.t.b reads db.s.a, which is dirty",
        "schema db.t is dirty: db.t.b is in it and is dirty",
        "db.t.sibling is in schema db.t, which is dirty",
        "db.u.c reads db.t.sibling, which is dirty",
    )


def test_why_of_an_index() -> None:
    snapshot = project(thing("s.a", indexes={"by_id": "c"}), thing("t.b", cluster="c"))
    assert after(snapshot, "t.b").why(key("s.a")) == (
        "cluster c is dirty: db.t.b runs on it and changed",
        "index by_id of db.s.a is kept on cluster c, which is dirty",
    )


def test_what_is_clean_has_no_reason() -> None:
    found = after(project(thing("s.a"), thing("t.b")), "s.a")
    with pytest.raises(InvalidValue, match=r"db\.t\.b is not dirty"):
        found.why(key("t.b"))


def test_what_if_without_editing() -> None:
    snapshot = project(thing("s.a"), thing("t.b", ["s.a"]), thing("u.c"))
    found = what_if(snapshot, [key("s.a")])
    assert found.dirty == after(snapshot, "s.a").dirty
    assert names(found.built) == {"db.s.a", "db.t.b"}
    with pytest.raises(UnknownName, match="db.s.aa") as error:
        what_if(snapshot, [key("s.aa")])
    assert "db.s.a" in (error.value.hint or "")


# Size.


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_equal_to_a_naive_evaluator_on_random_projects(seed: int) -> None:
    old, new = _random(seed, objects=7, edges=8)
    base = facts(old, new, changes(old, new))
    expected = naive(DIRTY_RULES, base)
    found = change_set(old, new)
    assert {(each,) for each in found.dirty} == expected["DirtyStmt"]
    assert {(each,) for each in found.propagating} == expected["SP"]
    assert {(each,) for each in found.clusters} == expected["DirtyCluster"]
    assert {tuple(each) for each in found.schemas} == expected["DirtySchema"]
    assert found.propagating <= found.dirty
    assert found.built <= found.dirty


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_more_changes_never_dirty_less(seed: int) -> None:
    old, _ = _random(seed, objects=12, edges=15)
    shuffled = sorted(old.objects)
    random.Random(seed).shuffle(shuffled)
    before = what_if(old, shuffled[:1])
    both = what_if(old, shuffled[:2])
    assert before.dirty <= both.dirty
    assert before.clusters <= both.clusters
    assert before.schemas <= both.schemas
    assert before.built <= both.built


@pytest.mark.extended
def test_ten_thousand_objects_with_fifty_thousand_edges() -> None:
    old, _ = _random(1, objects=10_000, edges=50_000, per_schema=10)
    new = edited(old, "s0.o0")
    used = []
    for _ in range(3):  # the machine may be busy: the best of three counts
        start = _cpu()
        found = change_set(old, new)
        used.append(_cpu() - start)
        assert len(found.dirty) > 9_000
    assert min(used) < 2
    tracemalloc.start()
    change_set(old, new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


def test_a_chain_through_ten_thousand_schemas() -> None:
    things = [thing("s0.o0")]
    things += [thing(f"s{i}.o{i}", [f"s{i - 1}.o{i - 1}"]) for i in range(1, 10_000)]
    found = after(project(*things), "s0.o0")
    assert len(found.dirty) == 10_000
    assert len(found.why(key("s9999.o9999"))) == 10_000


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _random(seed: int, objects: int, edges: int, per_schema: int = 2) -> tuple[Snapshot, Snapshot]:
    rng = random.Random(seed)
    called = [f"s{i // per_schema}.o{i}" for i in range(objects)]
    reads: dict[int, set[str]] = {i: set() for i in range(objects)}
    for _ in range(edges):
        child = rng.randrange(1, objects)
        reads[child].add(called[rng.randrange(child)])
    clusters = [None, None, "c0", "c1", "c2"] if objects < 100 else [None]
    things = [
        thing(
            called[i],
            reads[i],
            cluster=rng.choice(clusters),
            indexes={"i": rng.choice(clusters)} if rng.random() < 0.4 else None,
        )
        for i in range(objects)
    ]
    old = project(*things)
    new = edited(old, *rng.sample(called, 1))
    return old, without(new, *rng.sample(called, rng.randrange(2)))

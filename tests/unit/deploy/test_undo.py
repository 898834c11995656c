"""What a roll-back puts back, and what stays because somebody changed it since."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from anabranch.catalog.deployment_state import Undo
from anabranch.catalog.indexes import Index
from anabranch.deploy.undo import indexes_back, put_back
from anabranch.model import Column
from anabranch.names import TableName

Values = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))
T = TableName.parse("db.s.t")


@given(Values, Values)
def test_what_nobody_touched_becomes_what_it_was(
    before: dict[str, int], left: dict[str, int]
) -> None:
    assert put_back(before, left, left) == (before, [])


@given(Values, Values, Values)
def test_each_value_is_the_old_one_or_somebodys(
    before: dict[str, int], left: dict[str, int], now: dict[str, int]
) -> None:
    found, kept = put_back(before, left, now)
    for key in {*before, *left, *now}:
        theirs = now.get(key) != left.get(key)
        assert found.get(key) == (now.get(key) if theirs else before.get(key))
        assert (key in kept) == (theirs and now.get(key) != before.get(key))


def back(before: list[Index], left: list[Index], now: list[Index], columns: str) -> list[str]:
    undo = Undo(indexes={T: tuple(before)}, indexes_left={T: tuple(left)})
    assert Undo.read(json.loads(json.dumps(undo.record()))) == undo
    known = tuple(Column(name, "int") for name in columns)
    return [each.name for each in indexes_back(T, undo, now, known)]


def test_indexes_made_by_hand_stay_where_their_columns_do() -> None:
    old, new, own, far = (Index(T, name, (name,)) for name in "abcd")
    assert back([old], [new], [new], "ab") == ["a"]
    assert back([old], [new], [new, own], "abc") == ["a", "c"]
    assert back([old], [new], [new, far], "abc") == ["a"], "its column went with the deployment"
    assert back([old], [old, new], [new], "ab") == [], "somebody dropped it"

"""Options of stream tables: read, checked, and the defaults of new tables."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from anabranch import Anabranch
from anabranch.errors import InvalidValue, UnknownName
from anabranch.model import RefreshMode
from anabranch.settings import Settings
from anabranch.tables.options import READERS, read_options, with_defaults
from anabranch.tables.stream_tables import Declaration

SETTINGS = Settings().with_("diamond_schedule_policy", "slowest")


def test_a_new_table_takes_what_is_not_said_from_the_settings() -> None:
    assert with_defaults({}, SETTINGS) == {
        "diamond_consistency": "atomic",
        "diamond_schedule_policy": "default",  # whatever the setting says at run time
    }
    said = {"diamond_schedule_policy": "fastest", "schedule": None, "refresh_mode": "full"}
    assert with_defaults(said, SETTINGS) == {
        "diamond_consistency": "atomic",
        "diamond_schedule_policy": "fastest",
        "schedule": None,
        "refresh_mode": RefreshMode.FULL,
    }


@pytest.mark.parametrize(
    ("value", "read"), [(True, True), ("false", False), ("FALSE", False), ("yes", True)]
)
def test_yes_and_no(value: object, read: bool) -> None:
    assert read_options({"initialize": value}, SETTINGS) == {"initialize": read}


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"initialize": "maybe"}, InvalidValue, "option initialize: 'maybe'"),
        ({"shedule": "2s"}, UnknownName, 'did you mean "schedule"'),
        ({"schedule": "soon"}, InvalidValue, "'soon' is not a schedule"),
        ({"refresh_mode": "never"}, InvalidValue, "'never' is not a refresh mode"),
        ({"diamond_consistency": "often"}, InvalidValue, "'often' is not one of atomic, none"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        read_options(options, SETTINGS)
    assert says in str(caught.value)


def test_what_is_said_once_cannot_be_altered() -> None:
    with pytest.raises(InvalidValue, match="option initialize is for CREATE"):
        read_options({"initialize": True}, SETTINGS, altering=True)


def test_options_are_the_same_everywhere() -> None:
    """The signatures are written out for those who read them; they must not drift apart."""
    own = {each.name for each in fields(Declaration)} - {"name", "query"}
    create = set(inspect.signature(Anabranch.create_stream_table).parameters)
    alter = set(inspect.signature(Anabranch.alter_stream_table).parameters)
    assert own == set(READERS)
    assert create - {"self", "name", "query", "if_not_exists", "or_replace"} == set(READERS)
    assert alter - {"self", "name", "query", "status"} == set(READERS) - {"initialize"}

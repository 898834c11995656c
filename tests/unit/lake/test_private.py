"""The public way beside each private part of PyIceberg, where that is not there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog

from anabranch import missing, redaction
from anabranch.catalog.foreign import Catalog
from anabranch.lake import attached, private
from anabranch.lake.attached import Attached, Pointer
from anabranch.lake.private import PatientRest
from anabranch.names import TableName
from tests.standin.theirs import RestServer, Theirs, rest

ORDERS = TableName.of("web", "sales", "orders")
NOTHING = TableName.of("web", "sales", "nothing")


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    missing.forget()
    yield
    missing.forget()


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    found = Theirs(tmp_path / "theirs")
    found.table()
    found.append("orders", (1, 10))
    return found


@pytest.fixture
def server(theirs: Theirs) -> Iterator[RestServer]:
    with rest(theirs) as running:
        yield running


@pytest.fixture
def web(server: RestServer) -> Attached:
    return Attached(Catalog("web", "rest", {"uri": server.uri}), 2.0)


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Parts that have other names by now: the library finds them, and this package does not."""

    class Renamed(PatientRest):
        def __getattribute__(self, name: str) -> Any:
            asking = sys._getframe(1).f_globals["__name__"]
            if name in names and asking == private.__name__:
                raise AttributeError(f"'RestCatalog' object has no attribute '{name}'")
            return super().__getattribute__(name)

    monkeypatch.setattr(attached, "PatientRest", Renamed)


def asked(web: Attached, *names: TableName) -> dict[TableName, Any]:
    return {name: found for _, ask in web.questions(names) for name, found in ask().items()}


def test_where_all_parts_are_there_an_unchanged_table_costs_no_body(
    web: Attached, server: RestServer
) -> None:
    first, second = asked(web, ORDERS)[ORDERS], asked(web, ORDERS)[ORDERS]
    assert first.load().snapshots and first == second and second.load is None
    assert (server.asked, server.unchanged) == (2, 1)
    assert asked(web, NOTHING)[NOTHING] == Pointer(None)
    assert missing.waiting() == {}


@pytest.mark.parametrize("name", ["_split_identifier_for_path", "_session"])
def test_without_its_session_tables_are_loaded(
    web: Attached, server: RestServer, theirs: Theirs, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = asked(Attached(web.catalog, 2.0), ORDERS)[ORDERS]
    hide(monkeypatch, name)
    found = [asked(web, ORDERS)[ORDERS] for _ in range(2)]
    assert found == [expected] * 2 and found[1].load() == expected.load()
    assert server.unchanged == 0
    theirs.append("orders", (2, 20))
    moved = asked(web, ORDERS, NOTHING)
    assert moved[ORDERS] != expected and len(moved[ORDERS].load().snapshots) == 2
    assert moved[ORDERS].io.new_input(moved[ORDERS].location).exists()
    assert moved[NOTHING] == Pointer(None)
    ((part, said),) = missing.waiting().items()
    assert part == "RestCatalog._session" and private.WHOLE in said and name in said


@pytest.mark.parametrize(("mood", "says"), [("rubbish", "not that of an Iceberg"), ("broken", "")])
def test_without_its_session_what_goes_wrong_is_told(
    web: Attached, server: RestServer, mood: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "_session")
    assert isinstance(asked(web, ORDERS)[ORDERS], Pointer)
    server.mood = mood
    answers, silent = attached.ask({web: [ORDERS]}, 2.0)
    if says:
        assert says in str(answers[ORDERS]) and not silent
    else:  # the whole catalog
        assert not answers and "disk full" in silent["web"]


def test_without_its_way_to_files_they_are_read_as_was_said(
    web: Attached, monkeypatch: pytest.MonkeyPatch, theirs: Theirs
) -> None:
    hide(monkeypatch, "_load_file_io")
    catalog = web.iceberg()
    assert isinstance(catalog, PatientRest)
    lent = [
        {"prefix": "file:", "config": {"s3.secret-access-key": "far-s3cr3t"}},
        {"prefix": f"file://{theirs.folder}", "config": {"s3.secret-access-key": "near-s3cr3t"}},
    ]
    location = f"file://{theirs.folder}/warehouse/x"
    given = {"config": {"token": "of-the-4nswer"}, "storage-credentials": lent}
    io = catalog.io_for({"properties": {"a": "b"}}, given, location)
    assert io.properties["s3.secret-access-key"] == "near-s3cr3t"
    assert (io.properties["a"], io.properties["token"]) == ("b", "of-the-4nswer")
    assert redaction.hide("near-s3cr3t of-the-4nswer") == "*** ***"
    pointer = asked(web, ORDERS)[ORDERS]
    assert pointer.io is not None and pointer.io.new_input(pointer.location).exists()
    assert list(missing.waiting()) == ["RestCatalog._load_file_io"]


def test_without_a_bound_of_requests_whoever_waits_is_bounded(
    web: Attached, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, made = RestCatalog._create_session, RestCatalog.__init__

    def made_otherwise(self: RestCatalog, name: str, **properties: str) -> None:
        with mock.patch.object(PatientRest, "_create_session", opened):
            made(self, name, **properties)

    monkeypatch.setattr(RestCatalog, "__init__", made_otherwise)
    assert isinstance(asked(web, ORDERS)[ORDERS], Pointer)
    assert list(missing.waiting()) == ["RestCatalog._create_session"]
    server.mood, server.delay = "slow", 3.0
    answers, silent = attached.ask({web: [ORDERS]}, 0.2)
    assert not answers and silent == {"web": "it does not answer within 0.2 s"}


class Other:
    """A session of another library, which is bounded in another way."""

    def __init__(self) -> None:
        self._session = requests.Session()

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *given: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name == "mount":
            raise AttributeError("there are no adapters")
        return getattr(self._session, name)


def test_a_session_that_takes_no_adapter_is_noted(
    web: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestCatalog, "_create_session", lambda self: Other())
    assert isinstance(asked(web, ORDERS)[ORDERS], Pointer)
    assert list(missing.waiting()) == ["RestCatalog._create_session"]

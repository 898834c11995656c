"""No secret stands in what an error carries: the values of variables, and the errors before it."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

import anabranch
from anabranch import AnabranchError
from anabranch.api import Anabranch
from anabranch.boundary import public
from anabranch.cli.main import run
from anabranch.cli.session import CliSession
from anabranch.errors import Unreachable
from anabranch.tracebacks import Reworded, for_a_log
from tests.postgres import running_server
from tests.standin.engine import connect, installed

SEED = "Zq7Xw9"  # in every password, and nowhere else
PASSWORDS = (
    f"{SEED}-plain",
    f"p@ss:w/o#r?d%&=[]+{SEED} x'\"\\",
    quote(f"p@ss:w/o#r?d%&=+ {SEED}", safe=""),
    f"p%40ss%2f{SEED}/é中",
)
ADDRESSES = (
    "postgresql://u:{}@127.0.0.1:1/db",
    "postgresql://u@127.0.0.1:1/db?password={}",
    "postgresql://u@127.0.0.1:1/db?passwrod={}",
    "postgresql://u:{}@127.0.0.1:1/db?sslmode=nonsense",
    "postgresql://u:{}@127.0.0.1:99999/db",
    "postgresql://u:{}@[::1/db",
    "postgresql://u@127.0.0.1:{}/db",
    "mysql://u:{}@127.0.0.1/db",
    "host=127.0.0.1 port=1 user=u password={}",
)
Act = Callable[[], object]


def with_values(error: BaseException) -> str:
    """As a program that reports errors shows one, but for the frames of the test itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    assert trace is not None, "where it happened is still told"
    shown = traceback.TracebackException(type(error), error, trace, capture_locals=True)
    return "".join(shown.format())


@contextmanager
def refused(what: object, *, kind: type[BaseException] = AnabranchError) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert SEED not in with_values(error), what
    else:
        raise AssertionError(f"{what} went through")


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """All that any library logs, with the values of the frames of what it logs."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            if record.exc_info and record.exc_info[1] is not None:
                shown = traceback.TracebackException.from_exception(
                    record.exc_info[1], capture_locals=True
                )
                said.extend(shown.format())

    listener, root = Listener(logging.DEBUG), logging.getLogger()
    names = (None, "sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", "psycopg", "anabranch")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    for logger, _ in before:
        logger.setLevel(logging.DEBUG)
    root.addHandler(listener)
    yield said
    root.removeHandler(listener)
    for logger, level in before:
        logger.setLevel(level)
    assert SEED not in "\n".join(said)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def doors(address: str, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Act]:
    """Every way to say where the catalog is."""
    Path("backup").mkdir(exist_ok=True)
    Path("anabranch.toml").write_text(f"catalog = {json_text(address)}\nwarehouse = 'wh'\n")

    def by_environment() -> object:
        with monkeypatch.context() as patch:
            patch.setenv("ANABRANCH_CATALOG", address)
            return anabranch.connect(warehouse="wh")

    return {
        "target": lambda: anabranch.connect(address, warehouse="wh"),
        "mapping": lambda: anabranch.connect({"catalog": address, "warehouse": "wh"}),
        "keyword": lambda: anabranch.connect(catalog=address, warehouse="wh"),
        "file": lambda: anabranch.connect("anabranch.toml"),
        "environment": by_environment,
        "a second mistake": lambda: anabranch.connect(address, tick_interval="often"),
        "restore": lambda: anabranch.restore("backup", address, warehouse="wh"),
        "restore from": lambda: anabranch.restore(address, "home"),
        "home": lambda: anabranch.connect({"home": address, "catalog": address, "warehouse": "wh"}),
        "warehouse": lambda: anabranch.connect(address, warehouse=address),
        "setting": lambda: anabranch.connect("home", tick_interval=address),
        "properties": lambda: anabranch.connect(
            "home", **{"spark.conf": {"spark.hadoop.fs.s3a.secret.key": address}, "oops": address}
        ),
    }


def json_text(text: str) -> str:
    return "'''" + text + "'''"


@pytest.mark.parametrize("form", ADDRESSES)
def test_a_catalog_out_of_reach(
    form: str, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    for password in PASSWORDS:
        address = form.format(password)
        for door, act in doors(address, monkeypatch).items():
            with refused((door, address)):
                act()


@pytest.mark.parametrize("form", ADDRESSES)
def test_the_command_line(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for password in PASSWORDS:
        address = form.format(password)
        for given in (["status"], ["--verbose", "status"], ["--verbose", "tick"]):
            assert run(["--catalog", address, "--warehouse", "wh", *given]) in (1, 3)
        assert SEED not in "".join(capsys.readouterr())
        assert SEED not in repr(CliSession(None, address))


def fake_tables(file: Path, location: str) -> None:
    """A catalog of another program, with one table whose files are elsewhere."""
    with sqlite3.connect(file) as c:
        c.execute(
            "CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, previous_metadata_location, iceberg_type)"
        )
        c.execute("INSERT INTO iceberg_tables VALUES ('p', 's', 't', ?, NULL, 'TABLE')", [location])


def test_what_takes_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    fake_tables(tmp_path / "theirs.db", "s3://bucket/t/metadata.json")
    for at, password in enumerate(PASSWORDS):
        monkeypatch.setenv("SECRET", password)
        with installed(), connect(tmp_path / str(at)) as ab:
            with refused("attach"):
                ab.attach("web", "rest", uri=f"http://u:{password}@127.0.0.1:1")
            with refused("token"):
                ab.attach("web", "rest", uri="http://127.0.0.1:1", token=password)
            with refused("reference"):
                ab.attach("web", "rest", uri="http://127.0.0.1:1", token="ENV('SECRET')")
            with refused("login"):
                uri = "http://127.0.0.1:1"
                ab.attach("web", "rest", uri=uri, credential="ENV('SECRET')")
            with refused("sql"):
                ab.attach("web", "sql", uri="postgresql+psycopg://u:ENV('SECRET')@127.0.0.1:1/d")
            with refused("backup"):
                ab.backup(f"s3://AK:{password}@bucket/x")
            with refused("cluster"):
                ab.sql(f"CREATE CLUSTER c ADDRESS 'sc://h/;token={quote(password)}'")
            with refused("setting"):
                ab.set("spark.conf.spark.hadoop.fs.s3a.secret.key", password)
            with refused("files"):
                ab.attach(
                    "p",
                    "sql",
                    uri=f"sqlite:///{tmp_path / 'theirs.db'}",
                    **{
                        "s3.endpoint": "http://127.0.0.1:1",
                        "s3.access-key-id": "me",
                        "s3.secret-access-key": "ENV('SECRET')",
                    },
                )
                ab.table("p.s.t")


@pytest.fixture(scope="module")
def stopped() -> Iterator[Callable[[str, Path], Anabranch]]:
    """Opens a home on a server that is gone from then on."""
    with running_server() as server:

        def opened(password: str, folder: Path) -> Anabranch:
            secret = quote(password, safe="")
            address = server.url.replace("anabranch@", f"anabranch:{secret}@")
            address += f"&sslpassword={secret}"
            ab = connect(address, warehouse=str(folder / "wh"))
            assert SEED not in repr(ab._store.engine) + repr(ab._store.url) + str(ab._store.url)
            for statement in (
                "DROP STREAM TABLE IF EXISTS s.d",
                "CREATE TABLE IF NOT EXISTS s.t (k INT)",
                "CREATE STREAM TABLE s.d AS SELECT k FROM s.t",
            ):
                ab.sql(statement)
            server.stop()
            return ab

        yield opened
        with suppress(Exception):  # it is stopped at the end
            server.start()


def test_a_catalog_that_is_lost(
    stopped: Callable[[str, Path], Anabranch], tmp_path: Path, logged: list[str]
) -> None:
    with installed(), stopped(PASSWORDS[1], tmp_path) as ab:
        acts: dict[str, Act] = {
            "tables": ab.tables,
            "status": ab.status,
            "sql": lambda: ab.sql("SELECT * FROM s.t"),
            "write": lambda: ab.sql("INSERT INTO s.t VALUES (1)"),
            "append": lambda: ab.append("s.t", [{"k": 1}]),
            "refresh": lambda: ab.refresh("s.d"),
            "tick": ab.tick,
            "verify": lambda: ab.verify("s.d"),
            "at": lambda: ab.at(1).__enter__(),
            "transaction": lambda: ab.transaction().__enter__(),
            "maintain": ab.maintain,
            "backup": lambda: ab.backup(str(tmp_path / "backup")),
            "check": ab.check,
            "attach": lambda: ab.attach("x", "rest", uri="http://127.0.0.1:1"),
        }
        for name, act in acts.items():
            with refused(name):
                act()


# -- what becomes of an error itself -------------------------------------------------------------


class Odd(Exception):
    pass


@public
def verb(place: str, way: str = "raise") -> None:
    hidden = place
    try:
        raise Odd(f"no {hidden} here")
    except Odd as error:
        if way == "noted" and sys.version_info >= (3, 11):
            error.add_note(hidden)
        if way == "stopped":
            raise KeyboardInterrupt from error
        raise Unreachable("gone") from error


ADDRESS = f"s3://me:{SEED}@bucket/x"


@pytest.mark.parametrize("way", ["raise", "noted"])
def test_what_lies_behind_an_error_is_told_without_secrets(way: str) -> None:
    with pytest.raises(Unreachable) as caught:
        verb(ADDRESS, way)
    cause = caught.value.__cause__
    assert isinstance(cause, Reworded) and "Odd: no s3://me:***@bucket/x here" in str(cause)
    assert caught.value.__context__ is cause and caught.value.__suppress_context__
    assert SEED not in with_values(caught.value)


def test_what_holds_no_secret_stays_as_it_is() -> None:
    with pytest.raises(Unreachable) as caught:
        verb("plain")
    assert isinstance(caught.value.__cause__, Odd)
    assert "in verb" in "".join(traceback.format_exception(caught.value.__cause__))


def test_an_interrupt_shows_none_either() -> None:
    with refused("interrupt", kind=KeyboardInterrupt):
        verb(ADDRESS, "stopped")


def test_what_the_caller_was_handling_is_left_alone() -> None:
    try:
        kept = "the caller's"
        raise Odd(f"{SEED} of the caller")
    except Odd as own:
        with pytest.raises(Unreachable) as caught:
            verb("plain")
        assert own.__traceback__ is not None
        assert own.__traceback__.tb_frame.f_locals["kept"] == kept
        behind: BaseException | None = caught.value
        while behind is not None and behind is not own:
            behind = behind.__context__
        assert behind is own and str(own) == f"{SEED} of the caller"


def test_a_frame_that_goes_on_elsewhere_is_left_out() -> None:
    """It cannot be emptied."""
    found: list[BaseException] = []
    met, over = threading.Event(), threading.Event()

    def works_on() -> None:
        hidden = ADDRESS
        try:
            raise Odd("early")
        except Odd as error:
            found.append(error)
        met.set()
        over.wait()
        assert hidden

    worker = threading.Thread(target=works_on)
    worker.start()
    met.wait()

    @public
    def collect() -> None:
        raise Unreachable("gone") from found[0]

    with refused("another thread"):
        collect()
    over.set()
    worker.join()


def test_an_error_for_the_log() -> None:
    """Of ours that nobody thought of."""
    try:
        hidden = os.fspath(Path("x")) and ADDRESS
        anabranch.redaction.remember_all(hidden)
        raise Odd(hidden)
    except Odd as error:
        told = for_a_log(error)
    shown = "".join(traceback.format_exception(told))
    assert "Odd: s3://me:***@bucket/x" in shown and "test_an_error_for_the_log" in shown
    assert SEED not in str(told)

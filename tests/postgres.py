"""A private PostgreSQL server for tests: its own folder, its own socket, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

PORT = 5432  # only the name of the socket: the server listens on no network


def binaries() -> Path | None:
    """The folder of the server's programs, if one is installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if config := shutil.which("pg_config"):
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        if (folder := Path(asked.stdout.strip())).joinpath("initdb").exists():
            return folder
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


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


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server, give the URL of its database, stop it."""
    programs = binaries()
    if programs is None:
        raise FileNotFoundError("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="ab-pg-", dir="/tmp"))  # a socket's path must be short
    owner = _owner()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)

    def run(*command: str) -> None:
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            capture_output=True,
            user=owner.pw_uid if owner else None,
            group=owner.pw_gid if owner else None,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )

    data, control = str(folder / "data"), str(programs / "pg_ctl")
    options = f"-k {folder} -p {PORT} -c listen_addresses='' -c fsync=off -c max_connections=100"
    try:
        run(str(programs / "initdb"), "-D", data, "-U", "anabranch", "-A", "trust", "-E", "UTF8")
        run(control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            yield f"postgresql://anabranch@/postgres?host={quote(str(folder), safe='')}&port={PORT}"
        finally:
            run(control, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a server for the whole run; import it in a conftest."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server() as url:
        yield url

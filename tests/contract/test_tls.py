"""TLS to PostgreSQL: settings of the address reach the driver, and each failure says what helps."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy import text

from anabranch import connect
from anabranch.errors import Unreachable
from tests.postgres import Server, running_server

PASSWORD = "s3cret/odd@word"


def openssl(*given: str) -> None:
    subprocess.run(["openssl", *given], check=True, capture_output=True)


@dataclass
class Authority:
    """A CA in a folder of its own."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.certificate, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        subject = ["-subj", f"/CN={self.folder.name}", "-days", "2", "-nodes"]
        keys = ["-newkey", "rsa:2048", "-keyout", str(self.key), "-out", str(self.certificate)]
        openssl("req", "-x509", *keys, *subject)

    def sign(self, name: str, names: str = "") -> tuple[Path, Path]:
        """A certificate for a name, and its key."""
        key, request, signed = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        subject = ["-subj", f"/CN={name}", "-nodes"]
        openssl("req", "-newkey", "rsa:2048", "-keyout", str(key), "-out", str(request), *subject)
        extra = self.folder / f"{name}.ext"
        extra.write_text(f"subjectAltName = {names}\n" if names else "")
        by = ["-CA", str(self.certificate), "-CAkey", str(self.key), "-CAcreateserial"]
        out = ["-in", str(request), "-out", str(signed), "-days", "2", "-extfile", str(extra)]
        openssl("x509", "-req", *by, *out)
        key.chmod(0o600)
        return signed, key


@dataclass
class Place:
    port: int
    ours: Authority
    others: Authority
    client: tuple[Path, Path]
    stranger: tuple[Path, Path]

    def url(self, user: str = "by_password", host: str = "127.0.0.1", **options: object) -> str:
        password = quote(PASSWORD, safe="")
        told = urlencode({name: str(value) for name, value in options.items()})
        return f"postgresql://{user}:{password}@{host}:{self.port}/postgres?{told}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server that takes only TLS: from one user a password, from another a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    ours, others = Authority(folder / "ours"), Authority(folder / "others")
    signed, key = ours.sign("server", "IP:127.0.0.1")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]

    def prepare(server: Server) -> None:
        data = server.folder / "data"
        for source, name in (
            (signed, "server.crt"),
            (key, "server.key"),
            (ours.certificate, "ca.crt"),
        ):
            shutil.copy(source, data / name)
            (data / name).chmod(0o600)
            if server.owner:
                shutil.chown(data / name, server.owner.pw_uid, server.owner.pw_gid)
        (data / "pg_hba.conf").write_text(
            "local all all trust\n"
            "hostssl all by_password 127.0.0.1/32 scram-sha-256\n"
            "hostssl all by_certificate 127.0.0.1/32 cert\n"
        )
        server.options = (
            f"-c listen_addresses=127.0.0.1 -c port={port} -c ssl=on -c ssl_ca_file=ca.crt"
        )
        server.url = server.url.replace("port=5432", f"port={port}")

    with running_server(prepare) as server:
        from anabranch.catalog.store import Store

        admin = Store.open(server.url)
        with admin.writing() as c:
            quoted = PASSWORD.replace("'", "''")
            c.execute(text(f"CREATE ROLE by_password LOGIN SUPERUSER PASSWORD '{quoted}'"))
            c.execute(text("CREATE ROLE by_certificate LOGIN SUPERUSER"))
        admin.close()
        client, stranger = ours.sign("by_certificate"), others.sign("by_certificate")
        yield Place(port, ours, others, client, stranger)


def test_a_verified_server(place: Place, tmp_path: Path) -> None:
    url = place.url(sslmode="verify-full", sslrootcert=place.ours.certificate)
    with connect(url, warehouse=str(tmp_path)) as ab:
        assert ab.status() == []
        with ab._store.reading() as c:
            found = c.execute(text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
            assert found.scalar_one() is True
        told = f"{ab._store.shown} {ab.settings()} {ab._settings!r}"
    assert PASSWORD not in told
    assert quote(PASSWORD, safe="") not in told
    assert "sslmode=verify-full" in told


def test_a_client_certificate(place: Place, tmp_path: Path) -> None:
    url = place.url(
        "by_certificate",
        sslmode="verify-ca",
        sslrootcert=place.ours.certificate,
        sslcert=place.client[0],
        sslkey=place.client[1],
    )
    with connect({"catalog": url, "warehouse": str(tmp_path)}) as ab:
        assert ab.cuts() == []


def test_a_reference_for_the_password(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_PASSWORD", PASSWORD)
    url = place.url(sslmode="require").replace(quote(PASSWORD, safe=""), "ENV('CATALOG_PASSWORD')")
    with connect(url, warehouse=str(tmp_path)) as ab:
        assert ab.status() == []


def broken(place: Place, tmp_path: Path) -> dict[str, tuple[str, str, str]]:
    """Addresses that fail: what the error says, and the cure."""
    ours, others = place.ours.certificate, place.others.certificate
    by_certificate = {"sslmode": "verify-ca", "sslrootcert": ours}
    loose = tmp_path / "loose.key"
    shutil.copy(place.client[1], loose)
    loose.chmod(0o644)
    return {
        "wrong CA": (
            place.url(sslmode="verify-full", sslrootcert=others),
            "certificate verify failed",
            "sslrootcert=<file with the CA's certificate>",
        ),
        "missing CA": (
            place.url(sslmode="verify-full", sslrootcert=tmp_path / "nowhere.crt"),
            "root certificate file",
            "sslrootcert names no file",
        ),
        "other name": (
            place.url(host="localhost", sslmode="verify-full", sslrootcert=ours),
            "does not match host name",
            "sslmode=verify-ca",
        ),
        "no TLS": (place.url(sslmode="disable"), "no encryption", "sslmode=verify-full"),
        "no certificate": (
            place.url("by_certificate", **by_certificate),
            "valid client certificate",
            "sslcert=<file>&sslkey=<file>",
        ),
        "a stranger's certificate": (
            place.url(
                "by_certificate",
                **by_certificate,
                sslcert=place.stranger[0],
                sslkey=place.stranger[1],
            ),
            "unknown ca",
            "a client certificate that it trusts",
        ),
        "a key for everybody": (
            place.url("by_certificate", **by_certificate, sslcert=place.client[0], sslkey=loose),
            "private key file",
            "chmod 600",
        ),
        "wrong password": (
            place.url(sslmode="require").replace(quote(PASSWORD, safe=""), "wr0ng-word"),
            "password authentication failed",
            "check user and password",
        ),
        "no such mode": (place.url(sslmode="perhaps"), "sslmode", "sslmode"),
    }


@pytest.mark.parametrize(
    "case",
    ["wrong CA", "missing CA", "other name", "no TLS", "no certificate", "a stranger's certificate",
     "a key for everybody", "wrong password", "no such mode"],
)  # fmt: skip
def test_a_failure_says_what_helps(place: Place, tmp_path: Path, case: str) -> None:
    url, says, cure = broken(place, tmp_path)[case]
    with pytest.raises(Unreachable) as caught:
        connect(url, warehouse=str(tmp_path / "w"))
    assert says in caught.value.message
    assert cure in str(caught.value.hint)
    for secret in (PASSWORD, quote(PASSWORD, safe=""), "wr0ng-word"):
        assert secret not in str(caught.value)

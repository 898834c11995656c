"""The same suite over SQLite and PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.contract.world import World
from tests.postgres import binaries, postgres_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "catalog.db")
    server: str = request.getfixturevalue("postgres_url")
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def world(catalog_url: str, tmp_path: Path) -> Iterator[World]:
    opened = World(catalog_url, tmp_path / "warehouse")
    yield opened
    opened.close()

"""The same suite over SQLite and PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from anabranch.catalog.migrations import FORMAT_VERSION
from tests.contract.world import World
from tests.postgres import postgres_url

TWICE_IF_EXTENDED = (  # they take longest
    "test_changes.py",
    "test_deployments.py",
    "test_processes.py",
    "test_upkeep.py",
)
# On PostgreSQL, of those that SQLite has all: the first one goes through every migration.
LAYOUTS = (1, 8, FORMAT_VERSION)

__all__ = ["postgres_url"]  # a fixture, found by its name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs the longest on PostgreSQL alone; tests/standin has SQLite below."""
    for item in items:
        on = getattr(item, "callspec", None)
        if item.path.name in TWICE_IF_EXTENDED and on and on.params.get("catalog_url") == "sqlite":
            item.add_marker("extended")
        if on and on.params.get("catalog_url") == "postgresql" and "fixture" in on.params:
            layout = int(on.params["fixture"].name.partition("_")[0])
            if layout not in LAYOUTS:
                item.add_marker("extended")


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database (a schema of its own is as good, and made much faster)."""
    if request.param == "sqlite":
        return str(tmp_path / "catalog.db")
    server: str = request.getfixturevalue("postgres_url")
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture
def world(catalog_url: str, tmp_path: Path) -> Iterator[World]:
    opened = World(catalog_url, tmp_path / "warehouse")
    yield opened
    opened.close()

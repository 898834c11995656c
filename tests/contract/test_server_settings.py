"""A PostgreSQL server that may lose what it acknowledged is pointed out."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy.engine import make_url

from anabranch.catalog.store import Store
from anabranch.lake.ground import weaknesses
from anabranch.lake.places import Warehouse


def said(url: str, *, fsync: bool = True) -> str:
    store = Store.open(url, fsync=fsync)
    try:
        return "\n".join(map(str, weaknesses(store, Warehouse("s3://bucket/warehouse", ""))))
    finally:
        store.close()


@pytest.mark.parametrize("catalog_url", ["postgresql"], indirect=True)
def test_what_the_server_says(catalog_url: str) -> None:
    """Servers of the tests run with `fsync = off`."""
    found = said(catalog_url)
    assert "fsync = off on the server" in found and "set fsync = on there" in found
    assert "synchronous_commit" not in found and "full_page_writes" not in found
    assert said(catalog_url, fsync=False) == "", "the operator has said that rows may be lost"


@pytest.mark.parametrize("catalog_url", ["postgresql"], indirect=True)
def test_a_setting_of_the_user_counts(catalog_url: str) -> None:
    """As a role or the address sets it, for this connection alone."""
    found = said(f"{catalog_url}%20-csynchronous_commit%3Doff")
    assert "synchronous_commit = off" in found and "lose the last commits" in found
    user = make_url(catalog_url).username
    with psycopg.connect(catalog_url, autocommit=True) as c:
        c.execute(f'ALTER ROLE "{user}" SET synchronous_commit = off')
        try:
            assert "synchronous_commit = off" in said(catalog_url)
        finally:
            c.execute(f'ALTER ROLE "{user}" RESET synchronous_commit')

"""Every route of the table, asked by everybody: the route's permission decides, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import Anabranch
from anabranch.catalog import tokens
from anabranch.errors import Refused
from anabranch.serve.routes import Access, Route
from anabranch.serve.server import ROUTES, Listening
from tests.serve.running import Served, new_token, served

GIVEN = {"prefix": "latest", "namespace": "shop", "table": "sales", "view": "v"}
BELOW = {Access.READ: None, Access.WRITE: "reader", Access.ADMIN: "writer"}
_NAME = {"namespace": ["shop"], "name": "sales"}
# What names the namespaces of routes whose path does not: a new route must say so here.
BODIES: dict[str, Any] = {
    "/iceberg/v1/{prefix}/namespaces": {"namespace": ["shop"]},
    "/iceberg/v1/{prefix}/tables/rename": {"source": _NAME, "destination": _NAME},
    "/iceberg/v1/{prefix}/views/rename": {"source": _NAME, "destination": _NAME},
    "/iceberg/v1/{prefix}/transactions/commit": {"table-changes": [{"identifier": _NAME}]},
}
LISTS_WHAT_ONE_MAY_SEE = {"GET /iceberg/v1/{prefix}/namespaces", "GET /iceberg/v1/config"}


def shown(route: Route) -> str:
    return f"{route.method} {route.path}"


def ask(here: Served, route: Route, token: str | None) -> int:
    path = re.sub(r"\{(\w+)\}", lambda found: GIVEN[found[1]], route.path)
    body = BODIES.get(route.path, {}) if route.method == "POST" else None
    return here.ask(route.method, path, token or "none", json=body).status_code


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with anabranch.connect(tmp_path_factory.mktemp("lake")) as ab, served(ab) as running:
        yield running


@pytest.fixture(scope="module")
def known(here: Served) -> dict[str, str]:
    """Tokens by what they may do: everywhere, in `shop`, and elsewhere."""
    roles = [each.name.lower() for each in tokens.Role]
    found = {role: new_token(here.ab, role) for role in roles}
    found |= {f"shop {role}": new_token(here.ab, None, f"shop={role}") for role in roles}
    return found | {f"else {role}": new_token(here.ab, None, f"else={role}") for role in roles}


@pytest.mark.parametrize("route", ROUTES, ids=shown)
def test_a_route_asks_for_its_permission(route: Route, here: Served, known: dict[str, str]) -> None:
    if route.access is Access.PUBLIC:
        assert ask(here, route, None) == 200
        return
    assert ask(here, route, None) == 401
    if route.access is Access.TOKEN:
        assert shown(route) in LISTS_WHAT_ONE_MAY_SEE
        assert ask(here, route, known["else reader"]) == 200
        return
    assert route.inside == ("{namespace}" in route.path)
    assert route.inside or route.path in BODIES, "say in BODIES what names its namespaces"
    role = route.access.value
    if below := BELOW[route.access]:
        assert ask(here, route, known[below]) == 403
        assert ask(here, route, known[f"shop {below}"]) == 403
    assert ask(here, route, known[f"else {role}"]) == 403
    assert ask(here, route, known[role]) not in (401, 403)
    assert ask(here, route, known[f"shop {role}"]) not in (401, 403)


def test_a_listing_shows_the_namespaces_that_one_may_read(
    here: Served, known: dict[str, str]
) -> None:
    for each in ("one", "two", "two.inner"):
        body = {"namespace": each.split(".")}
        assert here.ask("POST", "/iceberg/v1/latest/namespaces", json=body).status_code in (
            200,
            409,
        )
    secret = new_token(here.ab, None, "two.inner=reader")

    def listed(query: str = "") -> list[list[str]]:
        found = here.ask("GET", f"/iceberg/v1/latest/namespaces{query}", secret)
        names: list[list[str]] = found.json()["namespaces"]
        return names

    assert listed() == [["two"]] and listed("?parent=two") == [["two", "inner"]]
    assert here.ask("GET", "/iceberg/v1/latest/namespaces/two", secret).status_code == 403
    inner = "/iceberg/v1/latest/namespaces/two%1Finner"
    assert here.ask("GET", inner, secret).status_code == 200
    dotted = "/iceberg/v1/latest/namespaces/two.inner"  # is another name for nothing
    assert here.ask("GET", dotted, secret).status_code == 400


def test_a_token_ends(here: Served) -> None:
    secret = new_token(here.ab, "reader")
    path = "/iceberg/v1/config"
    assert here.ask("GET", path, secret).status_code == 200
    (id_,) = (t["id"] for t in listing(here.ab)[:1])
    with here.ab._store.writing() as c:
        tokens.revoke(c, id_)
    here.app.guard._known.clear()  # or some seconds later
    assert here.ask("GET", path, secret).status_code == 401
    with here.ab._store.writing() as c:
        grants = tokens.Grants.of("reader")
        _, over = tokens.create(c, "", grants, "me", 0.0)
    assert here.ask("GET", path, over).status_code == 401


def test_the_catalog_keeps_no_token(here: Served) -> None:
    secret = new_token(here.ab, "admin")
    data = b"".join(each.read_bytes() for each in _files(here.ab) if each.is_file())
    assert secret.encode() not in data and tokens.hashed(secret).encode() in data


def _files(ab: Anabranch) -> list[Path]:
    return list(Path(ab._store.shown).parent.glob("catalog.db*"))


def listing(ab: Anabranch) -> list[dict[str, Any]]:
    with ab._store.reading() as c:
        return tokens.listing(c)


def test_without_tokens_only_loopback_is_served() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(Refused, match="everybody"):
            Listening(host, open_to_all=True)
    for host in ("127.0.0.1", "::1", "localhost"):
        assert Listening(host, open_to_all=True).is_loopback


def test_no_auth_asks_for_nothing(ab: Anabranch) -> None:
    with served(ab, no_auth=True) as here:
        catalog = here.catalog()
        catalog.create_namespace("shop")
        assert catalog.list_namespaces() == [("shop",)]


def test_requests_have_limits(here: Served) -> None:
    app = here.app
    most = app.limits.body
    said = here.ask("POST", "/iceberg/v1/latest/namespaces", data=b"x" * (most + 1))
    assert said.status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(most // 1_000_000 + 2):
            yield b"x" * 1_000_000

    assert here.ask("POST", "/iceberg/v1/latest/namespaces", data=pieces()).status_code == 413
    for body in (b"{", b"[]", b'{"namespace": 7}', b'{"namespace": []}'):
        said = here.ask("POST", "/iceberg/v1/latest/namespaces", data=body)
        assert said.status_code == 400, body
    assert here.ask("GET", "/nowhere").status_code == 404
    assert here.ask("PUT", "/iceberg/v1/config").status_code == 404

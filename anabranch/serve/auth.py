"""Who asks: a bearer token, looked up by its hash, and remembered for some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from anabranch.catalog import tokens
from anabranch.catalog.store import Store
from anabranch.catalog.tokens import EVERYWHERE, Grants, Role
from anabranch.serve.problems import Problem, forbidden
from anabranch.serve.routes import Access, Route, need, table_name

REMEMBERED_SECONDS = 5.0  # how long a revoked token may still work
MOST = 1_000
EVERYTHING = Grants({EVERYWHERE: Role.ADMIN})  # of everybody, with --no-auth
NOTHING = Grants({})
_SCHEME = "bearer "


class Guard:
    def __init__(
        self, store: Store, *, open_to_all: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._open = open_to_all
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Grants]] = {}

    def grants(self, headers: Mapping[str, str]) -> Grants | None:
        """What the sender of a request may do; None for a token that is not known, or none at all."""
        if self._open:
            return EVERYTHING
        given = headers.get("authorization", "")
        if given[: len(_SCHEME)].lower() != _SCHEME:
            return None
        return self._of(given[len(_SCHEME) :].strip())

    def _of(self, secret: str) -> Grants | None:
        key = tokens.hashed(secret)
        with self._lock:
            found = self._known.get(key)
        if found is not None and found[0] > self._clock():
            return found[1]
        with self._store.reading() as c:
            token = tokens.find(c, secret)
        with self._lock:
            self._known.pop(key, None)
            if token is not None:
                if len(self._known) >= MOST:
                    self._known.clear()
                self._known[key] = self._clock() + REMEMBERED_SECONDS, token.grants
        return None if token is None else token.grants


def check(route: Route, grants: Grants | None, namespace: tuple[str, ...] | None) -> Grants:
    """Refuse who may not use a route."""
    if route.access is Access.PUBLIC:
        return grants or NOTHING
    if grants is None:
        raise Problem(
            401,
            "NotAuthorizedException",
            "send a valid token: Authorization: Bearer <token> "
            "(`anabranch token create --role reader` makes one)",
            WWW_Authenticate="Bearer",
        )
    role = route.access.role
    if role is None:
        return grants
    if route.inside and namespace is not None:
        table_name(namespace, "any")  # a dot in a level must not lead to another namespace
        need(grants, role, namespace)
    elif not grants.allows_somewhere(role):
        raise forbidden(f"this token lacks the role {role.name.lower()}")
    return grants

"""A server in this process, and its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog

from anabranch import Anabranch
from anabranch.catalog import tokens
from anabranch.catalog.tokens import Grants
from anabranch.serve.app import App
from anabranch.serve.server import Listening, application, server


@dataclass(frozen=True)
class Served:
    ab: Anabranch
    app: App
    address: str
    token: str | None

    def catalog(self, warehouse: str = "latest", **properties: Any) -> RestCatalog:
        """A client that nobody here wrote."""
        if self.token is not None:
            properties = {"token": self.token, **properties}
        uri = f"{self.address}/iceberg"
        return RestCatalog("served", uri=uri, warehouse=warehouse, **properties)

    def ask(
        self, method: str, path: str, token: str | None = None, **given: Any
    ) -> requests.Response:
        secret = token or self.token
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        headers |= given.pop("headers", {})
        return requests.request(method, self.address + path, headers=headers, timeout=60, **given)


def new_token(ab: Anabranch, role: str | None = "admin", *inside: str) -> str:
    with ab._store.writing() as c:
        return tokens.create(c, "test", Grants.of(role, inside), "somebody@here", None)[1]


@contextmanager
def served(ab: Anabranch, *, no_auth: bool = False) -> Iterator[Served]:
    """A server on a free port of loopback."""
    app = application(ab._runtime, open_to_all=no_auth)
    running = server(app, Listening(port=0, open_to_all=no_auth))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        token = None if no_auth else new_token(ab)
        yield Served(ab, app, f"http://127.0.0.1:{port}", token)
    finally:
        running.should_exit = True
        thread.join()

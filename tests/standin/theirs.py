"""A catalog of others with its own warehouse, and the same over REST: for ATTACH CATALOG."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

SALES = pa.schema([("id", pa.int64()), ("amount", pa.int64())])


class Theirs:
    """A SQL catalog in a file, and whatever other programs do in it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.uri = f"sqlite:///{folder}/theirs.db"
        self.catalog = SqlCatalog("theirs", uri=self.uri, warehouse=f"file://{folder}/warehouse")
        self.catalog.create_namespace("sales")

    @property
    def properties(self) -> dict[str, Any]:
        return {"uri": self.uri, "catalog_name": "theirs"}

    def table(self, name: str = "orders", **properties: str) -> Table:
        return self.catalog.create_table(("sales", name), SALES, properties=properties)

    def append(self, name: str, *rows: tuple[int, int]) -> None:
        self.catalog.load_table(("sales", name)).append(rows_of(*rows))


def rows_of(*rows: tuple[int, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), ()]
    return pa.table([pa.array(c, pa.int64()) for c in columns], schema=SALES)


class RestServer(ThreadingHTTPServer):
    """The part of Iceberg's REST protocol that reading needs, over a catalog; it can misbehave.

    `mood`: "well", or what goes wrong.  `asked` counts requests for tables, `unchanged` those that were
    answered without a body.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, catalog: SqlCatalog, *, etags: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog, self.etags = catalog, etags
        self.mood, self.delay = "well", 0.0
        self.asked = self.unchanged = 0
        self.bodies: dict[str, bytes] = {}
        self.before_answer: Any = None
        self.lock = threading.Lock()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""

    def location(self, identifier: tuple[str, str]) -> str | None:
        with self.lock, self.catalog.engine.connect() as c:
            found = c.exec_driver_sql(
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND "
                "table_name = ?",
                identifier,
            ).scalar()
        return str(found) if found is not None else None

    def body(self, identifier: tuple[str, str], location: str) -> bytes:
        if location not in self.bodies:
            try:
                with self.lock:
                    table = self.catalog.load_table(identifier)
            except NoSuchTableError:
                return b""
            answer = {
                "metadata-location": table.metadata_location,
                "metadata": json.loads(table.metadata.model_dump_json(exclude_none=True)),
                "config": {},
            }
            self.bodies[table.metadata_location] = json.dumps(answer).encode()
        return self.bodies.get(location, b"")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RestServer

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        path = [unquote(each) for each in urlsplit(self.path).path.strip("/").split("/")]
        server = self.server
        if server.mood == "slow":
            time.sleep(server.delay)
        if server.mood == "gone":
            self.close_connection = True
            self.connection.close()
            return None
        if server.mood == "broken":
            return self._send(500, json.dumps({"error": {"message": "disk full"}}).encode())
        if server.mood == "rubbish":
            return self._send(200, b"<html>welcome to the proxy</html>", kind="text/html")
        if server.mood == "forbidden":
            return self._send(401, json.dumps({"error": {"message": "no token"}}).encode())
        if path == ["v1", "config"]:
            return self._send(200, b'{"defaults": {}, "overrides": {}}')
        if path == ["v1", "namespaces"]:
            return self._send(200, b'{"namespaces": [["sales"]]}')
        if len(path) == 5 and path[3] == "tables":
            return self._table((path[2], path[4]))
        return self._send(404, b"{}")

    def _table(self, identifier: tuple[str, str]) -> None:
        server = self.server
        if server.before_answer is not None:
            server.before_answer(identifier)
        location = server.location(identifier)
        with server.lock:
            server.asked += 1
        if location is None:
            missing = {"error": {"message": "no such table", "type": "NoSuchTableException"}}
            return self._send(404, json.dumps(missing).encode())
        tag = f'"{hashlib.sha1(location.encode()).hexdigest()}"'
        if server.etags and self.headers.get("If-None-Match") == tag:
            with server.lock:
                server.unchanged += 1
            return self._send(304, b"", tag=tag)
        return self._send(200, server.body(identifier, location), tag=tag if server.etags else "")

    def _send(
        self, status: int, body: bytes, kind: str = "application/json", tag: str = ""
    ) -> None:
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def rest(theirs: Theirs, *, etags: bool = True) -> Iterator[RestServer]:
    with RestServer(theirs.catalog, etags=etags) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

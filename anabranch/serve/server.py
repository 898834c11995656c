"""All routes, and the application that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import uvicorn

from anabranch.catalog import cuts, tokens
from anabranch.errors import InvalidValue, Refused
from anabranch.redaction import remember_all
from anabranch.runtime import Runtime
from anabranch.serve.app import App, Limits
from anabranch.serve.auth import Guard
from anabranch.serve.iceberg import READING, ROOT, config
from anabranch.serve.iceberg_views import VIEW_READING, VIEW_WRITING
from anabranch.serve.iceberg_writes import WRITING
from anabranch.serve.pins import LATEST, Pins
from anabranch.serve.routes import Access, Answer, Call, Route, Server


def health(call: Call) -> Answer:
    """Whether the catalog answers."""
    with call.runtime.store.reading() as c:
        return Answer.of({"status": "ok", "cut": cuts.current(c)})


def _advertised(prefix: str) -> Sequence[str]:
    """What a client may use: a cut does not change."""
    routes = OF_ANY_CUT if prefix != LATEST else ICEBERG_ROUTES
    return sorted(each.endpoint for each in routes)


OF_ANY_CUT = (*READING, *VIEW_READING)
ICEBERG_ROUTES: tuple[Route, ...] = (*OF_ANY_CUT, *WRITING, *VIEW_WRITING)
ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", Access.PUBLIC, health),
    Route("GET", f"{ROOT}/config", Access.TOKEN, config(_advertised)),
    *ICEBERG_ROUTES,
)


def application(runtime: Runtime, *, open_to_all: bool = False) -> App:
    """The server of a catalog; the runtime stays open as long as it is served."""
    settings = runtime.settings
    told = dict(settings.serve_client_config)
    for value in told.values():
        remember_all(value)
    server = Server(runtime, Pins(runtime), told)
    limits = Limits(settings.serve_max_body, settings.serve_concurrency, settings.serve_timeout)
    guard = Guard(runtime.store, open_to_all=open_to_all)
    return App(server, guard, limits, ROUTES)


# -- running it --------------------------------------------------------------------------------

LOOPBACK = "localhost"
CONNECTIONS = 1_000


@dataclass(frozen=True)
class Listening:
    """Where to listen, and how."""

    host: str = "127.0.0.1"
    port: int = 8181
    open_to_all: bool = False
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.open_to_all and not self.is_loopback:
            raise Refused(
                f"--no-auth would let everybody who reaches {self.host} read and write",
                hint="leave --host at 127.0.0.1, or make tokens: anabranch token create",
            )
        if bool(self.certificate) != bool(self.key):
            raise InvalidValue("TLS needs both a certificate and its key")

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == LOOPBACK

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"

    def warnings(self, runtime: Runtime) -> list[str]:
        """What the one who starts it should know."""
        said = []
        if not self.is_loopback and not self.certificate:
            said.append("without TLS, tokens can be read in transit: give --tls-cert and --tls-key")
        with runtime.store.reading() as c:
            active = [each for each in tokens.listing(c) if each["status"] == "active"]
        if not active and not self.open_to_all:
            said.append("there is no token yet: `anabranch token create --role reader` makes one")
        return said


def server(app: App, listening: Listening) -> uvicorn.Server:
    """Ready to `run()`; a signal lets requests that are under way finish."""
    return uvicorn.Server(
        uvicorn.Config(
            app.asgi(),
            host=listening.host,
            port=listening.port,
            ssl_certfile=listening.certificate,
            ssl_keyfile=listening.key,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a header must not say where a request comes from
            limit_concurrency=CONNECTIONS,
            lifespan="on",
        )
    )

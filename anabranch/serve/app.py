"""The ASGI application: limits, permissions and errors around the acts of the route tables."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch.boundary import translate
from anabranch.errors import AnabranchError
from anabranch.redaction import hide
from anabranch.serve.auth import Guard, check
from anabranch.serve.problems import Problem, bad_request, busy, problem
from anabranch.serve.routes import Answer, Call, Route, Server, namespace_in
from anabranch.tracebacks import for_a_log

log = logging.getLogger("anabranch.serve")
SWEEP_SECONDS = 5.0
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Of requests: bytes of a body, acts at a time, and seconds to wait for a body or a turn."""

    body: int
    at_once: int
    seconds: float


class App:
    """Serves route tables.  An act is plain code: it runs in a thread, as many as the limit allows."""

    def __init__(
        self, server: Server, guard: Guard, limits: Limits, routes: Sequence[Route]
    ) -> None:
        self.server = server
        self.guard = guard
        self.limits = limits
        self.routes = tuple(routes)
        self._turns: anyio.CapacityLimiter | None = None

    def asgi(self) -> ASGIApp:
        served = [
            StarletteRoute(each.path, self._endpoint(each), methods=[each.method])
            for each in self.routes
        ]
        # Starlette answers HEAD by GET: those with a route of their own come first.
        served.sort(key=lambda each: "GET" in (each.methods or ()))
        app = Starlette(
            routes=served,
            lifespan=self._lifespan,
            exception_handlers={404: _not_found, 405: _not_found},
        )
        app.router.redirect_slashes = False  # every address is served, or none
        return _as_sent(app)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sweep)
            yield
            tasks.cancel_scope.cancel()
        self.server.pins.close()

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            try:
                await anyio.to_thread.run_sync(self.server.pins.sweep)
            except AnabranchError as error:  # the catalog is away: the next time, then
                log.warning("%s", error.message)

    def _endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                answer = await self._answer(route, request)
            except Problem as found:
                answer = _error(found)
            except AnabranchError as error:
                answer = _error(problem(error))
            except ClientDisconnect:
                answer = _error(bad_request("the client went away"))
            except (
                Exception
            ) as error:  # a mistake of ours: it is told to the log, not to the client
                told = for_a_log(error)
                log.error("%s %s", request.method, request.url.path, exc_info=told)
                answer = _error(problem(translate(error)))
            body = None if request.method == "HEAD" else answer.body
            return Response(
                body,
                status_code=answer.status,
                headers=dict(answer.headers),
                media_type=answer.media_type if answer.body is not None else None,
            )

        return endpoint

    async def _answer(self, route: Route, request: Request) -> Answer:
        given = {key: str(value) for key, value in request.path_params.items()}
        grants = await self._run(partial(self.guard.grants, request.headers))
        call = Call(
            self.server,
            check(route, grants, namespace_in(given)),
            given,
            dict(request.query_params),
            request.headers,
            await self._body(request),
        )
        return await self._run(partial(route.act, call))

    async def _body(self, request: Request) -> bytes:
        """The body, if it is not too long, and does not take too long."""
        most = self.limits.body
        too_long = Problem(
            413,
            "BadRequestException",
            f"the request is longer than {most:,} bytes (serve.max_body)",
        )
        if int(request.headers.get("content-length") or 0) > most:
            raise too_long
        found = bytearray()
        with anyio.move_on_after(self.limits.seconds) as waited:
            async for piece in request.stream():
                found += piece
                if len(found) > most:
                    raise too_long
        if waited.cancelled_caught:
            raise Problem(408, "BadRequestException", "the request took too long to arrive")
        return bytes(found)

    async def _run(self, act: Callable[[], T]) -> T:
        """Run in a thread; whoever waits too long for a turn is told to come back."""
        if self._turns is None:
            self._turns = anyio.CapacityLimiter(self.limits.at_once)
        with anyio.move_on_after(self.limits.seconds) as waited:
            await self._turns.acquire_on_behalf_of(act)
        if waited.cancelled_caught:
            raise busy(f"{self.limits.at_once} requests are being served (serve.concurrency)")
        try:
            # an act that has begun is never given up: its commit would be unknown
            one = anyio.CapacityLimiter(1)  # turns were counted above
            return await anyio.to_thread.run_sync(act, abandon_on_cancel=False, limiter=one)
        finally:
            self._turns.release_on_behalf_of(act)


def _error(found: Problem) -> Answer:
    said = {"message": hide(found.message), "type": found.name, "code": found.status}
    return Answer(json.dumps({"error": said}).encode(), found.status, found.headers)


async def _not_found(request: Request, error: Exception) -> Response:
    found = Problem(404, "NotFoundException", "there is nothing at this address")
    return Response(_error(found).body, status_code=404, media_type="application/json")


def _as_sent(app: ASGIApp) -> ASGIApp:
    """Paths are matched as they were sent: a name may hold a slash, which is `%2F` there."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            path = scope["raw_path"].decode("latin-1").partition("?")[0]
            scope = {**scope, "path": path}
        await app(scope, receive, send)

    return served

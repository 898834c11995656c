"""`anabranch serve` and the tokens of its clients."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from anabranch.catalog import tokens
from anabranch.cli.commands import command
from anabranch.cli.output import Output
from anabranch.cli.session import CliSession
from anabranch.durations import parse_duration
from anabranch.errors import Unsupported
from anabranch.lazy import lazy

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from anabranch.deploy import state as deployments
else:
    deployments = lazy("anabranch.deploy.state")

TOKEN_COLUMNS = ("id", "name", "grants", "status", "created_by", "created_at", "expires_at")
ROLES = click.Choice(["reader", "writer", "admin"], case_sensitive=False)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8181, show_default=True, type=click.IntRange(0, 65535))
@click.option("--no-auth", is_flag=True, help="Ask for no token; only on a loopback address.")
@click.option("--tls-cert", metavar="FILE", help="Certificate chain (PEM): serve HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")
@command
def serve(
    session: CliSession,
    out: Output,
    host: str,
    port: int,
    no_auth: bool,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Serve the tables to other engines by the Iceberg REST protocol; see docs/serve.md.

    Clients choose what they read by the warehouse that they name: latest, cut:N or pinned.
    """
    found = _server()
    listening = found.Listening(host, port, no_auth, tls_cert, tls_key)
    runtime = session.ab._runtime
    for warning in listening.warnings(runtime):
        out.note(warning)
    out.note(f"serving {listening.address}/iceberg; Ctrl-C stops")
    signal.signal(signal.SIGTERM, _interrupt)  # a service manager's word, like Ctrl-C
    try:
        app = found.application(runtime, open_to_all=no_auth)
        found.server(app, listening).run()
    except KeyboardInterrupt:  # it has let requests finish, and sends itself the signal again
        out.note("stopped")


@click.group()
def token() -> None:
    """Create, list and revoke the bearer tokens of `anabranch serve`."""


@token.command("create")
@click.option("--role", type=ROLES, help="What the token may do in all namespaces.")
@click.option(
    "--grant", "inside", multiple=True, metavar="NAMESPACE=ROLE", help="… in one namespace."
)
@click.option("--name", default="", help="What the token is for.")
@click.option("--expires", metavar="DURATION", help="How long it is valid, such as 90d [for ever].")
@command
def create_token(
    session: CliSession,
    out: Output,
    role: str | None,
    inside: tuple[str, ...],
    name: str,
    expires: str | None,
) -> None:
    """Create a token and print it once: the catalog keeps only its hash."""
    grants = tokens.Grants.of(role, inside)
    lifetime = None if expires is None else parse_duration(expires)
    with session.ab._store.writing() as c:
        id_, secret = tokens.create(c, name, grants, deployments.who(), lifetime)
    out.note(f"token {id_}; it is not shown again")
    out.answer(secret, {"id": id_, "token": secret, "grants": grants.record})


@token.command("list")
@command
def list_tokens(session: CliSession, out: Output) -> None:
    """List the tokens: what each may do, and whether it is still valid."""
    with session.ab._store.reading() as c:
        found = tokens.listing(c)
    out.rows(found, TOKEN_COLUMNS, "no tokens yet")


@token.command("revoke")
@click.argument("id")
@command
def revoke_token(session: CliSession, out: Output, id: str) -> None:
    """End a token; a server notices within seconds."""
    with session.ab._store.writing() as c:
        tokens.revoke(c, id)
    out.answer(f"token {id} is revoked", {"id": id, "status": "revoked"})


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _server() -> ModuleType:
    try:
        from anabranch.serve import server
    except ImportError as error:
        raise Unsupported(
            f"anabranch serve needs a package that is not installed: {error.name}",
            hint="pip install 'anabranch[serve]'",
        ) from None
    return server


SERVE_COMMANDS = (serve, token)

"""Commands about attached catalogs."""

from __future__ import annotations

from typing import Any

import click

from anabranch.cli.commands import command
from anabranch.cli.output import Output
from anabranch.cli.session import CliSession
from anabranch.errors import InvalidValue

CATALOG_COLUMNS = ("catalog", "type", "properties", "tables", "problem", "table_problems")


@click.command()
@command
def catalogs(session: CliSession, out: Output) -> None:
    """List the attached catalogs, and what keeps one from being observed."""
    out.rows(session.ab.catalogs(), CATALOG_COLUMNS, "no catalog is attached")


@click.command()
@click.argument("name")
@click.argument("type")
@click.argument("properties", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--or-replace", is_flag=True, help="Change a catalog that is already attached.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if there is one.")
@command
def attach(
    session: CliSession,
    out: Output,
    name: str,
    type: str,
    properties: tuple[str, ...],
    or_replace: bool,
    if_not_exists: bool,
) -> None:
    """Attach an external catalog: its tables are read as NAME.namespace.table.

    A secret is a reference that is followed when the catalog is asked: token="ENV('PROD_TOKEN')" or
    token="FILE('/run/secrets/prod')".
    """
    given: dict[str, Any] = dict(_pair(each) for each in properties)
    session.ab.attach(name, type, or_replace=or_replace, if_not_exists=if_not_exists, **given)
    out.answer(f"{name} is attached", {"catalog": name})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidValue(f"{text!r} is not of the form name=value")
    return name, value


@click.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none.")
@command
def detach(session: CliSession, out: Output, name: str, if_exists: bool) -> None:
    """Detach a catalog; refused while anything reads one of its tables."""
    session.ab.detach(name, if_exists=if_exists)
    out.answer(f"{name} is detached", {"catalog": name})


CATALOG_COMMANDS = (attach, detach, catalogs)

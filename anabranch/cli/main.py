"""The command `anabranch`: options, commands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from anabranch import __version__
from anabranch.boundary import translate
from anabranch.cli.catalogs import CATALOG_COMMANDS
from anabranch.cli.commands import COMMANDS
from anabranch.cli.deploy import DEPLOY_COMMANDS
from anabranch.cli.output import error_text
from anabranch.cli.projects import PROJECT_COMMANDS
from anabranch.cli.serve import SERVE_COMMANDS
from anabranch.cli.session import CliSession
from anabranch.cli.tables import TABLE_COMMANDS
from anabranch.errors import AnabranchError, InternalError, UserError
from anabranch.redaction import hide

USAGE, INTERRUPTED = 1, 130


class InOrder(click.Group):
    """Lists the commands as they are given, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=InOrder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--home", metavar="PATH", help="Folder of the catalog and warehouse [.anabranch].")
@click.option("--catalog", metavar="URL", help="Catalog URL, such as postgresql://user@host/db.")
@click.option("--warehouse", metavar="PATH", help="Folder or URL of the data files.")
@click.option("--verbose", is_flag=True, help="Show Spark's log, and tracebacks of errors.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def cli(
    context: click.Context,
    home: str | None,
    catalog: str | None,
    warehouse: str | None,
    verbose: bool,
) -> None:
    """Stream tables on Apache Spark: SQL results kept up to date from the changes of their sources."""
    if home and catalog:
        raise click.UsageError("give --home or --catalog, not both")
    context.obj = CliSession(home, catalog, warehouse, verbose)


for command in (
    *(*COMMANDS, *CATALOG_COMMANDS, *TABLE_COMMANDS),
    *(*PROJECT_COMMANDS, *DEPLOY_COMMANDS, *SERVE_COMMANDS),
):
    cli.add_command(command)


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 done, 1 user, 2 refused, 3 system."""
    verbose = "--verbose" in (sys.argv[1:] if args is None else args)
    try:
        code = cli.main(args, prog_name="anabranch", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.ClickException as error:
        return _report(usage_error(error), verbose=False)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except AnabranchError as error:
        return _report(error, verbose)
    except Exception as error:
        found = translate(error)
        if isinstance(found, InternalError) and not verbose:
            found.hint = f"{found.hint}; --verbose shows where it happened"
        return _report(found, verbose)
    return code if isinstance(code, int) else 0


def usage_error(error: click.ClickException) -> AnabranchError:
    context = getattr(error, "ctx", None)
    hint = f"see {context.command_path} --help" if context else None
    return UserError(error.format_message(), hint=hint)


def _report(error: AnabranchError, verbose: bool) -> int:
    if verbose:
        click.echo(hide(traceback.format_exc()), err=True, nl=False)
    click.echo(error_text(error), err=True)
    return error.exit_code


def main() -> None:
    sys.exit(run())

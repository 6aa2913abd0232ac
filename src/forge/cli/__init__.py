"""The command line: ``forge inspect | compile | run | bench | support | cache | doctor``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from forge._version import __version__
from forge.cli import bench, cache, doctor, inspect, run, support
from forge.cli import compile as compile_
from forge.errors import ForgeError
from forge_runtime import ForgeRuntimeError

app = typer.Typer(
    name="forge",
    help="Compiles trained models into small, fast native libraries.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("inspect", epilog=inspect.EXAMPLE)(inspect.inspect)
app.command("compile", epilog=compile_.EXAMPLE)(compile_.compile_)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command("support", epilog=support.EXAMPLE)(support.support)
app.command("cache", epilog=cache.EXAMPLE)(cache.cache)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"forge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell what is being done.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(name)s: %(message)s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 0, 1 for an error, 2 for wrong usage, 70 for a defect of Forge."""
    try:
        status = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
        return int(status or 0)
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except (ForgeError, ForgeRuntimeError, OSError, ValueError) as error:
        return _fail(str(error) or type(error).__name__, 1)
    except Exception as error:
        logging.getLogger("forge").info("traceback", exc_info=True)
        return _fail(f"internal error: {type(error).__name__}: {error}; please report it, with the output of 'forge -v ...'", 70)


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def run_main() -> None:
    """Entry point of the ``forge`` script."""
    sys.exit(main())

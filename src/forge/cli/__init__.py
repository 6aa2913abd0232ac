"""The command line: ``forge inspect | view | export | compile | run | bench | profile | tune | support | cache | doctor``.

A verb is a module of this package: a function whose signature is its options, and ``EXAMPLES``, which the tests execute.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from forge._version import __version__
from forge.cli import bench, cache, doctor, export, inspect, profile, run, support, tune, view
from forge.cli import compile as compile_
from forge.errors import ForgeError

VERBS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "inspect": (inspect.inspect, inspect.EXAMPLES),
    "view": (view.view, view.EXAMPLES),
    "export": (export.export, export.EXAMPLES),
    "compile": (compile_.compile_, compile_.EXAMPLES),
    "run": (run.run, run.EXAMPLES),
    "bench": (bench.bench, bench.EXAMPLES),
    "profile": (profile.profile, profile.EXAMPLES),
    "tune": (tune.tune, tune.EXAMPLES),
    "support": (support.support, support.EXAMPLES),
    "cache": (cache.cache, cache.EXAMPLES),
    "doctor": (doctor.doctor, doctor.EXAMPLES),
}
"""By name: the function, and command lines that show its use."""

INTERNAL_ERROR = 70

app = typer.Typer(
    name="forge",
    help="Compiles trained models into small, fast native libraries.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
for _name, (_function, _examples) in VERBS.items():
    app.command(_name, epilog="\n\n".join(["Examples:", *(f"`{line}`" for line in _examples)]))(_function)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"forge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell what is being done.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", force=True)
    logging.getLogger("forge").setLevel(logging.INFO if verbose else logging.WARNING)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 0, 1 for an error, 2 for wrong usage, 70 for a defect of Forge."""
    try:
        app(args=list(arguments) if arguments is not None else None)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (ForgeError, OSError) as error:
        return _fail(str(error) or type(error).__name__, 1)
    except Exception as error:
        logging.getLogger("forge").info("traceback", exc_info=True)
        problem = f"internal error: {type(error).__name__}: {error}"
        return _fail(f"{problem}; this is a defect of Forge: please report it, with what 'forge -v ...' prints", INTERNAL_ERROR)
    return 0


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def run_main() -> None:
    """Entry point of the ``forge`` script."""
    sys.exit(main())
